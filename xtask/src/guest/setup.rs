//! Making the RDMA device: soft RoCE over one end of a virtual Ethernet pair.
#![forbid(unsafe_code)]

use std::{fs, process::Command, thread, time::Duration};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The address of `rxe0`'s interface; its GID 1 is this address.
pub const ADDRESS: &str = "10.9.0.1";
pub const DEVICE: &str = "rxe0";
const GID_1: &str = "/sys/class/infiniband/rxe0/ports/1/gids/1";

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
    for line in COMMANDS {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let status = Command::new(program).args(words).status();
        if !status.with_context(|| line.to_string())?.success() {
            bail!("{line}: failed");
        }
    }
    // Some of rdma-core's tests ask for huge pages.
    fs::write("/proc/sys/vm/nr_hugepages", "64").context("huge pages")?;
    wait_for_address()
}

/// The kernel fills the GID table a moment after the link is up.
fn wait_for_address() -> Result<()> {
    for _ in 0..600 {
        let gid = fs::read_to_string(GID_1).unwrap_or_default();
        if gid.trim_end().ends_with(":ffff:0a09:0001") {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("{DEVICE} got no GID for {ADDRESS} in a minute");
}
