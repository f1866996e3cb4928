//! From facts to findings.
//!
//! The order is that of cause and effect: what stands first has to be put right first, and may be
//! the reason for what follows. A finding that follows from another one is left out.

mod library;
mod machine;
mod ports;

use crate::facts::Facts;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Good to know.
    Note,
    /// Works, but not as well as it could, or not in every case.
    Warning,
    /// Something does not work.
    Problem,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name, for scripts.
    pub id: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// What it is about: a device, a card, a provider. Empty for the machine.
    pub about: String,
    /// What is wrong, in a sentence.
    pub what: String,
    /// Why it matters or where it comes from.
    pub why: String,
    /// What to type; lines that begin with `#` are words.
    pub commands: Vec<String>,
}

impl Finding {
    fn new(id: &'static str, weight: Weight, what: impl Into<String>) -> Self {
        Self {
            id,
            weight,
            about: String::new(),
            what: what.into(),
            why: String::new(),
            commands: Vec::new(),
        }
    }

    fn problem(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Problem, what)
    }

    fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Warning, what)
    }

    fn note(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Note, what)
    }

    fn about(mut self, about: &str) -> Self {
        about.clone_into(&mut self.about);
        self
    }

    fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    fn type_(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}

/// All findings, in the order in which to deal with them.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    machine::kernel(facts, &mut findings);
    machine::cards(facts, &mut findings);
    machine::nodes(facts, &mut findings);
    library::plugins(facts, &mut findings);
    library::devices(facts, &mut findings);
    library::memory(facts, &mut findings);
    ports::all(facts, &mut findings);
    library::uroce(facts, &mut findings);
    findings
}

/// The devices that a program can use now: open, with an active port.
pub fn usable(facts: &Facts) -> impl Iterator<Item = &str> {
    let devices = facts.verbs.iter().flat_map(|verbs| &verbs.devices);
    devices
        .filter(|device| {
            let active = |port: &crate::facts::VerbsPort| port.state == crate::facts::PORT_ACTIVE;
            device.error.is_none() && device.ports.iter().any(active)
        })
        .map(|device| device.name.as_str())
}

#[cfg(test)]
mod tests;
