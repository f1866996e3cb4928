//! The other processes of the user, by slot.

use super::listing;
use super::name::{self, ProcessName};
use super::owner;
use super::{Name, User};
use crate::named;
use kit::errno::{Errno, Result};
use kit::log::{self, Level};
use kit::sync::Mutex;
use rustix::net::{SocketAddrUnix, SocketType};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long names are not listed again: at least, how many times as long as it takes, and at most.
const SOONEST: Duration = Duration::from_millis(20);
const SHARE: u32 = 20;
const LATEST: Duration = Duration::from_millis(200);
/// How many times sooner for a caller that knows of a process that must have come meanwhile.
const SOONER: u32 = 8;
/// Names of one slot that are looked at.
const MOST: usize = 1024;

/// A process of the user.
#[derive(Debug)]
pub struct Process {
    slot: u16,
    pid: i32,
    user: User,
    /// The name that is the proof.
    name: Name,
    packets: SocketAddrUnix,
    rendezvous: Option<SocketAddrUnix>,
}

impl Process {
    pub(super) fn new(name: Name, pid: i32, user: User) -> Result<Self> {
        let slot = name.slot();
        let (packets, rendezvous) = match name {
            Name::Process(ProcessName {
                packets,
                rendezvous,
                ..
            }) => (packets, rendezvous),
            _ => (None, None),
        };
        let rendezvous = match rendezvous {
            Some(token) => Some(named::name(&name::rendezvous(slot, token))?),
            None => None,
        };
        Ok(Self {
            slot,
            pid,
            user,
            name,
            packets: named::name(&name::packets(slot, packets))?,
            rendezvous,
        })
    }

    /// Its slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Its number; 0 if it is not to be seen from here (another PID namespace).
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The name of its rendezvous socket, if it has one. A message goes to the socket that has the
    /// name when it is sent: after the end of the process that may be another user's.
    #[must_use]
    pub fn rendezvous(&self) -> Option<&SocketAddrUnix> {
        self.rendezvous.as_ref()
    }

    /// A socket connected to the one by which it receives packets. Messages there reach this
    /// process or none: the process has that socket as long as it has that of its name. If after
    /// this the latter is there, and the user's, the former was its.
    ///
    /// # Errors
    /// ECONNREFUSED if it has ended; EAGAIN if that cannot be found out at the moment; of
    /// socket(2).
    pub fn connect_packets(&self) -> Result<OwnedFd> {
        let socket = owner::connect(SocketType::DGRAM, &self.packets);
        let socket = socket.map_err(|error| match error {
            // Another process has taken the name for a socket of another type, or one that is
            // connected.
            Errno(libc::EPROTOTYPE | libc::EPERM) => Errno(libc::ECONNREFUSED),
            error => error,
        })?;
        self.check()?;
        Ok(socket)
    }

    /// A connection to the socket that listens by its name. Messages there reach this process or
    /// none.
    ///
    /// # Errors
    /// As of [`Process::connect_packets`].
    fn connect(&self) -> Result<OwnedFd> {
        let (owner, socket) = owner::reach(&self.name, self.user)?;
        is_ours(owner)?;
        socket.ok_or(Errno(libc::ECONNREFUSED))
    }

    /// Whether it is known to have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.check() == Err(Errno(libc::ECONNREFUSED))
    }

    /// # Errors
    /// ECONNREFUSED if it has ended; EAGAIN if its queue of connections is full; of socket(2).
    fn check(&self) -> Result<()> {
        is_ours(owner::of(&self.name, self.user)?)
    }
}

/// # Errors
/// ECONNREFUSED for a socket of another user or a name without one, EAGAIN if that is not known.
fn is_ours(owner: owner::Owner) -> Result<()> {
    match owner {
        owner::Owner::Ours(_) => Ok(()),
        owner::Owner::Unknown => Err(Errno::AGAIN),
        owner::Owner::Stranger | owner::Owner::None => Err(Errno(libc::ECONNREFUSED)),
    }
}

/// A process, and the connection by which it was verified just now, if it was.
type Found = (Arc<Process>, Option<OwnedFd>);

/// The state of other processes.
#[derive(Debug)]
pub(super) struct Lookup {
    user: User,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    processes: HashMap<u16, Arc<Process>>,
    /// Names of the latest list, by slot, that were not asked for.
    listed: HashMap<u16, Vec<Name>>,
    /// Slots that were looked for since then, and had none.
    vacant: HashSet<u16>,
    /// When names were listed last, and for how long that is good.
    latest: Option<(Instant, Duration)>,
    /// Names could not be listed then.
    is_blind: bool,
}

impl Lookup {
    pub fn new(user: User) -> Self {
        Self {
            user,
            known: Mutex::default(),
        }
    }

    /// Adds one that needs no proof.
    pub fn add(&self, process: Process) {
        let slot = process.slot;
        self.known.lock().processes.insert(slot, Arc::new(process));
    }

    /// The process of a slot, if it was found before.
    pub fn known(&self, slot: u16) -> Option<Arc<Process>> {
        self.known.lock().processes.get(&slot).map(Arc::clone)
    }

