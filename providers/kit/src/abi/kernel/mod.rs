//! The kernel's verbs ABI: write commands, their responses, ioctl numbers.
//!
//! Declared from linux-libc-dev's headers; a test compares every size, offset and
//! constant with the headers installed.

mod prelude {
    pub(crate) use super::super::prelude::*;
}

mod ah;
mod context;
mod cq;
mod flow;
pub mod ioctl;
mod misc;
mod mr;
mod pd;
mod qp;
mod rxe;
mod sa;
mod siw;
mod srq;
mod wq;
mod wr;

pub use ah::*;
pub use context::*;
pub use cq::*;
pub use flow::*;
pub use misc::*;
pub use mr::*;
pub use pd::*;
pub use qp::*;
pub use rxe::*;
pub use sa::*;
pub use siw::*;
pub use srq::*;
pub use wq::*;
pub use wr::*;
