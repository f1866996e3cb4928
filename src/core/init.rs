#![forbid(unsafe_code)]
//! Actions that happen once in a process, before the first device list.

use super::{config, fork, log, report, trace};
use crate::warn::warn;
use kit::sys::identity::{Limit, effective_user, limit};
use kit::sys::{forks, lock::Lock};
use std::sync::Once;

/// Below this many bytes of lockable memory hardly any registration succeeds.
const MEMLOCK_FLOOR: u64 = 32 * 1024;

/// The variables that ask to look at calls.
const OBSERVERS: [&str; 3] = [
    report::EXPLAIN_VARIABLE,
    report::VALIDATE_VARIABLE,
    trace::VARIABLE,
];

static ONCE: Once = Once::new();
/// Held by the thread that is in it: fork(2) waits for a lock, but not for a `Once`.
static FIRST: Lock<()> = Lock::new(());

/// Reads the environment, starts fork protection and the log, warns of a small memory limit.
/// `allow_disassociate` is called with whether objects of a device that is gone may be destroyed;
/// `observe` asks [`is_observed`] and remembers.
pub fn once(allow_disassociate: fn(bool), observe: fn()) {
    if ONCE.is_completed() {
        return;
    }
    // Without memory for that, a child may find it in the middle for ever.
    let _ = forks::wait_for(&FIRST);
    let _entered = forks::enter();
    let _guard = FIRST.lock();
    ONCE.call_once(|| {
        log::init();
        observe();
        kit::uverbs::read_environment();
        protect_forks();
        allow_disassociate(
            config::is_on("RDMAV_ALLOW_DISASSOC_DESTROY")
                // The name of the same thing in the mlx4 driver, before the library had it.
                || config::is_on("MLX4_DEVICE_FATAL_CLEANUP"),
        );
        warn_of_memlock();
    });
}

/// Whether any variable asks to look at calls.
pub fn is_observed() -> bool {
    OBSERVERS.iter().any(|name| config::is_set(name))
}

fn protect_forks() {
    let asked = config::is_on("RDMAV_FORK_SAFE") || config::is_on("IBV_FORK_SAFE");
    if asked && fork::init().is_err() {
        warn("Warning: fork()-safety requested but init failed");
    }
}

fn warn_of_memlock() {
    if effective_user() == 0 {
        return;
    }
    let Some(limit) = limit(Limit::LockedMemory) else {
        return;
    };
    if limit <= MEMLOCK_FLOOR {
        warn(&format!(
            "Warning: RLIMIT_MEMLOCK is {limit} bytes.\n    This will severely limit memory registrations."
        ));
    }
}
