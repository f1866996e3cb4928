//! The ibv_wr_* functions of a queue pair (ibv_wr_post(3)).
//!
//! ibv_wr_start locks the queue pair's requests until ibv_wr_complete or ibv_wr_abort, also for
//! queue pairs of a thread domain.

use super::ah::Address;
use super::answer::code;
use super::context::Subject;
use super::mw::Window;
use super::qp::{Pair, subject};
use super::receive::elements;
use super::send::bind_info;
use super::work::{Binding, Work};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Flush, Provider, SendRequest};
use crate::sys::lock::Brief;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use lock_api::RawMutex as _;
use std::sync::Arc;

/// The requests that are being put together.
pub(super) struct Builder<P: Provider> {
    lock: Brief,
    work: UnsafeCell<Work<P>>,
    /// The capacities of the queue pair.
    cap: ibv_qp_cap,
}

// SAFETY: the requests are used by the thread alone that holds the lock.
unsafe impl<P: Provider> Sync for Builder<P> {}

impl<P: Provider> Builder<P> {
    pub(super) const fn new(cap: ibv_qp_cap) -> Self {
        Self {
            lock: Brief::INIT,
            work: UnsafeCell::new(Work::new()),
            cap,
        }
    }
}

const DATAGRAMS: c_uint = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_TSO;
const UNRELIABLE: c_uint = IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM
    | IBV_QP_EX_WITH_SEND_WITH_INV
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_BIND_MW;
const RELIABLE: c_uint = UNRELIABLE
    | IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | IBV_QP_EX_WITH_ATOMIC_WRITE
    | IBV_QP_EX_WITH_FLUSH;

