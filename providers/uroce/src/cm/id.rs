//! An id: the addresses, routes and connections of a program, and the numbers of its connection.

use super::address::{self, Route};
use super::claims::Claim;
use super::host::Host;
use super::peers::Process;
use crate::device::{NUMBER, PKEY, Port, gid_of};
use kit::abi::kernel::{ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_attr};
use kit::abi::*;
use kit::cm::{Addresses, PathData, port_space};
use kit::errno::{Errno, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use uroce_cm::ip::PortSpace;

/// Where an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    Bound,
    /// Waits for a neighbour.
    Resolving,
    AddressResolved,
    RouteResolved,
    Listening,
    Connecting,
    Disconnected,
}

/// `RDMA_OPTION_ID_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub traffic_class: u8,
    pub shares_port: bool,
    pub only_family: Option<bool>,
    pub ack_timeout: Option<u8>,
}

/// The numbers of a connection, as this side's queue pair has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// The first PSN that this side wants to receive.
    pub own_psn: u32,
    pub peer_psn: u32,
    pub peer_qpn: u32,
    /// `enum ibv_mtu`.
    pub mtu: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    /// The peer's request.
    pub rnr_retry_count: u8,
    pub timeout: u8,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    /// The peer's queue pair is known.
    pub complete: bool,
}

/// Time to live of packets, if the route has no other.
pub const HOPS: u8 = 64;
/// Q_Key of the port spaces of datagrams.
pub const Q_KEY: u32 = 0x0123_4567;
/// Delay of a uroce device's acknowledgements, as it reports.
pub const ACK_DELAY: u8 = 15;

/// An id.
pub struct Id {
    pub uid: u64,
    pub channel: u32,
    pub space: PortSpace,
    pub qp_type: ibv_qp_type,
    pub stage: Stage,
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    /// The bound port.
    pub port: Option<Arc<Port>>,
    /// From the first call on that needs the network.
    pub node: Option<Arc<dyn Host>>,
    pub claim: Option<Claim>,
    pub options: Options,
    /// Its connection or resolution at the agent.
    pub comm_id: Option<u32>,
    /// The process of the connection's peer, if it is watched.
    pub peer: Option<Process>,
    pub route: Option<Route>,
    pub numbers: Numbers,
    /// Of a request: the program has taken it by accepting. Events before that are dropped.
    pub accepted: bool,
    /// It came as a request.
    pub passive: bool,
    /// How many events of it were handed out.
    pub reported: u32,
    pub joins: Vec<u32>,
}

/// The port space of a number, and the type of its queue pairs.
///
/// # Errors
/// EINVAL for an unknown one.
pub fn space_of(number: u16, qp_type: u8) -> Result<(PortSpace, ibv_qp_type)> {
    let space = PortSpace::from_number(number).ok_or(Errno::INVAL)?;
    let qp_type = match u32::from(number) {
        port_space::RDMA_PS_TCP => IBV_QPT_RC,
        port_space::RDMA_PS_IB => qp_type.into(),
        _ => IBV_QPT_UD,
    };
    Ok((space, qp_type))
}

impl Id {
    pub fn new(uid: u64, channel: u32, (space, qp_type): (PortSpace, ibv_qp_type)) -> Self {
        Self {
            uid,
            channel,
            space,
            qp_type,
            stage: Stage::Idle,
            source: None,
            destination: None,
            port: None,
            node: None,
            claim: None,
            options: Options::default(),
            comm_id: None,
            peer: None,
            route: None,
            numbers: Numbers::default(),
            accepted: true,
            passive: false,
            reported: 0,
            joins: Vec::new(),
        }
    }

    pub fn is_datagram(&self) -> bool {
        self.qp_type == IBV_QPT_UD
    }

    /// # Errors
    /// EINVAL in another stage.
    pub fn expect(&self, stages: &[Stage]) -> Result<()> {
        let fits = stages.contains(&self.stage);
        fits.then_some(()).ok_or(Errno::INVAL)
    }

    /// Whether it may listen at its port, and does not yet: it is bound by the program, and does
    /// not connect. A port that an id connects from is none that a program wants to be found at.
    pub fn may_listen(&self) -> bool {
        self.stage == Stage::Bound && self.claim.is_some() && self.destination.is_none()
    }

    /// # Errors
    /// EINVAL without a device.
    pub fn device(&self) -> Result<&Arc<Port>> {
        self.port.as_ref().ok_or(Errno::INVAL)
    }

