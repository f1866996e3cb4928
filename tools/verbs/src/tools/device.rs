//! The list of devices.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    io,
    ptr::NonNull,
    slice,
};

use kit::abi::{IBV_TRANSPORT_IB, ibv_device, ibv_transport_type};

use crate::tools::{context::Context, handle::made, raw, text::text};

/// The list of ibv_get_device_list(3).
pub struct Devices {
    list: NonNull<*mut ibv_device>,
    count: usize,
}

impl Devices {
    /// # Errors
    /// The errno of ibv_get_device_list(3): ENOSYS without RDMA in the kernel, EPERM, ENOMEM.
    pub fn list() -> io::Result<Self> {
        let mut count: c_int = 0;
        // SAFETY: `count` may be written.
        let list = made(unsafe { raw::ibv_get_device_list(&raw mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Self { list, count })
    }

    /// The devices, in the library's order.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        // SAFETY: the library made a list of that many pointers, which stays until it is freed.
        let all = unsafe { slice::from_raw_parts(self.list.as_ptr(), self.count) };
        all.iter().map(|at| Device { at, _list: self })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The device of that name, or the first.
    #[must_use]
    pub fn find(&self, name: Option<&[u8]>) -> Option<Device<'_>> {
        self.iter()
            .find(|device| name.is_none_or(|name| device.name_bytes() == name))
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: the list was made by the library and is freed once. Contexts hold their device.
        unsafe { raw::ibv_free_device_list(self.list.as_ptr()) };
    }
}

/// A device of a list.
#[derive(Clone, Copy)]
pub struct Device<'l> {
    at: &'l *mut ibv_device,
    _list: &'l Devices,
}

impl<'l> Device<'l> {
    fn get(self) -> &'l ibv_device {
        // SAFETY: devices live as long as a list that has them.
        unsafe { &**self.at }
    }

    fn name_bytes(self) -> &'l [u8] {
        // SAFETY: the library answers with a string that lives as long as the device.
        unsafe { CStr::from_ptr(raw::ibv_get_device_name(*self.at)) }.to_bytes()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        String::from_utf8_lossy(self.name_bytes()).into_owned()
    }

    /// Its node GUID, in the host's byte order.
    #[must_use]
    pub fn guid(self) -> u64 {
        // SAFETY: the device lives.
        unsafe { raw::ibv_get_device_guid(*self.at) }.get()
    }

    /// `enum ibv_transport_type`.
    #[must_use]
    pub fn transport(self) -> ibv_transport_type {
        self.get().transport_type
    }

    /// Whether its transport is InfiniBand's, RoCE included.
    #[must_use]
    pub fn is_ib(self) -> bool {
        self.transport() == IBV_TRANSPORT_IB
    }

    /// Whether the kernel has the device: only then it has a character device.
    #[must_use]
    pub fn is_kernel(self) -> bool {
        !text(&self.get().dev_path).is_empty()
    }

    /// Its folder in sysfs, or the one that a device in user space has instead; empty for none.
    #[must_use]
    pub fn sysfs(self) -> String {
        text(&self.get().ibdev_path)
    }

    /// A file of its folder in sysfs, as ibv_read_sysfs_file(3) reads it: at most 255 bytes.
    #[must_use]
    pub fn sysfs_file(self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let mut bytes: [c_char; 256] = [0; 256];
        let dir = self.get().ibdev_path.as_ptr();
        // SAFETY: two strings, and a buffer of the given size.
        let length = unsafe {
            raw::ibv_read_sysfs_file(dir, name.as_ptr(), bytes.as_mut_ptr(), bytes.len())
        };
        (length > 0).then(|| text(&bytes))
    }

    /// Opens it.
    ///
    /// # Errors
    /// The errno of ibv_open_device(3).
    pub fn open(self) -> io::Result<Context> {
        // SAFETY: the device lives.
        let at = made(unsafe { raw::ibv_open_device(*self.at) })?;
        Ok(Context::new(at))
    }
}
