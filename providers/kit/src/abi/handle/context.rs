//! The handle of an open context.

use super::DeviceRef;
use crate::abi::*;
use crate::{
    errno::Errno,
    generation::Layout,
    sys::pthread,
    table::{Private, Table},
};
use core::ffi::{c_int, c_void};
use core::{
    marker::PhantomData,
    mem::{offset_of, transmute},
    ptr::NonNull,
};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

type CreateFlow = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow;
type DestroyFlow = unsafe extern "C" fn(*mut ibv_flow) -> c_int;
type AnyVerb = unsafe extern "C" fn();

/// Public members of a context that show a function of the library, not the provider's.
pub struct LibraryVerbs {
    /// Checks the attributes before the provider sees them, fills the queue afterwards.
    pub create_cq_ex:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    /// Takes the size of the caller's structure.
    pub query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int,
    /// For programs with the structure's first size.
    pub compat_query_port:
        unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int,
    /// For programs built before ibv_query_device_ex.
    pub compat_query_device: unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
    /// Those that contexts of later generations have in front.
    pub later: LaterVerbs,
}

/// The members that `verbs_context` has gained at its front, the last one first. Those that a
/// generation has lie directly below its oldest member.
#[repr(C)]
pub struct LaterVerbs {
    /// Since release 64.
    pub free_buf: unsafe extern "C" fn(*mut ibv_buf),
    /// Since release 64.
    pub alloc_buf: unsafe extern "C" fn(*mut ibv_pd, usize, *mut *mut ibv_buf) -> *mut c_void,
    /// Since release 62.
    pub dm_export_dmabuf_fd: unsafe extern "C" fn(*mut ibv_dm) -> c_int,
    /// Since release 59, with the two that follow.
    pub reg_mr_ex: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr,
    /// See above.
    pub dealloc_dmah: unsafe extern "C" fn(*mut ibv_dmah) -> c_int,
    /// See above.
    pub alloc_dmah:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_dmah_init_attr) -> *mut ibv_dmah,
}

// The largest verbs_context has all of them in front of that of this crate.
const _: () = assert!(size_of::<LaterVerbs>() + size_of::<verbs_context>() == 696 + MUTEX_GROWTH);

/// An open context, valid for `'a`.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    raw: NonNull<ibv_context>,
    life: PhantomData<&'a ibv_context>,
}

impl Ctx<'_> {
    /// Makes a provider's zeroed context ready: the library's private part with defaults in
    /// every verb, the command descriptor owned, the device noted.
    ///
    /// # Safety
    /// `context` is valid, all zero and not used by others; `device` stays until
    /// [`uninit`](Self::uninit).
    pub unsafe fn init(
        context: *mut verbs_context,
        device: DeviceRef<'_>,
        cmd_fd: Option<OwnedFd>,
        driver_id: u32,
    ) {
        let private = Arc::new(Private::new(driver_id));
        // SAFETY: vouched for by the caller.
        unsafe { Self::init_with(context, device, cmd_fd, private) }
    }

    /// The same for the context of a provider in C: `context` is at the end of the provider's
    /// structure ([`Layout::inner_offset`]).
    ///
    /// # Safety
    /// As for [`init`](Self::init); the provider's context is of that layout.
    pub unsafe fn init_laid_out(
        context: *mut verbs_context,
        device: DeviceRef<'_>,
        cmd_fd: Option<OwnedFd>,
        driver_id: u32,
        layout: &'static Layout,
    ) {
        let private = Arc::new(Private::laid_out(driver_id, layout));
        // SAFETY: vouched for by the caller.
        unsafe { Self::init_with(context, device, cmd_fd, private) }
    }

    /// # Safety
    /// As for [`init`](Self::init).
    unsafe fn init_with(
        context: *mut verbs_context,
        device: DeviceRef<'_>,
        cmd_fd: Option<OwnedFd>,
        private: Arc<Private>,
    ) {
        // SAFETY: vouched for by the caller.
        unsafe {
            let public = &raw mut (*context).context;
            (*public).device = device.as_ptr();
            (*public).cmd_fd = cmd_fd.map_or(-1, IntoRawFd::into_raw_fd);
            private.set_cmd_fd((*public).cmd_fd);
            (*public).async_fd = -1;
            (*public).abi_compat = core::ptr::without_provenance_mut(usize::MAX);
            pthread::init_mutex(&raw mut (*public).mutex);
            (*context).sz = private.layout().context_size;
            private.verbs.show(context);
            (*context).priv_ = Arc::into_raw(private).cast_mut().cast();
        }
    }

    /// Closes the descriptors and frees the private part.
    ///
    /// # Safety
    /// `context` was made ready by [`init`](Self::init) and is not used any more.
    pub unsafe fn uninit(context: *mut verbs_context) {
        // SAFETY: vouched for by the caller; descriptors of the context are its own.
        unsafe {
            let public = &raw mut (*context).context;
            let private = core::mem::replace(&mut (*context).priv_, core::ptr::null_mut());
            if !private.is_null() {
                let private = Arc::from_raw(private.cast_const().cast::<Private>());
                private.set_cmd_fd(-1);
                private.set_async_fd(-1);
            }
            for fd in [(*public).cmd_fd, (*public).async_fd] {
                if fd >= 0 {
                    drop(OwnedFd::from_raw_fd(fd));
                }
            }
            (*public).cmd_fd = -1;
            (*public).async_fd = -1;
            pthread::destroy_mutex(&raw mut (*public).mutex);
        }
    }
}

