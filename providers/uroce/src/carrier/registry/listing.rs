//! Which sockets of uroce listen in this network namespace: asked of the kernel by netlink
//! (sock_diag(7), which reports each socket's user since Linux 5.3), or else read from
//! `/proc/net/unix`, which many sandboxes have and sock_diag(7) not.
//!
//! Any user can add sockets, as many as it may open, so the stored names are limited. A name does
//! not prove its owner.

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{attributes, exactly, split};
use rustix::net::netlink;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Its abstract name, which begins with `uroce/`.
    pub name: String,
    /// Its owner, where the kernel reports it.
    pub user: Option<u32>,
}

/// Sockets that are kept at most: 1022 processes have two each, and one for each domain and
/// number that was taken over.
const MOST: usize = 1 << 16;
/// Bytes of `/proc/net/unix` that are read at most.
const LONGEST: u64 = 64 << 20;
const PREFIX: &str = "uroce/";

/// `SOCK_DIAG_BY_FAMILY` (`linux/include/uapi/linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// Attributes to be shown (`linux/include/uapi/linux/unix_diag.h`).
const SHOW_NAME: u32 = 1;
const SHOW_USER: u32 = 0x40;
/// Attributes.
const NAME: u16 = 0;
const USER: u16 = 7;
/// The state of a socket that listens (`TCP_LISTEN`).
const LISTENS: u32 = 10;
/// Bytes of `struct unix_diag_msg`.
const HEAD: usize = 16;
/// `__SO_ACCEPTCON`, in the flags of `/proc/net/unix`.
const ACCEPTS: u32 = 1 << 16;

/// The sockets of uroce that listen.
///
/// # Errors
/// EMFILE, ENFILE, ENOBUFS, ENOMEM; of opening `/proc/net/unix`, if sock_diag(7) is denied
/// either.
pub fn listening() -> Result<Vec<Listening>> {
    /// sock_diag(7) has failed once.
    static WITHOUT: AtomicBool = AtomicBool::new(false);
    if !WITHOUT.load(Relaxed) {
        match by_netlink() {
            Ok(found) => return Ok(found),
            Err(error) if error.is_shortage() => return Err(error),
            Err(_) => {}
        }
        WITHOUT.store(true, Relaxed);
    }
    from_file("/proc/net/unix")
}

/// The sockets of a list, none where sockets cannot be listed at all.
///
/// # Errors
/// EMFILE, ENFILE, ENOBUFS, ENOMEM: then it is not known which there are.
pub fn known(listed: Result<Vec<Listening>>) -> Result<Vec<Listening>> {
    match listed {
        Err(error) if error.is_shortage() => Err(error),
        listed => Ok(listed.unwrap_or_default()),
    }
}

