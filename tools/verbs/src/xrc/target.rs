//! Receiving queue pairs of XRC domains.

use std::{cmp, fmt};

use bytemuck::Zeroable;
use kit::abi::*;

use super::XrcDomain;
use crate::{
    address::{Endpoint, Route},
    error::Result,
    memory::Access,
    qp::{most_reads, random_psn},
    sys::{calls, xrc},
};

/// A receiving queue pair of an XRC domain ([`XrcDomain::target`]): the other end of one sender. It
/// takes no requests; messages go to the receive queues of the domain.
pub struct XrcTarget {
    qp: xrc::Target,
    endpoint: Endpoint,
    route: Route,
}

impl XrcTarget {
    pub(super) fn new(domain: &XrcDomain, access: Access) -> Result<Self> {
        let context = domain.context();
        let route = Route {
            gid_index: context.gid_index(1)?,
            ..Route::default()
        };
        let port = context.port(route.port)?;
        let qp = xrc::create_target(domain)?;
        let endpoint = Endpoint {
            number: calls::qp_number(&qp),
            psn: random_psn(),
            qkey: 0,
            lid: port.lid,
            mtu: u8::try_from(port.active_mtu).unwrap_or(1),
            gid: context.gid(route.port, route.gid_index)?,
        };
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = route.port;
        attr.qp_access_flags = access.bits();
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        calls::modify_qp(&qp, attr, mask)?;
        Ok(Self {
            qp,
            endpoint,
            route,
        })
    }

    /// Its address, for the sender.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Connects it to its sender. It receives from then on.
    ///
    /// # Errors
    /// Of ibv_modify_qp(3): EINVAL if it is connected; of ibv_query_device(3).
    pub fn connect(&self, peer: &Endpoint) -> Result<()> {
        let device = self.qp.context().attributes()?;
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = u32::from(cmp::min(peer.mtu, self.endpoint.mtu));
        attr.dest_qp_num = peer.number;
        attr.rq_psn = peer.psn;
        attr.ah_attr = self.route.to(peer.lid, peer.gid);
        attr.max_dest_rd_atomic = most_reads(device.max_qp_rd_atom);
        attr.min_rnr_timer = 12;
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        calls::modify_qp(&self.qp, attr, mask)
    }
}

impl fmt::Debug for XrcTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("XrcTarget");
        shown.field("endpoint", &self.endpoint);
        shown.finish_non_exhaustive()
    }
}

/// A receiving queue pair that was made before ([`XrcDomain::open_target`]).
pub struct OpenedXrcTarget(xrc::Target);

impl OpenedXrcTarget {
    pub(super) fn new(domain: &XrcDomain, number: u32) -> Result<Self> {
        xrc::open_target(domain, number).map(Self)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        calls::qp_number(&self.0)
    }
}

impl fmt::Debug for OpenedXrcTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OpenedXrcTarget");
        shown.field("number", &self.number());
        shown.finish_non_exhaustive()
    }
}
