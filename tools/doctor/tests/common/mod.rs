//! Common functions of the tests: the program over this workspace's library, and separate network
//! namespaces.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as expected, and none uses all of it"
)]

use std::process::{Command, Output};

use serde_json::Value;
use watchdog::Watched;

/// The program under test.
pub const DOCTOR: &str = env!("CARGO_BIN_EXE_ibv_doctor");

/// Whether the tests run as root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// The library of this workspace for a command.
pub fn library(command: &mut Command) -> &mut Command {
    command.env(
        "LD_LIBRARY_PATH",
        c_tests::library::built_library().unwrap(),
    )
}

/// Runs a script in a new network namespace, where `lo` is up, and with its sysfs: a mounted sysfs
/// keeps showing the interfaces of the namespace that it was mounted in.
pub fn script(text: &str, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if !is_root() {
        command.arg("--map-root-user");
    }
    library(&mut command)
        .args(["bash", "-c"])
        .arg(format!(
            "mount -t sysfs sysfs /sys && ip link set lo up || exit\ndoctor={DOCTOR}\n{text}"
        ))
        .env("UROCE_DEVICES", "lo")
        .env_remove("UROCE_FAULTS")
        .envs(env.iter().copied())
        .watched_output()
        .unwrap()
}

/// Whether none is available here; prints a message then.
pub fn no_network() -> bool {
    let none = !script("true", &[]).status.success();
    if none {
        println!("skipped: no network namespace can be made here");
    }
    none
}

/// The output, as JSON.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
