//! Events. The wait itself is in `wait.c`, which calls these functions.

use super::ret;
use crate::abi::{Channel, event_name, rdma_cm_event, rdma_event_channel};
use crate::backend::Record;
use crate::observe::{self, About};
use crate::source::Source;
use crate::{ack, device, event, kept, registry, symver};
use core::ffi::{CStr, c_char, c_int};
use kit::cm::Call;
use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Results beside a descriptor, see `wait.c`.
const FAILED: c_int = -1;
const HAVE_RECORD: c_int = -2;
const WAIT: c_int = -3;
const DESTROYED: c_int = -4;
/// Result beside 0 and -1.
const SWALLOWED: c_int = 1;

/// Returns the kernel's descriptor to read from, or a record: a kept one, or an event of a device
/// in user space. If no such event is there, the call waits on `held`: a duplicate of the channel's
/// descriptor that the call owns.
unsafe extern "C" fn begin(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
    record: *mut Record,
    held: *mut c_int,
) -> c_int {
    // SAFETY: wait.c passes room for a descriptor.
    let before = unsafe { held.read() };
    let have = |taken: Record| {
        // SAFETY: wait.c passes room for a record.
        unsafe { record.write(taken) };
        HAVE_RECORD
    };
    let hold = |new: OwnedFd| {
        // SAFETY: as above.
        unsafe { held.write(new.into_raw_fd()) };
        WAIT
    };
    let answer = match (Channel::of(channel), event.is_null()) {
        (Some(channel), false) => next(channel, before, have, hold),
        _ => device::any().and(Err(Errno::INVAL)),
    };
    answer.unwrap_or_else(|e| {
        ret::failed(e);
        FAILED
    })
}
crate::hidden!(begin => "ferroverbs_cm_event_begin");

/// Decides how a call continues whose duplicate descriptor is `held`, or -1.
fn next(
    channel: Channel,
    held: c_int,
    have: impl FnOnce(Record) -> c_int,
    hold: impl FnOnce(OwnedFd) -> c_int,
) -> Result<c_int> {
    device::any()?;
    if let Some(kept) = kept::take(channel.address()) {
        return Ok(have(kept));
    }
    let source = registry::known_source(channel);
    if source.is_none() && (held >= 0 || registry::is_destroyed_by_another(channel)) {
        return Ok(DESTROYED);
    }
    let Some(Source::Uroce(user)) = source.as_deref() else {
        return of_program(channel);
    };
    match user.next_event() {
        Ok(taken) => Ok(have(taken)),
        Err(Errno::AGAIN) if held >= 0 => Ok(WAIT),
        Err(Errno::AGAIN) => match registry::duplicate(channel) {
            Err(_) if registry::is_destroyed_by_another(channel) => Ok(DESTROYED),
            duplicate => duplicate.map(hold),
        },
        Err(e) => Err(e),
    }
}

/// The descriptor that the program sees.
fn of_program(channel: Channel) -> Result<c_int> {
    let descriptor = channel.fd();
    let is_open = descriptor >= 0;
    is_open.then_some(descriptor).ok_or(Errno(libc::EBADF))
}

/// Delivers the event of a record to the program.
unsafe extern "C" fn end(
    channel: *mut rdma_event_channel,
    record: *const Record,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    // SAFETY: wait.c passes a whole record, which does not change meanwhile.
    let record = unsafe { &*record };
    let taken = Channel::of(channel)
        .ok_or(Errno::INVAL)
        .and_then(|channel| event::take(channel, record));
    match taken {
        Ok(Some(taken)) => {
            // SAFETY: `begin` has checked that it is not NULL; it belongs to the program.
            unsafe { event.write(taken) };
            0
        }
        Ok(None) => SWALLOWED,
        Err(e) => ret::failed(e),
    }
}
crate::hidden!(end => "ferroverbs_cm_event_end");

unsafe extern "C" fn keep(channel: *mut rdma_event_channel, record: *const Record) {
    // SAFETY: wait.c passes a whole record.
    kept::keep(channel.addr(), unsafe { record.read() });
}
crate::hidden!(keep => "ferroverbs_cm_event_keep");

/// When the call begins; 0 if nothing looks at calls.
extern "C" fn observed() -> u64 {
    observe::begin()
}
crate::hidden!(observed => "ferroverbs_cm_event_observed");

/// The call that began then is over: with an event, or with errno.
unsafe extern "C" fn over(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
    begin: u64,
    answer: c_int,
) {
    let at = channel.addr() as u64;
    if answer != 0 {
        return observe::got_event(begin, &[at], Some(errno::get()));
    }
    // SAFETY: the call has just written it there; the event is the program's.
    unsafe {
        let event = event.read();
        let (kind, status) = ((*event).event, (*event).status);
        let id = (*event).id.addr() as u64;
        let words = [at, event.addr() as u64, id, kind.into(), ret::word(status)];
        observe::got_event(begin, &words, None);
    }
}
crate::hidden!(over => "ferroverbs_cm_event_over");

unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    let at = event.addr();
    let call = (Call::AckCmEvent, 0, &[at as u64][..]);
    let acknowledge = || ack::event(at);
    ret::minus_one(observe::call(call, || About::Nothing, |()| 0, acknowledge))
}
symver!(rdma_ack_cm_event => "rdma_ack_cm_event", "RDMACM_1.0");

unsafe extern "C" fn rdma_event_str(event: u32) -> *const c_char {
    event_name(event).map_or(c"UNKNOWN EVENT".as_ptr(), CStr::as_ptr)
}
symver!(rdma_event_str => "rdma_event_str", "RDMACM_1.0");

unsafe extern "C" fn rdma_write_cm_event(
    id: *mut crate::abi::rdma_cm_id,
    event: u32,
    status: c_int,
    arg: u64,
) -> c_int {
    let words = [event.into(), ret::word(status), arg];
    let is_user = event == crate::abi::event_type::USER;
    ret::with(Call::WriteCmEvent, id, &words, |id| {
        if !is_user {
            return Err(Errno::INVAL);
        }
        id.backend()?.write_event(event, status, arg)
    })
}
symver!(rdma_write_cm_event => "rdma_write_cm_event", "RDMACM_1.4");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_their_enumerators() {
        let name = |event| {
            // SAFETY: the function takes any number, and returns a static string.
            unsafe { CStr::from_ptr(rdma_event_str(event)) }
        };
        assert_eq!(name(0), c"RDMA_CM_EVENT_ADDR_RESOLVED");
        assert_eq!(name(15), c"RDMA_CM_EVENT_TIMEWAIT_EXIT");
        assert_eq!(name(18), c"UNKNOWN EVENT");
        assert_eq!(name(u32::MAX), c"UNKNOWN EVENT");
    }
}
