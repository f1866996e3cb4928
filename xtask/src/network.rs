//! Separate network namespaces for programs.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The command that runs a program in a separate network namespace, if the machine permits one.
pub fn network(program: &Path) -> Command {
    let options: [&[&str]; 2] = [&["--net"], &["--net", "--user", "--map-root-user"]];
    let allowed = options.iter().find(|options| {
        let mut trial = Command::new("unshare");
        trial.args(**options).arg("true");
        trial.stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });
    let Some(options) = allowed else {
        println!("-- no network namespace can be made here: running in this machine's network");
        return Command::new(program);
    };
    let mut command = Command::new("unshare");
    command.args(*options).arg("--").arg(program);
    command
}
