//! XRC domains: shared receive queues by number, and the targets that use them. Those of one file
//! (by device and inode) are one domain on one RDMA device, for all processes of the user.
//!
//! A process that has the domain open is connected to every other that has. A target belongs to the
//! process that made it, its home; packets for a receive queue of another process take the target
//! there for as long as they come ([`crate::qp`], `turns`).

mod estate;
mod inherit;
mod link;
mod names;
mod opened;
mod words;

pub use estate::Estate;
pub use link::Link;
pub use opened::{Opened, Place};
pub use words::{Record, Standing, Word};

use crate::address::Addresses;
use crate::channel::Records;
use crate::device::Port;
use crate::node::{self, Interest, Node, Watch};
use crate::qp::{Core, Parts};
use crate::receive::{self, Srq};
use crate::{clock, threads};
use inherit::Asks;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use kit::sys::per_process::PerProcess;
use link::Heard;
use names::Key;
use parking_lot::Mutex;
use rustix::fs::fstat;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use words::Call;

/// The domains of files that this process has open.
static BY_FILE: PerProcess<Mutex<HashMap<Key, Known>>> = PerProcess::new();

struct Known {
    domain: Arc<Domain>,
    /// How often it is open.
    count: usize,
}

/// What a target that visits this process is put on.
#[derive(Clone)]
pub struct Ground {
    /// The process's node.
    pub node: Arc<Node>,
    /// The device's port.
    pub port: Arc<Port>,
    /// Where asynchronous events are told.
    pub events: Arc<Records>,
    /// The context's address handles.
    pub addresses: Arc<Addresses>,
}

/// A domain, as this process has it.
#[derive(Default)]
pub struct Domain {
    srqs: Mutex<HashMap<u32, Weak<Srq>>>,
    targets: Mutex<HashMap<u32, Weak<Core>>>,
    /// If it is a file's.
    shared: Option<Shared>,
}

struct Shared {
    key: Key,
    ground: Ground,
    listening: Mutex<Option<Watch>>,
    links: Mutex<Vec<Arc<Link>>>,
    /// Targets of other processes that have been here.
    guests: Mutex<HashMap<u32, Arc<Core>>>,
    /// Targets of other processes that are open here.
    opened: Mutex<Vec<Weak<Opened>>>,
    /// What targets of other processes leave.
    estates: Mutex<HashMap<u32, Arc<Estate>>>,
    /// Processes that have left the domain, by slot.
    gone: Mutex<HashSet<u16>>,
    /// Heirs that wait for an answer.
    asked: Mutex<Vec<Asks>>,
}

/// An opened domain.
pub struct Xrcd {
    domain: Weak<Domain>,
    /// None for a guest, which lives as long as the domain.
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
    /// ibv_open_xrcd(3): the domain of the file, or one of nobody else's. `flags` are `O_CREAT` and
    /// `O_EXCL`.
    ///
    /// # Errors
    /// ENOENT if there is none and `O_CREAT` is not given; EEXIST if there is one and `O_CREAT` and
    /// `O_EXCL` are; EINVAL for other flags, and without a file if `O_CREAT` is not given; EAGAIN if
    /// other processes cannot be asked.
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

    /// The shared receive queue of a number.
    pub fn srq(&self, number: u32) -> Option<Arc<Srq>> {
        self.domain()?.srqs.lock().get(&number)?.upgrade()
    }

    /// The target of a number, if it was made here.
    pub fn target(&self, number: u32) -> Option<Arc<Core>> {
        self.domain()?.target(number)
    }

    /// The connection to another process that has the domain open.
    pub fn link(&self, slot: u16) -> Option<Arc<Link>> {
        self.domain()?.link(slot)
    }

    /// Whether another process has opened the domain and is not known here yet: it says so when it
    /// has opened it, and that may be heard after its packets.
    pub fn is_coming(&self, slot: u16) -> bool {
        self.domain().is_some_and(|domain| {
            let shared = domain.shared.as_ref();
            shared.is_some_and(|shared| domain.is_there(shared, slot))
        })
    }

