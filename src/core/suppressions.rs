#![forbid(unsafe_code)]
//! The reports of `IBVERBS_VALIDATE` that the user does not want.
//!
//! A rule is the identifier of a report, or `*` for all, and optionally a text. It applies to a
//! report with that identifier and that text in one of its lines: a function, a file, an object.

/// The identifiers of reports. docs/explain.md has a line for each.
pub const CHECKS: [&str; 15] = [
    "access",
    "attribute",
    "destroyed",
    "domain",
    "events",
    "inline",
    "key",
    "leak",
    "overflow",
    "overrun",
    "range",
    "receives",
    "state",
    "unmapped",
    "unsignalled",
];

/// The rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Suppressions(Vec<Rule>);

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    id: String,
    /// Empty for all reports of that identifier.
    text: String,
}

impl Suppressions {
    /// Suppresses all reports with an identifier.
    pub fn ignore(&mut self, id: &str) {
        self.0.push(Rule {
            id: id.to_owned(),
            text: String::new(),
        });
    }

    /// Adds the rules of a file: one a line, the text after a space. `#` begins a comment line.
    pub fn add_file(&mut self, content: &str) {
        for line in content.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            self.0.push(Rule {
                id: id.to_owned(),
                text: text.trim().to_owned(),
            });
        }
    }

    /// The identifiers of the rules, `*` left out.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let ids = self.0.iter().map(|rule| rule.id.as_str());
        ids.filter(|id| *id != "*")
    }

    /// Whether a rule applies to a report.
    pub fn apply_to(&self, id: &str, report: &str) -> bool {
        self.0.iter().any(|rule| {
            let is_meant = rule.id == "*" || rule.id == id;
            is_meant && report.lines().any(|line| line.contains(&rule.text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "libibverbs: invalid (leak): A cq was not destroyed.\n    \
                          made by: open_pool (./pool.c:7)\n";

    #[test]
    fn rules_apply_by_identifier_and_text() {
        let suppressed = |rules: &str| {
            let mut suppressions = Suppressions::default();
            suppressions.add_file(rules);
            suppressions.apply_to("leak", REPORT)
        };
        for rules in [
            "leak",
            "leak open_pool",
            "* ./pool.c:7",
            "# x\n\nkey\n leak \t a cq\nleak cq",
        ] {
            assert!(suppressed(rules), "{rules}");
        }
        for rules in ["", "key", "leak close_pool", "# leak", "* main"] {
            assert!(!suppressed(rules), "{rules}");
        }
    }

    #[test]
    fn identifiers_are_listed() {
        let mut suppressions = Suppressions::default();
        suppressions.ignore("leak");
        suppressions.add_file("* main\nkey x");
        assert_eq!(suppressions.ids().collect::<Vec<_>>(), ["leak", "key"]);
        assert!(suppressions.apply_to("leak", REPORT));
    }
}
