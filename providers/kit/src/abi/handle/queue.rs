//! The members of queues that the library reads and writes: event counts, state and extended half.
//!
//! Every queue counts the events that applications acknowledged; its destruction waits until the
//! count reaches the device's number of reported events (ibv_get_async_event(3),
//! ibv_get_cq_event(3)).

use super::{CompChannel, Cq, Ctx, Pd, Qp, Srq, Wq};
use crate::abi::*;
use crate::{errno::Errno, sys::pthread};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicI32, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::os::fd::BorrowedFd;

/// Adds to a counter of the object with its mutex held, and wakes the threads that wait for it.
macro_rules! acknowledge {
    ($object:expr, $counter:ident, $events:expr) => {{
        let object = $object.as_ptr();
        // SAFETY: the object is live, its mutex and condition were made ready at creation.
        unsafe {
            let guard = pthread::lock(&raw mut (*object).mutex);
            // Atomically, as the C part of the library reads it without the mutex.
            AtomicU32::from_ptr(&raw mut (*object).$counter).fetch_add($events, Release);
            guard.wake(&raw mut (*object).cond);
        }
    }};
}

/// The counters, read together.
macro_rules! acknowledged {
    ($object:expr, $($counter:ident),+) => {{
        let object = $object.as_ptr();
        // SAFETY: as above; counters are read with the mutex held.
        unsafe {
            let _guard = pthread::lock(&raw mut (*object).mutex);
            [$( (*object).$counter ),+]
        }
    }};
}

/// Waits until a counter is another than it was. No cancellation point.
macro_rules! wait {
    ($object:expr, $seen:expr, $($counter:ident),+) => {{
        let object = $object.as_ptr();
        // SAFETY: as above.
        unsafe {
            let mut guard = pthread::lock(&raw mut (*object).mutex);
            guard.wait_until(&raw mut (*object).cond, || [$( (*object).$counter ),+] != $seen);
        }
    }};
}

/// The result of destroying an object of a provider in Rust while the program has unacknowledged
/// events of it. The library waits for the acknowledgements, and then asks again; no errno has this
/// value.
pub const UNACKED: c_int = c_int::MAX;

impl Cq<'_> {
    /// Fills in the library's members of a new queue, and counts it on its channel.
    ///
    /// # Safety
    /// `raw` is a provider's new queue to which nothing else refers yet.
    pub unsafe fn init(
        raw: *mut ibv_cq,
        ctx: Ctx<'_>,
        channel: Option<CompChannel<'_>>,
        cq_context: *mut c_void,
    ) {
        if let Some(channel) = channel {
            channel.hold();
        }
        // SAFETY: vouched for by the caller.
        unsafe {
            (*raw).context = ctx.as_ptr();
            (*raw).channel = channel.map_or(core::ptr::null_mut(), CompChannel::as_ptr);
            (*raw).cq_context = cq_context;
            (*raw).comp_events_completed = 0;
            (*raw).async_events_completed = 0;
            pthread::init_mutex(&raw mut (*raw).mutex);
            pthread::init_cond(&raw mut (*raw).cond);
        }
    }

    /// The application's value at creation.
    pub fn cq_context(self) -> *mut c_void {
        // SAFETY: the queue is live.
        unsafe { (*self.as_ptr()).cq_context }
    }

    /// The channel that completion events go to.
    pub fn channel(self) -> Option<CompChannel<'static>> {
        // SAFETY: a queue's channel outlives it (EBUSY otherwise).
        unsafe { CompChannel::from_raw((*self.as_ptr()).channel) }.ok()
    }

    /// Counts acknowledged completion events.
    pub fn ack_comp(self, events: u32) {
        acknowledge!(self, comp_events_completed, events);
    }

    /// Counts acknowledged asynchronous events.
    pub fn ack_async(self, events: u32) {
        acknowledge!(self, async_events_completed, events);
    }

    /// How many events were acknowledged: of completions, asynchronous.
    pub fn acked(self) -> [u32; 2] {
        acknowledged!(self, comp_events_completed, async_events_completed)
    }

    /// Waits until more events than these were acknowledged. No cancellation point.
    pub fn wait_acked(self, seen: [u32; 2]) {
        wait!(self, seen, comp_events_completed, async_events_completed);
    }
}

