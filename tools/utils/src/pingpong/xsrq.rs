//! `ibv_xsrq_pingpong`: a server and several clients over XRC, each with one shared receive queue.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    net::{Ipv6Addr, TcpStream},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
};

use serde_json::{Value, json};
use verbs::tools::{
    Context,
    abi::*,
    completion::{Channel, Completion, Cq},
    getopt::{Opt, Options},
    memory::{Memory, NoMemory, Pd, Registration, Route},
    queue::{Change, Qp, Send, Srq, Xrcd},
};

use super::{
    exchange::{connect, digits, fields, listen},
    kinds::head,
    packet_number,
};
use crate::{
    numbers::{byte, int, number, unsigned},
    program::{JSON_USAGE, Step, devices, fail, print_json, reason, text},
};

/// Its options.
pub const OPTIONS: &[Opt] = &[
    Opt::new('p', "port", true),
    Opt::new('d', "ib-dev", true),
    Opt::new('i', "ib-port", true),
    Opt::new('s', "size", true),
    Opt::new('m', "mtu", true),
    Opt::new('c', "clients", true),
    Opt::new('n', "num_tests", true),
    Opt::new('l', "sl", true),
    Opt::new('e', "events", false),
    Opt::new('o', "odp", false),
    Opt::new('g', "gid-idx", true),
];

/// Its usage names 2048 as the default MTU; the actual default is 1024.
const USAGE: &str = "  -s, --size=<size>      size of message to exchange (default 4096)
  -m, --mtu=<size>       path MTU (default 2048)
  -c, --clients=<n>      number of clients (on server only, default 1)
  -n, --num_tests=<n>    number of tests per client (default 5)
  -l, --sl=<sl>          service level value
  -e, --events           sleep on CQ events (default poll)
  -o, --odp\t\t    use on demand paging
  -g, --gid-idx=<gid index> local port gid index
";

/// The file that names the domain which clients and servers of a machine share.
const DOMAIN: &str = "/tmp/xrc_domain";
/// A message with its NUL: five numbers and a GID, each with a separator.
const MESSAGE: usize = 66;
const END: &[u8; 4] = b"END\0";

struct Args {
    server: Option<OsString>,
    device: Option<OsString>,
    port: i32,
    ib_port: i32,
    size: usize,
    mtu: ibv_mtu,
    clients: u32,
    tests: u32,
    sl: i32,
    gid: i32,
    events: bool,
    on_demand: bool,
    json: bool,
}

impl Args {
    fn option(&mut self, name: char, value: OsString) -> Option<()> {
        let given = number(&value);
        match name {
            'p' => {
                self.port = int(given);
                return (0..=65535).contains(&self.port).then_some(());
            }
            'd' => self.device = Some(value),
            'i' => {
                self.ib_port = int(given);
                return (self.ib_port >= 0).then_some(());
            }
            's' => self.size = usize::try_from(unsigned(given)).ok()?,
            'm' => self.mtu = super::mtu(int(given))?,
            'c' => self.clients = unsigned(given),
            'n' => self.tests = unsigned(given),
            'l' => self.sl = int(given),
            'g' => self.gid = int(given),
            'e' => self.events = true,
            'o' => self.on_demand = true,
            'J' => self.json = true,
            _ => return None,
        }
        Some(())
    }
}

/// Runs the program.
///
/// # Errors
/// Status 1, with the reason on stderr.
pub fn run(mut options: Options) -> Result<(), u8> {
    let mut args = Args {
        server: None,
        device: None,
        port: 18515,
        ib_port: 1,
        size: 4096,
        mtu: IBV_MTU_1024,
        clients: 1,
        tests: 5,
        sl: 0,
        gid: -1,
        events: false,
        on_demand: false,
        json: false,
    };
    for (name, value) in options.by_ref() {
        if args.option(name, value).is_none() {
            print!("{}{USAGE}{JSON_USAGE}", head(&options.program));
            return Err(1);
        }
    }
    let mut words = options.words().into_iter();
    args.server = words.next();
    if words.next().is_some() {
        print!("{}{USAGE}{JSON_USAGE}", head(&options.program));
        return Err(1);
    }
    if args.server.is_some() {
        args.clients = 1;
    }
    play(&args).map_err(|failed| failed.0)
}

/// One end of a connection, as it is described to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Address {
    lid: u32,
    /// The queue pair that receives, and the one that sends.
    target: u32,
    sender: u32,
    packet: u32,
    srq: u32,
    gid: [u8; 16],
}

