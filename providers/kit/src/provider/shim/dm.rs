//! Device memory: ibv_alloc_dm(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::import::Import;
use super::mr::{Shown, register};
use super::object::{New, Side};
use super::pd::Domain;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;
use std::sync::Arc;

/// Device memory.
pub(super) struct Memory<P: Provider> {
    pub(super) dm: Arc<P::Dm>,
    pub(super) import: Import,
}

impl<P: Provider> Memory<P> {
    /// Some that another context has made.
    pub(super) fn imported(dm: Arc<P::Dm>, import: Import) -> Self {
        Self { dm, import }
    }
}

// SAFETY: verbs_dm starts with the context of its ibv_dm; numbers, pointers and functions may be
// 0.
unsafe impl<P: Provider> Side for Memory<P> {
    type C = verbs_dm;
}

pub(super) unsafe extern "C" fn alloc_dm<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    let dm = unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            if attr.comp_mask != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            let mut new = New::<Memory<P>>::alloc(context, None)?;
            let dm = context
                .provider()?
                .alloc_dm(attr.length, attr.log_align_req)?;
            new.c().dm.memcpy_to_dm = Some(memcpy_to_dm::<P>);
            new.c().dm.memcpy_from_dm = Some(memcpy_from_dm::<P>);
            let handle = context.exports().handle();
            new.c().dm.handle = handle;
            new.c().handle = handle;
            let memory = new.finish(Memory {
                dm: Arc::new(dm),
                import: Import::by(handle),
            });
            context.exports().dms.add(handle, memory);
            Ok(memory)
        })
    };
    pointer(dm).cast()
}

pub(super) unsafe extern "C" fn free_dm<P: Provider>(dm: *mut ibv_dm) -> c_int {
    // SAFETY: the caller passes live device memory.
    code(unsafe {
        Subject::<P, Memory<P>>::from_raw(dm.cast()).and_then(|subject| {
            let side = &subject.object.side;
            if side.import.is() {
                subject.object.idle()?;
            } else {
                let (dms, handle) = (&subject.context.exports().dms, side.import.handle());
                dms.withdraw(handle, &subject.object)?;
                let done = subject.provider.free_dm(&side.dm);
                done.inspect_err(|_| dms.add(handle, dm.cast()))?;
            }
            subject.free();
            Ok(())
        })
    })
}

/// Whether there is anything to copy.
///
/// # Errors
/// EINVAL for bytes at NULL.
fn some(host: *const c_void, length: usize) -> Result<bool> {
    match (host.is_null(), length) {
        (_, 0) => Ok(false),
        (true, _) => Err(Errno::INVAL),
        (false, _) if isize::try_from(length).is_err() => Err(Errno(libc::EFAULT)),
        _ => Ok(true),
    }
}

pub(super) unsafe extern "C" fn memcpy_to_dm<P: Provider>(
    dm: *mut ibv_dm,
    offset: u64,
    host: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller passes live device memory, and a buffer of that many bytes.
    code(unsafe {
        Subject::<P, Memory<P>>::from_raw(dm.cast()).and_then(|subject| {
            let data: &[u8] = match some(host, length)? {
                true => core::slice::from_raw_parts(host.cast(), length),
                false => &[],
            };
            let dm = &subject.object.side.dm;
            subject.provider.write_dm(dm, offset, data)
        })
    })
}

pub(super) unsafe extern "C" fn memcpy_from_dm<P: Provider>(
    host: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the caller passes live device memory, and room for that many bytes.
    code(unsafe {
        Subject::<P, Memory<P>>::from_raw(dm.cast()).and_then(|subject| {
            let data: &mut [u8] = match some(host, length)? {
                true => core::slice::from_raw_parts_mut(host.cast(), length),
                false => &mut [],
            };
            let dm = &subject.object.side.dm;
            subject.provider.read_dm(dm, offset, data)
        })
    })
}

pub(super) unsafe extern "C" fn reg_dm_mr<P: Provider>(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain and live device memory, or NULL.
    pointer(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|domain| {
            let memory = domain.context.object::<Memory<P>>(dm.cast())?;
            let shown = Shown {
                addr: null_mut(),
                length,
                mr_type: IBV_MR_TYPE_MR,
                access,
            };
            register(&domain, &shown, Some(&memory.uses), |provider, pd| {
                provider.reg_dm_mr(pd, &memory.side.dm, offset, length, access)
            })
        })
    })
}
