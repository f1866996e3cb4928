//! Which context a call belongs to.

use kit::abi::*;

/// The first argument of a verb.
pub trait Subject {
    /// The context of the object; NULL for NULL.
    ///
    /// # Safety
    /// The object is live or NULL.
    unsafe fn context(self) -> *mut ibv_context;
}

impl Subject for *mut ibv_context {
    unsafe fn context(self) -> *mut ibv_context {
        self
    }
}

macro_rules! subjects {
    ($($object:ty),* $(,)?) => { $(
        impl Subject for *mut $object {
            unsafe fn context(self) -> *mut ibv_context {
                if self.is_null() {
                    return std::ptr::null_mut();
                }
                // SAFETY: vouched for by the caller.
                unsafe { (*self).context }
            }
        }
    )* };
}

subjects!(
    ibv_pd,
    ibv_mw,
    ibv_td,
    ibv_counters,
    ibv_qp,
    ibv_xrcd,
    ibv_cq,
    ibv_ah,
    ibv_flow,
    ibv_flow_action,
    ibv_rwq_ind_table,
    ibv_srq,
    ibv_wq,
    ibv_dm,
    ibv_mr,
);

impl Subject for *mut verbs_mr {
    unsafe fn context(self) -> *mut ibv_context {
        // SAFETY: the region is the first member.
        unsafe { self.cast::<ibv_mr>().context() }
    }
}
