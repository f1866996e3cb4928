//! GID tables: ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3).

use super::address::{self, Device};
use super::{observe, ret};
use crate::core::address::{EMPTY, gid};
use crate::symver;
use kit::abi::{handle::Ctx, ibv_context, ibv_gid, ibv_gid_entry};
use kit::errno::{Errno, Result};
use kit::sys::errno::set as set_errno;
use std::ffi::c_int;

pub(super) unsafe extern "C" fn query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: the caller passes an open context and room for a GID, or NULL.
    ret::minus_one(unsafe {
        let arguments = ret::not_null(gid).and_then(|_| Ctx::from_raw(context));
        arguments.and_then(|ctx| {
            let found = gid::query(&Device(ctx), port_num, index.cast_unsigned());
            if let Err(failure) = &found {
                observe::failed("ibv_query_gid", ctx, failure.reason, || {
                    format!(
                        "Port {port_num} or index {index} does not exist: ibv_query_device \
                         returns phys_port_cnt, ibv_query_port gid_tbl_len."
                    )
                });
            }
            // Programs of old look for empty entries by their zeros.
            let raw = address::reason(found)?.unwrap_or(EMPTY);
            gid.write(ibv_gid { raw });
            Ok(())
        })
    })
}
symver!(query_gid => "ibv_query_gid", "IBVERBS_1.1");

/// The caller's entries as bytes. The kernel reports entries at NULL as EFAULT, and cannot be
/// given more bytes than 16 bits can count.
///
/// # Safety
/// `entries` has room for `size` bytes, which nothing else uses during `'a`.
unsafe fn memory<'a>(entries: *mut ibv_gid_entry, size: usize) -> Result<&'a mut [u8]> {
    if u16::try_from(size).is_err() {
        return Err(Errno::INVAL);
    }
    if size == 0 {
        return Ok(&mut []);
    }
    if entries.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: vouched for by the caller.
    Ok(unsafe { std::slice::from_raw_parts_mut(entries.cast(), size) })
}

unsafe extern "C" fn query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    // SAFETY: the caller passes an open context and room for an entry of that size, or NULL.
    let arguments = unsafe {
        Ctx::from_raw(context).and_then(|ctx| Ok((Device(ctx), memory(entry, entry_size)?)))
    };
    address::code(match arguments {
        Ok((device, memory)) => gid::query_into(&device, port_num, gid_index, flags, memory),
        Err(e) => Err(e.into()),
    })
}
symver!(query_gid_ex => "_ibv_query_gid_ex", "IBVERBS_1.11");

unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let size = entry_size.checked_mul(max_entries).ok_or(Errno::INVAL);
    // SAFETY: the caller passes an open context and room for that many entries of that size,
    // or NULL.
    let count = unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let memory = memory(entries, size?)?;
            gid::query_table(&Device(ctx), flags, entry_size, memory)
        })
    };
    let count = count.and_then(|count| isize::try_from(count).map_err(|_| Errno::OVERFLOW));
    ret::negative(count.inspect_err(|e| set_errno(*e)))
}
symver!(query_gid_table => "_ibv_query_gid_table", "IBVERBS_1.11");
