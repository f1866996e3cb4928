#![forbid(unsafe_code)]
//! Synchronous ids: a call waits for the event that answers it, keeps the event in the id, and
//! converts its status into an errno value.

use crate::abi::{Channel, event_type, rdma_cm_event};
use crate::id::Id;
use crate::{ack, event, registry};
use kit::errno::{Errno, Result};

/// Waits for the next event of a channel.
///
/// # Errors
/// The backend's: EINTR, EAGAIN, EBADF.
fn next(channel: Channel) -> Result<*mut rdma_cm_event> {
    let source = registry::source(channel);
    loop {
        let record = source.next_event(channel.fd())?;
        if let Some(event) = event::take(channel, &record)? {
            return Ok(event);
        }
    }
}

/// Waits for an event of a synchronous id; the event replaces the previous one.
///
/// # Errors
/// Those of [`next`]; EBADF for an id without a channel.
pub fn wait(id: &Id) -> Result<(u32, i32)> {
    ack::release(id);
    let channel = Channel::of(id.block.channel()).ok_or(Errno(libc::EBADF))?;
    let event = next(channel)?;
    id.block.set_event(event);
    Ok(registry::outcome(event.addr()).unwrap_or_default())
}

/// Waits for the event that answers a call of a synchronous id; does not wait for other ids.
///
/// # Errors
/// Those of [`wait`]; ECONNREFUSED if the peer rejected; the status of the event.
pub fn complete(id: &Id) -> Result<()> {
    if !id.is_sync() {
        return Ok(());
    }
    error_of(wait(id)?)
}

/// Converts an event's status into an errno value.
fn error_of((event, status): (u32, i32)) -> Result<()> {
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
