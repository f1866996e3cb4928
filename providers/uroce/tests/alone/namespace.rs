//! Tests that run in a separate network namespace: the test program is started again there.

use std::process::Command;
use watchdog::Watched;

/// Says that the namespace is there.
const THERE: &str = "UROCE_TEST_NETWORK";

/// Runs the ignored tests whose names begin like this in a network namespace, after `lo` is up and
/// the lines of `setup` were run; with `options` of the test harness. On the host's network without
/// root, which cannot have a namespace.
pub fn run(tests: &str, setup: &[&str], options: &[&str]) {
    run_with(tests, setup, options, &[]);
}

/// The same with more in the environment.
pub fn run_with(tests: &str, setup: &[&str], options: &[&str], environment: &[(&str, &str)]) {
    let program = std::env::current_exe().expect("a test program");
    let mut command = if is_root() {
        let mut lines = vec!["ip link set lo up"];
        lines.extend(setup);
        lines.push("exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        let script = lines.join(" && ");
        command.args(["-n", "sh", "-c", &script]).arg(program);
        command
    } else {
        eprintln!("on the host's network: a namespace needs root");
        Command::new(program)
    };
    let output = command
        .args(["--ignored", "--nocapture"])
        .args(options)
        .arg(tests)
        .env(THERE, "1")
        .envs(environment.iter().copied())
        .watched_output()
        .expect("a process");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    eprint!("{complained}");
    assert!(output.status.success(), "{printed}\n{complained}");
    assert!(!printed.contains(" 0 passed"), "{printed}\n{complained}");
}

/// Whether [`run`] runs this; prints a message if not.
pub fn there() -> bool {
    let there = std::env::var_os(THERE).is_some();
    if !there {
        eprintln!("skipped: in_a_namespace runs this");
    }
    there
}

/// Whether a namespace can be made.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
