//! Counters for other processes: `uroce-stat` and the like connect to the abstract stream socket
//! `\0uroce/<slot>/stat/<token>` and read lines of text to the end. The kernel reports to each side
//! the user of the other; root and the same user get an answer.
//!
//! A line consists of words: its subject, then pairs of a name and a value. The progress thread
//! writes the part that the socket accepts at once. A thread writes the rest, and gives up after a
//! second without a read.

use super::endpoint::Account;
use super::inner::NodeInner;
use super::progress::watch::{Interest, Watch};
use super::transport::Transport;
use crate::carrier::registry::{self, Name, Token, User};
use crate::carrier::udp::Socket;
use crate::threads;
use kit::errno::Result;
use kit::sys::datagram::passing;
use rustix::io::Errno as SystemErrno;
use rustix::net::{self, SendFlags, SocketFlags, sockopt};
use std::fmt::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use uroce_engine::counters::Counters;

/// Connections that are taken at once.
const ACCEPTED: usize = 64;
/// Limit of replies in progress, each with a thread.
const ANSWERED: usize = 16;
/// How long a client may leave the text unread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers until the result is dropped. None where there cannot be such a socket: then there are no
/// clients.
pub(super) fn answer(node: &Arc<NodeInner>) -> Option<Watch> {
    let socket = Arc::new(listen(node.progress.sorter.slot().number()).ok()?);
    let (listening, weak) = (Arc::clone(&socket), Arc::downgrade(node));
    let answering = Arc::new(());
    let take = move |_| {
        for _ in 0..ACCEPTED {
            let asks = match net::accept_with(&listening, SocketFlags::CLOEXEC) {
                Ok(asks) => asks,
                Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => continue,
                Err(error) => return registry::report_denied_accept(error.into()),
            };
            // One of another user is closed without an answer.
            if let Some(node) = weak.upgrade()
                && may_ask(&asks, node.progress.sorter.slot().registry().user())
            {
                answer_with(&asks, text(&node.progress.transport), &answering);
            }
        }
    };
    Watch::new(
        &node.watches,
        socket.as_fd(),
        Interest::Arrival,
        Box::new(take),
    )
    .ok()
}

fn listen(slot: u16) -> Result<Socket> {
    let token = Some(Token::random());
    registry::listen(&Name::Statistics { slot, token })
}

fn may_ask(asks: &OwnedFd, user: User) -> bool {
    passing::peer(asks.as_fd()).is_ok_and(|peer| peer.uid == 0 || user.is(peer.uid))
}

/// Writes the part that the socket accepts at once, and the rest in a thread, if there are not too
/// many.
fn answer_with(asks: &OwnedFd, text: String, answering: &Arc<()>) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = net::send(asks, text.as_bytes(), flags).unwrap_or(0);
    let rest = text.into_bytes().split_off(sent);
    let Ok(asks) = asks.try_clone() else {
        return;
    };
    if rest.is_empty() || Arc::strong_count(answering) > ANSWERED {
        return;
    }
    let one = Arc::clone(answering);
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
        drop(one);
    });
}

fn text(transport: &Transport) -> String {
    let mut text = String::new();
    let (process, slot) = (std::process::id(), transport.numbers.slot());
    let sent = transport.outbound.counters().sent.load(Relaxed);
    let refused = transport.outbound.counters().refused.load(Relaxed);
    // Writing to a string does not fail.
    let _ = writeln!(text, "process {process} slot {slot}");
    let _ = writeln!(
        text,
        "network packets_sent {sent} packets_refused {refused}"
    );
    for index in transport.table.indices() {
        let Some(entry) = transport.table.get(index) else {
            continue;
        };
        let endpoint = entry.endpoint.read();
        let account = endpoint.as_deref().and_then(|endpoint| endpoint.account());
        if let Some(account) = account {
            let number = transport.numbers.of(index);
            let _ = writeln!(text, "qp {number:#08x} {}", line(&account));
        }
    }
    transport.cm.show(&mut text);
    text
}

fn line(account: &Account) -> String {
    let Account {
        kind,
        state,
        device,
        peer,
        counters,
    } = account;
    let mut line = format!("device uroce_{device} type {kind} state {state}");
    if let Some(peer) = peer {
        let carrier = if peer.is_linked { "shm" } else { "udp" };
        let (address, number) = (peer.address, peer.number);
        let _ = write!(line, " peer {address}/{number:#08x} carrier {carrier}");
    }
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
