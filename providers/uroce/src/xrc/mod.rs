//! XRC domains: shared receive queues by number, and the targets that use them. All processes of a
//! user in one network namespace share the domain of a file (by device and inode) on one RDMA
//! device.
//!
//! | type | contents |
//! | --- | --- |
//! | `names` | the name of a domain, and the sockets of the processes that have it open |
//! | `Domain` | a domain in one process: its queues and targets, and a `Link` to every other process |
//! | `Link` | a connection (SOCK_SEQPACKET) to another process. Messages that must arrive are kept while there is no room or no memory (`outbox`); packets are lost, as on a network |
//! | `Message` | the messages on it |
//! | `uroce_engine::qp::Rest` | the state of a responder between two messages: PSN, MSN, results of requests that must not be executed twice |
//! | `Opened` | a target of another process, opened here (ibv_open_qp(3)): each call asks its owner |
//! | `TakeoverState` | the takeover state of a target: memory in which its owner writes a `Record` before each answer, and the socket that reserves its number |
//!
//! *Finding processes.* A process with an open domain listens on an abstract Unix socket, whose
//! name has its slot, the user, the file's device and inode, the interface, and a random token. A
//! domain exists if a process of the user listens, so a killed process leaves nothing behind.
//! Opening takes a turn by the same election as slots, so that two processes do not both create the
//! domain, and then connects to all listeners.
//!
//! *Migration.* The process that created a target owns it: the QP number leads there. A packet
//! names its shared receive queue, whose number names a process. If that is another process, and no
//! message is half received and all requests are answered, the owner delegates the target: packet,
//! attributes and `Rest` go to that process, and later packets follow. The delegate executes and
//! answers them. Before its answers leave, it reports its new `Rest` to the owner. A packet for a
//! third process waits at the owner, with all that follow, until the delegate returns the target,
//! which it does between two messages. A packet for a process that has opened the domain but is not
//! connected yet is lost; the peer retransmits it.
//!
//! *Changes.* The owner passes changed attributes to the delegate. For RESET, ERR and destruction
//! it revokes the delegation and waits up to a second; a half received message ends as flushed.
//!
//! *Ends.* If a delegate ends, the owner continues from the latest `Rest`; a half received message
//! breaks the connection. If an owner destroys a target that other processes have open, it keeps it
//! for them as long as it runs. A call to a stopped owner waits 5 seconds: ibv_open_qp(3),
//! ibv_modify_qp(3) and ibv_query_qp(3) then answer ETIMEDOUT, ibv_destroy_qp(3) continues, and the
//! owner executes the request when it runs again.
//!
//! *Takeover.* A target lives while any process has it open, also after its owner was killed. Each
//! opener has the takeover state: shared memory with two copies of the record, written in turn, the
//! valid one named last, so a killed writer leaves a whole record. It has the attributes, the
//! `Rest`, the delegate, and the openers. It is written before an answer leaves, so a missing
//! request was not acknowledged and is retransmitted. When the connection to the owner ends, each
//! opener tries to put its slot in place of the owner's by one atomic exchange. The successor
//! continues from the record, and the others ask it from then on. Calls that waited for the old
//! owner are repeated; a state change that was already made is not an error. If the target was
//! delegated, the delegate processes everything that the owner sent and then reports to the
//! successor. Each delegation has a number, so that a delegate that never received it is not
//! believed.
//!
//! *The number* still names the ended process. Its slot is not assigned again while a process holds
//! the socket `\0uroce/<slot>/kept/<token>`, copies of which go with the takeover state. The
//! successor listens at `\0uroce/successor/<number>/<own slot>/<token>`. A process with a packet
//! for an ended process whose slot is reserved looks up that name (at most each 20 ms, and for at
//! most a twentieth of the time) and sends to the successor. Until then packets are lost, and the
//! peer's timeout and retry count bound the time.
//!
//! *Limits.* Messages for a receive queue of the ended process break the connection, as with
//! hardware. Without memory or a number for the successor, openers get `IBV_EVENT_QP_FATAL` and
//! their calls answer EIO.
//!
//! *Memory.* A target has no protection domain; memory is accessed in the domain of the shared
//! receive queue that the latest request named (IBTA volume 1, annex A14).
//!
//! *Imports.* This module, `takeover` and `opened` import each other: a domain lists the handles
//! that are opened in it, and a handle asks its domain for another owner and for its end.
//! `takeover` is the half of [`Domain`] that deals with owners that have ended. Queue pairs know a
//! domain by the trait [`XrcDomain`] only.
//!
//! Tests: `c-tests/programs/post_44/xrc.c` (owner, delegate and sender in three processes) and
//! `xrc_takeover.c` (the owner is killed at random moments, then its successor, over each carrier;
//! every message arrives once and in order); `providers/uroce/tests/xrc_stopped.rs`.

