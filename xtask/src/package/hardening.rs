//! How the compiled files of the packages are built: as distributions expect it of each file.
//!
//! - Relocations are done when a program starts, and their memory is then read-only (full RELRO).
//! - Neither the stack nor relocated code can be both written and executed.
//! - A build id names the file, and a debug package has the file's debug information under that
//!   name.
//! - Objects compiled from C have stack protectors.
//! - Neither the library nor its debug information contains a path of the machine that built it.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::files::{PACKAGES, below, file_with, package_in, unpack};
use crate::{dirs::LIBRARY, host::must};

/// The compiled files of each package. The packages that are not here contain none.
const COMPILED: [(&str, usize); 3] = [
    // The library.
    (PACKAGES[0].0, 1),
    // Eight programs of rdma-core's names, and three of this project's.
    (PACKAGES[2].0, 11),
    // The library, and the one that is preloaded.
    (PACKAGES[3].0, 2),
];

/// The libraries with objects compiled from C, as cargo names them.
const WITH_C: [&str; 2] = [LIBRARY, "librdmacm.so"];
/// The digits of the shortest build id that RPM takes.
const BUILD_ID: usize = 32;
/// What the compiler records of its options, if it was to protect stacks.
const PROTECTED: &str = "-fstack-protector-strong";

/// Checks each compiled file of the packages in `job`, and the libraries that cargo has put into
/// `release`. They were built in the directory `source`.
///
/// # Errors
/// A file lacks something.
pub fn check(job: &Path, release: &Path, source: &Path) -> Result<()> {
    for (package, number) in COMPILED {
        let files = unpacked(job, package)?;
        if files.len() != number {
            bail!("{package} has {} compiled files, not {number}", files.len());
        }
        let debug = job.join(format!("{package}-dbgsym"));
        unpack(
            &file_with(job, &format!("{package}-dbgsym_"), ".deb")?,
            &debug,
        )?;
        for file in files {
            let headers = headers(&file)?;
            let lacks = lacks(&headers);
            if !lacks.is_empty() {
                bail!("{} lacks {}", file.display(), lacks.join(", "));
            }
            let information = debug.join(debug_file(&headers).context("no build id")?);
            if !information.is_file() {
                bail!("{} has no {}", package, information.display());
            }
        }
    }
    for library in WITH_C {
        let library = release.join(library);
        stacks_protected(&library)?;
        contains_no_path(&library, source)?;
    }
    Ok(())
}

/// The compiled files of a package, which is unpacked in the job's directory.
fn unpacked(job: &Path, package: &str) -> Result<Vec<PathBuf>> {
    let into = job.join(package);
    unpack(&package_in(job, package)?, &into)?;
    let mut compiled = Vec::new();
    for file in below(&into)? {
        // Not through a link.
        let is_file = file.symlink_metadata()?.is_file();
        if is_file && fs::read(&file)?.starts_with(b"\x7fELF") {
            compiled.push(file);
        }
    }
    Ok(compiled)
}

/// The segments, the dynamic section and the notes of a compiled file.
fn headers(file: &Path) -> Result<String> {
    let mut command = Command::new("readelf");
    command.args(["--wide", "--segments", "--dynamic", "--notes"]);
    must(command.arg(file).env("LC_ALL", "C"))
}

/// The expected properties that these headers do not show.
fn lacks(headers: &str) -> Vec<&'static str> {
    let line = |has: &dyn Fn(&str) -> bool| headers.lines().any(has);
    let flagged = |line: &str| line.contains("(FLAGS") && line.contains("NOW");
    let stack = |line: &str| line.trim().starts_with("GNU_STACK ") && line.contains(" RW ");
    let checks = [
        (headers.contains("Elf file type is DYN"), "a free address"),
        (headers.contains(" GNU_RELRO "), "read-only relocations"),
        (line(&flagged), "relocations at the start"),
        (line(&stack), "a stack without code"),
        (!headers.contains("TEXTREL"), "code without relocations"),
        (build_id(headers).is_some(), "a build id"),
        (
            !headers.contains("(RPATH)") && !headers.contains("(RUNPATH)"),
            "the system's search path",
        ),
    ];
    let missing = checks.into_iter().filter(|(there, _)| !there);
    missing.map(|(_, what)| what).collect()
}

