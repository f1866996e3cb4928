//! Calls of rsockets that need no RDMA device, by a program in C.

use std::process::Command;

use c_tests::{
    Result,
    library::{built_library, built_rdmacm},
    tree::{package_dir, workspace_dir},
};
use watchdog::Watched;

#[test]
fn calls_hold_without_a_device() -> Result<()> {
    let (rdmacm, verbs) = (built_rdmacm()?, built_library()?);
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("calls");
    let compiled = Command::new("gcc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread"])
        .arg("-I")
        .arg(workspace_dir().join("rdmacm/include"))
        .arg("-I")
        .arg(workspace_dir().join("include"))
        .arg(package_dir().join("rsocket/calls.c"))
        .arg("-o")
        .arg(&program)
        .arg(rdmacm.join("librdmacm.so.1"))
        .arg("-Wl,--allow-shlib-undefined")
        .watched_output()?;
    let text = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{text}");
    let mut command = Command::new(&program);
    let libraries = std::env::join_paths([rdmacm, verbs])?;
    command.env("LD_LIBRARY_PATH", libraries);
    let output = command.watched_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", output.status);
    Ok(())
}
