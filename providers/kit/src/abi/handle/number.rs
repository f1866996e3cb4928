//! The numbers by which the kernel knows objects (their `handle` members), and the objects that
//! a creation command fills.

use super::{Ah, Cq, Flow, Pd, Qp, RwqIndTable, Srq, Wq};
use crate::abi::*;
use core::ptr::NonNull;

macro_rules! numbers {
    ($($name:ident . $member:ident),*) => { $(
        impl $name<'_> {
            /// The object's number in the kernel.
            pub fn number(self) -> u32 {
                // SAFETY: the object is live for the handle's life.
                unsafe { (*self.as_ptr()).$member }
            }
        }
    )* };
}

numbers! { Pd.handle, Cq.handle, Qp.handle, Srq.handle, Wq.handle, Ah.handle, Flow.handle }

impl RwqIndTable<'_> {
    /// The object's number in the kernel.
    pub fn number(self) -> u32 {
        // SAFETY: the object is live for the handle's life.
        unsafe { (*self.as_ptr()).ind_tbl_handle }.cast_unsigned()
    }
}

impl Qp<'_> {
    /// `IBV_QPT_*`.
    pub fn qp_type(self) -> ibv_qp_type {
        // SAFETY: as above.
        unsafe { (*self.as_ptr()).qp_type }
    }
}

impl Cq<'_> {
    /// Notes how many entries the queue has.
    pub fn set_entries(self, cqe: u32) {
        // SAFETY: as above; the member is the application's to read.
        unsafe { (*self.as_ptr()).cqe = cqe.cast_signed() }
    }
}

impl Wq<'_> {
    /// Notes the state that the kernel took.
    pub fn set_state(self, state: ibv_wq_state) {
        // SAFETY: as above; the member is the application's to read.
        unsafe { (*self.as_ptr()).state = state }
    }
}

macro_rules! embedded {
    ($( $(#[$doc:meta])* $name:ident: $public:ident in $whole:ident; )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// A pointer that is not NULL must be the object inside the structure that providers
        /// allocate around it.
        pub unsafe fn $name(raw: *const $public) -> Option<u32> {
            let raw = NonNull::new(raw.cast_mut())?.cast::<$whole>();
            // SAFETY: vouched for by the caller.
            Some(unsafe { (*raw.as_ptr()).handle })
        }
    )* };
}

embedded! {
    /// Number of an XRC domain in the kernel; none for NULL.
    xrcd_number: ibv_xrcd in verbs_xrcd;
    /// Number of a flow action in the kernel; none for NULL.
    flow_action_number: ibv_flow_action in verbs_flow_action;
    /// Number of a set of counters in the kernel; none for NULL.
    counters_number: ibv_counters in verbs_counters;
}
