//! Sockets. Calls that may wait are in `rsocket.c`, which calls these functions.

use super::ret;
use crate::abi::{Address, Buffers};
use crate::rsocket::call::{self, Answer, Operation, State, Step};
use crate::rsocket::socket::{Kind, Socket};
use crate::rsocket::stream::{self, StreamState};
use crate::rsocket::{datagram, poll, repoll, table};
use crate::symver;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use kit::errno::{Errno, Result};
use libc::{fd_set, off_t, pollfd, sockaddr, socklen_t, ssize_t, timeval};
use std::sync::Arc;
use std::time::Duration;

const AF_IB: c_int = 27;
/// Flags that may be combined with a type.
const TYPE_FLAGS: c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// The same as in `rsocket.c`.
#[repr(C)]
struct Call {
    operation: u32,
    fd: c_int,
    arguments: [usize; 6],
    state: *mut State,
    sleep: *mut pollfd,
    count: libc::nfds_t,
    timeout: c_int,
    interrupted: c_int,
    answer: ssize_t,
}

/// The same as in `rsocket.c`.
mod operation {
    pub const CONNECT: u32 = 0;
    pub const ACCEPT: u32 = 1;
    pub const RECEIVE: u32 = 2;
    pub const SEND: u32 = 3;
    pub const WRITE_MAPPED: u32 = 4;
    pub const SHUTDOWN: u32 = 5;
    pub const CLOSE: u32 = 6;
    pub const POLL: u32 = 7;
    pub const SELECT: u32 = 8;
    pub const REPOLL: u32 = 9;
}

impl Call {
    fn pointer<T>(&self, at: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.arguments[at])
    }

    fn int(&self, at: usize) -> c_int {
        let [a, b, c, d, ..] = self.arguments[at].to_le_bytes();
        c_int::from_le_bytes([a, b, c, d])
    }

    /// # Safety
    /// The call has buffers, as passed by the program.
    unsafe fn buffers(&self) -> Result<Buffers> {
        // SAFETY: vouched for by the caller.
        unsafe { Buffers::new(self.pointer(0), self.arguments[1]) }
    }
}

/// An address of the program, of the length that the program states.
///
/// # Safety
/// The pointer is NULL or that of so many bytes.
unsafe fn address(at: *const sockaddr, length: usize) -> Result<Option<Address>> {
    if at.is_null() {
        return Ok(None);
    }
    if length < size_of::<u16>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller.
    let bytes = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), length) };
    Address::from_bytes(bytes).map(Some).ok_or(Errno::INVAL)
}

/// Writes an address to the program, truncated to its buffer, and the full length.
///
/// # Safety
/// The pointers are NULL or those of a length and of as many bytes.
unsafe fn write_address(address: Option<&Address>, at: *mut sockaddr, length: *mut socklen_t) {
    if at.is_null() || length.is_null() {
        return;
    }
    let bytes = address.map_or(&[][..], Address::bytes);
    // SAFETY: vouched for by the caller.
    unsafe {
        let room = usize::try_from(length.read()).unwrap_or(0).min(bytes.len());
        at.cast::<u8>().copy_from(bytes.as_ptr(), room);
        length.write(socklen_t::try_from(bytes.len()).unwrap_or(0));
    }
}

unsafe extern "C" fn step(call: *mut Call) -> bool {
    // SAFETY: rsocket.c passes a call structure that it owns.
    let call = unsafe { &mut *call };
    let mut state = if call.state.is_null() {
        Box::default()
    } else {
        // SAFETY: the box of the previous step, taken once.
        unsafe { Box::from_raw(call.state) }
    };
    call.state = null_mut();
    // SAFETY: the arguments are those of the program.
    let done = match unsafe { make(call, &mut state) } {
        Step::Sleep => match &mut state.pending {
            Some(pending) => {
                call.sleep = pending.sleep.as_mut_ptr();
                call.count = libc::nfds_t::try_from(pending.sleep.len()).unwrap_or(0);
                call.timeout = pending.timeout;
                call.state = Box::into_raw(state);
                return true;
            }
            None => Err(Errno::INVAL),
        },
        Step::Done(answer) => answer,
    };
    drop(state);
    call.answer = match done {
        Ok(answer) => {
            if matches!(call.operation, operation::ACCEPT | operation::RECEIVE) {
                // SAFETY: as above.
                unsafe { write_address(answer.address.as_ref(), call.pointer(3), call.pointer(4)) };
            }
            ssize_t::try_from(answer.value).unwrap_or(ssize_t::MAX)
        }
        Err(e) => {
            ret::failed(e);
            -1
        }
    };
    false
}
crate::hidden!(step => "ferroverbs_rsocket_step");

