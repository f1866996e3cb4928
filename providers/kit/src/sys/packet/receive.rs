//! Receiving frames.

use crate::errno::Result;
use core::mem::zeroed;
use core::ptr::null_mut;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Frames taken at once.
const BATCH: usize = 8;
/// Room in front of a frame for the VLAN tag that the kernel keeps beside it.
const TAG: usize = 4;
/// The most bytes of a frame: what an interface of MTU 65536 has, or the kernel has joined.
const FRAME: usize = 65_536 + 32;
const SIZE: usize = TAG + FRAME;
/// Two Ethernet addresses, behind which a VLAN tag stands.
const ADDRESSES: usize = 12;
const CONTROL: usize = 64;

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

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

struct Place {
    name: libc::sockaddr_ll,
    control: Control,
    start: usize,
    length: usize,
    whole: bool,
}

/// Buffers for frames.
pub struct FrameReceiver {
    bytes: Box<[u8]>,
    places: Box<[Place]>,
    filled: usize,
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
        let place = |_| Place {
            // SAFETY: numbers, for which zeros are values.
            name: unsafe { zeroed() },
            control: Control([0; CONTROL]),
            start: 0,
            length: 0,
            whole: false,
        };
        Self {
            bytes: vec![0; BATCH * SIZE].into_boxed_slice(),
            places: (0..BATCH).map(place).collect(),
            filled: 0,
        }
    }

    /// Takes in what there is, without waiting. Answers how many there are for
    /// [`FrameReceiver::frame`]; what was there before is gone.
    ///
    /// # Errors
    /// Of recvmmsg(2): EAGAIN if there is nothing, ENETDOWN once when the interface went down.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        self.filled = 0;
        // SAFETY: structures of numbers and pointers, for which zeros are values.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut pieces: [libc::iovec; BATCH] = unsafe { zeroed() };
        let buffers = self.bytes.chunks_exact_mut(SIZE);
        for (((header, piece), place), buffer) in headers
            .iter_mut()
            .zip(&mut pieces)
            .zip(&mut self.places)
            .zip(buffers)
        {
            let (_, room) = buffer.split_at_mut(TAG);
            piece.iov_base = room.as_mut_ptr().cast();
            piece.iov_len = room.len();
            header.msg_hdr.msg_name = (&raw mut place.name).cast();
            header.msg_hdr.msg_namelen = super::length_of::<libc::sockaddr_ll>()?;
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = place.control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL;
        }
        let count = libc::c_uint::try_from(BATCH).unwrap_or(1);
        // SAFETY: every header points to buffers of the lengths it names, which live through the
        // call and are nobody else's.
        let got = unsafe {
            let headers = headers.as_mut_ptr();
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers,
                count,
                libc::MSG_DONTWAIT,
                null_mut(),
            )
        };
        let Ok(got) = usize::try_from(got) else {
            return Err(crate::sys::errno::get());
        };
        let buffers = self.bytes.chunks_exact_mut(SIZE);
        for ((place, header), buffer) in self.places.iter_mut().zip(&headers).zip(buffers).take(got)
        {
            let length = usize::try_from(header.msg_len).unwrap_or(0).min(FRAME);
            place.whole = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
            // SAFETY: the kernel has filled the control buffer up to the length that the header
            // names, message by message; both live here.
            let tag = unsafe { tag(&header.msg_hdr) };
            place.settle(buffer, length, tag);
        }
        self.filled = got.min(BATCH);
        Ok(self.filled)
    }

    /// One of those received last; `None` if it did not fit.
    #[must_use]
    pub fn frame(&self, index: usize) -> Option<Frame<'_>> {
        let place = self.places.get(index).filter(|_| index < self.filled)?;
        if !place.whole {
            return None;
        }
        let start = index.checked_mul(SIZE)? + place.start;
        let origin = match place.name.sll_pkttype {
            libc::PACKET_OUTGOING => Origin::Sent,
            _ => Origin::Received,
        };
        Some(Frame {
            bytes: self.bytes.get(start..start + place.length)?,
            origin,
        })
    }
}

impl Place {
    /// Puts the tag back, and notes where the frame stands.
    fn settle(&mut self, buffer: &mut [u8], length: usize, tag: Option<[u8; TAG]>) {
        self.start = TAG;
        self.length = length;
        let Some(tag) = tag.filter(|_| length >= ADDRESSES) else {
            return;
        };
        buffer.copy_within(TAG..TAG + ADDRESSES, 0);
        if let Some(room) = buffer.get_mut(ADDRESSES..ADDRESSES + TAG) {
            room.copy_from_slice(&tag);
        }
        self.start = 0;
        self.length = length + TAG;
    }
}

/// linux/if_packet.h
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// The tag protocol of customers' VLANs (IEEE 802.1Q).
const CVLAN: u16 = 0x8100;

/// The tag that the kernel keeps beside the frame.
///
/// # Safety
/// The header's control buffer has been filled by the kernel.
unsafe fn tag(header: &libc::msghdr) -> Option<[u8; TAG]> {
    // SAFETY: vouched for by the caller; a message's data is read without regard to alignment, and
    // only if it is long enough.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let needed = usize::try_from(libc::CMSG_LEN(
            u32::try_from(size_of::<libc::tpacket_auxdata>()).ok()?,
        ))
        .ok()?;
        let fits = message.cmsg_level == libc::SOL_PACKET
            && message.cmsg_type == libc::PACKET_AUXDATA
            && message.cmsg_len >= needed;
        if !fits {
            return None;
        }
        let data = libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>();
        let data = data.read_unaligned();
        if data.tp_status & TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let protocol = match data.tp_status & TP_STATUS_VLAN_TPID_VALID {
            0 => CVLAN,
            _ => data.tp_vlan_tpid,
        };
        let [a, b] = protocol.to_be_bytes();
        let [c, d] = data.tp_vlan_tci.to_be_bytes();
        Some([a, b, c, d])
    }
}
