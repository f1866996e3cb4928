//! strip(1), which removes debug information and local symbols from built files. Notes stay, so the
//! build id does.
#![forbid(unsafe_code)]

use std::{env::consts::ARCH, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// The parts that are removed from a library or a program: debug information and local symbols.
pub const UNNEEDED: &str = "--strip-unneeded";
/// The parts that are removed from static libraries.
pub const DEBUG_INFORMATION: &str = "--strip-debug";

/// The program.
pub struct Strip {
    program: String,
    /// Debian's package that has it.
    package: String,
}

impl Strip {
    /// For files of this machine's architecture.
    pub fn here() -> Self {
        Self {
            program: "strip".to_owned(),
            package: "binutils".to_owned(),
        }
    }

    /// For files of a target of rustc. binutils read the files of one architecture.
    pub fn of_target(target: &str) -> Self {
        let (architecture, system) = target.split_once('-').unwrap_or((target, ""));
        if architecture == ARCH {
            return Self::here();
        }
        // What rustc adds to GNU's names: extensions of the processor, and a vendor.
        let architecture = architecture.strip_suffix("gc").unwrap_or(architecture);
        let system = system.strip_prefix("unknown-").unwrap_or(system);
        let name = format!("{architecture}-{system}");
        Self {
            program: format!("{name}-strip"),
            package: format!("binutils-{name}"),
        }
    }

    /// Removes `parts` from a file.
    ///
    /// # Errors
    /// The program is not there, or does not know the file.
    pub fn run(&self, parts: &str, file: &Path) -> Result<()> {
        let Self { program, package } = self;
        let output = Command::new(program)
            .arg(parts)
            .arg(file)
            .output()
            .with_context(|| format!("start {program} (package {package}; or use --no-strip)"))?;
        if !output.status.success() {
            bail!(
                "{program} failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_architecture_have_their_program() {
        let of = |target| Strip::of_target(target).program;
        let here = format!("{ARCH}-unknown-linux-gnu");
        assert_eq!(of(&here), "strip");
        let others = [
            ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-strip"),
            ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu-strip"),
            ("riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu-strip"),
            (
                "powerpc64le-unknown-linux-gnu",
                "powerpc64le-linux-gnu-strip",
            ),
        ];
        for (target, program) in others {
            if target != here {
                assert_eq!(of(target), program);
            }
        }
        let absent = Strip::of_target("nonesuch-unknown-linux-gnu");
        let error = absent.run(UNNEEDED, Path::new("/")).unwrap_err();
        let wanted = "start nonesuch-linux-gnu-strip (package binutils-nonesuch-linux-gnu;";
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
}
