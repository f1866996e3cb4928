//! Files that programs open whenever they start, kept in the virtual machine's memory.
//!
//! Each time that a file of this machine is opened there, this machine is asked, which in emulation
//! takes longer than most of a program's work. The machine's root is overlaid for writing, and a
//! file whose times are set is copied to the upper layer, which is memory.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::place::HELPERS;
use crate::{
    dirs,
    suites::{Kind, Run, SUITES},
};

/// The list, in the directory of the job: a path a line.
const FILE: &str = "copy_to_ram";

/// Programs that any suite starts, or that list a device as all others do.
const COMMON: &[&str] = &["ibv_devinfo", "ip", "env", "sh"];
/// All files of these folders, below that of libraries, are opened by programs that list devices.
const PROVIDERS: &str = "libibverbs";
const CONFIGURATION: &str = "/etc/libibverbs.d";
/// Files that all dynamically linked programs open.
const LINKER: &[&str] = &["/etc/ld.so.cache", "/lib64/ld-linux-x86-64.so.2"];
/// Folders of commands that the suites name.
const PROGRAMS: &[&str] = &["/usr/bin", "/usr/sbin"];

/// Writes the list for the programs of these runs.
///
/// # Errors
/// Of the file system.
pub fn list(runs: &[Run], dir: &Path) -> Result<()> {
    let mut files = BTreeSet::new();
    let names: Vec<_> = words(runs).into_iter().collect();
    files.extend(names.iter().filter_map(|name| program(name)));
    let libraries = libraries(&files);
    let providers = libraries.iter().filter_map(|library| library.parent());
    let providers: BTreeSet<_> = providers.map(|folder| folder.join(PROVIDERS)).collect();
    for folder in providers.iter().map(PathBuf::as_path) {
        files.extend(files_of(folder));
    }
    // Providers have further libraries.
    files.extend(self::libraries(&files));
    files.extend(files_of(Path::new(CONFIGURATION)));
    files.extend(LINKER.iter().filter_map(|path| fs::canonicalize(path).ok()));
    let lines: Vec<_> = files
        .iter()
        .map(|file| file.as_os_str().as_bytes())
        .collect();
    fs::write(dir.join(FILE), lines.join(&b'\n')).context("the list of files to copy")
}

/// Copies the listed files into memory. A file that cannot be copied is opened in its place, more
/// slowly.
pub fn copy_listed(dir: &Path) {
    let list = fs::read(dir.join(FILE)).unwrap_or_default();
    for file in list.split(|byte| *byte == b'\n') {
        let _ = keep_times(file);
    }
}

/// Copies a folder into memory, and returns its place there: the directory of the job is read anew
/// for each program that opens it.
///
/// # Errors
/// Of the file system.
pub fn copy(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().context("a folder has a name")?;
    let here = Path::new("/run/copy_to_ram").join(name);
    dirs::copy(folder, &here, &|_| true)?;
    Ok(here)
}

/// Sets a file's times to their present values.
fn keep_times(file: &[u8]) -> rustix::io::Result<()> {
    let stat = rustix::fs::stat(file)?;
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime,
            tv_nsec: i64::try_from(stat.st_atime_nsec).unwrap_or_default(),
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        },
    };
    utimensat(CWD, file, &times, AtFlags::empty())
}

/// All words of the cases of these runs, including the programs.
fn words(runs: &[Run]) -> BTreeSet<String> {
    let mut words: BTreeSet<_> = COMMON.iter().map(|&name| name.to_owned()).collect();
    for run in runs {
        let suite = SUITES.iter().find(|suite| suite.name == run.suite);
        let Some(Kind::Cases(cases) | Kind::TwoHosts(cases)) = suite.map(|suite| &suite.kind)
        else {
            continue;
        };
        for case in cases(&run.on().target(Path::new(HELPERS))) {
            let server = case.server.into_iter().flat_map(|server| server.words);
            words.extend(server.chain(case.client));
        }
    }
    words
}

/// The program that is found by this word.
fn program(word: &str) -> Option<PathBuf> {
    let word = Path::new(word);
    let paths = PROGRAMS.iter().map(|folder| Path::new(folder).join(word));
    let mut files = paths.filter(|path| path.is_file());
    let file = files.next().filter(|_| word.file_name().is_some())?;
    fs::canonicalize(file).ok()
}

/// The libraries that these programs and libraries are linked with.
fn libraries(of: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let Ok(reported) = Command::new("ldd").args(of).output() else {
        return BTreeSet::new();
    };
    let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
    let paths = reported.lines().filter_map(path_in);
    paths
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect()
}

/// The path in a line of ldd(1).
fn path_in(line: &str) -> Option<&str> {
    let (path, _) = line.strip_prefix('\t')?.rsplit_once(" (0x")?;
    let path = path.split_once(" => ").map_or(path, |(_, path)| path);
    path.starts_with('/').then_some(path)
}

fn files_of(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = paths.filter_map(|path| fs::canonicalize(path).ok());
    files.filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ldd_are_read() {
        let there = "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f9c8b400000)";
        assert_eq!(path_in(there), Some("/lib/x86_64-linux-gnu/libc.so.6"));
        let linker = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f9c8b6f2000)";
        assert_eq!(path_in(linker), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(path_in("\tlinux-vdso.so.1 (0x00007ffd6a3f2000)"), None);
        assert_eq!(path_in("\tnot a dynamic executable"), None);
        assert_eq!(path_in("/usr/bin/ibv_devinfo:"), None);
    }

    #[test]
    fn programs_are_distinguished_from_other_words() {
        assert!(program("sh").is_some_and(|path| path.is_file()));
        for word in ["", ".", "-n", "100", "10.9.0.1", "/tmp"] {
            assert_eq!(program(word), None, "{word}");
        }
    }
}
