//! Each situation made, and the program run in it.
//!
//! Files are made below a folder that represents the machine (`--root`); networks are made in
//! network namespaces, with uroce's devices on their interfaces.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use common::{DOCTOR, is_root, json, library, no_network, script};
use serde_json::Value;
use tempfile::TempDir;
use watchdog::Watched;

const RELEASE: &str = "6.1.0-test";

/// A folder that represents a machine.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// With RDMA in the kernel, and no device.
    fn new() -> Self {
        let machine = Self::bare();
        machine
            .file("sys/class/infiniband_verbs/abi_version", "6")
            .folder("sys/class/infiniband")
            .file("sys/module/ib_core/taint", "")
    }

    /// Without.
    fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
            .file("proc/sys/kernel/osrelease", RELEASE)
            .file(
                &format!("lib/modules/{RELEASE}/modules.dep"),
                "kernel/drivers/infiniband/core/ib_uverbs.ko:",
            )
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.path(path)).unwrap();
        self
    }

    fn file(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn link(self, path: &str, to: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
        self
    }

    /// A ConnectX card, with its driver or without.
    fn card(self, driver: Option<&str>) -> Self {
        let at = "sys/bus/pci/devices/0000:01:00.0";
        let card = self
            .file(&format!("{at}/vendor"), "0x15b3\n")
            .file(&format!("{at}/device"), "0x1017\n")
            .file(&format!("{at}/class"), "0x020000\n");
        match driver {
            Some(driver) => card.link(&format!("{at}/driver"), &format!("/x/{driver}")),
            None => card,
        }
    }

    /// The device of that card, on eth0, with an active port and a GID.
    fn device(self) -> Self {
        let at = "sys/class/infiniband/mlx5_0";
        self.card(Some("mlx5_core"))
            .link(&format!("{at}/device/driver"), "/x/mlx5_core")
            .file(&format!("{at}/fw_ver"), "16.35.2000\n")
            .file("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n")
            .port("4: ACTIVE")
            .file(
                &format!("{at}/ports/1/gids/0"),
                "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
            )
            .file(
                &format!("{at}/ports/1/gids/1"),
                "fe80:0000:0000:0000:0000:0000:0000:0000\n",
            )
            .file(&format!("{at}/ports/1/gid_attrs/types/0"), "RoCE v2\n")
            .file(&format!("{at}/ports/1/gid_attrs/ndevs/0"), "eth0\n")
            .interface("0x1003", "up")
    }

    fn port(self, state: &str) -> Self {
        let at = "sys/class/infiniband/mlx5_0/ports/1";
        self.file(&format!("{at}/state"), format!("{state}\n"))
            .file(&format!("{at}/phys_state"), "5: LinkUp\n")
            .file(&format!("{at}/link_layer"), "Ethernet\n")
    }

    fn interface(self, flags: &str, state: &str) -> Self {
        let at = "sys/class/net/eth0";
        self.file(&format!("{at}/ifindex"), "2\n")
            .file(&format!("{at}/flags"), format!("{flags}\n"))
            .file(&format!("{at}/operstate"), format!("{state}\n"))
            .file(&format!("{at}/mtu"), "1500\n")
    }

    /// Its node, and its provider: all a device needs.
    fn whole(self) -> Self {
        self.device()
            .file("dev/infiniband/uverbs0", "")
            .provider("driver mlx5\n")
            .library("libmlx5-rdmav34.so", &elf(MACHINE, "34"))
            .open_node()
            .connection_manager()
    }

    /// The kernel's connection manager, for all users.
    fn connection_manager(self) -> Self {
        let machine = self
            .folder("sys/module/rdma_ucm")
            .file("dev/infiniband/rdma_cm", "");
        let node = machine.path("dev/infiniband/rdma_cm");
        fs::set_permissions(node, fs::Permissions::from_mode(0o666)).unwrap();
        machine
    }

    /// The node as rdma-core's rules make it.
    fn open_node(self) -> Self {
        let node = self.path("dev/infiniband/uverbs0");
        fs::set_permissions(node, fs::Permissions::from_mode(0o666)).unwrap();
        self
    }

    fn provider(self, lines: &str) -> Self {
        self.file("etc/libibverbs.d/mlx5.driver", lines)
    }

    fn library(self, name: &str, bytes: &[u8]) -> Self {
        self.file(
            &format!("usr/lib/x86_64-linux-gnu/libibverbs/{name}"),
            bytes,
        )
    }

    /// Runs the program as a user without rights: its findings, each with its subject, and whether
    /// it exited with success.
    fn look(&self) -> (Vec<String>, bool) {
        self.look_by(&[])
    }

    fn look_by(&self, words: &[&str]) -> (Vec<String>, bool) {
        let mut line: Vec<&str> = words.to_vec();
        if is_root() {
            line.extend([
                "setpriv",
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
            ]);
        }
        line.push(DOCTOR);
        let output = library(&mut Command::new(line[0]))
            .args(&line[1..])
            .args(["--json", "--root"])
            .arg(self.dir.path())
            .watched_output()
            .unwrap();
        let reported: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let findings = reported["findings"].as_array().unwrap();
        let ids = findings
            .iter()
            .map(|finding| finding["id"].as_str().unwrap().to_owned());
        (ids.collect(), output.status.success())
    }

    /// The findings besides a small RLIMIT_MEMLOCK, which depends on the machine that tests run on.
    fn finds(&self, wanted: &[&str]) {
        let (mut ids, well) = self.look();
        ids.retain(|id| id != "memlock");
        assert_eq!(ids, wanted);
        assert_eq!(well, wanted.is_empty(), "{ids:?}");
    }
}

