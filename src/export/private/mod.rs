//! What C providers call: `ibv_cmd_*`, `verbs_set_ops` and their like.

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