fn build_id(headers: &str) -> Option<&str> {
    let (_, rest) = headers.split_once("Build ID: ")?;
    let id = rest.lines().next()?.trim_end();
    let digits = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits && id.len() >= BUILD_ID).then_some(id)
}

/// Where a debug package has the debug information of a file.
fn debug_file(headers: &str) -> Option<PathBuf> {
    let (folder, name) = build_id(headers)?.split_at_checked(2)?;
    let folder = Path::new("usr/lib/debug/.build-id").join(folder);
    Some(folder.join(format!("{name}.debug")))
}

/// Whether each object compiled from C in a library was compiled to protect its stacks.
fn stacks_protected(library: &Path) -> Result<()> {
    let mut command = Command::new("readelf");
    command.args(["--debug-dump=info", "--dwarf-depth=1"]);
    let text = must(command.arg(library).env("LC_ALL", "C"))?;
    let compilers: Vec<_> = compilers_of_c(&text).collect();
    if compilers.is_empty() {
        bail!("{} names no object compiled from C", library.display());
    }
    let mut others = compilers.iter().filter(|by| !by.contains(PROTECTED));
    others.next().map_or(Ok(()), |by| {
        bail!("{} has an object by {by}", library.display())
    })
}

/// The compilers of C, with their options, in the description of debug information.
fn compilers_of_c(text: &str) -> impl Iterator<Item = &str> {
    let producers = text.lines().filter(|line| line.contains("DW_AT_producer"));
    producers.filter_map(|line| line.find("GNU C").and_then(|at| line.get(at..)))
}

fn contains_no_path(library: &Path, source: &Path) -> Result<()> {
    let path = source.to_str().context("a path that is not UTF-8")?;
    let bytes = fs::read(library).with_context(|| library.display().to_string())?;
    if bytes
        .windows(path.len())
        .any(|part| part == path.as_bytes())
    {
        bail!("{} contains {path}", library.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a library lacks that is linked with these options.
    fn linked_with(options: &[&str]) -> Vec<&'static str> {
        let dir = tempfile::tempdir().unwrap();
        let (source, library) = (dir.path().join("a.c"), dir.path().join("a.so"));
        fs::write(&source, "int f(void) { return 1; }").unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wl,-z,relro,-z,now,--build-id"]);
        let status = compiler.args(options).arg("-o").args([&library, &source]);
        assert!(status.status().unwrap().success());
        lacks(&headers(&library).unwrap())
    }

    #[test]
    fn each_property_is_missed() {
        let none: [&str; 0] = [];
        assert_eq!(linked_with(&[]), none);
        assert_eq!(linked_with(&["-Wl,-z,norelro"]), ["read-only relocations"]);
        assert_eq!(linked_with(&["-Wl,-z,lazy"]), ["relocations at the start"]);
        assert_eq!(linked_with(&["-Wl,-z,execstack"]), ["a stack without code"]);
        assert_eq!(linked_with(&["-Wl,--build-id=none"]), ["a build id"]);
        let search = ["-Wl,-rpath,/opt/lib"];
        assert_eq!(linked_with(&search), ["the system's search path"]);
    }

    #[test]
    fn debug_information_is_found_by_the_build_id() {
        let headers = "Notes\n    Build ID: 0a1b2c3d4e5f60718293a4b5c6d7e8f9\n";
        let wanted = "usr/lib/debug/.build-id/0a/1b2c3d4e5f60718293a4b5c6d7e8f9.debug";
        assert_eq!(debug_file(headers).as_deref(), Some(Path::new(wanted)));
        assert_eq!(debug_file("    Build ID: 0a1b2c3d\n"), None);
    }

    #[test]
    fn objects_without_stack_protectors_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a.c");
        fs::write(&source, "int f(void) { return 1; }").unwrap();
        let library = |option| {
            let library = dir.path().join("a.so");
            let mut compiler = Command::new("cc");
            compiler.args(["-g", "-shared", "-fPIC", option, "-o"]);
            assert!(
                compiler
                    .args([&library, &source])
                    .status()
                    .unwrap()
                    .success()
            );
            library
        };
        assert!(stacks_protected(&library(PROTECTED)).is_ok());
        assert!(stacks_protected(&library("-fno-stack-protector")).is_err());
        assert!(contains_no_path(&library(PROTECTED), dir.path()).is_err());
        assert!(contains_no_path(&library(PROTECTED), Path::new("/nowhere")).is_ok());
    }
}
