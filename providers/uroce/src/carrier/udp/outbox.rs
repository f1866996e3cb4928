//! Packets on their way out: built in place one after the other, and sent in runs of one path.

use super::capture::Record;
use super::faults::{Outcome, Packet};
use super::path::Path;
use super::{PORT, SendSockets};
use crate::carrier::qpn;
use kit::errno::Errno;
use kit::sys::datagram::{Datagram, Datagrams};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uroce_engine::host::Fault;
use uroce_engine::timer::Time;
use uroce_engine::wire::icrc::{Latest, Network, Route};
use uroce_engine::wire::{Headers, ICRC_LEN, MAX_HEADERS, MAX_PAYLOAD};

/// Bytes of an outbox.
const ROOM: usize = 128 << 10;
/// The longest packet, pad included.
const LONGEST: usize = MAX_HEADERS + MAX_PAYLOAD + 3 + ICRC_LEN;

/// Bytes that another carrier puts before a packet.
const MORE: usize = 64;

/// Maximum packets of a run: every kernel accepts them (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const RUN: usize = 64;
/// Bytes of a run at most: one IP packet, its headers left out.
const RUN_BYTES: usize = 65_000;

/// The counters of the carrier.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets handed to the kernel.
    pub sent: AtomicU64,
    /// Packets that the kernel did not take: no route, no buffers, too long for the interface, or
    /// forbidden. To the protocol they are lost.
    pub refused: AtomicU64,
}

/// Packets of one path, next to each other.
#[derive(Clone, Debug)]
struct Run {
    path: Path,
    port: u16,
    bytes: Range<usize>,
    /// Bytes of each packet; the last may have fewer.
    segment: usize,
    packets: usize,
}

impl Run {
    /// Whether a packet may follow: then the ones before are of equal length.
    fn takes(&self, path: &Path, port: u16, length: usize) -> bool {
        self.bytes.len() == self.packets * self.segment
            && length <= self.segment
            && self.packets < RUN
            && self.bytes.len() + length <= RUN_BYTES
            && self.port == port
            && self.path == *path
    }

    /// The places of the packets, in order.
    fn packets(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Range { start, end } = self.bytes;
        let segment = self.segment.max(1);
        (start..end)
            .step_by(segment)
            .map(move |start| start..end.min(start + segment))
    }

    /// One of the packets as a run.
    fn of(&self, packet: Range<usize>) -> Self {
        Self {
            segment: packet.len(),
            bytes: packet,
            packets: 1,
            ..self.clone()
        }
    }
}

/// A buffer of packets.
#[derive(Debug)]
pub struct Outbox {
    send_sockets: Arc<SendSockets>,
    bytes: Box<[u8]>,
    used: usize,
    runs: Vec<Run>,
    /// The ICRCs of the latest packets; an outbox is moved often.
    latest_icrcs: Box<Latest>,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new(send_sockets: Arc<SendSockets>) -> Self {
        Self {
            send_sockets,
            bytes: vec![0; ROOM].into_boxed_slice(),
            used: 0,
            runs: Vec::new(),
            latest_icrcs: Box::default(),
        }
    }

