//! Queue pair 1: the node's functions for the connection manager ([`crate::cm`]).

use super::Node;
use super::progress::deadlines::Task;
use super::progress::watch::{self, Interest};
use super::transport::Transport;
use crate::carrier::udp::Path;
use crate::clock;
use crate::cm::{self, End, Host, Network, Watch};
use kit::errno::{Errno, Result};
use kit::sys::datagram::Received;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use uroce_engine::host::Fault;

impl Host for Node {
    fn network(&self) -> &dyn Network {
        self.inner.transport()
    }

    fn watch(
        &self,
        descriptor: BorrowedFd<'_>,
        mut call: Box<dyn FnMut() + Send>,
    ) -> Result<Box<dyn Watch>> {
        let watch = Self::watch(self, descriptor, Interest::Read, move |_| call())?;
        Ok(Box::new(watch))
    }
}

impl Watch for watch::Watch {
    fn is_ready(&self) -> bool {
        self.can_be_read()
    }
}

/// The node of this process, for ids that are bound to its devices.
///
/// # Errors
/// Those of [`Node::get`].
pub fn open() -> Result<Arc<dyn Host>> {
    Ok(Node::get()?)
}

impl Network for Transport {
    fn slot(&self) -> u16 {
        self.numbers.slot()
    }

    fn send(&self, path: &Path, psn: u32, mad: &[u8; cm::MAD]) {
        let Some(headers) = cm::headers(psn) else {
            return;
        };
        let mut outbox = self.outbound.outbox();
        let fill = |place: &mut [u8]| {
            let place: &mut [u8; cm::MAD] = place.try_into().map_err(|_| Fault)?;
            *place = *mad;
            Ok(())
        };
        // An empty outbox has room. A lost message is sent again.
        let _ = outbox.push(path, &headers, mad.len(), fill);
        Transport::send(self, &mut outbox, clock::now());
        self.outbound.put_back(outbox);
    }

    fn hand_on(&self, to: u16, packet: &Received<'_>) -> Result<()> {
        self.slot.hand_on(to, packet)
    }

    fn wake_at(&self, nanos: u64) {
        self.add_task(Task::ConnectionManager, nanos);
    }

    fn end_of(&self, slot: u16) -> End {
        let registry = self.slot.registry();
        // One that was known may have ended, and the slot be another one's since.
        let known = registry.find_newcomer(slot);
        let found = match known {
            Ok(process) if process.has_ended() => {
                registry.forget(&process);
                registry.find_newcomer(slot)
            }
            found => found,
        };
        let process = match found {
            Ok(process) => process,
            // Where names cannot be listed, that of a process that was not known is not found.
            Err(Errno(libc::ECONNREFUSED)) if registry.is_blind() => return End::Hidden,
            Err(Errno(libc::ECONNREFUSED)) => return End::Past,
            Err(_) => return End::Unclear,
        };
        // 0 where it is not to be seen from here.
        let Some(pid) = Pid::from_raw(process.pid()) else {
            return End::Hidden;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The number may be another process's by now.
            Ok(_) if process.has_ended() => End::Past,
            Ok(end) => End::Awaited(end),
            Err(rustix::io::Errno::SRCH) => End::Past,
            Err(error) if Errno::from(error).is_shortage() => End::Unclear,
            Err(_) => End::Hidden,
        }
    }
}
