//! One end of the test, and its steps.

use std::{
    io,
    net::IpAddr,
    time::{Duration, Instant},
};

use verbs::tools::{
    Context, Devices,
    abi::*,
    completion::{Cq, status_text},
    firmware,
    memory::{Memory, NoMemory, Pd, Registration, Route},
    queue::{Change, Qp, Remote, Send, Wanted},
};

use super::{
    choice::{Choice, PATIENCE},
    outcome::{Outcome, Step},
    talk::{Hello, Message, Talk},
};
use crate::{facts::VerbsPort, netdev::as_gid, probe::verbs::port as ask_port};

/// Several packets of any MTU.
const SIZE: usize = 20_000;
/// How often the small message goes to and fro.
const ROUNDS: u32 = 200;
const SMALL: usize = 8;
/// How many receives wait.
const DEPTH: u32 = 16;

/// The verbs objects of an end. The memory has a half to send from and one to receive in.
pub(super) struct End {
    pair: Qp,
    cq: Cq,
    memory: Memory,
    hello: Hello,
    gid_index: u8,
    /// Sends and receives that have ended and were not waited for yet: the other end's
    /// next message may be there before the acknowledgement of this end's last one.
    ended: (u32, u32),
}

fn why(what: &'static str) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl End {
    pub fn new(choice: &Choice, local: IpAddr) -> Result<Self, String> {
        let (context, name, port, gid_index) = choose(choice, local)?;
        let attr = context.query_device().map_err(why("ibv_query_device"))?;
        let pd = Pd::new(&context).map_err(why("ibv_alloc_pd"))?;
        let how = Registration {
            access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
            ..Registration::default()
        };
        let memory = Memory::new(&pd, 2 * SIZE, 0, how).map_err(|failed| match failed {
            NoMemory::Process(error) => why("memory")(error),
            NoMemory::Device(error) | NoMemory::Registration(error) => {
                format!("ibv_reg_mr: {error}; ibv_doctor explains RLIMIT_MEMLOCK")
            }
        })?;
        let cq = Cq::new(&context, 2 * DEPTH, None, false).map_err(why("ibv_create_cq"))?;
        let wanted = Wanted {
            kind: IBV_QPT_RC,
            sends: DEPTH,
            receives: DEPTH,
            srq: None,
            by_calls: false,
        };
        let pair = Qp::new(&pd, &cq, wanted).map_err(why("ibv_create_qp"))?;
        let mut change = Change::to(
            IBV_QPS_INIT,
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        );
        change.attr.port_num = port.number;
        change.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        pair.modify(&change).map_err(why("ibv_modify_qp to INIT"))?;
        let gid = port.gids.iter().find(|gid| Some(gid.index) == gid_index);
        let hello = Hello {
            device: name,
            port: port.number,
            vendor: (attr.orig_attr.vendor_id, attr.orig_attr.vendor_part_id),
            firmware: firmware(&attr),
            ethernet: port.link_layer == crate::facts::ETHERNET,
            state: port.state,
            mtu: port.active_mtu,
            lid: port.lid,
            gid: gid.map(|gid| gid.raw),
            roce_v2: gid.is_some_and(|gid| gid.roce_v2),
            queue_pair: (pair.number(), pair.number() ^ 0x5a_5a5a),
            memory: (memory.address(), memory.rkey()),
        };
        Ok(Self {
            pair,
            cq,
            memory,
            hello,
            gid_index: gid_index
                .and_then(|index| u8::try_from(index).ok())
                .unwrap_or(0),
            ended: (0, 0),
        })
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Connects to the peer, with the smaller MTU of both.
    pub fn connect(&mut self, peer: &Hello) -> Result<(), String> {
        let mtu = self.hello.mtu.min(peer.mtu);
        let route = Route {
            dlid: peer.lid,
            sl: 0,
            port: self.hello.port,
            global: match (self.hello.ethernet, peer.gid) {
                (true, Some(gid)) => Some((gid, self.gid_index, 64)),
                _ => None,
            },
        };
        let mut receive = Change::to(
            IBV_QPS_RTR,
            IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        )
        .by(route);
        receive.attr.path_mtu = match mtu {
            256 => IBV_MTU_256,
            512 => IBV_MTU_512,
            2048 => IBV_MTU_2048,
            4096 => IBV_MTU_4096,
            _ => IBV_MTU_1024,
        };
        receive.attr.dest_qp_num = peer.queue_pair.0;
        receive.attr.rq_psn = peer.queue_pair.1 & 0xff_ffff;
        receive.attr.max_dest_rd_atomic = 1;
        receive.attr.min_rnr_timer = 12;
        self.pair.modify(&receive).map_err(|error| {
            format!("ibv_modify_qp to RTR: {error}; the peer's address cannot be reached from here")
        })?;
        for _ in 0..DEPTH {
            self.receive()?;
        }
        let mut send = Change::to(
            IBV_QPS_RTS,
            IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
        );
        send.attr.timeout = 14;
        send.attr.retry_cnt = 7;
        send.attr.rnr_retry = 7;
        send.attr.sq_psn = self.hello.queue_pair.1 & 0xff_ffff;
        send.attr.max_rd_atomic = 1;
        self.pair.modify(&send).map_err(why("ibv_modify_qp to RTS"))
    }

    fn receive(&self) -> Result<(), String> {
        let posted = self.pair.receive(RECEIVED, &self.memory, SIZE);
        posted.map_err(why("ibv_post_recv"))
    }

    /// Fills the sending half with bytes that no other step has.
    fn fill(&self, half: usize, step: u8) {
        for at in 0..SIZE {
            self.memory.set(half + at, pattern(at, step));
        }
    }

    fn check(&self, half: usize, length: usize, step: u8) -> Result<(), String> {
        for at in 0..length {
            if self.memory.byte(half + at) != Some(pattern(at, step)) {
                return Err(format!(
                    "byte {at} of {length} is another one than was sent"
                ));
            }
        }
        Ok(())
    }

    fn send(&self, length: usize, remote: Option<Remote>) -> Result<(), String> {
        let sent = self.pair.send(&Send {
            id: SENT,
            memory: &self.memory,
            offset: SIZE,
            length,
            flags: IBV_SEND_SIGNALED,
            to: None,
            remote,
            srq: 0,
            immediate: 0,
        });
        sent.map_err(why("ibv_post_send"))
    }

    /// Waits until as many sends and receives have ended.
    fn wait(&mut self, sends: u32, receives: u32) -> Result<(), String> {
        let (start, mut taken) = (Instant::now(), Vec::new());
        loop {
            if self.ended.0 >= sends && self.ended.1 >= receives {
                self.ended.0 -= sends;
                self.ended.1 -= receives;
                return Ok(());
            }
            self.cq
                .poll(1, &mut taken)
                .map_err(|error| format!("ibv_poll_cq answered {error}"))?;
            for completion in &taken {
                if completion.status != IBV_WC_SUCCESS {
                    return Err(status(completion.status));
                }
                match completion.id {
                    SENT => self.ended.0 += 1,
                    _ => self.ended.1 += 1,
                }
            }
            if taken.is_empty() && start.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(format!("nothing came within {seconds} seconds"));
            }
            std::thread::yield_now();
        }
    }
}

