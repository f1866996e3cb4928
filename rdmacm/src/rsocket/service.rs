#![forbid(unsafe_code)]
//! The thread that processes connection manager events for all rsockets: requests of listeners,
//! connections in progress, and ends of connections. It starts with the first socket that needs it,
//! and ends with the last.

use super::table;
use super::waiter::Waiter;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::{per_process::PerProcess, thread};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Name of the thread's eventfd in its epoll set.
const KICK: u64 = u64::MAX;
/// Longest sleep.
const LONGEST: Duration = Duration::from_secs(3600);

/// The thread, and its data.
#[derive(Default)]
struct Service {
    state: Mutex<Option<Running>>,
}

struct Running {
    shared: Arc<Shared>,
    sockets: BTreeSet<i32>,
    thread: JoinHandle<()>,
}

/// The data of the thread.
struct Shared {
    set: OwnedFd,
    kick: Waiter,
    end: AtomicBool,
    /// Keepalive times and other deadlines of sockets: the next deadline of each.
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
    let thread = thread::start("rsocket", move || run(&of_thread))?;
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
        // A socket closed meanwhile is missing from the table, or another socket has its number.
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

/// Registers a socket, with this descriptor, at the thread.
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

/// Stops watching a descriptor for a while, or watches it again.
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
    // A descriptor that is not watched needs no pause.
    let _ = epoll::modify(&running.shared.set, fd, EventData::new_u64(number), flags);
}

/// Schedules a call of [`super::socket::Socket::on_time`]; the time replaces the previous one.
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

/// Stops watching a descriptor.
pub fn unwatch(fd: BorrowedFd<'_>) {
    let Some(service) = SERVICE.made() else {
        return;
    };
    if let Some(running) = &*service.state.lock() {
        // The error means that the descriptor was not watched.
        let _ = epoll::delete(&running.shared.set, fd);
    }
}

/// Forgets a socket that is being closed. The thread ends with the last socket; the caller holds no
/// socket's lock.
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
    // The thread itself closes sockets that were not accepted.
    if last.thread.thread().id() != std::thread::current().id() {
        // An error is a panic, which the thread has reported.
        let _ = last.thread.join();
    }
}
