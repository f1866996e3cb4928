//! Ports of listeners that were closed a moment ago. A server that replaces its listener, as
//! perftest's does between its two connections, has no port for a moment, in which a client may be
//! quicker than the next listener. Its request waits, in the process that receives it, until a
//! process claims the port, or the port lingers no more.
//!
//! A port lingers only as long as a connection of its former listener is open, so that the server
//! is not done. A server that has ended, or has only closed its listener, refuses at once.

use super::claims::Claim;
use super::id::{Id, Stage};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// How long a port lingers, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
/// Ports that linger at most: each costs a descriptor.
const MOST: usize = 16;

/// The ports, the oldest first.
#[derive(Default)]
pub struct Lingering(VecDeque<(u64, Claim)>);

impl Lingering {
    /// A listener has been closed. Where its port cannot linger, for want of a descriptor, requests
    /// are refused at once.
    pub fn add(&mut self, claim: Claim, now: u64) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        if let Ok(claim) = claim.linger() {
            self.0.push_back((now.saturating_add(PATIENCE), claim));
        }
    }

    /// When the oldest lingers no more.
    pub fn due(&self) -> Option<u64> {
        self.0.front().map(|(due, _)| *due)
    }

    /// Ends those that are due.
    pub fn on_time(&mut self, now: u64) {
        self.0.retain(|(due, _)| *due > now);
    }

    /// An id of this process has the port again.
    pub fn bound(&mut self, port: u16) {
        self.0.retain(|(_, claim)| claim.port().port != port);
    }

    /// Ends those whose connections have ended.
    pub fn keep_open<'a>(&mut self, ids: impl Iterator<Item = &'a Id> + Clone) {
        self.0
            .retain(|(_, claim)| ids.clone().any(|id| is_open_at(id, claim)));
    }

    /// Whether a port of an address lingers, of any port space: the next listener may have another.
    pub fn has(&self, port: u16, address: IpAddr, interface: u32) -> bool {
        let mut ports = self.0.iter().map(|(_, claim)| claim.port());
        ports.any(|own| own.is_at(port, address, interface))
    }
}

/// Whether an id is a connection that came to the listener of a claim, and is open.
pub fn is_open_at(id: &Id, claim: &Claim) -> bool {
    let port = id.source.map(|source: SocketAddr| source.port());
    let came = id.passive && (id.space, port) == (claim.port().space, Some(claim.port().port));
    came && id.accepted && id.stage == Stage::Connecting
}
