//! Attributes that a provider put together itself: chains of `struct ibv_command_buffer`.

use super::attr::{Attr, INLINE};
use super::frame::{call, lengths};
use crate::abi::kernel::ioctl::{UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT};
use crate::abi::{_UHW_NO_INDEX, ib_uverbs_attr, ib_uverbs_ioctl_hdr, ibv_command_buffer};
use crate::errno::{Errno, Result};
use core::iter::successors;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::{NonNull, copy_nonoverlapping};
use std::os::fd::BorrowedFd;

/// `buffer_error`: a length did not fit.
const BIT_ERROR: u8 = 1;
/// `fallback_require_ex`.
const BIT_EXTENDED: u8 = 2;
/// `fallback_ioctl_only`.
const BIT_IOCTL_ONLY: u8 = 4;

/// A chain of a provider's command buffers, valid for `'a`.
#[derive(Clone, Copy)]
pub struct Link<'a> {
    first: NonNull<ibv_command_buffer>,
    life: PhantomData<&'a mut ibv_command_buffer>,
}

impl<'a> Link<'a> {
    /// Takes the pointer that the provider passed; NULL is no link.
    ///
    /// # Safety
    /// A pointer that is not NULL must start a chain of command buffers, each followed by its
    /// attributes up to `next_attr`, whose addresses are valid for their lengths. All of it is
    /// valid for `'a`, and no other thread accesses it.
    pub unsafe fn from_raw(raw: *mut ibv_command_buffer) -> Option<Self> {
        NonNull::new(raw).map(|first| Self {
            first,
            life: PhantomData,
        })
    }

    fn buffers(self) -> impl Iterator<Item = NonNull<ibv_command_buffer>> {
        successors(Some(self.first), |b| {
            // SAFETY: every buffer of the chain is valid for 'a.
            NonNull::new(unsafe { (*b.as_ptr()).next })
        })
    }

    /// Number of attributes in the whole chain.
    pub fn count(self) -> usize {
        // SAFETY: every buffer of the chain is valid for 'a.
        self.buffers().map(|b| unsafe { held(b.as_ptr()) }).sum()
    }

    /// The attributes, copied, in the order of the chain. Driver data that is kept by address
    /// until the last moment goes inside its attribute where it is short.
    pub fn attrs(self) -> impl Iterator<Item = Attr> {
        self.buffers().flat_map(|b| {
            let b = b.as_ptr();
            // SAFETY: valid for 'a, with `held` attributes behind it.
            (0..unsafe { held(b) }).map(move |i| unsafe { ready(b, i) })
        })
    }

    /// Whether every buffer is fit to be appended to a call of `target` (object, method).
    ///
    /// # Errors
    /// EINVAL when one is for another method or holds something that could not be expressed.
    pub fn check(self, target: (u16, u16)) -> Result<()> {
        let fit = self.buffers().all(|b| {
            // SAFETY: valid for 'a.
            let b = unsafe { b.as_ref() };
            (b.hdr.object_id, b.hdr.method_id) == target && b.bits & BIT_ERROR == 0
        });
        fit.then_some(()).ok_or(Errno::INVAL)
    }

    /// Whether a mandatory attribute of the provider's own would be lost without the ioctl,
    /// or the provider asked for the ioctl.
    pub fn ioctl_only(self) -> bool {
        let own = |attr: Attr| {
            attr.mandatory() && attr.id != UVERBS_ATTR_UHW_IN && attr.id != UVERBS_ATTR_UHW_OUT
        };
        self.has_bit(BIT_IOCTL_ONLY) || self.attrs().any(own)
    }

    /// Whether the provider asked for an extended command.
    pub fn extended_only(self) -> bool {
        self.has_bit(BIT_EXTENDED)
    }

    fn has_bit(self, bit: u8) -> bool {
        // SAFETY: valid for 'a.
        self.buffers()
            .any(|b| unsafe { b.as_ref() }.bits & bit != 0)
    }

