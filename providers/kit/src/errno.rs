#![forbid(unsafe_code)]
//! Error numbers (errno(3)).

use std::ffi::c_int;

/// A positive errno value, the one error type below the exported functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// Invalid argument.
    pub const INVAL: Self = Self(libc::EINVAL);
    /// The operation exists, the device or kernel does not support it.
    pub const OPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// The kernel has no such function.
    pub const NOSYS: Self = Self(libc::ENOSYS);
    /// Out of memory.
    pub const NOMEM: Self = Self(libc::ENOMEM);
    /// Still in use.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// Not permitted.
    pub const PERM: Self = Self(libc::EPERM);
    /// Input/output error: the device is gone.
    pub const IO: Self = Self(libc::EIO);
    /// No such device.
    pub const NODEV: Self = Self(libc::ENODEV);
    /// No such entry.
    pub const NOENT: Self = Self(libc::ENOENT);
    /// No data in the table entry asked for.
    pub const NODATA: Self = Self(libc::ENODATA);
    /// Value too large.
    pub const OVERFLOW: Self = Self(libc::EOVERFLOW);
    /// An answer that cannot be read.
    pub const PROTO: Self = Self(libc::EPROTO);
    /// Try again.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// Protocol not supported: the kernel does not know this ioctl.
    pub const PROTONOSUPPORT: Self = Self(libc::EPROTONOSUPPORT);

    /// Not connected.
    pub const NOTCONN: Self = Self(libc::ENOTCONN);

    /// The number that C sees.
    pub const fn raw(self) -> c_int {
        self.0
    }

    /// Whether a filter of system calls returns this errno for a denied call, or a kernel for a
    /// missing one.
    #[must_use]
    pub const fn is_denial(self) -> bool {
        matches!(
            self.0,
            libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL
        )
    }

    /// Whether there was no room for something at the moment: a descriptor, or memory of the
    /// kernel's.
    #[must_use]
    pub const fn is_shortage(self) -> bool {
        matches!(
            self.0,
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM
        )
    }

    /// The errno of an `std::io::Error`, EIO where it carries none.
    pub fn from_io(e: &std::io::Error) -> Self {
        Self(e.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Self {
        Self(e.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(e: std::io::Error) -> Self {
        Self::from_io(&e)
    }
}

/// Result of everything below the exported functions.
pub type Result<T> = std::result::Result<T, Errno>;

/// The symbol of an errno and what strerror(3) says.
#[must_use]
pub fn named(e: Errno) -> String {
    let symbol = match e.raw() {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOTTY => "ENOTTY",
        libc::ENOSPC => "ENOSPC",
        libc::ENOSYS => "ENOSYS",
        libc::ENODATA => "ENODATA",
        libc::EPROTO => "EPROTO",
        libc::EOVERFLOW => "EOVERFLOW",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENOTCONN => "ENOTCONN",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        _ => "errno",
    };
    let text = std::io::Error::from_raw_os_error(e.raw()).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match symbol {
        "errno" => format!("errno {} ({text})", e.raw()),
        symbol => format!("{symbol} ({text})"),
    }
}
