#![forbid(unsafe_code)]
//! Path records in wire format (InfiniBand specification, PathRecord attribute).

use crate::id::Manager;
use bytemuck::Zeroable;
use kit::abi::{be16, be32, ibv_gid, ibv_sa_path_rec};
use kit::cm::{PATHS, Paths};
use kit::errno::Result;

/// The first path of an id, if it has one.
///
/// # Errors
/// The backend's.
pub fn first(backend: &Manager) -> Result<Option<ibv_sa_path_rec>> {
    let mut found = Paths::zeroed();
    backend.paths(&mut found)?;
    Ok(records(&found).next())
}

/// Paths as programs read them.
pub fn records(found: &Paths) -> impl ExactSizeIterator<Item = ibv_sa_path_rec> {
    let count = usize::try_from(found.num_paths).unwrap_or(0).min(PATHS);
    let paths = found.path_data[..count].iter();
    paths.map(|data| record(&data.path))
}

fn field<const SIZE: usize>(record: &[u8; 64], at: usize) -> [u8; SIZE] {
    record[at..].first_chunk().copied().unwrap_or([0; SIZE])
}

/// The fields of a record.
pub fn record(wire: &[u8; 64]) -> ibv_sa_path_rec {
    let word = |at| u16::from_ne_bytes(field(wire, at));
    let flow = u32::from_be_bytes(field(wire, 44));
    let [_, low] = field(wire, 52);
    // The upper two bits are a selector, the lower six the value.
    let (mtu, rate, life) = (wire[54], wire[55], wire[56]);
    ibv_sa_path_rec {
        dgid: ibv_gid {
            raw: field(wire, 8),
        },
        sgid: ibv_gid {
            raw: field(wire, 24),
        },
        dlid: be16::from_wire(word(40)),
        slid: be16::from_wire(word(42)),
        raw_traffic: 0,
        flow_label: be32::new(flow >> 8),
        hop_limit: wire[47],
        traffic_class: wire[48],
        reversible: i32::from(wire[49] >> 7),
        numb_path: wire[49] & 0x7f,
        pkey: be16::from_wire(word(50)),
        sl: low & 0xf,
        mtu_selector: mtu >> 6,
        mtu: mtu & 0x3f,
        rate_selector: rate >> 6,
        rate: rate & 0x3f,
        packet_life_time_selector: life >> 6,
        packet_life_time: life & 0x3f,
        preference: wire[57],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_apart() {
        let mut wire = [0; 64];
        wire[44..48].copy_from_slice(&0x0087_0e5a_u32.rotate_left(8).to_be_bytes());
        wire[47] = 64;
        wire[49] = 0x81;
        wire[50] = 0xff;
        wire[53] = 0x35;
        wire[54] = 0x83;
        wire[56] = 0x92;
        let record = record(&wire);
        assert_eq!(record.flow_label.get(), 0x0087_0e5a);
        assert_eq!((record.hop_limit, record.reversible), (64, 1));
        assert_eq!((record.numb_path, record.sl), (1, 5));
        assert_eq!((record.mtu_selector, record.mtu), (2, 3));
        assert_eq!(record.packet_life_time, 18);
        assert_eq!(record.pkey.get(), 0xff00);
    }
}
