//! The verbs objects of one end.

use verbs::tools::{
    Context,
    abi::*,
    completion::{Channel, Completion, Cq},
    memory::{Ah, Memory, NoMemory, Pd, Registration, Route},
    process::page_size,
    queue::{Change, Datagram, Qp, Send, Srq, Wanted},
};

use super::{args::Args, exchange::Address, kinds::Transport};
use crate::{
    numbers::byte,
    program::{Step, fail},
};

/// Bytes before the message in a datagram's receive buffer.
const GRH: usize = 40;
/// The key of datagrams, which both ends know.
const QKEY: u32 = 0x1111_1111;
/// First byte of each page of a message that is checked.
const MARK: u8 = 0;

/// The ID of a receive request, which is also its bit in `Endpoint::pending`.
pub(super) const RECEIVE: u64 = 1;
/// The same of a send request.
pub(super) const SEND: u64 = 2;

/// A queue pair of this end, by its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot(pub usize);

pub(super) struct Endpoint {
    pairs: Vec<Qp>,
    /// Of each pair, the requests that have to end before it sends again.
    pending: Vec<u64>,
    srq: Option<Srq>,
    cq: Cq,
    memory: Memory,
    ah: Option<Ah>,
    pd: Pd,
    channel: Option<Channel>,
    context: Context,
    flags: u32,
    clock_mask: u64,
    /// Receives that wait for a message.
    waiting: u32,
    /// The peer's queue pair, for datagrams.
    peer: u32,
}

impl Endpoint {
    pub fn new(args: &Args, context: Context) -> Step<Self> {
        if args.transport == Transport::Ud {
            fits_a_datagram(args, &context)?;
        }
        // The program with a shared queue looks at its device first, the others do it later.
        let early = args.transport == Transport::Srq;
        if early {
            features(args, &context)?;
        }
        let channel = match args.events {
            true => match Channel::new(&context) {
                Ok(channel) => Some(channel),
                Err(_) => return fail("Couldn't create completion channel"),
            },
            false => None,
        };
        let Ok(pd) = Pd::new(&context) else {
            return fail("Couldn't allocate PD");
        };
        let clock_mask = if early { 0 } else { features(args, &context)? };
        let memory = register(args, &pd)?;
        let entries = match args.transport {
            Transport::Srq => args.rx_depth.saturating_add(args.queue_pairs),
            _ => args.rx_depth.saturating_add(1),
        };
        let Ok(cq) = Cq::new(&context, entries, channel.as_ref(), args.timestamps) else {
            return fail("Couldn't create CQ");
        };
        let srq = match args.transport {
            Transport::Srq => match Srq::new(&pd, args.rx_depth) {
                Ok(srq) => Some(srq),
                Err(_) => return fail("Couldn't create SRQ"),
            },
            _ => None,
        };
        let mut endpoint = Self {
            pairs: Vec::new(),
            pending: Vec::new(),
            srq,
            cq,
            memory,
            ah: None,
            pd,
            channel,
            context,
            flags: IBV_SEND_SIGNALED,
            clock_mask,
            waiting: 0,
            peer: 0,
        };
        endpoint.make_pairs(args)?;
        Ok(endpoint)
    }

