//! Where frames come in: one socket for each interface that this process has rules on
//! (packet(7)).

use super::checksum;
use super::counters::Counters;
use super::headers::Headers;
use super::qp::RawQp;
use super::rule::{Kind, Rule};
use super::spread::Spread;
use super::steering::Steering;
use crate::node::{Interest, Node, Watch};
use kit::errno::{Errno, Result};
use kit::sync::{Mutex, RwLock};
use kit::sys::child::ParentOnly;
use kit::sys::fork_guard::ForkGuard;
use kit::sys::packet::{self, Frame, FrameReceiver, Hardware, Membership, Origin};
use kit::sys::per_process::PerProcess;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

/// Taps of this process by interface. A forked child has none.
static TAPS: PerProcess<Mutex<HashMap<u32, Weak<Tap>>>> = PerProcess::new();

/// Rounds of receiving before the progress thread looks at other things.
const PASSES: usize = 16;

/// Where a rule leads.
pub enum Target {
    /// A queue pair.
    Qp(Arc<RawQp>),
    /// A queue pair that spreads.
    Spread(Arc<Spread>),
}

struct Lead {
    target: Target,
    counters: Vec<Arc<Counters>>,
}

/// The socket of an interface, and the rules for its frames.
struct Tap {
    /// Both are there until it is dropped; the registration goes before the socket.
    parent_only: Option<ParentOnly>,
    socket: Option<OwnedFd>,
    /// The process that they belong to.
    opener: ForkGuard,
    hardware: Hardware,
    steering: RwLock<Steering<Arc<Lead>>>,
    receiver: Mutex<FrameReceiver>,
    watch: OnceLock<Watch>,
}

/// A rule at work, until it is dropped.
pub struct Flow(Arc<AtWork>);

/// A flow, for code that keeps a list of them.
pub type KnownFlow = Weak<AtWork>;

/// The tap that has the rule.
pub struct AtWork {
    tap: Arc<Tap>,
    lead: Arc<Lead>,
}

impl Flow {
    /// Steers frames of an interface that match the rule to a target.
    ///
    /// # Errors
    /// EPERM without `CAP_NET_RAW`, ENODEV for an interface that is gone, ENOMEM.
    pub fn create(
        node: &Node,
        interface: u32,
        rule: Rule,
        target: Target,
        counters: Vec<Arc<Counters>>,
    ) -> Result<Self> {
        let tap = Tap::get(node, interface)?;
        if let Some(more) = tap.membership(&rule) {
            packet::join(tap.socket()?, interface, more)?;
        }
        let lead = Arc::new(Lead { target, counters });
        tap.steering.write().add(rule, Arc::clone(&lead));
        Ok(Self(Arc::new(AtWork { tap, lead })))
    }

    /// For a list of flows.
    pub fn known(&self) -> KnownFlow {
        Arc::downgrade(&self.0)
    }

    /// Takes the rule away: afterwards no frame is on its way by it.
    pub fn end(&self) {
        self.0.end();
    }
}

impl AtWork {
    /// As [`Flow::end`].
    pub fn end(&self) {
        if self.tap.is_here() {
            let is = |lead: &Arc<Lead>| Arc::ptr_eq(lead, &self.lead);
            self.tap.steering.write().remove(is);
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.end();
    }
}

impl Tap {
    fn get(node: &Node, interface: u32) -> Result<Arc<Self>> {
        let mut taps = TAPS.get()?.lock();
        if let Some(tap) = taps.get(&interface).and_then(Weak::upgrade) {
            return Ok(tap);
        }
        let tap = Arc::new(Self::open(interface)?);
        let weak = Arc::downgrade(&tap);
        let work = Weak::clone(&weak);
        let watch = node.watch(tap.socket()?.as_fd(), Interest::Read, move |_| {
            if let Some(tap) = work.upgrade() {
                tap.work();
            }
        })?;
        let _ = tap.watch.set(watch);
        taps.retain(|_, tap| tap.strong_count() > 0);
        taps.insert(interface, weak);
        Ok(tap)
    }

    fn open(interface: u32) -> Result<Self> {
        let socket = packet::open(interface, true)?;
        Ok(Self {
            hardware: packet::hardware(socket.as_fd())?,
            parent_only: Some(ParentOnly::new(socket.as_fd())?),
            socket: Some(socket),
            opener: ForkGuard::new()?,
            steering: RwLock::default(),
            receiver: Mutex::default(),
            watch: OnceLock::new(),
        })
    }

    fn socket(&self) -> Result<&OwnedFd> {
        self.socket.as_ref().ok_or(Errno::NODEV)
    }

    fn is_here(&self) -> bool {
        self.opener.here().is_ok()
    }

    /// The additional frames that the interface has to receive for a rule. They are received until
    /// the last rule of the interface is removed.
    fn membership(&self, rule: &Rule) -> Option<Membership> {
        if self.hardware.loopback {
            return None;
        }
        match rule.destination() {
            Some(address) if address == self.hardware.address => None,
            Some(group) if group.first().is_some_and(|first| first & 1 != 0) => {
                Some(Membership::Group(group))
            }
            _ if rule.kind == Kind::Groups => Some(Membership::AllGroups),
            _ => Some(Membership::Everything),
        }
    }

    fn work(&self) {
        let Ok(socket) = self.socket() else {
            return;
        };
        let mut receiver = self.receiver.lock();
        for _ in 0..PASSES {
            let Ok(count) = receiver.receive(socket.as_fd()) else {
                return;
            };
            receiver.finish(checksum::finish);
            let steering = self.steering.read();
            for frame in (0..count).filter_map(|at| receiver.frame(at)) {
                self.hand_over(&steering, &frame);
            }
        }
    }

    fn hand_over(&self, steering: &Steering<Arc<Lead>>, frame: &Frame<'_>) {
        // A frame sent by a loopback interface is also received by it.
        if self.hardware.loopback && frame.origin == Origin::Sent {
            return;
        }
        let Some(headers) = Headers::read(frame.bytes) else {
            return;
        };
        steering.steer(&headers, frame.origin, |rule, lead| {
            for counters in &lead.counters {
                counters.count(frame.bytes.len());
            }
            match &lead.target {
                _ if rule.drops => {}
                Target::Qp(qp) => qp.receive(frame.bytes),
                Target::Spread(spread) => spread.receive(&headers, frame.bytes),
            }
        });
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if !self.is_here() {
            // The descriptor is closed in a forked child, and its number may be another's.
            std::mem::forget(self.parent_only.take());
            std::mem::forget(self.socket.take());
        }
    }
}
