//! Packets on their way out: built in place one after the other, and sent in runs of one path.

use super::{PORT, Sockets};
use kit::sys::datagram::{Datagram, Datagrams};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uroce_engine::host::Fault;
use uroce_engine::wire::icrc::{Icrc, Network, Route};
use uroce_engine::wire::{Headers, ICRC_LEN, MAX_HEADERS, MAX_PAYLOAD};

/// Bytes of an outbox.
const ROOM: usize = 128 << 10;
/// The longest packet, pad included.
const LONGEST: usize = MAX_HEADERS + MAX_PAYLOAD + 3 + ICRC_LEN;

/// Where packets go. The UDP source port is the carrier's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where from, an address of this host.
    pub source: IpAddr,
    /// Where to, of the same family.
    pub destination: IpAddr,
    /// By which interface (its index); 0: as the routes say. Link-local addresses and multicast
    /// need it.
    pub interface: u32,
    /// Traffic class, or type of service.
    pub traffic_class: u8,
    /// Hop limit, or time to live; 0: the system's own.
    pub hop_limit: u8,
}

/// What the carrier counts.
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
    bytes: Range<usize>,
    packets: usize,
}

/// A buffer of packets.
#[derive(Debug)]
pub struct Outbox {
    bytes: Box<[u8]>,
    used: usize,
    runs: Vec<Run>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            bytes: vec![0; ROOM].into_boxed_slice(),
            used: 0,
            runs: Vec::new(),
        }
    }
}

impl Outbox {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the next packet might find no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.used < LONGEST
    }

    /// Sends everything. What the kernel refuses is lost, and counted.
    pub fn send(&mut self, sockets: &Sockets, counters: &Counters) {
        let mut first = 0;
        while let Some(run) = self.runs.get(first) {
            let v4 = run.path.destination.is_ipv4();
            let rest = self.runs.get(first..).unwrap_or_default();
            let same = rest
                .iter()
                .take_while(|run| run.path.destination.is_ipv4() == v4);
            let datagrams = Datagrams(same.map(|run| self.datagram(run)));
            let sent = match sockets.of(run.path.destination) {
                Ok(socket) => datagrams.send(socket),
                Err(error) => Err(error),
            };
            let (step, counter) = match sent {
                Ok(sent) if sent > 0 => (sent, &counters.sent),
                Err(error) if error.raw() == libc::EINTR => continue,
                _ => (1, &counters.refused),
            };
            let packets: usize = rest.iter().take(step).map(|run| run.packets).sum();
            counter.fetch_add(u64::try_from(packets).unwrap_or(0), Relaxed);
            first += step;
        }
        self.runs.clear();
        self.used = 0;
    }

    fn datagram(&self, run: &Run) -> Datagram<'_> {
        Datagram {
            data: self.bytes.get(run.bytes.clone()).unwrap_or_default(),
            segment: None,
            source: run.path.source,
            destination: run.path.destination,
            port: PORT,
            interface: run.path.interface,
            hop_limit: run.path.hop_limit,
            traffic_class: run.path.traffic_class,
        }
    }
}

/// What a queue pair hands its packets to.
#[derive(Debug)]
pub struct Sender<'a>(&'a mut Outbox);

impl<'a> Sender<'a> {
    /// A sender that fills an outbox.
    pub fn new(outbox: &'a mut Outbox) -> Self {
        Self(outbox)
    }

    /// Whether no more packets can be taken just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Takes a packet of `length` bytes of payload, which `fill` writes: the one copy there is. Pad
    /// (as many bytes as the BTH says) and ICRC are added.
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
        let outbox = &mut *self.0;
        let emitted = headers.emit();
        let head = emitted.as_slice();
        let pad = usize::from(headers.bth.pad);
        let total = head.len() + length + pad + ICRC_LEN;
        if total > LONGEST || outbox.is_full() {
            return Err(Fault);
        }
        let range = outbox.used..outbox.used + total;
        let packet = outbox.bytes.get_mut(range.clone()).ok_or(Fault)?;
        let (place, rest) = packet.split_at_mut_checked(head.len()).ok_or(Fault)?;
        place.copy_from_slice(head);
        let (payload, rest) = rest.split_at_mut_checked(length).ok_or(Fault)?;
        fill(payload)?;
        rest.fill(0);
        seal(packet, path, 0).ok_or(Fault)?;
        outbox.used = range.end;
        outbox.runs.push(Run {
            path: *path,
            bytes: range,
            packets: 1,
        });
        Ok(())
    }
}

/// Writes the ICRC of a packet that will go with this identification; `None` if the path's addresses
/// are not of one family.
fn seal(packet: &mut [u8], path: &Path, identification: u16) -> Option<()> {
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
        source_port: PORT,
        destination_port: PORT,
    };
    let total = packet.len();
    let (covered, icrc) = packet.split_last_chunk_mut::<ICRC_LEN>()?;
    *icrc = Icrc::begin(&route, covered, total).finish();
    Some(())
}