    fn make_pairs(&mut self, args: &Args) -> Step {
        let size = u32::try_from(args.size).unwrap_or(u32::MAX);
        for place in 0..args.queue_pairs {
            let wanted = Wanted {
                kind: match args.transport {
                    Transport::Rc | Transport::Srq => IBV_QPT_RC,
                    Transport::Uc => IBV_QPT_UC,
                    Transport::Ud => IBV_QPT_UD,
                },
                sends: 1,
                receives: args.rx_depth,
                srq: self.srq.as_ref(),
                by_calls: args.by_calls,
            };
            let Ok(pair) = Qp::new(&self.pd, &self.cq, wanted) else {
                return fail(format!("Couldn't create QP{}", of(args, place)));
            };
            if pair.max_inline() >= size && !args.device_memory {
                self.flags |= IBV_SEND_INLINE;
            }
            self.pairs.push(pair);
            self.pending.push(0);
        }
        for (place, pair) in (0..).zip(&self.pairs) {
            let mut change = Change::to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT);
            change.attr.port_num = byte(args.ib_port);
            change.mask |= match args.transport {
                Transport::Ud => IBV_QP_QKEY,
                _ => IBV_QP_ACCESS_FLAGS,
            };
            if args.transport == Transport::Ud {
                change.attr.qkey = QKEY;
            }
            if pair.modify(&change).is_err() {
                return fail(format!("Failed to modify QP{} to INIT", of(args, place)));
            }
        }
        Ok(())
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The numbers of the queue pairs.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.pairs.iter().map(Qp::number)
    }

    /// Connects the queue pairs to the peer's.
    pub fn connect(&mut self, args: &Args, own: &[Address], peers: &[Address]) -> Step {
        let first_gid = peers.first().map_or([0; 16], |peer| peer.gid);
        for (place, ((pair, own), peer)) in (0..).zip(self.pairs.iter().zip(own).zip(peers)) {
            let [.., a, b, c, d, e, f, g, h] = first_gid;
            let has_gid = [a, b, c, d, e, f, g, h] != [0; 8];
            // With a shared receive queue, all are at the first one's GID.
            let gid = match args.transport {
                Transport::Srq => first_gid,
                _ => peer.gid,
            };
            let [lid, _] = split(peer.lid);
            let route = Route {
                dlid: lid,
                sl: byte(args.sl),
                port: byte(args.ib_port),
                global: has_gid.then_some((gid, byte(args.gid), 1)),
            };
            let (receive, send) = changes(args, route, own, peer);
            for (change, state) in [(receive, "RTR"), (send, "RTS")] {
                if pair.modify(&change).is_err() {
                    let of = of(args, place);
                    return fail(format!("Failed to modify QP{of} to {state}"));
                }
            }
            if args.transport == Transport::Ud {
                self.peer = peer.queue_pair;
                match Ah::new(&self.pd, route) {
                    Ok(ah) => self.ah = Some(ah),
                    Err(_) => return fail("Failed to create AH"),
                }
            }
        }
        Ok(())
    }

    /// Posts receives until as many wait as were asked for.
    pub fn post_receives(&mut self, args: &Args) -> Step {
        let length = message_space(args);
        while self.waiting < args.rx_depth {
            let posted = match (&self.srq, self.pairs.first()) {
                (Some(srq), _) => srq.receive(RECEIVE, &self.memory, length),
                (None, Some(pair)) => pair.receive(RECEIVE, &self.memory, length),
                (None, None) => Ok(()),
            };
            if posted.is_err() {
                return fail(format!("Couldn't post receive ({})", self.waiting));
            }
            self.waiting += 1;
        }
        Ok(())
    }

    /// A message came; before receives run out, more are posted.
    pub fn received(&mut self, args: &Args) -> Step {
        self.waiting = self.waiting.saturating_sub(1);
        match self.waiting <= args.queue_pairs {
            true => self.post_receives(args),
            false => Ok(()),
        }
    }

    pub fn request_event(&self) -> Step {
        match self.cq.request_event() {
            Ok(()) => Ok(()),
            Err(_) => fail("Couldn't request CQ notification"),
        }
    }

    /// Waits for an event, and asks for the next one.
    pub fn wait(&self) -> Step {
        let event = self.channel.as_ref().map(Channel::event);
        let Some(Ok(about)) = event else {
            return fail("Failed to get cq_event");
        };
        if about != self.cq.address() {
            return fail(format!("CQ event for unknown CQ {about:#x}"));
        }
        self.request_event()
    }

    pub fn acknowledge(&self, events: u32) {
        self.cq.acknowledge(events);
    }

    pub fn poll(&self, most: usize, into: &mut Vec<Completion>) -> Result<(), i32> {
        self.cq.poll(most, into)
    }

    /// How many completions there can be.
    pub fn most_completions(&self, args: &Args) -> usize {
        let all = args.rx_depth.saturating_add(args.queue_pairs);
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    pub fn clock_mask(&self) -> u64 {
        self.clock_mask
    }

    /// The queue pair of a completion. Where there is one, it is that one.
    pub fn slot_of(&self, completion: &Completion) -> Option<Slot> {
        if self.srq.is_none() {
            return Some(Slot(0));
        }
        let is = |pair: &Qp| pair.number() == completion.queue_pair;
        self.pairs.iter().position(is).map(Slot)
    }

    /// The client sends first, marked if it is to be checked; both wait for a message.
    pub fn begin(&mut self, args: &Args, first: bool) -> Step {
        self.pending.fill(RECEIVE);
        if !first {
            return Ok(());
        }
        if args.check {
            for page in pages(args) {
                self.memory.set(page, MARK);
            }
        }
        if args.device_memory && self.memory.to_device().is_err() {
            return fail("Copy to dm buffer failed");
        }
        for place in 0..self.pairs.len() {
            self.send(args, Slot(place))?;
        }
        Ok(())
    }

    pub fn send(&mut self, args: &Args, Slot(place): Slot) -> Step {
        let to = self.ah.as_ref().map(|ah| Datagram {
            ah,
            queue_pair: self.peer,
            qkey: QKEY,
        });
        let send = Send {
            id: SEND,
            memory: &self.memory,
            offset: front(args),
            length: args.size,
            flags: self.flags,
            to,
            remote: None,
            srq: 0,
            immediate: 0,
        };
        let sent = self.pairs.get(place).map(|pair| pair.send(&send));
        let (Some(Ok(())), Some(pending)) = (sent, self.pending.get_mut(place)) else {
            return fail("Couldn't post send");
        };
        *pending = RECEIVE | SEND;
        Ok(())
    }

    /// A request ended; whether its queue pair waits for nothing else.
    pub fn ended(&mut self, Slot(place): Slot, id: u64) -> bool {
        let Some(pending) = self.pending.get_mut(place) else {
            return false;
        };
        *pending &= !id;
        *pending == 0
    }

    /// The pages whose first byte differs from the one sent.
    pub fn bad_pages(&self, args: &Args) -> Step<Vec<usize>> {
        if args.device_memory && self.memory.from_device().is_err() {
            return fail("Copy from DM buffer failed");
        }
        let bad = pages(args).enumerate();
        let bad = bad.filter(|(_, at)| self.memory.byte(*at) != Some(MARK));
        Ok(bad.map(|(page, _)| page).collect())
    }

    pub fn close(self) -> Step {
        let shared = self.srq.is_some();
        for (place, pair) in self.pairs.into_iter().enumerate() {
            if pair.close().is_err() {
                let of = if shared {
                    format!("[{place}]")
                } else {
                    String::new()
                };
                return fail(format!("Couldn't destroy QP{of}"));
            }
        }
        if self.srq.is_some_and(|srq| srq.close().is_err()) {
            return fail("Couldn't destroy SRQ");
        }
        if self.cq.close().is_err() {
            return fail("Couldn't destroy CQ");
        }
        match self.memory.close() {
            Ok(()) => {}
            Err(NoMemory::Device(_)) => return fail("Couldn't free DM"),
            Err(_) => return fail("Couldn't deregister MR"),
        }
        if self.ah.is_some_and(|ah| ah.close().is_err()) {
            return fail("Couldn't destroy AH");
        }
        if self.pd.close().is_err() {
            return fail("Couldn't deallocate PD");
        }
        if self.channel.is_some_and(|channel| channel.close().is_err()) {
            return fail("Couldn't destroy completion channel");
        }
        match self.context.close() {
            Ok(()) => Ok(()),
            Err(_) => fail("Couldn't release context"),
        }
    }
}

