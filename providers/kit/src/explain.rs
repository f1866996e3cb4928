#![forbid(unsafe_code)]
//! Explanations of providers for `IBVERBS_EXPLAIN`, whose output stands above them.

use std::sync::OnceLock;

static SINK: OnceLock<fn(&str)> = OnceLock::new();

/// Sends explanations there from now on. Only the first call counts.
pub fn send_to(sink: fn(&str)) {
    let _ = SINK.set(sink);
}

/// Explains something in one line. The line is made only if `IBVERBS_EXPLAIN` asks for it.
pub fn line(text: impl FnOnce() -> String) {
    if let Some(sink) = SINK.get() {
        sink(&format!("libibverbs: {}\n", text()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn keep(text: &str) {
        LINES.lock().expect("one thread").push(text.to_owned());
    }

    #[test]
    fn a_line_is_made_for_a_sink() {
        line(|| panic!("no sink"));
        send_to(keep);
        send_to(|_| ());
        line(|| "why".to_owned());
        assert_eq!(*LINES.lock().expect("one thread"), ["libibverbs: why\n"]);
    }
}
