//! The members of a memory region, and of its device, that the library reads.

use super::{Ctx, Mr};
use crate::abi::{ibv_mr_type, verbs_device, verbs_mr};
use core::ffi::c_int;

impl Mr<'_> {
    /// Address and length in bytes of the registered range.
    pub fn range(self) -> (usize, usize) {
        // SAFETY: the region is live for the handle's life.
        unsafe { ((*self.as_ptr()).addr.addr(), (*self.as_ptr()).length) }
    }

    /// `enum ibv_mr_type`. Providers embed every region in a `verbs_mr`.
    pub fn mr_type(self) -> ibv_mr_type {
        // SAFETY: as above; ibv_mr is the first member of verbs_mr.
        unsafe { (*self.as_ptr().cast::<verbs_mr>()).mr_type }
    }

    /// The access flags of the registration.
    pub fn access(self) -> c_int {
        // SAFETY: as above.
        unsafe { (*self.as_ptr().cast::<verbs_mr>()).access }
    }
}

impl Ctx<'_> {
    /// The device that the context was opened on.
    pub fn device(self) -> *mut verbs_device {
        // SAFETY: the context is open; ibv_device is the first member of verbs_device.
        unsafe { (*self.as_ptr()).device.cast() }
    }

    /// The features that the kernel reported (`enum ib_uverbs_core_support`).
    pub fn core_support(self) -> u64 {
        // SAFETY: an open context holds its device.
        unsafe { (*self.device()).core_support }
    }
}
