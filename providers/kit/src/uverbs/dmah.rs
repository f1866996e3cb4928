#![forbid(unsafe_code)]
//! Handles of hints for a device's accesses to memory: ibv_alloc_dmah(3).

use super::{Ioctl, Kernel, destroyed, run};
use crate::abi::kernel::ioctl::*;
use crate::errno::Result;

/// The hints; `None` leaves one to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The processor whose cache should take the data.
    pub cpu_id: Option<u32>,
    /// `IBV_TPH_MEM_TYPE_*`.
    pub tph_mem_type: Option<u8>,
    /// Processing hint of PCI Express.
    pub ph: Option<u8>,
}

/// Makes a handle; returns its number.
///
/// # Errors
/// The kernel's errno, EOPNOTSUPP or EPROTONOSUPPORT if it lacks them.
pub fn alloc<K: Kernel + ?Sized>(kernel: &K, hints: &Hints) -> Result<u32> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_ALLOC);
    call.object_out(UVERBS_ATTR_ALLOC_DMAH_HANDLE);
    if let Some(cpu) = hints.cpu_id {
        call.u32_in(UVERBS_ATTR_ALLOC_DMAH_CPU_ID, cpu);
    }
    if let Some(kind) = hints.tph_mem_type {
        call.enum_in(UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, kind, &[]);
    }
    if let Some(ph) = &hints.ph {
        call.bytes_in(UVERBS_ATTR_ALLOC_DMAH_PH, core::slice::from_ref(ph));
    }
    run(kernel, &mut call)?;
    call.object(UVERBS_ATTR_ALLOC_DMAH_HANDLE)
}

/// Ends a handle.
///
/// # Errors
/// The kernel's own errno, EBUSY while memory is registered with it.
pub fn free<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_FREE);
    call.object_in(UVERBS_ATTR_FREE_DMA_HANDLE, handle);
    destroyed(run(kernel, &mut call))
}
