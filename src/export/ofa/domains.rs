//! The XRC domains that this process has open by the older manual's calls, and the receive queue
//! pairs that it is registered with.
//!
//! A file opened again on the same context is the same domain, counted. Across contexts and
//! processes it is the provider (the kernel) that knows which domains are one.

use super::answer::{made, result};
use kit::abi::{handle::Ctx, *};
use kit::errno::{Errno, Result};
use kit::sys::{forks, lock::Lock};
use rustix::fs::fstat;
use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;

/// `struct ibv_xrc_domain`.
#[repr(C)]
pub struct ibv_xrc_domain {
    pub context: *mut ibv_context,
    pub handle: u64,
}
const _: () = assert!(size_of::<ibv_xrc_domain>() == 16);

/// Device and inode of a file.
type File = (u64, u64);

/// This process's handle of a receive queue pair.
#[derive(Clone, Copy)]
pub struct Registered(pub *mut ibv_qp);

/// An open domain.
#[repr(C)]
pub struct Domain {
    /// The structure for the program: its address is the domain's.
    shown: ibv_xrc_domain,
    xrcd: *mut ibv_xrcd,
    file: Option<File>,
    references: usize,
    registered: HashMap<u32, Registered>,
}

// SAFETY: the pointers are objects of the library, which any thread may use; the members are read
// only under the lock.
unsafe impl Send for Domain {}

#[expect(clippy::vec_box, reason = "programs have the addresses of the domains")]
static OPEN: Lock<Vec<Box<Domain>>> = Lock::new(Vec::new());

impl Domain {
    pub fn context(&self) -> *mut ibv_context {
        self.shown.context
    }

    pub fn xrcd(&self) -> *mut ibv_xrcd {
        self.xrcd
    }

    pub fn registered(&self, number: u32) -> Option<Registered> {
        self.registered.get(&number).copied()
    }

    pub fn register(&mut self, number: u32, qp: Registered) {
        self.registered.insert(number, qp);
    }

    pub fn unregister(&mut self, number: u32) -> Option<Registered> {
        self.registered.remove(&number)
    }

    fn is_at(&self, address: *mut ibv_xrc_domain) -> bool {
        std::ptr::eq(&raw const self.shown, address)
    }
}

/// Does something with an open domain, while no other thread uses one.
///
/// # Errors
/// EINVAL for an unknown domain; those of `run`.
pub fn with<T>(
    domain: *mut ibv_xrc_domain,
    run: impl FnOnce(&mut Domain) -> Result<T>,
) -> Result<T> {
    let mut open = OPEN.lock();
    let found = open.iter_mut().find(|known| known.is_at(domain));
    run(found.ok_or(Errno::INVAL)?)
}

/// ibv_open_xrc_domain of the manual.
///
/// # Errors
/// EINVAL for flags besides `O_CREAT` and `O_EXCL`, and without a file unless the flags are
/// `O_CREAT` alone; EBADF for an invalid descriptor; EEXIST if the domain exists and both flags are
/// given; ENOENT if it does not exist and `O_CREAT` is not given; the provider's.
pub fn open(ctx: Ctx<'_>, fd: c_int, oflag: c_int) -> Result<*mut ibv_xrc_domain> {
    if oflag & !(libc::O_CREAT | libc::O_EXCL) != 0 {
        return Err(Errno::INVAL);
    }
    let file = file(fd, oflag)?;
    forks::wait_for(&OPEN)?;
    let mut open = OPEN.lock();
    let same = |known: &&mut Box<Domain>| {
        file.is_some() && known.file == file && known.context() == ctx.as_ptr()
    };
    if let Some(known) = open.iter_mut().find(same) {
        if oflag == libc::O_CREAT | libc::O_EXCL {
            return Err(Errno(libc::EEXIST));
        }
        known.references += 1;
        return Ok(&raw mut known.shown);
    }
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        fd,
        oflags: oflag,
    };
    // SAFETY: the context is open.
    let xrcd = made(unsafe { (ctx.table().open_xrcd())(ctx.as_ptr(), &raw mut attr) })?;
    let mut domain = Box::new(Domain {
        shown: ibv_xrc_domain {
            context: ctx.as_ptr(),
            // SAFETY: a new domain of a provider.
            handle: u64::from(unsafe { (*xrcd.cast::<verbs_xrcd>()).handle }),
        },
        xrcd,
        file,
        references: 1,
        registered: HashMap::new(),
    });
    let shown = &raw mut domain.shown;
    open.push(domain);
    Ok(shown)
}

/// Which file it is; none for -1.
fn file(fd: c_int, oflag: c_int) -> Result<Option<File>> {
    if fd == -1 {
        return if oflag == libc::O_CREAT {
            Ok(None)
        } else {
            Err(Errno::INVAL)
        };
    }
    if fd < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: the caller's descriptor during the call; one that is not open is an error.
    let stat = fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
    Ok(Some((stat.st_dev, stat.st_ino)))
}

/// ibv_close_xrc_domain of the manual.
///
/// # Errors
/// EINVAL for an unknown domain; EBUSY for the last reference while the domain has objects, or this
/// process is registered with a queue pair of it.
pub fn close(domain: *mut ibv_xrc_domain) -> Result<()> {
    let mut open = OPEN.lock();
    let place = open.iter().position(|known| known.is_at(domain));
    let place = place.ok_or(Errno::INVAL)?;
    let found = &mut open[place];
    if found.references > 1 {
        found.references -= 1;
        return Ok(());
    }
    if !found.registered.is_empty() {
        return Err(Errno::BUSY);
    }
    // SAFETY: the context of a domain is open; of the domain itself this was the last reference.
    unsafe {
        let ctx = Ctx::from_raw(found.context())?;
        result((ctx.table().close_xrcd())(found.xrcd))?;
    }
    open.swap_remove(place);
    Ok(())
}
