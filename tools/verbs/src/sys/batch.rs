//! Several requests at once: ibv_wr_post(3).

use std::ptr;

use kit::abi::*;
use smallvec::SmallVec;

use super::{
    calls::Qp,
    flight::InFlight,
    post::{Details, Sges, sges},
    raw,
    window::{Binding, Last},
};
use crate::error::{Error, Result};

/// A request: its number, its entry in the send queue, and its details.
pub(crate) type Entry<'a> = (u64, &'a InFlight, &'a Details<'a>);

/// Posts all of them, or none. All that they name belongs to their entries, beside inline bytes.
pub(crate) fn post(qp: &Qp, entries: &[Entry<'_>]) -> Result<()> {
    const VERB: &str = "ibv_wr_start";
    let none = Error::new(VERB, libc::EOPNOTSUPP);
    // SAFETY: the queue pair lives.
    let at = unsafe { raw::ibv_qp_to_qp_ex(qp.as_ptr()) };
    if at.is_null() {
        let invalid = Error::new(VERB, libc::EINVAL);
        return Err(invalid.because("the queue pair was built without `batches`"));
    }
    // All that can be refused without the device.
    let lists = entries.iter().map(
        |(_, request, details)| match has_no_memory(details.opcode) {
            true => Ok(Sges::new()),
            false => sges(request, details.inline, VERB),
        },
    );
    let lists: Vec<Sges> = lists.collect::<Result<_>>()?;
    // The functions for others may not even have a place.
    let has = |(_, _, details): &Entry<'_>| match details.opcode {
        IBV_WR_FLUSH => qp.operations & IBV_QP_EX_WITH_FLUSH != 0,
        IBV_WR_ATOMIC_WRITE => qp.operations & IBV_QP_EX_WITH_ATOMIC_WRITE != 0,
        _ => true,
    };
    if !entries.iter().all(has) {
        return Err(none.because("the device has no such operation"));
    }
    let mut binds: Vec<(&Binding, Last)> = Vec::new();
    // SAFETY: an extended queue pair has these functions. Between the first and the last one it is
    // locked by the device, and this thread calls no others.
    let done = unsafe {
        let functions = (*at).wr_start.zip((*at).wr_complete).zip((*at).wr_abort);
        let ((start, complete), abort) = functions.ok_or(none)?;
        start(at);
        let all = entries.iter().zip(&lists);
        let begun = all
            .into_iter()
            .try_for_each(|((wr_id, request, details), sges)| {
                (*at).wr_id = *wr_id;
                (*at).wr_flags = details.flags & !IBV_SEND_INLINE;
                if let Some(before) = operation(at, request, details)? {
                    binds.extend(request.binding().map(|binding| (binding, before)));
                }
                memory(at, request, details, sges)
            });
        match begun {
            Ok(()) => match complete(at) {
                0 => Ok(()),
                code => Err(Error::new("ibv_wr_complete", code.saturating_abs())),
            },
            Err(error) => {
                abort(at);
                Err(error)
            }
        }
    };
    if done.is_err() {
        for (binding, before) in binds.into_iter().rev() {
            binding.undo(before);
        }
    }
    done
}

/// Whether requests of this operation name no memory of this end.
fn has_no_memory(opcode: ibv_wr_opcode) -> bool {
    matches!(
        opcode,
        IBV_WR_LOCAL_INV | IBV_WR_BIND_MW | IBV_WR_ATOMIC_WRITE | IBV_WR_FLUSH
    )
}

/// A function of an extended queue pair.
macro_rules! function {
    ($at:expr, $function:ident) => {{
        let name = concat!("ibv_", stringify!($function));
        (*$at).$function.ok_or(Error::new(name, libc::EOPNOTSUPP))?
    }};
}

