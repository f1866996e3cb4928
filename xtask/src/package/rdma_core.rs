//! The version that the packages provide, as `debian/rdma-core-version` finds it, with programs
//! that replace dpkg-query and apt-cache.
#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A machine: dpkg's packages of rdma-core and of ours, and the version that apt would install.
#[derive(Clone, Copy, Default)]
struct Machine<'a> {
    rdma_core: &'a str,
    ours: &'a str,
    apt: &'a str,
}

impl Machine<'_> {
    /// Programs that answer for it.
    fn programs(self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let dpkg = format!(
            "#!/bin/sh\ncase \"$*\" in\n*libferroverbs1*) printf '%s' '{}' ;;\n\
             *) printf '%s' '{}'; exit 1 ;;\nesac\n",
            self.ours, self.rdma_core
        );
        let apt = format!("#!/bin/sh\nprintf '%s' '{}'\n", self.apt);
        for (name, text) in [("dpkg-query", dpkg), ("apt-cache", apt)] {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir
    }

    fn asked(self, what: &str, variable: &str) -> Output {
        let programs = self.programs();
        let path = format!("{}:/usr/bin:/bin", programs.path().display());
        // By a shell: a file that another thread's child has open for writing cannot be started.
        let mut command = Command::new("sh");
        command
            .arg(root().join("debian/rdma-core-version"))
            .arg(what)
            .env("PATH", path)
            .env("RDMA_CORE_VERSION", variable);
        command.output().unwrap()
    }

    fn says(self, what: &str) -> String {
        let output = self.asked(what, "");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn the_version_is_that_of_the_installed_package() {
    let debian = |rdma_core| Machine {
        rdma_core,
        apt: "Package: libibverbs1\nVersion: 99.0-1\n",
        ..Machine::default()
    };
    let trixie = debian("installed 56.1-1\n");
    assert_eq!(trixie.says("version"), "56.1-1\n");
    assert_eq!(trixie.says("release"), "56\n");
    assert_eq!(trixie.says("upstream"), "56.1\n");
    let sid = debian("installed 65.0-1.1\ninstalled 65.0-1.1\n");
    assert_eq!(sid.says("version"), "65.0-1.1\n");
    assert_eq!(sid.says("upstream"), "65.0\n");
    // Ubuntu 22.04, 24.04 and 26.04.
    for (upstream, revision) in [("39.0", "1"), ("50.0", "2ubuntu0.2"), ("61.0", "2ubuntu3")] {
        let version = format!("{upstream}-{revision}");
        let installed = format!("installed {version}\n");
        let ubuntu = Machine {
            rdma_core: &installed,
            ..Machine::default()
        };
        assert_eq!(ubuntu.says("version"), format!("{version}\n"));
        assert_eq!(ubuntu.says("upstream"), format!("{upstream}\n"));
    }
    // Removed, but for its settings.
    let removed = debian("config-files 44.0-2\ninstalled 44.0-2+b1\n");
    assert_eq!(removed.says("version"), "44.0-2+b1\n");
}

#[test]
fn over_our_packages_the_version_stays() {
    let machine = Machine {
        ours: "installed libferroverbs-x (= 1), libibverbs1 (= 56.1-1)\n",
        ..Machine::default()
    };
    assert_eq!(machine.says("version"), "56.1-1\n");
}

#[test]
fn without_either_it_is_the_package_that_apt_would_install() {
    let machine = Machine {
        apt: "Package: libibverbs1\nVersion: 44.0-2\nDepends: libc6\n",
        ..Machine::default()
    };
    assert_eq!(machine.says("version"), "44.0-2\n");
}

#[test]
fn a_variable_decides() {
    let machine = Machine {
        rdma_core: "installed 56.1-1\n",
        ..Machine::default()
    };
    let output = machine.asked("version", "44.0-2");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "44.0-2\n");
}

#[test]
fn a_version_that_cannot_be_is_refused_with_a_reason() {
    let nowhere = Machine::default().asked("version", "");
    assert!(!nowhere.status.success());
    let text = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(text.contains("RDMA_CORE_VERSION=44.0-2"), "{text}");
    for bad in [
        "33.0-1",
        "66.0-1",
        "2410mlnx54-1.2410068",
        "1:44.0-2",
        "-1",
        "x",
    ] {
        let output = Machine::default().asked("version", bad);
        assert!(!output.status.success(), "{bad}");
        assert!(output.stdout.is_empty(), "{bad}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("34 to 65"), "{bad}: {text}");
    }
}

/// The script's range, and so Breaks of the package, is the library's.
#[test]
fn the_range_of_providers_is_the_librarys() {
    let source = root().join("providers/kit/src/generation.rs");
    let source = fs::read_to_string(source).unwrap();
    // `layout(NODE, (FIRST, LAST), …`
    let ranges = source.lines().filter_map(|line| {
        let (_, rest) = line.trim().strip_prefix("layout(")?.split_once('(')?;
        let (first, last) = rest.split_once(')')?.0.split_once(", ")?;
        Some((first.parse::<u32>().ok()?, last.parse::<u32>().ok()?))
    });
    let ranges: Vec<_> = ranges.collect();
    let oldest = ranges.iter().map(|range| range.0).min().unwrap();
    let next = ranges.iter().map(|range| range.1).max().unwrap() + 1;
    let machine = Machine {
        rdma_core: "installed 44.0-2\n",
        ..Machine::default()
    };
    assert_eq!(machine.says("oldest"), format!("{oldest}\n"));
    assert_eq!(machine.says("next"), format!("{next}\n"));
}
