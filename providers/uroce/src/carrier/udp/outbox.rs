//! Packets on their way out: built in place one after the other, and sent in runs of one path.

use super::capture::Record;
use super::faults::{BadNetwork, Packet};
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
use uroce_engine::wire::icrc::{Icrc, Network, Route};
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
}

/// A buffer of packets.
#[derive(Debug)]
pub struct Outbox {
    send_sockets: Arc<SendSockets>,
    bytes: Box<[u8]>,
    used: usize,
    runs: Vec<Run>,
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
        let pad = usize::from(headers.bth.pad);
        let total = head.len() + length + pad + ICRC_LEN;
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
        seal(packet, path, port, identification).ok_or(Fault)?;
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
        let send_sockets = Arc::clone(&self.send_sockets);
        let mut runs = std::mem::take(&mut self.runs);
        match &send_sockets.tools().network {
            Some(network) => self.send_badly(now, network, &runs, counters),
            None => self.send_runs(&runs, counters),
        }
        runs.clear();
        self.runs = runs;
        self.used = 0;
    }

    /// Sends packets one by one over a bad network.
    fn send_badly(&self, now: Time, network: &BadNetwork, runs: &[Run], counters: &Counters) {
        for run in runs {
            let packet = Packet {
                path: run.path,
                port: run.port,
                bytes: self.bytes(run).to_vec(),
            };
            for packet in network.take(now, packet) {
                send_packet(&self.send_sockets, &packet, counters);
            }
        }
    }

    fn send_runs(&mut self, runs: &[Run], counters: &Counters) {
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
    fn send_singly(&mut self, run: &Run, counters: &Counters) {
        let mut start = run.bytes.start;
        while start < run.bytes.end {
            let end = run.bytes.end.min(start + run.segment);
            if let Some(packet) = self.bytes.get_mut(start..end) {
                let _ = seal(packet, &run.path, run.port, 0);
            }
            let packet = Packet {
                path: run.path,
                port: run.port,
                bytes: self.bytes.get(start..end).unwrap_or_default().to_vec(),
            };
            send_packet(&self.send_sockets, &packet, counters);
            start = end;
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
fn seal(packet: &mut [u8], path: &Path, port: u16, identification: u16) -> Option<()> {
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
    *icrc = Icrc::begin(&route, covered, total).finish();
    Some(())
}
