//! Connections with processes that end, and with others that get their slot.

use super::super::channel::{Channel, Waiting};
use super::super::host::Watch;
use super::super::id::{Id, Stage};
use super::*;
use crate::carrier::udp::Path;
use kit::abi::IBV_QPT_RC;
use kit::cm::event_type;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::datagram::Received;
use kit::sys::ready::is_readable;
use rustix::event::{EventfdFlags, eventfd};
use std::net::Ipv4Addr;
use std::os::fd::{BorrowedFd, OwnedFd};
use uroce_cm::agent::{INDEX_BITS, Request};
use uroce_cm::ip::PortSpace;
use uroce_cm::wire::{LEN, Mad, Rep, Req};

const CHANNEL: u32 = 1;
const OWN: u16 = 1;
const PEER: u16 = 7;

type Call = Box<dyn FnMut() + Send>;

/// This host: the process of the peer's slot, and the calls at the ends of those that are watched.
struct Fake {
    /// `None` as long as it cannot be said which process there is.
    process: Mutex<Option<OwnedFd>>,
    calls: Mutex<Vec<Call>>,
}

struct FakeWatch(OwnedFd);

impl Watch for FakeWatch {
    fn is_ready(&self) -> bool {
        is_readable(self.0.as_fd()).expect("poll")
    }
}

impl Network for Fake {
    fn slot(&self) -> u16 {
        OWN
    }

    fn send(&self, _: &Path, _: u32, _: &[u8; LEN]) {}

    fn hand_on(&self, _: u16, _: &Received<'_>) -> Result<()> {
        Ok(())
    }

    fn wake_at(&self, _: u64) {}

    fn end_of(&self, slot: u16) -> End {
        assert_eq!(slot, PEER);
        match &*self.process.lock() {
            Some(process) if is_readable(process.as_fd()).expect("poll") => End::Past,
            Some(process) => End::Awaited(process.try_clone().expect("a descriptor")),
            None => End::Unclear,
        }
    }
}

impl Host for Fake {
    fn network(&self) -> &dyn Network {
        self
    }

    fn watch(&self, descriptor: BorrowedFd<'_>, call: Call) -> Result<Box<dyn Watch>> {
        self.calls.lock().push(call);
        let descriptor = descriptor.try_clone_to_owned().expect("a descriptor");
        Ok(Box::new(FakeWatch(descriptor)))
    }
}

impl Fake {
    /// A process has the slot of the peer from now on. Its descriptor ends it.
    fn begin(&self) -> OwnedFd {
        let process = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        *self.process.lock() = Some(process.try_clone().expect("a descriptor"));
        process
    }

    /// The progress thread notices the ends of the processes that were watched first to last.
    fn notice(&self, count: usize) {
        let calls: Vec<_> = self.calls.lock().drain(..count).collect();
        for mut call in calls {
            call();
        }
    }
}

fn end(process: &OwnedFd) {
    rustix::io::write(process, &1_u64.to_ne_bytes()).expect("a write");
}

/// A process with a channel, on a host with one other process.
struct World {
    cm: Arc<Cm>,
    host: Arc<Fake>,
    peers: u32,
    _shown: OwnedFd,
}

impl World {
    fn new() -> Self {
        let (channel, shown) = Channel::new().expect("a channel");
        let cm = Cm::new();
        cm.with(|state| state.channels.insert(CHANNEL, channel));
        let host = Fake {
            process: Mutex::new(None),
            calls: Mutex::default(),
        };
        Self {
            cm,
            host: Arc::new(host),
            peers: 0,
            _shown: shown,
        }
    }

    /// An id whose connection with the process of the peer's slot has been accepted.
    fn connect(&mut self, number: u32) {
        self.peers += 1;
        let (peer, node) = (self.peers, Arc::clone(&self.host) as Arc<dyn Host>);
        self.cm.with(|state| {
            let own = Ipv4Addr::LOCALHOST.into();
            let route = Route::new(own, own, 1);
            let request = Request {
                message: Req::default(),
                options: 0,
                agent: 0,
            };
            let comm_id = state.agent(OWN).connect(route, &request, milliseconds());
            let comm_id = comm_id.expect("an id");
            let mut id = Id::new(0, CHANNEL, (PortSpace::Tcp, IBV_QPT_RC));
            id.stage = Stage::Connecting;
            id.node = Some(Arc::clone(&node));
            id.comm_id = Some(comm_id);
            state.ids.insert(number, id);
            state.by_comm_id.insert(comm_id, number);
            let reply = Mad {
                transaction: 0,
                modifier: 0,
                message: Rep {
                    local_comm_id: u32::from(PEER) << INDEX_BITS | peer,
                    remote_comm_id: comm_id,
                    local_qpn: peer,
                    local_ca_guid: 5,
                    ..Rep::default()
                }
                .into(),
            };
            state.with_agent(&node, |agent| {
                agent.receive(route, &reply, None, milliseconds());
            });
        });
        assert_eq!(self.events(number), [event_type::CONNECT_RESPONSE]);
        // Established: the end is reported as such.
        let established = |state: &mut State| state.establish(number);
        self.cm.with(established).expect("a connection");
    }