const MACHINE: u8 = if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else if cfg!(target_arch = "powerpc64") {
    21
} else {
    62
};

/// The front of a shared object, and its imports from the library.
fn elf(machine: u8, generation: &str) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(18, 0);
    bytes.extend([machine, 0]);
    bytes.resize(64, 0);
    bytes.extend(
        format!("verbs_register_driver_{generation}\0IBVERBS_PRIVATE_{generation}\0").bytes(),
    );
    bytes
}

#[test]
fn a_machine_that_lacks_nothing() {
    Machine::new().whole().finds(&[]);
}

#[test]
fn kernels() {
    let without = Machine::bare().file(
        &format!("lib/modules/{RELEASE}/modules.dep"),
        "kernel/x.ko:",
    );
    without.finds(&["kernel-without-rdma", "no-card"]);
    Machine::bare().finds(&["uverbs-not-loaded", "no-card"]);
    let built_in = Machine::bare()
        .file(
            &format!("lib/modules/{RELEASE}/modules.dep"),
            "kernel/x.ko:",
        )
        .file(
            &format!("lib/modules/{RELEASE}/modules.builtin"),
            "kernel/drivers/infiniband/core/ib_uverbs.ko",
        );
    built_in.finds(&["uverbs-not-loaded", "no-card"]);
    let foreign = Machine::new()
        .whole()
        .file("sys/module/ib_core/taint", "OE\n");
    let (ids, well) = foreign.look();
    assert!(ids.contains(&"foreign-stack".to_owned()) && well, "{ids:?}");
}

#[test]
fn cards() {
    Machine::new().finds(&["no-card"]);
    Machine::new().card(None).finds(&["card-without-driver"]);
    Machine::new()
        .card(Some("mlx5_core"))
        .finds(&["card-without-device"]);
    let (ids, well) = Machine::new().card(Some("vfio-pci")).look();
    assert_eq!((ids, well), (vec!["card-given-away".to_owned()], true));
    // A disk of the same maker is no card.
    let disk = Machine::new().card(None);
    let disk = disk.file("sys/bus/pci/devices/0000:01:00.0/class", "0x010802");
    disk.finds(&["no-card"]);
}

#[test]
fn nodes_that_are_not_there() {
    let without = || {
        let machine = Machine::new().whole();
        fs::remove_file(machine.path("dev/infiniband/uverbs0")).unwrap();
        machine
    };
    without().finds(&["node-missing"]);
    for sign in ["run/.containerenv", ".dockerenv"] {
        without().file(sign, "").finds(&["hidden-by-container"]);
    }
    without()
        .file("run/systemd/container", "systemd-nspawn\n")
        .finds(&["hidden-by-container"]);
    without()
        .file("dev/null", "")
        .file("dev/urandom", "")
        .file("proc/self/cgroup", "0::/system.slice/job.service\n")
        .finds(&["hidden-by-systemd"]);
}

#[test]
fn a_node_that_may_not_be_opened() {
    let machine = Machine::new().whole();
    let node = machine.path("dev/infiniband/uverbs0");
    // A file that root has written belongs to root, and another user may only read it.
    let mode = if is_root() { 0o644 } else { 0o444 };
    fs::set_permissions(&node, fs::Permissions::from_mode(mode)).unwrap();
    machine.finds(&["permission"]);
    fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).unwrap();
    machine.finds(&[]);
}