    /// Whether the next packet might find no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.used < LONGEST + MORE
    }

    /// Bytes that are not in use: enough for the longest packet and some more, unless it is full.
    pub fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.used..).unwrap_or_default()
    }

    /// Takes a packet of `length` bytes of payload, which `fill` writes without a further copy. Pad
    /// (as many bytes as the BTH states) and ICRC are appended.
    ///
    /// # Errors
    /// [`Fault`] if `fill` fails, if the packet is longer than any, or if the outbox is full; then
    /// nothing is sent.
    pub fn push(
        &mut self,
        path: &Path,
        headers: &Headers,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let outbox = self;
        let emitted = headers.emit();
        let head = emitted.as_slice();
        let total = head.len() + length + headers.tail();
        if total > LONGEST || outbox.is_full() {
            return Err(Fault);
        }
        let port = outbox
            .send_sockets
            .port(path.destination, qpn::slot_of(headers.bth.destination));
        let range = outbox.used..outbox.used + total;
        let packet = outbox.bytes.get_mut(range.clone()).ok_or(Fault)?;
        let (place, rest) = packet.split_at_mut_checked(head.len()).ok_or(Fault)?;
        place.copy_from_slice(head);
        let (payload, rest) = rest.split_at_mut_checked(length).ok_or(Fault)?;
        fill(payload)?;
        rest.fill(0);
        let runs = outbox.send_sockets.takes_runs(path.destination);
        let last = outbox.runs.last_mut();
        let last = last.filter(|last| runs && last.takes(path, port, total));
        // The kernel counts up from 0 in a run, and uses 0 in single packets.
        let identification = last.as_ref().map_or(0, |run| run.packets);
        let identification = u16::try_from(identification).map_err(|_| Fault)?;
        let latest = &mut outbox.latest_icrcs;
        seal(packet, path, port, identification, latest).ok_or(Fault)?;
        outbox.used = range.end;
        if let Some(run) = last {
            run.bytes.end = range.end;
            run.packets += 1;
            return Ok(());
        }
        outbox.runs.push(Run {
            path: *path,
            port,
            bytes: range,
            segment: total,
            packets: 1,
        });
        Ok(())
    }

    /// Sends everything. Packets that the kernel refuses are lost, and counted.
    pub fn send(&mut self, now: Time, counters: &Counters) {
        if self.runs.is_empty() {
            return;
        }
        let mut runs = std::mem::take(&mut self.runs);
        if self.send_sockets.tools().network.is_some() {
            self.send_badly(now, &runs, counters);
        } else {
            self.send_runs(&runs, counters);
        }
        runs.clear();
        self.runs = runs;
        self.used = 0;
    }

    /// Sends packets over a bad network. Neighbours that it leaves alone stay together.
    fn send_badly(&mut self, now: Time, runs: &[Run], counters: &Counters) {
        let send_sockets = Arc::clone(&self.send_sockets);
        let Some(network) = &send_sockets.tools().network else {
            return;
        };
        let mut left: Vec<Run> = Vec::new();
        for run in runs {
            for (identification, place) in (0..).zip(run.packets()) {
                match network.meet(now, place.len(), || self.copy(run, place.clone())) {
                    Outcome::Intact => self.add(&mut left, run, identification, place),
                    Outcome::Replaced(packets) => {
                        if packets.is_empty() {
                            continue;
                        }
                        // In its place among the others.
                        self.send_runs(&left, counters);
                        left.clear();
                        for packet in packets {
                            send_packet(&self.send_sockets, &packet, counters);
                        }
                    }
                }
            }
        }
        self.send_runs(&left, counters);
    }

    /// Adds a packet of `run`, which has this identification there, to the runs that are left.
    fn add(&mut self, left: &mut Vec<Run>, run: &Run, identification: u16, place: Range<usize>) {
        let last = left.last_mut().filter(|last| {
            identification > 0
                && last.bytes.end == place.start
                && last.takes(&run.path, run.port, place.len())
        });
        let position = last.as_ref().map_or(0, |last| last.packets);
        match last {
            Some(last) => {
                last.bytes.end = place.end;
                last.packets += 1;
            }
            None => left.push(run.of(place.clone())),
        }
        let position = u16::try_from(position).unwrap_or(u16::MAX);
        if position != identification
            && let Some(packet) = self.bytes.get_mut(place)
        {
            let latest = &mut self.latest_icrcs;
            let _ = seal(packet, &run.path, run.port, position, latest);
        }
    }

    /// A copy of a packet of a run, to be sent alone.
    fn copy(&self, run: &Run, place: Range<usize>) -> Packet {
        let bytes = self.bytes.get(place).unwrap_or_default();
        let mut bytes = bytes.to_vec();
        let mut latest = Latest::default();
        let _ = seal(&mut bytes, &run.path, run.port, 0, &mut latest);
        Packet {
            path: run.path,
            port: run.port,
            bytes,
        }
    }

    fn send_runs(&self, runs: &[Run], counters: &Counters) {
        let mut rest = runs;
        while let Some((first, others)) = rest.split_first() {
            let sent = self.send_some(rest);
            let (step, counter) = match sent {
                Ok(sent) if sent > 0 => (sent, &counters.sent),
                Err(Errno(libc::EINTR)) => continue,
                Err(Errno(libc::EIO | libc::EINVAL | libc::EMSGSIZE)) if first.packets > 1 => {
                    self.send_sockets.refuse_runs(first.path.destination);
                    self.send_singly(first, counters);
                    rest = others;
                    continue;
                }
                _ => (1, &counters.refused),
            };
            let (now, later) = rest.split_at_checked(step).unwrap_or((rest, &[]));
            let packets: usize = now.iter().map(|run| run.packets).sum();
            counter.fetch_add(u64::try_from(packets).unwrap_or(0), Relaxed);
            if sent.is_ok() && self.send_sockets.tools().capture.is_some() {
                now.iter().for_each(|run| self.capture(run));
            }
            rest = later;
        }
    }

    fn bytes(&self, run: &Run) -> &[u8] {
        self.bytes.get(run.bytes.clone()).unwrap_or_default()
    }

    fn capture(&self, run: &Run) {
        let packets = self.bytes(run).chunks(run.segment.max(1));
        for (identification, packet) in (0..).zip(packets) {
            capture(
                &self.send_sockets,
                &run.path,
                run.port,
                identification,
                packet,
            );
        }
    }

    /// Sends the first runs that go by one socket; returns how many went.
    fn send_some(&self, runs: &[Run]) -> kit::errno::Result<usize> {
        let Some(first) = runs.first() else {
            return Ok(0);
        };
        let key = |run: &Run| (run.path.destination.is_ipv4(), run.port);
        let same = runs.iter().take_while(|run| key(run) == key(first));
        let socket = self.send_sockets.socket(first.path.destination, first.port);
        let socket = socket.ok_or(Errno(libc::EAFNOSUPPORT))?;
        Datagrams(same.map(|run| self.datagram(run))).send(socket)
    }

    fn datagram(&self, run: &Run) -> Datagram<'_> {
        let segment = u16::try_from(run.segment).ok();
        Datagram {
            data: self.bytes(run),
            segment: segment.filter(|_| run.packets > 1),
            source: run.path.source,
            destination: run.path.destination,
            port: PORT,
            interface: run.path.interface,
            hop_limit: run.path.hop_limit,
            traffic_class: run.path.traffic_class,
        }
    }

    /// Sends the packets of a refused run one by one: now each has the identification 0.
    fn send_singly(&self, run: &Run, counters: &Counters) {
        for place in run.packets() {
            send_packet(&self.send_sockets, &self.copy(run, place), counters);
        }
    }
}

