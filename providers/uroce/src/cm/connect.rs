//! Listening, connections, and resolutions of datagram services.

use super::address::Route;
use super::claims::Bound;
use super::id::{ACK_DELAY, Id, Q_KEY, Stage, ack_timeout};
use super::state::{Discarded, State, milliseconds};
use crate::device::{PKEY, gid_of};
use kit::abi::*;
use kit::cm::{Ece, Param};
use kit::errno::{Errno, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use uroce_cm::agent::{self, Agent, Answer, Owner};
use uroce_cm::ip::{HEADER, Header, PortSpace, service_id};
use uroce_cm::times::Times;
use uroce_cm::wire::{Rep, Req, SidrReq};

/// Requests that wait at most.
const MOST: i32 = 1024;
/// `IB_CM_REJ_CONSUMER_DEFINED`, `IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED`
const CONSUMER: u8 = 28;
const VENDOR_OPTION: u8 = 35;
/// Retry counts have three bits.
const RETRIES: u8 = 7;
/// `lid` of a path that crosses routers.
const PERMISSIVE_LID: u16 = 0xffff;

/// A field of a message with data at its start.
///
/// # Errors
/// EINVAL if the field is too short.
fn field<const N: usize>(parts: &[&[u8]]) -> Result<[u8; N]> {
    let data = parts.concat();
    let mut field = [0; N];
    let place = field.get_mut(..data.len()).ok_or(Errno::INVAL)?;
    place.copy_from_slice(&data);
    Ok(field)
}

impl Id {
    /// The header in front of the private data of a request.
    fn header(&self) -> Result<[u8; HEADER]> {
        let source = self.source.ok_or(Errno::INVAL)?;
        let destination = self.destination.ok_or(Errno::INVAL)?;
        let header = Header {
            source_port: source.port(),
            source: source.ip(),
            destination: destination.ip(),
        };
        header.emit().ok_or(Errno::INVAL)
    }

    fn service(&self) -> Result<u64> {
        let destination = self.destination.ok_or(Errno::INVAL)?;
        Ok(service_id(self.space, destination.port()))
    }

    fn request(&self, param: &Param, ece: Ece) -> Result<agent::Request> {
        let route = self.route.ok_or(Errno::INVAL)?;
        let numbers = &self.numbers;
        let (service_type, extended) = match self.qp_type {
            IBV_QPT_RC => (0, 0),
            IBV_QPT_UC => (1, 0),
            IBV_QPT_XRC_SEND => (3, 1),
            _ => return Err(Errno::INVAL),
        };
        let message = Req {
            vendor_id: ece.vendor_id,
            service_id: self.service()?,
            local_ca_guid: self.device()?.guid().get(),
            local_qpn: param.qp_num,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            transport_service_type: service_type,
            extended_transport_type: extended,
            end_to_end_flow_control: param.flow_control != 0,
            starting_psn: numbers.own_psn,
            retry_count: param.retry_count.min(RETRIES),
            rnr_retry_count: param.rnr_retry_count.min(RETRIES),
            partition_key: PKEY,
            path_packet_payload_mtu: numbers.mtu,
            srq: param.srq != 0,
            primary_local_port_lid: PERMISSIVE_LID,
            primary_remote_port_lid: PERMISSIVE_LID,
            primary_local_port_gid: gid_of(route.source).bytes(),
            primary_remote_port_gid: gid_of(route.destination).bytes(),
            primary_flow_label: numbers.flow_label,
            primary_traffic_class: numbers.traffic_class,
            primary_hop_limit: numbers.hop_limit,
            primary_local_ack_timeout: self
                .options
                .ack_timeout
                .unwrap_or_else(|| ack_timeout(ACK_DELAY, Times::default().packet_life)),
            private_data: field(&[&self.header()?, param.data()])?,
            ..Req::default()
        };
        Ok(agent::Request {
            message,
            options: ece.attr_mod,
            agent: 0,
        })
    }

    fn reply(&self, param: &Param, ece: Ece) -> Result<agent::Reply> {
        let [_, high, middle, low] = ece.vendor_id.to_be_bytes();
        let is_target = self.qp_type == IBV_QPT_XRC_RECV;
        let message = Rep {
            local_qpn: if is_target { 0 } else { param.qp_num },
            local_ee_context_number: if is_target { param.qp_num } else { 0 },
            vendor_id_h: high,
            vendor_id_m: middle,
            vendor_id_l: low,
            starting_psn: self.numbers.own_psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            target_ack_delay: ACK_DELAY,
            end_to_end_flow_control: param.flow_control != 0,
            rnr_retry_count: param.rnr_retry_count.min(RETRIES),
            srq: param.srq != 0,
            local_ca_guid: self.device()?.guid().get(),
            private_data: field(&[param.data()])?,
            ..Rep::default()
        };
        Ok(agent::Reply {
            message,
            options: ece.attr_mod,
        })
    }
}

impl State {
    /// # Errors
    /// EINVAL in another state; EADDRINUSE if another id shares the port; those of [`State::bind`].
    pub fn listen(&mut self, number: u32, backlog: i32) -> Result<()> {
        if self.id(number)?.stage == Stage::Idle {
            self.bind(number, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        let id = self.id(number)?;
        id.expect(&[Stage::Bound])?;
        id.claim.as_ref().ok_or(Errno::INVAL)?.is_alone()?;
        let node = id.node()?;
        id.stage = Stage::Listening;
        let backlog = if (1..=MOST).contains(&backlog) {
            backlog
        } else {
            MOST
        };
        let backlog = usize::try_from(backlog).unwrap_or(0);
        let number = u64::from(number);
        self.with_agent(&node, |agent| agent.listen(number, backlog, milliseconds()));
        Ok(())
    }

    /// The owner of a port for an address in this process: the listener, or else an id that may
    /// listen later.
    pub fn owner(
        &self,
        space: PortSpace,
        port: u16,
        address: IpAddr,
        interface: u32,
    ) -> Option<Owner> {
        let covers = |id: &Id| {
            let Some(claim) = &id.claim else {
                return false;
            };
            let bound: Bound = claim.port().bound;
            (id.space, claim.port().port) == (space, port) && bound.covers(address, interface)
        };
        let mut bound = None;
        for (number, id) in &self.ids {
            if id.stage == Stage::Listening && covers(id) {
                return Some(Owner::Listens((*number).into()));
            }
            if bound.is_none() && id.may_listen() && covers(id) {
                bound = Some(Owner::Bound((*number).into()));
            }
        }
        bound
    }

    /// An id does not listen at its port any more, or will not: requests that wait are refused.
    pub fn unlisten(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number).filter(|id| id.claim.is_some()) else {
            return;
        };
        if let Some(node) = id.node.clone() {
            let owner = u64::from(number);
            self.with_agent(&node, |agent| agent.unlisten(owner, milliseconds()));
            self.discarded.push(Discarded::Node(node));
        }
    }

    /// # Errors
    /// EINVAL in another state, without parameters, for too much private data; EAGAIN if all
    /// communication ids are in use.
    pub fn connect(&mut self, number: u32, param: &Param, ece: Ece) -> Result<()> {
        let id = self.id(number)?;
        id.expect(&[Stage::RouteResolved])?;
        if param.valid == 0 {
            return Err(Errno::INVAL);
        }
        let (route, node) = (id.route.ok_or(Errno::INVAL)?, id.node()?);
        let now = milliseconds();
        let begun = if id.is_datagram() {
            let request = SidrReq {
                partition_key: PKEY,
                service_id: id.service()?,
                private_data: field(&[&id.header()?, param.data()])?,
                ..SidrReq::default()
            };
            let network = node.network();
            self.agent(network.slot()).resolve(route, &request, 0, now)
        } else {
            let request = id.request(param, ece)?;
            id.numbers.retry_count = request.message.retry_count;
            id.numbers.responder_resources = request.message.responder_resources;
            id.numbers.initiator_depth = request.message.initiator_depth;
            let network = node.network();
            self.agent(network.slot()).connect(route, &request, now)
        };
        let comm_id = begun.ok_or(Errno::AGAIN)?;
        // Before anything is sent: an answer may be there at once.
        let id = self.id(number)?;
        id.comm_id = Some(comm_id);
        id.stage = Stage::Connecting;
        self.by_comm_id.insert(comm_id, number);
        self.with_agent(&node, |_| ());
        Ok(())
    }

    /// # Errors
    /// EINVAL unless a request waits, and for too much private data: then the request is refused.
    pub fn accept(&mut self, number: u32, uid: u64, param: &Param, ece: Ece) -> Result<()> {
        let id = self.id(number)?;
        id.expect(&[Stage::Connecting])?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        if !id.passive {
            return Err(Errno::INVAL);
        }
        let reply = id.reply(param, ece);
        // Before anything is sent, because the events that follow are reported to the program.
        (id.uid, id.accepted) = (uid, true);
        id.numbers.responder_resources = param.responder_resources;
        id.numbers.initiator_depth = param.initiator_depth;
        let accepted = if id.is_datagram() {
            self.answer(number, 0, param)
        } else {
            reply.and_then(|reply| {
                let accept =
                    |agent: &mut Agent<Route>| agent.accept(comm_id, &reply, milliseconds());
                self.with_agent(&node, accept).map_err(|_| Errno::INVAL)
            })
        };
        if accepted.is_err() {
            // Refused already, or given up by the peer.
            let _ = self.reject(number, CONSUMER, &[]);
        }
        accepted
    }

    /// Answers a request for a datagram service.
    fn answer(&mut self, number: u32, status: u8, param: &Param) -> Result<()> {
        let id = self.id(number)?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        let answer = Answer {
            status,
            qpn: param.qp_num,
            q_key: if status == 0 { Q_KEY } else { 0 },
            options: 0,
            private_data: field(&[param.data()])?,
        };
        let answered = self.with_agent(&node, |agent| {
            agent.answer(comm_id, &answer, milliseconds())
        });
        self.by_comm_id.remove(&comm_id);
        answered.map_err(|_| Errno::INVAL)
    }

    /// The queue pair is ready: the peer's reply is answered.
    ///
    /// # Errors
    /// EINVAL unless there is one.
    pub fn establish(&mut self, number: u32) -> Result<()> {
        let id = self.id(number)?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        self.with_agent(&node, |agent| agent.establish(comm_id))
            .map_err(|_| Errno::INVAL)
    }

    /// # Errors
    /// EINVAL without a connection, for an unknown reason, for too much private data.
    pub fn reject(&mut self, number: u32, reason: u8, data: &[u8]) -> Result<()> {
        let id = self.id(number)?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        let reason = match reason {
            0 | CONSUMER => CONSUMER,
            VENDOR_OPTION => VENDOR_OPTION,
            _ => return Err(Errno::INVAL),
        };
        if id.is_datagram() {
            const REJECTED: u8 = 2;
            let mut param: Param = bytemuck::Zeroable::zeroed();
            param.append(data);
            return self.answer(number, REJECTED, &param);
        }
        let reject = agent::Reject {
            reason: reason.into(),
            private_data: field(&[data])?,
        };
        self.with_agent(&node, |agent| agent.reject(comm_id, &reject))
            .map_err(|_| Errno::INVAL)
    }

    /// Ends a connection, or answers the peer's request to end it. There may be no message to send.
    ///
    /// # Errors
    /// EINVAL for an id that never had a connection.
    pub fn disconnect(&mut self, number: u32) -> Result<()> {
        let id = self.id(number)?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        let _ = self.with_agent(&node, |agent| agent.disconnect(comm_id, milliseconds()));
        Ok(())
    }

    /// An asynchronous event of the queue pair: data has come before the peer's last message.
    ///
    /// # Errors
    /// EINVAL for another event, or without a connection; EISCONN if it is established.
    pub fn notify(&mut self, number: u32, event: u32) -> Result<()> {
        let id = self.id(number)?;
        let (comm_id, node) = (id.comm_id.ok_or(Errno::INVAL)?, id.node()?);
        if event != IBV_EVENT_COMM_EST || !id.passive {
            return Err(Errno::INVAL);
        }
        self.with_agent(&node, |agent| match agent.state(comm_id) {
            Some(agent::State::Established) => Err(Errno(libc::EISCONN)),
            _ => agent.establish(comm_id).map_err(|_| Errno::INVAL),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_has_to_fit() {
        assert_eq!(field::<4>(&[&[1, 2], &[3]]), Ok([1, 2, 3, 0]));
        assert_eq!(field::<4>(&[&[1, 2], &[3, 4, 5]]), Err(Errno::INVAL));
    }
}
