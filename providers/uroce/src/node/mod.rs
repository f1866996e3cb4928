//! The part of a process that all its devices share. There is one node a process: the first context
//! makes it, and it goes with the last.
//!
//! | module | contents |
//! | --- | --- |
//! | `endpoint`, `caller` | a queue pair as the node sees it, and the kinds of threads that call it |
//! | `registry` | the queue pairs, by index, QP number and multicast group |
//! | `transport`, `outbound` | the ways from queue pairs to the network and to other processes |
//! | `inbound` | packets and messages on their way in |
//! | `progress` | the threads that move queue pairs along, and their deadlines |
//! | `management` | queue pair 1, for the connection manager |
//! | `teardown` | the end of a queue pair, of a device, of the program |
//! | `statistics`, `notifications`, `shown` | counters for other processes; changes of interfaces; memory keys for peers |
//!
//! Dependencies run one way: `teardown` and the progress thread use `progress::poll`, which uses
//! `inbound`, which uses `progress::pass`, which uses `transport`, which uses `registry`. `inner`
//! composes them, and other modules see only [`Node`].
//!
//! *Threads.* A thread that posts sends at once, or leaves short requests behind others to the next
//! occasion (`progress::batches`). A thread that polls an empty completion queue does
//! one look for all queue pairs. The progress thread does both for threads that sleep.
//!
//! *Order.* Sending for a queue pair belongs to one thread at a time, from taking its packets until
//! they are sent. A thread that finds it taken leaves a note, and the other thread continues.
//!
//! *Locks,* outermost first: the inbox; a place of the table, for reading; the queue pair's own.
//! The locks of timers, groups, numbers, outboxes, watches and failed queue pairs are held for a
//! few instructions each, and no queue pair is called under them.
//!
//! *fork.* A forked child has no node. Its inherited objects return ENODEV or do nothing, and do
//! not disturb the parent. fork(2) closes the child's copies of the receiving sockets
//! (`kit::sys::child`), so that the child takes no packets away, and the slot is free when the
//! parent ends.
//!
//! *Tests.* Each type has its own. `tests` joins several nodes of one process by real sockets, in a
//! network namespace; `providers/uroce/tests` has the tests with several processes.

mod caller;
mod endpoint;
mod inbound;
mod inner;
mod management;
mod notifications;
mod outbound;
mod progress;
mod registry;
mod shown;
mod statistics;
mod teardown;
mod transport;

#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use endpoint::{Account, Endpoint, Incoming, Remote};
pub use inbound::messages::Messages;
pub use inbound::rings::incoming;
pub use management::open as open_for_connections;
pub use progress::watch::{Interest, Ready, Watch};

use self::inner::NodeInner;
use self::progress::idle_backoff::LONG_BACKOFF;
use self::progress::pass::Pass;
use self::progress::thread::ProgressThread;
use self::transport::Transport;
use crate::carrier::shm::{Directory, Peer};
use crate::carrier::udp::{Tools, crc};
use crate::carrier::{self, qpn};
use crate::cm;
use crate::memory::Keys;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use kit::sys::{barrier, exit};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use uroce_engine::timer::{AckTimeout, Time};

static NODE: PerProcess<Mutex<Weak<Node>>> = PerProcess::new();

/// Timeouts under this are short: twice as long as the progress thread leaves a peer without an
/// answer at most.
const SHORT: u64 = 2 * LONG_BACKOFF;

/// The program exits.
fn leave() {
    // The thread that holds the lock may be the one that exits.
    let node = NODE
        .get()
        .ok()
        .and_then(|place| place.try_lock()?.upgrade());
    if let Some(node) = node
        && node.is_here()
    {
        node.inner.teardown.exits(&node.inner.transport().alarm);
    }
}

/// Takes the connections by which other processes make sure of this one, until the result is
/// dropped. The directory, if there is one, does that itself.
fn answer_proofs(node: &Arc<NodeInner>) -> Result<Option<Watch>> {
    if node.directory().is_some() {
        return Ok(None);
    }
    let weak = Arc::downgrade(node);
    let accept = move |_| {
        if let Some(node) = weak.upgrade() {
            carrier::registry::accept_and_close(node.progress.sorter.slot().registry().listener());
            // A process that finds a successor makes sure of its process next.
            node.transport().numbers.take_connections();
        }
    };
    let listener = node.progress.sorter.slot().registry().listener();
    let watch = Watch::new(
        &node.watches,
        listener.as_fd(),
        Interest::Arrival,
        Box::new(accept),
    );
    watch.map(Some)
}