mod link;
mod message;
mod names;
mod opened;
mod outbox;
mod takeover;
mod takeover_state;

pub use link::Link;
pub use message::{DelegateState, Message, Record};
pub use opened::{Location, Opened};
pub use takeover_state::TakeoverState;

use crate::carrier::registry::User;
use crate::channel::Records;
use crate::device::Port;
use crate::memory::PdId;
use crate::node::{self, Interest, Node, Watch};
use crate::qp::{CreateParams, EventListener, QpState, XrcDomain};
use crate::receive::{self, Srq};
use crate::{clock, threads};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use link::Received;
use message::Call;
use names::Key;
use rustix::fs::fstat;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use takeover::StateRequest;
use uroce_engine::qp::Service;

/// The domains of files that this process has open.
static BY_FILE: PerProcess<Mutex<HashMap<Key, Known>>> = PerProcess::new();

/// How long it is believed where a process was not, or was, when a packet named it: packets may
/// come one after the other, and looking takes a millisecond on a busy host.
const LOOKED: Duration = Duration::from_millis(20);

struct Known {
    domain: Arc<Domain>,
    /// How often it is open.
    count: usize,
}

/// Objects that a delegate in this process uses.
#[derive(Clone)]
pub struct Ground {
    /// The process's node.
    pub node: Arc<Node>,
    /// The device's port.
    pub port: Arc<Port>,
    /// Where asynchronous events are reported.
    pub events: Arc<Records>,
}

/// The parameters of a target's delegate.
fn target_params(ground: &Ground, xrcd: Arc<Xrcd>) -> CreateParams {
    let ground = ground.clone();
    CreateParams {
        node: ground.node,
        port: ground.port,
        events: ground.events,
        service: Service::XrcTarget,
        pd: PdId::NONE,
        send_cq: None,
        recv_cq: None,
        srq: None,
        xrcd: Some(xrcd),
        cap: ibv_qp_cap::zeroed(),
        sq_sig_all: false,
    }
}

/// A domain, as this process has it.
#[derive(Default)]
pub struct Domain {
    srqs: Mutex<HashMap<u32, Weak<Srq>>>,
    targets: Mutex<HashMap<u32, Weak<QpState>>>,
    /// If it is a file's.
    shared: Option<Shared>,
}

struct Shared {
    key: Key,
    ground: Ground,
    listening: Mutex<Option<Watch>>,
    links: Mutex<Vec<Arc<Link>>>,
    /// Delegates of targets of other processes.
    delegates: Mutex<HashMap<u32, Arc<QpState>>>,
    /// Targets of other processes that are open here.
    opened: Mutex<Vec<Weak<Opened>>>,
    /// The takeover states of targets of other processes.
    takeovers: Mutex<HashMap<u32, Arc<TakeoverState>>>,
    /// Processes that have left the domain, by slot.
    gone: Mutex<HashSet<u16>>,
    /// Whether a process was there when it was looked for last, for packets that name it.
    coming: Mutex<HashMap<u16, (Instant, bool)>>,
    /// Requests of successors that wait for an answer.
    requests: Mutex<Vec<StateRequest>>,
}

/// An opened domain.
pub struct Xrcd {
    domain: Weak<Domain>,
    /// None for a delegate, which lives as long as the domain.
    kept: Option<Arc<Domain>>,
}

impl Drop for Xrcd {
    fn drop(&mut self) {
        if let Some(domain) = &self.kept {
            domain.close();
        }
    }
}

