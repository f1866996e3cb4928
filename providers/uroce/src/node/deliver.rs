//! Packets on their way in: whom they are for, and whether they are whole
//! (IBTA volume 1, 9.6, and annex A17).

use super::backlog::Backlog;
use super::core::Core;
use super::endpoint::Incoming;
use super::habits::{Habits, Manner, Run};
use super::mover::Mover;
use super::rings::{Lazy, Rings};
use crate::carrier::udp::capture::Record;
use crate::carrier::udp::{Doors, PORT, slot};
use crate::clock;
use kit::sys::datagram::{Received, Receiver};
use std::net::IpAddr;
use uroce_engine::wire::Packet;
use uroce_engine::wire::icrc::{self, Network, Route};

/// Runs handed on by others that are taken at once.
const HANDED_ON: usize = 8;
/// Looks at an idle socket after which it is looked at more seldom.
const IDLE: u32 = 256;
/// How much more seldom.
const SELDOM: u32 = 16;
/// How many turns of pollers there are from one look at the door and the sockets to the next, while the
/// sockets are idle and rings are there.
const RARELY: u32 = 256;
/// Turns of pollers that look at rings, one after the other, after which one gives way to other
/// programs: more than it takes a peer that runs to answer. A look at sockets takes longer.
const LONG: u32 = 1024;
/// Bytes of the longest run, and the head of one that was handed on.
const LONGEST: usize = (1 << 16) + 64;

const MULTICAST: u32 = 0x00ff_ffff;

/// Sockets, by their places in [`Inbox::idle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources(u64);

impl Sources {
    fn bit(place: usize) -> u64 {
        let shift = u32::try_from(place).unwrap_or(u32::MAX);
        1u64.checked_shl(shift).unwrap_or(0)
    }

    /// That there is something in this place.
    pub fn add(&mut self, place: u64) {
        self.0 |= Self::bit(usize::try_from(place).unwrap_or(usize::MAX));
    }

    fn take_out(&mut self, place: usize) {
        self.0 &= !Self::bit(place);
    }

    fn has(self, place: usize) -> bool {
        self.0 & Self::bit(place) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where to look for packets.
pub(super) enum Look<'s> {
    /// Where a poller may hope for some.
    Worthwhile,
    /// Everywhere.
    Everywhere,
    /// At these, where there was something at this time. Those where there is nothing any more are taken
    /// out.
    At(&'s mut Sources, u64),
}

impl Look<'_> {
    /// Whether a moment had come when it was found out where to look.
    pub fn is_past(&self, moment: u64) -> bool {
        matches!(self, Self::At(_, now) if moment <= *now)
    }
}

/// Where packets come in.
pub(super) struct Inbox {
    receiver: Receiver,
    handed_on: Box<[u8]>,
    backlog: Backlog,
    doors: Doors,
    /// For the sockets of IPv4, IPv6, the slot, and the doors in their order: how often nothing was
    /// there in succession.
    idle: Vec<u32>,
    turn: u32,
    /// The turn in which something was found last.
    latest: u32,
    rings: Rings,
}

/// Places of sockets; those of doors follow.
pub(super) const V4: usize = 0;
pub(super) const V6: usize = 1;
pub(super) const SLOT: usize = 2;
const DOORS: usize = 3;

impl Inbox {
    pub fn new() -> Self {
        Self {
            receiver: Receiver::new(),
            handed_on: vec![0; LONGEST].into_boxed_slice(),
            backlog: Backlog::default(),
            doors: Doors::default(),
            idle: vec![0; DOORS],
            turn: 0,
            latest: 0,
            rings: Rings::new(),
        }
    }

    /// Takes in what the rings have. Answers whether there was anything.
    #[inline]
    pub fn take_in_rings(&mut self, core: &Core, mover: Mover) -> bool {
        let mut turn = Lazy::new(core, mover);
        let some = self.rings.take_in(core, &mut turn);
        turn.finish();
        some
    }

    /// A queue pair is gone: the rings call it no more.
    pub fn forget(&mut self, index: u32) {
        self.rings.forget(index);
    }

    /// Whether packets wait for other processes.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The same, after those were handed on for which there is room now.
    pub fn keeps_packets(&mut self, core: &Core) -> bool {
        if self.has_backlog() {
            self.backlog.flush(&core.slot, clock::now());
        }
        self.has_backlog()
    }

    /// Whether the rings have something.
    pub fn rings_have_some(&mut self, core: &Core) -> bool {
        self.rings.has_some(core)
    }

    /// Whether this poller leaves the sockets alone: there are rings, and nothing came by the sockets
    /// for long.
    #[inline]
    pub fn leaves_sockets(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        !self.turn.is_multiple_of(RARELY) && self.is_for_rings()
    }

