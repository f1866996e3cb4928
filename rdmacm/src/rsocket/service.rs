#![forbid(unsafe_code)]
//! The thread that looks after the connection manager's events of all rsockets: requests of
//! listeners, connections that are being made, and their ends. It starts with the first socket that
//! needs it, and ends with the last.

use super::table;
use super::waiter::Waiter;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::{per_process::PerProcess, signal};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the event descriptor of the thread is called in its set.
const KICK: u64 = u64::MAX;
/// Longest sleep.
const LONGEST: Duration = Duration::from_secs(3600);

/// The thread, and what it looks after.
#[derive(Default)]
struct Service {
    state: Mutex<Option<Running>>,
}

struct Running {
    shared: Arc<Shared>,
    sockets: BTreeSet<i32>,
    thread: JoinHandle<()>,
}

/// What the thread has.
struct Shared {
    set: OwnedFd,
    kick: Waiter,
    end: AtomicBool,
    /// Keepalive and other times of sockets: what is due next.
    times: Mutex<BTreeMap<i32, Instant>>,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

fn start() -> Result<Running> {
    let set = epoll::create(CreateFlags::CLOEXEC)?;
    let kick = Waiter::new()?;
    epoll::add(&set, kick.as_fd(), EventData::new_u64(KICK), EventFlags::IN)?;
    let shared = Arc::new(Shared {
        set,
        kick,
        end: false.into(),
        times: Mutex::default(),
    });
    let of_thread = shared.clone();
    let builder = std::thread::Builder::new().name("rsocket".to_owned());
    let thread = signal::blocked(|| builder.spawn(move || run(&of_thread)))??;
    Ok(Running {
        shared,
        sockets: BTreeSet::new(),
        thread,
    })
}

fn run(shared: &Shared) {
    let mut events = Vec::with_capacity(32);
    while !shared.end.load(Ordering::Acquire) {
        let timeout = shared.next_time();
        events.clear();
        let waited = epoll::wait(
            &shared.set,
            rustix::buffer::spare_capacity(&mut events),
            Some(&timeout),
        );
        if waited.is_err_and(|e| e != rustix::io::Errno::INTR) {
            return;
        }
        for event in &events {
            shared.look(event);
        }
        for fd in shared.due() {
            if let Some(socket) = table::get(fd) {
                socket.on_time();
            }
        }
    }
}

impl Shared {
    fn look(&self, event: &Event) {
        let data = event.data;
        if data.u64() == KICK {
            self.kick.clear();
            return;
        }
        // One that was closed meanwhile is not there any more, or another with its number.
        let Ok(fd) = i32::try_from(data.u64()) else {
            return;
        };
        if let Some(socket) = table::get(fd) {
            socket.on_event();
        }
    }

    fn next_time(&self) -> Timespec {
        let times = self.times.lock();
        let next = times.values().min();
        let left = next.map_or(LONGEST, |at| at.saturating_duration_since(Instant::now()));
        let left = left.min(LONGEST);
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        }
    }

    fn due(&self) -> Vec<i32> {
        let now = Instant::now();
        let mut times = self.times.lock();
        let due: Vec<i32> = times
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(fd, _)| *fd)
            .collect();
        for fd in &due {
            times.remove(fd);
        }
        due
    }
}

/// Has the thread look after a socket, by this descriptor.
///
/// # Errors
/// Those of making the thread; of epoll_ctl(2).
pub fn watch(socket: i32, fd: BorrowedFd<'_>) -> Result<()> {
    let service = SERVICE.get()?;
    let mut state = service.state.lock();
    let running = match &mut *state {
        Some(running) => running,
        none => none.insert(start()?),
    };
    let number = u64::try_from(socket).unwrap_or(KICK);
    match epoll::add(
        &running.shared.set,
        fd,
        EventData::new_u64(number),
        EventFlags::IN,
    ) {
        Ok(()) => {
            running.sockets.insert(socket);
            Ok(())
        }
        Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Leaves a descriptor alone for a while, or looks at it again.
pub fn pause(socket: i32, fd: BorrowedFd<'_>, paused: bool) {
    let Some(service) = SERVICE.made() else {
        return;
    };
    let state = service.state.lock();
    let Some(running) = &*state else {
        return;
    };
    let number = u64::try_from(socket).unwrap_or(KICK);
    let flags = if paused {
        EventFlags::empty()
    } else {
        EventFlags::IN
    };
    // One that is not watched has nothing to pause.
    let _ = epoll::modify(&running.shared.set, fd, EventData::new_u64(number), flags);
}

/// Has [`super::socket::Socket::on_time`] called at a time; in the place of the one before.
pub fn call_at(socket: i32, at: Option<Instant>) {
    let Some(service) = SERVICE.made() else {
        return;
    };
    let state = service.state.lock();
    let Some(running) = &*state else {
        return;
    };
    let mut times = running.shared.times.lock();
    match at {
        Some(at) => times.insert(socket, at),
        None => times.remove(&socket),
    };
    drop(times);
    running.shared.kick.wake();
}

/// Leaves a descriptor alone for good.
pub fn unwatch(fd: BorrowedFd<'_>) {
    let Some(service) = SERVICE.made() else {
        return;
    };
    if let Some(running) = &*service.state.lock() {
        // One that was never watched is none.
        let _ = epoll::delete(&running.shared.set, fd);
    }
}

/// Forgets a socket that is being closed. With the last one the thread ends; nobody may hold a
/// socket's lock here.
pub fn forget(socket: i32) {
    let Some(service) = SERVICE.made() else {
        return;
    };
    let mut state = service.state.lock();
    let Some(running) = &mut *state else {
        return;
    };
    running.shared.times.lock().remove(&socket);
    if !running.sockets.remove(&socket) || !running.sockets.is_empty() {
        return;
    }
    let Some(last) = state.take() else {
        return;
    };
    drop(state);
    last.shared.end.store(true, Ordering::Release);
    last.shared.kick.wake();
    // The thread itself closes sockets that nobody has accepted.
    if last.thread.thread().id() != std::thread::current().id() {
        // An error is a panic, which the thread has told of.
        let _ = last.thread.join();
    }
}
