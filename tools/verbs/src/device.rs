//! The devices that there are.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use crate::{
    context::Context,
    error::{Error, Result},
    sys::calls::List,
};

/// A device that can be opened.
#[derive(Clone)]
pub struct Device {
    list: Arc<List>,
    index: usize,
}

impl Device {
    /// All devices of this machine that the process may use, and those of uroce.
    ///
    /// # Errors
    /// Of ibv_get_device_list(3): ENOSYS where the kernel has no RDMA and no uroce device was
    /// asked for.
    pub fn list() -> Result<Vec<Self>> {
        let list = Arc::new(List::new()?);
        let all = 0..list.count();
        Ok(all
            .map(|index| Self {
                list: Arc::clone(&list),
                index,
            })
            .collect())
    }

    /// The device of that name, as ibv_devices(1) prints it.
    ///
    /// # Errors
    /// Of [`Device::list`]; ENODEV if there is no such device.
    pub fn find(name: &str) -> Result<Self> {
        let found = Self::list()?.into_iter().find(|one| one.name() == name);
        found.ok_or(Error::new("ibv_get_device_list", libc::ENODEV))
    }

    /// The first device.
    ///
    /// # Errors
    /// Of [`Device::list`]; ENODEV if there is none.
    pub fn first() -> Result<Self> {
        let first = Self::list()?.into_iter().next();
        first.ok_or(Error::new("ibv_get_device_list", libc::ENODEV))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.list.name(self.index)
    }

    /// Its number in the kernel, which no other device of this machine has; none of one that the
    /// kernel does not know, as those of uroce: ibv_get_device_index(3).
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// let device = verbs::Device::find("uroce_lo")?;
    /// assert_eq!(device.index(), None);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        self.list.number(self.index)
    }

    /// Its node GUID, in the host's byte order.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.list.guid(self.index)
    }

    /// Opens it.
    ///
    /// # Errors
    /// Of ibv_open_device(3).
    pub fn open(&self) -> Result<Context> {
        self.list.open(self.index).map(Context::new)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Device");
        shown.field("name", &self.name());
        shown.finish_non_exhaustive()
    }
}
