#![forbid(unsafe_code)]
//! The program's objects: which there are, which there were.

use super::{CallSite, World};
use std::collections::{BTreeMap, VecDeque};

/// Destroyed objects that are remembered.
const REMEMBERED: usize = 4096;
/// Objects that are named when a context is closed with more of them.
const NAMED: usize = 10;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A protection, parent or thread domain, and so on: the C type without `ibv_`.
    Other(&'static str),
    /// A memory region.
    Region,
    /// A completion queue.
    Cq,
    /// A queue pair.
    Qp,
    /// A shared receive queue.
    Srq,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Other(name) => name,
            Self::Region => "mr",
            Self::Cq => "cq",
            Self::Qp => "qp",
            Self::Srq => "srq",
        }
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    kind: Kind,
    context: usize,
    name: String,
    pub made: CallSite,
    pub gone: Option<CallSite>,
    /// Asynchronous events about it that the program was given.
    events: u32,
    /// Completion events that the program was given.
    completion_events: u32,
    /// Distinguishes it from others at the same address.
    generation: u64,
}

/// All of them, by address.
#[derive(Debug, Default)]
pub struct Objects {
    live: BTreeMap<usize, Object>,
    dead: BTreeMap<usize, Object>,
    order: VecDeque<usize>,
    generations: u64,
}

impl Objects {
    /// An object, also one that is gone.
    pub fn known(&self, object: usize) -> Option<&Object> {
        self.live.get(&object).or_else(|| self.dead.get(&object))
    }

    pub fn name(&self, object: usize) -> String {
        let named = self.known(object).map(|known| known.name.clone());
        named.unwrap_or_else(|| format!("object {object:#x}"))
    }
}

impl World {
    /// Notes a new object. `label` describes it beyond its kind, or is empty.
    pub fn made(&mut self, kind: Kind, object: usize, context: usize, label: &str) {
        let name = match label {
            "" => format!("{} {object:#x}", kind.name()),
            label => format!("{} {label}", kind.name()),
        };
        self.objects.dead.remove(&object);
        self.forgive(object);
        // The destruction of the old object was not recorded yet.
        self.regions.remove(object);
        self.queues.remove(object);
        self.objects.generations += 1;
        let new = Object {
            kind,
            context,
            name,
            made: CallSite::here(),
            gone: None,
            events: 0,
            completion_events: 0,
            generation: self.objects.generations,
        };
        self.objects.live.insert(object, new);
    }

    /// The number that distinguishes an object from a later one at its address.
    pub fn generation(&self, object: usize) -> u64 {
        self.objects
            .live
            .get(&object)
            .map_or(0, |object| object.generation)
    }

    /// Notes that an object was destroyed, which was of that generation before the call: its
    /// memory may have been given to another meanwhile.
    pub fn destroyed(&mut self, object: usize, generation: u64) {
        if self.generation(object) != generation {
            return;
        }
        let Some(mut gone) = self.objects.live.remove(&object) else {
            return;
        };
        gone.gone = Some(CallSite::here());
        match gone.kind {
            Kind::Region => self.regions.remove(object),
            Kind::Cq | Kind::Qp | Kind::Srq => self.queues.remove(object),
            Kind::Other(_) => {}
        }
        self.forgive(object);
        self.objects.dead.insert(object, gone);
        self.objects.order.push_back(object);
        if self.objects.order.len() > REMEMBERED
            && let Some(oldest) = self.objects.order.pop_front()
        {
            self.objects.dead.remove(&oldest);
        }
    }

    /// Whether the program uses an object that it has destroyed, which is reported. `reused` means
    /// that the memory contains a live object that is not recorded.
    pub fn is_destroyed(&mut self, object: usize, reused: bool) -> bool {
        if !self.objects.dead.contains_key(&object) {
            return false;
        }
        if reused {
            self.objects.dead.remove(&object);
            return false;
        }
        let name = self.objects.name(object);
        self.find("destroyed", object, || {
            format!("{name} is used after it was destroyed; the call is refused.")
        });
        true
    }

    /// Notes that a call has just answered this address: whatever lay there before, it is an
    /// object now.
    pub fn answered(&mut self, object: usize) {
        self.objects.dead.remove(&object);
    }

    /// Counts an asynchronous event about an object.
    pub fn event(&mut self, object: usize) {
        if let Some(object) = self.objects.live.get_mut(&object) {
            object.events = object.events.wrapping_add(1);
        }
    }

    /// Counts a completion event of a queue.
    pub fn completion_event(&mut self, object: usize) {
        if let Some(object) = self.objects.live.get_mut(&object) {
            object.completion_events = object.completion_events.wrapping_add(1);
        }
    }

    /// Looks, before an object is destroyed, whether its events were acknowledged: that many
    /// asynchronous ones, and completion events.
    pub fn before_destroy(&mut self, object: usize, acked: u32, completions_acked: u32) {
        let Some(known) = self.objects.live.get(&object) else {
            return;
        };
        let missing = known.events.wrapping_sub(acked);
        let completions = known.completion_events.wrapping_sub(completions_acked);
        let name = known.name.clone();
        // More acknowledged than delivered is odd, but blocks no call.
        let few = |count: u32| count != 0 && count < 1 << 31;
        if few(completions) {
            self.find("events", object, || {
                format!(
                    "{name} is destroyed with {completions} completion events that were not \
                     acknowledged: the call waits for ibv_ack_cq_events, and hangs if no other \
                     thread calls it."
                )
            });
        }
        if few(missing) {
            self.find("events", object, || {
                format!(
                    "{name} is destroyed with {missing} asynchronous events that were not \
                     acknowledged: the call waits for ibv_ack_async_event, and hangs if no other \
                     thread calls it."
                )
            });
        }
    }

    /// Reports the remaining objects of a context that is being closed, and drops it.
    pub fn closed(&mut self, context: usize, device: &str) {
        let left: Vec<usize> = self
            .objects
            .live
            .iter()
            .filter(|(_, object)| object.context == context)
            .map(|(address, _)| *address)
            .collect();
        let count = left.len();
        for object in left.iter().take(NAMED) {
            let name = self.objects.name(*object);
            self.find("leak", *object, || {
                format!("{name} is left when {device} is closed ({count} objects in all).")
            });
        }
        for object in left {
            self.objects.live.remove(&object);
            self.regions.remove(object);
            self.queues.remove(object);
            self.forgive(object);
        }
        self.regions.close(context);
        self.contexts.remove(&context);
    }
}
