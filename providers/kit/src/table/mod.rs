//! The verbs table: one set of function pointers for every kind of provider. Nothing above the
//! table depends on the kind of provider.
//!
//! `verbs` lists each verb once: its slot, its type, the result when a provider omits it
//! (EOPNOTSUPP in the convention of its type), and the public member of `ibv_context` that mirrors
//! it. The slot numbers, the typed calls, the defaults and the mirror offsets are generated from
//! that list, and each slot is compared with `struct verbs_context_ops` at compile time.
//!
//! A context starts with the defaults in every slot and in every public member that applications
//! call unchecked. A provider then sets its verbs, once or several times. Slots are atomic, because
//! a provider may replace a verb while another thread calls through it. No slot is ever NULL.
//!
//! [`Later`] holds the verbs that came after generation 34, [`Private`] the library's own part of a
//! context.

mod default;
mod later;
mod private;
mod verbs;

pub use later::{COUNT as LATER, CompCntr, Given, Known, Later, slot as later_slot};
pub use private::Private;
pub use verbs::{SLOTS, slot};

use crate::abi::{verbs_context, verbs_context_ops};
use crate::generation::{Layout, SlotPosition};
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The verbs of one context. No slot is ever NULL.
///
/// Slots are atomic because a provider may exchange a verb (a faster poll once the queue's shape
/// is known) while another thread reads the table.
pub struct Table {
    slots: [AtomicPtr<c_void>; SLOTS],
}

impl Table {
    /// A table of defaults.
    pub fn new() -> Self {
        Self {
            slots: verbs::defaults(),
        }
    }

    fn slot(&self, slot: usize) -> *mut c_void {
        self.slots[slot].load(Ordering::Relaxed)
    }

    /// Takes over every verb that `ops` has; a NULL leaves the slot as it is.
    /// The pointers are shown in the context's public members too.
    ///
    /// # Safety
    /// `ops` is a table of this generation, `context` the context that this table belongs to.
    pub unsafe fn set(&self, context: *mut verbs_context, ops: *const verbs_context_ops) {
        // SAFETY: the structure is SLOTS function pointers and nothing else (asserted in verbs.rs).
        let given = unsafe { &*ops.cast::<[*mut c_void; SLOTS]>() };
        // SAFETY: vouched for by the caller.
        unsafe { self.take(context, given) }
    }

    /// A table with the same pointers.
    fn copy(&self) -> Self {
        let slots = core::array::from_fn(|slot| AtomicPtr::new(self.slot(slot)));
        Self { slots }
    }

    /// Takes over the pointers that are not NULL, without publishing them.
    ///
    /// # Safety
    /// `ops` is a table of this generation.
    unsafe fn take_unseen(&self, ops: *const verbs_context_ops) {
        // SAFETY: as in `set`.
        let given = unsafe { &*ops.cast::<[*mut c_void; SLOTS]>() };
        for (slot, verb) in self.slots.iter().zip(given) {
            if !verb.is_null() {
                slot.store(*verb, Ordering::Relaxed);
            }
        }
    }

    /// Shows the table's own pointers, the defaults at first, in the context's public members.
    ///
    /// # Safety
    /// `context` is the context that this table belongs to.
    pub unsafe fn show(&self, context: *mut verbs_context) {
        // SAFETY: vouched for by the caller.
        unsafe { self.mirror(context) }
    }
}

/// A provider's verbs, sorted into the places that they have here.
struct Sorted {
    table: [*mut c_void; SLOTS],
    later: [*mut c_void; LATER],
}

impl Sorted {
    /// Reads a `struct verbs_context_ops` of another layout.
    ///
    /// # Safety
    /// `ops` is such a structure.
    unsafe fn read(layout: &Layout, ops: *const c_void) -> Self {
        // SAFETY: vouched for by the caller: that many pointers and nothing else.
        let given =
            unsafe { core::slice::from_raw_parts(ops.cast::<*mut c_void>(), layout.slots()) };
        let mut sorted = Self {
            table: [core::ptr::null_mut(); SLOTS],
            later: [core::ptr::null_mut(); LATER],
        };
        for (verb, place) in given.iter().zip(layout.verbs()) {
            match place {
                SlotPosition::Table(slot) => sorted.table[slot] = *verb,
                SlotPosition::Later(slot) => sorted.later[slot] = *verb,
            }
        }
        sorted
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}
