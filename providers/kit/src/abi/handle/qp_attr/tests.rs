//! An old program's attributes, with nothing behind them.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::abi::kernel::*;
use crate::uverbs::qp::{modify_command, read_attr};
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;

const OLD_SIZE: usize = offset_of!(ibv_qp_attr, rate_limit);
const ALL: u32 = IBV_QP_RATE_LIMIT - 1;

/// Zeroed attributes of an old program that end where memory does: the next byte is a fault.
struct Old {
    pages: *mut c_void,
    page: usize,
}

impl Old {
    fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, of which this value alone knows.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let pages = libc::mmap(null_mut(), 2 * page, access, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let second = pages.byte_add(page);
            assert_eq!(libc::mprotect(second, page, libc::PROT_NONE), 0);
            Self { pages, page }
        }
    }

    fn attr(&self) -> *mut ibv_qp_attr {
        self.pages.wrapping_byte_add(self.page - OLD_SIZE).cast()
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        // SAFETY: mapped by new.
        unsafe { libc::munmap(self.pages, 2 * self.page) };
    }
}

#[test]
fn nothing_behind_an_old_programs_attributes_is_read() {
    let old = Old::new();
    // SAFETY: every member that the mask names is there.
    let change = unsafe { QpChange::from_raw(old.attr(), ALL) }.unwrap();
    let command = modify_command(7, change);
    assert_eq!((command.qp_handle, command.attr_mask), (7, ALL));
    assert_eq!(change.rate_limit(), None);
}

#[test]
fn nothing_behind_an_old_programs_attributes_is_written() {
    let old = Old::new();
    let reported = ib_uverbs_query_qp_resp {
        alt_timeout: 5,
        qp_state: 3,
        ..Default::default()
    };
    // SAFETY: there is room for all members in front of the rate limit.
    read_attr(
        &mut unsafe { QpAnswer::from_raw(old.attr()) }.unwrap(),
        &reported,
    );
    // SAFETY: as above.
    let change = unsafe { QpChange::from_raw(old.attr(), ALL) }.unwrap();
    assert_eq!(
        (change.qp_state(), change.alt_timeout()),
        (Some(3), Some(5))
    );
}

#[test]
fn members_that_are_not_named_may_be_anything() {
    let mut attr = core::mem::MaybeUninit::<ibv_qp_attr>::uninit();
    // SAFETY: the member that the mask names is written.
    let change = unsafe {
        (&raw mut (*attr.as_mut_ptr()).rate_limit).write(9);
        QpChange::from_raw(attr.as_ptr(), IBV_QP_RATE_LIMIT).unwrap()
    };
    assert_eq!((change.rate_limit(), change.qp_state()), (Some(9), None));
    let command = modify_command(1, change);
    assert_eq!((command.qp_state, command.timeout), (0, 0));
}

#[test]
fn null_is_refused() {
    // SAFETY: NULL is allowed.
    unsafe {
        assert_eq!(QpChange::from_raw(null_mut(), 0).err(), Some(Errno::INVAL));
        assert_eq!(QpAnswer::from_raw(null_mut()).err(), Some(Errno::INVAL));
    }
}
