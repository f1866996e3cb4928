//! The receiving side: the sockets, the rings, and the backlog for other processes.
//!
//! One thread at a time is at it, under the inbox's lock; while it has that, it may call queue
//! pairs.

use super::backlog::Backlog;
use super::rings::Rings;
use super::sort::Sorter;
use super::sources::{CONNECTED, Look, SLOT, V4, V6};
use crate::carrier::udp::{ConnectedSockets, Slot};
use crate::clock;
use crate::node::caller::Caller;
use crate::node::progress::lazy_pass::LazyPass;
use crate::node::transport::Transport;
use kit::errno::Errno;
use kit::sys::datagram::Receiver;
use uroce_engine::wire::icrc::Latest;

/// Runs handed on by others that are taken at once.
const HANDED_ON: usize = 8;
/// Looks at an idle socket after which it is looked at more seldom.
const IDLE: u32 = 256;
/// How much more seldom.
const SELDOM: u32 = 16;
/// How many turns of pollers there are from one look at all sockets to the next, while the
/// sockets are idle and rings are there, unless that takes long
/// ([`crate::node::progress::alarm::Alarm::is_looked_at_rarely`]).
const RARELY: u32 = 256;
/// Turns of pollers that look at rings, one after the other, after which one gives way to other
/// programs: more than it takes a peer that runs to answer. A look at sockets takes longer.
const LONG: u32 = 1024;
/// Bytes of the longest run, and the head of one that was handed on.
const LONGEST: usize = (1 << 16) + 64;