/// Sends a packet that is in no outbox.
pub fn send_packet(send_sockets: &SendSockets, packet: &Packet, counters: &Counters) {
    let Packet { path, port, bytes } = packet;
    let datagram = Datagram {
        data: bytes,
        segment: None,
        source: path.source,
        destination: path.destination,
        port: PORT,
        interface: path.interface,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    };
    let sent = loop {
        let Some(socket) = send_sockets.socket(path.destination, *port) else {
            break false;
        };
        match Datagrams(std::iter::once(datagram)).send(socket) {
            Err(Errno(libc::EINTR)) => {}
            sent => break sent.is_ok(),
        }
    };
    if !sent {
        counters.refused.fetch_add(1, Relaxed);
        return;
    }
    counters.sent.fetch_add(1, Relaxed);
    capture(send_sockets, path, *port, 0, bytes);
}

/// Time to live that the system gives where none was asked for, as far as a capture is concerned.
const USUAL_HOPS: u8 = 64;

fn capture(
    send_sockets: &SendSockets,
    path: &Path,
    port: u16,
    identification: u16,
    payload: &[u8],
) {
    let Some(capture) = &send_sockets.tools().capture else {
        return;
    };
    capture.add(&Record {
        source: path.source,
        destination: path.destination,
        ports: (port, PORT),
        hop_limit: if path.hop_limit == 0 {
            USUAL_HOPS
        } else {
            path.hop_limit
        },
        traffic_class: path.traffic_class,
        identification,
        payload,
    });
}