    /// Opens a target that another process has made.
    ///
    /// # Errors
    /// EINVAL if there is none of that number in the domain.
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
            // Known before it is open: if the process ends at once, this one inherits.
            let mut all = shared.opened.lock();
            all.retain(|known| known.strong_count() > 0);
            all.push(Arc::downgrade(&opened));
        }
        if opened.open().is_err() {
            opened.moves(Place::Nowhere);
            return Err(Errno::INVAL);
        }
        Ok(opened)
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

    /// Tells another process of an event of a target.
    pub fn tell(&self, slot: u16, number: u32, event: ibv_event_type) {
        if let Some(link) = self.link(slot) {
            link.say(&Word::Event(number, event));
        }
    }

    /// Makes a target known by its number.
    pub fn add_target(&self, core: &Arc<Core>) {
        if let Some(domain) = self.domain() {
            let mut targets = domain.targets.lock();
            targets.insert(core.number, Arc::downgrade(core));
        }
    }

    /// Forgets a target.
    pub fn remove_target(&self, number: u32) {
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
                guests: Mutex::default(),
                opened: Mutex::default(),
                estates: Mutex::default(),
                gone: Mutex::default(),
                asked: Mutex::default(),
            }),
            ..Self::default()
        });
        for (slot, socket) in others {
            let link = domain.connect(slot, socket)?;
            link.say(&Word::Hello(own));
        }
        let socket = Arc::clone(&listening);
        let weak = Arc::downgrade(&domain);
        let watch = ground
            .node
            .watch(socket.as_fd(), Interest::Read, move |_| {
                while let (Some(domain), Ok(socket)) = (weak.upgrade(), names::accept(&listening)) {
                    // Who cannot be listened to finds the connection closed.
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
        let link = Link::new(&shared.ground.node, slot, socket, move |link, word| {
            if let Some(domain) = weak.upgrade() {
                domain.hear(link, word);
            }
        })?;
        shared.links.lock().push(Arc::clone(&link));
        Ok(link)
    }

    fn target(&self, number: u32) -> Option<Arc<Core>> {
        self.targets.lock().get(&number)?.upgrade()
    }

    fn link(&self, slot: u16) -> Option<Arc<Link>> {
        let links = self.shared.as_ref()?.links.lock();
        let is_his = |link: &&Arc<Link>| link.slot() == slot && slot != 0 && !link.is_gone();
        links.iter().find(is_his).map(Arc::clone)
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
        // Each waits until nobody is called by way of it, so without a lock.
        drop(shared.listening.lock().take());
        let links = std::mem::take(&mut *shared.links.lock());
        drop(links);
        let guests = std::mem::take(&mut *shared.guests.lock());
        for guest in guests.values() {
            guest.node().detach(guest.place);
        }
    }

    fn hear(self: &Arc<Self>, link: &Arc<Link>, heard: Heard<'_>) {
        let Some((word, descriptors)) = heard else {
            return self.lost(link);
        };
        match word {
            Word::Hello(slot) => self.greet(link, slot),
            Word::Estate(number) => self.keep_estate(number, descriptors),
            Word::Inherited(number, turn, home) => self.stand(Asks {
                heir: Arc::clone(link),
                number,
                turn,
                home,
            }),
            Word::Lend(number, turn, attr, rest) => {
                let lodged = self.guest(number);
                if lodged
                    .and_then(|guest| guest.lodge(link, turn, &attr, &rest))
                    .is_err()
                {
                    link.say(&Word::Rest(number, Standing::Back, rest));
                }
            }
            Word::Change(number, attr) => {
                self.with_guest(number, |guest| guest.follow_home(&attr));
            }
            Word::Packet(number, bytes) => self.with_guest(number, |guest| {
                if let Some(incoming) = node::incoming(bytes) {
                    guest.receive_as_guest(clock::now(), &incoming);
                }
            }),
            Word::Recall(number, hard) => self.with_guest(number, |guest| guest.go_home(hard)),
            Word::Rest(number, standing, rest) => {
                if let Some(core) = self.target(number) {
                    core.hear_of(link, standing, &rest);
                }
            }
            Word::Event(number, event) => self.tell(link, number, event),
            Word::Call(id, number, call) => self.serve(link, id, number, call),
            Word::Answer(id, code, attr) => link.answer(id, code, attr),
        }
    }

    /// The target of another process, as it is put up here.
    fn guest(self: &Arc<Self>, number: u32) -> Result<Arc<Core>> {
        let shared = self.shared.as_ref().ok_or(Errno::INVAL)?;
        let mut guests = shared.guests.lock();
        if let Some(guest) = guests.get(&number) {
            return Ok(Arc::clone(guest));
        }
        let xrcd = Xrcd {
            domain: Arc::downgrade(self),
            kept: None,
        };
        let core = Core::guest(number, Parts::of_target(&shared.ground, Arc::new(xrcd)))?;
        guests.insert(number, Arc::clone(&core));
        Ok(core)
    }

    fn with_guest(&self, number: u32, act: impl FnOnce(&Arc<Core>)) {
        let guest = self.shared.as_ref().and_then(|shared| {
            let guests = shared.guests.lock();
            guests.get(&number).map(Arc::clone)
        });
        if let Some(guest) = guest {
            act(&guest);
        }
    }

    /// An event of a target: one that was made here and is a guest of who tells it, or one that was
    /// made there and is open here.
    fn tell(&self, link: &Arc<Link>, number: u32, event: ibv_event_type) {
        if let Some(core) = self.target(number) {
            core.tell(event);
            return;
        }
        for opened in self.opened_of(link) {
            if opened.number == number {
                opened.tell(event);
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
        let targets: Vec<Arc<Core>> = {
            let targets = self.targets.lock();
            targets.values().filter_map(Weak::upgrade).collect()
        };
        shared.gone.lock().insert(link.slot());
        for core in targets {
            core.lost(link);
            core.remove_visitor(link.slot(), usize::MAX);
        }
        self.settle();
        self.stand_now();
        self.end_orphans();
    }

    /// Answers who has a target of this process open, or opens it.
    fn serve(self: &Arc<Self>, link: &Arc<Link>, id: u64, number: u32, call: Call) {
        let Some(core) = self.target(number) else {
            return link.say(&Word::Answer(id, libc::EINVAL, None));
        };
        let told = move |core: &Core| {
            let mut attr = bytemuck::Zeroable::zeroed();
            core.query(&mut attr);
            Some(attr)
        };
        match call {
            Call::Open => {
                // Handed over before the answer: whoever has opened it can inherit it.
                let answer = match core.add_visitor(link) {
                    Ok(()) => Word::Answer(id, 0, told(&core)),
                    Err(error) => Word::Answer(id, error.0, None),
                };
                link.say(&answer);
            }
            Call::Query => link.say(&Word::Answer(id, 0, told(&core))),
            Call::Close => {
                core.remove_visitor(link.slot(), 1);
                link.say(&Word::Answer(id, 0, told(&core)));
            }
            Call::Modify(attr, mask) => {
                let asks = Arc::clone(link);
                // It may wait for this thread.
                let started = threads::spawn("uroce-xrc", move || {
                    let answer = match core.modify(&attr, mask) {
                        Ok(_) => Word::Answer(id, 0, told(&core)),
                        Err(error) => Word::Answer(id, error.0, None),
                    };
                    asks.say(&answer);
                });
                if let Err(error) = started {
                    link.say(&Word::Answer(id, error.0, None));
                }
            }
        }
    }
}
