#![forbid(unsafe_code)]
//! Commands as they are sent.

use kit::cm::Command;

/// A command with its header, as the kernel's device takes them. Commands of some hundred bytes are
/// written where they are sent from, and not copied.
#[repr(C)]
pub struct Request<C> {
    number: u32,
    command_size: u16,
    response_size: u16,
    pub command: C,
}

impl<C: Command> Request<C> {
    /// This command.
    #[inline(always)]
    pub fn of(command: C) -> Self {
        // The members leave no gap.
        const { assert!(size_of::<Self>() == 8 + size_of::<C>()) };
        Self {
            number: C::NUMBER,
            command_size: const { length(size_of::<C>()) },
            response_size: const { length(size_of::<C::Response>()) },
            command,
        }
    }

    /// A command whose members are written later.
    #[inline(always)]
    pub fn zeroed() -> Self {
        Self::of(C::zeroed())
    }
}

/// The length of a command or response, all of which are short.
#[expect(clippy::cast_possible_truncation, reason = "asserted")]
const fn length(bytes: usize) -> u16 {
    assert!(bytes < 1 << 16);
    bytes as u16
}
