//! Processes that packets were handed on to, and how they are reached.

use crate::carrier::registry::{Process, Registry};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::datagram::passing;
use rustix::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Processes that are remembered at once: each costs a descriptor. One that was forgotten is
/// connected to again, with some system calls.
const MOST: usize = 64;

#[derive(Debug)]
struct Target {
    process: Arc<Process>,
    socket: OwnedFd,
}

/// The processes, those that were used last at the end.
#[derive(Debug, Default)]
pub struct Targets(Mutex<Vec<Arc<Target>>>);

impl Targets {
    /// Sends to the process of a slot, without waiting.
    ///
    /// # Errors
    /// ECONNREFUSED if there is no such process; EAGAIN if it does not keep up, or it is not known
    /// yet whether it is there.
    pub fn send(&self, registry: &Registry, to: u16, parts: &[IoSlice<'_>]) -> Result<()> {
        // Twice, since another process may have the slot of one that has ended.
        for _ in 0..2 {
            let target = self.get(registry, to)?;
            let named = registry.user().named();
            match passing::pass(target.socket.as_fd(), None, parts, &[], named) {
                Err(Errno(
                    libc::ECONNREFUSED | libc::ECONNRESET | libc::ENOTCONN | libc::EPIPE,
                )) => {
                    self.forget(registry, &target);
                }
                sent => return sent,
            }
        }
        Err(Errno(libc::ECONNREFUSED))
    }

    fn get(&self, registry: &Registry, to: u16) -> Result<Arc<Target>> {
        let mut targets = self.0.lock();
        let place = targets
            .iter()
            .rposition(|target| target.process.slot() == to);
        if let Some(place) = place {
            let target = targets.remove(place);
            targets.push(Arc::clone(&target));
            return Ok(target);
        }
        let process = registry.find(to)?;
        let socket = process.connect_packets().inspect_err(|error| {
            if *error == Errno(libc::ECONNREFUSED) {
                registry.forget(&process);
            }
        })?;
        if targets.len() >= MOST {
            targets.remove(0);
        }
        let target = Arc::new(Target { process, socket });
        targets.push(Arc::clone(&target));
        Ok(target)
    }

    fn forget(&self, registry: &Registry, gone: &Arc<Target>) {
        self.0.lock().retain(|target| !Arc::ptr_eq(target, gone));
        registry.forget(&gone.process);
    }
}
