//! An open device: the provider's side of every verb (`kit::provider::Provider`). Each
//! `ibv_open_device` creates one [`Context`], over the node of the process and the port of the
//! device.
//!
//! Posting converts a request, passes it to the engine, and transmits, on the thread that posts.
//! Polling takes completions; an empty queue makes the node progress once and is checked again.
//!
//! *Addresses* (`crate::address`). A path to a foreign address is looked up in the routes when it
//! is made (`netdev::route`), by interface and source address, without waiting for neighbours. A
//! connected queue pair accepts packets only from its peer's address. A datagram must be addressed
//! to the device or to a group. A posted datagram leaves also if its address handle is destroyed
//! before.
//!
//! *Datagrams* have the network header in 40 bytes before the payload, an IPv4 header in the last
//! 20. The service level of the completion holds the type of the header, as for ConnectX cards (8 +
//! 1 for IPv6, 8 + 2 for IPv4): RoCE v2 has no service level, and UCX reads it there.
//!
//! *Attribute values* that kernel drivers mask are masked here too.
//! `c-tests/programs/support/edges.h` lists them; the tests compare them with soft-RoCE.

use crate::address::{self, Ah};
use crate::channel::{Channels, Kind, Records};
use crate::clock;
use crate::cq::Cq;
use crate::device::{Listener, NUMBER, Port};
use crate::limits;
use crate::memory::{Dm, Mr, Mw, Pd, PdId};
use crate::node::{Caller, Node};
use crate::qp::{CreateParams, Named, Qp, QpState, XrcDomain, attributes, counting};
use crate::raw;
use crate::receive::Srq;
use crate::threads;
use crate::xrc::{Ground, Xrcd};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{
    BindInfo, CompCntr, CqInit, Edges, FlowInit, Keys, Polled, Provider, QpInit, ReceiveRequest,
    ReportedEvents, Rereg, SendChain, SendRequest, SrqInit, Token, WqChange, WqInit,
};
use kit::sync::Mutex;
use kit::sys::application::ApplicationMemory;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use uroce_engine::qp::Service;

/// An open device.
pub struct Context {
    node: Arc<Node>,
    port: Arc<Port>,
    events: Arc<Records>,
    channels: Channels,
    /// Queue pairs that it made and that may still be there.
    made: Mutex<HashMap<u32, Weak<QpState>>>,
    /// The same for raw packets.
    raw: raw::Made,
    /// Events of the port come as long as it is kept.
    _listener: Arc<Listener>,
}

impl Context {
    /// Makes progress for a caller that found a queue empty.
    fn progress_for(&self, cq: &Cq) {
        let mark = threads::mark();
        cq.attend(mark);
        self.node.progress(Caller::Poller(mark));
    }

    /// The calling thread has polled a queue that was not empty.
    fn polled(&self, cq: &Cq) {
        let mark = threads::mark();
        cq.attend(mark);
        if !cq.is_empty() {
            self.node.polled(Caller::Poller(mark));
        }
    }

    /// Opens the device of a port; also answers the descriptor of asynchronous events.
    ///
    /// # Errors
    /// The error of [`Node::get`]; EMFILE, ENFILE, ENOMEM.
    pub fn open(port: &Arc<Port>) -> Result<(Self, OwnedFd)> {
        let node = Node::get()?;
        let (events, async_fd) = Records::new(Kind::Asynchronous)?;
        let events = Arc::new(events);
        let port_events = Arc::clone(&events);
        let context = Self {
            node,
            port: Arc::clone(port),
            _listener: port.subscribe(move |event| port_events.port(event, NUMBER)),
            events,
            channels: Channels::default(),
            made: Mutex::default(),
            raw: raw::Made::default(),
        };
        Ok((context, async_fd))
    }

