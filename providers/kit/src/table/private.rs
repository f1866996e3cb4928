//! The library's own part of a context.

use super::{Given, Later, Sorted, Table};
use crate::abi::{verbs_context, verbs_context_ops};
use crate::generation::{self, Layout};
use crate::provider::Edges;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The structure that `verbs_context::priv` points to. Providers never access it.
pub struct Private {
    /// Kernel driver of the device (`enum rdma_driver_id`); goes into every ioctl header.
    pub driver_id: u32,
    /// The context came from `ibv_import_device`.
    pub imported: AtomicBool,
    /// The kernel carries write commands inside its ioctl interface.
    pub ioctl_write: AtomicBool,
    /// Number of the command descriptor, -1 without one and once the context is closed.
    cmd_fd: AtomicI32,
    /// Number of the descriptor for asynchronous events, -1 without one.
    async_fd: AtomicI32,
    /// One bit a command: the kernel answered that it has no such ioctl.
    unsupported: [AtomicU64; 2],
    /// The provider, if it is one in user space.
    edges: OnceLock<Arc<dyn Edges>>,
    /// The layout of the structures that the provider shares with the library.
    layout: &'static Layout,
    is_in_rust: bool,
    /// Verbs of the provider besides the table.
    later: Later,
    /// The provider's verbs, every missing one filled with its default; or the verbs that cover
    /// them.
    pub verbs: Table,
    /// The provider's verbs, once others cover them.
    beneath: OnceLock<Box<Table>>,
}

impl Private {
    /// A private part with a table of defaults, for a provider in Rust.
    pub fn new(driver_id: u32) -> Self {
        Self {
            is_in_rust: true,
            ..Self::laid_out(driver_id, &generation::OWN)
        }
    }

    /// The same for a provider in C.
    pub fn laid_out(driver_id: u32, layout: &'static Layout) -> Self {
        Self {
            driver_id,
            imported: AtomicBool::new(false),
            ioctl_write: AtomicBool::new(false),
            cmd_fd: AtomicI32::new(-1),
            async_fd: AtomicI32::new(-1),
            unsupported: [AtomicU64::new(0), AtomicU64::new(0)],
            edges: OnceLock::new(),
            layout,
            is_in_rust: false,
            later: Later::new(layout.first),
            verbs: Table::new(),
            beneath: OnceLock::new(),
        }
    }

    /// The provider's answers to queries that the library sends to the kernel for other devices;
    /// `None` for those.
    pub fn edges(&self) -> Option<&dyn Edges> {
        self.edges.get().map(AsRef::as_ref)
    }

    /// The layout of the structures that the provider shares with the library.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Whether the provider is one in Rust, none of whose verbs is a cancellation point.
    pub fn is_in_rust(&self) -> bool {
        self.is_in_rust
    }

    /// The verbs of later releases.
    pub fn later(&self) -> &Later {
        &self.later
    }

    /// Takes over the later verbs of a provider in Rust.
    pub fn set_later(&self, given: &Given) {
        self.later.set(given);
    }

    /// Takes over the verbs that a provider in C sets, in the layout of its generation.
    ///
    /// # Safety
    /// `ops` is a `struct verbs_context_ops` of [`Self::layout`]; `context` the context that this
    /// is the private part of.
    pub unsafe fn set_laid_out(&self, context: *mut verbs_context, ops: *const c_void) {
        if self.layout.has_our_verbs() {
            // SAFETY: vouched for by the caller.
            return unsafe { self.set_verbs(context, ops.cast()) };
        }
        // SAFETY: as above; the sorted pointers are those of the structure of this crate.
        unsafe {
            let sorted = Sorted::read(self.layout, ops);
            self.set_verbs(context, (&raw const sorted.table).cast());
            self.later.take(&sorted.later);
        }
    }

    /// Takes over the verbs that a provider sets, whether they are covered or not.
    ///
    /// # Safety
    /// `ops` is a table of this generation, `context` the context that this is the private part of.
    pub unsafe fn set_verbs(&self, context: *mut verbs_context, ops: *const verbs_context_ops) {
        match self.beneath.get() {
            // SAFETY: vouched for by the caller.
            Some(beneath) => unsafe { beneath.take_unseen(ops) },
            // SAFETY: as above.
            None => unsafe { self.verbs.set(context, ops) },
        }
    }

    /// Puts `ops`, which has every verb, between the callers and the provider's verbs: those are
    /// found in [`Self::beneath`] from then on. The first cover stays.
    ///
    /// # Safety
    /// As for [`Self::set_verbs`]; nothing else refers to the context yet.
    pub unsafe fn cover(&self, context: *mut verbs_context, ops: *const verbs_context_ops) {
        if self.beneath.set(Box::new(self.verbs.copy())).is_ok() {
            // SAFETY: vouched for by the caller.
            unsafe { self.verbs.set(context, ops) }
        }
    }

    /// The provider's verbs, if others cover them.
    pub fn beneath(&self) -> Option<&Table> {
        self.beneath.get().map(AsRef::as_ref)
    }

    /// Notes the provider of a context that is being opened. The first one stays.
    pub fn set_edges(&self, edges: Arc<dyn Edges>) {
        self.edges.get_or_init(|| edges);
    }

    /// Number of the command descriptor, -1 if there is none (any more).
    pub fn cmd_fd(&self) -> c_int {
        self.cmd_fd.load(Ordering::Relaxed)
    }

    /// Number of the descriptor for asynchronous events, -1 if there is none (any more).
    pub fn async_fd(&self) -> c_int {
        self.async_fd.load(Ordering::Relaxed)
    }

    /// Notes the command descriptor, which the context owns.
    pub(crate) fn set_cmd_fd(&self, fd: c_int) {
        self.cmd_fd.store(fd, Ordering::Relaxed);
    }

    /// Notes the descriptor for asynchronous events, which the context owns.
    pub(crate) fn set_async_fd(&self, fd: c_int) {
        self.async_fd.store(fd, Ordering::Relaxed);
    }

    /// Whether the kernel has already refused the ioctl of this command (a slot number below 128).
    pub fn ioctl_unsupported(&self, slot: usize) -> bool {
        let Some(word) = self.unsupported.get(slot / 64) else {
            return false;
        };
        word.load(Ordering::Relaxed) & (1 << (slot % 64)) != 0
    }

    /// Remembers that the kernel has no ioctl for this command.
    pub fn set_ioctl_unsupported(&self, slot: usize) {
        if let Some(word) = self.unsupported.get(slot / 64) {
            word.fetch_or(1 << (slot % 64), Ordering::Relaxed);
        }
    }

    /// Remembers that the kernel has no ioctl at all.
    pub fn set_all_ioctls_unsupported(&self) {
        for word in &self.unsupported {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    }
}