/// The node of this process.
pub struct Node {
    keys: Arc<Keys>,
    inner: Arc<NodeInner>,
    thread: ProgressThread,
    /// Dropped after the progress thread has ended.
    _notifications: Option<Watch>,
    /// As above.
    _account: Option<Watch>,
    /// As above.
    _proofs: Option<Watch>,
}

impl Node {
    /// The node of this process; the first call makes it.
    ///
    /// # Errors
    /// EADDRINUSE if UDP port 4791 belongs to another user or to kernel soft-RoCE; EADDRNOTAVAIL if
    /// all slots of the network namespace are taken; EAGAIN if no thread can be started; EINVAL if
    /// `UROCE_FAULTS` or `UROCE_CARRIER` cannot be understood; ENOSYS, EFBIG if the latter asks for
    /// shared memory where it is not available; of socket(2), epoll_create(2).
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
        Self::open_with(Tools::from_environment()?, cm::of_process()?)
    }

    fn open_with(tools: Tools, cm: Arc<cm::Cm>) -> Result<Self> {
        let node = NodeInner::open(tools, cm)?;
        exit::at_exit(leave);
        // Not by a thread that ends later: see `thread::start`.
        barrier::prepare();
        crc::choose();
        let notifications = notifications::follow(&node.watches);
        let account = statistics::answer(&node);
        let proofs = answer_proofs(&node)?;
        let thread = ProgressThread::start(&node)?;
        let keys = Arc::new(shown::keys(&node));
        keys.prepare();
        Ok(Self {
            keys,
            inner: node,
            thread,
            _notifications: notifications,
            _account: account,
            _proofs: proofs,
        })
    }

    /// Gives a queue pair its number: `make` is called with it.
    ///
    /// # Errors
    /// ENOMEM if the process has 16384 queue pairs; ENODEV in a forked child; the error of `make`.
    pub fn attach(&self, make: impl FnOnce(u32) -> Result<Arc<dyn Endpoint>>) -> Result<u32> {
        self.inner.here()?;
        let index = self.inner.transport().table.reserve()?;
        let number = self.inner.transport().numbers.of(index);
        match make(number) {
            Ok(endpoint) => {
                self.inner.transport().table.put(index, endpoint);
                Ok(number)
            }
            Err(error) => {
                self.inner.transport().table.release(index);
                Err(error)
            }
        }
    }

    /// Takes a queue pair's number away, with its memberships, after [`Node::tear_down`]. When this
    /// returns no call to the endpoint is running or comes. Not to be called from inside such a
    /// call, or with a lock held that one waits for.
    pub fn detach(&self, qpn: u32) {
        if self.inner.here().is_err() {
            return;
        }
        self.inner
            .progress
            .sorter
            .groups()
            .leave_all(qpn, self.inner.transport().sockets());
        let Some(index) = self.inner.transport().index(qpn) else {
            return;
        };
        self.inner.teardown.flush(&self.inner.progress, index);
        let endpoint = self.inner.transport().table.take(index);
        if endpoint.is_some() {
            self.inner.progress.await_failed();
            self.inner.progress.inbox.lock().forget(index);
            self.inner.transport().table.release(index);
        }
    }

    /// Packets for a number that another process gave come to the queue pair of a number of this
    /// one from now on, wherever they arrive.
    ///
    /// # Errors
    /// EINVAL if `place` is no number of this process; ENODEV in a forked child; of socket(2),
    /// bind(2).
    pub fn take_over_number(&self, number: u32, place: u32) -> Result<()> {
        self.inner.here()?;
        let index = self.inner.transport().index(place).ok_or(Errno::INVAL)?;
        self.inner.transport().numbers.take_over(number, index)
    }

    /// Packets for a number that was taken over do not come here any more.
    pub fn release_number(&self, number: u32) {
        if self.is_here() {
            self.inner.transport().numbers.release(number);
        }
    }

    /// The slot of the process that has taken a number over.
    #[must_use]
    pub fn successor(&self, number: u32) -> Option<u16> {
        self.inner.progress.sorter.successors().find(number)
    }

    /// A value that keeps this process's slot from being reused, also after its end, for processes
    /// that may take over numbers of it.
    ///
    /// # Errors
    /// ENODEV in a forked child; of socket(2), bind(2), fcntl(2).
    pub fn keeps_slot(&self) -> Result<OwnedFd> {
        self.inner.here()?;
        self.inner.transport().numbers.keep_slot()
    }

    /// Sends the pending packets of the queue pair. Packets of one queue pair leave in order: if
    /// another thread is sending for it, that thread sends these, too.
    pub fn post(&self, qpn: u32) {
        self.send_in(qpn, |transport| Pass::new(transport, Caller::Node));
    }

    /// As [`Node::post`], for a caller that has just posted to it, and knows the time.
    pub fn post_at(&self, qpn: u32, now: Time) {
        self.send_in(qpn, |transport| {
            Pass::new(transport, Caller::Poster).at(now)
        });
    }

    /// As [`Node::post_at`], for requests that may wait for others, to leave together with them:
    /// until the next post, poll, or packet of that queue pair, and a moment at most.
    pub fn post_in_batch(&self, qpn: u32, now: Time) {
        let transport = self.inner.transport();
        if self.is_here()
            && let Some(index) = transport.index(qpn)
            && !transport.batch(index, now)
        {
            self.inner.progress.send_batches(Caller::Node);
            self.post_at(qpn, now);
        }
    }

    fn send_in<'a>(&'a self, qpn: u32, begin: impl FnOnce(&'a Transport) -> Pass<'a>) {
        if self.is_here()
            && let Some(index) = self.inner.transport().index(qpn)
        {
            begin(self.inner.transport()).send_for(index);
        }
    }

    /// Prepares the end of a queue pair, by the steps of the module `teardown`: processes received
    /// packets, sends pending ones, with a bounded wait for room in rings (the peer waits for the
    /// acknowledgement of the last completed message), and awaits acknowledgements of its requests,
    /// which are about to be flushed. It must not be called where [`Node::detach`] must not.
    pub fn tear_down(&self, qpn: u32) {
        if self.is_here()
            && let Some(index) = self.inner.transport().index(qpn)
        {
            let (teardown, progress) = (&self.inner.teardown, &self.inner.progress);
            teardown.flush(progress, index);
            teardown.await_acknowledgements(progress, index);
        }
    }

    /// Receives all that peers have put into rings by now, after waiting for a thread that is doing
    /// so. Must not be called where [`Node::detach`] must not be.
    pub fn take_in_rings(&self) {
        if self.is_here() {
            teardown::take_in_all_rings(&self.inner.progress);
        }
    }

    /// A queue pair has failed by itself: it is called soon ([`Endpoint::failed`]), where it may
    /// wait.
    pub fn failed(&self, qpn: u32) {
        if self.is_here()
            && let Some(index) = self.inner.transport().index(qpn)
        {
            self.inner.progress.failed(index);
        }
    }

    /// A queue pair has a deadline at that time at the latest.
    pub fn note_deadline(&self, qpn: u32, deadline: Time) {
        if self.is_here()
            && let Some(index) = self.inner.transport().index(qpn)
        {
            self.inner.transport().schedule(index, deadline);
        }
    }

    /// A connection has this timeout, and may be given up within a few times of it.
    pub fn note_timeout(&self, timeout: AckTimeout) {
        if timeout.nanos().is_some_and(|nanos| nanos < SHORT) && self.is_here() {
            self.inner.progress.make_haste();
        }
    }

    /// Receives pending packets, unless another thread is doing so, and executes expired deadlines.
    /// For callers that found a completion queue empty.
    pub fn progress(&self, caller: Caller) {
        if self.is_here() {
            self.inner.progress.progress(caller);
        }
    }

    /// A thread polled a completion queue that has more completions: it polls again, so the
    /// progress thread leaves the packets to it. They are received when the queue is empty, or
    /// after some more polls.
    #[inline]
    pub fn polled(&self, caller: Caller) {
        if self.inner.transport().alarm.polled_backlog() {
            self.progress(caller);
        }
    }

    /// A thread has posted requests by some calls.
    #[inline]
    pub fn posted(&self) {
        self.inner.transport().alarm.posted();
    }

    /// The same as [`Node::progress`], for a caller that has posted requests by some calls, and
    /// polls at other times. It does nothing if a thread has looked for packets just now.
    pub fn progress_while_posting(&self, caller: Caller) {
        if self.is_here() {
            self.inner.progress.progress_while_posting(caller);
        }
    }

    /// This thread is going to wait without polling: the progress thread takes over at once.
    pub fn armed(&self, caller: Caller) {
        if self.is_here() {
            self.inner.progress.send_batches(caller);
            self.inner.transport().alarm.armed();
        }
    }

    /// Calls `callback` in the progress thread whenever the descriptor is ready, until the result
    /// is dropped; after that it is not running.
    ///
    /// # Errors
    /// Of dup(2), epoll_ctl(2); ENODEV in a forked child.
    pub fn watch(
        &self,
        fd: BorrowedFd<'_>,
        interest: Interest,
        callback: impl FnMut(Ready) + Send + 'static,
    ) -> Result<Watch> {
        self.inner.here()?;
        Watch::new(&self.inner.watches, fd, interest, Box::new(callback))
    }

    /// Attaches a queue pair to a multicast group on an interface. Doing it again changes nothing.
    ///
    /// # Errors
    /// EINVAL if the address is no group; of IP_ADD_MEMBERSHIP, IPV6_ADD_MEMBERSHIP: ENODEV for an
    /// unknown interface, ENOBUFS beyond net.ipv4.igmp_max_memberships.
    pub fn join(&self, group: IpAddr, interface: u32, qpn: u32) -> Result<()> {
        self.inner.here()?;
        self.inner.transport().index(qpn).ok_or(Errno::INVAL)?;
        let sockets = self.inner.transport().sockets();
        self.inner
            .progress
            .sorter
            .groups()
            .join(group, interface, qpn, sockets)
    }

    /// Detaches a queue pair from a group.
    ///
    /// # Errors
    /// EINVAL if it is not attached.
    pub fn leave(&self, group: IpAddr, interface: u32, qpn: u32) -> Result<()> {
        self.inner.here()?;
        let sockets = self.inner.transport().sockets();
        self.inner
            .progress
            .sorter
            .groups()
            .leave(group, interface, qpn, sockets)
    }

    /// Whether this is the process that opened it, not a forked child.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.inner.here().is_ok()
    }

    /// The processes of this host that can be reached by shared memory; `None` if none can.
    #[must_use]
    pub fn directory(&self) -> Option<&Directory> {
        self.inner.here().ok()?;
        self.inner.directory()
    }

    /// The process that a QP number of this host belongs to, if there is a link with it. If not,
    /// one is asked for, without waiting, once it is worth its cost. [`Endpoint::linked`] of the
    /// queue pair `own` is called when it is there.
    #[must_use]
    pub fn connect(&self, qpn: u32, own: u32) -> Option<Arc<Peer>> {
        let index = self.inner.transport().index(own)?;
        let peer = self.directory()?.connect(qpn::slot_of(qpn), index);
        self.inner.transport().pass_bell();
        peer
    }

    /// From now on a link with the process that a QP number of this host belongs to is worth what
    /// it costs.
    pub fn want_link(&self, qpn: u32) {
        if let Some(directory) = self.directory() {
            directory.want_link(qpn::slot_of(qpn));
        }
    }

    /// Asks for such a link at once. Returns when the attempt began, if one is under way.
    #[must_use]
    pub fn ask_for_link(&self, qpn: u32) -> Option<Time> {
        let asked = self.directory()?.ask_for_link(qpn::slot_of(qpn));
        self.inner.transport().pass_bell();
        asked.map(Time::from_nanos)
    }

    /// A region of a peer was mapped, which is to be unmapped when it is not used any more.
    pub fn mapped_region(&self, now: Time) {
        self.inner.transport().mapped_region(now);
    }

    /// The process that a QP number of this host belongs to, if there is a link with it.
    #[must_use]
    pub fn peer(&self, qpn: u32) -> Option<Arc<Peer>> {
        self.directory()?.peer(qpn::slot_of(qpn))
    }

    /// Whether only shared memory leads to processes of this host.
    #[must_use]
    pub fn is_local_only(&self) -> bool {
        self.inner.transport().local().is_some_and(|(_, only)| only)
    }

    /// Whether queue pairs may use the fast path: not where packets are to meet a bad network.
    #[must_use]
    pub fn allows_fast_path(&self) -> bool {
        !self.inner.transport().outbound.is_bad()
    }

    /// The keys to this process's memory.
    #[must_use]
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The slot: the highest 10 bits of this process's QP numbers.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.inner.transport().numbers.slot()
    }
}

/// One thread's hold of all that is received.
#[cfg(test)]
pub struct Receiving<'a> {
    node: &'a Node,
    inbox: kit::sys::lock::Guard<'a, inbound::inbox::Inbox>,
}

#[cfg(test)]
impl Node {
    /// Nothing is received from now on but by the result, until that is dropped.
    pub fn receive_alone(&self) -> Receiving<'_> {
        Receiving {
            node: self,
            inbox: self.inner.progress.inbox.lock(),
        }
    }
}

#[cfg(test)]
impl Receiving<'_> {
    /// Receives from the rings. Returns whether there was anything.
    pub fn take_in_rings(&mut self, caller: Caller) -> bool {
        self.inbox
            .take_in_rings(self.node.inner.transport(), caller)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.inner.here().is_err() {
            // A forked child: the thread is not here, and a lock may stay locked for ever.
            std::mem::forget(Arc::clone(&self.inner));
            self.thread.forget();
            return;
        }
        teardown::leave(&self.inner.progress, teardown::ROOM);
        self.inner.transport().alarm.stop();
        self.thread.join();
    }
}