impl<'a> Ctx<'a> {
    /// Takes the pointer that C passed.
    ///
    /// # Errors
    /// EINVAL when the pointer is NULL or the context is not one of this library's (its
    /// `abi_compat` is not all ones, or it has no private part).
    ///
    /// # Safety
    /// A pointer that is not NULL must be the `ibv_context` inside a `verbs_context`, which
    /// stays allocated for `'a`.
    pub unsafe fn from_raw(raw: *mut ibv_context) -> Result<Self, Errno> {
        let raw = NonNull::new(raw).ok_or(Errno::INVAL)?;
        // SAFETY: the caller vouches for the pointer.
        let abi_compat = unsafe { (*raw.as_ptr()).abi_compat };
        if abi_compat as usize != usize::MAX {
            return Err(Errno::INVAL);
        }
        let ctx = Self {
            raw,
            life: PhantomData,
        };
        // SAFETY: abi_compat shows that a verbs_context lies around the context.
        let private = unsafe { (*ctx.verbs()).priv_ };
        if private.is_null() {
            return Err(Errno::INVAL);
        }
        Ok(ctx)
    }

    /// The pointer for C.
    pub fn as_ptr(self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    /// The `verbs_context` around it.
    pub fn verbs(self) -> *mut verbs_context {
        let below = offset_of!(verbs_context, context);
        self.raw
            .as_ptr()
            .cast::<u8>()
            .wrapping_sub(below)
            .cast::<verbs_context>()
    }

    /// The library's own part.
    pub fn private(self) -> &'a Private {
        // SAFETY: `from_raw` saw a private part; it lives as long as the context, and its variable
        // members are atomic.
        unsafe { &*(*self.verbs()).priv_.cast::<Private>() }
    }

    /// The library's own part, to be kept longer than the context.
    pub(crate) fn share_private(self) -> Arc<Private> {
        // SAFETY: `init` made the pointer out of an `Arc`, of which the context holds a count.
        unsafe {
            let private = (*self.verbs()).priv_.cast_const().cast::<Private>();
            Arc::increment_strong_count(private);
            Arc::from_raw(private)
        }
    }

    /// Completes the public members of a context that the provider has just opened.
    ///
    /// # Safety
    /// Nothing else refers to the context yet.
    pub unsafe fn show_library_verbs(self, library: &LibraryVerbs) {
        let context = self.verbs();
        let in_front = self.private().layout().inner_offset();
        // SAFETY: vouched for by the caller; that many bytes of the provider's context lie in front
        // of ours, and are the last of those members.
        unsafe {
            (&raw const library.later)
                .add(1)
                .cast::<u8>()
                .sub(in_front)
                .copy_to_nonoverlapping(context.cast::<u8>().sub(in_front), in_front);
            (*context).create_cq_ex = Some(library.create_cq_ex);
            (*context).query_port = Some(library.query_port);
            (*context).context.ops._compat_query_port = Some(library.compat_query_port);
            (*context).context.ops._compat_query_device = Some(library.compat_query_device);
            // Programs of the first release with flow steering look for it here.
            (*context).ABI_placeholder1 =
                transmute::<Option<CreateFlow>, Option<AnyVerb>>((*context).ibv_create_flow);
            (*context).ABI_placeholder2 =
                transmute::<Option<DestroyFlow>, Option<AnyVerb>>((*context).ibv_destroy_flow);
        }
    }

    /// The provider's verbs.
    pub fn table(self) -> &'a Table {
        &self.private().verbs
    }

    /// Number of the command descriptor, -1 when the device has none.
    pub fn cmd_fd_raw(self) -> c_int {
        // SAFETY: the context is valid for 'a.
        unsafe { (*self.raw.as_ptr()).cmd_fd }
    }

    /// Number of the descriptor for asynchronous events, -1 without one.
    pub fn async_fd_raw(self) -> c_int {
        // SAFETY: the context is valid for 'a.
        unsafe { (*self.raw.as_ptr()).async_fd }
    }

    /// The descriptor for asynchronous events.
    ///
    /// # Errors
    /// EBADF without a descriptor.
    pub fn async_fd(self) -> Result<BorrowedFd<'a>, Errno> {
        let fd = self.async_fd_raw();
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the context owns the descriptor and is open for 'a.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Gives the context its descriptor for asynchronous events, while no other thread uses it.
    pub fn set_async_fd(self, fd: OwnedFd) {
        let fd = fd.into_raw_fd();
        self.private().set_async_fd(fd);
        // SAFETY: as above; the context owns the descriptor from here on.
        unsafe { (*self.raw.as_ptr()).async_fd = fd }
    }

    /// The command descriptor.
    ///
    /// # Errors
    /// EBADF when the device has none.
    pub fn cmd_fd(self) -> Result<BorrowedFd<'a>, Errno> {
        let fd = self.cmd_fd_raw();
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the context owns the descriptor and is open for 'a.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}
