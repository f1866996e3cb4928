//! XRC domains: shared receive queues by number, and the targets that use them. Those of one file
//! (by device and inode) are one domain in the whole process.

use crate::qp::Core;
use crate::receive::{self, Srq};
use kit::errno::{Errno, Result};
use parking_lot::Mutex;
use rustix::fs::fstat;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Weak};

/// A file's device and inode.
type Inode = (u64, u64);

static BY_FILE: LazyLock<Mutex<HashMap<Inode, Weak<Domain>>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Domain {
    srqs: Mutex<HashMap<u32, Weak<Srq>>>,
    targets: Mutex<HashMap<u32, Weak<Core>>>,
}

/// An opened domain.
pub struct Xrcd(Arc<Domain>);

impl Xrcd {
    /// ibv_open_xrcd(3): the domain of the file, or one of nobody else's. `flags` are `O_CREAT` and
    /// `O_EXCL`.
    ///
    /// # Errors
    /// ENOENT if there is none and `O_CREAT` is not given; EEXIST if there is one and `O_CREAT` and
    /// `O_EXCL` are; EINVAL for other flags, and without a file if `O_CREAT` is not given.
    pub fn open(file: Option<BorrowedFd<'_>>, flags: i32) -> Result<Self> {
        let create = flags & libc::O_CREAT != 0;
        if flags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno::INVAL);
        }
        let Some(file) = file else {
            return if create {
                Ok(Self(Arc::default()))
            } else {
                Err(Errno::INVAL)
            };
        };
        let stat = fstat(file)?;
        let mut known = BY_FILE.lock();
        known.retain(|_, domain| domain.strong_count() > 0);
        let inode = (stat.st_dev, stat.st_ino);
        if let Some(domain) = known.get(&inode).and_then(Weak::upgrade) {
            if create && flags & libc::O_EXCL != 0 {
                return Err(Errno(libc::EEXIST));
            }
            return Ok(Self(domain));
        }
        if !create {
            return Err(Errno::NOENT);
        }
        let domain = Arc::default();
        known.insert(inode, Arc::downgrade(&domain));
        Ok(Self(domain))
    }

    /// The shared receive queue of a number.
    pub fn srq(&self, number: u32) -> Option<Arc<Srq>> {
        self.0.srqs.lock().get(&number)?.upgrade()
    }

    /// The target of a number.
    pub fn target(&self, number: u32) -> Option<Arc<Core>> {
        self.0.targets.lock().get(&number)?.upgrade()
    }

    /// Makes a target known by its number.
    pub fn add_target(&self, core: &Arc<Core>) {
        let mut targets = self.0.targets.lock();
        targets.insert(core.number, Arc::downgrade(core));
    }

    /// Forgets a target.
    pub fn remove_target(&self, number: u32) {
        self.0.targets.lock().remove(&number);
    }
}

impl receive::Domain for Xrcd {
    fn add_srq(&self, number: u32, srq: &Arc<Srq>) {
        self.0.srqs.lock().insert(number, Arc::downgrade(srq));
    }

    fn remove_srq(&self, number: u32) {
        self.0.srqs.lock().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_names_one_domain() {
        let file = tempfile::tempfile().expect("a file");
        let file = Some(file.as_fd());
        let excl = libc::O_CREAT | libc::O_EXCL;
        assert_eq!(Xrcd::open(file, 0).err(), Some(Errno::NOENT));
        let first = Xrcd::open(file, excl).expect("made");
        assert_eq!(Xrcd::open(file, excl).err(), Some(Errno(libc::EEXIST)));
        let second = Xrcd::open(file, 0).expect("found");
        assert!(Arc::ptr_eq(&first.0, &second.0));
        drop((first, second));
        assert_eq!(Xrcd::open(file, 0).err(), Some(Errno::NOENT));
    }

    #[test]
    fn a_domain_without_a_file_is_new() {
        assert_eq!(Xrcd::open(None, 0).err(), Some(Errno::INVAL));
        assert_eq!(Xrcd::open(None, 0x4000).err(), Some(Errno::INVAL));
        let one = Xrcd::open(None, libc::O_CREAT).expect("made");
        let other = Xrcd::open(None, libc::O_CREAT).expect("made");
        assert!(!Arc::ptr_eq(&one.0, &other.0));
    }
}
