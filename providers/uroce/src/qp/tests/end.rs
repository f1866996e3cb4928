//! A queue pair with its completion queue and memory, for tests in a network namespace.

use super::super::{CreateParams, QpState, XrcDomain};
use crate::carrier::shm::Peer;
use crate::channel::{Kind, Records};
use crate::context::Context;
use crate::cq::Cq;
use crate::device::{self, Port};
use crate::memory::{Mr, Pd, PdId};
use crate::node::{Caller, Node};
use bytemuck::Zeroable;
use kit::abi::kernel::ib_uverbs_async_event_desc;
use kit::abi::*;
use kit::errno::Errno;
use kit::provider::{Data, ReceiveRequest, SendRequest, Token};
use kit::sys::scratch::Scratch;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uroce_engine::qp::Service;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
/// Bounds a wait for an event that has to happen.
pub const HANG: Duration = Duration::from_secs(20);

pub fn port() -> Arc<Port> {
    let ports = device::ports().expect("ports");
    let interfaces = ports.look().expect("interfaces");
    let lo = interfaces.iter().find(|i| i.name == "lo").expect("lo");
    ports.of(lo.index).expect("a port")
}

pub fn av() -> ibv_ah_attr {
    let mut av = ibv_ah_attr::zeroed();
    av.is_global = 1;
    av.port_num = 1;
    av.grh.dgid = device::gid_of([127, 0, 0, 1].into());
    av.grh.hop_limit = 64;
    let table = port().gid_table();
    let own = table.iter().find(|entry| {
        let gid = |gid: ibv_gid| gid.bytes();
        gid(entry.gid) == gid(av.grh.dgid)
    });
    av.grh.sgid_index = u8::try_from(own.expect("its address").gid_index).expect("small");
    av
}

/// A queue pair, its queue and its memory.
pub struct End {
    pub state: Arc<QpState>,
    pub cq: Arc<Cq>,
    pub node: Arc<Node>,
    pub memory: Scratch,
    pub mr: Mr,
    /// Asynchronous events.
    events: OwnedFd,
}

impl End {
    pub fn new(service: Service) -> Self {
        Self::with(service, None)
    }

    pub fn with(service: Service, xrcd: Option<Arc<dyn XrcDomain>>) -> Self {
        let node = Node::get().expect("a node");
        let (records, reader) = Records::new(Kind::Asynchronous).expect("events");
        let records = Arc::new(records);
        let cq = Cq::new(Token(1), 64, None, Arc::clone(&records), false).expect("a queue");
        let cq = Arc::new(cq);
        let pd = Pd::new().id();
        let memory = Scratch::new(2).expect("memory");
        let range = memory.memory();
        let (mr, _) = node
            .keys()
            .register(pd, range, range.address() as u64, ACCESS)
            .expect("registered");
        let is_target = service == Service::XrcTarget;
        let mut cap = ibv_qp_cap::zeroed();
        cap.max_send_wr = 16;
        cap.max_recv_wr = 16;
        cap.max_send_sge = 1;
        cap.max_recv_sge = 1;
        let params = CreateParams {
            node: Arc::clone(&node),
            port: port(),
            events: records,
            service,
            pd: if is_target { PdId::NONE } else { pd },
            send_cq: (!is_target).then(|| Arc::clone(&cq)),
            recv_cq: (!is_target).then(|| Arc::clone(&cq)),
            srq: None,
            xrcd,
            cap,
            sq_sig_all: true,
        };
        let mut made = None;
        node.attach(|number| {
            let state = Arc::new_cyclic(|me| QpState::new(number, Token(2), params, me));
            made = Some(Arc::clone(&state));
            Ok(state)
        })
        .expect("a number");
        Self {
            state: made.expect("made"),
            cq,
            node,
            memory,
            mr,
            events: reader,
        }
    }

    pub fn sge(&self) -> ibv_sge {
        ibv_sge {
            addr: self.memory.memory().address() as u64,
            length: 8,
            lkey: self.mr.key(),
        }
    }

    pub fn post(&self, id: u64, opcode: ibv_wr_opcode) -> Result<(), Errno> {
        let sges = [self.sge()];
        let mut request = SendRequest::<Context>::new(id, opcode, 0);
        request.data = Data::Sges(&sges);
        self.state.post_send(&mut Some(request).into_iter())
    }

