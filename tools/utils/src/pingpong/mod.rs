//! `ibv_rc_pingpong`, `ibv_uc_pingpong`, `ibv_ud_pingpong`, `ibv_srq_pingpong`, and `xsrq`.
//!
//! Two processes exchange their queue pairs over TCP and then send a message to and fro.
//! Either end may be rdma-core's program.
//!
//! | file | contents |
//! | --- | --- |
//! | `kinds` | how the four programs differ: options, defaults, words |
//! | `exchange` | the addresses as they go over TCP |
//! | `endpoint` | the verbs objects of one end |
//! | `rounds` | the messages, and their counts |
//! | `outcome` | the output at the end |

mod args;
mod endpoint;
mod exchange;
mod kinds;
mod outcome;
mod rounds;
pub mod xsrq;

use args::{Args, mtu};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Write},
    net::Ipv6Addr,
    os::unix::ffi::OsStrExt,
    time::Instant,
};

use serde_json::Value;
use verbs::tools::{Context, abi::IBV_LINK_LAYER_ETHERNET, getopt::Options};

use crate::{
    numbers::byte,
    program::{Step, devices, fail, print_json, text},
};
use endpoint::Endpoint;
use exchange::Address;
use kinds::Transport;
pub use kinds::{Kind, RC, SRQ, UC, UD};
use outcome::Outcome;

/// Runs a program.
///
/// # Errors
/// Status 1, with the reason on stderr; or the number that a device refused to be polled with.
pub fn run(kind: &Kind, mut options: Options) -> Result<(), u8> {
    let mut args = Args::new(kind);
    for (name, value) in options.by_ref() {
        if args.option(name, value).is_none() {
            print!("{}", kind.usage(&options.program));
            return Err(1);
        }
    }
    let mut words = options.words().into_iter();
    args.server = words.next();
    if words.next().is_some() {
        print!("{}", kind.usage(&options.program));
        return Err(1);
    }
    play(&args).map_err(|failed| failed.0)
}

fn play(args: &Args) -> Step {
    if let Some(words) = args.contradiction() {
        return fail(words);
    }
    let context = open(args)?;
    let mut endpoint = Endpoint::new(args, context)?;
    endpoint.post_receives(args)?;
    if args.events {
        endpoint.request_event()?;
    }
    let own = addresses(args, &endpoint)?;
    let separator = if args.transport == Transport::Ud {
        ":"
    } else {
        ","
    };
    print(args, "local address: ", separator, &own)?;
    let server = args.server.as_ref().map(text);
    let peers = match &server {
        Some(server) => exchange::with_server(args, server, &own)?,
        None => exchange::with_client(args, &own, |peers| {
            let connected = endpoint.connect(args, &own, peers);
            connected.inspect_err(|_| eprintln!("Couldn't connect to remote QP"))
        })?,
    };
    let count = own.len();
    print(
        args,
        "remote address:",
        ",",
        peers.get(..count).unwrap_or_default(),
    )?;
    if server.is_some() {
        endpoint.connect(args, &own, &peers)?;
    }
    let start = Instant::now();
    let times = rounds::play(args, &mut endpoint, server.is_some())?;
    let mut outcome = Outcome::new(args, start.elapsed(), times);
    if server.is_none() && args.check {
        outcome.bad_pages = endpoint.bad_pages(args)?;
    }
    if args.json {
        let list = |of: &[Address]| of.iter().map(Address::json).collect::<Vec<Value>>();
        let peers = peers.get(..count).unwrap_or_default();
        print_json(&outcome.json(list(&own), list(peers)))?;
    } else {
        outcome.print()?;
    }
    endpoint.close()
}

fn open(args: &Args) -> Step<Context> {
    let devices = devices(1)?;
    let name = args.device.as_ref().map(|name| name.as_bytes());
    let Some(device) = devices.find(name) else {
        return match &args.device {
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
fn addresses(args: &Args, endpoint: &Endpoint) -> Step<Vec<Address>> {
    let Ok(port) = endpoint.context().query_port(byte(args.ib_port)) else {
        return fail("Couldn't get port info");
    };
    let ethernet = u32::from(port.link_layer) == IBV_LINK_LAYER_ETHERNET;
    if !ethernet && port.lid == 0 && args.transport != Transport::Ud {
        return fail("Couldn't get local LID");
    }
    let gid = gid(args, endpoint.context())?;
    let numbers = endpoint.numbers();
    let address = numbers.map(|queue_pair| Address {
        lid: u32::from(port.lid),
        queue_pair,
        packet: packet_number(),
        gid,
    });
    Ok(address.collect())
}

fn gid(args: &Args, context: &Context) -> Step<[u8; 16]> {
    if args.gid < 0 {
        return Ok([0; 16]);
    }
    match context.query_gid(byte(args.ib_port), args.gid) {
        Ok(gid) => Ok(gid.bytes()),
        Err(_) => fail(match args.transport {
            Transport::Rc | Transport::Uc => format!("can't read sgid of index {}", args.gid),
            _ => format!("Could not get local gid for gid index {}", args.gid),
        }),
    }
}

fn print(args: &Args, whose: &str, separator: &str, addresses: &[Address]) -> Step {
    if args.json {
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
