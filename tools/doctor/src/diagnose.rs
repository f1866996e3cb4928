//! From facts to findings.
//!
//! The order is that of cause and effect: an earlier finding has to be resolved first, and may be
//! the reason for later ones. A finding that follows from another one is left out.

mod cm;
mod finding;
mod library;
mod machine;
mod next;
mod ports;

use crate::facts::Facts;
pub use finding::{Finding, Weight, usable};
pub use next::next;

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
    cm::all(facts, &mut findings);
    library::uroce(facts, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
