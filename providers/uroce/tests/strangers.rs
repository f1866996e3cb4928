//! Attacks of another user of the host on this one's processes: taking names, sending to their
//! sockets, and taking the names of ended processes. Needs root, which becomes the other user.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Player, receive_line, reply, role as my_role};
use ends::{End, connect, peer_is_at};
use kit::abi::*;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};
use std::os::fd::OwnedFd;
use uroce::carrier::udp::Slot;

const STRANGER: u32 = 65534;
const LAST: u16 = 1022;

#[test]
fn in_a_namespace() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    alone::in_a_namespace();
}

/// A process of the tests below.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    match my_role().as_deref() {
        Some("stranger") => stranger(),
        Some("peer") => peer(),
        Some("guest") => {
            become_other([STRANGER; 3]);
            peer();
        }
        Some("guest by rights") => {
            become_other([0, STRANGER, 0]);
            peer();
        }
        Some("taker") => taker(),
        _ => {}
    }
}

fn socket(kind: SocketType) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket")
}

fn name(text: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(text.as_bytes()).expect("a name")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.as_bytes().chunks(2).collect();
    let byte = |pair: &&[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
    digits
        .iter()
        .map(byte)
        .collect::<Result<_, _>>()
        .expect("digits")
}

/// Changes the real, effective and saved user of this thread, and of those that it starts.
fn become_other(users: [u32; 3]) {
    let [real, effective, saved] = users.map(Uid::from_raw);
    rustix::thread::set_thread_res_uid(real, effective, saved).expect("another user");
}

/// Another user's process, which executes commands.
fn stranger() {
    // All that it may have: eight sockets for each slot are 8176.
    let limit = getrlimit(Resource::Nofile);
    let many = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, many).expect("a limit");
    become_other([STRANGER; 3]);
    reply("ready");
    let mut sockets: Vec<OwnedFd> = Vec::new();
    let from = socket(SocketType::DGRAM);
    let mut port = None;
    while let Some(line) = receive_line() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["everything"] => {
                sockets.extend((1..=LAST).flat_map(all_names_of));
                reply("done");
            }
            // As soon as it is free.
            ["take", text] => {
                let socket = socket(SocketType::DGRAM);
                while net::bind(&socket, &name(text)).is_err() {}
                sockets.push(socket);
                reply("done");
            }
            ["listen", text] => {
                let socket = socket(SocketType::SEQPACKET);
                while net::bind(&socket, &name(text)).is_err() {}
                net::listen(&socket, 64).expect("listening");
                sockets.push(socket);
                reply("done");
            }
            ["send", text, bytes] => {
                let bytes = unhex(bytes);
                let sent = net::sendto(&from, &bytes, SendFlags::empty(), &name(text));
                reply(&format!("{:?}", sent.map_err(|error| error.raw_os_error())));
            }
            ["connect", text, bytes] => {
                let socket = socket(SocketType::SEQPACKET);
                let sent = net::connect(&socket, &name(text))
                    .and_then(|()| net::send(&socket, &unhex(bytes), SendFlags::NOSIGNAL));
                sockets.push(socket);
                reply(&format!("{:?}", sent.map_err(|error| error.raw_os_error())));
            }
            // As many datagrams and connections as it can, until it ends.
            ["flood", kind, text] => {
                let (kind, text) = (kind.to_owned(), text.to_owned());
                std::thread::spawn(move || flood(&kind, &name(&text)));
                reply("done");
            }
            ["port"] => {
                port = Some(std::net::UdpSocket::bind("0.0.0.0:4791").expect("a port"));
                reply("done");
            }
            // How much has come.
            ["got"] => {
                let got = |socket: &OwnedFd| {
                    net::recv(socket, &mut [0u8; 16][..], RecvFlags::empty()).is_ok()
                };
                let count: usize = sockets
                    .iter()
                    .map(|socket| (0..100).take_while(|_| got(socket)).count())
                    .sum();
                reply(&count.to_string());
            }
            _ => panic!("{line}"),
        }
    }
    drop(port);
}

/// Keeps the queues of a socket full: that of its datagrams, or that of its connections.
fn flood(kind: &str, to: &SocketAddrUnix) {
    let from = socket(SocketType::DGRAM);
    let mut connections = std::collections::VecDeque::new();
    loop {
        if kind == "0002" {
            let _ = net::sendto(&from, b"flood", SendFlags::empty(), to);
            continue;
        }
        let kind = match kind {
            "0001" => SocketType::STREAM,
            _ => SocketType::SEQPACKET,
        };
        let connection = socket(kind);
        if net::connect(&connection, to).is_ok() {
            connections.push_back(connection);
        }
        if connections.len() > 100 {
            connections.pop_front();
        }
    }
}

