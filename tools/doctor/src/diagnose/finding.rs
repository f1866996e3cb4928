//! The findings of a diagnosis, and their severity.

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
    /// The subject: a device, a card, a provider. Empty for the machine.
    pub about: String,
    /// The problem, in a sentence.
    pub what: String,
    /// Why it matters or where it comes from.
    pub why: String,
    /// Commands that help; lines that begin with `#` are explanations.
    pub commands: Vec<String>,
}

impl Finding {
    pub(super) fn new(id: &'static str, weight: Weight, what: impl Into<String>) -> Self {
        Self {
            id,
            weight,
            about: String::new(),
            what: what.into(),
            why: String::new(),
            commands: Vec::new(),
        }
    }

    pub(super) fn problem(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Problem, what)
    }

    pub(super) fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Warning, what)
    }

    pub(super) fn note(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Weight::Note, what)
    }

    pub(super) fn about(mut self, about: &str) -> Self {
        about.clone_into(&mut self.about);
        self
    }

    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn type_(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
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
