//! Log messages about shared memory that is not available: nothing fails by that but speed, or
//! everything, where `UROCE_CARRIER` leaves no other way.

use crate::carrier::choice::VARIABLE;
use kit::errno::Errno;
use kit::log::{self, Level};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Logs, once in a process, why no process of this host, or one, is not reached by shared memory.
/// Nothing is logged of one that has ended meanwhile, or speaks another version.
pub fn complain(peer: &str, error: Errno) {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if matches!(error.raw(), libc::ESRCH | libc::EINVAL) {
        return;
    }
    if !LOGGED.swap(true, Relaxed) {
        log::line(Level::Warning, &complaint(peer, error));
    }
}

/// How long to wait for peers that are copying, when their objects are revoked.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Logs that a process may still be copying from or into a revoked object.
pub fn still_used(what: &str, pid: i32) {
    let text =
        format!("uroce: process {pid} does not end its use of {what}, which is taken away from it");
    log::line(Level::Warning, &text);
}

fn complaint(peer: &str, error: Errno) -> String {
    let why = match error.raw() {
        libc::ENOSYS => {
            ": the kernel, or what this program runs in, has no pidfd_open(2) or memfd_create(2)"
        }
        libc::EMFILE | libc::ENFILE => ": there are too many open files (ulimit -n)",
        libc::EFBIG => ": files, and memory with them, may not be so long (ulimit -f)",
        libc::EACCES | libc::EPERM => ": it is forbidden here",
        _ => "",
    };
    format!(
        "uroce: no shared memory with {peer} (errno {}{why}): packets to it use UDP, or fail \
         if {VARIABLE}=shm",
        error.raw()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_missing_call_and_its_effect() {
        let text = complaint("a process of this host", Errno::NOSYS);
        let begin = "uroce: no shared memory with a process of this host (errno 38: ";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains("pidfd_open(2)") && text.ends_with("UROCE_CARRIER=shm"),
            "{text}"
        );
        assert!(complaint("x", Errno(libc::EFBIG)).contains("ulimit -f"));
        assert!(complaint("x", Errno(libc::ENXIO)).contains("(errno 6)"));
    }
}