    /// # Errors
    /// EINVAL for an id that is not bound to any device.
    pub fn node(&self) -> Result<Arc<dyn Host>> {
        self.node.clone().ok_or(Errno::INVAL)
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Addresses {
        let (src_addr, src_size) = address::emit(self.source);
        let (dst_addr, dst_size) = address::emit(self.destination);
        self.with_device(src_addr, src_size, dst_addr, dst_size)
    }

    /// The same as GIDs.
    pub fn gids(&self) -> Addresses {
        let gid = |address: Option<SocketAddr>| {
            let gid = address.map(|address| gid_of(address.ip()).bytes());
            address::of_gid(gid.unwrap_or_default(), PKEY)
        };
        let (src_addr, src_size) = gid(self.source);
        let (dst_addr, dst_size) = gid(self.destination);
        self.with_device(src_addr, src_size, dst_addr, dst_size)
    }

    fn with_device(
        &self,
        src_addr: [u8; 128],
        src_size: u16,
        dst_addr: [u8; 128],
        dst_size: u16,
    ) -> Addresses {
        let port = self.port.as_ref();
        Addresses {
            node_guid: port.map_or(be64::new(0), |port| port.guid()),
            port_num: port.map_or(0, |_| NUMBER),
            reserved: 0,
            pkey: be16::new(port.map_or(0, |_| PKEY)),
            src_size,
            dst_size,
            src_addr,
            dst_addr,
            // The kernel knows no such device.
            ibdev_index: u32::MAX,
            reserved1: 0,
        }
    }

    /// The path to the peer, in the form of InfiniBand's subnet administrator; `None` as long as
    /// there is no route.
    pub fn path(&self) -> Option<PathData> {
        /// `IB_PATH_GMP | PRIMARY | BIDIRECTIONAL`
        const FLAGS: u32 = 0x2b;
        const EXACTLY: u8 = 2 << 6;
        let has_route = !matches!(
            self.stage,
            Stage::Idle
                | Stage::Bound
                | Stage::Resolving
                | Stage::AddressResolved
                | Stage::Listening
        );
        let route = self.route.filter(|_| has_route)?;
        let mut path = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = path.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(8, &gid_of(route.destination).bytes());
        put(24, &gid_of(route.source).bytes());
        // The flow label, then the hop limit.
        let flow = self.numbers.flow_label << 8 | u32::from(self.numbers.hop_limit);
        put(44, &flow.to_be_bytes());
        // Traffic class; reversible, one path; P_Key.
        put(48, &[self.numbers.traffic_class, 0x81]);
        put(50, &PKEY.to_be_bytes());
        let life = uroce_cm::times::Times::default().packet_life;
        put(54, &[EXACTLY | self.numbers.mtu, EXACTLY, EXACTLY | life]);
        Some(PathData {
            flags: FLAGS,
            reserved: 0,
            path,
        })
    }

    /// The way to the peer for a queue pair.
    pub fn ah_attr(&self) -> ib_uverbs_ah_attr {
        let Some(route) = self.route else {
            return ib_uverbs_ah_attr::default();
        };
        ib_uverbs_ah_attr {
            grh: ib_uverbs_global_route {
                dgid: gid_of(route.destination).bytes(),
                flow_label: self.numbers.flow_label,
                sgid_index: self.gid_index(route),
                hop_limit: self.numbers.hop_limit,
                traffic_class: self.numbers.traffic_class,
                reserved: 0,
            },
            is_global: 1,
            port_num: NUMBER,
            ..ib_uverbs_ah_attr::default()
        }
    }

    fn gid_index(&self, route: Route) -> u8 {
        let table = self.port.as_ref().map(|port| port.gid_table());
        let mut entries = table.iter().flatten();
        let source = gid_of(route.source).bytes();
        let own = entries.find(|entry| entry.gid.bytes() == source);
        own.and_then(|entry| u8::try_from(entry.gid_index).ok())
            .unwrap_or(0)
    }

    /// Attributes that a queue pair needs for a state.
    ///
    /// # Errors
    /// EINVAL for a state that the connection has none for yet.
    pub fn qp_attr(&self, state: u32) -> Result<ib_uverbs_qp_attr> {
        self.device()?;
        if self.is_revoked() {
            return Err(Errno::INVAL);
        }
        let mut attr = ib_uverbs_qp_attr {
            qp_state: state,
            ..ib_uverbs_qp_attr::default()
        };
        let has_connection = self.comm_id.is_some() && !self.is_datagram();
        match state {
            IBV_QPS_INIT => self.init_attr(&mut attr),
            IBV_QPS_RTR if has_connection && self.numbers.complete => self.rtr_attr(&mut attr),
            IBV_QPS_RTS if has_connection && self.numbers.complete => self.rts_attr(&mut attr),
            _ => return Err(Errno::INVAL),
        }
        Ok(attr)
    }

    /// The peer gave its request up before it was accepted.
    fn is_revoked(&self) -> bool {
        self.passive && !self.accepted && self.stage == Stage::Disconnected
    }

    fn init_attr(&self, attr: &mut ib_uverbs_qp_attr) {
        attr.port_num = NUMBER;
        attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        if self.is_datagram() {
            attr.qp_attr_mask |= IBV_QP_QKEY;
            attr.qkey = Q_KEY;
            return;
        }
        attr.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
        if self.comm_id.is_some() {
            attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
            if self.numbers.responder_resources > 0 {
                attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
            }
        }
    }

    fn rtr_attr(&self, attr: &mut ib_uverbs_qp_attr) {
        attr.qp_attr_mask =
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        attr.ah_attr = self.ah_attr();
        attr.path_mtu = self.numbers.mtu.into();
        attr.dest_qp_num = self.numbers.peer_qpn;
        attr.rq_psn = self.numbers.own_psn;
        if matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_XRC_RECV) {
            attr.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            attr.max_dest_rd_atomic = self.numbers.responder_resources;
        }
    }

