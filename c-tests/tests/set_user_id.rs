//! A program with more rights than its caller does not let the caller's environment lead the
//! library: no file is written that it names, no device is made that it asks for.
//!
//! One program, three copies: plain, set-user-ID, and with a capability. A user without rights runs
//! each, in a separate network namespace.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use c_tests::{Result, library::built_library, tree::workspace_dir};
use watchdog::Watched;

/// Lists devices, opens the first one, and makes a mistake that is worth an explanation.
const PROGRAM: &str = r#"
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = list && count ? ibv_open_device(list[0]) : NULL;

	printf("secure %lu\n", getauxval(AT_SECURE));
	if (context) {
		printf("opened %s\n", ibv_get_device_name(list[0]));
		ibv_dealloc_pd(NULL);
		ibv_close_device(context);
	}
	if (list)
		ibv_free_device_list(list);
	return 0;
}
"#;

/// The variables that name a file to be written. The device has one, too.
const FILES: [&str; 5] = [
    "IBVERBS_EXPLAIN",
    "IBVERBS_VALIDATE",
    "IBVERBS_TRACE",
    "VERBS_LOG_FILE",
    "UROCE_PCAP",
];

/// The program's path, and the files that it writes.
struct Setup {
    dir: tempfile::TempDir,
}

impl Setup {
    /// The program and the library are copied to where all users may read them: their paths are in
    /// the program, since the dynamic linker does not look at LD_LIBRARY_PATH either.
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let place = Self { dir };
        for name in ["libibverbs.so.1", "libibverbs.so"] {
            fs::copy(built_library()?.join(name), place.path(name))?;
        }
        let source = place.path("program.c");
        fs::write(&source, PROGRAM)?;
        let include = workspace_dir().join("include");
        let status = Command::new("cc")
            .arg(format!("-I{}", include.display()))
            .arg(format!("-L{}", place.dir.path().display()))
            .arg(format!("-Wl,-rpath,{}", place.dir.path().display()))
            .arg("-o")
            .args([&place.path("plain"), &source])
            .arg("-libverbs")
            .status()?;
        assert!(status.success(), "the program does not compile");
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A copy of the program.
    fn copy(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::copy(self.path("plain"), &path)?;
        Ok(path)
    }

    /// Runs a program as the user `nobody`, in a network where `lo` is up: its output, and the
    /// files that exist.
    fn run(&self, program: &Path) -> Result<(Output, Vec<&'static str>)> {
        let room = self.path("room");
        fs::create_dir(&room)?;
        // Both users may write there.
        fs::set_permissions(&room, fs::Permissions::from_mode(0o777))?;
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c"]).arg(
            "ip link set lo up && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\"",
        );
        command
            .arg(program)
            .env_remove("LD_LIBRARY_PATH")
            .env("UROCE_DEVICES", "lo")
            .env("VERBS_LOG_LEVEL", "9");
        for variable in FILES {
            command.env(variable, room.join(variable));
        }
        let output = command.watched_output()?;
        let written = FILES.into_iter().filter(|file| room.join(file).exists());
        let written = written.collect();
        fs::remove_dir_all(&room)?;
        Ok((output, written))
    }
}

/// Why the programs cannot be made here, if they cannot.
fn refusal() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output();
    if id.map_or(true, |id| id.stdout != b"0\n") {
        return Some("only root can give a program to root");
    }
    let apart = Command::new("unshare").args(["--net", "true"]).status();
    if !apart.is_ok_and(|status| status.success()) {
        return Some("no network namespace can be made here");
    }
    None
}

#[test]
fn variables_are_ignored_by_programs_with_more_rights() -> Result<()> {
    if let Some(refusal) = refusal() {
        println!("skipped: {refusal}");
        return Ok(());
    }
    let place = Setup::new()?;
    // All of them are obeyed by a program with its caller's rights.
    let (output, written) = place.run(&place.path("plain"))?;
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "secure 0\nopened uroce_lo\n",
        "{output:?}"
    );
    assert_eq!(written, FILES);

    let owned = place.copy("set-user-ID")?;
    fs::set_permissions(&owned, fs::Permissions::from_mode(0o4755))?;
    obeys_nothing(&place, &owned)?;

    let capable = place.copy("capable")?;
    let set = Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(&capable)
        .output();
    if set.is_ok_and(|output| output.status.success()) {
        obeys_nothing(&place, &capable)?;
    } else {
        println!("not tried with a capability: setcap is not there, or not allowed");
    }
    Ok(())
}

fn obeys_nothing(place: &Setup, program: &Path) -> Result<()> {
    let (output, written) = place.run(program)?;
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed.starts_with("secure 0") {
        println!("skipped: this file system gives no rights (nosuid)");
        return Ok(());
    }
    assert!(!printed.contains("uroce"), "{output:?}");
    assert!(
        written.is_empty(),
        "{} wrote {written:?}",
        program.display()
    );
    Ok(())
}
