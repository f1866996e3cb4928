#![forbid(unsafe_code)]
//! Netlink messages of any kind: bytes in, values out. No socket here.
//!
//! The header, the end of a list, acknowledgements and errors are those of
//! `linux/include/uapi/linux/netlink.h`; each protocol defines the payload.

use crate::errno::{Errno, Result};
use netlink_packet_core::{
    DefaultNla, Emitable, ErrorBuffer, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer,
};

/// Bytes of `struct nlmsghdr`.
pub const HEADER: usize = 16;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One object, then an acknowledgement.
    Single,
    /// A list, then a message that ends it.
    List,
}

/// A question to the kernel, before it has its number.
pub struct Question<'a> {
    /// Message type.
    pub message: u16,
    /// How the answer ends.
    pub kind: Kind,
    /// The structure in front of the attributes.
    pub fixed: &'a [u8],
    /// The attributes.
    pub attributes: &'a [DefaultNla],
}

impl Question<'_> {
    /// The bytes to send. `fixed` has to be a multiple of 4 bytes long.
    ///
    /// # Errors
    /// EINVAL when 32 bits cannot hold the length.
    pub fn bytes(&self, sequence: u32) -> Result<Vec<u8>> {
        let end = match self.kind {
            Kind::List => NLM_F_DUMP,
            Kind::Single => NLM_F_ACK,
        };
        let front = HEADER + self.fixed.len();
        let length = front + self.attributes.buffer_len();
        let mut bytes = vec![0; length];
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length(u32::try_from(length).map_err(|_| Errno::INVAL)?);
        message.set_message_type(self.message);
        message.set_flags(NLM_F_REQUEST | end);
        message.set_sequence_number(sequence);
        message.set_port_number(0);
        let (fixed, attributes) = message.payload_mut().split_at_mut(self.fixed.len());
        fixed.copy_from_slice(self.fixed);
        self.attributes.emit(attributes);
        Ok(bytes)
    }
}

/// Whether an answer is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More datagrams follow.
    More,
    /// That was all.
    Complete,
}

/// The messages of one datagram; an error is the last item.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<NetlinkBuffer<&[u8]>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = first(rest);
        rest = match &message {
            Ok((_, after)) => after,
            Err(_) => &[],
        };
        Some(message.map(|(message, _)| message))
    })
}

/// Whether a datagram of a list reports that the list changed while it was sent.
pub fn is_interrupted(datagram: &[u8]) -> bool {
    messages(datagram)
        .map_while(Result::ok)
        .any(|message| message.flags() & NLM_F_DUMP_INTR != 0)
}

/// The first message, and the bytes after it.
fn first(bytes: &[u8]) -> Result<(NetlinkBuffer<&[u8]>, &[u8])> {
    let message = NetlinkBuffer::new_checked(bytes).map_err(|_| Errno::PROTO)?;
    let length = usize::try_from(message.length()).map_err(|_| Errno::PROTO)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok((message, after))
}

/// Reads one datagram of the answer to question `sequence` and calls `each` with type and
/// payload of every message in it.
///
/// # Errors
/// The kernel's errno; EPROTO when the bytes are no netlink messages; those of `each`.
pub fn read(
    datagram: &[u8],
    sequence: u32,
    mut each: impl FnMut(u16, &[u8]) -> Result<()>,
) -> Result<Progress> {
    for message in messages(datagram) {
        let message = message?;
        if message.sequence_number() != sequence {
            continue;
        }
        if one(&message, &mut each)? == Progress::Complete {
            return Ok(Progress::Complete);
        }
    }
    Ok(Progress::More)
}

fn one(
    message: &NetlinkBuffer<&[u8]>,
    each: &mut impl FnMut(u16, &[u8]) -> Result<()>,
) -> Result<Progress> {
    match message.message_type() {
        NLMSG_NOOP => Ok(Progress::More),
        NLMSG_OVERRUN => Err(Errno(libc::ENOBUFS)),
        NLMSG_DONE => done(message.payload()),
        NLMSG_ERROR => acknowledged(message.payload()),
        kind => {
            each(kind, message.payload())?;
            Ok(Progress::More)
        }
    }
}

/// The end of a list; newer kernels put its errno there.
fn done(payload: &[u8]) -> Result<Progress> {
    match payload.first_chunk::<4>().map(|b| i32::from_ne_bytes(*b)) {
        Some(code) if code < 0 => Err(Errno(code.saturating_neg())),
        _ => Ok(Progress::Complete),
    }
}

fn acknowledged(payload: &[u8]) -> Result<Progress> {
    let error = ErrorBuffer::new_checked(payload).map_err(|_| Errno::PROTO)?;
    match error.code() {
        Some(code) => Err(Errno(code.get().saturating_abs())),
        None => Ok(Progress::Complete),
    }
}
