//! The machine and the software of the figures, in words.
#![forbid(unsafe_code)]

use std::{fs, path::Path, process::Command, thread};

use crate::{debian_deps::Machine, dirs::Dirs};

/// One line for each fact, name and value; unavailable facts are "unknown".
pub fn describe(dirs: &Dirs, machine: &Machine) -> Vec<(&'static str, String)> {
    let line = |program: &str, words: &[&str]| first_line(dirs, program, words);
    let processors = thread::available_parallelism().map_or(0, usize::from);
    let processor = format!("{}, {processors} of them usable", processor());
    vec![
        ("processor", processor),
        ("load when it began", load()),
        ("system", system()),
        ("kernel of the machine", line("uname", &["-r"])),
        (
            "kernel of the virtual machine",
            kernel_version(&machine.kernel),
        ),
        (
            "emulation",
            line("qemu-system-x86_64", &["--version"]) + ", without KVM",
        ),
        (
            "stock library",
            line(
                "dpkg-query",
                &["-W", "-f", "${Package} ${Version}", "libibverbs1"],
            ),
        ),
        ("this library", this_library(dirs)),
        (
            "compilers",
            line("rustc", &["-V"]) + "; " + &line("gcc", &["--version"]),
        ),
        ("instructions counted by", line("valgrind", &["--version"])),
    ]
}

const UNKNOWN: &str = "unknown";

fn first_line(dirs: &Dirs, program: &str, words: &[&str]) -> String {
    let output = Command::new(program)
        .args(words)
        .current_dir(&dirs.root)
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.unwrap_or_default();
    line.lines().next().unwrap_or(UNKNOWN).to_owned()
}

fn this_library(dirs: &Dirs) -> String {
    let commit = first_line(dirs, "git", &["rev-parse", "--short", "HEAD"]);
    let sources = [
        "status",
        "--porcelain",
        "--",
        "src",
        "providers/kit",
        "Cargo.toml",
    ];
    let changed = first_line(dirs, "git", &sources) != UNKNOWN;
    let state = if changed { ", with changes" } else { "" };
    format!("commit {commit}{state}")
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    name.map_or(UNKNOWN, |name| name.trim_start_matches([' ', '\t', ':']))
        .to_owned()
}

/// Average number of processes that wanted a processor in the last minute: times of a machine with
/// other work mean little.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or(UNKNOWN).to_owned()
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or(UNKNOWN).trim_matches('"').to_owned()
}

fn kernel_version(kernel: &Path) -> String {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("vmlinuz-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_without_its_folder() {
        let path = Path::new("/boot/vmlinuz-6.1.0-50-amd64");
        assert_eq!(kernel_version(path), "6.1.0-50-amd64");
    }
}
