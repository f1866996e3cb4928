//! C tests, compiled for arm64.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::{
    inside::Inside,
    step::{STAGE, compile, log, one, succeeded, watched},
};
use crate::{dirs::Dirs, report::Tally};

/// The sets that need no device of the kernel, and whose programs check themselves.
const SETS: [&str; 3] = ["no_device", "self_checking", "post_44"];

/// Programs that are left out, with the reason.
const LEFT_OUT: [(&str, &str); 12] = [
    ("no_device/plugins", OTHER_NODE),
    ("self_checking/plugins_let_go", OTHER_NODE),
    ("self_checking/fork_cycles", NO_FORK),
    ("self_checking/fork_view", NO_FORK),
    ("self_checking/explain", STARTS_ITSELF),
    ("self_checking/validate", STARTS_ITSELF),
    (
        "self_checking/trace",
        "qemu-user names the process after itself",
    ),
    (
        "self_checking/diagnostics",
        "sigtimedwait(2) of qemu-user misses signals of the process's own system calls",
    ),
    ("post_44/xrc_takeover", LONG),
    ("self_checking/cancel", LONG),
    ("self_checking/comes_and_goes", LONG),
    ("self_checking/fork_threads", LONG),
];
const OTHER_NODE: &str = "sid has no provider of the node IBVERBS_PRIVATE_34";
const NO_FORK: &str = "qemu-user has no MADV_DONTFORK";
const LONG: &str = "it takes a minute under emulation";
const STARTS_ITSELF: &str = "this machine's kernel cannot start a program of arm64";

/// Compiles and runs all of them.
///
/// # Errors
/// One does not compile.
pub fn run(dirs: &Dirs, inside: &Inside, library: &Path, tally: &mut Tally) -> Result<()> {
    println!("-- {STAGE}: C tests");
    let programs = programs(&dirs.root.join("c-tests/programs"))?;
    let into = inside.results().1.join("c-tests");
    let mut all = inside.script("compile-c");
    all.arg(library).arg(&into).args(&programs);
    compile(dirs, "compile-c", &mut all).context("the C tests do not compile")?;
    for name in &programs {
        if let Some((_, reason)) = LEFT_OUT.iter().find(|(left_out, _)| left_out == name) {
            println!("-- {STAGE}: without {name}: {reason}");
            tally.skip(reason);
            continue;
        }
        one(
            tally,
            name,
            ended_well(dirs, inside, library, (name, &into)),
        );
    }
    Ok(())
}

/// The names of the programs, as `SET/NAME`.
fn programs(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for set in SETS {
        let folder = folder.join(set);
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let file: PathBuf = entry?.file_name().into();
            let name = file.file_stem().and_then(|name| name.to_str());
            if let Some(name) = name.filter(|_| file.extension().is_some_and(|end| end == "c")) {
                names.push(format!("{set}/{name}"));
            }
        }
    }
    names.sort();
    Ok(names)
}

fn ended_well(
    dirs: &Dirs,
    inside: &Inside,
    library: &Path,
    (name, folder): (&str, &Path),
) -> Result<()> {
    let mut program = inside.arm64(library, &[], folder.join(name));
    let outcome = watched(dirs, name, &mut program)?;
    succeeded(&outcome, &log(dirs, name))?;
    let used = format!("library: {}/libibverbs.so.1", library.display());
    if !outcome.text.lines().any(|line| line == used) {
        bail!("it ran over another library: {}", outcome.text);
    }
    // Programs end with this word, or with the reason why they cannot run.
    let last = outcome.text.lines().last().unwrap_or_default();
    if last != "done" && !last.starts_with("skipped: ") {
        bail!("{last}");
    }
    Ok(())
}