    /// A poller has found something, or nothing.
    #[inline]
    pub fn found(&mut self, some: bool) {
        if some {
            self.latest = self.turn;
        }
    }

    /// Whether pollers have found nothing for so long that whoever is to send something may be waiting
    /// for this processor.
    pub fn waits_long(&self) -> bool {
        let empty = self.turn.wrapping_sub(self.latest);
        let patience = if self.is_for_rings() { LONG } else { LONG / 16 };
        empty >= patience && self.turn.is_multiple_of(SELDOM)
    }

    /// Whether there are rings, and nothing came by the sockets for long.
    #[inline]
    pub fn is_for_rings(&self) -> bool {
        !self.rings.is_empty() && self.idle.iter().all(|idle| *idle >= IDLE)
    }

    /// Takes in what there is, a batch of each socket. Answers whether there was anything.
    pub fn take_in(&mut self, core: &Core, turn: &mut Lazy<'_>, mut look: Look<'_>) -> bool {
        self.attend(core, turn, &look);
        self.keeps_packets(core);
        let often = self.turn.is_multiple_of(SELDOM);
        let mut any = false;
        for source in 0..self.idle.len() {
            let idle = self.idle.get(source).copied().unwrap_or(0);
            let wanted = match &look {
                Look::Worthwhile => often || idle < IDLE,
                Look::Everywhere => true,
                Look::At(sources, _) => sources.has(source),
            };
            if !wanted {
                continue;
            }
            let found = self.take_from(core, turn, source);
            if let Some(place) = self.idle.get_mut(source) {
                *place = if found { 0 } else { idle.saturating_add(1) };
            }
            if let Look::At(sources, _) = &mut look
                && !found
            {
                sources.take_out(source);
            }
            any |= found;
        }
        any
    }

    /// Does what other processes ask for at the door. The helper, who looks where there is something,
    /// has been there.
    fn attend(&self, core: &Core, turn: &mut Lazy<'_>, look: &Look<'_>) {
        let Some(directory) = &core.directory else {
            return;
        };
        match look {
            Look::Worthwhile if !self.turn.is_multiple_of(RARELY) => return,
            Look::Worthwhile | Look::Everywhere => directory.attend(),
            Look::At(..) => {}
        }
        for index in directory.take_used() {
            turn.round().used(index);
        }
        core.pass_bell();
    }

    fn take_from(&mut self, core: &Core, turn: &mut Lazy<'_>, source: usize) -> bool {
        let Self {
            receiver,
            doors,
            backlog,
            ..
        } = self;
        let socket = match source {
            SLOT => return self.take_handed_on(core, turn),
            V4 => Some(core.sockets().v4()),
            V6 => core.sockets().v6(),
            door => doors.get(door - DOORS),
        };
        let Some(Ok(count)) = socket.map(|socket| receiver.receive(socket)) else {
            return false;
        };
        for index in 0..count {
            if let Some(run) = receiver.received(index) {
                sort(core, turn, &run, Some(backlog));
            }
        }
        count > 0
    }

