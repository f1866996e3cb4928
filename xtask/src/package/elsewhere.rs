//! `cargo xtask install` below a directory, with another prefix and library directory: it may write
//! only there, and the result has to be usable.
//!
//! The program from the build of the packages runs where every mount but the destination is
//! read-only, without network and without any capability, so that writes elsewhere and privileged
//! calls fail.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use super::files;
use crate::host::must;

const PREFIX: &str = "/opt/verbs";
const LIBRARIES: &str = "/opt/verbs/lib64";

/// Makes all but the directory `$0` read-only, sees that it is so at `$1`, and runs the rest.
const ALONE: &str = r#"
only=$0 witness=$1 && shift
mount --make-rprivate / && mount --bind "$only" "$only" || exit 1
findmnt --raw --noheadings --output TARGET | while read -r at; do
    [ "$at" = "$only" ] || mount -o remount,bind,ro "$at" 2>/dev/null
done
if touch "$witness" 2>/dev/null; then echo "$witness can be written" >&2; exit 1; fi
exec setpriv --inh-caps=-all --bounding-set=-all "$@""#;

/// A program that prints its library.
const PROGRAM: &str = "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
     #include <stdio.h>\n\
     int main(void) { return puts(ibv_node_type_str(IBV_NODE_CA)) < 0 \
     || puts(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED)) < 0; }\n";

/// Installs the build of `source` into a new directory of `job`.
pub fn check(job: &Path, source: &Path) -> Result<()> {
    let only = job.join("elsewhere");
    fs::create_dir(&only)?;
    install(job, source, &only)?;
    let (found, prefix) = (files::below(&only)?, installed(&only, PREFIX));
    if let Some(file) = found.iter().find(|file| !file.starts_with(&prefix)) {
        bail!("{} is not below {PREFIX}", file.display());
    }
    let wanted = [
        "share/man/man7/ferroverbs.7",
        "bin/ibv_doctor",
        "include/rdma/rdma_cma.h",
        "lib64/librdmacm.so.1",
        "lib64/rsocket/librspreload.so",
    ];
    for wanted in wanted {
        if !found.contains(&prefix.join(wanted)) {
            bail!("{wanted} is not there");
        }
    }
    usable(job, &only)
}

fn install(job: &Path, source: &Path, only: &Path) -> Result<()> {
    let program = source.join("debian/cargo-target/debug/xtask");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", ALONE]);
    command.arg(only).arg(job.join("witness")).arg(program);
    command.args(["install", "--prefix", PREFIX, "--libdir", LIBRARIES]);
    command.arg("--destdir").arg(only);
    must(&mut command).map(drop)
}

/// Where a path of the installed system is.
fn installed(only: &Path, path: &str) -> PathBuf {
    only.join(path.trim_start_matches('/'))
}

/// A program is compiled with pkg-config's flags and runs on the library, and so does an installed
/// one.
fn usable(job: &Path, only: &Path) -> Result<()> {
    let libraries = installed(only, LIBRARIES);
    let mut asked = Command::new("pkg-config");
    asked
        .args(["--cflags", "--libs", "librdmacm", "libibverbs"])
        .env("PKG_CONFIG_SYSROOT_DIR", only)
        .env("PKG_CONFIG_LIBDIR", libraries.join("pkgconfig"));
    let flags = must(&mut asked)?;
    if !flags.contains(&format!("-L{}", libraries.display())) {
        bail!("pkg-config says {flags}");
    }
    let (source, program) = (job.join("elsewhere.c"), job.join("elsewhere-program"));
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new("cc");
    compiler
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .args(flags.split_whitespace());
    must(&mut compiler)?;
    let runs: [(PathBuf, &[&str]); 2] = [
        (program, &["libibverbs.so.1", "librdmacm.so.1"]),
        (
            installed(only, PREFIX).join("bin/ibv_devices"),
            &["libibverbs.so.1"],
        ),
    ];
    for (program, loads) in runs {
        // The dynamic linker speaks on standard error.
        let mut run = Command::new("sh");
        run.args(["-c", "LD_DEBUG=files exec \"$0\" 2>&1"])
            .arg(&program)
            .env("LD_LIBRARY_PATH", &libraries)
            .env("UROCE_DEVICES", "lo");
        let printed = must(&mut run)?;
        for library in loads {
            let wanted = format!("calling init: {}/{library}", libraries.display());
            if !printed.contains(&wanted) {
                bail!("{} runs on another {library}", program.display());
            }
        }
    }
    Ok(())
}
