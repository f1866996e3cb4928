//! Handles of the objects that belong to a context.

use super::{Ctx, watch};
use crate::abi::*;
use crate::{errno::Errno, table::Table};
use core::ptr::NonNull;

macro_rules! objects {
    ($( $(#[$doc:meta])* $name:ident of $c:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a> {
            raw: NonNull<$c>,
            ctx: Ctx<'a>,
        }

        impl<'a> $name<'a> {
            /// Takes the pointer that C passed.
            ///
            /// # Errors
            /// EINVAL when the pointer is NULL, the object's context is not one of this library's,
            /// or [`watch`] knows that the object was destroyed.
            ///
            /// # Safety
            /// A pointer that is not NULL must be an object of that type, which a provider
            /// created and which is not destroyed during `'a`.
            pub unsafe fn from_raw(raw: *mut $c) -> Result<Self, Errno> {
                let raw = NonNull::new(raw).ok_or(Errno::INVAL)?;
                // SAFETY: the object is valid.
                let context = unsafe { (*raw.as_ptr()).context };
                if watch::refuses(raw.as_ptr().addr(), context.addr()) {
                    return Err(Errno::INVAL);
                }
                // SAFETY: so is the context that it belongs to.
                let ctx = unsafe { Ctx::from_raw(context) }?;
                Ok(Self { raw, ctx })
            }

            /// Takes the pointer that a provider passes with the command for a call about that
            /// object: as [`from_raw`](Self::from_raw), which the call went through, but for the
            /// question whether it was destroyed.
            ///
            /// # Errors
            /// EINVAL when the pointer is NULL or the object's context is not one of this
            /// library's.
            ///
            /// # Safety
            /// As for [`from_raw`](Self::from_raw).
            pub unsafe fn from_command(raw: *mut $c) -> Result<Self, Errno> {
                let raw = NonNull::new(raw).ok_or(Errno::INVAL)?;
                // SAFETY: the object is valid, and so is the context that it belongs to.
                let ctx = unsafe { Ctx::from_raw((*raw.as_ptr()).context) }?;
                Ok(Self { raw, ctx })
            }

            /// The pointer for C.
            pub fn as_ptr(self) -> *mut $c {
                self.raw.as_ptr()
            }

            /// The verbs of the provider that made the object.
            pub fn table(self) -> &'a Table {
                self.ctx.table()
            }

            /// The context that the object belongs to.
            pub fn ctx(self) -> Ctx<'a> {
                self.ctx
            }
        }
    )* };
}

objects! {
    /// A protection domain.
    Pd of ibv_pd;
    /// A memory region.
    Mr of ibv_mr;
    /// A memory window.
    Mw of ibv_mw;
    /// Device memory.
    Dm of ibv_dm;
    /// A completion channel.
    CompChannel of ibv_comp_channel;
    /// A completion queue.
    Cq of ibv_cq;
    /// A queue pair.
    Qp of ibv_qp;
    /// A shared receive queue.
    Srq of ibv_srq;
    /// A work queue.
    Wq of ibv_wq;
    /// An address handle.
    Ah of ibv_ah;
    /// An XRC domain.
    Xrcd of ibv_xrcd;
    /// A completion counter.
    CompCntr of ibv_comp_cntr;
    /// A set of counters.
    Counters of ibv_counters;
    /// A flow rule.
    Flow of ibv_flow;
    /// An indirection table of work queues.
    RwqIndTable of ibv_rwq_ind_table;
    /// A flow action.
    FlowAction of ibv_flow_action;
}
