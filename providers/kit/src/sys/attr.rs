#![forbid(unsafe_code)]
//! One attribute of a verbs ioctl (rdma/rdma_user_ioctl_cmds.h, `struct ib_uverbs_attr`).

use crate::abi::ib_uverbs_attr;
use crate::abi::kernel::ioctl::UVERBS_ATTR_F_MANDATORY;
use bytemuck::{Pod, Zeroable};
use core::mem::{offset_of, size_of};

/// The kernel's attribute, as plain data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Attr {
    /// Attribute number within the method.
    pub id: u16,
    /// Bytes of data; 0 for objects and descriptors.
    pub len: u16,
    /// `UVERBS_ATTR_F_*`.
    pub flags: u16,
    /// The alternative chosen, for attributes that have several.
    pub elem: u8,
    /// Zero.
    pub reserved: u8,
    /// A handle, a descriptor, up to 8 bytes of input, or an address.
    pub data: u64,
}

const _: () = {
    assert!(size_of::<Attr>() == size_of::<ib_uverbs_attr>());
    assert!(offset_of!(Attr, len) == offset_of!(ib_uverbs_attr, len));
    assert!(offset_of!(Attr, flags) == offset_of!(ib_uverbs_attr, flags));
    assert!(offset_of!(Attr, elem) == offset_of!(ib_uverbs_attr, attr_data));
    assert!(offset_of!(Attr, data) == offset_of!(ib_uverbs_attr, u0));
};

/// Input of at most this many bytes travels inside the attribute.
pub const INLINE: usize = size_of::<u64>();

impl Attr {
    /// A mandatory attribute without data.
    pub fn new(id: u16) -> Self {
        Self {
            id,
            flags: UVERBS_ATTR_F_MANDATORY,
            ..Self::default()
        }
    }

    /// Puts up to [`INLINE`] bytes inside; longer input is cut.
    pub fn set_inline(&mut self, bytes: &[u8]) {
        let mut data = [0; INLINE];
        for (to, from) in data.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.data = u64::from_ne_bytes(data);
    }

    /// Whether the kernel must know it.
    pub fn mandatory(self) -> bool {
        self.flags & UVERBS_ATTR_F_MANDATORY != 0
    }
}
