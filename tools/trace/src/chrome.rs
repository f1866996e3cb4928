//! The trace event format of chrome://tracing, which ui.perfetto.dev reads too: an event a call,
//! with times in microseconds.

use crate::file::{Call, Trace};
use crate::words::{errno, number, words};
use std::io::{Result, Write};

/// Prints one JSON document.
pub fn print(trace: &Trace, to: &mut impl Write) -> Result<()> {
    writeln!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut separator = "";
    for call in &trace.calls {
        write!(to, "{separator}{}", event(trace, call))?;
        separator = ",\n";
    }
    writeln!(to, "\n]}}")
}

fn event(trace: &Trace, call: &Call) -> String {
    let answer = match call.error {
        0 => number(call.value),
        e => errno(e),
    };
    let arguments: Vec<String> = words(trace, call)
        .map(|(name, word)| (name, number(word)))
        .chain([("answer", answer)])
        .map(|(name, value)| format!("{}:{}", quoted(name), quoted(&value)))
        .collect();
    format!(
        "{{\"ph\":\"X\",\"name\":{},\"cat\":\"verbs\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\
         \"args\":{{{}}}}}",
        quoted(trace.name(call)),
        call.process,
        call.thread,
        microseconds(call.begin),
        microseconds(call.took),
        arguments.join(",")
    )
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if u32::from(c) < 0x20 => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read, tests::sample};

    #[test]
    fn events() {
        let mut out = Vec::new();
        print(&read(&sample()).expect("a trace"), &mut out).expect("printed");
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(
            "{\"ph\":\"X\",\"name\":\"ibv_poll_cq\",\"cat\":\"verbs\",\"pid\":7,\"tid\":4,\
             \"ts\":1.050,\"dur\":0.007,\"args\":{\"cq\":\"1\",\"num_entries\":\"2\",\
             \"answer\":\"EINVAL\"}}"
        ));
        assert_eq!(text.matches("\"ph\"").count(), 2);
        assert_eq!(quoted("a\"b\\\n"), "\"a\\\"b\\\\\\u000a\"");
    }
}
