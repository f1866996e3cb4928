//! Calls, failures and latencies of each verb.

use crate::file::Trace;
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// Widths of the histogram's bars at most.
const BAR: u64 = 40;

/// The calls of one name.
#[derive(Debug, Default)]
struct Verb {
    calls: u64,
    failed: u64,
    total: u64,
    longest: u64,
    /// How many took less than 2^n nanoseconds, and no less than half of that.
    below: BTreeMap<u32, u64>,
}

/// Prints a table of all verbs, the one that took the most time first, then a histogram of each.
pub fn print(trace: &Trace, to: &mut impl Write) -> Result<()> {
    let mut verbs: BTreeMap<&str, Verb> = BTreeMap::new();
    for call in &trace.calls {
        let verb = verbs.entry(trace.name(call)).or_default();
        verb.calls += 1;
        verb.failed += u64::from(call.error != 0);
        verb.total = verb.total.saturating_add(call.took);
        verb.longest = verb.longest.max(call.took);
        *verb
            .below
            .entry(64 - call.took.leading_zeros())
            .or_default() += 1;
    }
    let mut order: Vec<_> = verbs.iter().collect();
    order.sort_by_key(|(_, verb)| std::cmp::Reverse(verb.total));
    writeln!(
        to,
        "{:<32} {:>10} {:>8} {:>14} {:>10} {:>12}",
        "verb", "calls", "failed", "total ns", "mean ns", "longest ns"
    )?;
    for (name, verb) in &order {
        let mean = verb.total / verb.calls.max(1);
        writeln!(
            to,
            "{name:<32} {:>10} {:>8} {:>14} {mean:>10} {:>12}",
            verb.calls, verb.failed, verb.total, verb.longest
        )?;
    }
    for (name, verb) in order {
        writeln!(to, "\n{name}")?;
        histogram(verb, to)?;
    }
    Ok(())
}

fn histogram(verb: &Verb, to: &mut impl Write) -> Result<()> {
    let most = verb.below.values().max().copied().unwrap_or(1).max(1);
    for (power, calls) in &verb.below {
        let width = usize::try_from(calls.saturating_mul(BAR).div_ceil(most)).unwrap_or(0);
        let below = 1u128 << power;
        writeln!(to, "  < {below:>12} ns {calls:>10} {}", "#".repeat(width))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read, tests::sample};

    #[test]
    fn the_longest_comes_first() {
        let mut out = Vec::new();
        print(&read(&sample()).expect("a trace"), &mut out).expect("printed");
        let text = String::from_utf8_lossy(&out);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["ibv_alloc_pd", "1", "0", "90", "90", "90"]);
        assert_eq!(rows[2], ["ibv_poll_cq", "1", "1", "7", "7", "7"]);
        assert!(text.contains("  <          128 ns          1 ####"));
        assert!(text.contains("  <            8 ns          1 ####"));
    }
}
