#![forbid(unsafe_code)]
//! Ids of devices in user space.

use super::channel::Channel;
use crate::command::{CommandId, File};
use crate::request::Request;
use crate::source::Source;
use kit::cm::*;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;

/// An id of a device in user space.
pub type UroceId = CommandId<UroceFile>;

/// The channel of an id; none after the program has destroyed it.
pub struct UroceFile(Mutex<Option<Channel>>);

impl UroceFile {
    pub fn new(channel: Option<Channel>) -> Self {
        Self(Mutex::new(channel))
    }

    fn channel(&self) -> Result<Channel> {
        self.0.lock().clone().ok_or(Errno(libc::EBADF))
    }
}

impl File for UroceFile {
    fn ask_into<C: Command>(
        &self,
        request: &mut Request<C>,
        response: &mut C::Response,
    ) -> Result<()> {
        self.channel()?.ask(&request.command, response)
    }

    fn set_option(&self, command: SetOption, value: &[u8]) -> Result<()> {
        let bytes = [bytemuck::bytes_of(&command), value].concat();
        let channel = self.channel()?;
        channel.ask_bytes(SetOption::NUMBER, &bytes, &mut [])
    }

    fn migrate(&self, number: u32, to: &Source) -> Result<u32> {
        let new = to.uroce().ok_or(Errno::INVAL)?;
        let migrate = MigrateId {
            id: number,
            fd: self.channel()?.number(),
            ..MigrateId::default()
        };
        let mut answer = Number::default();
        new.ask(&migrate, &mut answer)?;
        *self.0.lock() = Some(new.clone());
        Ok(answer.number)
    }

    fn of_request(&self) -> Self {
        Self::new(self.0.lock().clone())
    }

    fn orphan(&self) {
        *self.0.lock() = None;
    }
}
