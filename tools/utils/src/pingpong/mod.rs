//! `ibv_rc_pingpong`, `ibv_uc_pingpong`, `ibv_ud_pingpong`, `ibv_srq_pingpong`, and `xsrq`.
//!
//! Two processes tell each other their queue pairs over TCP and then send a message to and fro.
//! Either end may be rdma-core's program.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `kinds` | how the four programs differ: options, defaults, words |
//! | `exchange` | the addresses as they go over TCP |
//! | `endpoint` | the verbs objects of one end |
//! | `rounds` | the messages, and what they are counted by |
//! | `outcome` | what is printed at the end |

mod endpoint;
mod exchange;
mod kinds;
mod outcome;
mod rounds;
pub mod xsrq;

use std::{
    ffi::OsString,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Write},
    net::Ipv6Addr,
    os::unix::ffi::OsStrExt,
    time::Instant,
};

use serde_json::Value;
use verbs::{
    Context,
    abi::{IBV_LINK_LAYER_ETHERNET, ibv_mtu},
    getopt::Options,
};

use crate::{
    numbers::{byte, int, number, unsigned},
    program::{Step, devices, fail, print_json, text},
};
use endpoint::Endpoint;
use exchange::Address;
use kinds::Transport;
pub use kinds::{Kind, RC, SRQ, UC, UD};
use outcome::Outcome;

/// What was asked for.
struct Asked {
    transport: Transport,
    server: Option<OsString>,
    device: Option<OsString>,
    port: u32,
    ib_port: i32,
    size: usize,
    mtu: ibv_mtu,
    queue_pairs: u32,
    rx_depth: u32,
    iters: u32,
    sl: i32,
    gid: i32,
    events: bool,
    on_demand: bool,
    implicit: bool,
    prefetch: bool,
    timestamps: bool,
    check: bool,
    device_memory: bool,
    by_calls: bool,
    json: bool,
}

impl Asked {
    fn new(kind: &Kind) -> Self {
        Self {
            transport: kind.transport,
            server: None,
            device: None,
            port: 18515,
            ib_port: 1,
            size: kind.size,
            mtu: 3,
            queue_pairs: if kind.transport == Transport::Srq {
                16
            } else {
                1
            },
            rx_depth: 500,
            iters: 1000,
            sl: 0,
            gid: -1,
            events: false,
            on_demand: false,
            implicit: false,
            prefetch: false,
            timestamps: false,
            check: false,
            device_memory: false,
            by_calls: false,
            json: false,
        }
    }

    /// Takes one option; `None` if its value is out of question.
    fn option(&mut self, name: char, value: OsString) -> Option<()> {
        let given = number(&value);
        match name {
            'p' => {
                self.port = unsigned(given);
                return (self.port <= 65535).then_some(());
            }
            'd' => self.device = Some(value),
            'i' => {
                self.ib_port = int(given);
                return (self.ib_port >= 1).then_some(());
            }
            's' => {
                self.size = usize::try_from(unsigned(given)).ok()?;
                return (self.size > 0 || self.transport != Transport::Srq).then_some(());
            }
            'm' => self.mtu = mtu(int(given))?,
            'q' => self.queue_pairs = unsigned(given),
            'r' => self.rx_depth = unsigned(given),
            'n' => self.iters = unsigned(given),
            'l' => self.sl = int(given),
            'g' => self.gid = int(given),
            'e' => self.events = true,
            'o' => self.on_demand = true,
            'O' => (self.on_demand, self.implicit) = (true, true),
            'P' => self.prefetch = true,
            't' => self.timestamps = true,
            'c' => self.check = true,
            'j' => self.device_memory = true,
            'N' => self.by_calls = true,
            'J' => self.json = true,
            _ => return None,
        }
        Some(())
    }

    /// What does not go together.
    fn contradiction(&self) -> Option<String> {
        if self.on_demand && self.device_memory {
            return Some("DM memory region can't be on demand".into());
        }
        if self.prefetch && !self.on_demand {
            return Some("prefetch is valid only with on-demand memory region".into());
        }
        let (pairs, depth) = (self.queue_pairs, self.rx_depth);
        if self.transport != Transport::Srq {
            return None;
        }
        if pairs > depth {
            return Some(format!(
                "rx_depth {} is too small for {} QPs -- must have at least one receive per QP.",
                depth.cast_signed(),
                pairs.cast_signed()
            ));
        }
        (pairs >= exchange::MOST).then(|| {
            let pairs = pairs.cast_signed();
            format!("num_qp {pairs} must be less than {}", exchange::MOST - 1)
        })
    }
}

/// `enum ibv_mtu` of a number of bytes.
fn mtu(bytes: i32) -> Option<ibv_mtu> {
    match bytes {
        256 => Some(1),
        512 => Some(2),
        1024 => Some(3),
        2048 => Some(4),
        4096 => Some(5),
        _ => None,
    }
}