/// Writes the ICRC of a packet that will go with this identification; `None` if the path's
/// addresses are not of one family.
fn seal(
    packet: &mut [u8],
    path: &Path,
    port: u16,
    identification: u16,
    latest: &mut Latest,
) -> Option<()> {
    let network = match (path.source, path.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Network::V4 {
            source: source.octets(),
            destination: destination.octets(),
            identification,
            dont_fragment: true,
        },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Network::V6 {
            source: source.octets(),
            destination: destination.octets(),
        },
        _ => return None,
    };
    let route = Route {
        network,
        source_port: port,
        destination_port: PORT,
    };
    let total = packet.len();
    let (covered, icrc) = packet.split_last_chunk_mut::<ICRC_LEN>()?;
    *icrc = latest.begin(&route, covered, total).finish();
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        // Sockets of one port share its packets.
        let options = ["--test-threads=1"];
        namespace::run("carrier::udp::outbox::tests::inside::", &[], &options);
    }

    mod inside {
        use super::super::*;
        use crate::carrier::udp::faults::{BadNetwork, Faults};
        use crate::carrier::udp::{Sockets, Tools};
        use crate::namespace::there;
        use kit::sys::datagram::Receiver;
        use std::net::{Ipv4Addr, Ipv6Addr};
        use uroce_engine::wire::Opcode;
        use uroce_engine::wire::bth::Bth;
        use uroce_engine::wire::icrc::verify;

        const PAYLOAD: usize = 256;

        fn sockets(faults: &str) -> Arc<SendSockets> {
            let network = Faults::parse(faults).expect("faults");
            let tools = Tools {
                network: Some(BadNetwork::new(network)),
                ..Tools::default()
            };
            Arc::new(SendSockets::new(Sockets::open().expect("sockets"), tools))
        }

        fn path(address: IpAddr) -> Path {
            Path {
                source: address,
                destination: address,
                interface: 0,
                traffic_class: 0,
                hop_limit: 0,
                local: true,
            }
        }

        /// Sends so many packets, the payload of each its number.
        fn send(sockets: &Arc<SendSockets>, path: &Path, count: u8, counters: &Counters) {
            let mut outbox = Outbox::new(Arc::clone(sockets));
            let opcode = Opcode::parse(4).expect("RC SEND Only");
            let headers = Headers::new(opcode, Bth::default());
            for number in 0..count {
                let fill = |payload: &mut [u8]| {
                    payload.fill(number);
                    Ok(())
                };
                let pushed = outbox.push(path, &headers, PAYLOAD, fill);
                pushed.expect("room");
            }
            outbox.send(Time::default(), counters);
        }

        /// The packets of each run that came, until so many have: the number, and whether the ICRC
        /// is right.
        fn receive(sockets: &Sockets, path: &Path, sent: u64) -> Vec<Vec<(u8, bool)>> {
            let socket = sockets.of(path.destination).expect("a socket");
            let mut receiver = Receiver::new();
            let mut runs: Vec<Vec<_>> = Vec::new();
            let lacks = |runs: &[Vec<_>]| {
                let count: usize = runs.iter().map(Vec::len).sum();
                u64::try_from(count).is_ok_and(|count| count < sent)
            };
            while lacks(&runs) {
                let Ok(count) = receiver.receive(socket) else {
                    std::thread::yield_now();
                    continue;
                };
                for index in 0..count {
                    let run = receiver.received(index).expect("a run");
                    let packets = (0..).zip(run.data.chunks(run.segment));
                    let packet = |(identification, bytes): (u16, &[u8])| {
                        let network = match (run.source, run.destination) {
                            (IpAddr::V4(source), IpAddr::V4(destination)) => Network::V4 {
                                source: source.octets(),
                                destination: destination.octets(),
                                identification,
                                dont_fragment: true,
                            },
                            (IpAddr::V6(source), IpAddr::V6(destination)) => Network::V6 {
                                source: source.octets(),
                                destination: destination.octets(),
                            },
                            _ => panic!("two families"),
                        };
                        let route = Route {
                            network,
                            source_port: run.port,
                            destination_port: PORT,
                        };
                        (bytes[20], verify(&route, bytes))
                    };
                    runs.push(packets.map(packet).collect());
                }
            }
            runs
        }

        /// The runs that came of 60 packets over a bad network, and how many packets were sent.
        fn over(faults: &str, address: IpAddr) -> (Vec<Vec<(u8, bool)>>, u64) {
            let (sockets, path) = (sockets(faults), path(address));
            let counters = Counters::default();
            send(&sockets, &path, 60, &counters);
            let sent = counters.sent.load(Relaxed);
            (receive(sockets.shared(), &path, sent), sent)
        }

        const ADDRESSES: [IpAddr; 2] = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn packets_around_a_loss_leave_in_runs() {
            if !there() {
                return;
            }
            for address in ADDRESSES {
                let (runs, sent) = over("loss=10%,seed=1", address);
                let packets = runs.concat();
                let count = packets.len();
                assert!((45..60).contains(&count), "{count}");
                assert_eq!(u64::try_from(count), Ok(sent));
                assert!(packets.is_sorted() && packets.iter().all(|(_, right)| *right));
                // A run ends at a loss, and nowhere else.
                let gaps = packets.windows(2).filter(|two| two[0].0 + 1 < two[1].0);
                assert_eq!(runs.len(), gaps.count() + 1, "{runs:?}");
            }
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn damaged_and_repeated_packets_keep_their_place() {
            if !there() {
                return;
            }
            for address in ADDRESSES {
                let (runs, _) = over("corrupt=10%,dup=10%,seed=2", address);
                let packets = runs.concat();
                let damaged = packets.iter().filter(|(_, right)| !*right).count();
                assert!((1..20).contains(&damaged), "{damaged}");
                assert!((61..80).contains(&packets.len()), "{}", packets.len());
                let whole = packets.iter().filter(|(_, right)| *right);
                assert!(whole.map(|(number, _)| *number).is_sorted());
            }
        }
    }
}