impl Address {
    fn write(&self) -> [u8; MESSAGE] {
        let text = format!(
            "{:04x}:{:06x}:{:06x}:{:06x}:{:06x}:{}",
            self.lid,
            self.target,
            self.sender,
            self.packet,
            self.srq,
            digits(&self.gid)
        );
        let mut message = [0; MESSAGE];
        for (to, from) in message.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        message
    }

    fn read(message: &[u8]) -> Option<Self> {
        let mut fields = fields(message)?;
        Some(Self {
            lid: fields.number()?,
            target: fields.number()?,
            sender: fields.number()?,
            packet: fields.number()?,
            srq: fields.number()?,
            gid: fields.gid()?,
        })
    }

    fn json(&self) -> Value {
        json!({
            "lid": self.lid,
            "recv_qpn": self.target,
            "send_qpn": self.sender,
            "psn": self.packet,
            "srqn": self.srq,
            "gid": Ipv6Addr::from(self.gid).to_string(),
        })
    }

    fn print(&self, args: &Args, whose: &str) -> Step {
        if args.json {
            return Ok(());
        }
        let gid = Ipv6Addr::from(self.gid);
        let mut out = io::stdout();
        Ok(writeln!(
            out,
            "{whose:>8}: LID {:04x}, QPN RECV {:06x} SEND {:06x}, PSN {:06x}, SRQN {:06x}, GID {gid}",
            self.lid, self.target, self.sender, self.packet, self.srq
        )?)
    }
}

/// A connection: the halves of this end, and the other end.
struct Peer {
    target: Qp,
    sender: Qp,
    own: Address,
    address: Address,
    stream: Option<TcpStream>,
    /// Messages sent to it.
    sent: u32,
}

/// The verbs objects of one end, but for the queue pairs.
struct Endpoint {
    srq: Srq,
    xrcd: Xrcd,
    _file: Option<File>,
    send_cq: Cq,
    receive_cq: Cq,
    memory: Memory,
    pd: Pd,
    channel: Option<Channel>,
    context: Context,
    lid: u32,
}

fn play(args: &Args) -> Step {
    let endpoint = Endpoint::new(args)?;
    let mut peers = Vec::new();
    for place in 0..args.clients {
        peers.push(endpoint.pair(args, place)?);
    }
    endpoint.receive(args, args.clients).or_else(|_| {
        // As rdma-core prints it, after the reason.
        fail("Couldn't post receives")
    })?;
    let port = args.port.unsigned_abs();
    match &args.server {
        Some(server) => {
            let stream = connect(&text(server), port)?;
            if let Some(peer) = peers.first_mut() {
                endpoint.meet(args, 0, peer, stream, true)?;
            }
        }
        None => {
            let listener = listen(port)?;
            for (place, peer) in peers.iter_mut().enumerate() {
                let Ok((stream, _)) = listener.accept() else {
                    return fail(format!("accept() failed for client {place}"));
                };
                endpoint.meet(args, place, peer, stream, false)?;
            }
            for place in 0..peers.len() {
                endpoint.send(args, &mut peers, place);
            }
        }
    }
    let mut events = 0;
    let ended = endpoint.exchange(args, &mut peers, &mut events);
    // Also after a failure: the queue goes only when its events were acknowledged.
    if args.events {
        endpoint.receive_cq.acknowledge(events);
    }
    ended?;
    part(args, &mut peers)?;
    let reported: Vec<Value> = peers
        .iter()
        .map(|peer| json!({"local": peer.own.json(), "remote": peer.address.json()}))
        .collect();
    endpoint.close(peers)?;
    if args.json {
        return print_json(&json!({"success": true, "peers": reported, "tests": args.tests}));
    }
    Ok(writeln!(io::stdout(), "success")?)
}