#[test]
fn providers_that_cannot_be_loaded() {
    let device = || {
        let device = Machine::new().device();
        let device = device.file("dev/infiniband/uverbs0", "").open_node();
        device.connection_manager()
    };
    device().finds(&["provider-missing"]);
    let named = || device().provider("driver mlx5\n");
    named().finds(&["provider-missing"]);
    let with = |name: &str, bytes: &[u8]| named().library(name, bytes);
    with("libmlx5-rdmav34.so", &elf(MACHINE, "34")).finds(&[]);
    with("libmlx5-rdmav34.so", &elf(40, "34")).finds(&["provider-foreign"]);
    with("libmlx5-rdmav34.so", &elf(MACHINE, "33")).finds(&["provider-generation"]);
    with("libmlx5-rdmav33.so", &elf(MACHINE, "33")).finds(&["provider-generation"]);
    // Later ones that the library has, alone and beside an older one.
    for generation in ["57", "59", "64", "65"] {
        let name = format!("libmlx5-rdmav{generation}.so");
        with(&name, &elf(MACHINE, generation)).finds(&[]);
        let both = with("libmlx5-rdmav34.so", b"INPUT(x)");
        both.library(&name, &elf(MACHINE, generation)).finds(&[]);
    }
    with("libmlx5-rdmav34.so", b"INPUT(x)").finds(&["provider-damaged"]);
    with("libmlx5-rdmav34.so", b"\x7fELF").finds(&["provider-damaged"]);
}

#[test]
fn connection_managers() {
    let warns = |machine: Machine, id: &str| {
        let (mut ids, well) = machine.look();
        ids.retain(|id| id != "memlock");
        assert_eq!((ids, well), (vec![id.to_owned()], true));
    };
    let without = || {
        let machine = Machine::new().whole();
        fs::remove_file(machine.path("dev/infiniband/rdma_cm")).unwrap();
        machine
    };
    warns(without(), "cm-node-missing");
    let machine = without();
    fs::remove_dir(machine.path("sys/module/rdma_ucm")).unwrap();
    warns(machine, "cm-not-loaded");
    let machine = Machine::new().whole();
    let node = machine.path("dev/infiniband/rdma_cm");
    fs::set_permissions(&node, fs::Permissions::from_mode(0o444)).unwrap();
    warns(machine, "cm-permission");
}

/// rdma-core's librdmacm is in front of this project's, or the other way round.
#[test]
fn libraries_that_reach_uroce() {
    if no_network() || Path::new("/dev/infiniband/rdma_cm").exists() {
        return;
    }
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("librdmacm.so.1"), "rdma_connect").unwrap();
    let (verbs, own) = (
        c_tests::library::built_library().unwrap(),
        c_tests::library::built_rdmacm().unwrap(),
    );
    for (first, is_found) in [(other.path(), true), (own.as_path(), false)] {
        let path = std::env::join_paths([first, &verbs]).unwrap();
        let output = script(
            "$doctor --json",
            &[("LD_LIBRARY_PATH", path.to_str().unwrap())],
        );
        let reported = json(&output);
        let findings = reported["findings"].as_array().unwrap();
        let found = findings.iter().any(|finding| finding["id"] == "cm-library");
        assert_eq!(found, is_found, "{reported}");
    }
}

#[test]
fn ports_and_their_interfaces() {
    let whole = || Machine::new().whole();
    whole().port("1: DOWN").finds(&["port-down"]);
    whole()
        .port("1: DOWN")
        .interface("0x1002", "down")
        .finds(&["netdev-down"]);
    whole().port("2: INIT").finds(&["port-not-active"]);
    let unaddressed = whole().file(
        "sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "0000:0000:0000:0000:0000:0000:0000:0000\n",
    );
    unaddressed.finds(&["no-gid"]);
}

#[test]
fn memory_that_may_be_pinned() {
    let machine = Machine::new().whole();
    let (ids, well) = machine.look_by(&["prlimit", "--memlock=65536:65536"]);
    assert_eq!((ids, well), (vec!["memlock".to_owned()], true));
    let unlimited = ["prlimit", "--memlock=unlimited:unlimited"];
    let raised = Command::new(unlimited[0])
        .args([unlimited[1], "true"])
        .output();
    if raised.unwrap().status.success() {
        let (ids, _) = machine.look_by(&unlimited);
        assert!(ids.is_empty(), "{ids:?}");
    } else {
        println!("not tried without a limit: it may not be raised here");
    }
}

