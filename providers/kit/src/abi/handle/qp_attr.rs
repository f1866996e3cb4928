//! Attributes of queue pairs in the application's memory.
//!
//! `struct ibv_qp_attr` has grown: a program built before the rate limit was added passes memory
//! that ends before it, and every program leaves members uninitialised that it does not name.
//! Therefore no reference to the structure exists, only to members that are valid.

use crate::abi::*;
use crate::errno::{Errno, Result};
use core::marker::PhantomData;

/// An application's request to a queue pair: its attributes, and the mask of the valid ones.
#[derive(Clone, Copy)]
pub struct QpChange<'a> {
    attr: *const ibv_qp_attr,
    mask: u32,
    life: PhantomData<&'a ibv_qp_attr>,
}

impl<'a> QpChange<'a> {
    /// # Errors
    /// EINVAL for NULL.
    ///
    /// # Safety
    /// A pointer that is not NULL is good for reading the members that `mask` names
    /// (`IBV_QP_*`, ibv_modify_qp(3)) during `'a`.
    pub unsafe fn from_raw(attr: *const ibv_qp_attr, mask: u32) -> Result<Self> {
        if attr.is_null() {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            attr,
            mask,
            life: PhantomData,
        })
    }

    /// Attributes that are all there.
    pub fn new(attr: &'a ibv_qp_attr, mask: u32) -> Self {
        Self {
            attr,
            mask,
            life: PhantomData,
        }
    }

    /// The mask: `IBV_QP_*`.
    pub fn mask(self) -> u32 {
        self.mask
    }
}

macro_rules! given {
    ($($name:ident: $type:ty, $bit:ident;)*) => { impl QpChange<'_> { $(
        #[doc = concat!("The member of this name, if the mask has `", stringify!($bit), "`.")]
        #[inline]
        pub fn $name(self) -> Option<$type> {
            if self.mask & $bit == 0 {
                return None;
            }
            // SAFETY: the mask names the member, so it is there.
            Some(unsafe { (&raw const (*self.attr).$name).read() })
        }
    )* } };
}

given! {
    qp_state: ibv_qp_state, IBV_QP_STATE;
    cur_qp_state: ibv_qp_state, IBV_QP_CUR_STATE;
    path_mtu: ibv_mtu, IBV_QP_PATH_MTU;
    path_mig_state: ibv_mig_state, IBV_QP_PATH_MIG_STATE;
    qkey: u32, IBV_QP_QKEY;
    rq_psn: u32, IBV_QP_RQ_PSN;
    sq_psn: u32, IBV_QP_SQ_PSN;
    dest_qp_num: u32, IBV_QP_DEST_QPN;
    qp_access_flags: core::ffi::c_uint, IBV_QP_ACCESS_FLAGS;
    ah_attr: ibv_ah_attr, IBV_QP_AV;
    alt_ah_attr: ibv_ah_attr, IBV_QP_ALT_PATH;
    pkey_index: u16, IBV_QP_PKEY_INDEX;
    alt_pkey_index: u16, IBV_QP_ALT_PATH;
    en_sqd_async_notify: u8, IBV_QP_EN_SQD_ASYNC_NOTIFY;
    max_rd_atomic: u8, IBV_QP_MAX_QP_RD_ATOMIC;
    max_dest_rd_atomic: u8, IBV_QP_MAX_DEST_RD_ATOMIC;
    min_rnr_timer: u8, IBV_QP_MIN_RNR_TIMER;
    port_num: u8, IBV_QP_PORT;
    timeout: u8, IBV_QP_TIMEOUT;
    retry_cnt: u8, IBV_QP_RETRY_CNT;
    rnr_retry: u8, IBV_QP_RNR_RETRY;
    alt_port_num: u8, IBV_QP_ALT_PATH;
    alt_timeout: u8, IBV_QP_ALT_PATH;
    rate_limit: u32, IBV_QP_RATE_LIMIT;
}

/// Room for the attributes that a query answers, all in front of the rate limit.
pub struct QpAnswer<'a> {
    attr: *mut ibv_qp_attr,
    life: PhantomData<&'a mut ibv_qp_attr>,
}

impl<'a> QpAnswer<'a> {
    /// # Errors
    /// EINVAL for NULL.
    ///
    /// # Safety
    /// A pointer that is not NULL is good for writing the members in front of the rate limit
    /// during `'a`.
    pub unsafe fn from_raw(attr: *mut ibv_qp_attr) -> Result<Self> {
        if attr.is_null() {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            attr,
            life: PhantomData,
        })
    }

    /// Room for everything.
    pub fn new(attr: &'a mut ibv_qp_attr) -> Self {
        Self {
            attr,
            life: PhantomData,
        }
    }
}

macro_rules! reported {
    ($($set:ident: $name:ident, $type:ty;)*) => { impl QpAnswer<'_> { $(
        #[doc = concat!("Writes `", stringify!($name), "`.")]
        #[inline]
        pub fn $set(&mut self, value: $type) {
            // SAFETY: the member stands in front of the rate limit, so there is room for it.
            unsafe { (&raw mut (*self.attr).$name).write(value) }
        }
    )* } };
}

reported! {
    set_qp_state: qp_state, ibv_qp_state;
    set_cur_qp_state: cur_qp_state, ibv_qp_state;
    set_path_mtu: path_mtu, ibv_mtu;
    set_path_mig_state: path_mig_state, ibv_mig_state;
    set_qkey: qkey, u32;
    set_rq_psn: rq_psn, u32;
    set_sq_psn: sq_psn, u32;
    set_dest_qp_num: dest_qp_num, u32;
    set_qp_access_flags: qp_access_flags, core::ffi::c_uint;
    set_cap: cap, ibv_qp_cap;
    set_ah_attr: ah_attr, ibv_ah_attr;
    set_alt_ah_attr: alt_ah_attr, ibv_ah_attr;
    set_pkey_index: pkey_index, u16;
    set_alt_pkey_index: alt_pkey_index, u16;
    set_sq_draining: sq_draining, u8;
    set_max_rd_atomic: max_rd_atomic, u8;
    set_max_dest_rd_atomic: max_dest_rd_atomic, u8;
    set_min_rnr_timer: min_rnr_timer, u8;
    set_port_num: port_num, u8;
    set_timeout: timeout, u8;
    set_retry_cnt: retry_cnt, u8;
    set_rnr_retry: rnr_retry, u8;
    set_alt_port_num: alt_port_num, u8;
    set_alt_timeout: alt_timeout, u8;
}

#[cfg(test)]
mod tests;
