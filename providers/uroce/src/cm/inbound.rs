//! Messages on their way in: to the agent of this process, or to the process that they are for.

use super::address::Route;
use super::claims::Found;
use super::deferred::Deferred;
use super::host::Network;
use super::mad;
use super::state::{Cm, State, milliseconds};
use crate::clock;
use kit::errno::Errno;
use kit::sys::datagram::Received;
use std::collections::VecDeque;
use std::time::Duration;
use uroce_cm::agent::{INDEX_BITS, Owner};
use uroce_cm::ip::{self, PortSpace};
use uroce_cm::wire::{Mad, Message};

/// How long a process is waited for that has no room for a message.
const PATIENCE: u64 = 1_000_000_000;
/// How often it is tried again.
const AGAIN: u64 = 1_000_000;
/// Messages that wait at most.
const MOST: usize = 1024;
/// Requests among them that wait for a port to be claimed again, how long, and how often the port
/// is looked at.
const MOST_LINGERING: usize = 128;
const LINGERING: u64 = 2_000_000_000;
const LOOK: u64 = 5_000_000;

/// The receiver of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum For {
    /// This process, and the owner of its port, if it is a request and there is one.
    Us(Option<Owner>),
    /// The processes of these slots.
    Others(Vec<u16>),
    /// That is not known yet: to be asked again after that many nanoseconds.
    Later(u64),
    /// None yet, because the listener was closed a moment ago: the same.
    Lingers(u64),
}

/// The id by which the receiver of a message knows its connection; 0 if the sender does not know
/// it.
fn receivers_id(message: &Message) -> Option<u32> {
    match message {
        Message::Rep(m) => Some(m.remote_comm_id),
        Message::Rtu(m) => Some(m.remote_comm_id),
        Message::Mra(m) => Some(m.remote_comm_id),
        Message::Rej(m) => Some(m.remote_comm_id),
        Message::Dreq(m) => Some(m.remote_comm_id),
        Message::Drep(m) => Some(m.remote_comm_id),
        Message::SidrRep(m) => Some(m.request_id),
        Message::Req(_) | Message::SidrReq(_) | Message::Lap(_) | Message::Apr(_) => None,
    }
}