/// # Safety
/// The arguments of the call are those of the program.
unsafe fn make(call: &Call, state: &mut State) -> Step {
    // SAFETY: vouched for by the caller.
    match unsafe { try_make(call, state) } {
        Ok(step) => step,
        Err(e) => Step::Done(Err(e)),
    }
}

/// # Safety
/// As above.
unsafe fn try_make(call: &Call, state: &mut State) -> Result<Step> {
    let interrupted = call.interrupted != 0;
    let mut with = |operation: &Operation| call::step(state, call.fd, operation, interrupted);
    Ok(match call.operation {
        operation::CONNECT => {
            // SAFETY: vouched for by the caller.
            let to = unsafe { address(call.pointer(0), call.arguments[1]) }?;
            with(&Operation::Connect(&to.ok_or(Errno::INVAL)?))
        }
        operation::ACCEPT => with(&Operation::Accept),
        operation::RECEIVE => {
            // SAFETY: as above.
            let to = unsafe { call.buffers() }?;
            with(&Operation::Receive {
                to: &to,
                flags: call.int(2),
            })
        }
        operation::SEND => {
            // SAFETY: as above.
            let from = unsafe { call.buffers() }?;
            // SAFETY: as above.
            let to = unsafe { address(call.pointer(3), call.arguments[4]) }?;
            with(&Operation::Send {
                from: &from,
                flags: call.int(2),
                to: to.as_ref(),
            })
        }
        operation::WRITE_MAPPED => {
            // SAFETY: as above.
            let from = unsafe { call.buffers() }?;
            with(&Operation::WriteMapped {
                from: &from,
                flags: call.int(2),
                offset: call.arguments[3] as u64,
            })
        }
        operation::SHUTDOWN => with(&Operation::Shutdown(call.int(0))),
        operation::CLOSE if repoll::close(call.fd) => Step::Done(Ok(Answer::default())),
        operation::CLOSE => with(&Operation::Close),
        operation::POLL => {
            let count = call.arguments[1];
            let fds: &mut [pollfd] = if count == 0 {
                &mut []
            } else {
                // SAFETY: as above.
                unsafe { core::slice::from_raw_parts_mut(call.pointer(0), count) }
            };
            let timeout = u64::try_from(call.int(2)).ok().map(Duration::from_millis);
            poll::step(state, fds, timeout, interrupted)
        }
        operation::SELECT => {
            // SAFETY: as above.
            unsafe { select(call, state, interrupted) }?
        }
        operation::REPOLL => {
            // SAFETY: as above.
            unsafe { wait_for_set(call, state, interrupted) }?
        }
        _ => return Err(Errno::INVAL),
    })
}

/// # Safety
/// The arguments of the call are those of the program.
unsafe fn wait_for_set(call: &Call, state: &mut State, interrupted: bool) -> Result<Step> {
    let most = usize::try_from(call.int(1)).unwrap_or(0);
    if most == 0 || call.arguments[0] == 0 {
        return Err(Errno::INVAL);
    }
    let wait = repoll::Wait {
        fd: call.fd,
        most,
        timeout: u64::try_from(call.int(2)).ok().map(Duration::from_millis),
    };
    let mut ready = Vec::new();
    let step = repoll::step(state, &wait, interrupted, &mut ready);
    for (n, ready) in ready.iter().enumerate() {
        let at: *mut libc::epoll_event = call.pointer(0);
        let event = libc::epoll_event {
            events: ready.events,
            u64: ready.data,
        };
        // SAFETY: vouched for by the caller: there is room for the requested number.
        unsafe { at.add(n).write_unaligned(event) };
    }
    Ok(step)
}

unsafe extern "C" fn repoll_create(size: c_int) -> c_int {
    if size <= 0 {
        return ret::failed(Errno::INVAL);
    }
    repoll::create().unwrap_or_else(ret::failed)
}
symver!(repoll_create => "repoll_create", "RDMACM_1.5");

unsafe extern "C" fn repoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    ret::minus_one((|| {
        let event = || {
            if event.is_null() {
                return Err(Errno(libc::EFAULT));
            }
            // SAFETY: the program passes a whole event.
            let event = unsafe { event.read_unaligned() };
            Ok((event.events, event.u64))
        };
        let change = match operation {
            libc::EPOLL_CTL_ADD => {
                let (events, data) = event()?;
                repoll::Change::Add { events, data }
            }
            libc::EPOLL_CTL_MOD => {
                let (events, data) = event()?;
                repoll::Change::Modify { events, data }
            }
            libc::EPOLL_CTL_DEL => repoll::Change::Delete,
            _ => return Err(Errno::INVAL),
        };
        repoll::change(set, fd, &change)
    })())
}
symver!(repoll_ctl => "repoll_ctl", "RDMACM_1.5");

