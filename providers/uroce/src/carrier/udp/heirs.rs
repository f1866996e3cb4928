//! QP numbers that outlive the process that gave them: XRC targets that another process of the
//! domain has inherited.
//!
//! A process that others share targets with holds the name `\0uroce/<slot>/kept` and gives each of
//! them a copy of the socket, so that the slot, and with it the number, is not given again while
//! one of them is there. Who inherits a number binds `\0uroce/heir/<number>/<own slot>`; by that
//! name it is found. Both names go with their processes.

use super::slot::{self, LAST};
use super::socket::Socket;
use crate::named;
use kit::errno::{Errno, Result};
use parking_lot::Mutex;
use rustix::net::{self, SocketAddrUnix, SocketType};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long an heir that was found is believed in.
const FOUND: Duration = Duration::from_secs(1);
/// How long nobody looks again after a search in vain: one takes a millisecond.
const VAIN: Duration = Duration::from_millis(20);
/// Heirs that are remembered at once.
const MOST: usize = 1024;

fn socket() -> Result<OwnedFd> {
    named::socket(SocketType::DGRAM)
}

fn kept_name(slot: u16) -> Result<SocketAddrUnix> {
    named::name(&format!("uroce/{slot}/kept"))
}

fn heir_name(number: u32, slot: u16) -> Result<SocketAddrUnix> {
    named::name(&format!("uroce/heir/{number}/{slot}"))
}

/// Holds the name that keeps a slot.
///
/// # Errors
/// Of socket(2), bind(2).
pub fn keep(slot: u16) -> Result<OwnedFd> {
    let socket = socket()?;
    net::bind(&socket, &kept_name(slot)?)?;
    Ok(socket)
}

/// Whether somebody keeps a slot: it is not free, even if its process has ended.
#[must_use]
pub fn is_kept(slot: u16) -> bool {
    let (Ok(socket), Ok(name)) = (socket(), kept_name(slot)) else {
        return false;
    };
    net::connect(&socket, &name).is_ok()
}

/// Makes known that the process of a slot has inherited a number, until the result is dropped.
///
/// # Errors
/// Of socket(2), bind(2).
pub fn announce(number: u32, own: u16) -> Result<Socket> {
    let socket = socket()?;
    net::bind(&socket, &heir_name(number, own)?)?;
    Ok(Socket::new(socket))
}

/// Who has inherited what, as far as it was asked for.
#[derive(Debug, Default)]
pub struct Heirs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    found: HashMap<u32, (u16, Instant)>,
    /// The latest search in vain.
    vain: Option<Instant>,
}

impl Heirs {
    /// The slot of the process that has inherited a number.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<u16> {
        let mut known = self.0.lock();
        known.found.retain(|_, (_, since)| since.elapsed() < FOUND);
        if let Some((slot, _)) = known.found.get(&number) {
            return Some(*slot);
        }
        if known.vain.is_some_and(|since| since.elapsed() < VAIN) || !is_kept(slot::of(number)) {
            return None;
        }
        let Some(slot) = search(number) else {
            known.vain = Some(Instant::now());
            return None;
        };
        if known.found.len() < MOST {
            known.found.insert(number, (slot, Instant::now()));
        }
        Some(slot)
    }

    /// Who was found is not there any more.
    pub fn forget(&self, number: u32) {
        self.0.lock().found.remove(&number);
    }
}

fn search(number: u32) -> Option<u16> {
    let socket = socket().ok()?;
    (1..=LAST).find(|slot| {
        heir_name(number, *slot).is_ok_and(|name| match net::connect(&socket, &name) {
            Ok(()) => true,
            Err(error) => Errno::from(error) == Errno::AGAIN,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::udp::Slot;
    use slot::INDEX_BITS;

    #[test]
    fn a_kept_slot_is_nobodys_and_its_heir_is_found() {
        let slot = Slot::claim().expect("a slot");
        let number = u32::from(slot.number()) << INDEX_BITS | 5;
        let heirs = Heirs::default();
        assert!(!is_kept(slot.number()));
        assert_eq!(heirs.find(number), None);
        let kept = keep(slot.number()).expect("kept");
        let copy = kept.try_clone().expect("a copy");
        let announced = announce(number, 77).expect("announced");
        assert_eq!(heirs.find(number), Some(77));
        drop(kept);
        assert!(is_kept(slot.number()));
        drop(announced);
        heirs.forget(number);
        assert_eq!(heirs.find(number), None);
        drop(copy);
        assert!(!is_kept(slot.number()));
    }
}