/// The port that a request is for; `None` for other messages and services.
fn port_of(message: &Message) -> Option<(PortSpace, u16)> {
    match message {
        Message::Req(req) => ip::port_of(req.service_id),
        Message::SidrReq(req) => ip::port_of(req.service_id),
        _ => None,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(PATIENCE)
}

/// The slot in a communication id.
pub(super) fn slot_of(comm_id: u32) -> u16 {
    u16::try_from(comm_id >> INDEX_BITS).unwrap_or(0)
}

impl Cm {
    /// Receives a packet for QP 1 whose ICRC is right. A packet that another process has forwarded
    /// is not forwarded again.
    pub fn receive(&self, network: &dyn Network, packet: &Received<'_>, handed_on: bool) {
        let Some(mad) = mad::parse(packet.data) else {
            return;
        };
        self.with(|state| {
            let now = clock::now().nanos();
            if handed_on {
                let to = state.owner_of(&mad.message, packet);
                if to.is_none() && state.lingers_here(&mad.message, packet) {
                    state.wait_for_owner(network, packet, &mad, now, LOOK);
                } else {
                    state.take_in(network, packet, &mad, to);
                }
            } else {
                state.deliver(network, packet, &mad, now);
            }
            state.schedule(network);
        });
    }
}

impl State {
    fn deliver(&mut self, network: &dyn Network, packet: &Received<'_>, mad: &Mad, since: u64) {
        let now = clock::now().nanos();
        match self.recipient(network.slot(), &mad.message, packet) {
            For::Us(owner) => self.take_in(network, packet, mad, owner),
            For::Later(nanos) => self.defer(packet, since, now.saturating_add(nanos)),
            For::Lingers(nanos) => self.wait_for_owner(network, packet, mad, since, nanos),
            For::Others(slots) => {
                for slot in slots {
                    match network.hand_on(slot, packet) {
                        Ok(()) => {}
                        Err(Errno(libc::ECONNREFUSED)) => {
                            // Its process has ended. Another one may have claimed its port since;
                            // any other message is answered by this process.
                            self.lookup.forget(slot);
                            match port_of(&mad.message) {
                                Some(_) => self.defer(packet, since, now + AGAIN),
                                None => self.take_in(network, packet, mad, None),
                            }
                        }
                        // The process does not keep up, or there is no descriptor or memory now.
                        Err(_) => self.defer(packet, since, now + AGAIN),
                    }
                }
            }
        }
    }

    fn defer(&mut self, packet: &Received<'_>, since: u64, due: u64) {
        let in_time = due.saturating_sub(since) <= PATIENCE;
        // A lost message is sent again.
        if in_time && self.deferred.len() < MOST && !self.waits(packet) {
            self.deferred.push_back(Deferred::new(packet, since, due));
        }
    }

    /// Whether a message waits already: it was sent again meanwhile, or is for several processes.
    fn waits(&self, packet: &Received<'_>) -> bool {
        let mut deferred = self.deferred.iter();
        deferred.any(|deferred| deferred.is_copy_of(packet))
    }

    /// Has a request wait for a port that was given up a moment ago, once: its sender, which takes
    /// the first answer, would not know a connection of another copy, which might be answered after
    /// a listener came.
    fn wait_for_owner(
        &mut self,
        network: &dyn Network,
        packet: &Received<'_>,
        mad: &Mad,
        since: u64,
        nanos: u64,
    ) {
        if self.waits(packet) {
            return;
        }
        let due = clock::now().nanos().saturating_add(nanos);
        let waiting = self.deferred.iter().filter(|deferred| deferred.lingers);
        if due.saturating_sub(since) > LINGERING || waiting.count() >= MOST_LINGERING {
            self.take_in(network, packet, mad, None);
            return;
        }
        let mut deferred = Deferred::new(packet, since, due);
        deferred.lingers = true;
        self.deferred.push_back(deferred);
    }

    /// Delivers messages that have waited.
    pub fn retry(&mut self, network: &dyn Network) {
        let now = clock::now().nanos();
        let (due, others) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition::<VecDeque<_>, _>(|deferred| deferred.due <= now);
        self.deferred = others;
        for deferred in due {
            let packet = deferred.packet();
            if let Some(mad) = mad::parse(packet.data) {
                self.deliver(network, &packet, &mad, deferred.since);
            }
        }
    }

    /// The id of this process that has the port that a request is for.
    fn owner_of(&self, message: &Message, packet: &Received<'_>) -> Option<Owner> {
        let (space, port) = port_of(message)?;
        self.owner(space, port, packet.destination, packet.interface)
    }

    fn recipient(&mut self, own: u16, message: &Message, packet: &Received<'_>) -> For {
        match receivers_id(message) {
            // A peer that gave up before it knew the id: the id that has the request.
            Some(0) => {
                let mut slots = self.lookup.slots();
                slots.retain(|slot| *slot != own);
                if slots.is_empty() || self.knows(message) {
                    return For::Us(None);
                }
                return For::Others(slots);
            }
            Some(id) => {
                let slot = slot_of(id);
                let is_others = slot != own && (1..=crate::carrier::qpn::LAST).contains(&slot);
                return match is_others {
                    true => For::Others(vec![slot]),
                    false => For::Us(None),
                };
            }
            None => {}
        }
        let owner = self.owner_of(message, packet);
        if matches!(owner, Some(Owner::Listens(_))) {
            return For::Us(owner);
        }
        let Some((space, port)) = port_of(message) else {
            return For::Us(None);
        };
        // A port that is bound here and shared may be another process's, too.
        let (to, interface) = (packet.destination, packet.interface);
        match self.lookup.find(space, port, to, interface) {
            Found::At(slot) if slot != own => For::Others(vec![slot]),
            Found::At(_) | Found::Unclaimed | Found::Lingers(_) if owner.is_some() => {
                For::Us(owner)
            }
            // The list may be older than the end of the claim.
            Found::At(_) | Found::Unclaimed if self.lingers_here(message, packet) => {
                For::Lingers(LOOK)
            }
            Found::At(_) | Found::Unclaimed => For::Us(None),
            Found::Lingers(good) => For::Lingers(nanos(good).max(LOOK)),
            Found::Later(left) => For::Later(nanos(left)),
        }
    }

    /// Whether a request is for a port that this process gave up a moment ago.
    fn lingers_here(&self, message: &Message, packet: &Received<'_>) -> bool {
        let (to, interface) = (packet.destination, packet.interface);
        port_of(message).is_some_and(|(_, port)| self.lingering.has(port, to, interface))
    }

    /// Whether a message that does not name this side's connection is for one of this process.
    fn knows(&mut self, message: &Message) -> bool {
        let Message::Rej(rej) = message else {
            return false;
        };
        self.known_agent()
            .is_some_and(|agent| agent.is_rejected_by(rej))
    }

    fn take_in(
        &mut self,
        network: &dyn Network,
        packet: &Received<'_>,
        mad: &Mad,
        owner: Option<Owner>,
    ) {
        let route = Route::back(packet);
        let agent = self.agent(network.slot());
        agent.receive(route, mad, owner, milliseconds());
        self.run(network);
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::{Bound, Claim, Port};
    use super::super::host::End;
    use super::*;
    use crate::carrier::udp::Path;
    use kit::errno::Result;
    use std::net::Ipv4Addr;
    use uroce_cm::wire::{LEN, Req, Rtu};

    /// A node that cannot hand packets on.
    struct Refusing(Errno);

    impl Network for Refusing {
        fn slot(&self) -> u16 {
            1
        }

        fn send(&self, _: &Path, _: u32, _: &[u8; LEN]) {}

        fn hand_on(&self, _: u16, _: &Received<'_>) -> Result<()> {
            Err(self.0)
        }

        fn wake_at(&self, _: u64) {}

        fn end_of(&self, _: u16) -> End {
            End::Hidden
        }
    }

    fn packet() -> Received<'static> {
        Received {
            data: &[0; 4],
            segment: 4,
            source: Ipv4Addr::LOCALHOST.into(),
            port: 4791,
            destination: Ipv4Addr::LOCALHOST.into(),
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
        }
    }

    fn mad(message: impl Into<Message>) -> Mad {
        Mad {
            transaction: 7,
            modifier: 0,
            message: message.into(),
        }
    }

    fn rtu_for_another() -> Mad {
        mad(Rtu {
            remote_comm_id: 7 << INDEX_BITS,
            ..Rtu::default()
        })
    }

    /// How many messages wait after one for another process, and whether this process took it.
    fn after_one_for_another(error: Errno) -> (usize, bool) {
        let rtu = rtu_for_another();
        Cm::new().with(|state| {
            let now = clock::now().nanos();
            state.deliver(&Refusing(error), &packet(), &rtu, now);
            (state.deferred.len(), state.known_agent().is_some())
        })
    }

    /// Messages one after the other, and how many wait behind each.
    fn each_waits_once(mut wait: impl FnMut(&mut State, &Received<'_>)) {
        let again = Received {
            data: &[1; 4],
            ..packet()
        };
        let other = Received {
            source: Ipv4Addr::UNSPECIFIED.into(),
            ..packet()
        };
        Cm::new().with(|state| {
            for (packet, expected) in [
                (packet(), 1),
                (packet(), 1),
                (again, 2),
                (other, 3),
                (other, 3),
                (again, 3),
            ] {
                wait(state, &packet);
                assert_eq!(state.deferred.len(), expected);
            }
        });
    }

    #[test]
    fn a_request_that_is_sent_again_waits_once() {
        let (network, req) = (Refusing(Errno(libc::EAGAIN)), mad(Req::default()));
        let now = clock::now().nanos();
        each_waits_once(|state, packet| state.wait_for_owner(&network, packet, &req, now, LOOK));
    }

    #[test]
    fn so_does_a_message_for_a_process_that_has_no_room() {
        let (network, rtu) = (Refusing(Errno(libc::EAGAIN)), rtu_for_another());
        let now = clock::now().nanos();
        each_waits_once(|state, packet| state.deliver(&network, packet, &rtu, now));
    }

    #[test]
    fn only_a_process_that_is_not_there_has_ended() {
        for error in [libc::EAGAIN, libc::EMFILE, libc::ENOBUFS, libc::ENOMEM] {
            let after = after_one_for_another(Errno(error));
            assert_eq!(after, (1, false), "{error}");
        }
        let after = after_one_for_another(Errno(libc::ECONNREFUSED));
        assert_eq!(after, (0, true));
    }

    #[test]
    fn a_request_for_a_process_that_ended_waits_until_its_port_is_listed_again() {
        let bound = Bound::To(Ipv4Addr::LOCALHOST.into(), 0);
        let claim = Claim::new(Port {
            slot: 7,
            space: PortSpace::Tcp,
            port: 50_006,
            bound,
            shared: false,
        });
        let req = mad(Req {
            service_id: ip::service_id(PortSpace::Tcp, 50_006),
            ..Req::default()
        });
        let network = Refusing(Errno(libc::ECONNREFUSED));
        Cm::new().with(|state| {
            let now = clock::now().nanos();
            state.deliver(&network, &packet(), &req, now);
            assert_eq!(state.deferred.len(), 1);
            assert!(state.known_agent().is_none());
            drop(claim.expect("claimed"));
            state.deliver(&network, &packet(), &req, now);
            assert_eq!(state.deferred.len(), 1);
            assert!(state.known_agent().is_some());
        });
    }
}
