#![forbid(unsafe_code)]
//! rpoll, and rselect on top of it.

use super::call::{Answer, Pending, State, Step, watched};
use super::waiter::Waiter;
use super::{settings, table};
use crate::abi::poll_now;
use kit::errno::{Errno, Result};
use libc::pollfd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Executes a step of rpoll. `None` as timeout waits without bound.
pub fn step(
    state: &mut State,
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    interrupted: bool,
) -> Step {
    let own = state.own();
    if let Some(own) = &own {
        own.clear();
    }
    match look(fds, own.as_ref()) {
        Ok(0) => {}
        answer => return Step::Done(answer.map(Answer::from)),
    }
    if interrupted {
        return Step::Done(Err(Errno(libc::EINTR)));
    }
    let now = Instant::now();
    if state.pending.is_none() {
        state.deadline = timeout.and_then(|timeout| now.checked_add(timeout));
    }
    if timeout.is_some() && state.deadline.is_some_and(|deadline| deadline <= now) {
        return Step::Done(Ok(Answer::default()));
    }
    match prepare(state, fds) {
        Ok(0) => Step::Sleep,
        answer => Step::Done(answer.map(Answer::from)),
    }
}

/// Sets the descriptors to sleep for, unless an event is ready.
fn prepare(state: &mut State, fds: &mut [pollfd]) -> Result<usize> {
    if state.pending.is_none() {
        let sockets: Vec<_> = fds
            .iter()
            .filter_map(|polled| table::get(polled.fd))
            .collect();
        if !sockets.is_empty() {
            let until = Instant::now() + settings::get().polling_time;
            while Instant::now() < until {
                core::hint::spin_loop();
                match look(fds, None)? {
                    0 => {}
                    ready => return Ok(ready),
                }
            }
        }
        state.pending = Some(Pending::new(sockets)?);
    }
    let deadline = state.deadline;
    let Some(pending) = &mut state.pending else {
        return Ok(0);
    };
    let own = pending.waiter.clone();
    let mut sleep = Vec::with_capacity(fds.len());
    for socket in &pending.sockets {
        let armed = socket.arm(Some(&own))?;
        sleep.extend(armed.into_iter().map(|fd| watched(fd, libc::POLLIN)));
    }
    let foreign = fds.iter().filter(|polled| table::get(polled.fd).is_none());
    sleep.extend(foreign.map(|polled| watched(polled.fd, polled.events)));
    match look(fds, Some(&own))? {
        0 => {}
        ready => return Ok(ready),
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let longest = match left {
        _ if pending.sockets.is_empty() => left,
        Some(left) => Some(left.min(settings::get().wake_up_interval)),
        None => Some(settings::get().wake_up_interval),
    };
    pending.sleep(sleep, longest);
    Ok(0)
}

/// Checks all descriptors, and returns how many are ready.
fn look(fds: &mut [pollfd], own: Option<&Arc<Waiter>>) -> Result<usize> {
    let mut foreign = Vec::new();
    let mut ready = 0;
    for (at, polled) in fds.iter_mut().enumerate() {
        polled.revents = 0;
        if polled.fd < 0 {
            continue;
        }
        match table::get(polled.fd) {
            Some(socket) => polled.revents = socket.ready(polled.events, own),
            None => foreign.push((at, watched(polled.fd, polled.events))),
        }
        ready += usize::from(polled.revents != 0);
    }
    if foreign.is_empty() {
        return Ok(ready);
    }
    let mut polled: Vec<pollfd> = foreign.iter().map(|(_, polled)| *polled).collect();
    ready += poll_now(&mut polled)?;
    for ((at, _), polled) in foreign.iter().zip(polled) {
        fds[*at].revents = polled.revents;
    }
    Ok(ready)
}
