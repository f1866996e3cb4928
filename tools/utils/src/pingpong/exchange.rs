//! The two ends exchange their addresses over TCP, in the format of rdma-core's programs.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
};

use serde_json::{Value, json};

use super::{
    args::{Args, MOST},
    kinds::Transport,
};
use crate::program::{Step, fail, reason};

/// `0000:000000:000000:` and 32 digits, with the NUL that C sends too.
const MESSAGE: usize = 52;
const DONE: &[u8] = b"done\0";

/// A queue pair, as it is described to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Address {
    pub lid: u32,
    pub queue_pair: u32,
    /// The number of the first packet from there.
    pub packet: u32,
    /// Zeros for none.
    pub gid: [u8; 16],
}

impl Address {
    fn write(&self) -> [u8; MESSAGE] {
        let (lid, number, packet) = (self.lid, self.queue_pair, self.packet);
        let text = format!("{lid:04x}:{number:06x}:{packet:06x}:{}", digits(&self.gid));
        let mut message = [0; MESSAGE];
        for (to, from) in message.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        message
    }

    /// `None` if it is not such a message.
    fn read(message: &[u8]) -> Option<Self> {
        let mut fields = fields(message)?;
        Some(Self {
            lid: fields.number()?,
            queue_pair: fields.number()?,
            packet: fields.number()?,
            gid: fields.gid()?,
        })
    }

    pub fn json(&self) -> Value {
        let (lid, qpn, psn) = (self.lid, self.queue_pair, self.packet);
        let gid = Ipv6Addr::from(self.gid).to_string();
        json!({"lid": lid, "qpn": qpn, "psn": psn, "gid": gid})
    }
}

/// A GID in 32 digits.
pub(super) fn digits(gid: &[u8; 16]) -> String {
    gid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a message, in hexadecimal digits.
pub(super) struct Fields<'a>(std::str::Split<'a, char>);

pub(super) fn fields(message: &[u8]) -> Option<Fields<'_>> {
    let end = message.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(message.get(..end)?).ok()?;
    Some(Fields(text.split(':')))
}

impl Fields<'_> {
    pub fn number(&mut self) -> Option<u32> {
        u32::from_str_radix(self.0.next()?, 16).ok()
    }

    pub fn gid(&mut self) -> Option<[u8; 16]> {
        let digits = self.0.next()?;
        let number = (digits.len() == 32).then(|| u128::from_str_radix(digits, 16).ok())?;
        number.map(u128::to_be_bytes)
    }
}

/// Connects to a server.
pub(super) fn connect(server: &str, port: u32) -> Step<TcpStream> {
    let number = u16::try_from(port).unwrap_or(0);
    let found = match (server, number).to_socket_addrs() {
        Ok(found) => found,
        Err(error) => {
            let text = reason(&error);
            let text = text.rsplit(": ").next().unwrap_or(&text);
            return fail(format!("{text} for {server}:{port}"));
        }
    };
    for address in found {
        if let Ok(stream) = TcpStream::connect(address) {
            return Ok(stream);
        }
    }
    fail(format!("Couldn't connect to {server}:{port}"))
}

/// Listens on all addresses.
pub(super) fn listen(port: u32) -> Step<TcpListener> {
    let number = u16::try_from(port).unwrap_or(0);
    let all = [
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, number)),
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, number)),
    ];
    match TcpListener::bind(&all[..]) {
        Ok(listener) => Ok(listener),
        Err(_) => fail(format!("Couldn't listen to port {port}")),
    }
}

/// The client's half: all addresses of both ends.
pub(super) fn with_server(args: &Args, server: &str, own: &[Address]) -> Step<Vec<Address>> {
    let mut stream = connect(server, args.port)?;
    let count = count(args);
    if send(&mut stream, own, count).is_err() {
        return fail("Couldn't send local address");
    }
    let exchanged = receive(&mut stream, count).and_then(|peers| {
        stream.write_all(DONE)?;
        Ok(peers)
    });
    exchanged.or_else(|error| {
        eprintln!("client read/write: {}", reason(&error));
        fail("Couldn't read/write remote address")
    })
}

/// The server's half; it connects its queue pairs before the client may send.
pub(super) fn with_client(
    args: &Args,
    own: &[Address],
    connect: impl FnOnce(&[Address]) -> Step,
) -> Step<Vec<Address>> {
    let listener = listen(args.port)?;
    let Ok((mut stream, _)) = listener.accept() else {
        return fail("accept() failed");
    };
    drop(listener);
    let count = count(args);
    let peers = receive(&mut stream, count).or_else(|error| {
        eprintln!("server read: {}", reason(&error));
        fail("Couldn't read remote address")
    })?;
    connect(&peers)?;
    let done = send(&mut stream, own, count).and_then(|()| {
        let mut word = [0; DONE.len()];
        stream.read_exact(&mut word)
    });
    match done {
        Ok(()) => Ok(peers),
        Err(_) => fail("Couldn't send/recv local address"),
    }
}

fn count(args: &Args) -> usize {
    match args.transport {
        Transport::Srq => usize::try_from(MOST).unwrap_or(0),
        _ => 1,
    }
}

fn send(stream: &mut TcpStream, own: &[Address], count: usize) -> io::Result<()> {
    let none = Address::default();
    let all = own.iter().chain(std::iter::repeat(&none)).take(count);
    let bytes: Vec<u8> = all.flat_map(Address::write).collect();
    stream.write_all(&bytes)
}

fn receive(stream: &mut TcpStream, count: usize) -> io::Result<Vec<Address>> {
    let mut peers = Vec::new();
    for _ in 0..count {
        let mut message = [0; MESSAGE];
        stream.read_exact(&mut message)?;
        let strange = || io::Error::other("the message is no address");
        peers.push(Address::read(&message).ok_or_else(strange)?);
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let address = Address {
            lid: 0x12,
            queue_pair: 0xabcdef,
            packet: 7,
            gid: std::array::from_fn(|i| u8::try_from(i * 16).unwrap()),
        };
        let message = address.write();
        assert_eq!(
            &message[..],
            b"0012:abcdef:000007:00102030405060708090a0b0c0d0e0f0\0"
        );
        assert_eq!(Address::read(&message), Some(address));
    }

    #[test]
    fn other_messages_are_refused() {
        for message in [
            &b"0012:abcdef:000007:00102030405060708090a0b0c0d0e0f0"[..],
            b"0012:abcdef:000007:00102030405060708090a0b0c0d0e0\0",
            b"0012:abcdef:00102030405060708090a0b0c0d0e0f0\0",
            b"0012:ghijkl:000007:00102030405060708090a0b0c0d0e0f0\0",
            b"\0",
            b"\xff\0",
        ] {
            assert_eq!(Address::read(message), None);
        }
    }
}
