//! Node GUIDs.

use crate::netdev::{Interface, Mac};

/// The EUI-64 of the interface's Ethernet address, or one made from its name and index.
pub fn of(interface: &Interface) -> u64 {
    match interface.mac {
        Some(mac) => eui64(mac),
        None => made(interface),
    }
}

/// RFC 4291, appendix A, as kernels' RoCE does: the bit for "universal" is turned round.
fn eui64([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The same for the same name and index, and with the bit for "universal" clear (FNV-1a).
fn made(interface: &Interface) -> u64 {
    let index = interface.index.to_be_bytes();
    let bytes = interface.name.bytes().chain(index);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash & !(3 << 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ethernet_and_of_others() {
        let mut interface = Interface {
            name: "lo".to_owned(),
            index: 1,
            ..Interface::default()
        };
        let made = of(&interface);
        assert_eq!(made, of(&interface));
        assert_eq!(made >> 56 & 3, 0);
        interface.index = 2;
        assert_ne!(made, of(&interface));
        interface.mac = Some([0x02, 0, 0, 0, 0, 0x0a]);
        assert_eq!(of(&interface), 0x0000_00ff_fe00_000a);
    }
}
