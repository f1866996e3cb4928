//! Events. The wait itself is in `wait.c`, which calls these functions.

use super::ret;
use crate::abi::{Channel, EventBlock, event_name, rdma_cm_event, rdma_event_channel};
use crate::observe::{self, About};
use crate::registry::{self, Origin};
use crate::verbs::Deferred;
use crate::{ack, device, event, kept, symver};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use kit::cm::Call;
use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::os::fd::IntoRawFd;

/// Results beside a descriptor, see `wait.c`.
const FAILED: c_int = -1;
const HAVE_RECORD: c_int = -2;
const WAIT: c_int = -3;
const DESTROYED: c_int = -4;
/// Result beside 0 and -1.
const SWALLOWED: c_int = 1;

/// A call that waits for an event, for `wait.c`.
#[repr(C)]
pub struct Reader {
    channel: *mut rdma_event_channel,
    /// Where the program wants the event.
    event: *mut *mut rdma_cm_event,
    /// The [`EventBlock`] that the call owns; NULL without one.
    block: *mut c_void,
    /// When the call began; 0 if nothing looks at calls.
    observed: u64,
    /// A duplicate of the channel's descriptor that the call owns, or -1.
    held: c_int,
}

impl Reader {
    /// The block of the call. The call does not own it until it is given back.
    fn take_block(&mut self) -> Result<EventBlock> {
        let block = std::mem::replace(&mut self.block, null_mut());
        // SAFETY: NULL, or what `give_block` has left there.
        unsafe { EventBlock::from_raw(block) }.map_or_else(EventBlock::new, Ok)
    }

    fn give_block(&mut self, block: EventBlock) {
        self.block = block.into_raw();
    }
}

/// Returns the kernel's descriptor to read from, or a record: a kept one, or an event of a device
/// in user space. If no such event is there, the call waits on `held`.
unsafe extern "C" fn begin(reader: *mut Reader) -> c_int {
    // SAFETY: wait.c passes a whole reader, which is the call's.
    let reader = unsafe { &mut *reader };
    if reader.observed == 0 {
        reader.observed = observe::begin();
    }
    // Most calls ask the kernel.
    if let Some(channel) = Channel::of(reader.channel)
        && !reader.event.is_null()
        && !kept::any()
        && registry::is_of_kernel(channel)
        && let Ok(mut block) = reader.take_block()
        && let descriptor @ 0.. = channel.fd()
    {
        block.expect_record();
        reader.give_block(block);
        return descriptor;
    }
    begin_otherwise(reader)
}
crate::hidden!(begin => "ferroverbs_cm_event_begin");

#[inline(never)]
fn begin_otherwise(reader: &mut Reader) -> c_int {
    let answer = match (Channel::of(reader.channel), reader.event.is_null()) {
        (Some(channel), false) => next(channel, reader),
        _ => device::any().and(Err(Errno::INVAL)),
    };
    answer.unwrap_or_else(|e| {
        ret::failed(e);
        FAILED
    })
}

/// Decides how a call continues.
fn next(channel: Channel, reader: &mut Reader) -> Result<c_int> {
    let mut block = reader.take_block()?;
    let kept = kept::take(channel.address());
    if let Some(kept) = kept {
        *block.record_mut() = kept;
        reader.give_block(block);
        return Ok(HAVE_RECORD);
    }
    block.expect_record();
    match registry::origin(channel) {
        Origin::Kernel(_) => {
            reader.give_block(block);
            of_program(channel)
        }
        Origin::Uroce(user) => {
            let next = user.next_event(block.record_mut());
            reader.give_block(block);
            of_user(channel, next, &mut reader.held)
        }
        Origin::Unknown => {
            reader.give_block(block);
            of_unknown(channel, reader.held)
        }
    }
}

/// A channel that this library did not make, or that is destroyed.
#[cold]
fn of_unknown(channel: Channel, held: c_int) -> Result<c_int> {
    device::any()?;
    if held >= 0 || registry::is_destroyed_by_another(channel) {
        return Ok(DESTROYED);
    }
    of_program(channel)
}

/// The channel's answer of devices in user space.
fn of_user(channel: Channel, next: Result<()>, held: &mut c_int) -> Result<c_int> {
    match next {
        Ok(()) => Ok(HAVE_RECORD),
        Err(Errno::AGAIN) if *held >= 0 => Ok(WAIT),
        Err(Errno::AGAIN) => match registry::duplicate(channel) {
            Err(_) if registry::is_destroyed_by_another(channel) => Ok(DESTROYED),
            Err(e) => Err(e),
            Ok(duplicate) => {
                *held = duplicate.into_raw_fd();
                Ok(WAIT)
            }
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

/// Delivers the event of the reader's record to the program.
unsafe extern "C" fn end(reader: *mut Reader) -> c_int {
    // SAFETY: as in `begin`.
    let reader = unsafe { &mut *reader };
    let (Some(channel), Ok(block)) = (Channel::of(reader.channel), reader.take_block()) else {
        return ret::failed(Errno::INVAL);
    };
    // SAFETY: wait.c defers cancellation during the call.
    let thread = unsafe { Deferred::by_caller() };
    match event::take(channel, block, &thread) {
        Some(taken) => {
            // SAFETY: `begin` has checked that it is not NULL; it belongs to the program.
            unsafe { reader.event.write(taken) };
            0
        }
        None => SWALLOWED,
    }
}
crate::hidden!(end => "ferroverbs_cm_event_end");

/// Keeps the record that a cancelled thread has received.
unsafe extern "C" fn keep(reader: *mut Reader) {
    // SAFETY: as in `begin`.
    let reader = unsafe { &mut *reader };
    if let Ok(block) = reader.take_block()
        && block.record().is_there()
    {
        kept::keep(reader.channel.addr(), *block.record());
    }
}
crate::hidden!(keep => "ferroverbs_cm_event_keep");

/// The call is over without an event.
unsafe extern "C" fn let_go(reader: *mut Reader) {
    // SAFETY: as in `begin`.
    drop(unsafe { &mut *reader }.take_block());
}
crate::hidden!(let_go => "ferroverbs_cm_event_let_go");

/// The call that began at `observed` is over: with an event, or with errno.
unsafe extern "C" fn over(reader: *const Reader, answer: c_int) {
    // SAFETY: as in `begin`.
    let reader = unsafe { &*reader };
    let (at, begin) = (reader.channel.addr() as u64, reader.observed);
    if answer != 0 {
        return observe::got_event(begin, &[at], Some(errno::get()));
    }
    // SAFETY: the call has just written it there; the event is the program's.
    unsafe {
        let event = reader.event.read();
        let (kind, status) = ((*event).event, (*event).status);
        let id = (*event).id.addr() as u64;
        let words = [at, event.addr() as u64, id, kind.into(), ret::word(status)];
        observe::got_event(begin, &words, None);
    }
}
crate::hidden!(over => "ferroverbs_cm_event_over");

#[cold]
#[inline(never)]
fn acknowledge_observed(at: usize) -> c_int {
    let call = (Call::AckCmEvent, 0, &[at as u64][..]);
    let acknowledge = || ack::event(at);
    ret::minus_one(observe::call(call, || About::Nothing, |()| 0, acknowledge))
}

unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    if observe::begin() == 0 {
        return ret::minus_one(ack::event(event.addr()));
    }
    acknowledge_observed(event.addr())
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
