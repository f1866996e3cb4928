//! Queues as the kernel's driver shares them: an array from the beginning of a mapping.

use kit::abi::kernel::SIW_INVAL_UOBJ_KEY;
use kit::errno::{Errno, Result};
use kit::provider::Commands;
use kit::queue::{AtomicFlag, Region, Slots};

/// Where the flag stands, in requests and in completions.
pub const FLAG: usize = 8;

/// Maps `length` bytes of the queue that a command answered.
///
/// # Errors
/// ENOMEM if the kernel could not make it ready, or has no room for the mapping; EBADF once the
/// context is closed.
pub fn map(kernel: &Commands, key: u64, length: usize) -> Result<Region> {
    if key == SIW_INVAL_UOBJ_KEY {
        return Err(Errno::NOMEM);
    }
    Region::map(kernel.descriptor()?, key, length)
}

/// Maps a queue of `count` entries of `SIZE` bytes.
///
/// # Errors
/// EIO for a count that cannot be; those of [`map`].
pub fn slots<const SIZE: usize, F: AtomicFlag>(
    kernel: &Commands,
    key: u64,
    count: u32,
) -> Result<Slots<SIZE, FLAG, F>> {
    let length = Slots::<SIZE, FLAG, F>::bytes(count)?;
    Slots::new(map(kernel, key, length)?, count)
}
