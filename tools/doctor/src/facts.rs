//! The facts about a machine.

use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The kernel and its modules.
    pub kernel: Kernel,
    /// Cards that can do RDMA, as the PCI bus shows them.
    pub cards: Vec<Card>,
    /// The devices that the kernel shows.
    pub devices: Vec<Device>,
    /// Where the nodes of devices are.
    pub nodes: Nodes,
    /// How programs connect by `rdma_cm`.
    pub cm: Cm,
    /// The providers that are installed.
    pub plugins: Vec<Plugin>,
    /// Memory that this process may pin.
    pub memlock: Memlock,
    /// Network interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// The facts from libibverbs; `None` if it was not asked.
    pub verbs: Option<Verbs>,
}

/// The kernel and its modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// `ib_core` is there: loaded, or part of the kernel.
    pub core: bool,
    /// `ib_uverbs` is there, which programs talk to.
    pub uverbs: bool,
    /// Whether modules for RDMA are installed for this kernel; `None` if that cannot be seen.
    pub modules: Option<bool>,
    /// Loaded RDMA modules that did not come with the kernel.
    pub foreign: Vec<String>,
}

/// A card that can do RDMA.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Card {
    /// Its address on the bus.
    pub address: String,
    /// Vendor and device: `15b3:1017`.
    pub id: String,
    /// The modules that drive it: the card, and RDMA on it.
    pub modules: (&'static str, &'static str),
    /// The driver that has it.
    pub driver: Option<String>,
}

/// A device that the kernel shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// `mlx5_0`, `rxe0`.
    pub name: String,
    /// `uverbs0`; `None` where `ib_uverbs` did not take the device.
    pub node: Option<String>,
    /// Access to its node in /dev/infiniband.
    pub access: Access,
    /// The provider that would drive it, where that is known.
    pub provider: Option<&'static str>,
    /// The firmware, if it has one.
    pub firmware: String,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// Access of this process to a device's node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Access {
    /// Open it for reading and writing.
    #[default]
    Granted,
    /// Nothing: the mode of the node is against it.
    Denied,
    /// There is no node, or no character device in its place.
    Missing,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// `ACTIVE`, `DOWN`, `INIT`.
    pub state: String,
    /// `LinkUp`, `Disabled`, `Polling`.
    pub physical: String,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// The network interface that it belongs to.
    pub interface: Option<String>,
    /// Its GIDs that are not zero.
    pub gids: Vec<Gid>,
}

/// A GID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// As the kernel writes it.
    pub text: String,
    /// `RoCE v2`, `IB/RoCE v1`.
    pub kind: String,
}

/// The nodes in /dev, and the environment of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    /// Whether /dev/infiniband is there.
    pub folder: bool,
    /// The kind of container, if there is evidence of one.
    pub container: Option<String>,
    /// Whether /dev has the few nodes alone that systemd's PrivateDevices leaves.
    pub private: bool,
}

/// How programs connect by `rdma_cm`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cm {
    /// `rdma_ucm` is there, the kernel's connection manager for programs.
    pub module: bool,
    /// The access of this process to /dev/infiniband/rdma_cm.
    pub access: Access,
    /// The librdmacm.so.1 that programs load, by the dynamic linker's folders.
    pub library: Option<String>,
    /// Whether that library knows devices in user space.
    pub reaches_uroce: bool,
}

/// An installed provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// `mlx5`.
    pub name: String,
    /// The result of loading it.
    pub state: PluginState,
}

/// The result of loading a provider.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginState {
    /// It can be loaded, as far as its file shows.
    Fine,
    /// /etc/libibverbs.d names it, and there is no file.
    Missing,
    /// For processors of another kind: the number in its header, and this program's.
    Foreign(u16, u16),
    /// Of a generation of the private interface that the library does not have: its own, and
    /// those of the library.
    Generation(u16, Vec<u16>),
    /// The file cannot be read, or is no shared object.
    Damaged(String),
}

/// Memory that this process may pin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memlock {
    /// In bytes; `None` is without limit.
    pub limit: Option<u64>,
    /// Whether the limit does not hold for this process (CAP_IPC_LOCK).
    pub exempt: bool,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Whether it was switched on.
    pub up: bool,
    /// Whether there is a carrier; interfaces that do not report it have one while they are up.
    pub carrier: bool,
    /// In bytes.
    pub mtu: u32,
}

/// The facts from libibverbs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verbs {
    /// The errno of ibv_get_device_list(3), with its words.
    pub error: Option<(i32, String)>,
    /// Its devices.
    pub devices: Vec<VerbsDevice>,
    /// Whether it is a library that has uroce.
    pub has_uroce: bool,
}

/// A device as programs see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerbsDevice {
    /// Its name.
    pub name: String,
    /// Whether the kernel has part in it; uroce's have none of its.
    pub kernel: bool,
    /// The errno of opening it, with its words.
    pub error: Option<(i32, String)>,
    /// The firmware.
    pub firmware: String,
    /// The errno of registering memory, with its words, and how many bytes it was.
    pub registration: Option<(i32, String, u64)>,
    /// Its ports.
    pub ports: Vec<VerbsPort>,
}

/// A port as programs see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerbsPort {
    /// From 1.
    pub number: u8,
    /// `enum ibv_port_state`.
    pub state: u32,
    /// `IBV_LINK_LAYER_*`.
    pub link_layer: u8,
    /// In bytes; 0 if the number means none.
    pub active_mtu: u32,
    /// In bytes.
    pub max_mtu: u32,
    /// The LID, on InfiniBand.
    pub lid: u16,
    /// Its GIDs.
    pub gids: Vec<VerbsGid>,
}

/// A GID as programs see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerbsGid {
    /// Its place in the table.
    pub index: u32,
    /// In network order.
    pub raw: [u8; 16],
    /// Whether packets to it go by UDP (RoCE v2).
    pub roce_v2: bool,
    /// The index of its network interface, 0 for none.
    pub interface: u32,
}

/// `enum ibv_port_state`.
pub const PORT_ACTIVE: u32 = 4;
/// `IBV_LINK_LAYER_ETHERNET`.
pub const ETHERNET: u8 = 2;