impl Endpoint {
    fn new(args: &Args) -> Step<Self> {
        let context = open(args)?;
        let mut access = IBV_ACCESS_LOCAL_WRITE;
        if args.on_demand {
            on_demand(&context)?;
            access |= IBV_ACCESS_ON_DEMAND;
        }
        let Ok(port) = context.query_port(byte(args.ib_port)) else {
            return fail("Failed to get port info");
        };
        if u32::from(port.link_layer) != IBV_LINK_LAYER_ETHERNET && port.lid == 0 {
            return fail("Couldn't get local LID");
        }
        let channel = match args.events {
            true => Some(or(
                Channel::new(&context),
                "Couldn't create completion channel",
            )?),
            false => None,
        };
        let pd = or(Pd::new(&context), "Couldn't allocate PD")?;
        let how = Registration {
            access,
            ..Registration::default()
        };
        let memory = match Memory::new(&pd, args.size, 0, how) {
            Ok(memory) => memory,
            Err(NoMemory::Process(_)) => return fail("Couldn't allocate work buf."),
            Err(_) => return fail("Couldn't register MR"),
        };
        let file = domain_file();
        let xrcd = match Xrcd::new(&context, file.as_ref()) {
            Ok(xrcd) => xrcd,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(0);
                return fail(format!("Couldn't Open the XRC Domain {number}"));
            }
        };
        let cq = |events, whose| {
            let made = Cq::new(&context, args.clients, events, false);
            or(made, &format!("Couldn't create {whose} CQ"))
        };
        let receive_cq = cq(channel.as_ref(), "recv")?;
        if args.events {
            or(
                receive_cq.request_event(),
                "Couldn't request CQ notification",
            )?;
        }
        let send_cq = cq(None, "send")?;
        let srq = Srq::of_domain(&pd, args.clients, &xrcd, &receive_cq);
        let srq = or(srq, "Couldn't create SRQ")?;
        Ok(Self {
            srq,
            xrcd,
            _file: file,
            send_cq,
            receive_cq,
            memory,
            pd,
            channel,
            context,
            lid: u32::from(port.lid),
        })
    }

    /// Both halves of a connection, in the state INIT.
    fn pair(&self, args: &Args, place: u32) -> Step<Peer> {
        let number = |error: io::Error| error.raw_os_error().unwrap_or(0);
        let target = Qp::xrc_target(&self.context, &self.xrcd).or_else(|error| {
            let errno = number(error);
            fail(format!("Couldn't create recv QP[{place}] errno {errno}"))
        })?;
        let mut change = Change::to(
            IBV_QPS_INIT,
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        );
        change.attr.port_num = byte(args.ib_port);
        change.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        let words = |whose, state| format!("Failed to modify {whose} QP[{place}] to {state}");
        or(target.modify(&change), &words("recv", "INIT"))?;
        let sends = args.clients.saturating_mul(args.tests);
        let sender = Qp::xrc_sender(&self.pd, &self.send_cq, sends).or_else(|error| {
            let errno = number(error);
            fail(format!("Couldn't create send QP[{place}] errno {errno}"))
        })?;
        change.attr.qp_access_flags = 0;
        or(sender.modify(&change), &words("send", "INIT"))?;
        Ok(Peer {
            target,
            sender,
            own: Address::default(),
            address: Address::default(),
            stream: None,
            sent: 0,
        })
    }

    fn receive(&self, args: &Args, count: u32) -> Step {
        for _ in 0..count {
            or(
                self.srq.receive(0, &self.memory, args.size),
                "Failed to post receive to SRQ",
            )?;
        }
        Ok(())
    }

    /// Exchanges the addresses, the client first, and connects.
    fn meet(
        &self,
        args: &Args,
        place: usize,
        peer: &mut Peer,
        mut stream: TcpStream,
        client: bool,
    ) -> Step {
        if client {
            self.report(args, peer, &mut stream)?;
            receive(args, place, peer, &mut stream)?;
        } else {
            receive(args, place, peer, &mut stream)?;
            self.report(args, peer, &mut stream)?;
        }
        peer.stream = Some(stream);
        join(args, place, peer)
    }

    fn report(&self, args: &Args, peer: &mut Peer, stream: &mut TcpStream) -> Step {
        let gid = match args.gid {
            ..0 => [0; 16],
            index => match self.context.query_gid(byte(args.ib_port), index) {
                Ok(gid) => gid.bytes(),
                Err(_) => return fail(format!("can't read sgid of index {index}")),
            },
        };
        peer.own = Address {
            lid: self.lid,
            target: peer.target.number(),
            sender: peer.sender.number(),
            packet: packet_number(),
            srq: or(self.srq.number(), "Couldn't get SRQ num")?,
            gid,
        };
        peer.own.print(args, "local")?;
        let reported = stream.write_all(&peer.own.write());
        or(reported, "Couldn't send local address")
    }

    /// Sends to a peer, by each sender in turn; the last message marks the end.
    fn send(&self, args: &Args, peers: &mut [Peer], place: usize) {
        let count = peers.len();
        let Some(to) = peers.get_mut(place) else {
            return;
        };
        let sent = usize::try_from(to.sent).unwrap_or(0);
        let by = (place + sent) % count;
        to.sent += 1;
        let last = to.sent >= args.tests;
        let send = Send {
            id: u64::try_from(place).unwrap_or(0),
            memory: &self.memory,
            offset: 0,
            length: args.size,
            flags: if last { IBV_SEND_SIGNALED } else { 0 },
            to: None,
            remote: None,
            srq: to.address.srq,
            immediate: 0,
        };
        if let Some(Err(error)) = peers.get(by).map(|peer| peer.sender.send(&send)) {
            eprintln!("Couldn't post send: {}", reason(&error));
        }
    }

    /// Answers each message until all have come; how many events there were.
    fn exchange(&self, args: &Args, peers: &mut [Peer], events: &mut u32) -> Step {
        let total = args.clients.saturating_mul(args.tests);
        let mut count = 0;
        let mut taken = Vec::new();
        while count < total {
            if args.events {
                self.wait()?;
                *events += 1;
            }
            loop {
                poll(&self.receive_cq, &mut taken)?;
                let Some(completion) = taken.first() else {
                    break;
                };
                if completion.status != IBV_WC_SUCCESS {
                    return fail(format!("Work completion error {}", completion.status));
                }
                self.receive(args, 1)?;
                let place = place_of(peers, completion);
                let more = peers.get(place).is_some_and(|peer| peer.sent < args.tests);
                if more {
                    self.send(args, peers, place);
                }
                count += 1;
            }
        }
        let mut ended = 0;
        while ended < args.clients {
            poll(&self.send_cq, &mut taken)?;
            ended += u32::try_from(taken.len()).unwrap_or(0);
        }
        Ok(())
    }

    fn wait(&self) -> Step {
        let Some(Ok(about)) = self.channel.as_ref().map(Channel::event) else {
            return fail("Failed to get cq_event");
        };
        if about != self.receive_cq.address() {
            return fail(format!("CQ event for unknown CQ {about:#x}"));
        }
        or(
            self.receive_cq.request_event(),
            "Couldn't request CQ notification",
        )
    }

    fn close(self, peers: Vec<Peer>) -> Step {
        for (place, peer) in peers.into_iter().enumerate() {
            or(
                peer.sender.close(),
                &format!("Couldn't destroy INI QP[{place}]"),
            )?;
            or(
                peer.target.close(),
                &format!("Couldn't destroy TGT QP[{place}]"),
            )?;
        }
        or(self.srq.close(), "Couldn't destroy SRQ")?;
        or(self.xrcd.close(), "Couldn't close the XRC Domain")?;
        or(self.send_cq.close(), "Couldn't destroy send CQ")?;
        or(self.receive_cq.close(), "Couldn't destroy recv CQ")?;
        if self.memory.close().is_err() {
            return fail("Couldn't deregister MR");
        }
        or(self.pd.close(), "Couldn't deallocate PD")?;
        if let Some(channel) = self.channel {
            or(channel.close(), "Couldn't destroy completion channel")?;
        }
        or(self.context.close(), "Couldn't release context")
    }
}

