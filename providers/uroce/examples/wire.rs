//! The UDP carrier and the engine without the verbs: latency and bandwidth between two processes,
//! and RoCE v2 against any peer that speaks the text protocol of rdma-core's pingpongs over TCP
//! port 18515.
//!
//!     wire server|client|self OWN PEER rc|ud lat|write|read SIZE COUNT [RKEY ADDRESS]
//!
//! `lat` is a pingpong of sends (`ibv_rc_pingpong`, `ibv_ud_pingpong` on the other side will do);
//! `write` and `read` go from the client to the server, to memory that the peer named, or another
//! `wire` has. `self` has both sides in one thread and counts its CPU time, so that it can be
//! measured on a busy machine: sends one way and the other, each acknowledged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a tool for developers"
)]

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../src/node/tests/end.rs"]
mod end;

mod api {
    pub use uroce::carrier::qpn::INDEX_BITS;
    pub use uroce::carrier::shm::Peer;
    pub use uroce::carrier::udp::Path;
    pub use uroce::carrier::{Sender, Via};
    pub use uroce::node::{Caller, Endpoint, Incoming, Node};
}

use end::{End, data, setup};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;
use uroce::node::Caller;
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Mtu, Service};
use uroce_engine::sim::{ALL, BASE, Setup};
use uroce_engine::work::{Destination, Remote, Request, Status, WorkRequest};

/// Of rdma-core's pingpongs.
const PORT: u16 = 18515;
/// Length of their message, with the NUL.
const MESSAGE: usize = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1;
/// Ends their exchange; between two of this program, the whole as well.
const DONE: &[u8] = b"done\0";
/// Requests under way.
const DEPTH: usize = 64;
/// Room for a datagram's network header.
const GRH: u32 = 40;

struct Task {
    client: bool,
    own: IpAddr,
    peer: IpAddr,
    service: Service,
    what: String,
    size: u32,
    count: usize,
    remote: Remote,
    /// With fewer processors than processes: the others get theirs.
    polite: bool,
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("a number"),
        None => text.parse().expect("a number"),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).expect("see the source for usage").as_str();
    let task = Task {
        client: word(0) == "client",
        own: word(1).parse().expect("an address"),
        peer: word(2).parse().expect("an address"),
        service: if word(3) == "ud" {
            Service::Ud
        } else {
            Service::Rc
        },
        what: word(4).to_owned(),
        size: number(word(5)) as u32,
        count: number(word(6)) as usize,
        polite: std::env::var_os("WIRE_POLITE").is_some(),
        remote: Remote {
            rkey: args.get(7).map_or(ALL, |rkey| number(rkey) as u32),
            address: args.get(8).map_or(BASE, |address| number(address)),
        },
    };
    if word(0) == "self" {
        return task.alone();
    }
    task.run();
}