impl<'a> CompChannel<'a> {
    /// The descriptor that completion events are read from.
    ///
    /// # Errors
    /// EBADF when the channel has none.
    pub fn fd(self) -> Result<BorrowedFd<'a>, Errno> {
        // SAFETY: the channel is live.
        let fd = unsafe { (*self.as_ptr()).fd };
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the channel owns the descriptor.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// The number of queues on the channel. Applications and providers do not change it.
    fn count(&self) -> &AtomicI32 {
        // SAFETY: the channel is live; all access in this library is through this.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.as_ptr()).refcnt) }
    }

    /// Counts one more queue on the channel.
    pub fn hold(self) {
        self.count().fetch_add(1, Relaxed);
    }

    /// Counts one queue less. The channel may be freed after that.
    pub fn release(self) {
        self.count().fetch_sub(1, Release);
    }

    /// Whether a queue uses the channel.
    pub fn in_use(self) -> bool {
        self.count().load(Acquire) != 0
    }
}

impl Ctx<'_> {
    /// Locks the context's mutex.
    pub fn lock(self) -> pthread::Guard<'static> {
        // SAFETY: an open context's mutex is ready, and stays so while the lock is held: a
        // context is closed after its last use.
        unsafe { pthread::lock(&raw mut (*self.as_ptr()).mutex) }
    }
}

impl Qp<'_> {
    /// Makes the event count of a new queue pair ready.
    ///
    /// # Safety
    /// `raw` is a provider's new queue pair to which nothing else refers yet.
    pub unsafe fn init_events(raw: *mut ibv_qp) {
        // SAFETY: vouched for by the caller.
        unsafe {
            (*raw).events_completed = 0;
            pthread::init_mutex(&raw mut (*raw).mutex);
            pthread::init_cond(&raw mut (*raw).cond);
        }
    }

    /// Notes the state that the kernel accepted or reported.
    pub fn set_state(self, state: ibv_qp_state) {
        // SAFETY: the queue pair is live; the member is the application's to read.
        unsafe { (*self.as_ptr()).state = state }
    }

    /// The extended half, NULL when the queue pair was not made with it.
    pub fn extended(self) -> *mut ibv_qp_ex {
        let qp = self.as_ptr();
        let offset = self.ctx().private().layout().qp_mask;
        // SAFETY: providers embed every queue pair in the verbs_qp of their generation, which has
        // its mask there.
        let mask = unsafe { qp.byte_add(offset).cast::<u32>().read() };
        if mask & VERBS_QP_EX == 0 {
            return core::ptr::null_mut();
        }
        qp.cast()
    }

    /// Counts acknowledged asynchronous events.
    pub fn ack_async(self, events: u32) {
        acknowledge!(self, events_completed, events);
    }

    /// How many asynchronous events were acknowledged.
    pub fn acked(self) -> [u32; 1] {
        acknowledged!(self, events_completed)
    }

    /// Waits until more events than these were acknowledged. No cancellation point.
    pub fn wait_acked(self, seen: [u32; 1]) {
        wait!(self, seen, events_completed);
    }
}

impl Srq<'_> {
    /// Makes the event count of a new queue ready.
    ///
    /// # Safety
    /// `raw` is a provider's new queue to which nothing else refers yet.
    pub unsafe fn init_events(raw: *mut ibv_srq) {
        // SAFETY: vouched for by the caller.
        unsafe {
            (*raw).events_completed = 0;
            pthread::init_mutex(&raw mut (*raw).mutex);
            pthread::init_cond(&raw mut (*raw).cond);
        }
    }

    /// Fills in the library's members of a new queue.
    ///
    /// # Safety
    /// `raw` is a provider's new queue to which nothing else refers yet.
    pub unsafe fn init(raw: *mut ibv_srq, pd: Pd<'_>, srq_context: *mut c_void) {
        // SAFETY: vouched for by the caller.
        unsafe {
            (*raw).context = pd.ctx().as_ptr();
            (*raw).srq_context = srq_context;
            (*raw).pd = pd.as_ptr();
            Self::init_events(raw);
        }
    }

    /// Counts acknowledged asynchronous events.
    pub fn ack_async(self, events: u32) {
        acknowledge!(self, events_completed, events);
    }

    /// How many asynchronous events were acknowledged.
    pub fn acked(self) -> [u32; 1] {
        acknowledged!(self, events_completed)
    }

    /// Waits until more events than these were acknowledged. No cancellation point.
    pub fn wait_acked(self, seen: [u32; 1]) {
        wait!(self, seen, events_completed);
    }
}

impl Wq<'_> {
    /// Counts acknowledged asynchronous events.
    pub fn ack_async(self, events: u32) {
        acknowledge!(self, events_completed, events);
    }
}