    /// The process of a slot. With `sooner` names are listed again after a shorter time.
    ///
    /// # Errors
    /// ECONNREFUSED if the process does not exist; EAGAIN if that is unknown yet; of socket(2).
    pub fn find(&self, slot: u16, sooner: bool) -> Result<Arc<Process>> {
        Ok(self.look_for(slot, sooner)?.0)
    }

    /// The process of a slot, and a connection to the socket that listens by its name.
    ///
    /// # Errors
    /// As of [`Lookup::find`]; the process that was known is forgotten if it has ended.
    pub fn connect(&self, slot: u16) -> Result<(Arc<Process>, OwnedFd)> {
        let (process, socket) = self.look_for(slot, true)?;
        if let Some(socket) = socket {
            return Ok((process, socket));
        }
        let socket = process.connect().inspect_err(|error| {
            if error.raw() == libc::ECONNREFUSED {
                self.forget(&process);
            }
        })?;
        Ok((process, socket))
    }

    fn look_for(&self, slot: u16, sooner: bool) -> Result<Found> {
        let mut known = self.known.lock();
        if let Some(process) = known.processes.get(&slot) {
            return Ok((Arc::clone(process), None));
        }
        if let Some(process) = self.verify(&mut known, slot)? {
            return Ok(process);
        }
        if !known.is_old(if sooner { SOONER } else { 1 }) {
            let vacant = known.vacant.contains(&slot);
            return Err(if vacant {
                Errno(libc::ECONNREFUSED)
            } else {
                Errno::AGAIN
            });
        }
        known.list(self.user)?;
        if let Some(process) = self.verify(&mut known, slot)? {
            return Ok(process);
        }
        known.vacant.insert(slot);
        Err(Errno(libc::ECONNREFUSED))
    }

    /// Whether names could not be listed.
    pub fn is_blind(&self) -> bool {
        self.known.lock().is_blind
    }

    /// The process of a slot has ended.
    pub fn forget(&self, process: &Process) {
        let mut known = self.known.lock();
        let slot = process.slot;
        if known
            .processes
            .get(&slot)
            .is_some_and(|other| other.name == process.name)
        {
            known.processes.remove(&slot);
        }
    }

    /// The process of the user's among those that were listed for a slot.
    fn verify(&self, known: &mut Known, slot: u16) -> Result<Option<Found>> {
        let Some(names) = known.listed.get_mut(&slot) else {
            return Ok(None);
        };
        let mut is_unclear = false;
        while let Some(name) = names.pop() {
            let (owner, socket) = owner::reach(&name, self.user)?;
            match owner {
                owner::Owner::Ours(pid) => {
                    let process = Arc::new(Process::new(name, pid, self.user)?);
                    known.processes.insert(slot, Arc::clone(&process));
                    return Ok(Some((process, socket)));
                }
                owner::Owner::Unknown => is_unclear = true,
                owner::Owner::Stranger | owner::Owner::None => {}
            }
        }
        known.listed.remove(&slot);
        if is_unclear {
            return Err(Errno::AGAIN);
        }
        Ok(None)
    }
}

impl Known {
    fn is_old(&self, times_sooner: u32) -> bool {
        let is_past = |(since, good): (Instant, Duration)| since.elapsed() >= good / times_sooner;
        self.latest.is_none_or(is_past)
    }

    /// Lists names anew.
    ///
    /// # Errors
    /// EAGAIN if there is no descriptor for that.
    fn list(&mut self, user: User) -> Result<()> {
        let began = Instant::now();
        self.is_blind = false;
        let found = match listing::listening() {
            Ok(found) => found,
            Err(error) if error.is_shortage() => return Err(Errno::AGAIN),
            Err(error) => {
                complain(error);
                self.is_blind = true;
                Vec::new()
            }
        };
        self.vacant.clear();
        self.listed.clear();
        for socket in found {
            if socket.user.is_some_and(|whose| !user.is(whose)) {
                continue;
            }
            let Some(name) = Name::parse(&socket.name).filter(names_process) else {
                continue;
            };
            let names = self.listed.entry(name.slot()).or_default();
            match name {
                // Looked at last: they are taken from the end.
                Name::Statistics { .. } => names.insert(0, name),
                _ if names.len() < MOST => names.push(name),
                _ => {}
            }
        }
        let good = (began.elapsed() * SHARE).clamp(SOONEST, LATEST);
        self.latest = Some((Instant::now(), good));
        Ok(())
    }
}

/// Whether a name belongs to a process that has a slot.
fn names_process(name: &Name) -> bool {
    matches!(
        name,
        Name::Process(_) | Name::Statistics { token: None, .. }
    )
}

/// Logs, once, that other processes cannot be found.
fn complain(error: Errno) {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if !LOGGED.swap(true, Relaxed) {
        log::line(
            Level::Warning,
            &format!(
                "uroce: other processes of this host cannot be found (no sock_diag(7), and \
                 /proc/net/unix: errno {}): packets for them that come here are lost",
                error.raw()
            ),
        );
    }
}
