//! The verbs ioctl: a method call with attributes.
//!
//! [`Ioctl`] collects attributes that borrow their input and output for `'a`, so the addresses
//! it hands to the kernel are those of live memory. Where the kernel writes, nothing else refers to
//! the memory. The caller is responsible for the meaning of numbers: a registration names memory by
//! a number, and the application is responsible for the device's accesses to it.

use super::frame::{call, lengths};
use super::{attr::Attr, attr::INLINE, link::Link};
use crate::abi::ib_uverbs_ioctl_hdr;
use crate::abi::kernel::ioctl::{UVERBS_ATTR_F_MANDATORY, UVERBS_ATTR_F_VALID_OUTPUT};
use crate::errno::{Errno, Result};
use bytemuck::Pod;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Attributes that one call can carry. A kernel method has 63 at most (6 bits of its
/// attribute key, less one; drivers/infiniband/core/uverbs of the kernel).
pub const MAX_ATTRS: usize = 64;

#[repr(C)]
struct Frame {
    hdr: ib_uverbs_ioctl_hdr,
    attrs: [MaybeUninit<Attr>; MAX_ATTRS],
}

/// A method call being put together.
pub struct Ioctl<'a> {
    frame: Frame,
    count: usize,
    invalid: bool,
    /// The attribute that takes a new descriptor.
    fd_at: Option<usize>,
    /// The kernel has answered, and its new descriptor is not taken yet.
    fd_made: bool,
    link: Option<Link<'a>>,
    life: PhantomData<&'a mut [u8]>,
}

/// The attribute just added; nothing where it was left out.
pub struct Added<'b>(Option<&'b mut Attr>);

impl Added<'_> {
    /// Lets a kernel that does not know the attribute pass over it.
    pub fn optional(self) {
        if let Some(attr) = self.0 {
            attr.flags &= !UVERBS_ATTR_F_MANDATORY;
        }
    }

    fn choose(self, elem: u8) -> Self {
        self.0.map_or(Self(None), |attr| {
            attr.elem = elem;
            Self(Some(attr))
        })
    }
}

impl<'a> Ioctl<'a> {
    /// A call of `method` of `object` (`UVERBS_OBJECT_*`, `UVERBS_METHOD_*`) without attributes.
    // Built in place and member by member: as one value the room for attributes, which stays
    // unwritten, would be cleared for every call.
    #[inline(always)]
    pub fn new(object: u16, method: u16) -> Self {
        let mut new = MaybeUninit::<Self>::uninit();
        let at = new.as_mut_ptr();
        // SAFETY: every member is written but the room for attributes, which needs no value.
        unsafe {
            (&raw mut (*at).frame.hdr).write(ib_uverbs_ioctl_hdr {
                length: 0,
                object_id: object,
                method_id: method,
                num_attrs: 0,
                reserved1: 0,
                driver_id: 0,
                reserved2: 0,
            });
            (&raw mut (*at).count).write(0);
            (&raw mut (*at).invalid).write(false);
            (&raw mut (*at).fd_at).write(None);
            (&raw mut (*at).fd_made).write(false);
            (&raw mut (*at).link).write(None);
            new.assume_init()
        }
    }