/// Where packets come in.
pub(in crate::node) struct Inbox {
    receiver: Receiver,
    handed_on: Box<[u8]>,
    backlog: Backlog,
    /// The ICRCs of the latest packets.
    latest_icrcs: Latest,
    connected: ConnectedSockets,
    /// For the sockets of IPv4, IPv6, the slot, and the connected ones in their order: how often
    /// nothing was there in succession.
    idle: Vec<u32>,
    turn: u32,
    /// The turn in which something was found last.
    latest: u32,
    /// How often something was found.
    finds: u32,
    /// Whether this turn looks at everything: it is the first for long that looks at the sockets.
    is_late: bool,
    rings: Rings,
    /// Bytes that came by the sockets.
    received: u64,
    /// Why nothing could be received, the last time that this was so.
    failure: Option<Errno>,
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            receiver: Receiver::new(),
            handed_on: vec![0; LONGEST].into_boxed_slice(),
            backlog: Backlog::default(),
            latest_icrcs: Latest::default(),
            connected: ConnectedSockets::default(),
            idle: vec![0; CONNECTED],
            turn: 0,
            latest: 0,
            finds: 0,
            is_late: false,
            rings: Rings::new(),
            received: 0,
            failure: None,
        }
    }

    /// Why a socket could not be read since the last call: a sandbox may deny that by now.
    pub fn take_failure(&mut self) -> Option<Errno> {
        self.failure.take()
    }

    /// Bytes that have come by the sockets; the count wraps around.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Receives from the rings. Returns whether there was anything.
    #[inline]
    pub fn take_in_rings(&mut self, transport: &Transport, caller: Caller) -> bool {
        if transport.directory.is_none() {
            return false;
        }
        let mut turn = LazyPass::new(transport, caller);
        let some = self.rings.take_in(transport, &mut turn);
        turn.finish();
        some
    }

    /// The same for the progress thread, which has looked at all of them when it went to sleep, and
    /// knows the peers that have rung since then.
    pub fn take_in_found_rings(&mut self, transport: &Transport, rung: &[u16]) -> bool {
        let mut turn = LazyPass::new(transport, Caller::Node);
        let some = self.rings.take_in_found(transport, &mut turn, rung);
        turn.finish();
        some
    }

    /// A queue pair is gone: the rings do not call it any more.
    pub fn forget(&mut self, index: u32) {
        self.rings.forget(index);
    }

    /// Whether packets wait for other processes.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The same, after those were handed on for which there is room now.
    #[inline]
    pub fn keeps_packets(&mut self, slot: &Slot) -> bool {
        if self.has_backlog() {
            self.backlog.flush(slot, clock::now());
        }
        self.has_backlog()
    }

    /// Hands a packet on to the process of a slot. Returns whether there is such a process.
    #[cfg(test)]
    pub fn hand_on(&mut self, slot: &Slot, to: u16) -> bool {
        let localhost = std::net::Ipv4Addr::LOCALHOST.into();
        let run = kit::sys::datagram::Received {
            data: &[0; 4],
            segment: 4,
            source: localhost,
            port: 0xc001,
            destination: localhost,
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
        };
        self.backlog.hand_on(slot, to, &run, clock::now())
    }

    /// Whether the rings have something.
    pub fn rings_have_some(&mut self, transport: &Transport) -> bool {
        self.rings.has_some(transport)
    }

    /// Whether this poller, which has found something in the rings or not, leaves the sockets
    /// alone: they are looked at more seldom while something comes by rings, and still more seldom
    /// where there are rings and nothing came by the sockets for long. `is_long` says whether the
    /// last look at the sockets was long ago; it is asked seldom.
    #[inline]
    pub fn leaves_sockets(&mut self, found: bool, is_long: impl FnOnce() -> bool) -> bool {
        self.turn = self.turn.wrapping_add(1);
        if !self.turn.is_multiple_of(SELDOM) {
            return found || self.is_for_rings();
        }
        self.is_late = self.turn.is_multiple_of(RARELY) || self.is_for_rings() && is_long();
        !self.is_late && self.is_for_rings()
    }

    /// A poller has found something, or nothing.
    #[inline]
    pub fn found(&mut self, some: bool) {
        if some {
            self.latest = self.turn;
            self.finds = self.finds.wrapping_add(1);
        }
    }

    /// Whether a poller that finds something in the rings all the time looks at the timers now.
    #[inline]
    pub fn is_to_look_at_timers(&self) -> bool {
        self.finds.is_multiple_of(SELDOM)
    }

    /// Whether pollers have found nothing for so long that the sender may be waiting for this
    /// processor. Where they give way `soon`, one look in vain is enough.
    pub fn waits_long(&self, soon: bool) -> bool {
        let empty = self.turn.wrapping_sub(self.latest);
        if soon {
            return empty > 0;
        }
        let patience = if self.is_for_rings() { LONG } else { LONG / 16 };
        empty >= patience && self.turn.is_multiple_of(SELDOM)
    }

    /// Whether there are rings, and nothing came by the sockets for long.
    #[inline]
    pub fn is_for_rings(&self) -> bool {
        !self.rings.is_empty() && self.idle.iter().all(|idle| *idle >= IDLE)
    }

    /// Receives from each socket. Returns whether there was anything.
    pub fn take_in(
        &mut self,
        sorter: &Sorter,
        turn: &mut LazyPass<'_>,
        mut look: Look<'_>,
    ) -> bool {
        self.attend(turn, &look);
        self.keeps_packets(sorter.slot());
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
            // A poller that has found nothing waits for one packet, mostly.
            let alone = matches!(look, Look::Worthwhile) && idle > 0;
            let found = self.take_from(sorter, turn, source, alone);
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

    /// Serves the requests of other processes of this host. The progress thread, which checks
    /// reported sources, has done so already.
    fn attend(&self, turn: &mut LazyPass<'_>, look: &Look<'_>) {
        let transport = turn.transport();
        let Some(directory) = &transport.directory else {
            return;
        };
        match look {
            Look::Worthwhile if !self.is_late => return,
            Look::Worthwhile | Look::Everywhere => transport.attend(directory),
            Look::At(..) => {}
        }
        turn.serve_used();
        transport.pass_bell();
    }

    /// Receives a batch from a source, or one packet or run alone.
    fn take_from(
        &mut self,
        sorter: &Sorter,
        turn: &mut LazyPass<'_>,
        source: usize,
        alone: bool,
    ) -> bool {
        let Self {
            receiver,
            connected,
            backlog,
            latest_icrcs,
            received,
            failure,
            ..
        } = self;
        let socket = match source {
            SLOT => return self.take_handed_on(sorter, turn),
            V4 => Some(turn.transport().sockets().v4()),
            V6 => turn.transport().sockets().v6(),
            socket => connected.get(socket - CONNECTED),
        };
        let receive = match alone {
            true => Receiver::receive_one,
            false => Receiver::receive,
        };
        let count = match socket.map(|socket| receive(receiver, socket)) {
            Some(Ok(count)) => count,
            None | Some(Err(Errno::AGAIN)) => return false,
            Some(Err(error)) => {
                *failure = Some(error);
                return false;
            }
        };
        for index in 0..count {
            if let Some(run) = receiver.received(index) {
                let bytes = u64::try_from(run.data.len()).unwrap_or(0);
                *received = received.wrapping_add(bytes);
                sorter.sort(turn, &run, latest_icrcs, Some(backlog));
            }
        }
        count > 0
    }

    fn take_handed_on(&mut self, sorter: &Sorter, turn: &mut LazyPass<'_>) -> bool {
        let mut found = false;
        for _ in 0..HANDED_ON {
            let Ok(run) = sorter.slot().take(&mut self.handed_on) else {
                break;
            };
            found = true;
            let Some(run) = run else {
                continue;
            };
            if !sorter.sort(turn, &run, &mut self.latest_icrcs, None) {
                continue;
            }
            // Packets for this process that are whole: from now on they should arrive directly. If
            // that is impossible, they continue to be forwarded.
            let slot = sorter.slot().number();
            let alarm = &turn.transport().alarm;
            let place = u64::try_from(self.idle.len()).unwrap_or(u64::MAX);
            let opened = self
                .connected
                .open(slot, &run, |socket| alarm.add(socket, place));
            if opened == Ok(true) {
                self.idle.push(0);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_gives_way_only_after_many_turns_in_vain() {
        let mut inbox = Inbox::new();
        let gives_way = |inbox: &mut Inbox, turn: u32| {
            inbox.leaves_sockets(false, || false);
            inbox.found(turn == 40);
            inbox.waits_long(false)
        };
        // Without rings: 64 turns after the 40th, when sockets are looked at.
        assert_eq!(
            (1..1000).find(|turn| gives_way(&mut inbox, *turn)),
            Some(112)
        );
        // Where the processor is shared, after one.
        inbox.found(true);
        assert!(!inbox.waits_long(true));
        inbox.leaves_sockets(false, || false);
        assert!(inbox.waits_long(true) && !inbox.waits_long(false));
    }
}