const SENT: u64 = 1;
const RECEIVED: u64 = 2;

/// The byte at a place, in a step.
fn pattern(at: usize, step: u8) -> u8 {
    let [low, high, ..] = at.to_le_bytes();
    low.wrapping_mul(31) ^ high.wrapping_mul(7) ^ step
}

fn status(number: u32) -> String {
    let words = status_text(number);
    let more = match number {
        IBV_WC_RETRY_EXC_ERR => {
            "; no answer came: a firewall (UDP port 4791), a network that does not pass packets of \
             this MTU, or another GID type"
        }
        IBV_WC_RNR_RETRY_EXC_ERR => "; the other end had no receive posted",
        IBV_WC_REM_ACCESS_ERR => "; the other end's device refused the access to its memory",
        _ => "",
    };
    format!("{words} ({number}){more}")
}

/// The device, the port and the GID to test with.
fn choose(
    choice: &Choice,
    local: IpAddr,
) -> Result<(Context, String, VerbsPort, Option<u32>), String> {
    let devices = Devices::list().map_err(why("ibv_get_device_list"))?;
    let raw = match local {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(local, IpAddr::V4),
        IpAddr::V4(_) => local,
    };
    let (wanted, mut second) = (as_gid(raw), None);
    for device in devices.iter() {
        let name = device.name();
        if choice.device.as_ref().is_some_and(|chosen| *chosen != name) {
            continue;
        }
        let context = match device.open() {
            Ok(context) => context,
            Err(error) if choice.device.is_some() => {
                return Err(format!("ibv_open_device({name}): {error}"));
            }
            Err(_) => continue,
        };
        let Some(port) = ask_port(&context, choice.port) else {
            continue;
        };
        let of_address = port
            .gids
            .iter()
            .find(|gid| gid.raw == wanted && gid.roce_v2);
        let first = port
            .gids
            .iter()
            .find(|gid| gid.roce_v2)
            .or(port.gids.first());
        let fits = of_address.is_some();
        let index = choice.gid.or(of_address.or(first).map(|gid| gid.index));
        let found = (context, name, port, index);
        if fits || choice.device.is_some() {
            return Ok(found);
        }
        let active = found.2.state == crate::facts::PORT_ACTIVE;
        if second.is_none() && active {
            second = Some(found);
        }
    }
    second.ok_or_else(|| match &choice.device {
        Some(name) => format!("there is no device {name} with a port {}", choice.port),
        None => "there is no device with an active port; ibv_doctor explains why".into(),
    })
}

