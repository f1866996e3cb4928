//! The functions that providers in C call: `ibv_cmd_*`, `verbs_set_ops` and others, at the nodes
//! `IBVERBS_PRIVATE_34`, `57`, `59`, `64` and `65`. [`private!`](crate::private) exports one
//! function under several nodes; a function whose signature changed between releases has one
//! version for each signature. `locate` finds the `ibv_context` in the `verbs_context` that a
//! provider passes.
//!
//! This module is the one place that is called from below: the ABI lets a provider in C call back
//! into the library. Which layout a provider's structures have is explained in [`kit::generation`].
//!
//! Structures that providers of generation 34 allocate or fill have grown in later releases:
//! `verbs_context` at its front, `ibv_qp_ex` and `ibv_port_attr` at their end. Hence
//! `ibv_cmd_query_port` fills 52 or 56 bytes, and the mask of an extended queue pair is read at the
//! offset of the queue pair's generation. Contexts of release 44 lack the members that were later
//! added in front of `verbs_context`; no inline function of the headers reads them, and `sz` gives
//! the true size. Over a provider from before release 49, `active_speed_ex` is 0.

mod buffer;
mod cmd_ah;
mod cmd_comp_cntr;
mod cmd_context;
mod cmd_cq;
mod cmd_dm;
mod cmd_dmah;
mod cmd_flow;
mod cmd_mr;
mod cmd_pd;
mod cmd_qp;
mod cmd_srq;
mod cmd_wq;
mod context;
pub mod disassociate;
mod dma_heap;
mod gid;
mod ioctl;
mod locate;
mod log;
mod register;
mod sysfs;
mod text;
