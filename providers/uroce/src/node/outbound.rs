//! Packets on their way to the network: buffers for senders, and packets that `UROCE_FAULTS`
//! delays.

use crate::carrier::udp::faults::BadNetwork;
use crate::carrier::udp::outbox::{Counters, Outbox, send_packet};
use crate::carrier::udp::{SendSockets, Sockets, Tools};
use kit::sync::Mutex;
use std::sync::Arc;
use uroce_engine::timer::Time;

/// Outboxes kept for the next sender.
const SPARE: usize = 4;

/// The way to the network. A sender takes an outbox, fills it, has it sent, and gives it back.
pub(super) struct Outbound {
    send_sockets: Arc<SendSockets>,
    counters: Counters,
    outboxes: Mutex<Vec<Outbox>>,
}

impl Outbound {
    pub fn new(sockets: Sockets, tools: Tools) -> Self {
        Self {
            send_sockets: Arc::new(SendSockets::new(sockets, tools)),
            counters: Counters::default(),
            outboxes: Mutex::new(Vec::new()),
        }
    }

    /// The sockets of port 4791.
    pub fn sockets(&self) -> &Sockets {
        self.send_sockets.shared()
    }

    /// The settings of the environment.
    pub fn tools(&self) -> &Tools {
        self.send_sockets.tools()
    }

    /// The counters of sent packets.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// An empty outbox.
    pub fn outbox(&self) -> Outbox {
        let spare = self.outboxes.lock().pop();
        spare.unwrap_or_else(|| Outbox::new(Arc::clone(&self.send_sockets)))
    }

    /// Takes back an outbox that was sent.
    pub fn put_back(&self, outbox: Outbox) {
        let mut outboxes = self.outboxes.lock();
        if outboxes.len() < SPARE {
            outboxes.push(outbox);
        }
    }

    /// Sends the packets of an outbox.
    pub fn send(&self, outbox: &mut Outbox, now: Time) {
        outbox.send(now, &self.counters);
    }

    /// Whether packets meet a bad network.
    pub fn is_bad(&self) -> bool {
        self.tools().network.is_some()
    }

    /// When the bad network lets go of a packet that it holds.
    pub fn next_held(&self) -> Option<u64> {
        self.tools().network.as_ref().and_then(BadNetwork::next)
    }

    /// Sends packets whose simulated delay is over.
    pub fn send_held(&self, now: Time) {
        let network = self.tools().network.as_ref();
        while let Some(packet) = network.and_then(|network| network.due(now)) {
            send_packet(&self.send_sockets, &packet, &self.counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        namespace::run("node::outbound::tests::inside::", &[], &[]);
    }

    mod inside {
        use super::super::*;
        use crate::carrier::udp::faults::Faults;
        use crate::clock;
        use crate::namespace::there;

        fn outbound(network: Option<BadNetwork>) -> Outbound {
            let tools = Tools {
                network,
                ..Tools::default()
            };
            Outbound::new(Sockets::open().expect("sockets"), tools)
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn outboxes_are_kept_for_the_next_senders_up_to_a_limit() {
            if !there() {
                return;
            }
            let outbound = outbound(None);
            let outboxes: Vec<_> = (0..SPARE + 2).map(|_| outbound.outbox()).collect();
            assert!(outbound.outboxes.lock().is_empty());
            for outbox in outboxes {
                outbound.put_back(outbox);
            }
            assert_eq!(outbound.outboxes.lock().len(), SPARE);
            drop(outbound.outbox());
            assert_eq!(outbound.outboxes.lock().len(), SPARE - 1);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_network_without_faults_holds_nothing() {
            if !there() {
                return;
            }
            let outbound = outbound(None);
            let mut outbox = outbound.outbox();
            outbound.send(&mut outbox, clock::now());
            outbound.send_held(clock::now());
            assert!(!outbound.is_bad());
            assert_eq!(outbound.next_held(), None);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_bad_network_is_known_and_holds_nothing_before_a_packet() {
            if !there() {
                return;
            }
            let faults = Faults::parse("delay=1-2ms").expect("faults");
            let outbound = outbound(Some(BadNetwork::new(faults)));
            assert!(outbound.is_bad());
            assert_eq!(outbound.next_held(), None);
        }
    }
}