fn by_netlink() -> Result<Vec<Listening>> {
    let mut fixed = [0; 24];
    let parts: [&[u8]; 4] = [
        &[u8::try_from(libc::AF_UNIX).unwrap_or(1), 0, 0, 0],
        &(1u32 << LISTENS).to_ne_bytes(),
        &[0; 4],
        &(SHOW_NAME | SHOW_USER).to_ne_bytes(),
    ];
    for (place, byte) in fixed.iter_mut().zip(parts.concat()) {
        *place = byte;
    }
    let question = Question {
        message: BY_FAMILY,
        kind: Kind::List,
        fixed: &fixed,
        attributes: &[],
    };
    let mut found = Vec::new();
    let mut kernel = Connection::open(Some(netlink::SOCK_DIAG), 0)?;
    kernel.ask(&question, |_, payload| {
        if found.len() < MOST {
            found.extend(from_message(payload)?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// A socket as netlink reports it, if it is one of uroce's.
fn from_message(payload: &[u8]) -> Result<Option<Listening>> {
    let (_, rest) = split::<HEAD>(payload)?;
    let (mut name, mut user) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            NAME => name = abstract_name(value),
            USER => user = Some(u32::from_ne_bytes(exactly(value)?)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(name.map(|name| Listening { name, user }))
}

fn abstract_name(bytes: &[u8]) -> Option<String> {
    let (0, name) = bytes.split_first()? else {
        return None;
    };
    let name = std::str::from_utf8(name).ok()?;
    name.starts_with(PREFIX).then(|| name.to_owned())
}

fn from_file(path: &str) -> Result<Vec<Listening>> {
    let file = File::open(path).map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(from_table(BufReader::with_capacity(
        1 << 16,
        file.take(LONGEST),
    )))
}

/// The sockets of a table in the form of `/proc/net/unix`. A name may contain any bytes, also line
/// ends: an apparent line may be part of a name.
fn from_table(mut table: impl BufRead) -> Vec<Listening> {
    let mut found = Vec::new();
    let mut line = Vec::new();
    while found.len() < MOST {
        line.clear();
        if !matches!(table.read_until(b'\n', &mut line), Ok(1..)) {
            break;
        }
        found.extend(from_line(line.trim_ascii_end()));
    }
    found
}

/// `Num: RefCount Protocol Flags Type St Inode Path`.
fn from_line(line: &[u8]) -> Option<Listening> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let name = words.nth(3)?.strip_prefix('@')?;
    let is_uroces = name.starts_with(PREFIX) && words.next().is_none();
    (flags & ACCEPTS != 0 && is_uroces).then(|| Listening {
        name: name.to_owned(),
        user: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named;
    use proptest::prelude::*;
    use rustix::net::{SocketType, bind, listen};

    #[test]
    fn both_ways_find_those_that_listen() {
        let me = std::process::id();
        let sockets = ["a", "b"].map(|end| {
            let socket = named::socket(SocketType::SEQPACKET).expect("a socket");
            let name = named::name(&format!("uroce/listing/{me}/{end}")).expect("a name");
            bind(&socket, &name).expect("bound");
            socket
        });
        listen(&sockets[0], 1).expect("listening");
        let wanted = format!("uroce/listing/{me}/");
        let ours = |found: Result<Vec<Listening>>| {
            let mut found = found.expect("sockets");
            found.retain(|socket| socket.name.starts_with(&wanted));
            found
        };
        let name = format!("{wanted}a");
        let by_file = ours(from_file("/proc/net/unix"));
        let user = None;
        assert_eq!(
            by_file,
            [Listening {
                name: name.clone(),
                user
            }]
        );
        match by_netlink() {
            Ok(_) => {
                let user = Some(rustix::process::geteuid().as_raw());
                assert_eq!(ours(by_netlink()), [Listening { name, user }]);
            }
            Err(error) => eprintln!("skipped: no sock_diag(7) here: {error:?}"),
        }
        assert_eq!(ours(listening()).len(), 1);
        assert_eq!(from_file("/nowhere/unix").err(), Some(Errno(libc::ENOENT)));
    }

    #[test]
    fn a_line_is_a_socket_that_listens_or_nothing() {
        let table = b"Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0005 01 4711 @uroce/3/2/x\n\
            0: 00000003 00000000 00000000 0005 03 4712 @uroce/3/2/x\n\
            0: 00000002 00000000 00000000 0002 01 4713 @uroce/3\n\
            0: 00000002 00000000 00010000 0001 01 4714 /run/uroce/9/stat\n\
            0: 00000002 00000000 00010000 0001 01 4715 @uroce/3/\xff\n\
            0: 00000002 00000000 00010000 0001 01 4716 @uroce/3/ x\n\
            0: 00000002 00000000 00010000 0001 01 4717 @uroce/4/stat";
        let names: Vec<_> = from_table(&table[..]).into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["uroce/3/2/x", "uroce/4/stat"]);
    }

    #[test]
    fn a_long_table_is_cut() {
        let line = "0: 00000002 00000000 00010000 0001 01 4714 @uroce/9/stat\n";
        let found = from_table(line.repeat(MOST + 10).as_bytes());
        assert_eq!(found.len(), MOST);
    }

    proptest! {
        #[test]
        fn any_table_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for socket in from_table(&bytes[..]) {
                prop_assert!(socket.name.starts_with(PREFIX));
            }
        }

        #[test]
        fn any_message_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(Some(socket)) = from_message(&bytes) {
                prop_assert!(socket.name.starts_with(PREFIX));
            }
        }
    }
}
