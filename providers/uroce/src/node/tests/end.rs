//! A queue pair of the engine with a simulated host, as an endpoint of a node.

use super::api::{Caller, Endpoint, INDEX_BITS, Incoming, Node, Path, Peer, Sender, Via};
use kit::sync::Mutex;
use smallvec::smallvec;
use std::net::IpAddr;
use std::sync::Arc;
use uroce_engine::host::Fault;
use uroce_engine::outgoing::{Outgoing, Payload};
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Arrival, Config, Mtu, QueuePair, State};
use uroce_engine::sim::{BASE, Setup, SimHost, step};
use uroce_engine::timer::{AckTimeout, Time};
use uroce_engine::work::{Completion, Data, Receive, Sge, WorkRequest};

pub struct EndState {
    pub qp: QueuePair,
    pub host: SimHost,
    pub path: Path,
    /// The peer whose ring had no room for a packet.
    pub backpressured: Option<Arc<Peer>>,
}

pub struct End {
    pub inner: Mutex<EndState>,
    pub number: u32,
    pub node: Arc<Node>,
}

/// A path from an address to itself.
pub fn path(address: IpAddr) -> Path {
    Path {
        source: address,
        destination: address,
        interface: 0,
        traffic_class: 0,
        hop_limit: 64,
        local: false,
    }
}

pub fn fill(outgoing: &Outgoing<'_>, host: &SimHost, mut to: &mut [u8]) -> Result<(), Fault> {
    match outgoing.payload {
        Payload::Bytes(bytes) => to.copy_from_slice(bytes),
        Payload::Local(pieces) => {
            for piece in pieces {
                let bytes = host.local(piece.lkey, piece.address, piece.length);
                let bytes = bytes.ok_or(Fault)?;
                let (now, later) = to.split_at_mut(bytes.len());
                now.copy_from_slice(bytes);
                to = later;
            }
        }
        Payload::Remote {
            rkey,
            address,
            length,
        } => to.copy_from_slice(host.remote(rkey, address, length).ok_or(Fault)?),
    }
    Ok(())
}

impl Endpoint for End {
    fn receive(&self, now: Time, incoming: &Incoming<'_>, _: Caller) -> bool {
        let inner = &mut *self.inner.lock();
        let grh = incoming.grh();
        let arrival = Arrival {
            packet: &incoming.packet,
            grh: incoming.packet.headers.deth.map(|_| &grh),
        };
        inner.qp.receive(now, &arrival, &mut inner.host);
        true
    }

    fn transmit(&self, now: Time, out: &mut Sender<'_>, _: Caller) {
        let EndState {
            qp,
            host,
            path,
            backpressured,
        } = &mut *self.inner.lock();
        let waits = |peer: &Arc<Peer>| peer.waits(self.number & ((1 << INDEX_BITS) - 1));
        *backpressured = backpressured.take().filter(waits);
        while backpressured.is_none() && !out.is_full() {
            let Some(outgoing) = qp.transmit(now, host) else {
                break;
            };
            let origin = outgoing.origin;
            let length = outgoing.payload.length() as usize;
            let sent = out.push((path, Via::Destination), &outgoing.headers, length, |to| {
                fill(&outgoing, host, to)
            });
            if sent.is_err() {
                qp.gather_failed(origin, host);
            }
            *backpressured = out.take_backpressured().filter(waits);
        }
    }

    fn waits_for_room(&self) -> bool {
        self.inner.lock().backpressured.is_some()
    }

    fn on_time(&self, now: Time) {
        let inner = &mut *self.inner.lock();
        inner.qp.on_time(now, &mut inner.host);
    }

    fn hurry(&self) -> bool {
        self.inner.lock().qp.hurry()
    }

    fn expects_answers(&self) -> bool {
        self.inner.lock().qp.expects_answers()
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.lock().qp.deadline()
    }
}