    fn add(&mut self, attr: Attr) -> Added<'_> {
        let Some(place) = self.frame.attrs.get_mut(self.count) else {
            self.invalid = true;
            return Added(None);
        };
        self.count += 1;
        Added(Some(place.write(attr)))
    }

    /// Length of an attribute's data; a length of more than 16 bits makes the whole call EINVAL.
    fn length(&mut self, len: usize) -> u16 {
        u16::try_from(len).unwrap_or_else(|_| {
            self.invalid = true;
            0
        })
    }

    /// An object of this context, by handle.
    pub fn object_in(&mut self, id: u16, handle: u32) -> Added<'_> {
        self.add(Attr {
            data: handle.into(),
            ..Attr::new(id)
        })
    }

    /// A new object; [`Ioctl::object`] reads its handle afterwards.
    pub fn object_out(&mut self, id: u16) -> Added<'_> {
        self.add(Attr::new(id))
    }

    /// A descriptor; a negative number leaves the attribute out.
    pub fn fd_in(&mut self, id: u16, fd: c_int) -> Added<'_> {
        let Ok(fd) = u64::try_from(fd) else {
            return Added(None);
        };
        self.add(Attr {
            data: fd,
            ..Attr::new(id)
        })
    }

    /// A new descriptor, one a call; [`Ioctl::take_fd`] takes it afterwards.
    pub fn fd_out(&mut self, id: u16) -> Added<'_> {
        self.fd_at = Some(self.count);
        self.add(Attr::new(id))
    }

    /// Bytes for the kernel.
    pub fn bytes_in(&mut self, id: u16, data: &'a [u8]) -> Added<'_> {
        let mut attr = Attr {
            len: self.length(data.len()),
            ..Attr::new(id)
        };
        if data.len() <= INLINE {
            attr.set_inline(data);
        } else {
            attr.data = data.as_ptr().expose_provenance() as u64;
        }
        self.add(attr)
    }

    /// A structure for the kernel.
    pub fn value_in<T: Pod>(&mut self, id: u16, value: &'a T) -> Added<'_> {
        self.bytes_in(id, bytemuck::bytes_of(value))
    }

    /// A number of 64 bits; constants of the interface (`UVERBS_ATTR_TYPE_CONST`) too.
    pub fn u64_in(&mut self, id: u16, value: u64) -> Added<'_> {
        self.small_in(id, &value.to_ne_bytes())
    }

    /// A number of 32 bits; flags too.
    pub fn u32_in(&mut self, id: u16, value: u32) -> Added<'_> {
        self.small_in(id, &value.to_ne_bytes())
    }

    fn small_in(&mut self, id: u16, bytes: &[u8]) -> Added<'_> {
        let mut attr = Attr {
            len: self.length(bytes.len()),
            ..Attr::new(id)
        };
        attr.set_inline(bytes);
        self.add(attr)
    }

    /// Bytes of the alternative `elem` of an attribute that has several.
    pub fn enum_in(&mut self, id: u16, elem: u8, data: &'a [u8]) -> Added<'_> {
        self.bytes_in(id, data).choose(elem)
    }

    /// A list of objects, by handle.
    pub fn objects_in(&mut self, id: u16, handles: &'a [u32]) -> Added<'_> {
        self.bytes_in(id, bytemuck::cast_slice(handles))
    }

    /// Bytes for the kernel to fill.
    pub fn bytes_out(&mut self, id: u16, data: &'a mut [u8]) -> Added<'_> {
        let attr = Attr {
            len: self.length(data.len()),
            data: data.as_mut_ptr().expose_provenance() as u64,
            ..Attr::new(id)
        };
        self.add(attr)
    }

    /// A structure for the kernel to fill.
    pub fn value_out<T: Pod>(&mut self, id: u16, value: &'a mut T) -> Added<'_> {
        self.bytes_out(id, bytemuck::bytes_of_mut(value))
    }

    /// Appends the provider's attributes; the kernel's results are written to them.
    pub fn link(&mut self, link: Option<Link<'a>>) {
        self.link = link;
    }

    /// The provider's own attributes.
    pub fn linked(&self) -> Option<Link<'a>> {
        self.link
    }

    /// Object and method number.
    pub fn target(&self) -> (u16, u16) {
        (self.frame.hdr.object_id, self.frame.hdr.method_id)
    }

    /// The attributes added so far, without those of the link.
    pub fn attrs(&self) -> &[Attr] {
        let first = self.frame.attrs.as_ptr().cast::<Attr>();
        // SAFETY: the first `count` attributes have been written, by `add` or `join`.
        unsafe { core::slice::from_raw_parts(first, self.count) }
    }

    fn find(&self, id: u16) -> Result<&Attr> {
        let found = self.attrs().iter().find(|attr| attr.id == id);
        found.ok_or(Errno::INVAL)
    }

    /// Handle of the object that the call made.
    ///
    /// # Errors
    /// EINVAL when the call has no such attribute.
    pub fn object(&self, id: u16) -> Result<u32> {
        // Handles are 32 bits wide in a field of 64.
        self.find(id).map(|attr| (attr.data & 0xffff_ffff) as u32)
    }

    /// The descriptor that the call made.
    ///
    /// # Errors
    /// EBADF when it made none, or it was taken already.
    pub fn take_fd(&mut self) -> Result<OwnedFd> {
        let made = core::mem::take(&mut self.fd_made);
        let attr = self.fd_at.and_then(|at| self.attrs().get(at));
        let attr = attr.filter(|_| made).ok_or(Errno(libc::EBADF))?;
        super::fd::made(attr.data)
    }

    /// Whether the kernel wrote the output `id`.
    pub fn written(&self, id: u16) -> bool {
        self.find(id)
            .is_ok_and(|attr| attr.flags & UVERBS_ATTR_F_VALID_OUTPUT != 0)
    }

    /// Executes the call. Interrupted by a signal, it starts again: the kernel undoes the work of a
    /// failed command.
    ///
    /// # Errors
    /// EINVAL when something added cannot be expressed (more than 65535 bytes, more than
    /// [`MAX_ATTRS`] attributes, a link for another method), else the kernel's own errno.
    pub fn run(&mut self, fd: BorrowedFd<'_>, driver_id: u32) -> Result<()> {
        let done = match self.link {
            None => self.issue(fd, driver_id),
            Some(link) => self.run_linked(link, fd, driver_id),
        };
        self.fd_made = done.is_ok();
        done
    }

    // Apart, so that a call without a link, which most are, does not pay for its registers.
    #[cold]
    #[inline(never)]
    fn run_linked(&mut self, link: Link<'a>, fd: BorrowedFd<'_>, driver_id: u32) -> Result<()> {
        let own = self.count;
        let done = self.join(link).and_then(|()| self.issue(fd, driver_id));
        if done.is_ok() {
            link.take_back(&self.attrs()[own..]);
        }
        self.count = own;
        done
    }

    fn join(&mut self, link: Link<'_>) -> Result<()> {
        link.check(self.target())?;
        for attr in link.attrs() {
            self.add(attr);
        }
        Ok(())
    }

    fn issue(&mut self, fd: BorrowedFd<'_>, driver_id: u32) -> Result<()> {
        if self.invalid {
            return Err(Errno::INVAL);
        }
        let hdr = &mut self.frame.hdr;
        (hdr.length, hdr.num_attrs) = lengths(self.count)?;
        hdr.driver_id = driver_id;
        // SAFETY: header and attributes lie in one piece as the kernel wants them; every address
        // in them was borrowed for 'a, or vouched for by the code that made the link.
        unsafe { call(fd, (&raw mut self.frame).cast()) }
    }
}

/// Access for a fake kernel that writes results.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl Ioctl<'_> {
    /// The bytes that the kernel would read for the attribute.
    pub fn input(&self, id: u16) -> Option<Vec<u8>> {
        let attr = self.attrs().iter().find(|attr| attr.id == id)?;
        let len = usize::from(attr.len);
        if len <= INLINE {
            return attr.data.to_ne_bytes().get(..len).map(<[u8]>::to_vec);
        }
        let from = core::ptr::with_exposed_provenance::<u8>(usize::try_from(attr.data).ok()?);
        // SAFETY: tests ask for inputs only; those were borrowed for 'a.
        Some(unsafe { core::slice::from_raw_parts(from, len) }.to_vec())
    }

    /// Answers an output, an object or a descriptor as the kernel would.
    ///
    /// # Panics
    /// When the call has no such attribute.
    pub fn answer(&mut self, id: u16, bytes: &[u8]) {
        let at = self.attrs().iter().position(|attr| attr.id == id).unwrap();
        let mut attr = self.attrs()[at];
        attr.flags |= UVERBS_ATTR_F_VALID_OUTPUT;
        if attr.len == 0 {
            attr.set_inline(bytes);
        } else {
            let to =
                core::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(attr.data).unwrap());
            let len = bytes.len().min(usize::from(attr.len));
            // SAFETY: tests answer outputs only; those were borrowed mutably for 'a.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        }
        self.frame.attrs[at].write(attr);
        self.fd_made |= self.fd_at == Some(at);
    }
}