/// Runs a program.
///
/// # Errors
/// Status 1, with the reason on stderr; or the number that a device refused to be polled with.
pub fn run(kind: &Kind, mut options: Options) -> Result<(), u8> {
    let mut asked = Asked::new(kind);
    for (name, value) in options.by_ref() {
        if asked.option(name, value).is_none() {
            print!("{}", kind.usage(&options.program));
            return Err(1);
        }
    }
    let mut words = options.words().into_iter();
    asked.server = words.next();
    if words.next().is_some() {
        print!("{}", kind.usage(&options.program));
        return Err(1);
    }
    play(&asked).map_err(|failed| failed.0)
}

fn play(asked: &Asked) -> Step {
    if let Some(words) = asked.contradiction() {
        return fail(words);
    }
    let context = open(asked)?;
    let mut endpoint = Endpoint::new(asked, context)?;
    endpoint.post_receives(asked)?;
    if asked.events {
        endpoint.request_event()?;
    }
    let own = addresses(asked, &endpoint)?;
    let separator = if asked.transport == Transport::Ud {
        ":"
    } else {
        ","
    };
    say(asked, "local address: ", separator, &own)?;
    let server = asked.server.as_ref().map(text);
    let peers = match &server {
        Some(server) => exchange::with_server(asked, server, &own)?,
        None => exchange::with_client(asked, &own, |peers| {
            let connected = endpoint.connect(asked, &own, peers);
            connected.inspect_err(|_| eprintln!("Couldn't connect to remote QP"))
        })?,
    };
    let count = own.len();
    say(
        asked,
        "remote address:",
        ",",
        peers.get(..count).unwrap_or_default(),
    )?;
    if server.is_some() {
        endpoint.connect(asked, &own, &peers)?;
    }
    let start = Instant::now();
    let times = rounds::play(asked, &mut endpoint, server.is_some())?;
    let mut outcome = Outcome::new(asked, start.elapsed(), times);
    if server.is_none() && asked.check {
        outcome.bad_pages = endpoint.bad_pages(asked)?;
    }
    if asked.json {
        let list = |of: &[Address]| of.iter().map(Address::json).collect::<Vec<Value>>();
        let peers = peers.get(..count).unwrap_or_default();
        print_json(&outcome.json(list(&own), list(peers)))?;
    } else {
        outcome.print()?;
    }
    endpoint.close()
}

fn open(asked: &Asked) -> Step<Context> {
    let devices = devices(1)?;
    let name = asked.device.as_ref().map(|name| name.as_bytes());
    let Some(device) = devices.find(name) else {
        return match &asked.device {
            Some(name) => fail(format!("IB device {} not found", text(name))),
            None => fail("No IB devices found"),
        };
    };
    let name = device.name();
    match device.open() {
        Ok(context) => Ok(context),
        Err(_) => fail(format!("Couldn't get context for {name}")),
    }
}

/// A number between 0 and 2^24, not the same twice.
fn packet_number() -> u32 {
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random & 0xff_ffff).unwrap_or(0)
}

/// Where this end is: an address for each queue pair.
fn addresses(asked: &Asked, endpoint: &Endpoint) -> Step<Vec<Address>> {
    let Ok(port) = endpoint.context().query_port(byte(asked.ib_port)) else {
        return fail("Couldn't get port info");
    };
    let ethernet = u32::from(port.link_layer) == IBV_LINK_LAYER_ETHERNET;
    if !ethernet && port.lid == 0 && asked.transport != Transport::Ud {
        return fail("Couldn't get local LID");
    }
    let gid = gid(asked, endpoint.context())?;
    let numbers = endpoint.numbers();
    let address = numbers.map(|queue_pair| Address {
        lid: u32::from(port.lid),
        queue_pair,
        packet: packet_number(),
        gid,
    });
    Ok(address.collect())
}

fn gid(asked: &Asked, context: &Context) -> Step<[u8; 16]> {
    if asked.gid < 0 {
        return Ok([0; 16]);
    }
    match context.query_gid(byte(asked.ib_port), asked.gid) {
        Ok(gid) => Ok(gid.bytes()),
        Err(_) => fail(match asked.transport {
            Transport::Rc | Transport::Uc => format!("can't read sgid of index {}", asked.gid),
            _ => format!("Could not get local gid for gid index {}", asked.gid),
        }),
    }
}

fn say(asked: &Asked, whose: &str, separator: &str, addresses: &[Address]) -> Step {
    if asked.json {
        return Ok(());
    }
    let mut out = io::stdout();
    for at in addresses {
        let (lid, number, packet) = (at.lid, at.queue_pair, at.packet);
        let gid = Ipv6Addr::from(at.gid);
        writeln!(
            out,
            "  {whose} LID 0x{lid:04x}, QPN 0x{number:06x}, PSN 0x{packet:06x}{separator} GID {gid}"
        )?;
    }
    Ok(())
}