    fn rts_attr(&self, attr: &mut ib_uverbs_qp_attr) {
        attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        attr.sq_psn = self.numbers.peer_psn;
        if matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_XRC_SEND) {
            attr.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            attr.retry_cnt = self.numbers.retry_count;
            attr.rnr_retry = self.numbers.rnr_retry_count;
            attr.max_rd_atomic = self.numbers.initiator_depth;
        }
        if self.qp_type != IBV_QPT_UC {
            attr.qp_attr_mask |= IBV_QP_TIMEOUT;
            attr.timeout = self.options.ack_timeout.unwrap_or(self.numbers.timeout);
        }
    }
}

/// `local_ack_timeout` from the time that a packet lives and the other side's delay, as kernels
/// reckon it.
pub fn ack_timeout(delay: u8, packet_life: u8) -> u8 {
    let timeout = packet_life + 1;
    let sum = if timeout >= delay {
        timeout + u8::from(delay >= timeout - 1)
    } else {
        delay + u8::from(timeout >= delay - 1)
    };
    sum.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::Interface;

    fn bound() -> Id {
        let mut id = Id::new(1, 1, (PortSpace::Tcp, IBV_QPT_RC));
        let interface = Interface {
            name: "eth0".to_owned(),
            index: 7,
            mtu: 1500,
            up: true,
            running: true,
            addresses: vec!["10.0.0.1".parse().expect("ip")],
            ..Interface::default()
        };
        id.port = Some(Arc::new(Port::new(&interface)));
        id
    }

    #[test]
    fn timeouts_are_the_kernels() {
        assert_eq!(ack_timeout(15, 18), 19);
        assert_eq!(ack_timeout(15, 16), 17);
        assert_eq!(ack_timeout(16, 16), 18);
        assert_eq!(ack_timeout(20, 16), 20);
    }

    #[test]
    fn attributes_are_the_kernels() {
        let mut id = bound();
        assert_eq!(id.qp_attr(IBV_QPS_RTR).err(), Some(Errno::INVAL));
        let init = id.qp_attr(IBV_QPS_INIT).expect("attributes");
        assert_eq!((init.qp_attr_mask, init.qp_access_flags), (0x39, 0));
        id.comm_id = Some(5);
        id.route = Some(Route::new(
            "10.0.0.1".parse().expect("ip"),
            "10.0.0.2".parse().expect("ip"),
            7,
        ));
        id.numbers = Numbers {
            responder_resources: 1,
            initiator_depth: 2,
            timeout: 17,
            complete: true,
            ..Numbers::default()
        };
        let attr = |state| id.qp_attr(state).expect("attributes");
        let init = attr(IBV_QPS_INIT);
        assert_eq!((init.qp_attr_mask, init.qp_access_flags), (0x39, 0xe));
        let rtr = attr(IBV_QPS_RTR);
        assert_eq!((rtr.qp_attr_mask, rtr.max_dest_rd_atomic), (0x12_9181, 1));
        assert_eq!(rtr.ah_attr.grh.dgid[12..], [10, 0, 0, 2]);
        let rts = attr(IBV_QPS_RTS);
        assert_eq!((rts.qp_attr_mask, rts.max_rd_atomic), (0x1_2e01, 2));
        assert_eq!((rts.timeout, rts.min_rnr_timer), (17, 0));
    }

    #[test]
    fn a_request_that_was_revoked_has_no_attributes() {
        let mut id = bound();
        (id.passive, id.accepted) = (true, false);
        id.stage = Stage::Disconnected;
        assert_eq!(id.qp_attr(IBV_QPS_INIT).err(), Some(Errno::INVAL));
        id.accepted = true;
        assert!(id.qp_attr(IBV_QPS_INIT).is_ok());
    }

    #[test]
    fn datagrams_have_a_q_key_and_no_peer() {
        let mut id = bound();
        id.qp_type = IBV_QPT_UD;
        let init = id.qp_attr(IBV_QPS_INIT).expect("attributes");
        assert_eq!((init.qp_attr_mask, init.qkey), (0x71, Q_KEY));
        id.comm_id = Some(5);
        assert!(id.qp_attr(IBV_QPS_RTR).is_err());
    }
}