    /// Copies the kernel's answers back, in the order of [`Link::attrs`].
    pub(super) fn take_back(self, answered: &[Attr]) {
        let mut answered = answered.iter();
        for b in self.buffers() {
            let b = b.as_ptr();
            // SAFETY: valid for 'a, with `held` attributes behind it.
            for i in 0..unsafe { held(b) } {
                let Some(attr) = answered.next() else { return };
                // SAFETY: as above.
                unsafe { first_attr(b).add(i).write(*attr) };
            }
        }
    }
}

/// Where the attributes of a buffer start: right behind its header.
///
/// # Safety
/// `b` points at a command buffer.
unsafe fn first_attr(b: *mut ibv_command_buffer) -> *mut Attr {
    // SAFETY: the end of the structure is inside or one past its memory.
    unsafe { b.add(1) }.cast()
}

/// Attributes between the start and `end`.
///
/// # Safety
/// `b` points at a command buffer.
unsafe fn between(b: *mut ibv_command_buffer, end: *mut ib_uverbs_attr) -> usize {
    // SAFETY: vouched for by the caller.
    let start = unsafe { first_attr(b) };
    end.addr().saturating_sub(start.addr()) / size_of::<Attr>()
}

/// Attributes that the buffer holds.
///
/// # Safety
/// `b` points at a command buffer.
unsafe fn held(b: *mut ibv_command_buffer) -> usize {
    // SAFETY: vouched for by the caller.
    unsafe { between(b, (*b).next_attr) }
}

/// Attribute `i` as the kernel wants it.
///
/// # Safety
/// `b` points at a command buffer with more than `i` attributes.
unsafe fn ready(b: *mut ibv_command_buffer, i: usize) -> Attr {
    // SAFETY: vouched for by the caller.
    let (mut attr, idx) = unsafe { (first_attr(b).add(i).read(), (*b).uhw_in_idx) };
    let short = usize::from(attr.len);
    if u32::from(idx) == _UHW_NO_INDEX || usize::from(idx) != i || short > INLINE {
        return attr;
    }
    let Ok(at) = usize::try_from(attr.data) else {
        return attr;
    };
    let mut bytes = [0; INLINE];
    let from = core::ptr::with_exposed_provenance::<u8>(at);
    // SAFETY: the attribute's address is good for its length, which is at most INLINE.
    unsafe { copy_nonoverlapping(from, bytes.as_mut_ptr(), short) };
    attr.set_inline(&bytes);
    attr
}

/// Carries out a call that a provider put together, in the provider's own buffer.
///
/// # Errors
/// EINVAL when something in it could not be expressed, when a linked buffer is for another
/// method, or when the buffer has no room for the linked ones; else the kernel's own errno.
///
/// # Safety
/// `cmd` is as for [`Link::from_raw`], with memory for attributes up to `last_attr`.
pub unsafe fn run_foreign(
    fd: BorrowedFd<'_>,
    driver_id: u32,
    cmd: *mut ibv_command_buffer,
) -> Result<()> {
    if cmd.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller.
    let (own, room, head) = unsafe { (held(cmd), between(cmd, (*cmd).last_attr), *cmd) };
    if head.bits & BIT_ERROR != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: as above.
    let link = unsafe { Link::from_raw(head.next) };
    if let Some(link) = link {
        link.check((head.hdr.object_id, head.hdr.method_id))?;
    }
    let total = own + link.map_or(0, Link::count);
    if total > room {
        return Err(Errno::INVAL);
    }
    let (length, num_attrs) = lengths(total)?;
    // SAFETY: there is room for `total` attributes behind `cmd`; the header is its last member.
    unsafe {
        for i in 0..own {
            first_attr(cmd).add(i).write(ready(cmd, i));
        }
        for (i, attr) in link.into_iter().flat_map(Link::attrs).enumerate() {
            first_attr(cmd).add(own + i).write(attr);
        }
        (*cmd).hdr = ib_uverbs_ioctl_hdr {
            length,
            num_attrs,
            reserved1: 0,
            reserved2: 0,
            driver_id,
            ..head.hdr
        };
        call(fd, &raw mut (*cmd).hdr)?;
        if let Some(link) = link {
            let answered = core::slice::from_raw_parts(first_attr(cmd).add(own), total - own);
            link.take_back(answered);
        }
    }
    Ok(())
}
