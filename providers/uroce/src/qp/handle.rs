//! Queue pairs as applications hold them.

use super::state::QpState;
use crate::memory::Mw;
use crate::objects::Objects;
use crate::raw::{RawQp, Spread};
use crate::xrc::Opened;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{BindInfo, ReceiveRequest, SendChain, SendRequest, Token};
use std::sync::Arc;

/// A queue pair of the protocol: several may be one XRC target (ibv_open_qp(3)).
pub struct Named {
    /// The queue pair itself.
    pub state: Arc<QpState>,
    /// Its name in event records.
    pub token: Token,
}

/// A queue pair.
pub enum Qp {
    /// One of RoCE.
    Protocol(Named),
    /// An XRC target that another process has made.
    Elsewhere(Arc<Opened>),
    /// One of raw packets.
    Raw(Arc<RawQp>),
    /// One that spreads raw packets over work queues, and does nothing else.
    Spread(Arc<Spread>),
}

impl Qp {
    /// The queue pair of the protocol.
    ///
    /// # Errors
    /// EINVAL if it is of raw packets, or of another process.
    pub fn state(&self) -> Result<&Arc<QpState>> {
        match self {
            Self::Protocol(named) => Ok(&named.state),
            Self::Raw(_) | Self::Spread(_) | Self::Elsewhere(_) => Err(Errno::INVAL),
        }
    }

    /// ibv_modify_qp(3); returns the state after it.
    ///
    /// # Errors
    /// EINVAL for a transition, attribute or value that there is not; EOPNOTSUPP for attributes
    /// that no device here has, and for one that spreads: its work queues have states.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        if mask & !KNOWN != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        match self {
            Self::Protocol(named) => named.state.modify(attr, mask),
            Self::Elsewhere(opened) => opened.modify(attr, mask),
            Self::Raw(raw) => raw.modify(attr, mask),
            Self::Spread(_) => Err(Errno::OPNOTSUPP),
        }
    }

    /// ibv_query_qp(3).
    ///
    /// # Errors
    /// EOPNOTSUPP for one that spreads.
    pub fn query(&self, attr: &mut ibv_qp_attr) -> Result<()> {
        match self {
            Self::Protocol(named) => named.state.query(attr),
            Self::Elsewhere(opened) => opened.query(attr)?,
            Self::Raw(raw) => raw.query(attr),
            Self::Spread(_) => return Err(Errno::OPNOTSUPP),
        }
        Ok(())
    }

    /// ibv_post_send(3).
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    pub fn post_send<'a, P: Objects>(&self, requests: &mut impl SendChain<'a, P>) -> Result<()> {
        match self {
            Self::Protocol(named) => named.state.post_send(requests),
            Self::Raw(raw) => raw.post_send(requests),
            Self::Spread(_) | Self::Elsewhere(_) => {
                requests.next().map_or(Ok(()), |_| Err(Errno::INVAL))
            }
        }
    }

    /// ibv_wr_complete(3).
    ///
    /// # Errors
    /// EINVAL, ENOMEM; then none is posted.
    pub fn post_send_all<P: Objects>(
        &self,
        requests: &mut dyn ExactSizeIterator<Item = SendRequest<'_, P>>,
    ) -> Result<()> {
        match self {
            Self::Protocol(named) => named.state.post_send_all(requests),
            Self::Raw(raw) => raw.post_send_all(requests),
            Self::Spread(_) | Self::Elsewhere(_) => Err(Errno::INVAL),
        }
    }

    /// ibv_post_recv(3).
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    pub fn post_recv<'a>(
        &self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        match self {
            Self::Protocol(named) => named.state.post_recv(requests),
            Self::Raw(raw) => raw.post_recv(requests),
            Self::Spread(_) | Self::Elsewhere(_) => {
                requests.next().map_or(Ok(()), |_| Err(Errno::INVAL))
            }
        }
    }

    /// ibv_bind_mw(3).
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    pub fn bind_mw<P: Objects>(
        &self,
        mw: &Arc<Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, P>,
    ) -> Result<u32> {
        self.state()?.bind_mw(mw, id, flags, info)
    }

    /// ibv_destroy_qp(3). Returns how many events were reported under this name.
    ///
    /// # Errors
    /// EBUSY while it is attached to a multicast group.
    pub fn destroy(&self) -> Result<u32> {
        match self {
            Self::Protocol(named) => named.destroy(),
            Self::Elsewhere(opened) => Ok(opened.close()),
            Self::Raw(raw) => Ok(raw.end()),
            Self::Spread(spread) => {
                spread.end();
                Ok(0)
            }
        }
    }
}

/// Attributes that ibv_modify_qp(3) has here; others, of which the rate limit is one, are unknown
/// to the kernel's command too.
const KNOWN: u32 = (IBV_QP_DEST_QPN << 1) - 1;

impl Named {
    /// The queue pair goes with the last that names it.
    fn destroy(&self) -> Result<u32> {
        if self.state.groups().is_attached() {
            return Err(Errno::BUSY);
        }
        let reported = self.state.remove_token(self.token);
        self.state.end();
        Ok(reported)
    }
}
