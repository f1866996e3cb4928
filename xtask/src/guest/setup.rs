//! Making the RDMA device: soft RoCE over one end of a virtual Ethernet pair.
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::{fs, path::Path, thread, time::Duration};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The address of `rxe0`'s interface; its GID 1 is this address.
pub const ADDRESS: &str = "10.9.0.1";
pub const DEVICE: &str = "rxe0";

const COMMANDS: &[&str] = &[
    "modprobe rdma_rxe",
    "modprobe ib_uverbs",
    "modprobe rdma_ucm",
    "ip link set lo up",
    "ip link add v0 type veth peer name v1",
    "ip addr add 10.9.0.1/24 dev v0",
    "ip link set v0 up",
    "ip link set v1 up",
    "rdma link add rxe0 type rxe netdev v0",
];

pub fn device() -> Result<()> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Memlock, unlimited).context("unlimited locked memory")?;
    commands(COMMANDS)?;
    // Some of rdma-core's tests ask for huge pages.
    fs::write("/proc/sys/vm/nr_hugepages", "64").context("huge pages")?;
    wait_for_gid(DEVICE, 1, ":ffff:0a09:0001")
}

/// Runs commands, all of which have to end well.
pub fn commands<T: AsRef<str>>(lines: &[T]) -> Result<()> {
    for line in lines.iter().map(AsRef::as_ref) {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let status = Command::new(program).args(words).status();
        if !status.with_context(|| line.to_owned())?.success() {
            bail!("{line}: failed");
        }
    }
    Ok(())
}

/// The kernel fills the GID table a moment after an interface has an address.
fn wait_for_gid(device: &str, index: u8, end: &str) -> Result<()> {
    let file = format!("/sys/class/infiniband/{device}/ports/1/gids/{index}");
    for _ in 0..600 {
        let gid = fs::read_to_string(&file).unwrap_or_default();
        if gid.trim_end().ends_with(end) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("{device} got no GID {index} that ends in {end} in a minute");
}

/// The other end of the Ethernet pair in a separate network namespace, like another host, with
/// addresses of both families on both ends. Removed when dropped.
pub struct SecondHost;

/// The namespace.
pub const SECOND_HOST: &str = "second";
/// The address of `v1` in it.
pub const SECOND_ADDRESS: &str = "10.9.0.2";

const APART: &[&str] = &[
    "ip netns add second",
    "ip link set v1 netns second",
    "ip -n second link set lo up",
    "ip -n second addr add 10.9.0.2/24 dev v1",
    "ip -n second addr add fd00:9::2/64 dev v1 nodad",
    "ip -n second link set v1 up",
    "ip addr add fd00:9::1/64 dev v0 nodad",
];

/// A second Ethernet pair with each end in a separate network namespace, where uroce can have its
/// port: in the virtual machine's first namespace soft-RoCE has it. Removed when dropped.
pub struct TwoHosts;

const TWO_HOSTS: &[&str] = &[
    "ip netns add bench-left",
    "ip netns add bench-right",
    "ip link add u0 netns bench-left type veth peer name u1 netns bench-right",
    "ip -n bench-left link set lo up",
    "ip -n bench-left addr add 10.8.0.1/24 dev u0",
    "ip -n bench-left link set u0 up",
    "ip -n bench-right link set lo up",
    "ip -n bench-right addr add 10.8.0.2/24 dev u1",
    "ip -n bench-right link set u1 up",
];

impl TwoHosts {
    /// Namespace and interface of each.
    pub const HOSTS: [(&str, &str); 2] = [("bench-left", "u0"), ("bench-right", "u1")];
    /// The address of the first.
    pub const ADDRESS: &str = "10.8.0.1";

    pub fn new() -> Result<Self> {
        // A run that was killed has left its own.
        for (namespace, _) in Self::HOSTS {
            let mut delete = Command::new("ip");
            delete
                .args(["netns", "del", namespace])
                .stderr(Stdio::null());
            delete.status().context("ip")?;
        }
        // Removes what there is if one of the commands fails.
        let hosts = Self;
        commands(TWO_HOSTS)?;
        Ok(hosts)
    }

    /// Limits the frames of both ends.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        for (namespace, interface) in Self::HOSTS {
            commands(&[format!("ip -n {namespace} link set {interface} mtu {mtu}")])?;
        }
        Ok(())
    }

    /// Delays and loses packets that leave either end, as tc-netem(8) says it; nothing, if empty.
    pub fn set_netem(&self, netem: &str) -> Result<()> {
        for (namespace, interface) in Self::HOSTS {
            let qdisc = |verb: &str| format!("tc -n {namespace} qdisc {verb} dev {interface} root");
            match netem {
                // The default stands if nothing was set.
                "" => commands(&[qdisc("replace") + " noqueue"])?,
                _ => commands(&[qdisc("replace") + " netem " + netem])?,
            }
        }
        Ok(())
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for (namespace, _) in Self::HOSTS {
            if let Err(error) = commands(&[format!("ip netns del {namespace}")]) {
                eprintln!("{namespace} stays: {error:#}");
            }
        }
    }
}

