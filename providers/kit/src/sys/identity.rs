//! The process's identity and limits: calls that programs take for granted, but that a sandbox may
//! deny. These functions do not fail.

use core::ffi::c_ulong;

/// Values that a call without errors never returns: for a call that a sandbox denies, the C library
/// returns the kernel's errno, negated.
const ERRNO: core::ops::RangeInclusive<u32> = u32::MAX - 4094..=u32::MAX;

/// The answer of a call that cannot fail but in a sandbox; there, that of the auxiliary vector,
/// which the kernel wrote when the program was started (getauxval(3)).
fn or_started(answer: u32, key: c_ulong) -> u32 {
    if !ERRNO.contains(&answer) {
        return answer;
    }
    // SAFETY: looks up a word of the auxiliary vector, whatever its number, and touches nothing
    // else.
    let started = unsafe { libc::getauxval(key) };
    u32::try_from(started).unwrap_or(u32::MAX)
}

/// getuid(2).
#[must_use]
pub fn user() -> u32 {
    // SAFETY: answers a number.
    or_started(unsafe { libc::getuid() }, libc::AT_UID)
}

/// geteuid(2).
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: as above.
    or_started(unsafe { libc::geteuid() }, libc::AT_EUID)
}

/// getgid(2).
#[must_use]
pub fn group() -> u32 {
    // SAFETY: as above.
    or_started(unsafe { libc::getgid() }, libc::AT_GID)
}

/// getegid(2).
#[must_use]
pub fn effective_group() -> u32 {
    // SAFETY: as above.
    or_started(unsafe { libc::getegid() }, libc::AT_EGID)
}

/// gettid(2); 0 where the process may not ask.
#[must_use]
pub fn thread() -> u32 {
    // SAFETY: answers a number.
    u32::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

/// A limit of getrlimit(2), by resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of a file (`RLIMIT_FSIZE`).
    FileSize,
    /// Bytes of locked memory (`RLIMIT_MEMLOCK`).
    LockedMemory,
}

/// The soft limit; none if it is unlimited, or if the process may not ask.
#[must_use]
pub fn limit(which: Limit) -> Option<u64> {
    let resource = match which {
        Limit::FileSize => libc::RLIMIT_FSIZE,
        Limit::LockedMemory => libc::RLIMIT_MEMLOCK,
    };
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: room for the answer.
    if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
        return None;
    }
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, getegid, geteuid, getgid, getrlimit, getuid};

    #[test]
    fn it_is_the_kernels_value() {
        let ours = [user(), effective_user(), group(), effective_group()];
        let users = [getuid(), geteuid()].map(rustix::process::Uid::as_raw);
        let groups = [getgid(), getegid()].map(rustix::process::Gid::as_raw);
        assert_eq!(ours, [users[0], users[1], groups[0], groups[1]]);
        assert_eq!(limit(Limit::FileSize), getrlimit(Resource::Fsize).current);
        assert_eq!(
            limit(Limit::LockedMemory),
            getrlimit(Resource::Memlock).current
        );
    }

    #[test]
    fn a_call_that_is_denied_is_answered_by_the_auxiliary_vector() {
        for errno in [1, 38, 4095] {
            let denied = 0u32.wrapping_sub(errno);
            assert_eq!(or_started(denied, libc::AT_UID), user());
        }
        assert_eq!(or_started(7, libc::AT_UID), 7);
    }
}
