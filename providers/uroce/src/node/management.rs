//! Queue pair 1: the node's functions for the connection manager ([`crate::cm`]).

use super::Node;
use super::progress::deadlines::Task;
use super::progress::watch::Interest;
use super::transport::Transport;
use crate::carrier::udp::Path;
use crate::clock;
use crate::cm::{self, Host, Network};
use kit::errno::Result;
use kit::sys::datagram::Received;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::any::Any;
use std::os::fd::{BorrowedFd, OwnedFd};
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
    ) -> Result<Box<dyn Any + Send>> {
        let watch = Self::watch(self, descriptor, Interest::Read, move |_| call())?;
        Ok(Box::new(watch))
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

    fn end_of(&self, slot: u16) -> Option<OwnedFd> {
        let process = self.slot.registry().find_newcomer(slot).ok()?;
        // 0 where it is not to be seen from here.
        let pid = Pid::from_raw(process.pid())?;
        let end = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // The number may be another process's by now.
        (!process.has_ended()).then_some(end)
    }
}
