//! Events of completions that come together are reported together.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Some queue of this process has a channel, or had one: in most programs that poll none has, and
/// the thread's places cost more than all else that a turn does.
static DEFERS: AtomicBool = AtomicBool::new(false);

/// There is a queue with a channel.
pub(super) fn may_be_reported() {
    DEFERS.store(true, Relaxed);
}

/// Events of one queue, which may wait for the end of a turn.
pub(super) trait Deferred {
    /// Reports the event, because the turn that deferred it has ended.
    fn report(&self);
}

thread_local! {
    /// The events that this thread reports at the end of its turn; `None` outside of one.
    static DUE: RefCell<Option<Vec<Arc<dyn Deferred>>>> = const { RefCell::new(None) };
}

/// While there is one, completion events of this thread are deferred, so that a queue reports one
/// event for the completions of a packet, or of packets that came together. Otherwise the program
/// would be woken by the first of several completions, request the next event, and get one for a
/// completion that it may have polled by then.
///
/// Dropping it reports the events. A turn within a turn is part of it.
pub struct Turn {
    is_outer: bool,
    /// It ends in the thread that began it.
    _not_send: PhantomData<*const ()>,
}

impl Turn {
    /// Begins.
    #[must_use]
    #[inline]
    pub fn begin() -> Self {
        if DEFERS.load(Relaxed) {
            return Self::begin_reports();
        }
        Self {
            is_outer: false,
            _not_send: PhantomData,
        }
    }

    // Not inlined, like the end: otherwise turns without events would look up the thread's
    // variable, too.
    #[cold]
    #[inline(never)]
    fn begin_reports() -> Self {
        let is_outer = with(|due| {
            let is_outer = due.is_none();
            due.get_or_insert_default();
            is_outer
        });
        Self {
            is_outer: is_outer.unwrap_or(false),
            _not_send: PhantomData,
        }
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        if self.is_outer {
            report_all();
        }
    }
}

#[cold]
#[inline(never)]
fn report_all() {
    for events in with(Option::take).flatten().into_iter().flatten() {
        events.report();
    }
}

/// Puts an event off to the end of the turn, once for each queue; `false` outside of a turn.
pub(super) fn put_off<T: Deferred + 'static>(events: &Arc<T>) -> bool {
    let put_off = with(|due| {
        let Some(due) = due else {
            return false;
        };
        let at = Arc::as_ptr(events).addr();
        if !due.iter().any(|known| Arc::as_ptr(known).addr() == at) {
            let events: Arc<dyn Deferred> = Arc::<T>::clone(events);
            due.push(events);
        }
        true
    });
    put_off.unwrap_or(false)
}

/// `None` in a thread that is so near its end that it has no such places any more: applications may
/// call from there.
fn with<T>(call: impl FnOnce(&mut Option<Vec<Arc<dyn Deferred>>>) -> T) -> Option<T> {
    DUE.try_with(|due| call(&mut due.borrow_mut())).ok()
}
