//! A target that another process has made, opened here (ibv_open_qp(3)).

use super::Link;
use super::words::Call;
use crate::channel::Records;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use std::sync::Arc;

/// A target of another process. Its state and attributes are asked for there.
pub struct Opened {
    link: Arc<Link>,
    /// Its number.
    pub number: u32,
    token: Token,
    events: Arc<Records>,
}

impl Opened {
    /// Opens it.
    ///
    /// # Errors
    /// EINVAL if there is none of that number; EIO if the process ends meanwhile.
    pub fn open(
        link: Arc<Link>,
        number: u32,
        token: Token,
        events: Arc<Records>,
    ) -> Result<Arc<Self>> {
        link.call(number, Call::Open)?;
        Ok(Arc::new(Self {
            link,
            number,
            token,
            events,
        }))
    }

    /// Whether it is a target of the process at the other end.
    pub fn is_of(&self, link: &Arc<Link>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// ibv_modify_qp(3); answers the state after it.
    ///
    /// # Errors
    /// As for one that was made here; EIO if the process that made it has ended.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let after = self.link.call(self.number, Call::Modify(*attr, mask))?;
        Ok(after.ok_or(Errno(libc::EIO))?.qp_state)
    }

    /// ibv_query_qp(3).
    ///
    /// # Errors
    /// EIO if the process that made it has ended.
    pub fn query(&self, attr: &mut ibv_qp_attr) -> Result<()> {
        *attr = self
            .link
            .call(self.number, Call::Query)?
            .ok_or(Errno(libc::EIO))?;
        Ok(())
    }

    /// ibv_destroy_qp(3). Answers how many events were told under this name.
    pub fn close(&self) -> u32 {
        // With the process that made it, it has gone.
        let _ = self.link.call(self.number, Call::Close);
        self.events.take_back(self.token)
    }

    /// Tells an asynchronous event.
    pub fn tell(&self, event: ibv_event_type) {
        self.events.asynchronous(event, self.token);
    }
}
