#![forbid(unsafe_code)]
//! Address handles and multicast groups (ibv_create_ah(3), ibv_attach_mcast(3)).

use super::destroy::{Method, destroy};
use super::{Driver, Kernel, destroyed, write};
use crate::abi::ibv_ah_attr;
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{
    ib_uverbs_ah_attr, ib_uverbs_attach_mcast, ib_uverbs_create_ah, ib_uverbs_destroy_ah,
    ib_uverbs_detach_mcast, ib_uverbs_global_route,
};
use crate::errno::Result;
use crate::table::slot;

impl From<&ibv_ah_attr> for ib_uverbs_ah_attr {
    fn from(attr: &ibv_ah_attr) -> Self {
        Self {
            grh: ib_uverbs_global_route {
                dgid: attr.grh.dgid.bytes(),
                flow_label: attr.grh.flow_label,
                sgid_index: attr.grh.sgid_index,
                hop_limit: attr.grh.hop_limit,
                traffic_class: attr.grh.traffic_class,
                reserved: 0,
            },
            dlid: attr.dlid,
            sl: attr.sl,
            src_path_bits: attr.src_path_bits,
            static_rate: attr.static_rate,
            is_global: attr.is_global,
            port_num: attr.port_num,
            reserved: 0,
        }
    }
}

/// Makes an address handle; returns its handle. `user_handle` is its number for the kernel.
///
/// # Errors
/// The kernel's own errno.
pub fn create_ah<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    user_handle: u64,
    attr: ib_uverbs_ah_attr,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let command = ib_uverbs_create_ah {
        response: 0,
        user_handle,
        pd_handle: pd,
        reserved: 0,
        attr,
    };
    write(kernel, &command, driver).map(|answer| answer.ah_handle)
}

/// Ends an address handle.
///
/// # Errors
/// The kernel's own errno.
pub fn destroy_ah<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::destroy_ah,
        object: UVERBS_OBJECT_AH,
        method: UVERBS_METHOD_AH_DESTROY,
        attr: UVERBS_ATTR_DESTROY_AH_HANDLE,
    };
    destroy(
        kernel,
        &METHOD,
        handle,
        &ib_uverbs_destroy_ah { ah_handle: handle },
    )
}

/// Lets the queue pair `qp` receive the messages of a multicast group.
///
/// # Errors
/// The kernel's own errno.
pub fn attach_mcast<K: Kernel + ?Sized>(
    kernel: &K,
    qp: u32,
    gid: [u8; 16],
    lid: u16,
) -> Result<()> {
    let command = ib_uverbs_attach_mcast {
        gid,
        qp_handle: qp,
        mlid: lid,
        reserved: 0,
    };
    write(kernel, &command, &mut Driver::none())
}

/// Undoes [`attach_mcast`].
///
/// # Errors
/// The kernel's own errno.
pub fn detach_mcast<K: Kernel + ?Sized>(
    kernel: &K,
    qp: u32,
    gid: [u8; 16],
    lid: u16,
) -> Result<()> {
    let command = ib_uverbs_detach_mcast {
        gid,
        qp_handle: qp,
        mlid: lid,
        reserved: 0,
    };
    destroyed(write(kernel, &command, &mut Driver::none()))
}
