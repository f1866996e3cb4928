#![forbid(unsafe_code)]
//! The source of a channel's events: the kernel, or devices in user space.

use crate::{kernel, uroce};
use kit::cm::Record;
use kit::errno::{Errno, Result};

/// The connection manager of a channel.
pub enum Source {
    /// The kernel's connection manager, by the channel's descriptor.
    Kernel(i32),
    /// The connection manager of devices in user space.
    Uroce(uroce::Channel),
}

impl Source {
    /// A new channel and its descriptor: the kernel's if it has one, otherwise that of devices in
    /// user space.
    ///
    /// # Errors
    /// Those of [`kernel::open`], unless there are devices in user space.
    pub fn open() -> Result<(Self, i32)> {
        let error = match kernel::open() {
            Ok(descriptor) => return Ok((Self::Kernel(descriptor), descriptor)),
            Err(error) => error,
        };
        let (channel, descriptor) = uroce::Channel::open().map_err(|_| error)?;
        Ok((Self::Uroce(channel), descriptor))
    }

    /// The kernel's descriptor.
    pub fn kernel(&self) -> Option<i32> {
        match self {
            Self::Kernel(descriptor) => Some(*descriptor),
            Self::Uroce(_) => None,
        }
    }

    /// The channel at devices in user space.
    pub fn uroce(&self) -> Option<&uroce::Channel> {
        match self {
            Self::Kernel(_) => None,
            Self::Uroce(channel) => Some(channel),
        }
    }

    /// Waits for the next event. No cancellation takes effect.
    ///
    /// # Errors
    /// EINTR; EAGAIN for a non-blocking descriptor; EBADF.
    pub fn next_event(&self, descriptor: i32, record: &mut Record) -> Result<()> {
        match self {
            Self::Kernel(descriptor) => kernel::next_event(*descriptor, record),
            Self::Uroce(channel) => loop {
                match channel.next_event(record) {
                    Err(Errno::AGAIN) => uroce::wait(descriptor)?,
                    taken => return taken,
                }
            },
        }
    }
}