impl End {
    /// A queue pair in RESET.
    pub fn new(
        node: &Arc<Node>,
        setup: &Setup,
        address: IpAddr,
        seed: u64,
        bytes: usize,
    ) -> Arc<Self> {
        let mut made = None;
        let number = node.attach(|number| {
            let config = Config {
                service: setup.service,
                number,
                max_send_wr: 256,
                sq_sig_all: false,
                shared_receives: false,
                port_mtu: setup.mtu,
                max_in_flight: 64,
            };
            let inner = EndState {
                qp: QueuePair::new(config),
                host: SimHost::sized(seed, bytes),
                path: path(address),
                backpressured: None,
            };
            let end = Arc::new(Self {
                inner: Mutex::new(inner),
                number,
                node: Arc::clone(node),
            });
            made = Some(Arc::clone(&end));
            Ok(end)
        });
        assert_eq!(number.ok(), made.as_ref().map(|end| end.number));
        made.expect("made")
    }

    pub fn connect(&self, setup: &Setup, peer: u32) {
        self.connect_to(setup, peer, setup.psn);
    }

    pub fn connect_to(&self, setup: &Setup, peer: u32, rq_psn: Psn) {
        let inner = &mut *self.inner.lock();
        inner.qp.delay_acknowledgements(setup.delays);
        for to in [State::Init, State::Rtr, State::Rts] {
            let mut modify = step(setup, setup.service, peer, to);
            // 0.5 s, eight times: the other side may have to wait for a CPU, long on a loaded
            // machine. An end with delayed acknowledgements is not asked again: 17 s.
            let timeout = if setup.delays { 22 } else { 17 };
            modify.values.rq_psn = rq_psn;
            modify.values.timeout = AckTimeout::new(timeout).expect("a code");
            assert_eq!(inner.qp.modify(&modify, &mut inner.host), Ok(()));
        }
    }

    pub fn post(&self, wr: WorkRequest) {
        {
            let inner = &mut *self.inner.lock();
            assert_eq!(inner.qp.post_send(wr, &mut inner.host), Ok(()));
        }
        self.node.post(self.number);
    }

    pub fn post_receive(&self, id: u64, offset: u64, length: u32) {
        let receive = Receive {
            id,
            sges: smallvec![sge(offset, length)],
        };
        let inner = &mut *self.inner.lock();
        inner.host.receives.push_back(receive);
        inner.qp.receives_posted(&mut inner.host);
    }

    pub fn bytes(&self, offset: u64, length: u32) -> Vec<u8> {
        let inner = self.inner.lock();
        let bytes = inner.host.bytes(BASE + offset, length);
        bytes.expect("in memory").to_vec()
    }

    pub fn completions(&self) -> Vec<Completion> {
        std::mem::take(&mut self.inner.lock().host.completions)
    }

    /// Waits for that many completions; polling, or leaving it to the progress thread.
    pub fn wait(&self, count: usize, polling: bool) -> Vec<Completion> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.completions());
            if polling {
                self.node.progress(Caller::Node);
            } else {
                self.node.armed(Caller::Node);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        all
    }
}

pub fn sge(offset: u64, length: u32) -> Sge {
    Sge {
        address: BASE + offset,
        length,
        lkey: uroce_engine::sim::ALL,
    }
}

pub fn data(offset: u64, length: u32) -> Data {
    Data::Sges(smallvec![sge(offset, length)])
}

/// Two connected queue pairs, one on each node, each with that many bytes of memory.
pub fn pair(nodes: [&Arc<Node>; 2], setup: &Setup, address: IpAddr, bytes: usize) -> [Arc<End>; 2] {
    let ends = [
        End::new(nodes[0], setup, address, 1, bytes),
        End::new(nodes[1], setup, address, 2, bytes),
    ];
    ends[0].connect(setup, ends[1].number);
    ends[1].connect(setup, ends[0].number);
    ends
}

pub fn setup(service: uroce_engine::qp::Service) -> Setup {
    Setup {
        mtu: Mtu::B4096,
        ..Setup::new(service)
    }
}
