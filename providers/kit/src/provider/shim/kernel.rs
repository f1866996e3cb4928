//! Devices of the kernel: the table that a C provider would register, made from a
//! [`KernelProvider`].

use super::{answer, context};
use crate::abi::handle::{DeviceRef, Driver};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::KernelProvider;
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use std::os::fd::{FromRawFd, OwnedFd};

/// The provider, as devices are matched with it.
///
/// # Errors
/// None today.
pub fn driver<P: KernelProvider>() -> Result<Driver> {
    // SAFETY: a constant.
    unsafe { Driver::from_raw(const { &Tables::<P>::OPS }) }
}

struct Tables<P>(PhantomData<P>);

#[expect(clippy::cast_possible_truncation, reason = "the kinds are 0 to 3")]
const fn entry(kind: u32, u: verbs_match_ent_u) -> verbs_match_ent {
    verbs_match_ent {
        driver_data: null_mut(),
        u,
        vendor: 0,
        device: 0,
        kind: kind as u8,
    }
}

impl<P: KernelProvider> Tables<P> {
    const MATCHES: [verbs_match_ent; 3] = [
        entry(
            VERBS_MATCH_DRIVER_ID,
            verbs_match_ent_u {
                driver_id: P::DRIVER as u64,
            },
        ),
        entry(
            VERBS_MATCH_MODALIAS,
            verbs_match_ent_u {
                modalias: P::DEVICES.as_ptr(),
            },
        ),
        entry(VERBS_MATCH_SENTINEL, verbs_match_ent_u { driver_id: 0 }),
    ];

    const OPS: verbs_device_ops = verbs_device_ops {
        name: P::NAME.as_ptr(),
        match_min_abi_version: *P::ABI.start(),
        match_max_abi_version: *P::ABI.end(),
        match_table: Self::MATCHES.as_ptr(),
        static_providers: core::ptr::null(),
        match_device: None,
        alloc_context: Some(alloc_context::<P>),
        import_context: None,
        alloc_device: Some(alloc_device),
        uninit_device: Some(uninit_device),
    };
}

/// The library fills the device.
unsafe extern "C" fn alloc_device(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    // SAFETY: all zeros is a device without a name.
    Box::into_raw(Box::new(unsafe { core::mem::zeroed::<verbs_device>() }))
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: the library gives back a device that `alloc_device` made, once, when the last
    // reference is gone.
    drop(unsafe { Box::from_raw(device) });
}

/// `private_data` means nothing here.
unsafe extern "C" fn alloc_context<P: KernelProvider>(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private_data: *mut c_void,
) -> *mut verbs_context {
    if cmd_fd < 0 {
        return answer::pointer(Err(Errno::INVAL));
    }
    // SAFETY: the library gives the descriptor away, and holds the device, which `alloc_device`
    // made.
    answer::pointer(unsafe {
        let cmd_fd = OwnedFd::from_raw_fd(cmd_fd);
        DeviceRef::from_raw(device).and_then(|held| context::open_kernel::<P>(held, cmd_fd))
    })
}