    /// The events of an id since the last call.
    fn events(&self, number: u32) -> Vec<u32> {
        self.cm.with(|state| {
            let channel = state.channels.get_mut(&CHANNEL).expect("a channel");
            let events = channel.take(|event: &Waiting| event.record.id == number);
            events.iter().map(|event| event.record.event).collect()
        })
    }

    fn close(&self, number: u32) {
        self.cm.with(|state| state.end(number)).expect("an id");
    }
}

const ENDED: [u32; 1] = [event_type::DISCONNECTED];

#[test]
fn all_connections_of_a_process_end_with_it() {
    let mut world = World::new();
    let process = world.host.begin();
    world.connect(10);
    world.connect(11);
    assert_eq!(world.host.calls.lock().len(), 1);
    end(&process);
    world.host.notice(1);
    assert_eq!(world.events(10), ENDED);
    assert_eq!(world.events(11), ENDED);
}

#[test]
fn the_end_of_a_process_is_not_that_of_the_next_one_in_its_slot() {
    let mut world = World::new();
    let first = world.host.begin();
    world.connect(10);
    world.connect(11);
    end(&first);
    // The next one connects before the progress thread has noticed.
    let second = world.host.begin();
    world.connect(12);
    world.host.notice(1);
    assert_eq!(world.events(10), ENDED);
    assert_eq!(world.events(11), ENDED);
    assert_eq!(world.events(12), []);
    end(&second);
    world.host.notice(1);
    assert_eq!(world.events(12), ENDED);
    assert_eq!(world.events(10), []);
}

#[test]
fn a_process_that_closed_its_devices_is_not_taken_for_the_next_one_in_its_slot() {
    let mut world = World::new();
    let first = world.host.begin();
    world.connect(10);
    world.close(10);
    // The first process still runs.
    let second = world.host.begin();
    world.connect(11);
    end(&first);
    world.host.notice(1);
    assert_eq!(world.events(11), []);
    end(&second);
    world.host.notice(1);
    assert_eq!(world.events(11), ENDED);
}

#[test]
fn a_process_that_is_found_later_is_that_of_the_ids_without_one() {
    let mut world = World::new();
    let first = world.host.begin();
    world.connect(10);
    end(&first);
    *world.host.process.lock() = None;
    world.connect(11);
    world.connect(12);
    assert_eq!(world.events(10), ENDED);
    let second = world.host.begin();
    let look = |state: &mut State| {
        state.unwatched.values_mut().for_each(|due| *due = 0);
        state.watch_again(&*world.host);
    };
    world.cm.with(look);
    world.host.notice(1);
    assert_eq!((world.events(11), world.events(12)), (vec![], vec![]));
    end(&second);
    world.host.notice(1);
    assert_eq!(world.events(11), ENDED);
    assert_eq!(world.events(12), ENDED);
}

#[test]
fn an_id_of_another_channel_ends_with_its_peer() {
    let mut world = World::new();
    let process = world.host.begin();
    world.connect(10);
    let (other, _shown) = Channel::new().expect("a channel");
    world.cm.with(|state| {
        state.channels.insert(2, other);
        state.id(10).expect("an id").channel = 2;
    });
    end(&process);
    world.host.notice(1);
    let events = world.cm.with(|state| {
        let channel = state.channels.get_mut(&2).expect("a channel");
        channel.pop().map(|event| event.record.event)
    });
    assert_eq!(events, Ok(event_type::DISCONNECTED));
}

#[test]
fn an_id_that_was_closed_does_not_end_again() {
    let mut world = World::new();
    let process = world.host.begin();
    world.connect(10);
    world.connect(11);
    world.close(10);
    // The same number, connected to no process.
    let id = Id::new(0, CHANNEL, (PortSpace::Tcp, IBV_QPT_RC));
    world.cm.with(|state| state.ids.insert(10, id));
    end(&process);
    world.host.notice(1);
    assert_eq!(world.events(10), []);
    assert_eq!(world.events(11), ENDED);
}
