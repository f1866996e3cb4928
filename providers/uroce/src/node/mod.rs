//! What the devices of a process share: its slot, the UDP sockets, the queue pairs, their timers and
//! the helper thread.
//!
//! Whoever polls or posts moves everything along; the helper does when nobody polls. There is one
//! node a process, made for the first context and gone with the last. A forked child has none: what
//! it inherited answers ENODEV or does nothing, and does not disturb the parent.

mod account;
mod backlog;
mod core;
mod courtesy;
mod deliver;
mod endpoint;
mod failing;
mod groups;
mod habits;
mod helper;
mod inherited;
mod messages;
mod mover;
mod news;
mod parting;
mod peers;
mod rings;
mod round;
mod shown;
mod table;
mod timers;
mod watch;

#[cfg(test)]
mod tests;

pub use account::Account;
pub use endpoint::{Endpoint, Incoming};
pub use messages::Messages;
pub use mover::Mover;
pub use rings::incoming;
pub use watch::{Interest, Ready, Watch};

use self::core::Core;
use self::round::Round;
use crate::carrier::shm::{Directory, Peer};
use crate::carrier::udp::slot::{self, INDEX_BITS};
use crate::carrier::udp::{Tools, crc};
use crate::memory::Keys;
use crate::threads;
use helper::Helper;
use kit::errno::{Errno, Result};
use kit::sys::exit;
use kit::sys::per_process::PerProcess;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use uroce_engine::timer::{AckTimeout, Time};

static NODE: PerProcess<Mutex<Weak<Node>>> = PerProcess::new();

/// Timeouts under this are short: twice as long as the helper leaves a peer without an answer at most.
const SHORT: u64 = 2 * helper::LONG_NAP;

/// The program exits.
fn leave() {
    // Who holds the lock may be the one who exits.
    let node = NODE
        .get()
        .ok()
        .and_then(|place| place.try_lock()?.upgrade());
    if let Some(node) = node
        && node.is_here()
    {
        node.core.exits();
    }
}

/// The node of this process.
pub struct Node {
    keys: Arc<Keys>,
    core: Arc<Core>,
    helper: Helper,
    /// Dropped after the helper has ended.
    _news: Option<Watch>,
    /// As above.
    _account: Option<Watch>,
}

impl Node {
    /// The node of this process, made if there is none.
    ///
    /// # Errors
    /// EADDRINUSE if UDP port 4791 belongs to another user or to kernel soft-RoCE; EADDRNOTAVAIL if
    /// all slots of the network namespace are taken; EAGAIN if no thread can be had; EINVAL if
    /// `UROCE_FAULTS` or `UROCE_CARRIER` cannot be understood; ENOSYS, EFBIG if the latter asks for shared memory where
    /// that cannot be had; of opening the file of `UROCE_PCAP`; of socket(2), epoll_create(2).
    pub fn get() -> Result<Arc<Self>> {
        let mut place = NODE.get()?.lock();
        if let Some(node) = place.upgrade() {
            return Ok(node);
        }
        let node = Arc::new(Self::open()?);
        *place = Arc::downgrade(&node);
        Ok(node)
    }

    fn open() -> Result<Self> {
        Self::open_with(Tools::from_environment()?)
    }

    fn open_with(tools: Tools) -> Result<Self> {
        let core = Arc::new(Core::open(tools)?);
        exit::at_exit(leave);
        threads::prepare_barriers();
        crc::choose();
        let news = news::follow(&core);
        let account = account::answer(&core);
        let helper = Helper::start(&core)?;
        let keys = Arc::new(shown::keys(&core));
        keys.prepare();
        Ok(Self {
            keys,
            core,
            helper,
            _news: news,
            _account: account,
        })
    }

