//! The attributes that a port takes from its interface: state, MTU, width and speed.

use crate::netdev::Interface;
use kit::abi::*;
use uroce_engine::qp::Mtu;

/// Bytes of a RoCE v2 packet besides its payload, at most: IPv6 (40), UDP (8), base transport
/// header (12), the longest extended headers of one packet (XRC 4, atomic 28), ICRC (4). So much
/// kernels' RoCE takes away, too; both ends then come to the same MTU.
const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;

/// The largest MTU whose packets fit an interface's; none if even the smallest is too large.
pub fn mtu(interface_mtu: u32) -> Option<Mtu> {
    let room = interface_mtu.checked_sub(HEADERS)?;
    let sizes = [(4096, Mtu::B4096), (2048, Mtu::B2048), (1024, Mtu::B1024)];
    let smaller = [(512, Mtu::B512), (256, Mtu::B256)];
    let fitting = sizes
        .into_iter()
        .chain(smaller)
        .find(|(size, _)| *size <= room);
    fitting.map(|(_, mtu)| mtu)
}

/// `enum ibv_mtu`.
pub const fn code(mtu: Mtu) -> ibv_mtu {
    match mtu {
        Mtu::B256 => IBV_MTU_256,
        Mtu::B512 => IBV_MTU_512,
        Mtu::B1024 => IBV_MTU_1024,
        Mtu::B2048 => IBV_MTU_2048,
        Mtu::B4096 => IBV_MTU_4096,
    }
}

const X1: u8 = 1;
const X4: u8 = 2;
/// Lanes, code of a lane's speed, and megabits a second of all of them.
const NAMES: [(u8, u8, u32); 9] = [
    (X1, 1, 2_500),    // SDR
    (X1, 2, 5_000),    // DDR
    (X1, 8, 10_000),   // FDR-10
    (X4, 2, 20_000),   // DDR
    (X1, 32, 25_000),  // EDR
    (X4, 8, 40_000),   // FDR-10
    (X1, 64, 50_000),  // HDR
    (X4, 32, 100_000), // EDR
    (X4, 64, 200_000), // HDR
];

/// How an interface stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    up: bool,
    running: bool,
    mtu: Option<Mtu>,
    speed: Option<u32>,
    has_neighbours: bool,
}

impl Link {
    /// That of an interface.
    pub fn of(interface: &Interface) -> Self {
        Self {
            up: interface.up,
            running: interface.running,
            mtu: mtu(interface.mtu),
            speed: interface.speed,
            has_neighbours: interface.has_neighbours,
        }
    }

    /// Whether the kernel resolves addresses of neighbours ([`Interface::has_neighbours`]).
    pub fn has_neighbours(self) -> bool {
        self.has_neighbours
    }

    /// Whether packets can cross it.
    pub fn is_active(self) -> bool {
        self.running && self.mtu.is_some()
    }

    /// The MTU; the smallest while not even that fits.
    pub fn mtu(self) -> Mtu {
        self.mtu.unwrap_or(Mtu::B256)
    }

    /// `state`, `phys_state`.
    pub fn state(self) -> (ibv_port_state, u8) {
        const POLLING: u8 = 2;
        const DISABLED: u8 = 3;
        const LINK_UP: u8 = 5;
        match (self.is_active(), self.up) {
            (true, _) => (IBV_PORT_ACTIVE, LINK_UP),
            (false, true) => (IBV_PORT_DOWN, POLLING),
            (false, false) => (IBV_PORT_DOWN, DISABLED),
        }
    }

    /// Width and speed as the kernel writes them.
    pub fn rate(self) -> String {
        let (width, code) = self.width_and_speed();
        let name = NAMES.iter().find(|(w, c, _)| (*w, *c) == (width, code));
        let megabits = name.map_or(400_000, |(_, _, megabits)| *megabits);
        let lanes = if width == X4 { 4 } else { 1 };
        let kind = match code {
            1 => "SDR",
            2 => "DDR",
            8 => "FDR10",
            32 => "EDR",
            64 => "HDR",
            _ => "NDR",
        };
        let tenths = match megabits % 1000 / 100 {
            0 => String::new(),
            tenths => format!(".{tenths}"),
        };
        format!("{}{tenths} Gb/sec ({lanes}X {kind})", megabits / 1000)
    }

    /// Units of 100 Mbit/s; an unknown speed counts as the slowest of [`NAMES`].
    pub fn speed(self) -> u64 {
        let slowest = NAMES[0].2;
        u64::from(self.speed.unwrap_or(slowest)) / 100
    }

    /// `active_width`, `active_speed`: the least that InfiniBand has a name for and that is not
    /// slower than the interface. An unknown speed counts as the slowest.
    pub fn width_and_speed(self) -> (u8, u8) {
        const FASTEST: (u8, u8) = (X4, 128); // NDR
        let speed = self.speed.unwrap_or(0);
        let name = NAMES.iter().find(|(_, _, megabits)| speed <= *megabits);
        name.map_or(FASTEST, |(width, code, _)| (*width, *code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(up: bool, running: bool, mtu: u32) -> Link {
        Link::of(&Interface {
            up,
            running,
            mtu,
            ..Interface::default()
        })
    }

    #[test]
    fn mtus() {
        for (of_interface, bytes) in [
            (65536, Some(4096)),
            (9000, Some(4096)),
            (4192, Some(4096)),
            (4191, Some(2048)),
            (1500, Some(1024)),
            (1280, Some(1024)),
            (1119, Some(512)),
            (352, Some(256)),
            (351, None),
            (68, None),
            (0, None),
        ] {
            let found = mtu(of_interface).map(|mtu| mtu.bytes());
            assert_eq!(found, bytes, "{of_interface}");
        }
        assert_eq!(mtu(1500).map(code), Some(IBV_MTU_1024));
    }

    #[test]
    fn states() {
        for (up, running, mtu, expected) in [
            (true, true, 1500, (IBV_PORT_ACTIVE, 5)),
            (true, false, 1500, (IBV_PORT_DOWN, 2)),
            (false, false, 1500, (IBV_PORT_DOWN, 3)),
            (true, true, 100, (IBV_PORT_DOWN, 2)),
        ] {
            assert_eq!(interface(up, running, mtu).state(), expected);
        }
        assert_eq!(Link::default().state(), (IBV_PORT_DOWN, 3));
    }

    #[test]
    fn speeds() {
        for (megabits, expected) in [
            (None, (1, 1)),
            (Some(1_000), (1, 1)),
            (Some(10_000), (1, 8)),
            (Some(25_000), (1, 32)),
            (Some(40_000), (2, 8)),
            (Some(100_000), (2, 32)),
            (Some(u32::MAX), (2, 128)),
        ] {
            let link = Link {
                speed: megabits,
                ..Link::default()
            };
            assert_eq!(link.width_and_speed(), expected, "{megabits:?}");
            let hundreds = u64::from(megabits.unwrap_or(2_500)) / 100;
            assert_eq!(link.speed(), hundreds, "{megabits:?}");
        }
    }
}
