//! A line a call.

use crate::file::{Call, Trace};
use crate::words::{errno, number, value};
use std::io::{Result, Write};

/// Prints time since the first call, process and thread, the call, its answer and how long it took.
pub fn print(trace: &Trace, to: &mut impl Write) -> Result<()> {
    let start = trace.calls.first().map_or(0, |call| call.begin);
    for call in &trace.calls {
        writeln!(to, "{}", line(trace, call, start))?;
    }
    Ok(())
}

fn line(trace: &Trace, call: &Call, start: u64) -> String {
    let since = call.begin.saturating_sub(start);
    let words = joined(trace.name(call), trace.words(call));
    let groups: String = trace
        .groups(call)
        .map(|group| format!(" [{}]", joined(trace.name(call), group)))
        .collect();
    let answer = match call.error {
        0 => number(call.value),
        e => errno(e),
    };
    format!(
        "{:>6}.{:09} {}/{} {}({words}{groups}) = {answer} <{} ns>",
        since / 1_000_000_000,
        since % 1_000_000_000,
        call.process,
        call.thread,
        trace.name(call),
        call.took
    )
}

/// Words with their names, in a row.
pub fn joined<'a>(call: &str, words: impl Iterator<Item = (&'a str, u64)>) -> String {
    let words = words.map(|(name, word)| format!("{name} {}", value(call, name, word)));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read, tests::sample};

    #[test]
    fn lines() {
        let mut out = Vec::new();
        print(&read(&sample()).expect("a trace"), &mut out).expect("printed");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "     0.000000000 7/4 ibv_alloc_pd(context 0x10000) = 300 <90 ns>\n     \
             0.000000040 7/4 ibv_poll_cq(cq 1, num_entries 2) = EINVAL <7 ns>\n"
        );
    }
}