    pub fn receive(&self, id: u64) {
        let sges = [self.sge()];
        let mut requests = std::iter::once(ReceiveRequest { id, sges: &sges });
        self.state.post_recv(&mut requests).expect("posted");
    }

    pub fn outstanding(&self) -> [usize; 2] {
        let locked = self.state.locked.lock();
        let engine = locked.connection.engine();
        [locked.fast_path.outstanding(), engine.outstanding()]
    }

    /// The next completions: identifier, status and opcode.
    pub fn wait(&self, count: usize) -> Vec<(u64, u32, u32)> {
        let began = Instant::now();
        let mut done = Vec::new();
        while done.len() < count {
            assert!(began.elapsed() < HANG, "{done:?}");
            let mut room = [ibv_wc::zeroed(); 1];
            if self.cq.poll(&mut room) == 0 {
                self.node.progress(Caller::Node);
                std::thread::yield_now();
                continue;
            }
            let [wc] = room;
            done.push((wc.wr_id, wc.status, wc.opcode));
        }
        done
    }

    pub fn modify(&self, state: ibv_qp_state) {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        self.state.modify(&attr, IBV_QP_STATE).expect("modified");
    }

    /// Packets that came for its protocol.
    pub fn packets_received(&self) -> u64 {
        let locked = self.state.locked.lock();
        locked.connection.engine().counters().packets_received
    }

    /// The type of the next asynchronous event; `None` if there is none.
    pub fn event(&self) -> Option<u32> {
        rustix::io::ioctl_fionbio(&self.events, true).expect("a pipe");
        let mut room = [0; size_of::<ib_uverbs_async_event_desc>()];
        rustix::io::read(&self.events, &mut room).ok()?;
        let event: ib_uverbs_async_event_desc = bytemuck::pod_read_unaligned(&room);
        Some(event.event_type)
    }

    /// To RTS, or to RTR for queue pairs that only receive.
    pub fn connect(&self, peer: u32) {
        let last = match self.state.resources().xrcd() {
            Some(_) => IBV_QPS_RTR,
            None => IBV_QPS_RTS,
        };
        self.connect_up_to(peer, last);
    }

    /// To RTR or RTS.
    pub fn connect_up_to(&self, peer: u32, last: ibv_qp_state) {
        let mut attr = ibv_qp_attr::zeroed();
        attr.port_num = 1;
        attr.qp_access_flags = ACCESS;
        attr.ah_attr = av();
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer;
        attr.min_rnr_timer = 1;
        attr.max_rd_atomic = 1;
        attr.max_dest_rd_atomic = 1;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        const RELIABLE: u32 = IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        let init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        let rtr = IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        let rts = IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        let steps = [(IBV_QPS_INIT, init), (IBV_QPS_RTR, rtr), (IBV_QPS_RTS, rts)];
        for (state, mask) in steps.into_iter().filter(|(state, _)| *state <= last) {
            attr.qp_state = state;
            let mask = IBV_QP_STATE | mask;
            let mask = match self.state.resources().service() {
                Service::Uc => mask & !RELIABLE,
                _ => mask,
            };
            self.state.modify(&attr, mask).expect("modified");
        }
    }

    /// The process of the connected peer, with which there is a link.
    pub fn peer(&self) -> Arc<Peer> {
        let locked = self.state.locked.lock();
        locked.connection.peer().map(Arc::clone).expect("a link")
    }

    pub fn await_link(&self) {
        let began = Instant::now();
        while self.state.locked.lock().connection.peer().is_none() {
            assert!(began.elapsed() < HANG, "no link");
            self.node.progress(Caller::Node);
            std::thread::yield_now();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.state.remove_token(Token(2));
        self.state.end();
    }
}

/// Two connected reliable queue pairs, with a link.
pub fn pair() -> [End; 2] {
    let ends = [End::new(Service::Rc), End::new(Service::Rc)];
    ends[0].connect(ends[1].state.number());
    ends[1].connect(ends[0].state.number());
    ends.iter().for_each(End::await_link);
    ends
}