/// The message for a failure.
fn or<T>(done: io::Result<T>, words: &str) -> Step<T> {
    done.or_else(|_| fail(words))
}

fn open(args: &Args) -> Step<Context> {
    let devices = match devices(1) {
        Ok(devices) => devices,
        Err(_) => return fail("Failed to open device"),
    };
    let name = args.device.as_ref().map(|name| name.as_bytes());
    let opened = match devices.find(name) {
        None => {
            let name = args.device.as_ref().map(text).unwrap_or_default();
            fail(format!("IB device {name} not found"))
        }
        Some(device) => {
            let name = device.name();
            or(device.open(), &format!("Couldn't get context for {name}"))
        }
    };
    opened.or_else(|_| fail("Failed to open device"))
}

fn on_demand(context: &Context) -> Step {
    let attr = or(
        context.query_device(),
        "Couldn't query device for its features",
    )?;
    let wanted = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV;
    let general = attr.odp_caps.general_caps & u64::from(IBV_ODP_SUPPORT);
    if general == 0 || attr.xrc_odp_caps & wanted != wanted {
        return fail(
            "The device isn't ODP capable or does not support XRC send, receive and srq with ODP",
        );
    }
    Ok(())
}

/// Without the file the domain is this process's own.
fn domain_file() -> Option<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(O_CREAT)
        .mode(0o440)
        .open(DOMAIN);
    match opened {
        Ok(file) => Some(file),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0);
            eprintln!("Couldn't create the file for the XRC Domain but not stopping {number}");
            None
        }
    }
}