    fn create_params(&self, init: &QpInit<'_, Self>, service: Service) -> Result<CreateParams> {
        let needed = |there: bool| if there { Ok(()) } else { Err(Errno::INVAL) };
        match service {
            Service::XrcTarget => needed(init.xrcd.is_some() && init.srq.is_none())?,
            Service::XrcInitiator => needed(init.send_cq.is_some() && init.srq.is_none())?,
            _ => needed(init.send_cq.is_some() && init.recv_cq.is_some())?,
        }
        let pd = match init.pd {
            Some(pd) => pd.id(),
            None if service == Service::XrcTarget => PdId::NONE,
            None => return Err(Errno::INVAL),
        };
        Ok(CreateParams {
            node: Arc::clone(&self.node),
            port: Arc::clone(&self.port),
            events: Arc::clone(&self.events),
            service,
            pd,
            send_cq: init.send_cq.cloned(),
            recv_cq: init.recv_cq.cloned(),
            srq: init.srq.cloned(),
            xrcd: init.xrcd.map(|xrcd| Arc::clone(xrcd) as Arc<dyn XrcDomain>),
            cap: *init.cap,
            sq_sig_all: init.sq_sig_all,
        })
    }

    /// A queue pair of raw packets.
    fn create_raw(&self, init: &mut QpInit<'_, Self>) -> Result<(Qp, u32)> {
        if let Some(rss) = &init.rss {
            // It is of no use without the others.
            raw::check_rights(self.port.interface())?;
            let spread = raw::Spread::create(&self.node, rss)?;
            *init.cap = ibv_qp_cap::zeroed();
            let number = spread.number;
            return Ok((Qp::Spread(Arc::new(spread)), number));
        }
        let (Some(pd), Some(send_cq), Some(recv_cq)) = (init.pd, init.send_cq, init.recv_cq) else {
            return Err(Errno::INVAL);
        };
        *init.cap = sizes(init.cap, Service::Ud, init.srq.is_some())?;
        let params = raw::RawQpParams {
            node: Arc::clone(&self.node),
            port: Arc::clone(&self.port),
            events: Arc::clone(&self.events),
            token: init.token,
            pd: pd.id(),
            send_cq: Arc::clone(send_cq),
            recv_cq: Arc::clone(recv_cq),
            srq: init.srq.cloned(),
            cap: *init.cap,
            sq_sig_all: init.sq_sig_all,
        };
        let qp = raw::RawQp::create(params)?;
        self.raw.qp(&qp);
        let number = qp.number;
        Ok((Qp::Raw(qp), number))
    }
}

/// Bytes of `struct ibv_sge`.
const SGE: u32 = 16;

/// The sizes that a queue pair is made with. Those of a queue that it does not have are not looked
/// at (ibv_create_qp(3)), and are 0 in the answer.
///
/// # Errors
/// EINVAL for more than [`limits`] has.
fn sizes(asked: &ibv_qp_cap, service: Service, shared: bool) -> Result<ibv_qp_cap> {
    let within = |used: bool, value: u32, most: u32| match used {
        true if value > most => Err(Errno::INVAL),
        true => Ok(value),
        false => Ok(0),
    };
    let sends = service.requests();
    let max_send_sge = within(sends, asked.max_send_sge, limits::MAX_SGE)?;
    let max_inline_data = within(sends, asked.max_inline_data, limits::MAX_INLINE)?;
    // As much as the elements of a request take, as soft-RoCE has it: programs of rdmacm-utils send
    // inline without having asked for it.
    let room = max_send_sge.saturating_mul(SGE).min(limits::MAX_INLINE);
    let least = |[connected, datagrams]: [u32; 2]| match service {
        Service::Ud => datagrams,
        _ if sends => connected,
        _ => 0,
    };
    let receives = service.responds() && !shared && service != Service::XrcTarget;
    let max_send_wr = within(sends, asked.max_send_wr, limits::MAX_WR)?;
    let max_recv_wr = within(receives, asked.max_recv_wr, limits::MAX_WR)?;
    Ok(ibv_qp_cap {
        max_send_wr: limits::requests(max_send_wr),
        max_recv_wr: limits::requests(max_recv_wr),
        max_send_sge: max_send_sge.max(least(limits::LEAST_SGE)),
        max_recv_sge: within(receives, asked.max_recv_sge, limits::MAX_SGE)?,
        max_inline_data: max_inline_data.max(room).max(least(limits::LEAST_INLINE)),
    })
}

