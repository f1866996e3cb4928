//! Queue pairs, shared receive queues, endpoints.

use super::{id::room, ret, step};
use crate::abi::{Hints, rdma_addrinfo, rdma_cm_id};
use crate::observe::{self, About};
use crate::verbs::Pd;
use crate::{endpoint, queue_pair, symver, transition};
use core::ffi::c_int;
use core::ptr::null_mut;
use kit::abi::*;
use kit::cm::Call;
use kit::errno::Errno;

/// What says why a queue pair is refused.
fn of_queue_pair(attr: Option<&ibv_qp_init_attr_ex>) -> About {
    let Some(attr) = attr else {
        return About::Nothing;
    };
    let has_pd = attr.comp_mask & IBV_QP_INIT_ATTR_PD != 0;
    let pd = Pd::of(attr.pd).filter(|_| has_pd);
    About::QueuePair {
        context: pd.map_or(0, |pd| pd.context().addr()),
        pd: pd.map_or(0, |pd| pd.as_ptr().addr()),
        send_cq: attr.send_cq.addr(),
        recv_cq: attr.recv_cq.addr(),
    }
}

unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the program passes whole attributes, or NULL.
    let attr = unsafe { attr.as_mut() };
    let about = match attr.as_deref().filter(|_| observe::explains()) {
        Some(attr) => of_queue_pair(Some(&endpoint::extended(attr, pd))),
        None => About::Nothing,
    };
    let words = [pd.addr() as u64];
    ret::with_more(
        Call::CreateQp,
        id,
        &words,
        || about,
        |id| {
            let attr = attr.ok_or(Errno::INVAL)?;
            let mut taken = endpoint::extended(attr, pd);
            queue_pair::create(id, &mut taken)?;
            endpoint::write_back(attr, &taken);
            Ok(())
        },
    )
}
symver!(rdma_create_qp => "rdma_create_qp", "RDMACM_1.0");

unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    // SAFETY: as above.
    let attr = unsafe { attr.as_mut() };
    let about = of_queue_pair(attr.as_deref());
    ret::with_more(
        Call::CreateQpEx,
        id,
        &[],
        || about,
        |id| queue_pair::create(id, attr.ok_or(Errno::INVAL)?),
    )
}
symver!(rdma_create_qp_ex => "rdma_create_qp_ex", "RDMACM_1.0");

unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    ret::unanswered(Call::DestroyQp, id, |id| queue_pair::destroy(id));
}
symver!(rdma_destroy_qp => "rdma_destroy_qp", "RDMACM_1.0");

unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: as above.
    let attr = unsafe { attr.as_mut() };
    let words = [pd.addr() as u64];
    ret::with(Call::CreateSrq, id, &words, |id| {
        let attr = attr.ok_or(Errno::INVAL)?;
        let is_xrc = id.block.qp_type() == IBV_QPT_XRC_RECV;
        let mut taken = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
            srq_type: if is_xrc { IBV_SRQT_XRC } else { IBV_SRQT_BASIC },
            pd,
            xrcd: null_mut(),
            cq: null_mut(),
            tm_cap: ibv_tm_cap {
                max_num_tags: 0,
                max_ops: 0,
            },
        };
        queue_pair::create_srq(id, &mut taken)?;
        attr.attr = taken.attr;
        Ok(())
    })
}
symver!(rdma_create_srq => "rdma_create_srq", "RDMACM_1.0");

unsafe extern "C" fn rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    // SAFETY: as above.
    let attr = unsafe { attr.as_mut() };
    ret::with(Call::CreateSrqEx, id, &[], |id| {
        queue_pair::create_srq(id, attr.ok_or(Errno::INVAL)?)
    })
}
symver!(rdma_create_srq_ex => "rdma_create_srq_ex", "RDMACM_1.0");

unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    ret::unanswered(Call::DestroySrq, id, |id| queue_pair::destroy_srq(id));
}
symver!(rdma_destroy_srq => "rdma_destroy_srq", "RDMACM_1.0");

unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    ret::with(Call::InitQpAttr, id, &[], |id| {
        let (attr, mask) = (room(attr)?, room(mask)?);
        // SAFETY: the program passes whole attributes and room for the mask.
        unsafe {
            let mut filled = bytemuck::Zeroable::zeroed();
            let bits = transition::attributes(id, (*attr).qp_state, &mut filled)?;
            attr.write(filled);
            mask.write(bits);
        }
        Ok(())
    })
}
symver!(rdma_init_qp_attr => "rdma_init_qp_attr", "RDMACM_1.2");

unsafe extern "C" fn create_ep(
    at: *mut *mut rdma_cm_id,
    wanted: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
    waiting: *mut step::Waiting,
) -> c_int {
    let words = [pd.addr() as u64];
    let started = step::started(Call::CreateEp, null_mut(), || (words, About::Nothing));
    started.run_without_id(waiting, || {
        let (at, wanted) = (room(at)?, room(wanted)?);
        // SAFETY: the program passes a whole list, and whole attributes or NULL; there is room for
        // a pointer.
        unsafe {
            let wanted = Hints::from_raw(wanted)?;
            endpoint::create(wanted, pd, attr.as_mut(), move |id| {
                at.write(id.block.as_ptr());
            })
        }
    })
}
crate::hidden!(create_ep => "ferroverbs_cm_create_ep");

unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    ret::unanswered(Call::DestroyEp, id, endpoint::destroy);
}
symver!(rdma_destroy_ep => "rdma_destroy_ep", "RDMACM_1.0");
