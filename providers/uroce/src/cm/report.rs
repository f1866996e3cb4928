//! Converts the agent's reports into events of ids.

use super::address::{self, Route};
use super::host::Network;
use super::id::{ACK_DELAY, HOPS, Id, Numbers, Stage, ack_timeout};
use super::state::{State, milliseconds, random};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::cm::{Ece, Param, Record, UdParam, event_type};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use uroce_cm::agent::{Answer, Event, Reject};
use uroce_cm::ip::{Header, port_of};
use uroce_cm::times::Times;
use uroce_cm::wire::{Rej, Rep, Req, SidrRep, SidrReq};

const TIMED_OUT: i32 = -libc::ETIMEDOUT;
/// The reason for failures of the passive side.
const CONSUMER: u16 = 28;

/// A request for a connection or a datagram service, as far as both have the same.
struct Incoming<'a> {
    comm_id: u32,
    listener: u64,
    route: Route,
    service: u64,
    private_data: &'a [u8],
}

impl State {
    /// Takes a report of the agent.
    pub fn report(&mut self, network: &dyn Network, comm_id: u32, event: &Event) {
        match event {
            Event::ConnectRequest {
                listener,
                request,
                options,
            } => return self.on_request(network, (comm_id, *listener), request, *options),
            Event::ResolutionRequest { listener, request } => {
                return self.on_resolution(network, (comm_id, *listener), request);
            }
            _ => {}
        }
        let Some(number) = self.by_comm_id.get(&comm_id).copied() else {
            return;
        };
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        // A program that has not accepted a request does not hear of its end.
        let is_told = id.accepted;
        match event {
            Event::Reply { reply, options } => {
                id.numbers.take_reply(reply);
                let ece = ece_of_reply(reply, *options);
                let param = param_of_reply(reply);
                self.watch_peer(network, comm_id);
                self.post_event(number, event_type::CONNECT_RESPONSE, 0, |record| {
                    record.set_conn(&param);
                    record.ece = ece;
                });
            }
            Event::Established if id.passive && is_told => {
                self.watch_peer(network, comm_id);
                self.post_event(number, event_type::ESTABLISHED, 0, |_| ());
            }
            Event::Rejected { reject } if is_told => self.on_rejected(number, reject),
            Event::Rejected { .. } => id.stage = Stage::Disconnected,
            Event::Unreachable if is_told => {
                self.post_event(number, event_type::UNREACHABLE, TIMED_OUT, |_| ());
            }
            Event::DisconnectRequest => self.on_end(number, 0),
            Event::Disconnected { answered } => {
                self.on_end(number, if *answered { 0 } else { TIMED_OUT });
            }
            Event::TimewaitExit if is_told => {
                self.post_event(number, event_type::TIMEWAIT_EXIT, 0, |_| ());
            }
            Event::Resolved { reply, .. } => self.on_resolved(number, comm_id, reply),
            _ => {}
        }
    }

    fn on_rejected(&mut self, number: u32, reject: &Rej) {
        let mut param = Param::zeroed();
        param.append(&reject.private_data);
        let status = i32::from(reject.reason);
        self.post_event(number, event_type::REJECTED, status, |record| {
            record.set_conn(&param);
        });
    }

    /// A connection has ended, which is reported once.
    fn on_end(&mut self, number: u32, status: i32) {
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        if id.stage != Stage::Connecting {
            return;
        }
        id.stage = Stage::Disconnected;
        if id.accepted {
            self.post_event(number, event_type::DISCONNECTED, status, |_| ());
        }
    }

    fn on_resolved(&mut self, number: u32, comm_id: u32, reply: &SidrRep) {
        self.by_comm_id.remove(&comm_id);
        let Some(id) = self.ids.get(&number) else {
            return;
        };
        let mut param = UdParam::zeroed();
        put_data(&mut param, &reply.private_data);
        let (event, status) = match reply.status {
            0 => (event_type::ESTABLISHED, 0),
            status => (event_type::UNREACHABLE, status.into()),
        };
        if status == 0 {
            param.qp_num = reply.qpn;
            param.qkey = reply.q_key;
            param.ah_attr = id.ah_attr();
        }
        self.post_event(number, event, status, |record| record.set_ud(&param));
    }

    fn on_request(
        &mut self,
        network: &dyn Network,
        (comm_id, listener): (u32, u64),
        request: &Req,
        options: u32,
    ) {
        let qp_type = match (
            request.transport_service_type,
            request.extended_transport_type,
        ) {
            (0, _) => IBV_QPT_RC,
            (1, _) => IBV_QPT_UC,
            (3, 1) => IBV_QPT_XRC_RECV,
            _ => 0,
        };
        let incoming = Incoming {
            comm_id,
            listener,
            route: self.route_of(network, comm_id),
            service: request.service_id,
            private_data: &request.private_data,
        };
        let made = self.requested(&incoming, qp_type);
        let Some((mut id, data)) = made else {
            let reject = Reject {
                reason: CONSUMER,
                private_data: [0; 148],
            };
            let _ = self.agent(network.slot()).reject(comm_id, &reject);
            self.agent(network.slot()).close(comm_id, milliseconds());
            return;
        };
        id.numbers.take_request(request);
        let mut param = Param {
            qp_num: request.local_qpn,
            srq: request.srq.into(),
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            flow_control: request.end_to_end_flow_control.into(),
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            ..Param::zeroed()
        };
        param.append(&data);
        let ece = Ece {
            vendor_id: request.vendor_id,
            attr_mod: options,
        };
        self.hand_to_listener(&incoming, id, |record| {
            record.set_conn(&param);
            record.ece = ece;
        });
        self.watch_peer(network, comm_id);
    }