impl Edges for Context {
    fn create_comp_channel(&self) -> Result<OwnedFd> {
        self.channels.create()
    }

    fn destroy_comp_channel(&self, channel: BorrowedFd<'_>) {
        self.channels.destroy(channel);
    }

    fn gid_entry(&self, port: u32, index: u32) -> Result<ibv_gid_entry> {
        self.port.gid_entry(port, index)
    }

    fn gid_table(&self) -> Result<Vec<ibv_gid_entry>> {
        Ok(self.port.gid_table())
    }

    fn pkey(&self, port: u8, index: u32) -> Result<be16> {
        self.port.pkey(port, index)
    }
}

impl Provider for Context {
    type Pd = Pd;
    type Mr = Mr;
    type Mw = Mw;
    type Dm = Dm;
    type Cq = Arc<Cq>;
    type Srq = Arc<Srq>;
    type Qp = Qp;
    type Ah = Ah;
    type Xrcd = Xrcd;
    type Wq = raw::Wq;
    type WqTable = raw::Table;
    type Flow = raw::Flow;
    type Counters = raw::Counters;

    const SHARES_BUFFERS: bool = true;

    /// Queue pairs that the application did not destroy leave the node: nothing arrives at them any
    /// more. A target that others have opened stays.
    fn close(&self) {
        self.raw.end();
        let left: Vec<_> = self.made.lock().drain().map(|(_, state)| state).collect();
        for state in left.iter().filter_map(Weak::upgrade) {
            if !state.is_shared() {
                state.close();
                self.node.detach(state.number());
            }
        }
    }

    fn query_device(&self, attr: &mut ibv_device_attr_ex) -> Result<()> {
        limits::report(attr);
        attr.orig_attr.node_guid = self.port.guid();
        attr.orig_attr.sys_image_guid = self.port.guid();
        Ok(())
    }

    fn query_port(&self, port: u8, attr: &mut ibv_port_attr) -> Result<()> {
        if port != 1 {
            return Err(Errno::INVAL);
        }
        self.port.query(attr);
        attr.max_msg_sz = limits::MAX_MESSAGE_SIZE;
        Ok(())
    }

    fn query_port_speed(&self, port: u32) -> Result<u64> {
        if port != 1 {
            return Err(Errno::INVAL);
        }
        Ok(self.port.speed())
    }

    fn comp_cntr_ops(&self) -> u32 {
        counting::OPERATIONS
    }

    fn attach_comp_cntr(&self, qp: &Qp, cntr: Arc<CompCntr>, ops: u32) -> Result<()> {
        qp.state()?.count_on(cntr, ops)
    }

