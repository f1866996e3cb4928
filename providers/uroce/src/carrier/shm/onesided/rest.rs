//! Whether a thread of another process can be in the middle of a copy.

use rustix::process::Pid;
use std::fs;
use std::io::ErrorKind;

/// Whether a thread of a process is known not to be copying from or into another process now: it is
/// stopped, blocked in another system call, or does not exist. An unknown state is `false`.
pub fn is_at_rest(process: Pid, thread: u64) -> bool {
    let process = process.as_raw_nonzero();
    let folder = format!("/proc/{process}/task");
    match fs::read_to_string(format!("{folder}/{thread}/stat")) {
        Ok(stat) if is_stopped(&stat) => true,
        Ok(_) => {
            let call = fs::read_to_string(format!("{folder}/{thread}/syscall"));
            call.is_ok_and(|call| is_elsewhere(&call))
        }
        // There was no thread of that number, provided that others can be seen.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::exists(format!("{folder}/{process}/stat")).unwrap_or(false)
        }
        Err(_) => false,
    }
}

/// Whether a line of /proc/PID/task/TID/stat is of a thread that is stopped, by a signal or by
/// a tracer, or that has ended.
fn is_stopped(stat: &str) -> bool {
    // Behind the name, in which anything may stand.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X'))
}

/// Whether /proc/PID/task/TID/syscall is of a thread that is blocked, but not in a copy.
fn is_elsewhere(call: &str) -> bool {
    let number = call
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    // "running" is no number: such a thread may be anywhere.
    number.is_some_and(|number: i64| {
        number != libc::SYS_process_vm_writev && number != libc::SYS_process_vm_readv
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::process::{Command, Stdio};

    #[test]
    fn states_are_distinguished_from_names() {
        assert!(is_stopped("7 (a) R (b) T 1 2"));
        assert!(is_stopped("7 (a) t 1 2"));
        for running in ["7 (a) T (b) R 1 2", "7 (a) S 1", "7 (a) D 1", "T", ""] {
            assert!(!is_stopped(running), "{running}");
        }
    }

    #[test]
    fn only_a_thread_that_is_blocked_elsewhere_is_known_not_to_copy() {
        assert!(is_elsewhere(
            "0 0x3 0x7ffd 0x400 0x0 0x0 0x0 0x7ffd 0x7f00\n"
        ));
        assert!(is_elsewhere("-1 0x7ffd 0x7f00\n"));
        let copies = format!("{} 0x3 0x7ffd\n", libc::SYS_process_vm_writev);
        for unknown in ["running\n", "", &copies] {
            assert!(!is_elsewhere(unknown), "{unknown}");
        }
    }

    #[test]
    fn a_process_that_waits_or_is_stopped_rests_and_one_that_runs_may_not() {
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().expect("a process");
        let mut spins = Command::new("sh");
        let spins = spins.args(["-c", "while :; do :; done"]).spawn();
        let mut spins = spins.expect("a process");
        let pid = |number: u32| {
            let number = i32::try_from(number).ok().and_then(Pid::from_raw);
            number.expect("a number")
        };
        let (waits, runs) = (pid(cat.id()), pid(spins.id()));
        while !is_at_rest(waits, cat.id().into()) {
            std::thread::yield_now();
        }
        // It may be starting, and blocked by that.
        while is_at_rest(runs, spins.id().into()) {
            std::thread::yield_now();
        }
        kill_process(runs, Signal::STOP).expect("there");
        while !is_at_rest(runs, spins.id().into()) {
            std::thread::yield_now();
        }
        assert!(is_at_rest(waits, spins.id().into()), "no thread of it");
        assert!(is_at_rest(getpid(), u64::MAX));
        for process in [&mut cat, &mut spins] {
            process.kill().expect("killed");
            process.wait().expect("ended");
        }
        assert!(!is_at_rest(waits, cat.id().into()), "no thread can be seen");
    }
}
