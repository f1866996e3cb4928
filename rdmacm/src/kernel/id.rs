#![forbid(unsafe_code)]
//! Ids of the kernel: a channel's descriptor takes their commands.

use super::file::ask_into;
use crate::command::{CommandId, File};
use crate::request::Request;
use crate::source::Source;
use kit::cm::*;
use kit::errno::{Errno, Result};
use std::sync::atomic::{AtomicI32, Ordering};

/// An id of the kernel.
pub type KernelId = CommandId<KernelFile>;

/// The descriptor of a channel; -1 after the channel is destroyed.
pub struct KernelFile(AtomicI32);

impl KernelFile {
    pub fn new(descriptor: i32) -> Self {
        Self(AtomicI32::new(descriptor))
    }

    fn descriptor(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl File for KernelFile {
    #[inline(always)]
    fn ask_into<C: Command>(
        &self,
        request: &mut Request<C>,
        response: &mut C::Response,
    ) -> Result<()> {
        ask_into(self.descriptor(), request, response)
    }

    fn set_option(&self, command: SetOption, value: &[u8]) -> Result<()> {
        self.ask(SetOption {
            optval: value.as_ptr().expose_provenance() as u64,
            ..command
        })
    }

    fn migrate(&self, number: u32, to: &Source) -> Result<u32> {
        let new = to.kernel().ok_or(Errno::INVAL)?;
        let old = u32::try_from(self.descriptor()).map_err(|_| Errno(libc::EBADF))?;
        let migrate = MigrateId {
            id: number,
            fd: old,
            ..MigrateId::default()
        };
        let mut answer = Number::default();
        ask_into(new, &mut Request::of(migrate), &mut answer)?;
        self.0.store(new, Ordering::Relaxed);
        Ok(answer.number)
    }

    fn of_request(&self) -> Self {
        Self::new(self.descriptor())
    }

    fn orphan(&self) {
        self.0.store(-1, Ordering::Relaxed);
    }
}