impl Xrcd {
    /// ibv_open_xrcd(3): the domain of the file, or one that is not shared. `flags` are `O_CREAT`
    /// and `O_EXCL`.
    ///
    /// # Errors
    /// ENOENT if the domain does not exist and `O_CREAT` is not given; EEXIST if it exists and
    /// `O_CREAT` and `O_EXCL` are given; EINVAL for other flags, and without a file if `O_CREAT` is
    /// not given; EAGAIN if other processes cannot be asked.
    pub fn open(ground: &Ground, file: Option<BorrowedFd<'_>>, flags: i32) -> Result<Self> {
        let create = flags & libc::O_CREAT != 0;
        if flags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno::INVAL);
        }
        let Some(file) = file else {
            return if create {
                Ok(Self::of(Arc::default()))
            } else {
                Err(Errno::INVAL)
            };
        };
        let stat = fstat(file)?;
        let key = Key {
            inode: (stat.st_dev, stat.st_ino),
            interface: ground.port.name().to_owned(),
        };
        let alone = create && flags & libc::O_EXCL != 0;
        let mut known = BY_FILE.get()?.lock();
        if let Some(known) = known.get_mut(&key) {
            if alone {
                return Err(Errno(libc::EEXIST));
            }
            known.count += 1;
            return Ok(Self::of(Arc::clone(&known.domain)));
        }
        let domain = Domain::join(ground, key.clone(), create, alone)?;
        let one = Known {
            domain: Arc::clone(&domain),
            count: 1,
        };
        known.insert(key, one);
        Ok(Self::of(domain))
    }

    fn of(domain: Arc<Domain>) -> Self {
        Self {
            domain: Arc::downgrade(&domain),
            kept: Some(domain),
        }
    }

    fn domain(&self) -> Option<Arc<Domain>> {
        self.domain.upgrade()
    }

    /// The target of a number, if this process is its owner.
    pub fn target(&self, number: u32) -> Option<Arc<QpState>> {
        self.domain()?.target(number)
    }

    /// Opens a target that another process has made.
    ///
    /// # Errors
    /// EINVAL if the domain has no target of that number; ETIMEDOUT if the process that made it
    /// does not answer within 5 seconds, because it is stopped.
    pub fn open_elsewhere(
        &self,
        number: u32,
        token: Token,
        events: &Arc<Records>,
    ) -> Result<Arc<Opened>> {
        let domain = self.kept.as_ref().ok_or(Errno::INVAL)?;
        let shared = domain.shared.as_ref().ok_or(Errno::INVAL)?;
        let link = domain.link_of(number).ok_or(Errno::INVAL)?;
        let opened = Arc::new(Opened::new(domain, link, number, token, Arc::clone(events)));
        {
            // Known before it is open: if the owner ends at once, this process may take over.
            let mut all = shared.opened.lock();
            all.retain(|known| known.strong_count() > 0);
            all.push(Arc::downgrade(&opened));
        }
        match opened.open() {
            Ok(()) => Ok(opened),
            Err(error) => {
                opened.moves(Location::Nowhere);
                let silent = error == Errno(libc::ETIMEDOUT);
                Err(if silent { error } else { Errno::INVAL })
            }
        }
    }

    /// One more that keeps the domain open in this process.
    ///
    /// # Errors
    /// EINVAL if it is not open.
    fn again(domain: &Arc<Domain>) -> Result<Self> {
        let shared = domain.shared.as_ref().ok_or(Errno::INVAL)?;
        let mut known = BY_FILE.get()?.lock();
        let known = known.get_mut(&shared.key).ok_or(Errno::INVAL)?;
        if !Arc::ptr_eq(&known.domain, domain) {
            return Err(Errno::INVAL);
        }
        known.count += 1;
        Ok(Self::of(Arc::clone(domain)))
    }

    /// Makes a target known by its number.
    pub fn add_target(&self, target: &Arc<QpState>) {
        if let Some(domain) = self.domain() {
            let mut targets = domain.targets.lock();
            targets.insert(target.number(), Arc::downgrade(target));
        }
    }
}

impl XrcDomain for Xrcd {
    fn srq(&self, number: u32) -> Option<Arc<Srq>> {
        self.domain()?.srqs.lock().get(&number)?.upgrade()
    }

    fn link(&self, slot: u16) -> Option<Arc<Link>> {
        self.domain()?.link(slot)
    }

    fn is_coming(&self, slot: u16) -> bool {
        self.domain().is_some_and(|domain| {
            let shared = domain.shared.as_ref();
            shared.is_some_and(|shared| domain.is_coming(shared, slot))
        })
    }

    fn report(&self, slot: u16, number: u32, event: ibv_event_type) {
        if let Some(link) = self.link(slot) {
            link.send(&Message::Event(number, event));
        }
    }

    fn remove_target(&self, number: u32) {
        if let Some(domain) = self.domain() {
            domain.targets.lock().remove(&number);
        }
    }
}

impl receive::Domain for Xrcd {
    fn add_srq(&self, number: u32, srq: &Arc<Srq>) {
        if let Some(domain) = self.domain() {
            domain.srqs.lock().insert(number, Arc::downgrade(srq));
        }
    }

    fn remove_srq(&self, number: u32) {
        if let Some(domain) = self.domain() {
            domain.srqs.lock().remove(&number);
        }
    }
}

