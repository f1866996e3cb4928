//! Control messages, which accompany a datagram, one after the other in an aligned buffer.

use core::ffi::c_int;

/// Room for control messages: four of them, the largest of 20 bytes.
pub(in crate::sys) const ROOM: usize = 192;

/// A buffer of control messages, aligned as `struct cmsghdr` is.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(in crate::sys) struct Control {
    pub(in crate::sys) bytes: [u8; ROOM],
    pub(in crate::sys) used: usize,
}

const HEADER: usize = size_of::<libc::cmsghdr>();

const fn align(length: usize) -> usize {
    length.next_multiple_of(align_of::<libc::cmsghdr>())
}

impl Control {
    pub(in crate::sys) const fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            used: 0,
        }
    }

    /// Adds a message. One that finds no room is left out; there is room for all that are sent.
    pub(in crate::sys) fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let length = HEADER + data.len();
        let Some(room) = self.bytes.get_mut(self.used..self.used + align(length)) else {
            return;
        };
        // cmsg_len, cmsg_level, cmsg_type.
        let (head, body) = room.split_at_mut(HEADER);
        let (size, rest) = head.split_at_mut(size_of::<usize>());
        size.copy_from_slice(&length.to_ne_bytes());
        let (first, second) = rest.split_at_mut(size_of::<c_int>());
        first.copy_from_slice(&level.to_ne_bytes());
        second.copy_from_slice(&kind.to_ne_bytes());
        if let Some(place) = body.get_mut(..data.len()) {
            place.copy_from_slice(data);
        }
        self.used += align(length);
    }

    /// The messages.
    pub(in crate::sys) fn iter(&self) -> Messages<'_> {
        Messages(self.bytes.get(..self.used).unwrap_or_default())
    }
}

// `push` writes these fields one after the other.
const _: () = assert!(
    core::mem::offset_of!(libc::cmsghdr, cmsg_level) == size_of::<usize>()
        && core::mem::offset_of!(libc::cmsghdr, cmsg_type) == size_of::<usize>() + 4
        && HEADER == size_of::<usize>() + 8
);

/// Control messages: level, type, data.
pub(in crate::sys) struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (c_int, c_int, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_at_checked(HEADER)?;
        let (size, kinds) = head.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, kind) = kinds.split_first_chunk::<4>()?;
        let length = usize::from_ne_bytes(*size).checked_sub(HEADER)?;
        let data = rest.get(..length)?;
        self.0 = rest.get(align(length)..).unwrap_or_default();
        let kind = kind.first_chunk::<4>()?;
        Some((
            c_int::from_ne_bytes(*level),
            c_int::from_ne_bytes(*kind),
            data,
        ))
    }
}
