#![forbid(unsafe_code)]
//! Synchronous ids: a call waits for the event that answers it, keeps the event in the id, and
//! converts its status into an errno value.
//!
//! A thread can be cancelled in that wait, so the wait is in C (`export/wait.c`). A call is done in
//! steps: one that has to wait returns [`Step::Waits`], and continues with the outcome of the
//! event. A call whose thread is cancelled is dropped there.

use crate::abi::{event_type, rdma_cm_event};
use crate::id::Id;
use crate::{ack, registry};
use kit::errno::{Errno, Result};
use std::sync::Arc;

/// Type and status of the event that a call waited for.
pub type Outcome = (u32, i32);

/// The rest of a call that waits.
pub type Rest<'a> = Box<dyn FnOnce(Outcome) -> Result<Step<'a>> + 'a>;

/// How far a call has come.
pub enum Step<'a> {
    /// With the value that is recorded as the call's answer.
    Done(u64),
    /// The call continues with the next event of the id.
    Waits(Arc<Id>, Rest<'a>),
}

/// Waits for the next event of a synchronous id, which replaces the previous one.
pub fn wait<'a>(id: &Arc<Id>, rest: impl FnOnce(Outcome) -> Result<Step<'a>> + 'a) -> Step<'a> {
    ack::release(id);
    Step::Waits(id.clone(), Box::new(rest))
}

/// The event that a call has waited for: the id keeps it.
pub fn take(id: &Id, event: *mut rdma_cm_event) -> Outcome {
    id.block.set_event(event);
    registry::outcome(event.addr()).unwrap_or_default()
}

/// Waits for the event that answers a call of a synchronous id; does not wait for other ids. The
/// call fails with ECONNREFUSED if the peer rejected, and with the status of the event.
pub fn complete(id: &Arc<Id>) -> Step<'static> {
    if !id.is_sync() {
        return Step::Done(0);
    }
    wait(id, |outcome| error_of(outcome).map(|()| Step::Done(0)))
}

/// Converts an event's status into an errno value.
///
/// # Errors
/// ECONNREFUSED if the peer rejected; the status.
pub fn error_of((event, status): Outcome) -> Result<()> {
    match (event, status) {
        (_, 0) => Ok(()),
        (event_type::REJECTED, _) => Err(Errno(libc::ECONNREFUSED)),
        (_, status) => Err(Errno(status.saturating_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_an_errno_value() {
        assert_eq!(error_of((event_type::ESTABLISHED, 0)), Ok(()));
        let refused = Err(Errno(libc::ECONNREFUSED));
        assert_eq!(error_of((event_type::REJECTED, 8)), refused);
        assert_eq!(error_of((7, -110)), Err(Errno(libc::ETIMEDOUT)));
        assert_eq!(error_of((7, 2)), Err(Errno(2)));
    }
}