unsafe extern "C" fn cancelled(call: *mut Call) {
    // SAFETY: rsocket.c passes a call structure that it owns, whose sleep has ended.
    let state = unsafe { (*call).state };
    if !state.is_null() {
        // SAFETY: the box of the last step, taken once.
        unsafe { Box::from_raw(state) }.cancelled();
    }
}
crate::hidden!(cancelled => "ferroverbs_rsocket_cancelled");

/// The sets of rselect.
struct Sets([*mut fd_set; 3]);

/// The events of each set, and the results that put a descriptor into it.
const ASKED: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
const FOUND: [i16; 3] = [
    libc::POLLIN | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLERR,
    libc::POLLPRI,
];

impl Sets {
    /// The descriptors of the sets, with the requested events.
    ///
    /// # Safety
    /// The sets are NULL or the program's, for so many descriptors.
    unsafe fn polled(&self, count: c_int) -> Vec<pollfd> {
        let events = |fd: c_int| {
            let asked = self.0.iter().zip(ASKED).filter(|(set, _)| {
                // SAFETY: vouched for by the caller.
                !set.is_null() && unsafe { libc::FD_ISSET(fd, **set) }
            });
            asked.fold(0, |events, (_, asked)| events | asked)
        };
        let asked = (0..count).map(|fd| call_watched(fd, events(fd)));
        asked.filter(|polled| polled.events != 0).collect()
    }

    /// Writes the results, and returns the number of bits.
    ///
    /// # Safety
    /// As above.
    unsafe fn write(&self, polled: &[pollfd]) -> usize {
        let mut bits = 0;
        for (at, set) in self.0.iter().enumerate().filter(|(_, set)| !set.is_null()) {
            for polled in polled
                .iter()
                .filter(|polled| polled.events & ASKED[at] != 0)
            {
                // SAFETY: vouched for by the caller.
                unsafe {
                    if polled.revents & FOUND[at] == 0 {
                        libc::FD_CLR(polled.fd, *set);
                    } else {
                        bits += 1;
                    }
                }
            }
        }
        bits
    }
}

fn call_watched(fd: c_int, events: i16) -> pollfd {
    call::watched(fd, events)
}

/// # Safety
/// The arguments of the call are those of the program.
unsafe fn select(call: &Call, state: &mut State, interrupted: bool) -> Result<Step> {
    let sets = Sets([call.pointer(1), call.pointer(2), call.pointer(3)]);
    let count = call.int(0);
    if !(0..=1024).contains(&count) {
        return Err(Errno::INVAL);
    }
    let timeout: *const timeval = call.pointer(4);
    // SAFETY: vouched for by the caller.
    let timeout = unsafe { timeout.as_ref() }.map(|time| {
        let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
        let rest = u64::try_from(time.tv_usec).map_err(|_| Errno::INVAL)?;
        Ok::<_, Errno>(Duration::from_secs(seconds).saturating_add(Duration::from_micros(rest)))
    });
    let timeout = timeout.transpose()?;
    let mut polled = std::mem::take(&mut state.polled);
    if state.pending.is_none() {
        // SAFETY: as above.
        polled = unsafe { sets.polled(count) };
    }
    let step = poll::step(state, &mut polled, timeout, interrupted);
    let answer = match step {
        Step::Sleep => {
            state.polled = polled;
            return Ok(Step::Sleep);
        }
        Step::Done(answer) => answer?,
    };
    if answer.value > 0
        && polled
            .iter()
            .any(|polled| polled.revents & libc::POLLNVAL != 0)
    {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: as above.
    let bits = unsafe { sets.write(&polled) };
    Ok(Step::Done(Ok(Answer::from(bits))))
}

unsafe extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let made = || -> Result<c_int> {
        if ![libc::AF_INET, libc::AF_INET6, AF_IB].contains(&domain) {
            return Err(Errno(libc::ENOTSUP));
        }
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        match (kind & !TYPE_FLAGS, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => stream::create(domain, nonblocking),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => datagram::create(domain, nonblocking),
            _ => Err(Errno(libc::ENOTSUP)),
        }
    };
    made().unwrap_or_else(ret::failed)
}
symver!(rsocket => "rsocket", "RDMACM_1.0");

/// Runs a function on the state of a stream; EOPNOTSUPP for datagrams.
fn with_stream<T>(fd: c_int, call: impl FnOnce(&mut StreamState) -> Result<T>) -> Result<T> {
    let socket = table::socket(fd)?;
    match &socket.kind {
        Kind::Stream(state) => socket.with(state, None, call),
        Kind::Datagram(_) => Err(Errno::OPNOTSUPP),
    }
}

