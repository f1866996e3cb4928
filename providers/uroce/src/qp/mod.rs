//! Queue pairs.

pub mod attributes;
mod binds;
mod core;
mod host;
mod multicast;
mod onesided;
mod requests;

pub use core::{Core, Parts};

use kit::errno::{Errno, Result};
use kit::provider::Token;
use std::sync::Arc;

/// A queue pair as an application holds it: several may be one XRC target (ibv_open_qp(3)).
pub struct Qp {
    /// The queue pair itself.
    pub core: Arc<Core>,
    /// Its name in event records.
    pub token: Token,
}

impl Qp {
    /// ibv_destroy_qp(3): the queue pair goes with the last that names it. Answers how many events
    /// were told under this name.
    ///
    /// # Errors
    /// EBUSY while it is attached to a multicast group.
    pub fn destroy(&self) -> Result<u32> {
        let core = &self.core;
        if core.is_attached() {
            return Err(Errno::BUSY);
        }
        let (left, told) = core.closed(self.token);
        if left == 0 {
            core.close();
            core.node().detach(core.number);
            core.forget_completions();
            if let Some(xrcd) = core.xrcd() {
                xrcd.remove_target(core.number);
            }
        }
        Ok(told)
    }
}
