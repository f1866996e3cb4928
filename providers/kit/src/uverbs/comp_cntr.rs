#![forbid(unsafe_code)]
//! Completion counters of the kernel's drivers: ibv_create_comp_cntr(3).
//!
//! Every command here is a method without another form; a kernel without it answers
//! EPROTONOSUPPORT, which is EOPNOTSUPP for callers.

use super::{Driver, Ioctl, Kernel, add_driver, destroyed, run};
use crate::abi::ibv_comp_cntr_caps;
use crate::abi::kernel::ioctl::*;
use crate::errno::{Errno, Result};

/// One of a counter's two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Completions.
    Completed,
    /// Failures.
    Failed,
}

impl Entry {
    fn number(self) -> u8 {
        match self {
            Self::Completed => IB_UVERBS_COMP_CNTR_ENTRY_COMP,
            Self::Failed => IB_UVERBS_COMP_CNTR_ENTRY_ERR,
        }
    }
}

/// The operation on a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It becomes this.
    Set(u64),
    /// This is added to it.
    Inc(u64),
}

/// Carries the call out; a kernel or driver that does not know it is EOPNOTSUPP.
pub(super) fn call<K: Kernel + ?Sized>(kernel: &K, call: &mut Ioctl<'_>) -> Result<()> {
    run(kernel, call).map_err(|e| match e {
        Errno::PROTONOSUPPORT => Errno::OPNOTSUPP,
        e if e.raw() == libc::ENOTTY => Errno::OPNOTSUPP,
        e => e,
    })
}

/// The quantities that the device can count.
///
/// # Errors
/// EOPNOTSUPP where it can not; else the kernel's own errno.
pub fn query_caps<K: Kernel + ?Sized>(kernel: &K) -> Result<ibv_comp_cntr_caps> {
    let mut caps = ibv_comp_cntr_caps::default();
    let mut method = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS);
    method.value_out(
        UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
        &mut caps.max_counters,
    );
    method.value_out(
        UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
        &mut caps.max_value,
    );
    method.value_out(
        UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
        &mut caps.supported_qp_attach_ops,
    );
    call(kernel, &mut method)?;
    Ok(caps)
}

/// Makes a counter; returns its handle.
///
/// # Errors
/// EOPNOTSUPP where the device has none; else the kernel's own errno.
pub fn create<K: Kernel + ?Sized>(kernel: &K, driver: &mut Driver<'_>) -> Result<u32> {
    let mut method = Ioctl::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE);
    method.object_out(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
    add_driver(&mut method, driver);
    call(kernel, &mut method)?;
    method.object(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
}

/// Ends a counter.
///
/// # Errors
/// EBUSY while a queue pair counts on it; else the kernel's own errno.
pub fn destroy<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    let mut method = Ioctl::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY);
    method.object_in(UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, handle);
    destroyed(call(kernel, &mut method))
}

/// Changes a count.
///
/// # Errors
/// The kernel's own errno.
pub fn modify<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    entry: Entry,
    change: Change,
) -> Result<()> {
    let (operation, value) = match change {
        Change::Set(value) => (IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value),
        Change::Inc(amount) => (IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, amount),
    };
    let mut method = Ioctl::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY);
    method.object_in(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, handle);
    method.u64_in(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry.number().into());
    method.u64_in(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, operation.into());
    method.u64_in(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value);
    call(kernel, &mut method)
}

/// Reads a count.
///
/// # Errors
/// The kernel's own errno.
pub fn read<K: Kernel + ?Sized>(kernel: &K, handle: u32, entry: Entry) -> Result<u64> {
    let mut value = 0u64;
    let mut method = Ioctl::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ);
    method.object_in(UVERBS_ATTR_READ_COMP_CNTR_HANDLE, handle);
    method.u64_in(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry.number().into());
    method.value_out(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &mut value);
    call(kernel, &mut method)?;
    Ok(value)
}

/// Counts the operations `ops` (`IBV_QP_ATTACH_COMP_CNTR_OP_*`) of a queue pair.
///
/// # Errors
/// EOPNOTSUPP for operations that the device does not count, EBUSY for those that are counted
/// already; else the kernel's own errno.
pub fn attach<K: Kernel + ?Sized>(kernel: &K, qp: u32, counter: u32, ops: u32) -> Result<()> {
    let mut method = Ioctl::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR);
    method.object_in(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp);
    method.object_in(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, counter);
    method.u32_in(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, ops);
    call(kernel, &mut method)
}
