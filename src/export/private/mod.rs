//! What C providers call: `ibv_cmd_*`, `verbs_set_ops` and their like.

mod buffer;
mod gid;
mod ioctl;
pub mod disassociate;
mod cmd_pd;
mod cmd_mr;
mod cmd_dm;
mod cmd_context;
mod cmd_ah;
mod context;
mod log;
mod register;
mod sysfs;
mod cmd_cq;
mod cmd_flow;
mod cmd_qp;
mod cmd_srq;
mod cmd_wq;