/// Whether a queue pair of the type can have these operations.
///
/// # Errors
/// EOPNOTSUPP.
pub(super) fn check(qp_type: ibv_qp_type, ops: u64) -> Result<()> {
    let known = match qp_type {
        IBV_QPT_RC | IBV_QPT_XRC_SEND => RELIABLE,
        IBV_QPT_UC => UNRELIABLE,
        IBV_QPT_UD => DATAGRAMS,
        IBV_QPT_RAW_PACKET => IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
        _ => 0,
    };
    if ops & !u64::from(known) != 0 || known == 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

/// Sets the functions of a new queue pair: the operations that it was asked for, and the setters
/// that its type has.
pub(super) fn fill<P: Provider>(qp: &mut ibv_qp_ex, qp_type: ibv_qp_type, ops: u64) {
    let wants = |flag: c_uint| ops & u64::from(flag) != 0;
    qp.wr_start = Some(start::<P>);
    qp.wr_complete = Some(complete::<P>);
    qp.wr_abort = Some(abort::<P>);
    qp.wr_set_sge = Some(set_sge::<P>);
    qp.wr_set_sge_list = Some(set_sge_list::<P>);
    qp.wr_set_inline_data = Some(set_inline_data::<P>);
    qp.wr_set_inline_data_list = Some(set_inline_data_list::<P>);
    match qp_type {
        IBV_QPT_UD => qp.wr_set_ud_addr = Some(set_ud_addr::<P>),
        IBV_QPT_XRC_SEND => qp.wr_set_xrc_srqn = Some(set_xrc_srqn::<P>),
        _ => {}
    }
    if wants(IBV_QP_EX_WITH_SEND) {
        qp.wr_send = Some(send::<P>);
    }
    if wants(IBV_QP_EX_WITH_SEND_WITH_IMM) {
        qp.wr_send_imm = Some(send_imm::<P>);
    }
    if wants(IBV_QP_EX_WITH_SEND_WITH_INV) {
        qp.wr_send_inv = Some(send_inv::<P>);
    }
    if wants(IBV_QP_EX_WITH_TSO) {
        qp.wr_send_tso = Some(send_tso::<P>);
    }
    if wants(IBV_QP_EX_WITH_RDMA_READ) {
        qp.wr_rdma_read = Some(rdma_read::<P>);
    }
    if wants(IBV_QP_EX_WITH_RDMA_WRITE) {
        qp.wr_rdma_write = Some(rdma_write::<P>);
    }
    if wants(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) {
        qp.wr_rdma_write_imm = Some(rdma_write_imm::<P>);
    }
    if wants(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) {
        qp.wr_atomic_cmp_swp = Some(atomic_cmp_swp::<P>);
    }
    if wants(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) {
        qp.wr_atomic_fetch_add = Some(atomic_fetch_add::<P>);
    }
    if wants(IBV_QP_EX_WITH_ATOMIC_WRITE) {
        qp.wr_atomic_write = Some(atomic_write::<P>);
    }
    if wants(IBV_QP_EX_WITH_FLUSH) {
        qp.wr_flush = Some(flush::<P>);
    }
    if wants(IBV_QP_EX_WITH_LOCAL_INV) {
        qp.wr_local_inv = Some(local_inv::<P>);
    }
    if wants(IBV_QP_EX_WITH_BIND_MW) {
        qp.wr_bind_mw = Some(bind_mw::<P>);
    }
}

type Found<'a, P> = (Subject<'a, P, Pair<P>>, &'a Builder<P>);

/// # Safety
/// `qp` is a live queue pair of the provider.
unsafe fn found<'a, P: Provider>(qp: *mut ibv_qp_ex) -> Result<Found<'a, P>> {
    // SAFETY: vouched for by the caller; both forms have the same address.
    let pair = unsafe { subject::<P>(qp.cast()) }?;
    let builder = pair
        .object
        .plain()
        .side
        .builder
        .as_deref()
        .ok_or(Errno::INVAL)?;
    Ok((pair, builder))
}

unsafe extern "C" fn start<P: Provider>(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller passes a live queue pair; remains of requests are not used any more.
    unsafe {
        if let Ok((_, builder)) = found::<P>(qp) {
            builder.lock.lock();
            (*builder.work.get()).clear();
        }
    }
}

/// Ends the sequence that `start` began.
///
/// # Safety
/// `qp` is a live queue pair of the provider.
unsafe fn end<P: Provider>(
    qp: *mut ibv_qp_ex,
    post: impl FnOnce(&Subject<'_, P, Pair<P>>, &Work<P>) -> Result<()>,
) -> Result<()> {
    // SAFETY: vouched for by the caller; this thread has locked the requests.
    unsafe {
        let (pair, builder) = found::<P>(qp)?;
        if !builder.lock.is_locked() {
            return Err(Errno::INVAL);
        }
        let work = builder.work.get();
        let result = post(&pair, &*work);
        (*work).clear();
        builder.lock.unlock();
        result
    }
}

unsafe extern "C" fn complete<P: Provider>(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the caller passes a live queue pair, for which it called ibv_wr_start.
    code(unsafe {
        end::<P>(qp, |pair, work| {
            work.check((*qp).qp_base.qp_type)?;
            let mut views = work.views();
            if views.len() == 0 {
                return Ok(());
            }
            pair.provider
                .post_send_all(&pair.object.side.qp, &mut views)
        })
    })
}

unsafe extern "C" fn abort<P: Provider>(qp: *mut ibv_qp_ex) {
    // SAFETY: as for complete.
    let _ = unsafe { end::<P>(qp, |_, _| Ok(())) };
}

/// Executes one step, and stores its error. Outside of ibv_wr_start and its end it does nothing.
///
/// # Safety
/// `qp` is a live queue pair of the provider.
unsafe fn step<P: Provider>(
    qp: *mut ibv_qp_ex,
    step: impl FnOnce(&Subject<'_, P, Pair<P>>, &mut Work<P>, &ibv_qp_cap) -> Result<()>,
) {
    // SAFETY: vouched for by the caller; this thread has locked the requests.
    unsafe {
        if let Ok((pair, builder)) = found::<P>(qp)
            && builder.lock.is_locked()
        {
            let work = &mut *builder.work.get();
            let result = step(&pair, work, &builder.cap);
            work.note(result);
        }
    }
}

/// Begins a request.
///
/// # Safety
/// As for [`step`].
unsafe fn begin<P: Provider>(
    qp: *mut ibv_qp_ex,
    opcode: ibv_wr_opcode,
    fill: impl FnOnce(&mut SendRequest<'static, P>),
) {
    // SAFETY: vouched for by the caller; the application sets the two members before the call.
    unsafe {
        let flags = (*qp).wr_flags & !IBV_SEND_INLINE;
        let mut request = SendRequest::new((*qp).wr_id, opcode, flags);
        fill(&mut request);
        step::<P>(qp, |_, work, cap| work.begin(request, cap.max_send_wr));
    }
}

macro_rules! requests {
    ($($name:ident($($arg:ident: $type:ty),*) = $opcode:ident, $request:ident => $fill:block)*) => { $(
        unsafe extern "C" fn $name<P: Provider>(qp: *mut ibv_qp_ex $(, $arg: $type)*) {
            // SAFETY: the caller passes a live queue pair.
            unsafe {
                begin::<P>(qp, $opcode, |$request| $fill);
            }
        }
    )* };
}

requests! {
    send() = IBV_WR_SEND, _request => {}
    send_imm(imm: be32) = IBV_WR_SEND_WITH_IMM, request => {
        request.imm = imm.wire().to_ne_bytes();
    }
    send_inv(rkey: u32) = IBV_WR_SEND_WITH_INV, request => {
        request.invalidate_rkey = rkey;
    }
    local_inv(rkey: u32) = IBV_WR_LOCAL_INV, request => {
        request.invalidate_rkey = rkey;
    }
    rdma_read(rkey: u32, address: u64) = IBV_WR_RDMA_READ, request => {
        request.rkey = rkey;
        request.remote_address = address;
    }
    rdma_write(rkey: u32, address: u64) = IBV_WR_RDMA_WRITE, request => {
        request.rkey = rkey;
        request.remote_address = address;
    }
    rdma_write_imm(rkey: u32, address: u64, imm: be32) = IBV_WR_RDMA_WRITE_WITH_IMM, request => {
        request.rkey = rkey;
        request.remote_address = address;
        request.imm = imm.wire().to_ne_bytes();
    }
    atomic_cmp_swp(rkey: u32, address: u64, compare: u64, swap: u64) = IBV_WR_ATOMIC_CMP_AND_SWP, request => {
        request.rkey = rkey;
        request.remote_address = address;
        request.compare_add = compare;
        request.swap = swap;
    }
    atomic_fetch_add(rkey: u32, address: u64, add: u64) = IBV_WR_ATOMIC_FETCH_AND_ADD, request => {
        request.rkey = rkey;
        request.remote_address = address;
        request.compare_add = add;
    }
    flush(rkey: u32, address: u64, length: usize, placement: u8, selectivity: u8) = IBV_WR_FLUSH, request => {
        request.rkey = rkey;
        request.remote_address = address;
        request.flush = Some(Flush { length, placement, selectivity });
    }
}

unsafe extern "C" fn atomic_write<P: Provider>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    value: *const c_void,
) {
    // SAFETY: the caller passes a live queue pair and 8 bytes.
    unsafe {
        let value = value.cast::<[u8; 8]>().as_ref().copied();
        begin::<P>(qp, IBV_WR_ATOMIC_WRITE, |request| {
            request.rkey = rkey;
            request.remote_address = address;
            request.atomic_write = value;
        });
        step::<P>(qp, |_, _, _| value.map(|_| ()).ok_or(Errno::INVAL));
    }
}

unsafe extern "C" fn send_tso<P: Provider>(
    qp: *mut ibv_qp_ex,
    header: *mut c_void,
    size: u16,
    mss: u16,
) {
    // SAFETY: the caller passes a live queue pair and a header of that size.
    unsafe {
        begin::<P>(qp, IBV_WR_TSO, |_| ());
        step::<P>(qp, |_, work, _| {
            let header = bytes(header, size.into())?;
            work.set_tso(header, mss)
        });
    }
}

unsafe extern "C" fn bind_mw<P: Provider>(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the caller passes a live queue pair and window, and parameters with a live region.
    unsafe {
        begin::<P>(qp, IBV_WR_BIND_MW, |_| ());
        step::<P>(qp, |pair, work, _| {
            let window = pair.context.object::<Window<P>>(mw)?;
            let info = info.as_ref().ok_or(Errno::INVAL)?;
            let info = bind_info(&pair.context, mw, info)?;
            work.set_bind(Binding {
                mw: Arc::clone(&window.side.mw),
                rkey,
                mr: info.mr.cloned(),
                key: info.key,
                address: info.address,
                length: info.length,
                access: info.access,
            })
        });
    }
}

unsafe extern "C" fn set_ud_addr<P: Provider>(
    qp: *mut ibv_qp_ex,
    ah: *mut ibv_ah,
    qpn: u32,
    qkey: u32,
) {
    // SAFETY: the caller passes a live queue pair and address handle.
    unsafe {
        step::<P>(qp, |pair, work, _| {
            let ah = pair.context.object::<Address<P>>(ah)?;
            work.set_address(&ah.side.ah, qpn, qkey)
        });
    }
}

unsafe extern "C" fn set_xrc_srqn<P: Provider>(qp: *mut ibv_qp_ex, number: u32) {
    // SAFETY: the caller passes a live queue pair.
    unsafe { step::<P>(qp, |_, work, _| work.set_srqn(number)) }
}

unsafe extern "C" fn set_sge<P: Provider>(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = ibv_sge { addr, length, lkey };
    // SAFETY: the caller passes a live queue pair and a list of that many elements.
    unsafe { set_sge_list::<P>(qp, 1, &raw const sge) }
}

unsafe extern "C" fn set_sge_list<P: Provider>(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_sge,
) {
    // SAFETY: the caller passes a live queue pair and a list of that many elements.
    unsafe {
        step::<P>(qp, |_, work, cap| {
            if u32::try_from(count).map_or(true, |count| count > cap.max_send_sge) {
                return Err(Errno::INVAL);
            }
            let count = c_int::try_from(count).map_err(|_| Errno::INVAL)?;
            work.set_sges(elements(list, count)?)
        });
    }
}

/// # Errors
/// EINVAL for bytes at NULL.
///
/// # Safety
/// `at` is NULL or good for that many bytes during `'a`.
unsafe fn bytes<'a>(at: *const c_void, length: usize) -> Result<&'a [u8]> {
    match (at.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::INVAL),
        // SAFETY: vouched for by the caller.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(at.cast(), length) }),
    }
}

unsafe extern "C" fn set_inline_data<P: Provider>(
    qp: *mut ibv_qp_ex,
    addr: *mut c_void,
    length: usize,
) {
    let piece = ibv_data_buf { addr, length };
    // SAFETY: the caller passes a live queue pair and that many bytes.
    unsafe { set_inline_data_list::<P>(qp, 1, &raw const piece) }
}

unsafe extern "C" fn set_inline_data_list<P: Provider>(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: the caller passes a live queue pair, and a list of that many pieces, each of the
    // length that it states.
    unsafe {
        step::<P>(qp, |_, work, cap| {
            if list.is_null() && count != 0 {
                return Err(Errno::INVAL);
            }
            let list = match count {
                0 => &[],
                _ => core::slice::from_raw_parts(list, count),
            };
            check_inline(list, cap)?;
            let pieces = list.iter().map(|piece| bytes(piece.addr, piece.length));
            work.set_inline(pieces.map(Result::unwrap_or_default))
        });
    }
}

/// # Errors
/// EINVAL for more bytes than the queue pair takes, and for bytes at NULL.
fn check_inline(list: &[ibv_data_buf], cap: &ibv_qp_cap) -> Result<()> {
    let mut all = 0usize;
    for piece in list {
        if piece.addr.is_null() && piece.length != 0 {
            return Err(Errno::INVAL);
        }
        all = all.saturating_add(piece.length);
    }
    if u32::try_from(all).map_or(true, |all| all > cap.max_inline_data) {
        return Err(Errno::INVAL);
    }
    Ok(())
}