    fn take_handed_on(&mut self, core: &Core, turn: &mut Lazy<'_>) -> bool {
        let mut found = false;
        for _ in 0..HANDED_ON {
            let Ok(run) = core.slot.take(&mut self.handed_on) else {
                break;
            };
            found = true;
            let Some(run) = run else {
                continue;
            };
            if !sort(core, turn, &run, None) {
                continue;
            }
            // Packets for us that are whole: from now on they shall come straight. If that cannot
            // be had, they go on coming this way.
            let slot = core.slot.number();
            let place = u64::try_from(self.idle.len()).unwrap_or(u64::MAX);
            let opened = self
                .doors
                .open(slot, &run, |door| core.alarm.add(door, place));
            if opened == Ok(true) {
                self.idle.push(0);
            }
        }
        found
    }
}

/// The QP number that a packet names.
fn destination(datagram: &[u8]) -> Option<u32> {
    let [high, middle, low] = *datagram.get(5..)?.first_chunk()?;
    Some(u32::from_be_bytes([0, high, middle, low]))
}

/// Hands the packets of a run to those they are for, neighbours together; those of other processes
/// are handed on, if it is known how. Answers whether some were for a queue pair here, and whole.
fn sort(
    core: &Core,
    turn: &mut Lazy<'_>,
    run: &Received<'_>,
    mut hand_on: Option<&mut Backlog>,
) -> bool {
    let mut ours = false;
    let mut rest = run.data;
    let mut looked = Run::default();
    while let Some(qpn) = destination(rest) {
        let foreign = core.index(qpn).is_none() && !run.destination.is_multicast();
        let same = |datagram: &[u8]| match destination(datagram) {
            Some(next) if foreign => slot::of(next) == slot::of(qpn),
            next => next == Some(qpn),
        };
        let neighbours = rest.chunks(run.segment).take_while(|next| same(next));
        let length = neighbours.map(<[u8]>::len).sum();
        let Some((mine, after)) = rest.split_at_checked(length) else {
            break;
        };
        let part = Received { data: mine, ..*run };
        if !foreign {
            ours |= hand_over(core, turn, &part, qpn, &mut looked);
        } else if let Some(backlog) = &mut hand_on {
            pass_on(core, &part, qpn, backlog);
        }
        rest = after;
    }
    ours
}

fn pass_on(core: &Core, part: &Received<'_>, qpn: u32, backlog: &mut Backlog) {
    let (to, now) = (slot::of(qpn), clock::now());
    let mut hand_on = |to| backlog.hand_on(&core.slot, to, part, now);
    if !(1..=slot::LAST).contains(&to) || hand_on(to) {
        return;
    }
    // Its process has ended. Another may have inherited the queue pair.
    if let Some(heir) = core.heirs.find(qpn)
        && (heir == core.slot.number() || !hand_on(heir))
    {
        core.heirs.forget(qpn);
    }
}

/// Hands packets to one queue pair of this process, or to a group, and answers whether it could.
fn hand_over(
    core: &Core,
    turn: &mut Lazy<'_>,
    part: &Received<'_>,
    qpn: u32,
    looked: &mut Run,
) -> bool {
    let mut whole = Vec::with_capacity(part.data.len() / part.segment.max(1) + 1);
    for datagram in part.data.chunks(part.segment) {
        let Some(identification) = check(&core.habits, part, datagram, looked) else {
            looked.guess = looked.guess.wrapping_add(1);
            continue;
        };
        looked.guess = identification.wrapping_add(1);
        if let Some(capture) = &core.ways.tools().capture {
            capture.add(&Record {
                source: part.source,
                destination: part.destination,
                ports: (part.port, PORT),
                hop_limit: part.hop_limit,
                traffic_class: part.traffic_class,
                identification,
                payload: datagram,
            });
        }
        if let Ok(packet) = Packet::parse(datagram) {
            whole.push(Incoming::new(packet, datagram.len(), part));
        }
    }
    if whole.is_empty() {
        return false;
    }
    if !part.destination.is_multicast() {
        return core
            .index(qpn)
            .is_some_and(|index| turn.round().deliver(index, &whole));
    }
    if qpn == MULTICAST {
        for member in core.groups.members(part.destination, part.interface) {
            if let Some(index) = core.index(member) {
                turn.round().deliver(index, &whole);
            }
        }
    }
    false
}

/// The identification with which a packet's ICRC is right, if its sender may number packets so.
fn check(habits: &Habits, part: &Received<'_>, datagram: &[u8], looked: &mut Run) -> Option<u16> {
    let route = |network| Route {
        network,
        source_port: part.port,
        destination_port: PORT,
    };
    let (source, destination) = match (part.source, part.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let network = Network::V6 {
                source: source.octets(),
                destination: destination.octets(),
            };
            return icrc::identify(&route(network), datagram);
        }
        _ => return None,
    };
    // Most senders say DF; whether this one did is not told either.
    let (identification, dont_fragment) = [true, false].into_iter().find_map(|dont_fragment| {
        let network = Network::V4 {
            source: source.octets(),
            destination: destination.octets(),
            identification: looked.guess,
            dont_fragment,
        };
        Some((icrc::identify(&route(network), datagram)?, dont_fragment))
    })?;
    let manner = Manner::of(identification, dont_fragment);
    looked
        .admits(habits, source, manner)
        .then_some(identification)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart() {
        let mut sources = Sources::default();
        assert!(sources.is_empty());
        sources.add(0);
        sources.add(34);
        // No place of a socket.
        sources.add(u64::MAX);
        assert!(sources.has(0) && sources.has(34) && !sources.has(2));
        sources.take_out(34);
        assert!(!sources.has(34));
        sources.take_out(0);
        assert!(sources.is_empty());
    }

    #[test]
    fn a_poller_gives_way_only_after_many_turns_in_vain() {
        let mut inbox = Inbox::new();
        let mut gives_way = |turn: u32| {
            inbox.leaves_sockets();
            inbox.found(turn == 40);
            inbox.waits_long()
        };
        // Without rings: 64 turns after the 40th, when sockets are looked at.
        assert_eq!((1..1000).find(|turn| gives_way(*turn)), Some(112));
    }
}
