//! The Ethernet address behind a GID: ibv_resolve_eth_l2_from_gid.

use super::address::{Device, reason};
use crate::core::address::l2::{self, Mac, NextHop, Rtnetlink};
use crate::core::address::{EMPTY, gid};
use crate::symver;
use kit::abi::{handle::Ctx, ibv_ah_attr, ibv_context};
use kit::errno::{Errno, Result};
use kit::sys::errno::set as set_errno;
use std::ffi::c_int;

/// Where the source GID of the attributes lies, and where they go.
fn next_hop(device: Device<'_>, attr: &ibv_ah_attr) -> Result<NextHop> {
    let (port, index) = (attr.port_num, attr.grh.sgid_index.into());
    // A source that cannot be queried is -1, with the error of the query.
    let source = reason(gid::query(&device, port, index)).map_err(|e| {
        set_errno(e);
        Errno::PERM
    })?;
    let interface = gid::interface(&device, port, index);
    let source = source.unwrap_or(EMPTY);
    let destination = attr.grh.dgid.bytes();
    l2::resolve(&mut Rtnetlink::open()?, &source, interface, &destination)
}

/// 0, or the errno value negated. Waits up to three seconds for the neighbour to answer.
unsafe extern "C" fn resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut Mac,
    vid: *mut u16,
) -> c_int {
    // SAFETY: the caller passes an open context, attributes, room for an Ethernet address and
    // for a VLAN, or NULL; only the VLAN may be left out.
    let answer = unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let mac = eth_mac.as_mut().ok_or(Errno::INVAL)?;
            let next_hop = next_hop(Device(ctx), attr)?;
            *mac = next_hop.mac;
            if let Some(vid) = vid.as_mut() {
                *vid = next_hop.vlan;
            }
            Ok(())
        })
    };
    answer.map_or_else(|e| -e.raw(), |()| 0)
}
symver!(resolve_eth_l2_from_gid => "ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1");
