//! Findings that need a device's provider: a made-up kernel shows a device (a sysfs in a folder, a
//! node in a separate /dev), and a provider in C, built here, behaves as the test requests
//! (`provider.c`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as expected"
)]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use common::{DOCTOR, is_root, json, library, no_network, script};
use serde_json::Value;
use tempfile::TempDir;
use watchdog::Watched;

/// A folder with the sysfs of one device, `madeup0`, a folder for /dev, and its provider.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let machine = Self { dir };
        fs::create_dir(machine.path("dev")).unwrap();
        machine
            .file("class/infiniband_verbs/abi_version", "6\n")
            .file("class/infiniband_verbs/uverbs0/ibdev", "madeup0\n")
            .file("class/infiniband_verbs/uverbs0/abi_version", "1\n")
            // The node is /dev/null under another name.
            .file("class/infiniband_verbs/uverbs0/dev", "1:3\n")
            .file("class/infiniband/madeup0/node_type", "1: CA\n")
            .port("gids/0", "0000:0000:0000:0000:0000:ffff:7f00:0001\n")
            .port("gid_attrs/types/0", "RoCE v2\n")
            .port("gid_attrs/ndevs/0", "lo\n")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.path("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn port(self, path: &str, text: &str) -> Self {
        self.file(&format!("class/infiniband/madeup0/ports/1/{path}"), text)
    }

    /// Has the device's provider, built from `provider.c`.
    fn provider(self) -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new("gcc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"])
            .arg("-I")
            .arg(manifest.join("../../include"))
            .arg("-o")
            .arg(self.path("libmadeup-rdmav34.so"))
            .arg(manifest.join("tests/provider.c"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        self
    }

    /// The environment that makes a program see this machine.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        vec![
            ("DIR", text(self.path(""))),
            ("SYSFS_PATH", text(self.path("sys"))),
            ("RDMAV_DRIVERS", text(self.path("libmadeup"))),
            ("IBVERBS_PROVIDER_RELEASE", "44".to_owned()),
            ("UROCE_DEVICES", String::new()),
        ]
    }

    /// Runs a script where the device's node is in /dev.
    fn run(&self, text: &str, more: &[(&str, &str)]) -> Value {
        let settings = self.settings();
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        let env: Vec<(&str, &str)> = settings.chain(more.iter().copied()).collect();
        let output = script(
            &format!(
                "mount -t tmpfs dev $DIR/dev && mkdir $DIR/dev/infiniband || exit
                 bind() {{ : >$DIR/dev/$2 && mount --bind /dev/$1 $DIR/dev/$2 || exit; }}
                 for node in null zero random urandom; do bind $node $node; done
                 bind null infiniband/uverbs0
                 bind null infiniband/rdma_cm
                 mount --rbind $DIR/dev /dev || exit
                 {text}"
            ),
            &env,
        );
        json(&output)
    }

    /// The findings of the program, each with its subject, except that of the memory limit, which
    /// depends on the machine that tests run on.
    fn finds(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        findings(&self.run("$doctor --json", more))
    }

    /// The findings of both ends of a pair; the caller has separate settings.
    fn pair(&self, caller: &[(&str, &str)]) -> [Vec<(String, String)>; 2] {
        let settings: String = caller
            .iter()
            .map(|(name, value)| format!("{name}='{value}' "))
            .collect();
        let reported = self.run(
            &format!(
                "$doctor --json --pair >$DIR/one 2>$DIR/waiting & one=$!
                 until grep -q ':4854 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
                 {settings} $doctor --json --pair -d madeup0 127.0.0.1 >$DIR/two
                 wait $one
                 echo \"[$(cat $DIR/one), $(cat $DIR/two)]\""
            ),
            &[],
        );
        // Made-up cards carry nothing.
        assert_eq!(reported[0]["passed"], false, "{reported}");
        assert_eq!(reported[1]["passed"], false, "{reported}");
        for end in [&reported[0], &reported[1]] {
            // It is known once both have sent their facts.
            assert!(end["ends"].is_object(), "{reported}");
        }
        [findings(&reported[0]), findings(&reported[1])]
    }
}