/// Sockets of all names that claim a slot, in the present form and in that of older releases.
fn all_names_of(slot: u16) -> Vec<OwnedFd> {
    let token = format!("{slot:024x}");
    let mut made = Vec::new();
    for end in ["", "/shm", "/kept"] {
        let socket = socket(SocketType::DGRAM);
        // One has a slot already, perhaps.
        let _ = net::bind(&socket, &name(&format!("uroce/{slot}{end}")));
        made.push(socket);
    }
    for (kind, end) in [
        (SocketType::STREAM, "/stat".to_owned()),
        (SocketType::STREAM, format!("/stat/{token}")),
        (SocketType::SEQPACKET, format!("/claim/{token}")),
        (SocketType::SEQPACKET, format!("/kept/{token}")),
        (SocketType::SEQPACKET, format!("/2/{token}/-/{token}")),
    ] {
        let socket = socket(kind);
        net::bind(&socket, &name(&format!("uroce/{slot}{end}"))).expect("bound");
        net::listen(&socket, 1).expect("listening");
        made.push(socket);
    }
    made
}

/// An end that is connected to another or to itself, and moves data.
fn peer() {
    let end = End::new(IBV_QPT_RC);
    let (number, address, rkey) = (end.number(), end.address(0), end.rkey());
    reply(&format!("{number} {address} {rkey}"));
    while let Some(line) = receive_line() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["peer", number, address, _] => {
                peer_is_at(address.parse().expect("an address"));
                connect(&end, number.parse().expect("a number"));
                end.post_recv(7, 65_536, 4096);
                reply("connected");
            }
            ["send"] => {
                end.post_send(1, IBV_WR_SEND, 0, 3000, 0, 0);
                reply(&format!("status {}", end.completion().status));
            }
            ["receive"] => {
                let status = end.completion().status;
                end.post_recv(7, 65_536, 4096);
                reply(&format!("status {status}"));
            }
            ["look"] => reply(&hex(&end.bytes(4096, 8))),
            _ => panic!("{line}"),
        }
    }
}

/// A process that only has a slot: it prints the packets that are forwarded to it.
fn taker() {
    let slot = Slot::claim(true).expect("a slot");
    reply(&slot.number().to_string());
    let mut buffer = [0; 4096];
    while let Some(line) = receive_line() {
        assert_eq!(line, "take");
        let (mut taken, mut dropped) = (0, 0);
        while let Ok(run) = slot.take(&mut buffer) {
            match run {
                Some(_) => taken += 1,
                None => dropped += 1,
            }
        }
        reply(&format!("{taken} {dropped}"));
    }
}

mod inside {
    use super::*;
    use kit::errno::Errno;
    use kit::sys::datagram::Received;
    use std::net::Ipv4Addr;
    use uroce_engine::psn::Psn;
    use uroce_engine::wire::icrc::{Icrc, Network, Route};
    use uroce_engine::wire::{Bth, Headers, ICRC_LEN, Opcode, Reth};

    const PORT: u16 = 0xc123;