/// Both ends of the Ethernet pair in this namespace, each with an address and a soft-RoCE device,
/// and rules of routing by which packets between them go through the pair instead of `lo`. Gone
/// with the virtual machine.
pub struct ToAndFro;

const JOINED: &[&str] = &[
    "ip addr add 10.9.0.2/24 dev v1",
    "sysctl -q -w net.ipv4.conf.v0.accept_local=1 net.ipv4.conf.v1.accept_local=1",
    "sysctl -q -w net.ipv4.conf.all.rp_filter=0",
    "sysctl -q -w net.ipv4.conf.v0.rp_filter=0 net.ipv4.conf.v1.rp_filter=0",
    "ip rule add pref 10 iif v0 lookup local",
    "ip rule add pref 11 iif v1 lookup local",
    "ip rule add pref 20 lookup 100",
    "ip rule add pref 30 lookup local",
    "ip rule del pref 0",
    "ip route add 10.9.0.2 dev v0 src 10.9.0.1 table 100",
    "ip route add 10.9.0.1 dev v1 src 10.9.0.2 table 100",
    "rdma link add rxe1 type rxe netdev v1",
];

impl ToAndFro {
    /// The device of the second end.
    pub const DEVICE: &str = "rxe1";

    pub fn new() -> Result<Self> {
        commands(JOINED)?;
        wait_for_gid(Self::DEVICE, 1, ":ffff:0a09:0002")?;
        Ok(Self)
    }
}

/// A soft-iWARP device on a separate Ethernet pair. Removed when dropped.
pub struct SoftIwarp;

/// The device, and the address of its interface.
pub const SIW: &str = "siw0";
pub const SIW_ADDRESS: &str = "10.7.0.1";

const IWARP: &[&str] = &[
    // The device's GID is the address that the interface has now. One that was given stays; udev
    // would change another a moment later.
    "ip link add w0 address 02:00:00:07:00:01 type veth peer name w1",
    "ip addr add 10.7.0.1/24 dev w0",
    "ip link set w0 up",
    "ip link set w1 up",
    "rdma link add siw0 type siw netdev w0",
];

const NO_IWARP: &[&str] = &["rdma link delete siw0", "ip link delete w0"];

impl SoftIwarp {
    /// Loads the module, unless it is loaded.
    pub fn new(module: &Path) -> Result<Self> {
        if !Path::new("/sys/module/siw").exists() {
            // Modules that insmod does not load by itself.
            commands(&["modprobe -a iw_cm rdma_cm libcrc32c crc32c_generic"])?;
            commands(&[format!("insmod {}", module.display())])?;
        }
        commands(IWARP)?;
        Ok(Self)
    }
}

impl Drop for SoftIwarp {
    fn drop(&mut self) {
        if let Err(error) = commands(NO_IWARP) {
            eprintln!("soft-iWARP stays: {error:#}");
        }
    }
}

/// The interfaces would be gone with the namespace.
const TOGETHER: &[&str] = &[
    "ip addr del fd00:9::1/64 dev v0",
    "ip -n second link set v1 netns 1",
    "ip link set v0 mtu 1500",
    "ip link set v1 mtu 1500 up",
    "ip netns del second",
];

impl SecondHost {
    pub fn new() -> Result<Self> {
        commands(APART)?;
        wait_for_gid(DEVICE, 2, "fd00:0009:0000:0000:0000:0000:0000:0001")?;
        Ok(Self)
    }
}

impl Drop for SecondHost {
    fn drop(&mut self) {
        if let Err(error) = commands(TOGETHER) {
            eprintln!("the second host stays: {error:#}");
        }
    }
}
