//! Devices in user space: a `verbs_device` with separate operations, and the function that opens
//! it.

use super::{answer, context};
use crate::abi::handle::{DeviceRef, HeldDevice, name_of, transport};
use crate::abi::{
    ibv_device, ibv_node_type, verbs_context, verbs_device, verbs_device_ops, verbs_sysfs_dev,
};
use crate::errno::{Errno, Result};
use crate::provider::{Edges, Provider};
use core::ffi::{CStr, c_int, c_void};
use core::mem::offset_of;
use core::ptr::{addr_of, null, null_mut};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// The name of a device, and its distinguishing attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Name, also of the character device that there is not (`dev_name`); at most 63 bytes.
    pub name: String,
    /// `IBV_NODE_*`; the transport follows from it.
    pub node_type: ibv_node_type,
    /// Directory of its files, where it has any; at most 255 bytes. Empty without.
    pub ibdev_path: String,
    /// Node GUID, in the host's byte order.
    pub guid: u64,
    /// Distinguishes devices that have the same name at different times, such as the index of the
    /// network interface.
    pub identity: u64,
}

/// A context that a provider has opened.
pub struct Opened<P> {
    /// The provider.
    pub provider: P,
    /// The end of the descriptor for asynchronous events that the application reads: records of
    /// `struct ib_uverbs_async_event_desc`, one a read(2).
    pub async_fd: OwnedFd,
}

type Open = dyn Fn(DeviceRef<'_>) -> Result<*mut verbs_context> + Send + Sync;
type Import = dyn Fn(DeviceRef<'_>, BorrowedFd<'_>) -> Result<*mut verbs_context> + Send + Sync;

/// A device in user space.
#[repr(C)]
pub struct Device {
    verbs: verbs_device,
    ops: verbs_device_ops,
    spec: DeviceSpec,
    open: Box<Open>,
    import: Box<Import>,
}

impl Device {
    /// A new device. `open` makes the provider's value for each context; its error is that of
    /// ibv_open_device(3).
    ///
    /// # Errors
    /// ENAMETOOLONG, or EINVAL for a name with a NUL in it.
    #[allow(
        clippy::new_ret_no_self,
        reason = "C shares the device by a count of references"
    )]
    pub fn new<P: Provider + Edges>(
        spec: DeviceSpec,
        open: impl Fn() -> Result<Opened<P>> + Send + Sync + 'static,
    ) -> Result<HeldDevice> {
        let name = name_of(&spec.name)?;
        let open = Arc::new(open);
        let again = Arc::clone(&open);
        // SAFETY: all zeros is a device without a name.
        let mut verbs: verbs_device = unsafe { core::mem::zeroed() };
        verbs.device.node_type = spec.node_type;
        verbs.device.transport_type = transport(spec.node_type);
        verbs.device.name = name;
        verbs.device.dev_name = name;
        verbs.device.ibdev_path = name_of(&spec.ibdev_path)?;
        *verbs.refcount.get_mut() = 1;
        let raw = Box::into_raw(Box::new(Self {
            verbs,
            ops: OPS,
            spec,
            open: Box::new(move |device| context::open(device, open()?)),
            import: Box::new(move |device, fd| context::import(device, again()?, fd)),
        }));
        // SAFETY: the block is new and stays until `uninit_device`; the device has one reference,
        // which goes to the caller.
        unsafe {
            (*raw).verbs.ops = addr_of!((*raw).ops);
            HeldDevice::from_raw(raw.cast())
        }
    }

    /// The parameters that the device was made with; `None` for one that another kind of provider
    /// made.
    pub fn spec(device: DeviceRef<'_>) -> Option<&DeviceSpec> {
        let raw = device.as_ptr().cast::<verbs_device>();
        // SAFETY: the device is valid as long as the reference.
        let ops = unsafe { (*raw).ops };
        if ops.addr() != raw.addr() + offset_of!(Self, ops) {
            return None;
        }
        // SAFETY: operations at that place are those of `new`, so the device is one of its blocks.
        Some(unsafe { &(*raw.cast::<Self>()).spec })
    }
}

/// The name is the same for all, since C wants a constant string.
const NAME: &CStr = c"user-space";

const OPS: verbs_device_ops = verbs_device_ops {
    name: NAME.as_ptr(),
    match_min_abi_version: 0,
    match_max_abi_version: 0,
    match_table: null(),
    static_providers: null(),
    match_device: None,
    alloc_context: Some(alloc_context),
    import_context: Some(import_context),
    alloc_device: Some(alloc_device),
    uninit_device: Some(uninit_device),
};

/// No device of the kernel becomes one of these.
unsafe extern "C" fn alloc_device(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    null_mut()
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: the library gives back a device that `Device::new` made, once, when the last
    // reference is gone.
    drop(unsafe { Box::from_raw(device.cast::<Device>()) });
}

/// `cmd_fd` is -1: there is no character device. `private_data` means nothing here.
unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private_data: *mut c_void,
) -> *mut verbs_context {
    if cmd_fd >= 0 {
        // SAFETY: the library gives the descriptor away.
        drop(unsafe { OwnedFd::from_raw_fd(cmd_fd) });
        return answer::pointer(Err(Errno::INVAL));
    }
    // SAFETY: the library passes a device that `Device::new` made, and holds it.
    answer::pointer(unsafe {
        DeviceRef::from_raw(device).and_then(|held| {
            let open = addr_of!((*device.cast::<Device>()).open);
            (*open)(held)
        })
    })
}

/// Another context around the descriptor of one that is open; it belongs to the context then.
unsafe extern "C" fn import_context(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context {
    if cmd_fd < 0 {
        return answer::pointer(Err(Errno::INVAL));
    }
    // SAFETY: the library passes a device that `Device::new` made, and holds it; the descriptor is
    // the caller's, and open.
    answer::pointer(unsafe {
        let fd = BorrowedFd::borrow_raw(cmd_fd);
        DeviceRef::from_raw(device).and_then(|held| {
            let import = addr_of!((*device.cast::<Device>()).import);
            (*import)(held, fd)
        })
    })
}
