//! Carrier 2: shared memory between processes of one host, one user and one network namespace.
//!
//! Each process has a [`Segment`], which its peers map on first contact, and shares a [`Link`] with
//! each peer. Descriptors are handed over by the door, a socket whose name is that of the
//! process's slot. Nothing is trusted that a peer wrote: every value is checked when it is read, and
//! a peer that breaks a rule is not listened to any more.

mod choice;
mod complaint;
mod directory;
mod door;
mod link;
mod onesided;
mod peer;
mod ring;
mod segment;
#[cfg(test)]
mod tests;
mod wire;

pub use choice::{Carrier, VARIABLE};
pub use complaint::complain;
pub use directory::{Census, Directory};
pub use link::Link;
pub use onesided::{Claims, Credit, Gate, GateSeen, Key, Mapped, Right, Shown, Use};
pub use peer::Peer;
pub use ring::{Broken, Consumer, PREFIX, Record, SHORT};
pub use segment::{AWAITS, CLOSED, SEGMENT, SLEEPS, Segment, TABLES};
pub use wire::{
    FEW, Fate, Few, Fill, Front, Header, MESSAGE, MESSAGE_HEAD, MESSAGE_MAX, News, PACKET, Put,
};

/// Nanoseconds after which somebody who sleeps can see all that was shown before others could see that he
/// does: many times as long as a processor keeps a write to itself.
pub const LATE: u64 = 1_000_000;
