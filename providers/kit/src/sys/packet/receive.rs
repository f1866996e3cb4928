//! Receiving frames.

use crate::errno::Result;
use crate::sys::batch::{BATCH, Batch};
use crate::sys::control::Control;
use core::mem::offset_of;
use core::ops::Range;
use std::os::fd::BorrowedFd;

/// Room in front of a frame for the VLAN tag that the kernel keeps beside it.
const TAG: usize = 4;
/// Maximum bytes of a frame: from an interface of MTU 65536, or joined by the kernel.
const FRAME: usize = 65_536 + 32;
/// Two Ethernet addresses, behind which a VLAN tag stands.
const ADDRESSES: usize = 12;

/// How a frame came to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From outside.
    Received,
    /// This host sends it.
    Sent,
}

/// A frame, with the VLAN tag in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The bytes from the destination address on, without check sequence.
    pub bytes: &'a [u8],
    /// How it came.
    pub origin: Origin,
}

/// Buffers for frames.
pub struct FrameReceiver {
    batch: Batch<libc::sockaddr_ll>,
    /// Where in its buffer each frame stands.
    spans: [Range<usize>; BATCH],
    /// Whether the kernel has left the check sum of each frame's segment to the device.
    unfinished: [bool; BATCH],
}

impl Default for FrameReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReceiver {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            batch: Batch::new(TAG, FRAME),
            spans: [(); BATCH].map(|()| 0..0),
            unfinished: [false; BATCH],
        }
    }

    /// Receives the pending frames, without waiting. Returns their number for
    /// [`FrameReceiver::frame`]; earlier frames are dropped.
    ///
    /// # Errors
    /// Of recvmmsg(2): EAGAIN if there is nothing, ENETDOWN once when the interface went down.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        let count = self.batch.receive(fd)?;
        let frames = self.spans.iter_mut().zip(&mut self.unfinished);
        for ((span, unfinished), (place, buffer)) in frames.zip(self.batch.each()) {
            let auxiliary = auxiliary(&place.control);
            *span = settle(buffer, place.length, auxiliary.and_then(tag));
            *unfinished = auxiliary.and_then(status).unwrap_or(0) & TP_STATUS_CSUMNOTREADY != 0;
        }
        Ok(count)
    }

    /// Has the check sums made that the kernel left to the device, in the frames received last.
    pub fn finish(&mut self, make: impl Fn(&mut [u8])) {
        let marks = self.spans.iter().zip(&self.unfinished);
        let frames = marks.zip(self.batch.each());
        for ((span, _), (_, buffer)) in frames.filter(|((_, unfinished), _)| **unfinished) {
            if let Some(frame) = buffer.get_mut(span.clone()) {
                make(frame);
            }
        }
    }

    /// One of those received last; `None` if it did not fit.
    #[must_use]
    pub fn frame(&self, index: usize) -> Option<Frame<'_>> {
        let (place, buffer) = self.batch.get(index)?;
        let span = self.spans.get(index)?;
        let origin = match place.name.sll_pkttype {
            libc::PACKET_OUTGOING => Origin::Sent,
            _ => Origin::Received,
        };
        Some(Frame {
            bytes: buffer.get(span.clone())?,
            origin,
        })
    }
}

/// Puts the tag back. Returns where the frame stands.
fn settle(buffer: &mut [u8], length: usize, tag: Option<[u8; TAG]>) -> Range<usize> {
    let end = TAG + length;
    let Some(tag) = tag.filter(|_| length >= ADDRESSES) else {
        return TAG..end;
    };
    buffer.copy_within(TAG..TAG + ADDRESSES, 0);
    if let Some(room) = buffer.get_mut(ADDRESSES..ADDRESSES + TAG) {
        room.copy_from_slice(&tag);
    }
    0..end
}

/// linux/if_packet.h
const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// The tag protocol of customers' VLANs (IEEE 802.1Q).
const CVLAN: u16 = 0x8100;

/// `struct tpacket_auxdata`: what the kernel reports of a frame.
fn auxiliary(control: &Control) -> Option<&[u8]> {
    let is_known =
        |(level, kind, _): &(_, _, _)| (*level, *kind) == (libc::SOL_PACKET, libc::PACKET_AUXDATA);
    let (_, _, data) = control.iter().find(is_known)?;
    Some(data)
}

fn status(data: &[u8]) -> Option<u32> {
    let status = data.get(offset_of!(libc::tpacket_auxdata, tp_status)..)?;
    Some(u32::from_ne_bytes(*status.first_chunk()?))
}

/// The tag that the kernel keeps beside the frame.
fn tag(data: &[u8]) -> Option<[u8; TAG]> {
    let status = status(data)?;
    if status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let half = |at: usize| Some(u16::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let protocol = match status & TP_STATUS_VLAN_TPID_VALID {
        0 => CVLAN,
        _ => half(offset_of!(libc::tpacket_auxdata, tp_vlan_tpid))?,
    };
    let [a, b] = protocol.to_be_bytes();
    let tci = half(offset_of!(libc::tpacket_auxdata, tp_vlan_tci))?;
    let [c, d] = tci.to_be_bytes();
    Some([a, b, c, d])
}
