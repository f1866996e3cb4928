//! XRC domains: ibv_open_xrcd(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::object::{New, Side};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An XRC domain.
pub(super) struct Sharing<P: Provider> {
    pub(super) xrcd: Arc<P::Xrcd>,
}

// SAFETY: verbs_xrcd starts with the context of its ibv_xrcd; numbers may be 0.
unsafe impl<P: Provider> Side for Sharing<P> {
    type C = verbs_xrcd;
}

pub(super) unsafe extern "C" fn open_xrcd<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    let xrcd = unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let new = New::<Sharing<P>>::alloc(context, None)?;
            let provider = context.provider()?;
            let file = file(attr)?;
            let xrcd = provider.open_xrcd(file, attr.oflags & (libc::O_CREAT | libc::O_EXCL))?;
            let xrcd = Arc::new(xrcd);
            Ok(new.finish(Sharing { xrcd }))
        })
    };
    pointer(xrcd).cast()
}

/// The file of the domain; -1 is an anonymous one.
///
/// # Errors
/// EINVAL if the mask leaves file or flags out, EOPNOTSUPP if it has unknown bits, EBADF for
/// another negative number.
fn file(attr: &ibv_xrcd_init_attr) -> Result<Option<BorrowedFd<'_>>> {
    const NEEDED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED {
        return Err(Errno::INVAL);
    }
    match attr.fd {
        -1 => Ok(None),
        // SAFETY: the application's descriptor, which it keeps open during the call; one that is
        // not open is answered by the kernel with EBADF.
        fd if fd >= 0 => Ok(Some(unsafe { BorrowedFd::borrow_raw(fd) })),
        _ => Err(Errno(libc::EBADF)),
    }
}

pub(super) unsafe extern "C" fn close_xrcd<P: Provider>(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: the caller passes a live domain, which lies in such a block.
    code(unsafe {
        Subject::<P, Sharing<P>>::from_raw(xrcd.cast()).and_then(|subject| {
            subject.object.idle()?;
            subject.provider.close_xrcd(&subject.object.side.xrcd)?;
            subject.free();
            Ok(())
        })
    })
}
