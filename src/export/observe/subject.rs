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

/// An argument as a number: addresses of pointers, values of numbers.
pub trait Argument {
    /// The number.
    fn number(self) -> u64;
}

impl<T> Argument for *mut T {
    fn number(self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Argument for *const T {
    fn number(self) -> u64 {
        self.addr() as u64
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Argument for $number {
            fn number(self) -> u64 {
                self.into()
            }
        }
    )* };
}

numbers!(u8, u16, u32, u64);

impl Argument for usize {
    fn number(self) -> u64 {
        self as u64
    }
}

impl Argument for i32 {
    fn number(self) -> u64 {
        // Flags more often than numbers below 0.
        self.cast_unsigned().into()
    }
}