/// Nanoseconds that this thread has had a CPU.
fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc");
    number(text.split(' ').next().expect("a number"))
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Task {
    fn run(&self) {
        let node = api::Node::get().expect("a node");
        let mtu = std::env::var("WIRE_MTU").map_or(4096, |mtu| number(&mtu));
        let setup = Setup {
            mtu: Mtu::from_code((mtu / 128).ilog2() as u8).expect("an MTU"),
            psn: Psn::new(0x0012_3456),
            ..setup(self.service)
        };
        let end = End::new(&node, &setup, self.own, 1, 8 << 20);
        end.inner.lock().path.destination = self.peer;
        let mut stream = if self.client {
            loop {
                match TcpStream::connect((self.peer, PORT)) {
                    Ok(stream) => break stream,
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                }
            }
        } else {
            let any = match self.own {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => self.own,
            };
            let listener = TcpListener::bind((any, PORT)).expect("the port");
            listener.accept().expect("a peer").0
        };
        let peer = self.meet(&mut stream, &end, &setup);
        let start = Instant::now();
        match (self.what.as_str(), self.client) {
            ("lat", _) => self.pingpong(&end, peer),
            (_, true) => self.stream(&end),
            (_, false) => {}
        }
        let taken = start.elapsed();
        if self.client {
            linger(&end);
            // Unless the peer has closed already.
            let _ = stream.write_all(DONE);
        } else {
            serve(&end, stream);
        }
        self.report(taken);
    }

    fn alone(&self) {
        let node = api::Node::get().expect("a node");
        let setup = setup(self.service);
        let [left, right] = end::pair([&node, &node], &setup, self.own, 8 << 20);
        for end in [&left, &right] {
            (0..DEPTH as u64).for_each(|id| self.post_receive(end, id));
        }
        let start = cpu_time();
        for _ in 0..self.count {
            for [from, to] in [[&left, &right], [&right, &left]] {
                self.send(from, to.number);
                let mut arrived = false;
                while !arrived {
                    node.progress(Caller::Node);
                    for one in to.completions() {
                        arrived |= one.is_receive();
                    }
                }
                from.completions();
                self.post_receive(to, 0);
            }
        }
        let micros = (cpu_time() - start) as f64 / 1e3;
        println!(
            "{} B: {:.2} us of CPU one way",
            self.size,
            micros / self.count as f64 / 2.0
        );
    }

    fn meet(&self, stream: &mut TcpStream, end: &End, setup: &Setup) -> u32 {
        let gid: String = octets(self.own)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let ours = format!(
            "{:04x}:{:06x}:{:06x}:{gid}\0",
            0,
            end.number,
            setup.psn.value()
        );
        let mut theirs = [0; MESSAGE];
        if self.client {
            stream.write_all(ours.as_bytes()).expect("sent");
        }
        stream.read_exact(&mut theirs).expect("an answer");
        let text = std::str::from_utf8(&theirs).expect("text");
        let part = |at: usize| {
            let part = text.split(':').nth(at).expect("a part");
            u32::from_str_radix(part, 16).expect("a number")
        };
        let peer = part(1);
        end.connect_to(setup, peer, Psn::new(part(2)));
        if self.what == "lat" {
            for id in 0..DEPTH as u64 {
                self.post_receive(end, id);
            }
        }
        if self.client {
            stream.write_all(DONE).expect("sent");
        } else {
            stream.write_all(ours.as_bytes()).expect("sent");
            stream.read_exact(&mut [0; DONE.len()]).expect("an answer");
        }
        peer
    }

    fn post_receive(&self, end: &End, id: u64) {
        let head = if self.service == Service::Ud { GRH } else { 0 };
        end.post_receive(id, 4 << 20, self.size + head);
    }

    fn send(&self, end: &End, peer: u32) {
        let ud = self.service == Service::Ud;
        end.post(WorkRequest {
            data: data(0, self.size),
            destination: ud.then_some(Destination {
                address: 0,
                qpn: peer,
                qkey: 0x1111_1111,
            }),
            ..WorkRequest::new(1 << 32, Request::Send)
        });
    }

    fn pingpong(&self, end: &Arc<End>, peer: u32) {
        let (mut sent, mut received, mut finished) = (0, 0, 0);
        if self.client {
            self.send(end, peer);
            sent += 1;
        }
        while received < self.count || finished < self.count {
            let done = end.completions();
            if done.is_empty() {
                end.node.progress(Caller::Node);
                if self.polite {
                    std::thread::yield_now();
                }
            }
            for one in done {
                assert_eq!(one.status, Status::Success, "{one:?}");
                if !one.is_receive() {
                    finished += 1;
                    continue;
                }
                received += 1;
                if sent < self.count {
                    self.send(end, peer);
                    sent += 1;
                }
                self.post_receive(end, one.id);
            }
        }
    }

    fn stream(&self, end: &Arc<End>) {
        let before = end.bytes(0, self.size);
        let (mut posted, mut finished) = (0, 0);
        while finished < self.count {
            while posted < self.count && posted - finished < DEPTH {
                let request = match self.what.as_str() {
                    "read" => Request::Read(self.remote),
                    _ => Request::Write(self.remote),
                };
                let offset = if self.what == "read" { 4 << 20 } else { 0 };
                end.post(WorkRequest {
                    data: data(offset, self.size),
                    ..WorkRequest::new(posted as u64, request)
                });
                posted += 1;
            }
            let done = end.completions();
            if done.is_empty() {
                end.node.progress(Caller::Node);
                if self.polite {
                    std::thread::yield_now();
                }
            }
            for one in done {
                assert_eq!(one.status, Status::Success, "{one:?}");
                finished += 1;
            }
        }
        if self.what == "read" && std::env::var_os("WIRE_COMPARE").is_some() {
            assert!(end.bytes(4 << 20, self.size) == before, "bytes differ");
            println!("bytes read are those written");
        }
    }

    fn report(&self, taken: std::time::Duration) {
        let micros = taken.as_secs_f64() * 1e6;
        let count = self.count as f64;
        if self.what == "lat" {
            println!("{} B: {:.2} us one way", self.size, micros / count / 2.0);
        } else if self.client {
            let gigabytes = count * f64::from(self.size) / micros / 1e3;
            println!(
                "{} B: {:.3} M/s, {gigabytes:.3} GB/s; {:?}",
                self.size,
                count / micros,
                api::Node::get().map(|node| node.slot()),
            );
        }
    }
}

/// Advances the node until the peer reports that it is done.
fn serve(end: &Arc<End>, mut stream: TcpStream) {
    let done = Arc::new(AtomicBool::new(false));
    let reported = Arc::clone(&done);
    let reader = std::thread::spawn(move || {
        let _ = stream.read(&mut [0; 5]);
        reported.store(true, SeqCst);
    });
    while !done.load(SeqCst) {
        end.node.progress(Caller::Node);
    }
    reader.join().expect("read");
    linger(end);
    let counters = *end.inner.lock().qp.counters();
    println!("{counters:?}");
}

/// Continues for a while, for a peer that did not get the last acknowledgement.
fn linger(end: &Arc<End>) {
    let start = Instant::now();
    while start.elapsed().as_millis() < 150 {
        end.node.progress(Caller::Node);
    }
}
