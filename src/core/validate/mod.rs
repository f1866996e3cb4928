#![forbid(unsafe_code)]
//! The checks of `IBVERBS_VALIDATE`: they track the program's objects and posted requests, and find
//! calls that cannot be right.
//!
//! [`World`] records objects, keys, and requests that have not completed. `export::observe` reports
//! each call and its outcome to it, and each check is a function of the recorded state. A mistake
//! is reported once for each object. Where the state of a queue cannot be known (completions
//! without a queue pair number, completions out of order), that queue is no longer checked, so that
//! no false report appears.
//!
//! *Invariants.* Requests count as posted before the provider gets them, because their completions
//! may be polled before the call returns; requests that the provider refuses are removed again. The
//! end of an object is recorded only for the object that had the address before the call, because
//! memory, key or number may belong to another object when the call returns.

mod attributes;
mod completions;
mod finding;
mod memory;
mod object;
mod queue;
mod requests;

pub use completions::Completion;
pub use finding::CallSite;
pub use memory::NewRegion;
pub use object::Kind;
pub use queue::{NewQueuePair, SharedQueue};
pub use requests::{Piece, Receive, Send};

use crate::core::report;
use crate::core::suppressions::CHECKS;
use finding::Finding;
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use memory::Regions;
use object::Objects;
use queue::Queues;
use std::collections::{BTreeMap, BTreeSet};

static WORLD: PerProcess<Mutex<World>> = PerProcess::new();

/// Everything that is known of the program's objects. A forked child starts with nothing.
#[derive(Debug, Default)]
pub struct World {
    objects: Objects,
    regions: Regions,
    queues: Queues,
    /// Open contexts; whether the memory of their destroyed objects is kept.
    contexts: BTreeMap<usize, bool>,
    reported: BTreeSet<(&'static str, usize)>,
    findings: Vec<Finding>,
}

impl World {
    /// Notes a mistake about an object, unless it is known.
    fn find(&mut self, check: &'static str, about: usize, text: impl FnOnce() -> String) {
        self.find_one_of(check, check, about, text);
    }

    /// The same for a check that finds different mistakes: each is noted, unless it is known.
    fn find_one_of(
        &mut self,
        check: &'static str,
        mistake: &'static str,
        about: usize,
        text: impl FnOnce() -> String,
    ) {
        debug_assert!(CHECKS.contains(&check), "{check}");
        if !self.reported.insert((mistake, about)) {
            return;
        }
        let object = self.objects.known(about);
        let made = object.map(|object| object.made.clone());
        let gone = object.and_then(|object| object.gone.clone());
        self.findings.push(Finding::new(check, text(), made, gone));
    }

    /// Records a new context. `seen` means that all its keys are made by observed calls, `kept`
    /// that the memory of destroyed objects remains unchanged.
    pub fn opened(&mut self, context: usize, seen: bool, kept: bool) {
        self.contexts.insert(context, kept);
        if seen {
            self.keys_are_seen(context);
        }
    }

    /// Whether memory that names this context holds an object, though one that lay there was
    /// destroyed: objects made by a vendor's own calls are not in the books.
    pub fn is_reused(&self, context: usize) -> bool {
        self.contexts.get(&context) == Some(&false)
    }

    /// An object that is gone may be accused again when another has its address.
    fn forgive(&mut self, object: usize) {
        self.reported.retain(|(_, about)| *about != object);
    }
}

/// Updates the records, then reports the findings, with no lock held.
pub fn with<T: Default>(work: impl FnOnce(&mut World) -> T) -> T {
    let Ok(world) = WORLD.get() else {
        return T::default();
    };
    let (answer, findings) = {
        let mut world = world.lock();
        let answer = work(&mut world);
        (answer, std::mem::take(&mut world.findings))
    };
    for finding in findings {
        report::invalid(finding.check(), &finding.text());
    }
    answer
}

#[cfg(test)]
mod tests;