fn findings(reported: &Value) -> Vec<(String, String)> {
    let found = reported["findings"].as_array().unwrap().iter();
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    found
        .map(|finding| (word(finding, "id"), word(finding, "about")))
        .filter(|(id, _)| id != "memlock")
        .collect()
}

fn found(id: &str, about: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), about.to_owned())]
}

/// Whether devices can be made up here. Where the kernel has RDMA, the library asks the kernel for
/// its devices and not the made-up sysfs.
fn cannot() -> bool {
    if Path::new("/sys/class/infiniband").exists() {
        println!("skipped: this kernel has RDMA, and is asked for its devices");
        return true;
    }
    no_network()
}

#[test]
fn a_list_that_may_not_be_read() {
    if cannot() {
        return;
    }
    let machine = Machine::new();
    let class = machine.path("sys/class/infiniband_verbs");
    fs::set_permissions(&class, fs::Permissions::from_mode(0o0)).unwrap();
    let mut line = Vec::new();
    if is_root() {
        line.extend(["setpriv", "--reuid", "65534", "--regid", "65534"]);
        line.push("--clear-groups");
    }
    line.push(DOCTOR);
    let output = library(&mut Command::new(line[0]))
        .args(&line[1..])
        .arg("--json")
        .envs(machine.settings())
        .watched_output()
        .unwrap();
    fs::set_permissions(&class, fs::Permissions::from_mode(0o755)).unwrap();
    let reported = json(&output);
    let ids: Vec<String> = findings(&reported).into_iter().map(|(id, _)| id).collect();
    assert!(ids.contains(&"no-list".to_owned()), "{reported}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_device_that_no_provider_takes() {
    if cannot() {
        return;
    }
    // Without its provider; with it, nothing is wrong.
    let machine = Machine::new();
    let wanted = found("not-listed", "madeup0");
    assert_eq!(machine.finds(&[])[..1], wanted[..]);
    assert!(machine.provider().finds(&[]).is_empty());
}

#[test]
fn a_registration_that_fails() {
    if cannot() {
        return;
    }
    let machine = Machine::new().provider();
    // EIO, which no limit explains.
    let reported = machine.finds(&[("MADEUP_REGISTERS", "5")]);
    assert_eq!(reported, found("registration-failed", "madeup0"));
}

#[test]
fn a_port_of_roce_v1_alone() {
    if cannot() {
        return;
    }
    let machine = Machine::new()
        .provider()
        .port("gid_attrs/types/0", "IB/RoCE v1\n");
    assert_eq!(machine.finds(&[]), found("no-roce-v2", "madeup0 port 1"));
}

#[test]
fn a_port_without_a_subnet_manager() {
    if cannot() {
        return;
    }
    let machine = Machine::new().provider();
    let reported = machine.finds(&[("MADEUP_STATE", "2"), ("MADEUP_LINK_LAYER", "1")]);
    assert_eq!(
        reported[..1],
        found("port-not-active", "madeup0 port 1")[..]
    );
}

#[test]
fn ends_of_different_cards() {
    if cannot() {
        return;
    }
    let machine = Machine::new().provider();
    for alike in machine.pair(&[]) {
        assert!(alike.is_empty(), "{alike:?}");
    }
    // Others of sysfs, which differ in the kind of the GID alone, and in having none.
    let old = Machine::new().port("gid_attrs/types/0", "IB/RoCE v1\n");
    let old = old.path("sys");
    let bare = Machine::new().port("gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    let bare = bare.path("sys");
    for (id, name, value) in [
        ("gid-types", "SYSFS_PATH", old.to_str().unwrap()),
        ("no-gid", "SYSFS_PATH", bare.to_str().unwrap()),
        ("link-layers", "MADEUP_LINK_LAYER", "1"),
        ("port-not-active", "MADEUP_STATE", "2"),
        ("firmware-differs", "MADEUP_FIRMWARE", "2.0"),
    ] {
        for reported in machine.pair(&[(name, value)]) {
            assert_eq!(reported, found(id, ""), "{name}={value}");
        }
    }
}
