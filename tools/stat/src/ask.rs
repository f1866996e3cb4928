//! Asks one process for its counters. The kernel confirms that the answering process belongs to the
//! user in question. The process is not trusted otherwise: it may be stopped, or send without end.

use kit::errno::Errno;
use kit::sys::datagram::passing;
use kit::sys::ready::{self, ReadyTo};
use rustix::event::Timespec;
use rustix::net::{self, RecvFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use uroce::carrier::registry::{Name, owner};

/// How long an answer may take: without a byte, and in all.
const IDLE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(20);
/// Bytes of an answer: that of a process with 16384 queue pairs has about 7 MB.
const MOST: usize = 16 << 20;

/// The answer of a process.
#[derive(Debug)]
pub struct Answer {
    /// Its number as the kernel has it here; `None` if it is not to be seen from here.
    pub process: Option<u32>,
    /// The lines.
    pub text: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// There is no such process any more, or it is another user's.
    Gone,
    /// It sends nothing, is too slow, or sends too much.
    Refused(Option<u32>, &'static str),
}

/// Asks by a socket of this name, of a process of this user.
///
/// # Errors
/// See [`Silence`].
pub fn ask(name: &Name, user: u32) -> Result<Answer, Silence> {
    let address = name.address().map_err(|_| Silence::Gone)?;
    let socket = match owner::connect(name.kind(), &address) {
        Ok(socket) => socket,
        Err(Errno(libc::EAGAIN)) => {
            return Err(Silence::Refused(None, "has too many clients"));
        }
        Err(_) => return Err(Silence::Gone),
    };
    let peer = passing::peer(socket.as_fd()).map_err(|_| Silence::Gone)?;
    if peer.uid != user {
        return Err(Silence::Gone);
    }
    let process = u32::try_from(peer.pid).ok().filter(|pid| *pid > 0);
    let text = read(&socket).map_err(|why| Silence::Refused(process, why))?;
    if text.is_empty() {
        return Err(Silence::Gone);
    }
    Ok(Answer { process, text })
}

fn read(socket: &OwnedFd) -> Result<Vec<u8>, &'static str> {
    let mut text = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    let began = Instant::now();
    loop {
        match net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return Ok(text),
            Ok((length, _)) => text.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                if !wait(socket) {
                    return Err("does not answer");
                }
            }
            // It has closed the connection without having read all: there was nothing to read.
            Err(_) => return Ok(text),
        }
        if text.len() > MOST {
            return Err("sends too much");
        }
        if began.elapsed() > LONGEST {
            return Err("is too slow");
        }
    }
}

/// Waits for more; whether there is.
fn wait(socket: &OwnedFd) -> bool {
    let time = Timespec {
        tv_sec: i64::try_from(IDLE.as_secs()).unwrap_or(0),
        tv_nsec: 0,
    };
    match ready::wait(socket.as_fd(), ReadyTo::Read, Some(&time)) {
        Err(Errno(libc::EINTR)) => true,
        ready => ready == Ok(true),
    }
}