impl Domain {
    /// Makes the domain of a file, or joins the processes that have it.
    fn join(ground: &Ground, key: Key, create: bool, alone: bool) -> Result<Arc<Self>> {
        let own = ground.node.slot();
        let turn = key.lock()?;
        let others = key.others(own)?;
        if others.is_empty() && !create {
            return Err(Errno::NOENT);
        }
        if !others.is_empty() && alone {
            return Err(Errno(libc::EEXIST));
        }
        let listening = Arc::new(key.listen(own)?);
        let domain = Arc::new(Self {
            shared: Some(Shared {
                key,
                ground: ground.clone(),
                listening: Mutex::default(),
                links: Mutex::default(),
                delegates: Mutex::default(),
                opened: Mutex::default(),
                takeovers: Mutex::default(),
                gone: Mutex::default(),
                coming: Mutex::default(),
                requests: Mutex::default(),
            }),
            ..Self::default()
        });
        for (slot, socket) in others {
            let link = domain.connect(slot, socket)?;
            link.send(&Message::Hello(own));
        }
        let socket = Arc::clone(&listening);
        let user = User::own();
        let weak = Arc::downgrade(&domain);
        let watch = ground
            .node
            .watch(socket.as_fd(), Interest::Arrival, move |_| {
                while let (Some(domain), Ok(socket)) =
                    (weak.upgrade(), names::accept(&listening, user))
                {
                    // A process that cannot be received from finds the connection closed.
                    let _ = domain.connect(0, socket);
                }
            })?;
        if let Some(shared) = &domain.shared {
            *shared.listening.lock() = Some(watch);
        }
        drop(turn);
        Ok(domain)
    }

    fn connect(self: &Arc<Self>, slot: u16, socket: OwnedFd) -> Result<Arc<Link>> {
        let shared = self.shared.as_ref().ok_or(Errno::INVAL)?;
        let weak = Arc::downgrade(self);
        let link = Link::new(&shared.ground.node, slot, socket, move |link, received| {
            if let Some(domain) = weak.upgrade() {
                domain.on_message(link, received);
            }
        })?;
        shared.links.lock().push(Arc::clone(&link));
        Ok(link)
    }

    fn target(&self, number: u32) -> Option<Arc<QpState>> {
        self.targets.lock().get(&number)?.upgrade()
    }

    fn link(&self, slot: u16) -> Option<Arc<Link>> {
        let links = self.shared.as_ref()?.links.lock();
        let is_its = |link: &&Arc<Link>| link.slot() == slot && slot != 0 && !link.is_gone();
        links.iter().find(is_its).map(Arc::clone)
    }

    /// It is open once less. The last time, the process leaves it.
    fn close(self: &Arc<Self>) {
        let Some(shared) = &self.shared else {
            return;
        };
        let Ok(by_file) = BY_FILE.get() else {
            return;
        };
        {
            let mut by_file = by_file.lock();
            let is_this = |known: &&mut Known| Arc::ptr_eq(&known.domain, self);
            let Some(known) = by_file.get_mut(&shared.key).filter(|k| is_this(k)) else {
                return;
            };
            known.count -= 1;
            if known.count > 0 {
                return;
            }
            by_file.remove(&shared.key);
        }
        // Each waits until its calls have ended, so without a lock.
        drop(shared.listening.lock().take());
        let links = std::mem::take(&mut *shared.links.lock());
        drop(links);
        let delegates = std::mem::take(&mut *shared.delegates.lock());
        for delegate in delegates.values() {
            let qp = delegate.resources();
            qp.node().detach(qp.node_number);
        }
    }

    fn on_message(self: &Arc<Self>, link: &Arc<Link>, received: Received<'_>) {
        let Some((message, descriptors)) = received else {
            return self.lost(link);
        };
        match message {
            Message::Hello(slot) => self.greet(link, slot),
            Message::TakeoverState(number) => self.keep_takeover(number, descriptors),
            Message::TakenOver(number, delegation, former) => self.answer_later(StateRequest {
                successor: Arc::clone(link),
                number,
                delegation,
                former,
            }),
            Message::Delegate(number, delegation, attr, rest) => {
                let delegate = self.delegate(number);
                if delegate
                    .and_then(|delegate| delegate.begin_delegation(link, delegation, &attr, &rest))
                    .is_err()
                {
                    link.send(&Message::Rest(number, DelegateState::Returned, rest));
                }
            }
            Message::Change(number, attr) => {
                self.with_delegate(number, |delegate| delegate.follow_owner(&attr));
            }
            Message::Packet(number, bytes) => self.with_delegate(number, |delegate| {
                if let Some(incoming) = node::incoming(bytes) {
                    delegate.receive_as_delegate(clock::now(), &incoming);
                }
            }),
            Message::Revoke(number, hard) => {
                self.with_delegate(number, |delegate| delegate.return_to_owner(hard))
            }
            Message::Rest(number, state, rest) => {
                if let Some(core) = self.target(number) {
                    core.on_report(link, state, &rest);
                }
            }
            Message::Event(number, event) => self.on_event(link, number, event),
            Message::Call(id, number, call) => self.serve(link, id, number, call),
            Message::Answer(id, code, attr) => link.answer(id, code, attr),
        }
    }

