//! Queues as the kernel's driver lays them out (`struct rxe_queue_buf`).

use core::mem::offset_of;
use kit::abi::kernel::{mminfo, rxe_queue_buf};
use kit::errno::{Errno, Result};
use kit::provider::Commands;
use kit::queue::{Region, Ring, Shape};

/// Maps the queue that a command answered.
///
/// # Errors
/// EIO for a queue that does not fit its mapping, ENOMEM, EBADF once the context is closed.
pub fn map<const LEAST: usize>(kernel: &Commands, info: &mminfo) -> Result<Ring<LEAST>> {
    let length = usize::try_from(info.size).map_err(|_| Errno::IO)?;
    ring(Region::map(kernel.descriptor()?, info.offset, length)?)
}

/// The ring in a region that starts with the kernel's head.
///
/// # Errors
/// EIO if it does not fit.
pub fn ring<const LEAST: usize>(region: Region) -> Result<Ring<LEAST>> {
    let shape = Shape {
        producer: offset_of!(rxe_queue_buf, producer_index),
        consumer: offset_of!(rxe_queue_buf, consumer_index),
        entries: size_of::<rxe_queue_buf>(),
        log2_entry: region.number(offset_of!(rxe_queue_buf, log2_elem_size))?,
        mask: region.number(offset_of!(rxe_queue_buf, index_mask))?,
    };
    Ring::new(region, &shape)
}

/// A queue in plain memory, for tests: `1 << log2_count` entries of `1 << log2_entry` bytes.
#[cfg(test)]
pub fn plain(log2_count: u32, log2_entry: u32) -> Region {
    let length = size_of::<rxe_queue_buf>() + (1 << (log2_count + log2_entry));
    let region = Region::plain(length).expect("memory");
    let set = |offset, value| region.set_number(offset, value).expect("inside");
    set(offset_of!(rxe_queue_buf, log2_elem_size), log2_entry);
    set(offset_of!(rxe_queue_buf, index_mask), (1 << log2_count) - 1);
    region
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_head_is_refused() {
        let region = plain(2, 6);
        assert!(ring::<64>(region.share()).is_ok());
        assert!(ring::<72>(region.share()).is_err());
        let head = offset_of!(rxe_queue_buf, index_mask);
        for mask in [2, 7, u32::MAX] {
            region.set_number(head, mask).expect("inside");
            assert_eq!(ring::<64>(region.share()).err(), Some(Errno::IO));
        }
        let short = Region::plain(16).expect("memory");
        assert_eq!(ring::<64>(short).err(), Some(Errno::IO));
    }
}