/// The findings about a device or its ports.
fn about(reported: &Value, name: &str) -> Vec<String> {
    let findings = reported["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["about"].as_str().unwrap().starts_with(name))
        .map(|finding| finding["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The state of this machine's kernel is not made here: uroce's device works in any.
#[test]
fn a_device_of_uroce_is_enough() {
    if no_network() {
        return;
    }
    let reported = json(&script("$doctor --json", &[]));
    let usable = reported["usable"].as_array().unwrap();
    assert!(usable.contains(&"uroce_lo".into()), "{reported}");
    assert!(about(&reported, "uroce_lo").is_empty(), "{reported}");
    let text = script("$doctor", &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("uroce_lo: port 1 active, MTU 4096, 2 GIDs"),
        "{text}"
    );
    assert!(
        !text.contains('\x1b'),
        "no colour but on a terminal: {text}"
    );
    if !Path::new("/sys/class/infiniband_verbs").exists() {
        // The kernel has nothing, and that is no problem then.
        let output = script("$doctor", &[]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Findings are coloured on a terminal, unless that is switched off.
#[test]
fn colour_is_for_terminals() {
    if no_network() {
        return;
    }
    for (unwanted, colored) in [("", true), ("1", false)] {
        // One finding there is in any case: the interface is switched off.
        let output = script(
            "ip link set lo down\nscript --quiet --command $doctor /dev/null",
            &[("NO_COLOR", unwanted)],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("[netdev-down]"), "{text}");
        assert_eq!(text.contains('\x1b'), colored, "{text}");
    }
}

#[test]
fn without_any_device_uroce_is_proposed() {
    if no_network() || Path::new("/sys/class/infiniband_verbs").exists() {
        return;
    }
    let output = script("$doctor --json", &[("UROCE_DEVICES", "")]);
    assert_eq!(output.status.code(), Some(1));
    let reported = json(&output);
    let first = &reported["findings"][0];
    assert_eq!(first["id"], "uroce");
    assert_eq!(reported["next"], "UROCE_DEVICES=lo ibv_devinfo");
    assert_eq!(reported["usable"], serde_json::json!([]));
}

#[test]
fn interfaces_of_devices() {
    if no_network() {
        return;
    }
    let veth = "ip link add v0 type veth peer name v1
                ip link set v0 addrgenmode none";
    let found = |steps: &str| {
        let output = script(
            &format!("{veth}\n{steps}\n$doctor --json"),
            &[("UROCE_DEVICES", "v0")],
        );
        about(&json(&output), "uroce_v0")
    };
    assert_eq!(found(""), ["netdev-down"]);
    assert_eq!(found("ip link set v0 up"), ["port-down"]);
    let up = "ip link set v1 up; ip link set v0 up; until grep -q up /sys/class/net/v0/operstate; do sleep 0.02; done";
    assert_eq!(found(up), ["no-gid", "mtu"]);
    assert_eq!(
        found(&format!("{up}; ip addr add fe80::1/64 dev v0 nodad")),
        ["no-address", "mtu"]
    );
    assert_eq!(
        found(&format!("{up}; ip addr add 10.1.1.1/24 dev v0")),
        ["mtu"]
    );
    let jumbo = "ip link set v1 mtu 4200; ip link set v0 mtu 4200; ip addr add 10.1.1.1/24 dev v0";
    assert!(found(&format!("{jumbo}; {up}")).is_empty());
}

#[test]
fn a_port_of_another_user() {
    if no_network() {
        return;
    }
    let output = script(
        "python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 4791))
time.sleep(1000000)' & other=$!
         until grep -q ':12B7 ' /proc/net/udp; do sleep 0.02; done
         $doctor --json; kill $other",
        &[],
    );
    let reported = json(&output);
    assert_eq!(about(&reported, "uroce_lo"), ["open-failed"], "{reported}");
    assert!(reported.to_string().contains("UDP port 4791"), "{reported}");
}

#[test]
fn an_interface_has_the_values_for_scripts() {
    if no_network() {
        return;
    }
    let ask = |words: &str| script(&format!("$doctor --netdev {words}"), &[]);
    let text =
        "device=uroce_lo\nport=1\ngid_index=0\ngid=::ffff:127.0.0.1\nmtu=4096\nstate=active\n";
    for words in ["lo", "127.0.0.1"] {
        let output = ask(words);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        assert_eq!(output.status.code(), Some(0));
    }
    assert_eq!(json(&ask("::1 --json"))["gid_index"], 1);
    for words in ["nix", "10.9.9.9"] {
        let output = ask(words);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert_eq!(ask("lo --pair").status.code(), Some(2));
    // As a script uses it.
    let used = script(
        "eval \"$($doctor --netdev lo)\"; echo $device $gid_index",
        &[],
    );
    assert_eq!(used.stdout, b"uroce_lo 0\n");
}

/// Both ends of a test, each with its options: their output and statuses.
fn pair(env: &[(&str, &str)], setup: &str, server: &str, client: &str) -> [(Value, i32); 2] {
    let output = script(
        &format!(
            "{setup}
             $doctor --json --pair {server} >$DIR/server 2>$DIR/waiting & server=$!
             until grep -q ':4854 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
             $doctor --json --pair 127.0.0.1 {client} >$DIR/client; echo $? >>$DIR/client
             wait $server; echo $? >>$DIR/server
             cat $DIR/server $DIR/client"
        ),
        &[
            env,
            &[("DIR", tempfile::tempdir().unwrap().keep().to_str().unwrap())],
        ]
        .concat(),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [server, first, client, second] = lines[..] else {
        panic!("{text}");
    };
    let end = |reported: &str, status: &str| {
        (
            serde_json::from_str(reported).unwrap(),
            status.parse().unwrap(),
        )
    };
    [end(server, first), end(client, second)]
}

#[test]
fn two_ends_exchange_data() {
    if no_network() {
        return;
    }
    for (reported, status) in pair(&[], "", "", "") {
        assert_eq!(status, 0, "{reported}");
        assert_eq!(reported["passed"], true);
        let names: Vec<&str> = reported["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["send", "write", "read", "ping-pong"]);
        assert_eq!(reported["ends"]["this"]["gid"], "::ffff:127.0.0.1");
        assert!(reported["findings"].as_array().unwrap().is_empty());
    }
    // On a bad network, too. An end leaves when it has its results: if the last acknowledgement to
    // the other end is lost, that end repeats in vain.
    let lossy = [("UROCE_FAULTS", "loss=2%,reorder=2%,seed=3")];
    let [(server_output, server), (client_output, client)] = pair(&lossy, "", "", "");
    assert!(
        server == 0 || client == 0,
        "{server_output} {client_output}"
    );
}

#[test]
fn ends_that_do_not_go_together() {
    if no_network() {
        return;
    }
    for (reported, status) in pair(&[], "", "-g 1", "-g 0") {
        assert_eq!(status, 1, "{reported}");
        assert_eq!(reported["findings"][0]["id"], "gid-families");
    }
    let veth = "ip link add v0 type veth peer name v1; ip addr add 10.1.1.1/24 dev v0
                ip link set v1 up; ip link set v0 up
                until grep -q up /sys/class/net/v0/operstate; do sleep 0.02; done";
    let both = [("UROCE_DEVICES", "lo,v0")];
    let ends = pair(&both, veth, "-d uroce_lo", "-d uroce_v0");
    for (reported, _) in ends {
        assert_eq!(reported["findings"][0]["id"], "mtu-mismatch", "{reported}");
    }
}

#[test]
fn a_network_that_passes_nothing() {
    if no_network() {
        return;
    }
    let [_, (reported, status)] = pair(&[("UROCE_FAULTS", "loss=100%")], "", "", "");
    assert_eq!(status, 1);
    let reason = reported["failure"].as_str().unwrap();
    assert!(reason.contains("retry counter exceeded"), "{reason}");
    assert!(reason.contains("UDP port 4791"), "{reason}");
}

#[test]
fn ends_that_are_not_there() {
    if no_network() {
        return;
    }
    let alone = script("$doctor --pair 127.0.0.1", &[]);
    assert_eq!(alone.status.code(), Some(1));
    let text = String::from_utf8(alone.stdout).unwrap();
    assert!(
        text.contains("is ibv_doctor --pair running there?"),
        "{text}"
    );
    // One that hangs up, and one that is no doctor.
    for (word, reason) in [("", "hung up"), ("GET / HTTP/1.1\\n", "no ibv_doctor")] {
        let output = script(
            &format!(
                "$doctor --pair 2>/dev/null & server=$!
                 until grep -q ':4854 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
                 exec 3<>/dev/tcp/127.0.0.1/18516; printf '{word}' >&3; read line <&3; exec 3>&-
                 wait $server"
            ),
            &[],
        );
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(reason), "{text}");
    }
    // An end without a device reports it to the other end.
    let [(server, _), (client, _)] = pair(&[], "", "-d nix", "");
    for reported in [server, client] {
        assert!(
            reported["failure"]
                .as_str()
                .unwrap()
                .contains("no device nix"),
            "{reported}"
        );
    }
}