    /// Gives a queue pair its number: `make` is called with it.
    ///
    /// # Errors
    /// ENOMEM if the process has 16384 queue pairs; ENODEV in a forked child; what `make` answers.
    pub fn attach(&self, make: impl FnOnce(u32) -> Result<Arc<dyn Endpoint>>) -> Result<u32> {
        self.core.here()?;
        let index = self.core.table.reserve()?;
        let number = u32::from(self.core.slot.number()) << INDEX_BITS | index;
        match make(number) {
            Ok(endpoint) => {
                self.core.table.put(index, endpoint);
                Ok(number)
            }
            Err(error) => {
                self.core.table.release(index);
                Err(error)
            }
        }
    }

    /// Takes a queue pair's number away, with its memberships, after [`Node::see_off`]. When this returns no call to the
    /// endpoint is running or comes. Not to be called from inside such a call, or with a lock held
    /// that one waits for.
    pub fn detach(&self, qpn: u32) {
        if self.core.here().is_err() {
            return;
        }
        self.core.groups.leave_all(qpn, self.core.sockets());
        let Some(index) = self.core.index(qpn) else {
            return;
        };
        self.core.see_off(index);
        let endpoint = self.core.table.take(index);
        if endpoint.is_some() {
            self.core.await_failed();
            self.core.inbox.lock().forget(index);
            self.core.table.release(index);
        }
    }

    /// Packets for a number that another process gave come to the queue pair of a number of this one
    /// from now on, wherever they arrive.
    ///
    /// # Errors
    /// EINVAL if `place` is no number of this process; ENODEV in a forked child; of socket(2), bind(2).
    pub fn inherit(&self, number: u32, place: u32) -> Result<()> {
        self.core.here()?;
        let index = self.core.index(place).ok_or(Errno::INVAL)?;
        self.core.inherited.add(number, index, self.slot())
    }

    /// Packets for a number that was inherited do not come here any more.
    pub fn disinherit(&self, number: u32) {
        if self.is_here() {
            self.core.inherited.remove(number);
        }
    }

    /// The slot of the process that has inherited a number.
    #[must_use]
    pub fn heir(&self, number: u32) -> Option<u16> {
        self.core.heirs.find(number)
    }

    /// What keeps this process's slot from being given again, also after its end: for those who may
    /// inherit numbers of it.
    ///
    /// # Errors
    /// ENODEV in a forked child; of socket(2), bind(2), fcntl(2).
    pub fn keeps_slot(&self) -> Result<OwnedFd> {
        self.core.here()?;
        self.core.inherited.keeps(self.slot())
    }

    /// Sends what the queue pair has to send now. Packets of one queue pair leave in order: if
    /// another thread is sending for it, that one goes on to send this too.
    pub fn post(&self, qpn: u32) {
        self.send_in(qpn, |core| Round::new(core, Mover::Node));
    }

    /// As [`Node::post`], for who has just posted to it, and knows the time.
    pub fn post_at(&self, qpn: u32, now: Time) {
        self.send_in(qpn, |core| Round::new(core, Mover::Poster).at(now));
    }

    fn send_in<'a>(&'a self, qpn: u32, begin: impl FnOnce(&'a core::Core) -> Round<'a>) {
        if self.is_here()
            && let Some(index) = self.core.index(qpn)
        {
            begin(&self.core).send_for(index);
        }
    }

    /// Sends what a queue pair has to send now, and waits a moment for room if there is none: the peer
    /// waits for the acknowledgement of what was completed last. What has come is taken in before, and
    /// what comes in the next moment if its own requests wait for it: they are about to be flushed.
    /// Not to be called where [`Node::detach`] may not be.
    pub fn see_off(&self, qpn: u32) {
        if self.is_here()
            && let Some(index) = self.core.index(qpn)
        {
            self.core.see_off(index);
            self.core.hear_out(index);
        }
    }

    /// Takes in all that peers have put into rings by now; whoever is at it is waited for. Not to be called
    /// where [`Node::detach`] may not be.
    pub fn take_in_rings(&self) {
        if self.is_here() {
            self.core.take_in_all_rings();
        }
    }

