#![allow(clippy::unwrap_used)]
use super::super::made_up::MadeUp;
use super::*;

const LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a09:0001";
const UNUSED: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

fn bytes(text: &str) -> Gid {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// Port 1: Ethernet, two versions of two GIDs, then an unused place. Port 2: InfiniBand.
fn device() -> MadeUp {
    let device = MadeUp::new();
    for (index, (gid, kind)) in [
        (LOCAL, "IB/RoCE v1"),
        (LOCAL, "RoCE v2"),
        (IPV4, "RoCE v2"),
        (UNUSED, "IB/RoCE v1"),
    ]
    .iter()
    .enumerate()
    {
        device.file(&format!("ports/1/gids/{index}"), gid);
        device.file(&format!("ports/1/gid_attrs/types/{index}"), kind);
        device.file(&format!("ports/1/gid_attrs/ndevs/{index}"), "eth0");
    }
    for index in 0..4 {
        let gid = if index == 0 { LOCAL } else { UNUSED };
        device.file(&format!("ports/2/gids/{index}"), gid);
        device.file(&format!("ports/2/gid_attrs/types/{index}"), "IB/RoCE v1");
    }
    device
}

fn read(device: &MadeUp, port: u32, index: u32) -> Answer<Entry> {
    let mut memory = [0xee; SIZE];
    query_into(device, port, index, 0, &mut memory)?;
    Ok(Entry::from_bytes(&memory))
}

#[test]
fn entries_of_sysfs() {
    let device = device();
    let expected = |gid, port, index, kind, interface| Entry {
        gid: bytes(gid),
        index,
        port,
        kind,
        interface,
    };
    assert_eq!(
        read(&device, 1, 0),
        Ok(expected(LOCAL, 1, 0, IBV_GID_TYPE_ROCE_V1, 7))
    );
    assert_eq!(
        read(&device, 1, 1),
        Ok(expected(LOCAL, 1, 1, IBV_GID_TYPE_ROCE_V2, 7))
    );
    assert_eq!(
        read(&device, 1, 2),
        Ok(expected(IPV4, 1, 2, IBV_GID_TYPE_ROCE_V2, 7))
    );
    assert_eq!(
        read(&device, 2, 0),
        Ok(expected(LOCAL, 2, 0, IBV_GID_TYPE_IB, 0))
    );
    assert_eq!(read(&device, 1, 3), Err(Errno::NODATA.into()));
}

#[test]
fn places_that_are_not_there() {
    let device = device();
    for (port, index) in [(1, 4), (0, 0), (3, 0), (256, 0), (257, 0), (1, u32::MAX)] {
        let failure = read(&device, port, index).unwrap_err();
        assert_eq!(failure.code, Errno::INVAL, "{port} {index}");
        assert_eq!(failure.reason, Errno::NOENT, "{port} {index}");
    }
}

#[test]
fn short_and_long_structures() {
    let device = device();
    let mut memory = [0xee; SIZE + 8];
    assert_eq!(query_into(&device, 1, 0, 0, &mut memory), Ok(()));
    assert_eq!(memory[SIZE..], [0; 8]);
    let mut memory = [0xee; SIZE - 1];
    let failure = query_into(&device, 1, 0, 0, &mut memory).unwrap_err();
    assert_eq!(failure.code, Errno::INVAL);
    assert_eq!(memory, [0xee; SIZE - 1]);
}

#[test]
fn flags_are_not_for_sysfs() {
    let failure = query_into(&device(), 1, 0, 1, &mut [0; SIZE]).unwrap_err();
    assert_eq!(failure.code, Errno::OPNOTSUPP);
    let mut memory = [0; SIZE];
    let table = query_table(&device(), 1, SIZE, &mut memory);
    assert_eq!(table, Err(Errno::OPNOTSUPP));
}

#[test]
fn gids_and_versions() {
    let device = device();
    assert_eq!(query(&device, 1, 2), Ok(Some(bytes(IPV4))));
    assert_eq!(query(&device, 1, 3), Ok(None));
    assert_eq!(query(&device, 1, 4).unwrap_err().reason, Errno::NOENT);
    assert_eq!(version(&device, 1, 0), Ok(Version::V1));
    assert_eq!(version(&device, 1, 1), Ok(Version::V2));
    assert_eq!(
        version(&device, 1, 9).unwrap_err().reason,
        Errno(libc::EFAULT)
    );
}

#[test]
fn kernels_without_types() {
    let device = MadeUp::new();
    device.file("ports/1/gids/0", LOCAL);
    device.file("ports/2/gids/0", LOCAL);
    assert_eq!(version(&device, 1, 0), Ok(Version::V1));
    assert_eq!(read(&device, 1, 0).unwrap().kind, IBV_GID_TYPE_ROCE_V1);
    assert_eq!(read(&device, 2, 0).unwrap().kind, IBV_GID_TYPE_IB);
}

#[test]
fn types_that_cannot_be_understood() {
    let device = MadeUp::new();
    for (index, kind) in [
        "RoCE v3",
        "",
        "a name that is much longer than any of the kernel's",
    ]
    .iter()
    .enumerate()
    {
        device.file(&format!("ports/1/gids/{index}"), LOCAL);
        device.file(&format!("ports/1/gid_attrs/types/{index}"), kind);
    }
    let reason = |index| version(&device, 1, index).unwrap_err().reason;
    assert_eq!(reason(0), Errno(libc::ENOTSUP));
    assert_eq!(reason(1), Errno(libc::EFAULT));
    assert_eq!(reason(2), Errno(libc::ENOTSUP));
    assert_eq!(read(&device, 1, 0).unwrap_err().code, Errno::INVAL);
}

#[test]
fn an_interface_of_another_namespace() {
    let device = device();
    device.file("ports/1/gid_attrs/ndevs/1", "eth9");
    assert_eq!(read(&device, 1, 1), Err(Errno::NODEV.into()));
    // The GID itself can still be read.
    assert_eq!(query(&device, 1, 1), Ok(Some(bytes(LOCAL))));
    assert_eq!(interface(&device, 1, 1), None);
    assert_eq!(interface(&device, 1, 0), Some(7));
    assert_eq!(interface(&device, 2, 0), None);
}

#[test]
fn a_text_that_is_no_gid() {
    let device = MadeUp::new();
    device.file("ports/1/gids/0", "none");
    let failure = query(&device, 1, 0).unwrap_err();
    assert_eq!((failure.code, failure.reason), (Errno::INVAL, Errno::INVAL));
}

#[test]
fn places_by_gid_and_version() {
    let device = device();
    let at = |gid, version| find(&device, 1, &bytes(gid), version);
    assert_eq!(at(LOCAL, Version::V1), Ok(0));
    assert_eq!(at(LOCAL, Version::V2), Ok(1));
    assert_eq!(at(IPV4, Version::V2), Ok(2));
    assert_eq!(at(IPV4, Version::V1).unwrap_err().reason, Errno::NOENT);
}

#[test]
fn the_table_of_sysfs() {
    let device = device();
    for size in [SIZE, SIZE + 16, 20] {
        let mut memory = vec![0xee; 6 * size];
        assert_eq!(query_table(&device, 0, size, &mut memory), Ok(4));
        let places: Vec<_> = memory.chunks(size).collect();
        for (place, (port, index)) in places.iter().zip([(1, 0), (1, 1), (1, 2), (2, 0)]) {
            let mut expected = vec![0; size];
            read(&device, port, index).unwrap().put(&mut expected);
            assert_eq!(*place, expected);
        }
        assert!(places[4].iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn a_table_with_too_little_room() {
    let device = device();
    let table = |room| query_table(&device, 0, SIZE, &mut vec![0; room]);
    assert_eq!(table(4 * SIZE), Ok(4));
    assert_eq!(table(3 * SIZE), Err(Errno::INVAL));
    assert_eq!(table(0), Err(Errno::INVAL));
    assert_eq!(
        query_table(&device, 0, 0, &mut [0; SIZE]),
        Err(Errno::INVAL)
    );
}

#[test]
fn a_table_that_shrank_meanwhile() {
    let device = device();
    device.gids.set(5);
    assert_eq!(
        query_table(&device, 0, SIZE, &mut [0; 8 * SIZE]),
        Err(Errno::INVAL)
    );
}

#[test]
fn a_table_that_is_not_there() {
    let device = MadeUp::new();
    let table = || query_table(&device, 0, SIZE, &mut [0; SIZE]);
    assert_eq!(table(), Err(Errno::INVAL));
    // Nothing is to be read then.
    device.gids.set(0);
    assert_eq!(table(), Ok(0));
}

#[test]
fn the_kernels_own_refusals() {
    let device = device();
    device.refusal.set(Errno::INVAL);
    assert_eq!(read(&device, 1, 0), Err(Errno::INVAL.into()));
    assert_eq!(query(&device, 1, 0), Err(Errno::INVAL.into()));
    device.refusal.set(Errno::NODATA);
    assert_eq!(query(&device, 1, 0), Ok(None));
    assert_eq!(interface(&device, 1, 0), None);
    assert_eq!(version(&device, 1, 0), Ok(Version::V1));
    device.refusal.set(Errno::IO);
    assert_eq!(
        find(&device, 1, &bytes(LOCAL), Version::V1),
        Err(Errno::IO.into())
    );
    assert_eq!(
        query_table(&device, 0, SIZE, &mut [0; SIZE]),
        Err(Errno::IO)
    );
}
