//! Flow rules: ibv_create_flow(3).

mod spec;

pub(crate) use spec::halves;

use super::destroy::{Method, destroy};
use super::{Driver, Kernel, write_parts};
use crate::abi::handle::FlowSpec;
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::errno::{Errno, Result};
use crate::table::slot;

/// Parameters of a new rule: the members of `struct ibv_flow_attr` besides its specifications.
#[derive(Clone, Copy, Debug)]
pub struct NewFlow {
    /// Number of the queue pair that gets the packets.
    pub qp: u32,
    /// `IBV_FLOW_ATTR_*`.
    pub attr_type: u32,
    /// Order among rules, the lowest first.
    pub priority: u16,
    /// Port number.
    pub port: u8,
    /// `IBV_FLOW_ATTR_FLAGS_*`.
    pub flags: u32,
}

/// Makes a flow rule of specifications; returns its handle.
///
/// # Errors
/// EINVAL for a specification that is unknown or too short, or for more than 255 of them;
/// EOPNOTSUPP for one that the kernel's form cannot express; ENOMEM; otherwise the kernel's errno.
pub fn create_flow<'s, K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewFlow,
    specs: impl Iterator<Item = Result<FlowSpec<'s>>>,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let mut encoded = Vec::new();
    let mut count = 0_u8;
    for spec in specs {
        spec::encode(spec?, &mut encoded)?;
        count = count.checked_add(1).ok_or(Errno::INVAL)?;
    }
    let command = ib_uverbs_create_flow {
        comp_mask: 0,
        qp_handle: new.qp,
        flow_attr: ib_uverbs_flow_attr {
            type_: new.attr_type,
            size: u16::try_from(encoded.len()).map_err(|_| Errno::INVAL)?,
            priority: new.priority,
            num_of_specs: count,
            reserved: [0; 2],
            port: new.port,
            flags: new.flags,
        },
    };
    write_parts(kernel, &command, &encoded, driver, &mut []).map(|answer| answer.flow_handle)
}

/// Ends a flow rule.
///
/// # Errors
/// The kernel's own errno.
pub fn destroy_flow<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::destroy_flow,
        object: UVERBS_OBJECT_FLOW,
        method: UVERBS_METHOD_FLOW_DESTROY,
        attr: UVERBS_ATTR_DESTROY_FLOW_HANDLE,
    };
    let command = ib_uverbs_destroy_flow {
        comp_mask: 0,
        flow_handle: handle,
    };
    destroy(kernel, &METHOD, handle, &command)
}