    /// The names of sockets of a slot, with their types as /proc has them.
    fn names_of(slot: &str) -> Vec<(String, String)> {
        let table = std::fs::read("/proc/net/unix").expect("a table");
        let table = String::from_utf8_lossy(&table);
        let names = table.lines().filter_map(|line| {
            let (front, name) = line.rsplit_once('@')?;
            let kind = front.split_ascii_whitespace().nth(4)?;
            let mut words = name.split('/').skip(1);
            (words.next() == Some(slot)).then(|| (kind.to_owned(), name.to_owned()))
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        names
    }

    fn run(data: &[u8]) -> Received<'_> {
        Received {
            data,
            segment: data.len(),
            source: Ipv4Addr::LOCALHOST.into(),
            port: PORT,
            destination: Ipv4Addr::LOCALHOST.into(),
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
        }
    }

    /// A run of packets as processes hand it to each other.
    fn handed(data: &[u8]) -> Vec<u8> {
        let address = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        let mut bytes = vec![1, 4, 64, 0];
        bytes.extend(PORT.to_be_bytes());
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(address);
        bytes.extend(address);
        bytes.extend(data);
        bytes
    }

    /// An RDMA write of 8 bytes, in the name of the peer.
    fn write_of(number: u32, address: u64, rkey: u32, data: [u8; 8], psn: u32) -> Vec<u8> {
        let bth = Bth {
            opcode: 0,
            solicited: false,
            migrated: true,
            pad: 0,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            destination: number,
            ack_request: false,
            selective: false,
            piggyback: false,
            equal: false,
            filled: false,
            psn: Psn::new(psn),
        };
        let opcode = (0..=255).filter_map(Opcode::parse).find(|opcode| {
            // RC RDMA WRITE Only.
            let mut headers = Headers::new(*opcode, bth);
            headers.reth = Some(Reth {
                address,
                rkey,
                length: 8,
            });
            headers.emit().as_slice().first() == Some(&0x0a)
        });
        let mut headers = Headers::new(opcode.expect("an opcode"), bth);
        headers.reth = Some(Reth {
            address,
            rkey,
            length: 8,
        });
        let mut bytes = headers.emit().as_slice().to_vec();
        bytes.extend(data);
        let route = Route {
            network: Network::V4 {
                source: Ipv4Addr::LOCALHOST.octets(),
                destination: Ipv4Addr::LOCALHOST.octets(),
                identification: 0,
                dont_fragment: true,
            },
            source_port: PORT,
            destination_port: 4791,
        };
        let icrc = Icrc::begin(&route, &bytes, bytes.len() + ICRC_LEN).finish();
        bytes.extend_from_slice(&icrc);
        bytes
    }

    fn started(role: &str, environment: &[(&str, &str)]) -> (Player, String) {
        let mut player = Player::start_with(role, environment);
        let answer = player.receive_line();
        (player, answer)
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stranger_with_all_names_does_not_block_others() {
        if !alone::there() {
            return;
        }
        let (mut stranger, _) = started("stranger", &[]);
        assert_eq!(stranger.ask("everything"), "done");
        // Devices open, and find each other by shared memory and by UDP.
        for carrier in ["shm", "udp", "auto"] {
            let environment = [("UROCE_CARRIER", carrier)];
            let (mut left, of_left) = started("peer", &environment);
            let (mut right, of_right) = started("peer", &environment);
            assert_eq!(left.ask(&format!("peer {of_right}")), "connected");
            assert_eq!(right.ask(&format!("peer {of_left}")), "connected");
            assert_eq!(left.ask("send"), "status 0", "{carrier}");
            assert_eq!(right.ask("receive"), "status 0", "{carrier}");
            left.end();
            right.end();
        }
        // Packets are handed on, each slot is one process's.
        let (mut taker, slot) = started("taker", &[]);
        let ours = Slot::claim(false).expect("a slot");
        assert_ne!(slot, ours.number().to_string());
        let to = slot.parse().expect("a slot");
        assert_eq!(ours.hand_on(to, &run(b"some bytes")), Ok(()));
        assert_eq!(taker.ask("take"), "1 0");
        // Root can take no slot that the stranger's processes have: they are strangers.
        assert_eq!(stranger.ask("got"), "0");
        taker.end();
        stranger.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn packets_of_strangers_change_nothing() {
        if !alone::there() {
            return;
        }
        let (mut stranger, _) = started("stranger", &[]);
        let (mut victim, of_victim) = started("peer", &[("UROCE_CARRIER", "udp")]);
        let numbers: Vec<u64> = of_victim
            .split(' ')
            .map(|word| word.parse().expect("one"))
            .collect();
        let [number, address, rkey] = numbers[..] else {
            panic!("{of_victim}");
        };
        assert_eq!(victim.ask(&format!("peer {of_victim}")), "connected");
        let before = victim.ask("look");
        let write = |data, psn| {
            handed(&write_of(
                number as u32,
                address + 4096,
                rkey as u32,
                data,
                psn,
            ))
        };
        let slot = (number >> 14).to_string();
        let names = names_of(&slot);
        assert!(names.len() >= 3, "{names:?}");
        for (kind, name) in &names {
            let bytes = hex(&write([0x5a; 8], 0));
            let command = if kind == "0002" { "send" } else { "connect" };
            stranger.ask(&format!("{command} {name} {bytes}"));
        }
        // A process of the same user is trusted. Earlier packets were received, too.
        let ours = Slot::claim(false).expect("a slot");
        let packet = write_of(number as u32, address + 4096, rkey as u32, [0x77; 8], 0);
        let to = slot.parse().expect("a slot");
        while ours.hand_on(to, &run(&packet)) == Err(Errno::AGAIN) {}
        let wanted = hex(&[0x77; 8]);
        let mut after = victim.ask("look");
        // A look beside the write may find a part of it.
        let is_part = |after: &str| {
            let mut digits = after.bytes().zip(before.bytes());
            after != wanted && digits.all(|(now, was)| now == was || now == b'7')
        };
        while is_part(&after) {
            after = victim.ask("look");
        }
        assert_eq!(after, wanted);
        victim.end();
        stranger.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stranger_with_the_name_of_an_ended_process_gets_nothing() {
        if !alone::there() {
            return;
        }
        for round in 0..20 {
            let (mut stranger, _) = started("stranger", &[]);
            let (mut taker, slot) = started("taker", &[]);
            let to = slot.parse().expect("a slot");
            let ours = Slot::claim(false).expect("a slot");
            if round % 2 == 0 {
                // Known before, and connected to.
                assert_eq!(ours.hand_on(to, &run(b"first")), Ok(()));
                assert_eq!(taker.ask("take"), "1 0");
            } else {
                // Known only.
                assert!(ours.registry().find(to).is_ok());
            }
            let names = names_of(&slot);
            // It takes each as soon as it is free; those of listening sockets after the others.
            let proof = names.iter().find(|(_, name)| name.contains("/2/"));
            let (_, proof) = proof.expect("a name").clone();
            let packets = format!("uroce/{slot}");
            stranger.send_line(&format!("take {packets}"));
            taker.kill();
            let mut answers = vec![];
            for _ in 0..50 {
                answers.push(ours.hand_on(to, &run(b"secret")));
                // Another sender, that has not been connected.
                let other = Slot::claim(false).expect("a slot");
                if other.number() != to {
                    answers.push(other.hand_on(to, &run(b"secret")));
                }
            }
            assert_eq!(stranger.receive_line(), "done");
            assert_eq!(stranger.ask(&format!("listen {proof}")), "done");
            for _ in 0..50 {
                answers.push(ours.hand_on(to, &run(b"secret")));
            }
            let last = answers.last().copied().expect("an answer");
            assert!(
                matches!(last, Err(Errno::AGAIN | Errno(libc::ECONNREFUSED))),
                "{answers:?}"
            );
            assert_eq!(stranger.ask("got"), "0", "{answers:?}");
            stranger.end();
        }
    }

    /// Two processes connect to each other, and one sends to the other.
    fn exchange([left, right]: &mut [(Player, String); 2], what: &str) {
        let (of_left, of_right) = (left.1.clone(), right.1.clone());
        assert_eq!(left.0.ask(&format!("peer {of_right}")), "connected");
        assert_eq!(right.0.ask(&format!("peer {of_left}")), "connected");
        assert_eq!(left.0.ask("send"), "status 0", "{what}");
        assert_eq!(right.0.ask("receive"), "status 0", "{what}");
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn the_effective_user_counts() {
        if !alone::there() {
            return;
        }
        let mut both = ["guest by rights", "guest"].map(|role| started(role, &[]));
        exchange(&mut both, "by the effective user");
        // With more rights than its caller, a process shares no memory, however much is sent.
        let [(left, _), (right, _)] = &mut both;
        for _ in 0..50 {
            assert_eq!(left.ask("send"), "status 0");
            assert_eq!(right.ask("receive"), "status 0");
        }
        for player in [left, right] {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", player.id()));
            assert!(!maps.expect("maps").contains("memfd:uroce-link"));
        }
        for (player, _) in both {
            player.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stranger_that_floods_all_sockets_only_delays() {
        if !alone::there() {
            return;
        }
        for carrier in ["auto", "udp"] {
            let (mut stranger, _) = started("stranger", &[]);
            let environment = [("UROCE_CARRIER", carrier)];
            let mut both = ["peer", "peer"].map(|role| started(role, &environment));
            for (_, who) in &both {
                let number: u64 = who.split(' ').next().expect("one").parse().expect("one");
                for (kind, name) in names_of(&(number >> 14).to_string()) {
                    assert_eq!(stranger.ask(&format!("flood {kind} {name}")), "done");
                }
            }
            exchange(&mut both, carrier);
            // Others open devices meanwhile.
            let mut more = ["peer", "peer"].map(|role| started(role, &environment));
            exchange(&mut more, carrier);
            for (player, _) in both.into_iter().chain(more) {
                player.end();
            }
            stranger.kill();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn the_user_of_the_port_is_named() {
        if !alone::there() {
            return;
        }
        let (mut stranger, _) = started("stranger", &[]);
        assert_eq!(stranger.ask("port"), "done");
        let opened = uroce::context::Context::open(&ends::loopback());
        assert_eq!(opened.err(), Some(Errno(libc::EADDRINUSE)));
        assert_eq!(uroce::carrier::udp::port_user(), Some(STRANGER));
        stranger.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_slot_is_claimed_soon_beside_many_processes() {
        if !alone::there() {
            return;
        }
        let count = alone::rounds("UROCE_BESIDE", 40);
        let players: Vec<_> = (0..count).map(|_| started("taker", &[])).collect();
        let slots: std::collections::BTreeSet<_> = players.iter().map(|(_, slot)| slot).collect();
        assert_eq!(slots.len(), players.len());
        let mut times: Vec<_> = (0..21)
            .map(|_| {
                let began = std::time::Instant::now();
                let slot = Slot::claim(true).expect("a slot");
                let took = began.elapsed();
                assert!(!slots.contains(&slot.number().to_string()));
                took
            })
            .collect();
        times.sort();
        eprintln!(
            "a slot beside {count} processes: {:?} in the middle",
            times[10]
        );
        for (player, _) in players {
            player.kill();
        }
    }
}