/// Which queue pair, where there are several.
fn of(args: &Args, place: u32) -> String {
    match args.transport {
        Transport::Srq => format!("[{place}]"),
        _ => String::new(),
    }
}

/// The lower and the upper half.
fn split(number: u32) -> [u16; 2] {
    let [a, b, c, d] = number.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

/// Bytes before the message in the memory.
fn front(args: &Args) -> usize {
    if args.transport == Transport::Ud {
        GRH
    } else {
        0
    }
}

fn message_space(args: &Args) -> usize {
    args.size.saturating_add(front(args))
}

/// Where each page of a message begins in the memory.
fn pages(args: &Args) -> impl Iterator<Item = usize> {
    let front = front(args);
    let starts = (0..args.size).step_by(page_size());
    starts.map(move |page| page + front)
}

fn fits_a_datagram(args: &Args, context: &Context) -> Step {
    let Ok(port) = context.query_port(byte(args.ib_port)) else {
        return fail(format!(
            "Unable to query port info for port {}",
            args.ib_port
        ));
    };
    let mtu = 1_usize
        .checked_shl(port.active_mtu.saturating_add(7))
        .unwrap_or(0);
    match args.size > mtu {
        true => fail(format!("Requested size larger than port MTU ({mtu})")),
        false => Ok(()),
    }
}

/// Whether the device has the requested features; the mask of its clock.
fn features(args: &Args, context: &Context) -> Step<u64> {
    if !args.on_demand && !args.timestamps && !args.device_memory {
        return Ok(0);
    }
    let Ok(attr) = context.query_device() else {
        return fail("Couldn't query device for its features");
    };
    if args.on_demand {
        on_demand(args, &attr)?;
    }
    if args.timestamps && attr.completion_timestamp_mask == 0 {
        return fail("The device isn't completion timestamp capable");
    }
    if args.device_memory {
        let size = u64::try_from(args.size).unwrap_or(u64::MAX);
        match attr.max_dm_size {
            0 => return fail("Device doesn't support dm allocation"),
            most if most < size => return fail("Device memory is insufficient"),
            _ => {}
        }
    }
    Ok(attr.completion_timestamp_mask)
}

fn on_demand(args: &Args, attr: &ibv_device_attr_ex) -> Step {
    let shared = args.transport == Transport::Srq;
    let wanted = match shared {
        true => IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV,
        false => IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV,
    };
    let general = attr.odp_caps.general_caps;
    let has = attr.odp_caps.per_transport_caps.rc_odp_caps;
    if general & u64::from(IBV_ODP_SUPPORT) == 0 || has & wanted != wanted {
        let what = if shared {
            "send, receive and srq"
        } else {
            "send and receive"
        };
        return fail(format!(
            "The device isn't ODP capable or does not support RC {what} with ODP"
        ));
    }
    if args.implicit && general & u64::from(IBV_ODP_SUPPORT_IMPLICIT) == 0 {
        return fail("The device doesn't support implicit ODP");
    }
    Ok(())
}

fn register(args: &Args, pd: &Pd) -> Step<Memory> {
    let demand = if args.on_demand {
        IBV_ACCESS_ON_DEMAND
    } else {
        0
    };
    let how = Registration {
        access: IBV_ACCESS_LOCAL_WRITE | demand,
        implicit: args.implicit,
        on_device: args.device_memory,
    };
    // Other than the mark, so that a message that did not come is seen; as rdma-core has it.
    let byte = if args.transport == Transport::Srq {
        0
    } else {
        0x7b
    };
    let memory = match Memory::new(pd, message_space(args), byte, how) {
        Ok(memory) => memory,
        Err(NoMemory::Process(_)) => return fail("Couldn't allocate work buf."),
        Err(NoMemory::Device(_)) => return fail("Dev mem allocation failed"),
        Err(NoMemory::Registration(_)) => return fail("Couldn't register MR"),
    };
    if args.prefetch
        && let Err(error) = memory.prefetch()
    {
        let number = error.raw_os_error().unwrap_or(0);
        eprintln!("Couldn't prefetch MR({number}). Continue anyway");
    }
    Ok(memory)
}

/// To the state in which messages are received, and to the one in which they are sent.
fn changes(args: &Args, route: Route, own: &Address, peer: &Address) -> (Change, Change) {
    let mut receive = Change::to(IBV_QPS_RTR, 0);
    let mut send = Change::to(IBV_QPS_RTS, IBV_QP_SQ_PSN);
    send.attr.sq_psn = own.packet;
    if args.transport == Transport::Ud {
        return (receive, send);
    }
    receive = receive.by(route);
    receive.mask |= IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    receive.attr.path_mtu = args.mtu;
    receive.attr.dest_qp_num = peer.queue_pair;
    receive.attr.rq_psn = peer.packet;
    if args.transport == Transport::Uc {
        return (receive, send);
    }
    receive.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    receive.attr.max_dest_rd_atomic = 1;
    receive.attr.min_rnr_timer = 12;
    send.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    send.attr.timeout = 14;
    send.attr.retry_cnt = 7;
    send.attr.rnr_retry = 7;
    send.attr.max_rd_atomic = 1;
    (receive, send)
}
