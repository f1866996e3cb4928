//! Nodes and the engine over real sockets, in a network namespace of their own where that can be
//! had. Several nodes in one process are to each other what several processes are.

mod end;
mod inside;

/// What [`end`] is built on; it is used by an example too, which has it from elsewhere.
mod api {
    pub use crate::carrier::Sender;
    pub use crate::carrier::udp::Path;
    pub use crate::node::{Endpoint, Incoming, Node};
}

use std::process::Command;

/// Says that the namespace is there.
const THERE: &str = "UROCE_TEST_NETWORK";

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    let program = std::env::current_exe().expect("a test program");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        let script = "ip link set lo up && ip addr add 10.77.1.1/32 dev lo && exec \"$0\" \"$@\"";
        command.args(["-n", "sh", "-c", script]).arg(program);
        command
    } else {
        eprintln!("on the host's network: a namespace needs root");
        Command::new(program)
    };
    let output = command
        .args(["--ignored", "--nocapture", "node::tests::inside::"])
        .env(THERE, "1")
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    eprint!("{complained}");
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(!said.contains(" 0 passed"), "{said}\n{complained}");
}

/// Whether [`in_a_namespace`] runs this; says so if not.
fn there() -> bool {
    let there = std::env::var_os(THERE).is_some();
    if !there {
        eprintln!("skipped: in_a_namespace runs this");
    }
    there
}