/// The end that called: it does things, the other one looks.
pub(super) fn lead(
    end: &mut End,
    talk: &mut Talk,
    peer: &Hello,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let remote = |opcode| Remote {
        opcode,
        address: peer.memory.0,
        rkey: peer.memory.1,
    };
    step(outcome, talk, "send", SIZE, |talk| {
        end.fill(SIZE, 1);
        end.send(SIZE, None)?;
        end.wait(1, 0)?;
        talk.send(&Message::Done("send".into()))?;
        talk.expect(&Message::Done("send".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "write", SIZE, |talk| {
        end.fill(SIZE, 2);
        end.send(SIZE, Some(remote(IBV_WR_RDMA_WRITE)))?;
        end.wait(1, 0)?;
        talk.send(&Message::Done("write".into()))?;
        talk.expect(&Message::Done("write".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "read", SIZE, |talk| {
        talk.expect(&Message::Done("filled".into()))?;
        end.send(SIZE, Some(remote(IBV_WR_RDMA_READ)))?;
        end.wait(1, 0)?;
        end.check(SIZE, SIZE, 3)?;
        talk.send(&Message::Done("read".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "ping-pong", SMALL, |talk| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            end.send(SMALL, None)?;
            end.wait(1, 1)?;
            end.receive()?;
        }
        let time = start.elapsed();
        talk.send(&Message::Done("ping-pong".into()))?;
        Ok(Some(time))
    })
}

/// The end that waited.
pub(super) fn follow(end: &mut End, talk: &mut Talk, outcome: &mut Outcome) -> Result<(), String> {
    step(outcome, talk, "send", SIZE, |talk| {
        talk.expect(&Message::Done("send".into()))?;
        end.wait(0, 1)?;
        end.check(0, SIZE, 1)?;
        end.receive()?;
        talk.send(&Message::Done("send".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "write", SIZE, |talk| {
        talk.expect(&Message::Done("write".into()))?;
        end.check(0, SIZE, 2)?;
        talk.send(&Message::Done("write".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "read", SIZE, |talk| {
        end.fill(0, 3);
        talk.send(&Message::Done("filled".into()))?;
        talk.expect(&Message::Done("read".into()))?;
        Ok(None)
    })?;
    step(outcome, talk, "ping-pong", SMALL, |talk| {
        for _ in 0..ROUNDS {
            end.wait(0, 1)?;
            end.receive()?;
            end.send(SMALL, None)?;
            end.wait(1, 0)?;
        }
        talk.expect(&Message::Done("ping-pong".into()))?;
        Ok(None)
    })
}

/// Does a step and notes it, or reports to the other end why it failed.
fn step(
    outcome: &mut Outcome,
    talk: &mut Talk,
    name: &'static str,
    bytes: usize,
    work: impl FnOnce(&mut Talk) -> Result<Option<Duration>, String>,
) -> Result<(), String> {
    match work(talk) {
        Ok(time) => {
            let usec = time.map(|time| time.as_secs_f64() * 1e6 / f64::from(ROUNDS));
            outcome.steps.push(Step { name, bytes, usec });
            Ok(())
        }
        Err(reason) => {
            // It may be gone, which is then the reason.
            let _ = talk.send(&Message::Failed(format!("{name}: {reason}")));
            let likely = outcome
                .likely()
                .map(|finding| format!("; see {}", finding.id));
            Err(format!("{name}: {reason}{}", likely.unwrap_or_default()))
        }
    }
}
