//! What the process has counted, told to whoever of the same user asks: `uroce-stat` and the like
//! connect to the abstract stream socket `\0uroce/<slot>/stat` and read lines of text to the end.
//!
//! A line is words: what it is about, then pairs of a name and a value.

use super::core::Core;
use super::watch::{Interest, Watch};
use crate::carrier::udp::Socket;
use crate::carrier::udp::slot::INDEX_BITS;
use crate::named;
use crate::threads;
use kit::errno::Result;
use rustix::io::Errno as SystemErrno;
use rustix::net::{self, SendFlags, SocketFlags, SocketType, sockopt};
use std::fmt::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use uroce_engine::counters::Counters;

/// A queue pair's share.
pub struct Account {
    /// `RC`, `UD` and so on.
    pub kind: &'static str,
    /// `RTS` and so on.
    pub state: &'static str,
    /// The device.
    pub device: String,
    /// What was counted.
    pub counters: Counters,
}

/// Connections that wait.
const BACKLOG: i32 = 16;
/// How long who asks may leave the text unread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers until the result is dropped. None where there cannot be such a socket: then nobody can
/// ask.
pub(super) fn answer(core: &Arc<Core>) -> Option<Watch> {
    let socket = Arc::new(Socket::new(listen(core.slot.number()).ok()?));
    let (listening, weak) = (Arc::clone(&socket), Arc::downgrade(core));
    let take = move |_| {
        while let Ok(asks) = accept(&listening) {
            if let Some(core) = weak.upgrade() {
                tell(&asks, text(&core));
            }
        }
    };
    Watch::new(core, socket.as_fd(), Interest::Read, Box::new(take)).ok()
}

fn listen(slot: u16) -> Result<OwnedFd> {
    let socket = named::socket(SocketType::STREAM)?;
    net::bind(&socket, &named::name(&format!("uroce/{slot}/stat"))?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The next connection. One of another user is closed without an answer.
fn accept(socket: &Socket) -> Result<OwnedFd> {
    loop {
        match net::accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(asks) if is_ours(&asks) => return Ok(asks),
            Ok(_) | Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn is_ours(asks: &OwnedFd) -> bool {
    sockopt::socket_peercred(asks)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Writes at once what the socket takes, and the rest in a thread.
fn tell(asks: &OwnedFd, text: String) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = net::send(asks, text.as_bytes(), flags).unwrap_or(0);
    let rest = text.into_bytes().split_off(sent);
    let Ok(asks) = asks.try_clone() else {
        return;
    };
    if rest.is_empty() {
        return;
    }
    // Without a thread the text ends early.
    let _ = threads::spawn("uroce-stat", move || {
        let _ = sockopt::set_socket_timeout(&asks, sockopt::Timeout::Send, Some(PATIENCE));
        let mut rest = rest.as_slice();
        while !rest.is_empty() {
            match net::send(&asks, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(SystemErrno::INTR) => {}
                Err(_) => break,
            }
        }
    });
}

fn text(core: &Core) -> String {
    let mut text = String::new();
    let (process, slot) = (std::process::id(), core.slot.number());
    let sent = core.counters.sent.load(Relaxed);
    let refused = core.counters.refused.load(Relaxed);
    // Writing to a string does not fail.
    let _ = writeln!(text, "process {process} slot {slot}");
    let _ = writeln!(
        text,
        "network packets_sent {sent} packets_refused {refused}"
    );
    for index in core.table.indices() {
        let Some(entry) = core.table.get(index) else {
            continue;
        };
        let endpoint = entry.endpoint.read();
        let account = endpoint.as_deref().and_then(|endpoint| endpoint.account());
        if let Some(account) = account {
            let number = u32::from(slot) << INDEX_BITS | index;
            let _ = writeln!(text, "qp {number:#08x} {}", line(&account));
        }
    }
    text
}

fn line(account: &Account) -> String {
    let Account {
        kind,
        state,
        device,
        counters,
    } = account;
    let mut line = format!("device uroce_{device} type {kind} state {state}");
    for (name, value) in named(counters) {
        let _ = write!(line, " {name} {value}");
    }
    line
}

fn named(counters: &Counters) -> [(&'static str, u64); 15] {
    [
        ("packets_sent", counters.packets_sent),
        ("bytes_sent", counters.bytes_sent),
        ("packets_received", counters.packets_received),
        ("bytes_received", counters.bytes_received),
        ("dropped", counters.dropped),
        ("duplicates", counters.duplicates),
        ("out_of_sequence", counters.out_of_sequence),
        ("retries", counters.retries),
        ("timeouts", counters.timeouts),
        ("rnr_sent", counters.rnr_sent),
        ("rnr_received", counters.rnr_received),
        ("naks_sent", counters.naks_sent),
        ("naks_received", counters.naks_received),
        ("congestion", counters.congestion),
        ("errors", counters.errors),
    ]
}