    fn on_resolution(
        &mut self,
        network: &dyn Network,
        (comm_id, listener): (u32, u64),
        request: &SidrReq,
    ) {
        let incoming = Incoming {
            comm_id,
            listener,
            route: self.route_of(network, comm_id),
            service: request.service_id,
            private_data: &request.private_data,
        };
        let Some((id, data)) = self.requested(&incoming, IBV_QPT_UD) else {
            let _ = self
                .agent(network.slot())
                .answer(comm_id, &Answer::rejected(), milliseconds());
            return;
        };
        let mut param = UdParam::zeroed();
        put_data(&mut param, &data);
        self.hand_to_listener(&incoming, id, |record| record.set_ud(&param));
    }

    fn route_of(&mut self, network: &dyn Network, comm_id: u32) -> Route {
        let route = self.agent(network.slot()).path(comm_id);
        route.unwrap_or_else(|| Route::new([0; 4].into(), [0; 4].into(), 0))
    }

    /// The id of a request, and the private data of its program; `None` for one that cannot be
    /// taken.
    fn requested(&self, incoming: &Incoming<'_>, qp_type: ibv_qp_type) -> Option<(Id, Vec<u8>)> {
        let listener = u32::try_from(incoming.listener).ok()?;
        let listener = self.ids.get(&listener)?;
        let (header, data) = Header::parse(incoming.private_data).ok()?;
        let route = incoming.route;
        // The program gets the header's addresses, so they have to be correct.
        let is_true = header.destination == route.source && header.source == route.destination;
        if !is_true || listener.qp_type != qp_type {
            return None;
        }
        let port = address::port_of(route.source, 0).ok()?;
        if listener
            .port
            .as_ref()
            .is_some_and(|own| own.interface() != port.interface())
        {
            return None;
        }
        let (_, own_port) = port_of(incoming.service)?;
        let with_scope = |ip: IpAddr, number: u16| match ip {
            IpAddr::V6(v6) if route.path().interface != 0 => {
                SocketAddr::V6(SocketAddrV6::new(v6, number, 0, route.path().interface))
            }
            _ => SocketAddr::new(ip, number),
        };
        let mut id = Id::new(0, listener.channel, (listener.space, qp_type));
        id.stage = Stage::Connecting;
        id.source = Some(with_scope(route.source, own_port));
        id.destination = Some(with_scope(route.destination, header.source_port));
        id.numbers.mtu = port.mtu_code();
        id.numbers.hop_limit = HOPS;
        id.port = Some(port);
        id.node.clone_from(&listener.node);
        id.options.traffic_class = listener.options.traffic_class;
        id.options.ack_timeout = listener.options.ack_timeout;
        id.comm_id = Some(incoming.comm_id);
        id.route = Some(route);
        id.numbers.own_psn = random() & 0x00ff_ffff;
        id.accepted = false;
        id.passive = true;
        Some((id, data.to_vec()))
    }

    fn hand_to_listener(
        &mut self,
        incoming: &Incoming<'_>,
        id: Id,
        fill: impl FnOnce(&mut Record),
    ) {
        let number = self.number();
        self.by_comm_id.insert(incoming.comm_id, number);
        self.ids.insert(number, id);
        let listener = u32::try_from(incoming.listener).unwrap_or(0);
        self.post_event(listener, event_type::CONNECT_REQUEST, 0, |record| {
            fill(record);
            record.id = number;
        });
    }
}

fn put_data(param: &mut UdParam, data: &[u8]) {
    let mut conn = Param::zeroed();
    conn.append(data);
    param.private_data = conn.private_data;
    param.private_data_len = conn.private_data_len;
}

fn ece_of_reply(reply: &Rep, options: u32) -> Ece {
    let vendor = [0, reply.vendor_id_h, reply.vendor_id_m, reply.vendor_id_l];
    Ece {
        vendor_id: u32::from_be_bytes(vendor),
        attr_mod: options,
    }
}

/// The number of the peer's queue pair: an XRC target's stands elsewhere.
fn qpn_of(reply: &Rep) -> u32 {
    match reply.local_qpn {
        0 => reply.local_ee_context_number,
        number => number,
    }
}

fn param_of_reply(reply: &Rep) -> Param {
    let mut param = Param {
        qp_num: qpn_of(reply),
        srq: reply.srq.into(),
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: reply.end_to_end_flow_control.into(),
        rnr_retry_count: reply.rnr_retry_count,
        ..Param::zeroed()
    };
    param.append(&reply.private_data);
    param
}

impl Numbers {
    fn take_reply(&mut self, reply: &Rep) {
        self.peer_psn = reply.starting_psn;
        self.peer_qpn = qpn_of(reply);
        self.responder_resources = reply.initiator_depth;
        self.initiator_depth = reply.responder_resources;
        self.rnr_retry_count = reply.rnr_retry_count;
        self.timeout = ack_timeout(reply.target_ack_delay, Times::default().packet_life);
        self.complete = true;
    }

    fn take_request(&mut self, request: &Req) {
        // An MTU that there is not is not to get into a queue pair.
        if (1..=5).contains(&request.path_packet_payload_mtu) {
            self.mtu = self.mtu.min(request.path_packet_payload_mtu);
        }
        self.peer_psn = request.starting_psn;
        self.peer_qpn = request.local_qpn;
        self.responder_resources = request.initiator_depth;
        self.initiator_depth = request.responder_resources;
        self.retry_count = request.retry_count;
        self.rnr_retry_count = request.rnr_retry_count;
        self.timeout = match request.primary_local_ack_timeout {
            0 => ack_timeout(ACK_DELAY, Times::default().packet_life),
            timeout => timeout,
        };
        self.traffic_class = request.primary_traffic_class;
        self.flow_label = request.primary_flow_label;
        self.complete = true;
    }
}
