//! Programs in C over librdmacm: calls of rsockets that need no RDMA device, and connections over
//! `uroce_lo`.

use std::{path::PathBuf, process::Command};

use c_tests::{
    Result,
    library::{built_library, built_rdmacm},
    tree::{package_dir, programs_dir, workspace_dir},
};
use watchdog::Watched;

/// Compiles a program of a folder of this package.
fn compiled(source: &str, folder: &tempfile::TempDir) -> Result<PathBuf> {
    let program = folder.path().join("program");
    let support = programs_dir().join("support");
    let compiled = Command::new("gcc")
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-pthread",
            "-D_GNU_SOURCE",
        ])
        .arg("-I")
        .arg(workspace_dir().join("rdmacm/include"))
        .arg("-I")
        .arg(workspace_dir().join("include"))
        .arg("-I")
        .arg(&support)
        .arg(package_dir().join(source))
        .arg(support.join("check.c"))
        .arg("-o")
        .arg(&program)
        .arg(built_rdmacm()?.join("librdmacm.so.1"))
        .arg(built_library()?.join("libibverbs.so.1"))
        .watched_output()?;
    let text = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{text}");
    Ok(program)
}

/// Runs a program to its end, and returns its output.
fn run(source: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(compiled(source, &folder)?);
    let libraries = std::env::join_paths([built_rdmacm()?, built_library()?])?;
    command.env("LD_LIBRARY_PATH", libraries);
    let output = command.watched_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{source}: {text}{errors}{}",
        output.status
    );
    Ok(text)
}

/// Runs a program whose last line says that it came to its end.
fn run_to_the_end(source: &str) -> Result<()> {
    let text = run(source)?;
    assert!(text.ends_with("done\n"), "{text}");
    Ok(())
}

#[test]
fn calls_of_rsockets_hold_without_a_device() -> Result<()> {
    run("rsocket/calls.c")?;
    Ok(())
}

#[test]
fn a_lookup_of_an_id_is_reported_by_an_event() -> Result<()> {
    run_to_the_end("connections/addrinfo.c")
}

#[test]
fn a_thread_waits_on_where_its_channel_is_destroyed() -> Result<()> {
    run_to_the_end("connections/destroyed_channel.c")
}

#[test]
fn a_forked_child_connects_by_itself() -> Result<()> {
    run_to_the_end("connections/forked_child.c")
}

#[test]
fn failures_are_explained_and_calls_recorded() -> Result<()> {
    run_to_the_end("connections/explain.c")
}

#[test]
fn a_client_waits_for_a_server_that_listens_anew() -> Result<()> {
    run_to_the_end("connections/listens_anew.c")
}

#[test]
fn a_killed_process_is_noticed_at_each_step_of_a_connection() -> Result<()> {
    run_to_the_end("connections/killed.c")
}

#[test]
fn ten_thousand_connections_are_given_back() -> Result<()> {
    run_to_the_end("connections/many.c")
}

#[test]
fn a_thousand_connections_of_other_hosts_are_accepted_at_once() -> Result<()> {
    run_to_the_end("connections/three_hosts.c")
}

#[test]
fn the_loopback_address_is_of_no_device_unless_its_interface_is_one() -> Result<()> {
    run_to_the_end("connections/loopback.c")
}

#[test]
fn a_thread_is_cancelled_in_calls_of_synchronous_ids() -> Result<()> {
    run_to_the_end("connections/cancel.c")
}

#[test]
fn an_address_is_resolved_when_its_neighbour_is_known() -> Result<()> {
    run_to_the_end("connections/neighbours.c")
}
