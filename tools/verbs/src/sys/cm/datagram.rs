//! Parameters of events of datagrams and of multicast groups.

use std::ffi::c_void;

use kit::{
    abi::ibv_ah_attr,
    cm::{event_type, port_space::RDMA_PS_UDP},
};

use super::raw;

/// Parameters of events of datagrams and of multicast groups.
pub(crate) struct Ud {
    pub private_data: Vec<u8>,
    /// The number of the join, of an event of a group.
    pub join: usize,
    pub attr: ibv_ah_attr,
    pub number: u32,
    pub qkey: u32,
}

fn is_of_group(kind: u32) -> bool {
    use event_type::{MULTICAST_ERROR, MULTICAST_JOIN};
    matches!(kind, MULTICAST_JOIN | MULTICAST_ERROR)
}

/// Whether an event of a kind has such parameters.
///
/// # Safety
/// The id lives, or is NULL.
pub(super) unsafe fn has_ud_param(kind: u32, id: *const raw::rdma_cm_id) -> bool {
    use event_type::{CONNECT_REQUEST, ESTABLISHED, UNREACHABLE};
    // SAFETY: by the caller.
    let datagrams = !id.is_null() && unsafe { (*id).ps } == RDMA_PS_UDP;
    is_of_group(kind) || datagrams && matches!(kind, CONNECT_REQUEST | ESTABLISHED | UNREACHABLE)
}

/// # Safety
/// The private data is NULL or as long as is said.
pub(super) unsafe fn ud(param: &raw::rdma_ud_param) -> Ud {
    Ud {
        // SAFETY: by the caller. An event of a group has its number there, and the length is 0.
        private_data: unsafe { copied(param.private_data, param.private_data_len.into()) },
        join: param.private_data.addr(),
        attr: param.ah_attr,
        number: param.qp_num,
        qkey: param.qkey,
    }
}

/// # Safety
/// The bytes are NULL, or as many as the length.
pub(super) unsafe fn copied(bytes: *const c_void, length: usize) -> Vec<u8> {
    if bytes.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec()
}
