//! Messages that wait: for room at another process, or until their destination is known.

use kit::sys::datagram::Received;
use std::net::IpAddr;

/// A message that waits.
pub struct Deferred {
    data: Box<[u8]>,
    source: IpAddr,
    port: u16,
    destination: IpAddr,
    interface: u32,
    hop_limit: u8,
    traffic_class: u8,
    pub since: u64,
    pub due: u64,
    /// It is a request that waits for its port to be claimed again.
    pub lingers: bool,
}

impl Deferred {
    pub fn new(packet: &Received<'_>, since: u64, due: u64) -> Self {
        Self {
            data: packet.data.into(),
            source: packet.source,
            port: packet.port,
            destination: packet.destination,
            interface: packet.interface,
            hop_limit: packet.hop_limit,
            traffic_class: packet.traffic_class,
            since,
            due,
            lingers: false,
        }
    }

    /// Whether this is the same message: its sender has sent it again, without a change.
    pub fn is_copy_of(&self, packet: &Received<'_>) -> bool {
        self.source == packet.source
            && self.destination == packet.destination
            && *self.data == *packet.data
    }

    pub fn packet(&self) -> Received<'_> {
        Received {
            data: &self.data,
            segment: self.data.len(),
            source: self.source,
            port: self.port,
            destination: self.destination,
            interface: self.interface,
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
        }
    }
}