    /// The delegate of another process's target.
    fn delegate(self: &Arc<Self>, number: u32) -> Result<Arc<QpState>> {
        let shared = self.shared.as_ref().ok_or(Errno::INVAL)?;
        let mut delegates = shared.delegates.lock();
        if let Some(delegate) = delegates.get(&number) {
            return Ok(Arc::clone(delegate));
        }
        let xrcd = Xrcd {
            domain: Arc::downgrade(self),
            kept: None,
        };
        let params = target_params(&shared.ground, Arc::new(xrcd));
        let delegate = QpState::delegate(number, params)?;
        delegates.insert(number, Arc::clone(&delegate));
        Ok(delegate)
    }

    fn with_delegate(&self, number: u32, act: impl FnOnce(&Arc<QpState>)) {
        let delegate = self.shared.as_ref().and_then(|shared| {
            let delegates = shared.delegates.lock();
            delegates.get(&number).map(Arc::clone)
        });
        if let Some(delegate) = delegate {
            act(&delegate);
        }
    }

    /// An event of a target: of a target whose owner is this process, from its delegate, or of one
    /// that is open here, from its owner.
    fn on_event(&self, link: &Arc<Link>, number: u32, event: ibv_event_type) {
        if let Some(core) = self.target(number) {
            core.resources().report(event);
            return;
        }
        for opened in self.opened_of(link) {
            if opened.number == number {
                opened.report(event);
            }
        }
    }

    fn opened_of(&self, link: &Arc<Link>) -> Vec<Arc<Opened>> {
        let Some(shared) = &self.shared else {
            return Vec::new();
        };
        let opened = shared.opened.lock();
        let all = opened.iter().filter_map(Weak::upgrade);
        all.filter(|opened| opened.is_of(link)).collect()
    }

    /// A process has left the domain, or ended.
    fn lost(self: &Arc<Self>, link: &Arc<Link>) {
        let Some(shared) = &self.shared else {
            return;
        };
        shared
            .links
            .lock()
            .retain(|known| !Arc::ptr_eq(known, link));
        let targets: Vec<Arc<QpState>> = {
            let targets = self.targets.lock();
            targets.values().filter_map(Weak::upgrade).collect()
        };
        shared.gone.lock().insert(link.slot());
        for core in targets {
            core.on_lost(link);
            core.remove_user(link.slot(), usize::MAX);
        }
        self.take_over_orphans();
        self.answer_successors();
        self.end_orphans();
    }

    /// Answers a process that has a target of this process open, or opens it.
    fn serve(self: &Arc<Self>, link: &Arc<Link>, id: u64, number: u32, call: Call) {
        let Some(core) = self.target(number) else {
            return link.send(&Message::Answer(id, libc::EINVAL, None));
        };
        let attributes = move |core: &QpState| {
            let mut attr = bytemuck::Zeroable::zeroed();
            core.query(&mut attr);
            Some(attr)
        };
        match call {
            Call::Open => {
                // The takeover state goes before the answer: each opener can take the target over.
                let answer = match core.add_user(link) {
                    Ok(()) => Message::Answer(id, 0, attributes(&core)),
                    Err(error) => Message::Answer(id, error.0, None),
                };
                link.send(&answer);
            }
            Call::Query => link.send(&Message::Answer(id, 0, attributes(&core))),
            Call::Close => {
                core.remove_user(link.slot(), 1);
                link.send(&Message::Answer(id, 0, attributes(&core)));
            }
            Call::Modify(attr, mask) => {
                let link_of_call = Arc::clone(link);
                // It may wait for this thread.
                let started = threads::spawn("uroce-xrc", move || {
                    let answer = match core.modify(&attr, mask) {
                        Ok(_) => Message::Answer(id, 0, attributes(&core)),
                        Err(error) => Message::Answer(id, error.0, None),
                    };
                    link_of_call.send(&answer);
                });
                if let Err(error) = started {
                    link.send(&Message::Answer(id, error.0, None));
                }
            }
        }
    }
}