    /// A queue pair has failed by itself: it is called soon ([`Endpoint::failed`]), where it may wait.
    pub fn failed(&self, qpn: u32) {
        if self.is_here()
            && let Some(index) = self.core.index(qpn)
        {
            self.core.failed(index);
        }
    }

    /// A connection has this timeout, and may be given up within a few times of it.
    pub fn mind_timeout(&self, timeout: AckTimeout) {
        if timeout.nanos().is_some_and(|nanos| nanos < SHORT) && self.is_here() {
            self.core.make_haste();
        }
    }

    /// Takes in what has come, unless another thread is at it, and acts on deadlines: for whoever
    /// found a completion queue empty.
    pub fn progress(&self, mover: Mover) {
        if self.is_here() {
            self.core.progress(mover);
        }
    }

    /// Tells that somebody is going to wait without polling, so that the helper takes over at once.
    pub fn armed(&self) {
        if self.is_here() {
            self.core.alarm.armed();
        }
    }

    /// Calls `callback` in the helper thread whenever the descriptor is ready, until the result is
    /// dropped; after that it is not running.
    ///
    /// # Errors
    /// Of dup(2), epoll_ctl(2); ENODEV in a forked child.
    pub fn watch(
        &self,
        fd: BorrowedFd<'_>,
        interest: Interest,
        callback: impl FnMut(Ready) + Send + 'static,
    ) -> Result<Watch> {
        self.core.here()?;
        Watch::new(&self.core, fd, interest, Box::new(callback))
    }

    /// Attaches a queue pair to a multicast group on an interface. Doing it again changes nothing.
    ///
    /// # Errors
    /// EINVAL if the address is no group; of IP_ADD_MEMBERSHIP, IPV6_ADD_MEMBERSHIP: ENODEV for an
    /// unknown interface, ENOBUFS beyond net.ipv4.igmp_max_memberships.
    pub fn join(&self, group: IpAddr, interface: u32, qpn: u32) -> Result<()> {
        self.core.here()?;
        self.core.index(qpn).ok_or(Errno::INVAL)?;
        let sockets = self.core.sockets();
        self.core.groups.join(group, interface, qpn, sockets)
    }

    /// Detaches a queue pair from a group.
    ///
    /// # Errors
    /// EINVAL if it is not attached.
    pub fn leave(&self, group: IpAddr, interface: u32, qpn: u32) -> Result<()> {
        self.core.here()?;
        let sockets = self.core.sockets();
        self.core.groups.leave(group, interface, qpn, sockets)
    }

    /// Whether this is the process that opened it, not a forked child.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.core.here().is_ok()
    }

    /// The processes of this host that can be reached by shared memory; `None` if none can.
    #[must_use]
    pub fn directory(&self) -> Option<&Directory> {
        self.core.here().ok()?;
        self.core.directory.as_ref()
    }

    /// The process that a QP number of this host belongs to, if it can be reached by shared memory. A
    /// process that was not met is waited for, for a moment.
    #[must_use]
    pub fn meet(&self, qpn: u32) -> Option<Arc<Peer>> {
        let peer = self.directory()?.meet(slot::of(qpn));
        self.core.pass_bell();
        peer
    }

    /// Whether messages may go past the protocol: not where its packets are to meet a bad network.
    #[must_use]
    pub fn may_bypass(&self) -> bool {
        self.core.ways.tools().network.is_none()
    }

    /// The keys to this process's memory.
    #[must_use]
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The slot: the highest 10 bits of this process's QP numbers.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.core.slot.number()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.core.here().is_err() {
            // A forked child: the thread is not here, and a lock may stay locked for ever.
            std::mem::forget(Arc::clone(&self.core));
            self.helper.forget();
            return;
        }
        self.core.hand_out(parting::ROOM);
        self.core.alarm.stop();
        self.helper.join();
    }
}
