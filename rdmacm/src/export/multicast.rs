//! Multicast groups.

use super::{id::family_and_port, ret, step};
use crate::abi::{rdma_cm_id, rdma_cm_join_mc_attr_ex};
use crate::multicast::{self, SEND_ONLY};
use crate::observe::About;
use crate::{symver, sync};
use core::ffi::{c_int, c_void};
use kit::cm::Call;
use kit::errno::Errno;

/// `RDMA_CM_JOIN_MC_ATTR_*`
const ADDRESS: u32 = 1;
const JOIN_FLAGS: u32 = 2;
const RESERVED: u32 = 4;

unsafe extern "C" fn join_multicast(
    id: *mut rdma_cm_id,
    group: *mut libc::sockaddr,
    context: *mut c_void,
    waiting: *mut step::Waiting,
) -> c_int {
    // SAFETY: the program passes an address of the length that its family has, or NULL.
    let group = unsafe { ret::address(group) };
    let [family, _] = family_and_port(group.ok());
    let started = step::started(Call::JoinMulticast, id, || ([family], About::Nothing));
    started.run(waiting, |id| {
        multicast::join(id, &group?, 0, context)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(join_multicast => "ferroverbs_cm_join_multicast");

unsafe extern "C" fn join_multicast_ex(
    id: *mut rdma_cm_id,
    attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
    waiting: *mut step::Waiting,
) -> c_int {
    // SAFETY: the program passes whole attributes, or NULL.
    let attr = unsafe { attr.as_ref() };
    let started = step::started(Call::JoinMulticastEx, id, || ([], About::Nothing));
    started.run(waiting, |id| {
        let attr = attr.ok_or(Errno::INVAL)?;
        if attr.comp_mask >= RESERVED {
            return Err(Errno(libc::ENOTSUP));
        }
        if attr.comp_mask != ADDRESS | JOIN_FLAGS {
            return Err(Errno::INVAL);
        }
        let flags = u16::try_from(attr.join_flags).map_err(|_| Errno::INVAL)?;
        if flags > SEND_ONLY {
            return Err(Errno::INVAL);
        }
        // SAFETY: as above.
        let group = unsafe { ret::address(attr.addr) }?;
        multicast::join(id, &group, flags, context)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(join_multicast_ex => "ferroverbs_cm_join_multicast_ex");

unsafe extern "C" fn rdma_leave_multicast(
    id: *mut rdma_cm_id,
    group: *mut libc::sockaddr,
) -> c_int {
    // SAFETY: as above.
    let group = unsafe { ret::address(group) };
    let [family, _] = family_and_port(group.ok());
    ret::with(Call::LeaveMulticast, id, &[family], |id| {
        multicast::leave(id, &group?)
    })
}
symver!(rdma_leave_multicast => "rdma_leave_multicast", "RDMACM_1.0");
