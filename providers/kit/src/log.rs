#![forbid(unsafe_code)]
//! Messages of providers for the library's log, which stands above them.

use std::sync::OnceLock;

/// How bad a message is: the numbers of `VERBS_LOG_LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// A call fails.
    Error = 1,
    /// Something is left out.
    Warning = 2,
    /// Findings.
    Info = 3,
}

static SINK: OnceLock<fn(Level, &str)> = OnceLock::new();

/// Sends messages there from now on. Only the first call counts.
pub fn send_to(sink: fn(Level, &str)) {
    let _ = SINK.set(sink);
}

/// Logs one line, without its end. Without a log it is lost.
pub fn line(level: Level, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

    fn keep(level: Level, text: &str) {
        if let Ok(mut lines) = LINES.lock() {
            lines.push((level, text.to_owned()));
        }
    }

    #[test]
    fn the_first_sink_gets_the_lines() {
        line(Level::Error, "lost");
        send_to(keep);
        send_to(|_, _| ());
        line(Level::Warning, "kept");
        let lines = LINES.lock().expect("one thread");
        assert_eq!(*lines, [(Level::Warning, "kept".to_owned())]);
    }
}
