//! Which carrier the packets of a connected queue pair take.
//!
//! Connecting does not block, and a link is requested when it is worth its cost. So most
//! connections begin before there is a link with the peer's process: their packets then go by UDP,
//! and move to the link once it exists, without overtaking each other. Requests move when none is
//! in flight; meanwhile no other begins. Replies move when a request has arrived by the link: the
//! peer's process sends it so because all earlier ones are answered. If only shared memory leads to
//! this host, packets wait for the link instead
//! ([`crate::carrier::shm::Directory::hold`]).

use crate::carrier::Via;
use crate::carrier::shm::Peer;
use crate::node::Incoming;
use std::sync::Arc;
use uroce_engine::outgoing::Origin;
use uroce_engine::timer::Time;
use uroce_engine::wire::Opcode;

/// Without acknowledgements it is not known when a packet is no longer under way: after so long
/// nearly always, in nanoseconds.
const UDP_DRAIN: u64 = 100_000_000;

/// The directions that use the link already.
#[derive(Debug, Default)]
pub(super) struct Route {
    requests: bool,
    replies: bool,
    /// When a packet went by UDP last, before requests take the link.
    by_udp: Option<Time>,
}

impl Route {
    /// That of a connection that begins: packets take the link at once, if that is there.
    pub fn begin(&mut self, has_link: bool) {
        *self = Self {
            requests: has_link,
            replies: has_link,
            by_udp: None,
        };
    }

    /// Whether requests take the link.
    #[inline]
    pub fn requests_by_link(&self) -> bool {
        self.requests
    }

    /// Requests take the link, or do not yet.
    pub fn move_requests(&mut self, moves: bool) {
        self.requests = moves;
    }

    /// Whether packets that went by UDP have arrived by now, or are lost.
    pub fn udp_has_drained(&self, now: impl FnOnce() -> Time) -> bool {
        self.by_udp
            .is_none_or(|time| now().nanos().saturating_sub(time.nanos()) > UDP_DRAIN)
    }

    /// The carriers of packets to the connected peer. `link` is the link, as long as the peer
    /// exists; `had_link` means that there was one, and `local_only` that only shared memory is
    /// used.
    pub fn carriers<'p>(
        &self,
        link: Option<&'p Arc<Peer>>,
        had_link: bool,
        local_only: bool,
    ) -> Carriers<'p> {
        let carrier = |takes_link: bool| match link {
            Some(link) if takes_link || local_only => Via::Link(link),
            Some(_) => Via::Udp,
            // The peer is gone. Another process may have taken over its XRC targets.
            None if local_only || had_link => Via::Destination,
            None => Via::Udp,
        };
        Carriers {
            requests: carrier(self.requests),
            replies: carrier(self.replies),
        }
    }

    /// A packet was sent.
    pub fn sent(&mut self, via: Via<'_>, now: Time) {
        if !self.requests && !matches!(via, Via::Link(_)) {
            self.by_udp = Some(now);
        }
    }

    /// A packet has come.
    #[inline]
    pub fn received(&mut self, incoming: &Incoming<'_>) {
        if incoming.by_link && !self.replies {
            let opcode = Opcode::parse(incoming.packet.headers.bth.opcode);
            self.replies = opcode.is_some_and(|opcode| !opcode.operation().is_response());
        }
    }
}

/// The carriers of packets to the connected peer.
pub(super) struct Carriers<'p> {
    requests: Via<'p>,
    replies: Via<'p>,
}

impl<'p> Carriers<'p> {
    /// That of a packet of this origin.
    pub fn of(&self, origin: Origin) -> Via<'p> {
        match origin {
            Origin::Request(_) => self.requests,
            Origin::Reply(_) => self.replies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uroce_engine::psn::Psn;

    /// The carriers of requests and of replies.
    fn of<'p>(carriers: &Carriers<'p>) -> [Via<'p>; 2] {
        let psn = Psn::new(0);
        [Origin::Request(psn), Origin::Reply(psn)].map(|origin| carriers.of(origin))
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn without_a_link_packets_go_by_udp() {
        let mut route = Route::default();
        route.begin(false);
        let carriers = route.carriers(None, false, false);
        assert!(matches!(of(&carriers), [Via::Udp, Via::Udp]));
    }

    #[test]
    fn a_peer_that_is_gone_is_reached_by_its_number() {
        let mut route = Route::default();
        route.begin(true);
        for (had_link, local_only) in [(true, false), (false, true)] {
            let carriers = route.carriers(None, had_link, local_only);
            let carriers = of(&carriers);
            assert!(matches!(carriers, [Via::Destination, Via::Destination]));
        }
    }

    #[test]
    fn udp_has_drained_a_while_after_its_last_packet() {
        let mut route = Route::default();
        route.begin(false);
        assert!(route.udp_has_drained(|| at(0)), "no packet was sent");
        route.sent(Via::Udp, at(5));
        assert!(!route.udp_has_drained(|| at(5 + UDP_DRAIN)));
        assert!(route.udp_has_drained(|| at(6 + UDP_DRAIN)));
        route.move_requests(true);
        assert!(route.requests_by_link());
        route.sent(Via::Udp, at(6 + UDP_DRAIN));
        assert!(
            route.udp_has_drained(|| at(6 + UDP_DRAIN)),
            "requests have moved already"
        );
        route.begin(false);
        assert!(!route.requests_by_link());
    }
}
