#![forbid(unsafe_code)]
//! Registration and fork protection, in the right order (ibv_reg_mr(3), ibv_rereg_mr(3),
//! ibv_fork_init(3)).
//!
//! Pages are protected before the kernel pins them and given back after it let go, so that no
//! fork in between moves a page away from the device.

use super::fork;
use kit::{
    abi::{kernel::IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS, *},
    errno::{Errno, Result},
};
use std::ffi::{c_int, c_uint};

/// A range of the process's memory: address and length in bytes.
#[derive(Clone, Copy)]
pub struct Range {
    /// First byte.
    pub addr: usize,
    /// Length in bytes.
    pub len: usize,
}

impl From<(usize, usize)> for Range {
    fn from((addr, len): (usize, usize)) -> Self {
        Self { addr, len }
    }
}

/// The access flags to hand to the provider: optional ones are dropped when the kernel does not
/// know that they may be ignored.
pub fn access_for_kernel(access: c_uint, core_support: u64) -> c_uint {
    if core_support & u64::from(IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS) != 0 {
        return access;
    }
    access & !IBV_ACCESS_OPTIONAL_RANGE
}

/// Pages of an on-demand region are never pinned, so they need no protection.
pub fn pins(access: c_uint) -> bool {
    access & IBV_ACCESS_ON_DEMAND == 0
}

/// Runs `register` with the range protected; takes the protection back when it fails.
///
/// # Errors
/// Those of madvise(2) and of `register`.
#[inline(always)] // as `export::mr::register`, its caller
pub fn protected<T>(range: Option<Range>, register: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(range) = range else {
        return register();
    };
    fork::dont_fork(range.addr, range.len)?;
    register().inspect_err(|_| {
        // The registration's error is the one to report.
        let _ = fork::do_fork(range.addr, range.len);
    })
}

/// Releases the range of a deregistered region. The region is destroyed, so errors of madvise are
/// ignored.
pub fn release(range: Range) {
    let _ = fork::do_fork(range.addr, range.len);
}

/// The parameters of an ibv_rereg_mr call.
#[derive(Clone, Copy)]
pub struct Rereg {
    /// `IBV_REREG_MR_CHANGE_*`.
    pub flags: c_int,
    /// The new range, used with CHANGE_TRANSLATION.
    pub range: Range,
    /// The new access flags, used with CHANGE_ACCESS.
    pub access: c_int,
}

impl Rereg {
    fn changes(self, flag: ibv_rereg_mr_flags) -> bool {
        u32::try_from(self.flags).is_ok_and(|f| f & flag != 0)
    }

    /// The new range, where the translation changes.
    pub fn new_range(self) -> Option<Range> {
        self.changes(IBV_REREG_MR_CHANGE_TRANSLATION)
            .then_some(self.range)
    }

    /// Whether the protection domain changes.
    pub fn changes_pd(self) -> bool {
        self.changes(IBV_REREG_MR_CHANGE_PD)
    }

    /// Checks the combination, as ibv_rereg_mr(3) states it.
    ///
    /// # Errors
    /// EINVAL for unknown flags, a translation without address or length, access flags without
    /// CHANGE_ACCESS.
    pub fn check(self) -> Result<()> {
        let known = u32::try_from(self.flags).is_ok_and(|f| f & !IBV_REREG_MR_FLAGS_SUPPORTED == 0);
        let empty = self.range.addr == 0 || self.range.len == 0;
        let stray_access = self.access != 0 && !self.changes(IBV_REREG_MR_CHANGE_ACCESS);
        if !known || (self.new_range().is_some() && empty) || stray_access {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// Runs `rereg` with the new range protected, then gives the old one back.
    ///
    /// Returns 0 or one of `enum ibv_rereg_mr_err_code`, and whether the region changed.
    pub fn run(self, old: Range, rereg: impl FnOnce() -> c_int) -> (c_int, bool) {
        let new = self.new_range();
        if let Some(new) = new
            && fork::dont_fork(new.addr, new.len).is_err()
        {
            return (IBV_REREG_MR_ERR_DONT_FORK_NEW, false);
        }
        if rereg() != 0 {
            let returned = new.is_none_or(|new| fork::do_fork(new.addr, new.len).is_ok());
            let code = if returned {
                IBV_REREG_MR_ERR_CMD
            } else {
                IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW
            };
            return (code, false);
        }
        if new.is_some() && fork::do_fork(old.addr, old.len).is_err() {
            return (IBV_REREG_MR_ERR_DO_FORK_OLD, true);
        }
        (0, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flags: u32, addr: usize, len: usize, access: c_int) -> Rereg {
        Rereg {
            flags: flags.cast_signed(),
            range: Range { addr, len },
            access,
        }
    }

    #[test]
    fn rereg_arguments() {
        let t = IBV_REREG_MR_CHANGE_TRANSLATION;
        assert_eq!(request(t, 4096, 1, 0).check(), Ok(()));
        assert_eq!(request(t, 0, 1, 0).check(), Err(Errno::INVAL));
        assert_eq!(request(t, 4096, 0, 0).check(), Err(Errno::INVAL));
        assert_eq!(request(8, 4096, 1, 0).check(), Err(Errno::INVAL));
        assert_eq!(request(u32::MAX, 4096, 1, 0).check(), Err(Errno::INVAL));
        assert_eq!(
            request(IBV_REREG_MR_CHANGE_PD, 0, 0, 1).check(),
            Err(Errno::INVAL)
        );
        assert_eq!(request(IBV_REREG_MR_CHANGE_ACCESS, 0, 0, 1).check(), Ok(()));
    }

    #[test]
    fn optional_access_is_dropped_for_old_kernels() {
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
        assert_eq!(access_for_kernel(access, 0), IBV_ACCESS_LOCAL_WRITE);
        assert_eq!(access_for_kernel(access, 1), access);
    }
}
