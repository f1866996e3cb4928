//! One test's result, and the line it is written as: name, result and reason, tab-separated.
#![forbid(unsafe_code)]

use std::fmt;

use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ran and was right.
    Ok,
    /// Did not run, for the reason given.
    Skip,
    /// Ended with the error given, which is the right answer of a device that lacks something.
    Refused,
    /// Ran and was wrong.
    Fail,
    /// Ended neither well nor badly, and was killed after minutes.
    Hung,
    /// Ran over another libibverbs than the one under test.
    WrongLibrary,
}

const VERDICTS: [(Verdict, &str); 6] = [
    (Verdict::Ok, "ok"),
    (Verdict::Skip, "skip"),
    (Verdict::Refused, "refused"),
    (Verdict::Fail, "fail"),
    (Verdict::Hung, "hung"),
    (Verdict::WrongLibrary, "wrong-library"),
];

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = VERDICTS.iter().find(|(verdict, _)| verdict == self);
        f.write_str(text.map_or("?", |(_, text)| text))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub verdict: Verdict,
    pub reason: String,
}

impl Record {
    pub fn new(name: impl Into<String>, verdict: Verdict, reason: impl AsRef<str>) -> Self {
        // Tabs and line ends would break the line the record is written as.
        let reason = reason.as_ref().split_whitespace().collect::<Vec<_>>();
        Self {
            name: name.into(),
            verdict,
            reason: reason.join(" "),
        }
    }

    /// Whether this equals the other record, which is from the expected list.
    ///
    /// The reason of a skip or a refusal is a part of the answer (it names the errno); that of a
    /// failure holds addresses and line numbers, and is not.
    pub fn agrees_with(&self, expected: &Self) -> bool {
        let reason_counts = matches!(expected.verdict, Verdict::Skip | Verdict::Refused);
        self.verdict == expected.verdict && (!reason_counts || self.reason == expected.reason)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.name, self.verdict)?;
        if self.reason.is_empty() {
            return Ok(());
        }
        write!(f, "\t{}", self.reason)
    }
}

/// Parses a list: blank lines and those that begin with `#` are ignored.
pub fn parse_list(text: &str) -> Result<Vec<Record>> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(parse_line)
        .collect()
}

fn parse_line(line: &str) -> Result<Record> {
    let mut fields = line.splitn(3, '\t');
    let (Some(name), Some(result)) = (fields.next(), fields.next()) else {
        bail!("a result needs a name, a tab and a word: {line:?}");
    };
    let known = VERDICTS.iter().find(|(_, text)| *text == result);
    let (verdict, _) = known.with_context(|| format!("unknown result {result:?} in {line:?}"))?;
    Ok(Record::new(
        name,
        *verdict,
        fields.next().unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for record in [
            Record::new("a b", Verdict::Ok, ""),
            Record::new("c", Verdict::Skip, "no\tsuch\n device"),
            Record::new("d", Verdict::WrongLibrary, "x"),
        ] {
            let lines = format!("# comment\n\n{record}\n");
            assert_eq!(parse_list(&lines).ok(), Some(vec![record]));
        }
    }

    #[test]
    fn unknown_words_are_errors() {
        assert!(parse_list("a\tOK").is_err());
        assert!(parse_list("a ok").is_err());
    }

    #[test]
    fn the_reason_of_a_skip_counts_and_that_of_a_failure_does_not() {
        let skip = |reason| Record::new("t", Verdict::Skip, reason);
        let fail = |reason| Record::new("t", Verdict::Fail, reason);
        assert!(!skip("EINVAL").agrees_with(&skip("ENOSYS")));
        assert!(fail("line 3").agrees_with(&fail("line 4")));
        assert!(!fail("x").agrees_with(&skip("x")));
    }
}
