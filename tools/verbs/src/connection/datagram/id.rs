//! Ids of the port space UDP.
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use kit::{
    abi::{IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS},
    cm::port_space::RDMA_PS_UDP,
};

use crate::{
    connection::{EventChannel, Id, next_number},
    error::{Error, Result},
    qp::{QueuePair, QueuePairBuilder},
    sys::{calls, cm},
    transport::Datagram,
};

/// Ids of datagrams. They are bound, listen and resolve addresses and routes as those of
/// connections, from which the other calls differ.
impl Id {
    /// Makes an id of datagrams, of the port space UDP, whose events the channel reports.
    ///
    /// # Errors
    /// Of rdma_create_id(3).
    pub fn datagrams(channel: &EventChannel) -> Result<Self> {
        Self::of_space(channel, RDMA_PS_UDP)
    }

    /// Whether it is of datagrams.
    #[must_use]
    pub fn is_datagram(&self) -> bool {
        cm::is_datagram(self.object())
    }

    /// Makes a queue pair for datagrams, ready to send and receive, which has the port of the id
    /// and the key of the connection manager. It belongs to no peer: one serves several ids of the
    /// same device.
    ///
    /// # Errors
    /// Those of `build`; EINVAL if the protection domain is of another open device than
    /// [`Id::context`], or the id is not one of datagrams; of rdma_init_qp_attr(3).
    pub fn datagram_queue_pair(
        &self,
        builder: QueuePairBuilder<Datagram>,
    ) -> Result<QueuePair<Datagram>> {
        self.expect_device(&builder.pd)?;
        self.expect_datagrams("rdma_init_qp_attr")?;
        let (mut attr, mask) = cm::qp_attr(self.object(), IBV_QPS_INIT)?;
        let (mut pair, _) = builder.port(attr.port_num).make()?;
        pair.endpoint.qkey = attr.qkey;
        attr.sq_psn = pair.endpoint.psn;
        for (state, mask) in [
            (IBV_QPS_INIT, mask),
            (IBV_QPS_RTR, IBV_QP_STATE),
            (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
        ] {
            attr.qp_state = state;
            calls::modify_qp(&pair.qp, attr, mask)?;
        }
        Ok(QueuePair::new(pair))
    }

    /// Asks the destination, whose address and route are resolved, for its queue pair.
    /// [`Event::DestinationResolved`](crate::connection::Event) follows, or `Rejected`,
    /// `Unreachable`.
    ///
    /// # Errors
    /// Of rdma_connect(3): EINVAL if the route is not resolved, for an id that is not of datagrams,
    /// and for more than 180 bytes of private data.
    pub fn request_datagrams(&self, private_data: &[u8]) -> Result<()> {
        self.expect_datagrams("rdma_connect")?;
        let param = cm::Param {
            private_data: private_data.to_vec(),
            ..cm::Param::default()
        };
        cm::connect(self.object(), &param)
    }

    /// Answers a request of a peer with a queue pair, which another id may have made. No event
    /// follows.
    ///
    /// # Errors
    /// Of rdma_accept(3): EINVAL if it is not the id of a request, or the queue pair is of another
    /// device, and for more than 136 bytes of private data.
    pub fn accept_datagrams(&self, qp: &QueuePair<Datagram>, private_data: &[u8]) -> Result<()> {
        self.expect_datagrams("rdma_accept")?;
        self.expect_device(&qp.inner.qp.pd)?;
        let param = cm::Param {
            queue_pair: qp.number(),
            has_srq: qp.inner.qp.srq.is_some(),
            private_data: private_data.to_vec(),
            ..cm::Param::default()
        };
        cm::accept(self.object(), &param)
    }

    /// Joins a multicast group; a member that only sends receives nothing.
    /// [`Event::MulticastJoin`](crate::connection::Event) or `MulticastError` follows. The id is
    /// bound to an address, or has resolved one. When it is dropped, it leaves the group.
    ///
    /// # Errors
    /// Of rdma_join_multicast(3): EINVAL for an id without a device or not of datagrams, and for an
    /// address that is no group; EADDRINUSE if it has joined the group; an errno of the system for
    /// groups of IPv6 over RoCE.
    pub fn join_multicast(&self, group: SocketAddr, send_only: bool) -> Result<()> {
        const FUNCTION: &str = "rdma_join_multicast";
        self.expect_datagrams(FUNCTION)?;
        let number = next_number();
        {
            let mut groups = self.groups();
            if groups.iter().any(|(_, joined)| *joined == group) {
                let used = Error::new(FUNCTION, libc::EADDRINUSE);
                return Err(used.because("the id has joined the group"));
            }
            // Its event may come before the call returns.
            groups.push((number, group));
        }
        let joined = cm::join_multicast(self.object(), group, send_only, number);
        joined.inspect_err(|_| self.groups().retain(|(of, _)| *of != number))
    }

    /// Leaves a multicast group. Events of it that were not taken yet are left out.
    ///
    /// # Errors
    /// Of rdma_leave_multicast(3): EADDRNOTAVAIL if it has not joined the group.
    pub fn leave_multicast(&self, group: SocketAddr) -> Result<()> {
        cm::leave_multicast(self.object(), group)?;
        self.groups().retain(|(_, joined)| *joined != group);
        Ok(())
    }

    fn expect_datagrams(&self, function: &'static str) -> Result<()> {
        match self.is_datagram() {
            true => Ok(()),
            false => {
                let invalid = Error::new(function, libc::EINVAL);
                Err(invalid.because("the id is not one of datagrams"))
            }
        }
    }
}