unsafe extern "C" fn rbind(fd: c_int, at: *const sockaddr, length: socklen_t) -> c_int {
    ret::minus_one((|| {
        let socket = table::socket(fd)?;
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: the program passes an address of so many bytes.
        let address = unsafe { address(at, length) }?.ok_or(Errno::INVAL)?;
        socket.bind(&address)
    })())
}
symver!(rbind => "rbind", "RDMACM_1.0");

unsafe extern "C" fn rlisten(fd: c_int, backlog: c_int) -> c_int {
    ret::minus_one(with_stream(fd, |state| state.listen(fd, backlog)))
}
symver!(rlisten => "rlisten", "RDMACM_1.0");

/// Writes an address of a socket to the program.
///
/// # Safety
/// The pointers are those of the program.
unsafe fn name(
    fd: c_int,
    of: impl FnOnce(&Arc<Socket>) -> Option<Address>,
    at: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    ret::minus_one((|| {
        let socket = table::socket(fd)?;
        let address = of(&socket).ok_or(Errno(libc::ENOTSUP))?;
        // SAFETY: vouched for by the caller.
        unsafe { write_address(Some(&address), at, length) };
        Ok(())
    })())
}

unsafe extern "C" fn rgetsockname(fd: c_int, at: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the program passes room for an address, and its length.
    unsafe { name(fd, |socket| socket.local(), at, length) }
}
symver!(rgetsockname => "rgetsockname", "RDMACM_1.0");

unsafe extern "C" fn rgetpeername(fd: c_int, at: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as above.
    unsafe { name(fd, |socket| socket.peer(), at, length) }
}
symver!(rgetpeername => "rgetpeername", "RDMACM_1.0");

unsafe extern "C" fn rsetsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    ret::minus_one((|| {
        let socket = table::socket(fd)?;
        if value.is_null() {
            return Err(Errno::INVAL);
        }
        let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
        // SAFETY: the program passes a value of so many bytes.
        let value = unsafe { core::slice::from_raw_parts(value.cast::<u8>(), length) };
        socket.set_option(level, option, value)?;
        if matches!(option, libc::SO_KEEPALIVE | libc::TCP_KEEPIDLE) {
            socket.schedule();
        }
        Ok(())
    })())
}
symver!(rsetsockopt => "rsetsockopt", "RDMACM_1.0");

unsafe extern "C" fn rgetsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    ret::minus_one((|| {
        let socket = table::socket(fd)?;
        if value.is_null() || length.is_null() {
            return Err(Errno::INVAL);
        }
        let found = socket.option(level, option)?;
        // SAFETY: the program passes room of so many bytes, and the length.
        unsafe {
            let room = usize::try_from(length.read()).map_err(|_| Errno::INVAL)?;
            let length_found = found.len();
            if room < length_found {
                return Err(Errno::INVAL);
            }
            value.cast::<u8>().copy_from(found.as_ptr(), length_found);
            length.write(socklen_t::try_from(length_found).unwrap_or(0));
        }
        Ok(())
    })())
}
symver!(rgetsockopt => "rgetsockopt", "RDMACM_1.0");

/// The third argument is an int for the commands that have one; it may be omitted, because it is
/// passed in a register.
unsafe extern "C" fn rfcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    let done = || -> Result<c_int> {
        let socket = table::socket(fd)?;
        match command {
            libc::F_GETFL => {
                let nonblocking = socket.is_nonblocking();
                Ok(libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                socket.set_nonblocking(argument & libc::O_NONBLOCK != 0);
                Ok(0)
            }
            libc::F_GETFD | libc::F_SETFD => {
                // SAFETY: the descriptor of a socket that this function holds.
                let answer = unsafe { libc::fcntl(fd, command, argument) };
                if answer < 0 {
                    return Err(kit::sys::errno::get());
                }
                Ok(answer)
            }
            _ => Err(Errno(libc::ENOTSUP)),
        }
    };
    done().unwrap_or_else(ret::failed)
}
symver!(rfcntl => "rfcntl", "RDMACM_1.0");

unsafe extern "C" fn riomap(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    prot: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    let mapped = || {
        table::socket(fd)?;
        if prot & !libc::PROT_WRITE != 0 {
            return Err(Errno::INVAL);
        }
        let is_written = prot & libc::PROT_WRITE != 0;
        let memory = (buffer.expose_provenance(), length);
        with_stream(fd, |state| state.map(memory, is_written, offset))
    };
    mapped().unwrap_or_else(|e| ret::failed(e).into())
}
symver!(riomap => "riomap", "RDMACM_1.0");

unsafe extern "C" fn riounmap(fd: c_int, buffer: *mut c_void, length: usize) -> c_int {
    let address = buffer.addr();
    ret::minus_one(with_stream(fd, |state| state.unmap(address, length)))
}
symver!(riounmap => "riounmap", "RDMACM_1.0");
