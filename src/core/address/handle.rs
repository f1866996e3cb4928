#![forbid(unsafe_code)]
//! The attributes of an address handle that answers a completion: ibv_init_ah_from_wc(3).

use super::grh::{self, Header, Next};
use super::{Answer, Device, EMPTY, gid};
use kit::abi::{IBV_WC_GRH, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_wc};
use kit::errno::Errno;

/// Fills the attributes. `grh` is the header in front of the received data; only a completion
/// that has one (`IBV_WC_GRH`) needs it.
///
/// After a failure they contain the values found before it, as with rdma-core.
///
/// # Errors
/// EINVAL when the header is needed and not there, or was sent to a multicast address;
/// EPROTONOSUPPORT when it is of no known kind; those of [`gid::find`] when the address that
/// the datagram was sent to is not in the port's table.
pub fn fill<D: Device + ?Sized>(
    device: &D,
    port: u8,
    completion: &ibv_wc,
    grh: Option<&[u8; grh::SIZE]>,
    attributes: &mut ibv_ah_attr,
) -> Answer<()> {
    *attributes = without_header(port, completion);
    attributes.grh.flow_label = grh.map_or(0, grh::flow_label);
    if completion.wc_flags & IBV_WC_GRH == 0 {
        return Ok(());
    }
    attributes.is_global = 1;
    let header = Header::parse(grh.ok_or(Errno::INVAL)?)?;
    if header.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    let source = ibv_gid { raw: header.source };
    if header.next != Next::Ipv4 {
        attributes.grh.dgid = source;
    }
    attributes.grh.sgid_index = gid::find(device, port, &header.destination, header.version()?)?;
    attributes.grh.dgid = source;
    attributes.grh.hop_limit = header.hop_limit;
    attributes.grh.traffic_class = header.traffic_class;
    Ok(())
}

fn without_header(port: u8, completion: &ibv_wc) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: EMPTY },
            flow_label: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
        },
        dlid: completion.slid,
        sl: completion.sl,
        src_path_bits: completion.dlid_path_bits,
        static_rate: 0,
        is_global: 0,
        port_num: port,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Gid, made_up::MadeUp};
    use super::*;
    use kit::abi::ibv_wc_imm;

    fn attributes(
        device: &MadeUp,
        port: u8,
        completion: &ibv_wc,
        grh: Option<&[u8; grh::SIZE]>,
    ) -> Answer<ibv_ah_attr> {
        let mut attributes = without_header(0, completion);
        fill(device, port, completion, grh, &mut attributes).map(|()| attributes)
    }

    const PEER: Gid = [0xfd; 16];
    const OWN: &str = "fd00:0000:0000:0000:0000:0000:0000:0001";

    fn completion(flags: u32) -> ibv_wc {
        ibv_wc {
            wr_id: 0,
            status: 0,
            opcode: 0,
            vendor_err: 0,
            byte_len: 40,
            imm: ibv_wc_imm {
                invalidated_rkey: 0,
            },
            qp_num: 1,
            src_qp: 2,
            wc_flags: flags,
            pkey_index: 0,
            slid: 11,
            sl: 12,
            dlid_path_bits: 13,
        }
    }

    /// A GRH from [`PEER`] to [`OWN`].
    fn header(next: u8) -> [u8; grh::SIZE] {
        let mut bytes = [0; grh::SIZE];
        bytes[..4].copy_from_slice(&0x6a51_2345_u32.to_be_bytes());
        bytes[6..8].copy_from_slice(&[next, 64]);
        bytes[8..24].copy_from_slice(&PEER);
        bytes[24] = 0xfd;
        bytes[39] = 1;
        bytes
    }

    /// [`OWN`] stands at `place` as RoCE v1 and behind it as v2.
    fn device(place: u32) -> MadeUp {
        let device = MadeUp::new();
        for index in 0..place {
            device.file(&format!("ports/1/gids/{index}"), "::");
        }
        for (index, kind) in [(place, "IB/RoCE v1"), (place + 1, "RoCE v2")] {
            device.file(&format!("ports/1/gids/{index}"), OWN);
            device.file(&format!("ports/1/gid_attrs/types/{index}"), kind);
        }
        device
    }

    #[test]
    fn without_a_header() {
        let found = attributes(&MadeUp::new(), 3, &completion(0), None).unwrap();
        assert_eq!((found.dlid, found.sl, found.src_path_bits), (11, 12, 13));
        assert_eq!((found.port_num, found.is_global), (3, 0));
        assert_eq!(found.grh.dgid.bytes(), [0; 16]);
    }

    #[test]
    fn both_versions() {
        for (next, place) in [(0x1b, 2), (17, 3)] {
            let header = header(next);
            let found = attributes(&device(2), 1, &completion(IBV_WC_GRH), Some(&header));
            let found = found.unwrap();
            assert_eq!((found.is_global, found.grh.sgid_index), (1, place));
            assert_eq!(found.grh.dgid.bytes(), PEER);
            assert_eq!((found.grh.hop_limit, found.grh.traffic_class), (64, 0xa5));
            assert_eq!(found.grh.flow_label, 0x12345);
        }
    }

    #[test]
    fn a_place_that_an_address_handle_cannot_name() {
        let header = header(17);
        let on = |place| attributes(&device(place), 1, &completion(IBV_WC_GRH), Some(&header));
        assert_eq!(on(254).unwrap().grh.sgid_index, 255);
        assert_eq!(on(255).err().unwrap().reason, Errno::OVERFLOW);
    }

    #[test]
    fn failures() {
        let device = device(0);
        let failed = |port, grh: Option<&[u8; grh::SIZE]>| {
            attributes(&device, port, &completion(IBV_WC_GRH), grh)
                .err()
                .unwrap()
                .reason
        };
        assert_eq!(failed(1, None), Errno::INVAL);
        assert_eq!(failed(1, Some(&header(6))), Errno::PROTONOSUPPORT);
        // No such port, and an address that is not in the table: its end is found.
        assert_eq!(failed(2, Some(&header(17))), Errno::NOENT);
        let mut other = header(17);
        other[39] = 2;
        assert_eq!(failed(1, Some(&other)), Errno::NOENT);
    }

    #[test]
    fn a_failure_leaves_port_and_destination() {
        let device = device(0);
        let left = |header| {
            let completion = completion(IBV_WC_GRH);
            let mut attributes = without_header(9, &completion);
            let failed = fill(&device, 1, &completion, Some(&header), &mut attributes);
            assert!(failed.is_err());
            assert_eq!((attributes.port_num, attributes.is_global), (1, 1));
            assert_eq!(
                (attributes.grh.sgid_index, attributes.grh.hop_limit),
                (0, 0)
            );
            attributes.grh.dgid.bytes()
        };
        assert_eq!(left(header(6)), PEER);
        let mut group = header(17);
        group[24] = 0xff;
        assert_eq!(left(group), EMPTY);
        assert_eq!(left([0; grh::SIZE]), EMPTY);
    }
}
