//! Requests to bind a window, between being posted and being carried out
//! (ibv_bind_mw(3)).

use crate::memory::Binding;
use std::collections::HashMap;

/// Bindings by the names that the engine has for them.
#[derive(Default)]
pub struct Binds {
    waiting: HashMap<u64, Binding>,
    next: u64,
}

impl Binds {
    /// Keeps one; returns its name.
    pub fn keep(&mut self, binding: Binding) -> u64 {
        let name = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(name, binding);
        name
    }

    /// Takes a binding whose turn has come.
    pub fn take(&mut self, name: u64) -> Option<Binding> {
        self.waiting.remove(&name)
    }

    /// Forgets those of requests that were flushed.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