    fn raw_clock(&self) -> Result<libc::timespec> {
        let nanos = clock::device(clock::now());
        // As cards report their cycles; programs read nothing else.
        Ok(libc::timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(nanos).map_err(|_| Errno::OVERFLOW)?,
        })
    }

    fn alloc_pd(&self) -> Result<Pd> {
        Ok(Pd::new())
    }

    fn reg_mr(
        &self,
        pd: &Arc<Pd>,
        memory: ApplicationMemory,
        iova: u64,
        access: u32,
    ) -> Result<(Mr, Keys)> {
        self.node.keys().register(pd.id(), memory, iova, access)
    }

    fn rereg_mr(&self, mr: &Arc<Mr>, change: &Rereg<'_, Self>) -> Result<Keys> {
        let pd = change.pd.map(|pd| pd.id());
        self.node.keys().rereg(mr, change.range, pd, change.access)
    }

    fn dereg_mr(&self, mr: &Arc<Mr>) -> Result<()> {
        self.node.keys().deregister(mr)
    }

    fn alloc_null_mr(&self, pd: &Arc<Pd>) -> Result<(Mr, Keys)> {
        self.node.keys().null_mr(pd.id())
    }

    fn advise_mr(&self, pd: &Arc<Pd>, advice: u32, flags: u32, sges: &[ibv_sge]) -> Result<()> {
        self.node.keys().advise(pd.id(), advice, flags, sges)
    }

    fn alloc_dm(&self, length: usize, log_align: u32) -> Result<Dm> {
        Dm::new(length, log_align)
    }

    fn free_dm(&self, _: &Arc<Dm>) -> Result<()> {
        Ok(())
    }

    fn write_dm(&self, dm: &Arc<Dm>, offset: u64, data: &[u8]) -> Result<()> {
        dm.write(offset, data)
    }

    fn read_dm(&self, dm: &Arc<Dm>, offset: u64, data: &mut [u8]) -> Result<()> {
        dm.read(offset, data)
    }

    fn reg_dm_mr(
        &self,
        pd: &Arc<Pd>,
        dm: &Arc<Dm>,
        offset: u64,
        length: usize,
        access: u32,
    ) -> Result<(Mr, Keys)> {
        let keys = self.node.keys();
        keys.register_dm(pd.id(), dm, offset, length, access)
    }

    fn alloc_mw(&self, pd: &Arc<Pd>, mw_type: ibv_mw_type) -> Result<(Mw, u32)> {
        self.node.keys().alloc_mw(pd.id(), mw_type)
    }

    fn dealloc_mw(&self, mw: &Arc<Mw>) -> Result<()> {
        self.node.keys().dealloc_mw(mw)
    }

    fn bind_mw(
        &self,
        qp: &Qp,
        mw: &Arc<Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, Self>,
    ) -> Result<u32> {
        qp.bind_mw(mw, id, flags, info)
    }

    fn create_cq(&self, init: &CqInit<'_>) -> Result<(Arc<Cq>, u32)> {
        if init.vector >= limits::VECTORS {
            return Err(Errno::INVAL);
        }
        let channel = init.channel.map(|fd| self.channels.find(fd)).transpose()?;
        let entries = limits::completions(init.entries);
        let events = Arc::clone(&self.events);
        let cq = Cq::new(init.token, entries, channel, events, init.ignore_overrun)?;
        let stamps = u64::from(
            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
        );
        let timed = init.readers.is_some_and(|readers| readers & stamps != 0);
        let cq = if timed { cq } else { cq.untimed() };
        Ok((Arc::new(cq), entries))
    }

    fn resize_cq(&self, cq: &Arc<Cq>, entries: u32) -> Result<u32> {
        let room = limits::completions(entries);
        cq.resize_with_slack(entries, room)?;
        Ok(room)
    }

    fn moderate_cq(&self, cq: &Arc<Cq>, count: u16, period: u16) -> Result<()> {
        cq.moderate(count, period)
    }

    fn destroy_cq(&self, cq: &Arc<Cq>) -> Result<ReportedEvents> {
        Ok(cq.reported())
    }

    fn poll_cq(&self, cq: &Arc<Cq>, room: &mut [ibv_wc]) -> Result<usize> {
        let found = cq.poll(room);
        if found > 0 || room.is_empty() {
            self.polled(cq);
            return Ok(found);
        }
        self.progress_for(cq);
        Ok(cq.poll(room))
    }

    fn poll_ex(&self, cq: &Arc<Cq>) -> Option<Polled> {
        let polled = cq.poll_ex();
        if polled.is_some() {
            self.polled(cq);
            return polled;
        }
        self.progress_for(cq);
        cq.poll_ex()
    }

    fn poll_next(&self, cq: &Arc<Cq>) -> Option<Polled> {
        cq.poll_ex()
    }

    fn req_notify_cq(&self, cq: &Arc<Cq>, solicited_only: bool) -> Result<()> {
        cq.arm(solicited_only);
        self.node.armed(Caller::Poller(threads::mark()));
        Ok(())
    }

    fn create_srq(&self, init: &mut SrqInit<'_, Self>) -> Result<(Arc<Srq>, u32)> {
        let attr = &mut *init.attr;
        // The limit does not count here, whatever it is (ibv_create_srq(3)).
        let within =
            attr.max_wr > 0 && attr.max_wr <= limits::MAX_WR && attr.max_sge <= limits::MAX_SGE;
        if !within {
            return Err(Errno::INVAL);
        }
        attr.max_wr = limits::requests(attr.max_wr);
        let events = Arc::clone(&self.events);
        let cq = init.xrc.as_ref().map(|xrc| Arc::clone(xrc.cq));
        // Numbers of those for XRC name the process, as QP numbers do.
        let slot = init.xrc.as_ref().map(|_| self.node.slot());
        let srq = Srq::new(init.token, init.pd.id(), attr, events, cq, slot)?;
        let srq = Arc::new(srq);
        if let Some(xrc) = &init.xrc {
            srq.enter(xrc.xrcd);
        }
        let number = srq.number();
        Ok((srq, number))
    }

    fn modify_srq(&self, srq: &Arc<Srq>, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        if mask & IBV_SRQ_MAX_WR != 0 && attr.max_wr > limits::MAX_WR {
            return Err(Errno::INVAL);
        }
        srq.modify(attr, mask)
    }

    fn query_srq(&self, srq: &Arc<Srq>) -> Result<ibv_srq_attr> {
        Ok(srq.query())
    }

    fn destroy_srq(&self, srq: &Arc<Srq>) -> Result<u32> {
        Ok(srq.leave())
    }

    fn post_srq_recv<'a>(
        &self,
        srq: &Arc<Srq>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        srq.post(requests)
    }

    fn create_qp(&self, init: &mut QpInit<'_, Self>) -> Result<(Qp, u32)> {
        // Nothing here cuts a message for TCP into segments.
        let segments = u64::from(IBV_QP_EX_WITH_TSO);
        if init.create_flags != 0 || init.max_tso_header != 0 || init.send_ops & segments != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if init.qp_type == IBV_QPT_RAW_PACKET {
            return self.create_raw(init);
        }
        let service = attributes::service(init.qp_type)?;
        *init.cap = sizes(init.cap, service, init.srq.is_some())?;
        let params = self.create_params(init, service)?;
        let token = init.token;
        let mut made = None;
        let number = self.node.attach(|number| {
            let state = Arc::new_cyclic(|me| QpState::new(number, token, params, me));
            made = Some(Arc::clone(&state));
            Ok(state)
        })?;
        let state = made.ok_or(Errno::NOMEM)?;
        let mut known = self.made.lock();
        known.insert(number, Arc::downgrade(&state));
        drop(known);
        if let Some(xrcd) = init.xrcd {
            xrcd.add_target(&state);
        }
        Ok((Qp::Protocol(Named { state, token }), number))
    }

    fn open_qp(&self, xrcd: &Arc<Xrcd>, number: u32, token: Token) -> Result<Qp> {
        let Some(state) = xrcd.target(number) else {
            let opened = xrcd.open_elsewhere(number, token, &self.events)?;
            return Ok(Qp::Elsewhere(opened));
        };
        state.add_token(token);
        Ok(Qp::Protocol(Named { state, token }))
    }

    fn modify_qp(&self, qp: &Qp, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        qp.modify(attr, mask)
    }

    fn query_qp(&self, qp: &Qp, attr: &mut ibv_qp_attr) -> Result<()> {
        qp.query(attr)
    }

    fn destroy_qp(&self, qp: &Qp) -> Result<u32> {
        let reported = qp.destroy()?;
        if let Ok(state) = qp.state()
            && !state.is_named()
        {
            // A weak reference keeps the memory. The number may be another's by now.
            let mut made = self.made.lock();
            let at = Arc::as_ptr(state);
            if made
                .get(&state.number())
                .is_some_and(|known| known.as_ptr() == at)
            {
                made.remove(&state.number());
            }
        }
        Ok(reported)
    }

    fn post_send<'a>(&self, qp: &Qp, requests: &mut impl SendChain<'a, Self>) -> Result<()> {
        qp.post_send(requests)
    }

    fn post_send_all<'a>(
        &self,
        qp: &Qp,
        requests: &mut impl ExactSizeIterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()> {
        qp.post_send_all(requests)
    }

    fn post_recv<'a>(
        &self,
        qp: &Qp,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        qp.post_recv(requests)
    }

    fn attach_mcast(&self, qp: &Qp, gid: &ibv_gid, _: u16) -> Result<()> {
        let state = qp.state()?;
        state.groups().attach(state.resources(), gid)
    }

    fn detach_mcast(&self, qp: &Qp, gid: &ibv_gid, _: u16) -> Result<()> {
        let state = qp.state()?;
        state.groups().detach(state.resources(), gid)
    }

    fn create_ah(&self, pd: &Arc<Pd>, attr: &ibv_ah_attr) -> Result<Ah> {
        let path = address::path(&self.port, attr)?;
        address::reachable(&path)?;
        Ok(Ah { pd: pd.id(), path })
    }

    fn open_xrcd(&self, file: Option<BorrowedFd<'_>>, flags: i32) -> Result<Xrcd> {
        let ground = Ground {
            node: Arc::clone(&self.node),
            port: Arc::clone(&self.port),
            events: Arc::clone(&self.events),
        };
        Xrcd::open(&ground, file, flags)
    }

    fn close_xrcd(&self, _: &Arc<Xrcd>) -> Result<()> {
        Ok(())
    }

    fn create_wq(&self, init: &mut WqInit<'_, Self>) -> Result<(raw::Wq, u32)> {
        if init.flags != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let (wr, sge) = (init.max_wr, init.max_sge);
        let wq = raw::Wq::create(&self.node, init.pd.id(), init.cq, wr, sge)?;
        let number = wq.number();
        Ok((wq, number))
    }

    fn modify_wq(&self, wq: &Arc<raw::Wq>, change: &WqChange) -> Result<ibv_wq_state> {
        wq.modify(change)
    }

    fn destroy_wq(&self, wq: &Arc<raw::Wq>) -> Result<u32> {
        wq.end();
        Ok(0)
    }

    fn post_wq_recv<'a>(
        &self,
        wq: &Arc<raw::Wq>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        wq.post(requests)
    }

    fn create_wq_table(&self, queues: &[&Arc<raw::Wq>]) -> Result<(raw::Table, u32)> {
        // Nothing asks for the number of a table.
        Ok((raw::Table::new(queues)?, 0))
    }

    fn destroy_wq_table(&self, _: &Arc<raw::Table>) -> Result<()> {
        Ok(())
    }

    fn create_flow(&self, qp: &Qp, init: &FlowInit<'_, Self>) -> Result<raw::Flow> {
        let target = match qp {
            Qp::Raw(raw) => raw::Target::Qp(Arc::clone(raw)),
            Qp::Spread(spread) => raw::Target::Spread(Arc::clone(spread)),
            // Datagrams come by their queue pair's number, and by no rule.
            Qp::Protocol(named) if named.state.resources().service() == Service::Ud => {
                return Err(Errno::OPNOTSUPP);
            }
            Qp::Protocol(_) | Qp::Elsewhere(_) => return Err(Errno::INVAL),
        };
        let (rule, counters) = raw::rule(init)?;
        let interface = self.port.interface();
        let flow = raw::Flow::create(&self.node, interface, rule, target, counters)?;
        self.raw.flow(&flow);
        Ok(flow)
    }

    fn destroy_flow(&self, flow: &Arc<raw::Flow>) -> Result<()> {
        flow.end();
        Ok(())
    }

    fn create_counters(&self) -> Result<raw::Counters> {
        Ok(raw::Counters::default())
    }

    fn destroy_counters(&self, _: &Arc<raw::Counters>) -> Result<()> {
        Ok(())
    }

    fn attach_counter(
        &self,
        counters: &Arc<raw::Counters>,
        what: ibv_counter_description,
        index: u32,
    ) -> Result<()> {
        counters.attach(what, index)
    }

    fn read_counters(&self, counters: &Arc<raw::Counters>, values: &mut [u64]) -> Result<()> {
        counters.read(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_inline_data_is_taken_unasked() {
        let asked = ibv_qp_cap {
            max_send_sge: 1,
            ..ibv_qp_cap::zeroed()
        };
        for (service, least) in [
            (Service::Rc, 60),
            (Service::Uc, 60),
            (Service::Ud, 28),
            (Service::XrcTarget, 0),
        ] {
            let made = sizes(&asked, service, false).map(|cap| cap.max_inline_data);
            assert_eq!(made, Ok(least), "{service:?}");
        }
    }
}
