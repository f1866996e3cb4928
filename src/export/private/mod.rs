//! What C providers call: `ibv_cmd_*`, `verbs_set_ops` and their like.

mod buffer;
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