/// Linux's, on every architecture that the library is built for.
const O_CREAT: i32 = 0o100;

fn receive(args: &Args, place: usize, peer: &mut Peer, stream: &mut TcpStream) -> Step {
    let mut message = [0; MESSAGE];
    if let Err(error) = stream.read_exact(&mut message) {
        eprintln!("client read: {}", reason(&error));
        return fail(format!("Couldn't read remote address [{place}]"));
    }
    let Some(address) = Address::read(&message) else {
        return fail(format!("Couldn't read remote address [{place}]"));
    };
    peer.address = address;
    address.print(args, "remote")
}

fn poll(cq: &Cq, taken: &mut Vec<Completion>) -> Step {
    match cq.poll(1, taken) {
        Ok(()) => Ok(()),
        Err(error) => fail(format!("Error polling cq {error}")),
    }
}

/// The place of a message's sender, by the queue pair that received it.
fn place_of(peers: &[Peer], completion: &Completion) -> usize {
    if peers.len() == 1 {
        return 0;
    }
    let number = completion.queue_pair;
    let is = |peer: &Peer| peer.target.number() == number;
    peers.iter().position(is).unwrap_or_else(|| {
        eprintln!("Unable to find qp {number:x}");
        0
    })
}

/// Connects both halves.
fn join(args: &Args, place: usize, peer: &Peer) -> Step {
    let there = &peer.address;
    let [.., a, b, c, d, e, f, g, h] = there.gid;
    let has_gid = [a, b, c, d, e, f, g, h] != [0; 8];
    let [low, next, ..] = there.lid.to_le_bytes();
    let route = Route {
        dlid: u16::from_le_bytes([low, next]),
        sl: byte(args.sl),
        port: byte(args.ib_port),
        global: has_gid.then_some((there.gid, byte(args.gid), 5)),
    };
    let mut receive = Change::to(
        IBV_QPS_RTR,
        IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
    )
    .by(route);
    receive.attr.path_mtu = args.mtu;
    receive.attr.rq_psn = there.packet;
    let mut send = Change::to(IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN);
    send.attr.timeout = 14;
    send.attr.sq_psn = peer.own.packet;

    let failed = |whose, state| format!("Failed to modify {whose} QP[{place}] to {state}");
    let mut target = receive;
    target.attr.dest_qp_num = there.sender;
    target.attr.min_rnr_timer = 12;
    target.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    or(peer.target.modify(&target), &failed("recv", "RTR"))?;
    or(peer.target.modify(&send), &failed("recv", "RTS"))?;

    receive.attr.dest_qp_num = there.target;
    or(peer.sender.modify(&receive), &failed("send", "RTR"))?;
    send.attr.retry_cnt = 7;
    send.attr.rnr_retry = 7;
    send.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    or(peer.sender.modify(&send), &failed("send", "RTS"))
}

/// Each end announces that it is done before either closes: a message of the server may still be in
/// flight to a client through another client's queue pair.
fn part(args: &Args, peers: &mut [Peer]) -> Step {
    let streams = || peers.iter().filter_map(|peer| peer.stream.as_ref());
    if args.server.is_some() {
        streams().try_for_each(send_end)?;
        return streams().try_for_each(receive_end);
    }
    streams().try_for_each(receive_end)?;
    streams().try_for_each(send_end)
}

fn send_end(mut stream: &TcpStream) -> Step {
    or(stream.write_all(END), "Couldn't send termination ack")
}

fn receive_end(mut stream: &TcpStream) -> Step {
    let mut word = [0; END.len()];
    if let Err(error) = stream.read_exact(&mut word) {
        eprintln!("client read: {}", reason(&error));
        return fail("Couldn't read remote termination ack");
    }
    match &word == END {
        true => Ok(()),
        false => fail("Invalid termination ack was accepted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let address = Address {
            lid: 1,
            target: 0x12,
            sender: 0xabcdef,
            packet: 3,
            srq: 4,
            gid: [0xfe; 16],
        };
        let message = address.write();
        assert_eq!(message.len(), MESSAGE);
        assert!(message.starts_with(b"0001:000012:abcdef:000003:000004:fefe"));
        assert_eq!(Address::read(&message), Some(address));
        assert_eq!(Address::read(&message[..20]), None);
    }
}
