//! The Ethernet address behind a GID: ibv_resolve_eth_l2_from_gid.

use super::address::{Device, reason};
use super::step::{self, Waiting};
use crate::core::address::l2::{self, Mac, Rtnetlink, Search};
use crate::core::address::{EMPTY, gid};
use crate::core::wait::Step;
use crate::hidden;
use kit::abi::{handle::Ctx, ibv_ah_attr, ibv_context};
use kit::errno::{Errno, Result};
use kit::sys::errno::set as set_errno;
use std::ffi::{c_int, c_void};

/// Where the source GID of the attributes lies, and where they go.
fn begin(device: Device<'_>, attr: &ibv_ah_attr) -> Result<Step<Search>> {
    let (port, index) = (attr.port_num, attr.grh.sgid_index.into());
    // A source that cannot be queried is -1, with the error of the query.
    let source = reason(gid::query(&device, port, index)).map_err(|e| {
        set_errno(e);
        Errno::PERM
    })?;
    let interface = gid::interface(&device, port, index);
    let source = source.unwrap_or(EMPTY);
    let destination = attr.grh.dgid.bytes();
    let mut network = Rtnetlink::open()?;
    let found = l2::resolve(&mut network, &source, interface, &destination)?;
    Search::begin(network, found)
}

/// A step of ibv_resolve_eth_l2_from_gid, which waits up to three seconds for the neighbour to
/// answer: 0, or the errno value negated, or [`step::WAITS`].
unsafe extern "C" fn resolve_step(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut Mac,
    vid: *mut u16,
    waiting: *mut Waiting,
) -> c_int {
    // SAFETY: the caller passes an open context, attributes, room for an Ethernet address and
    // for a VLAN, or NULL; only the VLAN may be left out. cancel.c passes a call's state.
    let answer = unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let mac = eth_mac.as_mut().ok_or(Errno::INVAL)?;
            let Some(next_hop) = step::next(waiting, || begin(Device(ctx), attr))? else {
                return Ok(step::WAITS);
            };
            *mac = next_hop.mac;
            if let Some(vid) = vid.as_mut() {
                *vid = next_hop.vlan;
            }
            Ok(0)
        })
    };
    answer.unwrap_or_else(|e| -e.raw())
}
hidden!(resolve_step => "ferroverbs_resolve_step");

unsafe extern "C" fn resolve_abandon(rest: *mut c_void) {
    // SAFETY: cancel.c passes on what `resolve_step` has left.
    unsafe { step::abandon::<Search>(rest) };
}
hidden!(resolve_abandon => "ferroverbs_resolve_abandon");
