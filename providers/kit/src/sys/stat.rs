//! The kind of a descriptor (fstat(2)).

use crate::errno::{Errno, Result};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// The number of the character device that is open under a descriptor of the caller's.
///
/// # Errors
/// EBADF when nothing is open there; EINVAL when it is no character device.
pub fn char_device(fd: c_int) -> Result<u64> {
    let mut info = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: fstat takes any number, and fills `info` when it succeeds.
    if unsafe { libc::fstat(fd, info.as_mut_ptr()) } != 0 {
        return Err(super::errno::get());
    }
    // SAFETY: plain data, zeroed before the call.
    let info = unsafe { info.assume_init() };
    if info.st_mode & libc::S_IFMT != libc::S_IFCHR {
        return Err(Errno::INVAL);
    }
    Ok(info.st_rdev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn kinds() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(char_device(null.as_raw_fd()), Ok(libc::makedev(1, 3)));
        let folder = std::fs::File::open("/").unwrap();
        assert_eq!(char_device(folder.as_raw_fd()), Err(Errno::INVAL));
        assert_eq!(char_device(-1), Err(Errno(libc::EBADF)));
    }
}
