//! Memory of devices.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use crate::{context::Context, error::Result, sys::device_memory::Memory};

/// Memory of a device ([`Context::device_memory`]). Copies are the same one. Requests use it by a
/// region ([`device_memory_region`]).
///
/// ```
/// use verbs::Access;
/// # verbs::use_uroce("lo");
/// # let context = verbs::Device::find("uroce_lo")?.open()?;
/// # let pd = context.protection_domain()?;
/// let memory = context.device_memory(4096, 0)?;
/// memory.write(0, b"on a device.")?;
/// let region = pd.device_memory_region(&memory, 0..1024, Access::REMOTE_READ)?;
/// let remote = region.remote(); // for the peer; addresses begin at 0
/// let mut bytes = [0; 8];
/// memory.read(4, &mut bytes)?;
/// assert_eq!(&bytes, b" device.");
/// # Ok::<(), verbs::Error>(())
/// ```
///
/// [`device_memory_region`]: crate::ProtectionDomain::device_memory_region
#[derive(Clone)]
pub struct DeviceMemory(Arc<Memory>);

impl DeviceMemory {
    pub(crate) fn new(context: &Context, length: usize, log_align: u32) -> Result<Self> {
        Ok(Self(Arc::new(Memory::new(context, length, log_align)?)))
    }

    pub(crate) fn inner(&self) -> &Arc<Memory> {
        &self.0
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.length()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into it.
    ///
    /// # Errors
    /// Of ibv_memcpy_to_dm(3); EINVAL if they reach past the end, and for an offset or a number
    /// of bytes that is not a multiple of 4, where the device copies words.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(offset, bytes)
    }

    /// Copies bytes out of it.
    ///
    /// # Errors
    /// Of ibv_memcpy_from_dm(3); EINVAL if they reach past the end, and for an offset or a number
    /// of bytes that is not a multiple of 4, where the device copies words.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.0.read(offset, into)
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DeviceMemory");
        shown.field("length", &self.len());
        shown.finish_non_exhaustive()
    }
}