/// Begins a request: the state of the window that it binds, as it was before.
///
/// # Safety
/// The queue pair is between wr_start and wr_complete.
unsafe fn operation(
    at: *mut ibv_qp_ex,
    request: &InFlight,
    details: &Details<'_>,
) -> Result<Option<Last>> {
    let remote = details.remote.unwrap_or_default();
    let (rkey, address) = (remote.rkey, remote.address);
    let immediate = be32::new(details.immediate);
    let (first, second) = match details.atomic {
        Some(atomic) => (atomic.compare_add, atomic.swap),
        None => (0, 0),
    };
    // SAFETY: by the caller. Window and region of a binding belong to the request's entry.
    unsafe {
        match details.opcode {
            IBV_WR_SEND => function!(at, wr_send)(at),
            IBV_WR_SEND_WITH_IMM => function!(at, wr_send_imm)(at, immediate),
            IBV_WR_SEND_WITH_INV => function!(at, wr_send_inv)(at, details.invalidated),
            IBV_WR_RDMA_WRITE => function!(at, wr_rdma_write)(at, rkey, address),
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                function!(at, wr_rdma_write_imm)(at, rkey, address, immediate);
            }
            IBV_WR_RDMA_READ => function!(at, wr_rdma_read)(at, rkey, address),
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                function!(at, wr_atomic_cmp_swp)(at, rkey, address, first, second);
            }
            IBV_WR_ATOMIC_FETCH_AND_ADD => {
                function!(at, wr_atomic_fetch_add)(at, rkey, address, first);
            }
            IBV_WR_ATOMIC_WRITE => {
                let none = Error::new("ibv_wr_atomic_write", libc::EINVAL);
                let word: &[u8; 8] = details
                    .inline
                    .and_then(|word| word.try_into().ok())
                    .ok_or(none)?;
                function!(at, wr_atomic_write)(at, rkey, address, word.as_ptr().cast());
            }
            IBV_WR_FLUSH => {
                let (placement, level) = details.flush;
                let length = usize::try_from(remote.length).unwrap_or(usize::MAX);
                function!(at, wr_flush)(at, rkey, address, length, placement, level);
            }
            IBV_WR_LOCAL_INV => function!(at, wr_local_inv)(at, details.invalidated),
            IBV_WR_BIND_MW => {
                let bind = function!(at, wr_bind_mw);
                let none = Error::new("ibv_wr_bind_mw", libc::EINVAL);
                let binding = request.binding().ok_or(none)?;
                return binding
                    .by_request(|mw, rkey, info| {
                        bind(at, mw, rkey, info);
                        Ok(())
                    })
                    .map(Some);
            }
            _ => return Err(Error::new("ibv_wr_start", libc::EOPNOTSUPP)),
        }
    }
    Ok(None)
}

/// Adds a request's memory and receiver.
///
/// # Safety
/// The queue pair has begun the request.
unsafe fn memory(
    at: *mut ibv_qp_ex,
    request: &InFlight,
    details: &Details<'_>,
    sges: &Sges,
) -> Result<()> {
    // SAFETY: by the caller. The memory belongs to the request's entry; the lists and inline bytes
    // are used during the call.
    unsafe {
        if let Some(address) = &request.address {
            let (number, key) = details.receiver;
            function!(at, wr_set_ud_addr)(at, address.object().as_ptr(), number, key);
        }
        if let Some(srq) = details.srq {
            function!(at, wr_set_xrc_srqn)(at, srq);
        }
        match (details.flags & IBV_SEND_INLINE != 0, sges.as_slice()) {
            _ if has_no_memory(details.opcode) => {}
            (true, pieces) => {
                let piece = |sge: &ibv_sge| ibv_data_buf {
                    addr: ptr::with_exposed_provenance_mut(usize::try_from(sge.addr).unwrap_or(0)),
                    length: usize::try_from(sge.length).unwrap_or(usize::MAX),
                };
                let pieces: SmallVec<[ibv_data_buf; 4]> = pieces.iter().map(piece).collect();
                function!(at, wr_set_inline_data_list)(at, pieces.len(), pieces.as_ptr());
            }
            (false, [sge]) => function!(at, wr_set_sge)(at, sge.lkey, sge.addr, sge.length),
            (false, all) => function!(at, wr_set_sge_list)(at, all.len(), all.as_ptr()),
        }
    }
    Ok(())
}
