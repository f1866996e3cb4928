//! Waiting for descriptors of an epoll(7) set.

use crate::errno::{Errno, Result};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;
use rustix::event::epoll::Event;
use std::os::fd::{AsFd, AsRawFd};

/// Returns the members of a set that are ready, now or within that many nanoseconds, which are
/// rounded up to milliseconds; without a time it waits for the first. It is no cancellation point.
///
/// All arguments of epoll_pwait(2) are given. rustix leaves out the last, which the kernel ignores
/// without a mask of signals; memcheck then reports whatever is in the register.
///
/// # Errors
/// EINTR; EBADF and EINVAL for something else than a set, or without room.
pub fn wait(
    set: impl AsFd,
    nanos: Option<u64>,
    events: &mut [MaybeUninit<Event>],
) -> Result<&[Event]> {
    const MILLISECOND: u64 = 1_000_000;
    let timeout = nanos.map_or(-1, |nanos| {
        c_int::try_from(nanos.div_ceil(MILLISECOND)).unwrap_or(c_int::MAX)
    });
    let room = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    let no_mask = null::<c_void>();
    // SAFETY: the kernel writes at most `room` events, for which there is place; `Event` is its
    // `struct epoll_event`.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            set.as_fd().as_raw_fd(),
            events.as_mut_ptr(),
            room,
            timeout,
            no_mask,
            0usize,
        )
    };
    let Ok(ready) = usize::try_from(ready) else {
        return Err(crate::sys::errno::get());
    };
    let ready = events.get(..ready).ok_or(Errno::IO)?;
    // SAFETY: the kernel has written that many events.
    Ok(unsafe { core::slice::from_raw_parts(ready.as_ptr().cast::<Event>(), ready.len()) })
}

const _: () = assert!(size_of::<Event>() == size_of::<libc::epoll_event>());

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
    use rustix::pipe::pipe;

    #[test]
    fn ready_members_are_reported_by_their_numbers() {
        let set = create(CreateFlags::CLOEXEC).expect("a set");
        let (read, written) = pipe().expect("a pipe");
        add(&set, &read, EventData::new_u64(5 << 40), EventFlags::IN).expect("added");
        let mut events = [MaybeUninit::uninit(); 2];
        assert_eq!(wait(&set, Some(0), &mut events).map(<[_]>::len), Ok(0));
        // Rounded up: it does not return at once.
        assert_eq!(wait(&set, Some(1), &mut events).map(<[_]>::len), Ok(0));
        assert_eq!(rustix::io::write(&written, b"x"), Ok(1));
        let ready = wait(&set, None, &mut events).expect("ready");
        let [event] = ready else {
            panic!("{}", ready.len());
        };
        let (flags, data) = (event.flags, event.data);
        assert_eq!((flags, data.u64()), (EventFlags::IN, 5 << 40));
    }

    #[test]
    fn a_pipe_and_an_empty_buffer_are_refused() {
        let (read, _written) = pipe().expect("a pipe");
        let mut events = [MaybeUninit::uninit(); 1];
        assert_eq!(
            wait(&read, Some(0), &mut events).map(drop),
            Err(Errno::INVAL)
        );
        let set = create(CreateFlags::CLOEXEC).expect("a set");
        assert_eq!(wait(&set, Some(0), &mut []).map(drop), Err(Errno::INVAL));
    }
}
