//! Cards on the PCI bus that can do RDMA.

use super::{
    Probe,
    root::{link_name, names, read, read_number},
};
use crate::facts::Card;

/// A maker, the cards if not all of them, and the modules: for the card, and for RDMA.
type Row = (u32, &'static [u32], (&'static str, &'static str));

/// From the tables of the kernel's drivers (`modinfo -F alias`), by vendor and device. Where a
/// maker's driver takes whatever of that class, no devices are listed.
const CARDS: &[Row] = &[
    (
        0x15b3,
        &[
            0x6340, 0x634a, 0x6354, 0x6732, 0x673c, 0x6368, 0x6372, 0x6746, 0x6764, 0x675a, 0x676e,
            0x6750, 0x1002, 0x1003, 0x1004, 0x1007,
        ],
        ("mlx4_core", "mlx4_ib"),
    ),
    (0x15b3, &[], ("mlx5_core", "mlx5_ib")),
    (
        0x14e4,
        &[
            0x1614, 0x16c0, 0x16c1, 0x16ce, 0x16cf, 0x16d6, 0x16d7, 0x16d8, 0x16d9, 0x16df, 0x16e2,
            0x16e3, 0x16e4, 0x16e5, 0x16eb, 0x16ed, 0x16ef, 0x16f0, 0x16f1, 0x1750, 0x1751, 0x1752,
            0x1760, 0xd802, 0xd804,
        ],
        ("bnxt_en", "bnxt_re"),
    ),
    (
        0x8086,
        &[
            0x1591, 0x1592, 0x1593, 0x1599, 0x159a, 0x159b, 0x188a, 0x188b, 0x188c, 0x579c, 0x579d,
            0x579e, 0x579f, 0x37ce, 0x37cf, 0x37d0, 0x37d1, 0x37d2, 0x37d3,
        ],
        ("ice or i40e", "irdma"),
    ),
    (0x8086, &[0x24f0, 0x24f1], ("hfi1", "hfi1")),
    (
        0x1077,
        &[
            0x1629, 0x1634, 0x1636, 0x1644, 0x1654, 0x1656, 0x1664, 0x8070, 0x8090,
        ],
        ("qede", "qedr"),
    ),
    (0x1425, &[], ("cxgb4", "iw_cxgb4")),
    (0x1d0f, &[0xefa0, 0xefa1, 0xefa2, 0xefa3], ("efa", "efa")),
    (0x15ad, &[0x0820], ("vmw_pvrdma", "vmw_pvrdma")),
    (
        0x19e5,
        &[0xa222, 0xa223, 0xa224, 0xa226, 0xa228],
        ("hns3", "hns_roce_hw_v2"),
    ),
    (0x1414, &[0x00ba], ("mana", "mana_ib")),
    (0x1ded, &[0x107f], ("erdma", "erdma")),
    (0x1137, &[0x00cf], ("enic", "usnic_verbs")),
];

/// Network controllers (class 02) and InfiniBand ones among them.
const NETWORK: u32 = 0x02;
/// Serial bus controllers, of which 06 is InfiniBand.
const INFINIBAND: u32 = 0x0c06;

pub(super) fn all(probe: &Probe) -> Vec<Card> {
    let bus = probe.sys("bus/pci/devices");
    let mut cards = Vec::new();
    for address in names(&bus) {
        let at = bus.join(&address);
        let number = |name: &str| read_number(&at.join(name));
        let (Some(vendor), Some(device), Some(class)) =
            (number("vendor"), number("device"), number("class"))
        else {
            continue;
        };
        if class >> 16 != NETWORK && class >> 8 != INFINIBAND {
            continue;
        }
        let row = CARDS.iter().find(|(maker, devices, _)| {
            *maker == vendor && (devices.is_empty() || devices.contains(&device))
        });
        if let Some((_, _, modules)) = row {
            cards.push(Card {
                address,
                id: format!("{vendor:04x}:{device:04x}"),
                modules: *modules,
                driver: link_name(&at.join("driver")),
            });
        }
    }
    cards
}

/// The provider for the devices of each kernel driver.
const PROVIDERS: &[(&str, &str)] = &[
    ("mlx5_core", "mlx5"),
    ("mlx4_core", "mlx4"),
    ("bnxt_en", "bnxt_re"),
    ("cxgb4", "cxgb4"),
    ("efa", "efa"),
    ("erdma", "erdma"),
    ("hfi1", "hfi1verbs"),
    ("hns3", "hns"),
    ("hns_roce_hw_v2", "hns"),
    ("i40e", "irdma"),
    ("ice", "irdma"),
    ("irdma", "irdma"),
    ("ib_mthca", "mthca"),
    ("ib_qib", "ipathverbs"),
    ("mana", "mana"),
    ("ocrdma", "ocrdma"),
    ("qede", "qedr"),
    ("vmw_pvrdma", "vmw_pvrdma"),
];

/// The provider of a device in sysfs. Soft RoCE has no card but an interface that it belongs to.
pub(super) fn provider(probe: &Probe, device: &str) -> Option<&'static str> {
    let at = probe.sys("class/infiniband").join(device);
    if let Some(driver) = link_name(&at.join("device/driver")) {
        let row = PROVIDERS.iter().find(|(name, _)| *name == driver);
        return row.map(|(_, provider)| *provider);
    }
    let soft = !read(&at.join("parent")).is_empty();
    soft.then_some("rxe")
}
