//! The sending half: requests as frames (packet(7)).

use super::checksum;
use super::headers::SHORTEST;
use crate::memory::{AccessMode, Keys, PdId, piece};
use crate::objects::Objects;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Data as Given, SendRequest};
use rustix::net::{SendFlags, send};
use std::os::fd::BorrowedFd;
use uroce_engine::work::{Data, Sge, Status};

/// A send request.
pub struct Sending {
    /// `wr_id`.
    pub id: u64,
    data: Data,
    /// Whether it completes when it succeeds.
    pub signaled: bool,
    /// Bytes of the frame.
    length: usize,
    /// Whether check sums are to be made.
    sums: bool,
}

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the network's, or lost as on one.
    Sent,
    /// The socket has no room.
    Full,
    /// It cannot be sent.
    Failed(Status),
}

impl Sending {
    /// Checks a request.
    ///
    /// # Errors
    /// EINVAL for anything but a send, for too many pieces or too much data inline, and for less
    /// than an Ethernet header.
    pub fn new<P: Objects>(
        given: &SendRequest<'_, P>,
        cap: &ibv_qp_cap,
        all: bool,
    ) -> Result<Self> {
        if given.opcode != IBV_WR_SEND {
            return Err(Errno::INVAL);
        }
        let within = |count: usize, most: u32| u32::try_from(count).is_ok_and(|n| n <= most);
        let data = match &given.data {
            Given::Inline(inline) if within(inline.length(), cap.max_inline_data) => {
                Data::Inline(inline.to_vec().into())
            }
            Given::Sges(sges) if within(sges.len(), cap.max_send_sge) => {
                Data::Sges(sges.iter().map(piece).collect())
            }
            _ => return Err(Errno::INVAL),
        };
        let length = data.length().ok_or(Errno::INVAL)?;
        let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
        if length < SHORTEST {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            id: given.id,
            data,
            signaled: all || given.flags & IBV_SEND_SIGNALED != 0,
            length,
            sums: given.flags & IBV_SEND_IP_CSUM != 0,
        })
    }

    /// Bytes of the frame.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Sends it; `room` is memory to gather in.
    pub fn send(
        &self,
        socket: BorrowedFd<'_>,
        keys: &Keys,
        pd: PdId,
        room: &mut Vec<u8>,
    ) -> Outcome {
        let frame = match &self.data {
            Data::Inline(bytes) if self.sums => {
                room.clear();
                room.extend_from_slice(bytes.as_slice());
                checksum::make(room);
                room.as_slice()
            }
            Data::Inline(bytes) => bytes.as_slice(),
            // No interface takes more.
            Data::Sges(_) if self.length > LONGEST => return Outcome::Failed(Status::LocLen),
            Data::Sges(sges) => {
                room.clear();
                room.resize(self.length, 0);
                if gather(keys, pd, sges, room).is_none() {
                    return Outcome::Failed(Status::LocProt);
                }
                if self.sums {
                    checksum::make(room);
                }
                room.as_slice()
            }
        };
        loop {
            let sent = send(socket, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            let Err(e) = sent else { return Outcome::Sent };
            match e.raw_os_error() {
                libc::EINTR => {}
                libc::EAGAIN => return Outcome::Full,
                libc::EMSGSIZE => return Outcome::Failed(Status::LocLen),
                // The link is down, or a queue behind it is full.
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::ENOBUFS => {
                    return Outcome::Sent;
                }
                _ => return Outcome::Failed(Status::LocQpOp),
            }
        }
    }
}

/// The longest frame of any interface: an MTU of 65536, Ethernet header and tags.
const LONGEST: usize = 65_536 + 32;

fn gather(keys: &Keys, pd: PdId, sges: &[Sge], room: &mut [u8]) -> Option<()> {
    let mut rest = room;
    // The progress thread may do it, after the call.
    let memory = keys.using(AccessMode::Faultable);
    for sge in sges {
        let length = usize::try_from(sge.length).ok()?;
        let (now, later) = rest.split_at_mut_checked(length)?;
        memory.gather(pd, *sge, now).ok()?;
        rest = later;
    }
    Some(())
}
