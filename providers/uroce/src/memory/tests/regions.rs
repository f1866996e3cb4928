//! Registering, and using by L_Key and R_Key.

use super::*;
use kit::sys::application::FoundPage;
use uroce_engine::host::{Atomic, LocalAccess, RemoteAccess, RemoteRange};
use uroce_engine::wire::feth;

#[test]
fn access_flags_are_checked() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let register = |access| {
        keys.register(pd, scratch.memory(), at, access)
            .map(|_| ())
            .err()
    };
    for refused in [
        IBV_ACCESS_REMOTE_WRITE,
        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ,
        1 << 9,
        1 << 10,
        1 << 30,
        IBV_ACCESS_LOCAL_WRITE | 1 << 19,
    ] {
        assert_eq!(register(refused), Some(Errno::INVAL), "{refused:#x}");
    }
    for good in [
        0,
        FULL,
        IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_RELAXED_ORDERING,
        IBV_ACCESS_HUGETLB,
        1 << 29,
        IBV_ACCESS_FLUSH_GLOBAL,
    ] {
        assert_eq!(register(good), None, "{good:#x}");
    }
}

#[test]
fn memory_that_is_not_there_or_may_not_be_written_is_efault() {
    let keys = keys();
    let pd = Pd::new().id();
    let (scratch, at) = pages();
    scratch.forbid_writing().expect("protected");
    let register = |access| keys.register(pd, scratch.memory(), at, access).err();
    assert_eq!(register(IBV_ACCESS_LOCAL_WRITE), Some(EFAULT));
    assert_eq!(register(IBV_ACCESS_REMOTE_READ), None);
    scratch.unmap().expect("unmapped");
    assert_eq!(register(0), Some(EFAULT));
    assert_eq!(register(IBV_ACCESS_ON_DEMAND), None);
}

#[test]
fn lengths_and_addresses_that_cannot_be_are_einval() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let nothing = scratch.range(0, 0).expect("a range");
    assert_eq!(keys.register(pd, nothing, at, 0).err(), Some(Errno::INVAL));
    let inside = scratch.range(16, 0).expect("a range");
    assert_eq!(keys.register(pd, inside, at + 16, 0).err(), None);
    let memory = scratch.memory();
    let wraps = keys.register(pd, memory, u64::MAX - 10, 0);
    assert_eq!(wraps.err(), Some(Errno::INVAL));
    let everything = Scratch::everything().expect("a range");
    let pinned = keys.register(pd, everything, 0, IBV_ACCESS_LOCAL_WRITE);
    assert_eq!(pinned.err(), Some(Errno::INVAL));
    let huge = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
    let huge = keys.register(pd, everything, 0, huge);
    assert_eq!(huge.err(), Some(Errno::INVAL));
}

#[test]
fn local_requests_need_l_key_and_domain() {
    let (keys, (scratch, at)) = (keys(), pages());
    let (pd, other) = (Pd::new().id(), Pd::new().id());
    let mr = register(&keys, pd, scratch, IBV_ACCESS_LOCAL_WRITE);
    let pieces = [
        sge(mr.key(), at, 3),
        sge(0, 0, 0),
        sge(mr.key(), at + 100, 5),
    ];
    assert_eq!(keys.check_local(pd, &pieces, LocalAccess::Write), Ok(()));
    assert_eq!(
        keys.check_local(other, &pieces, LocalAccess::Read),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(pd, &pieces, 1, b"abcdefg"),
        Ok(())
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(pd, &pieces, 1, b"abcdefgh"),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(other, &pieces, 1, b"z"),
        Err(Fault)
    );
    let mut bytes = [9; 3];
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, pieces[0], &mut bytes),
        Ok(())
    );
    assert_eq!(&bytes, b"\0ab");
    let mut bytes = [9; 5];
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, pieces[2], &mut bytes),
        Ok(())
    );
    assert_eq!(&bytes, b"cdefg");
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(other, pieces[2], &mut bytes),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, pieces[0], &mut bytes),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, pieces[1], &mut []),
        Ok(())
    );
    let wrong = sge(mr.key() ^ 1, at, 1);
    assert_eq!(
        keys.check_local(pd, &[wrong], LocalAccess::Read),
        Err(Fault)
    );
}

#[test]
fn read_only_regions_are_not_written() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_REMOTE_READ);
    let piece = [sge(mr.key(), at, 8)];
    let who = Peer { pd, qpn: 7 };
    assert_eq!(keys.check_local(pd, &piece, LocalAccess::Read), Ok(()));
    assert_eq!(keys.check_local(pd, &piece, LocalAccess::Write), Err(Fault));
    assert_eq!(
        keys.using(AccessMode::Direct).scatter(pd, &piece, 0, &[1]),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(who, mr.key(), at, &[1]),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(who, mr.key(), at, Atomic::FetchAdd(1)),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic_write(who, mr.key(), at, [1; 8]),
        Err(Fault)
    );
    let mut bytes = [9; 8];
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            mr.key(),
            at,
            &mut bytes,
            &mut FoundPage::default(),
        ),
        Ok(())
    );
    assert_eq!(bytes, [0; 8]);
}

#[test]
fn peers_need_r_key_and_the_domain_of_their_queue_pair() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, FULL);
    let who = Peer { pd, qpn: 7 };
    let foreign = Peer {
        pd: Pd::new().id(),
        qpn: 7,
    };
    let range = RemoteRange {
        rkey: mr.key(),
        address: at,
        length: 8,
    };
    for access in [
        RemoteAccess::Read,
        RemoteAccess::Write,
        RemoteAccess::Atomic,
    ] {
        assert_eq!(keys.check_remote(who, range, access), Ok(()));
        assert_eq!(keys.check_remote(foreign, range, access), Err(Fault));
    }
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(who, mr.key(), at, &7u64.to_ne_bytes()),
        Ok(())
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(foreign, mr.key(), at, &[1]),
        Err(Fault)
    );
    let add = Atomic::FetchAdd(3);
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(who, mr.key(), at, add),
        Ok(7)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(who, mr.key(), at + 4, add),
        Err(Fault)
    );
    let swap = Atomic::CompareSwap {
        compare: 10,
        swap: 1,
    };
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(who, mr.key(), at, swap),
        Ok(10)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(foreign, mr.key(), at, swap),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic_write(who, mr.key(), at + 8, [3; 8]),
        Ok(())
    );
    let mut bytes = [0; 16];
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            mr.key(),
            at,
            &mut bytes,
            &mut FoundPage::default(),
        ),
        Ok(())
    );
    assert_eq!(bytes[..8], 1u64.to_ne_bytes());
    assert_eq!(bytes[8..], [3; 8]);
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            foreign,
            mr.key(),
            at,
            &mut bytes,
            &mut FoundPage::default(),
        ),
        Err(Fault)
    );
}

#[test]
fn flushes_need_a_key_that_allows_them_and_a_supported_placement() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let who = Peer { pd, qpn: 7 };
    let plain = register(&keys, pd, scratch, FULL);
    let mr = register(&keys, pd, scratch, IBV_ACCESS_FLUSH_GLOBAL);
    let range = |rkey, length| RemoteRange {
        rkey,
        address: at,
        length,
    };
    let inside = range(mr.key(), 8);
    let beyond = range(mr.key(), 100_000);
    let flush = |range, placement, selectivity| {
        let check = RemoteAccess::Flush {
            placement,
            selectivity,
        };
        let done = keys.flush(who, range, placement, selectivity);
        assert_eq!(keys.check_remote(who, range, check), done);
        done
    };
    assert_eq!(flush(inside, feth::GLOBAL, feth::RANGE), Ok(()));
    assert_eq!(flush(beyond, feth::GLOBAL, feth::RANGE), Err(Fault));
    assert_eq!(flush(beyond, feth::GLOBAL, feth::REGION), Ok(()));
    assert_eq!(flush(inside, feth::PERSISTENT, feth::RANGE), Err(Fault));
    assert_eq!(flush(inside, 0, feth::RANGE), Err(Fault));
    assert_eq!(flush(inside, feth::GLOBAL, 2), Err(Fault));
    let other = range(plain.key(), 8);
    assert_eq!(flush(other, feth::GLOBAL, feth::REGION), Err(Fault));
}

#[test]
fn zero_based_and_chosen_addresses_name_the_same_bytes() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let write = IBV_ACCESS_LOCAL_WRITE;
    let based = register(&keys, pd, scratch, write | IBV_ACCESS_ZERO_BASED);
    let (chosen, _) = keys
        .register(pd, scratch.memory(), 0xabc0_0000_0001, write)
        .expect("registered");
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(pd, &[sge(based.key(), 5, 2)], 0, b"hi"),
        Ok(())
    );
    let mut bytes = [0; 2];
    let there = sge(chosen.key(), 0xabc0_0000_0006, 2);
    assert_eq!(
        keys.using(AccessMode::Direct).gather(pd, there, &mut bytes),
        Ok(())
    );
    assert_eq!(&bytes, b"hi");
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, sge(based.key(), at, 2), &mut bytes),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, sge(chosen.key(), at, 2), &mut bytes),
        Err(Fault)
    );
}

#[test]
fn memory_on_demand_may_come_and_go() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let who = Peer { pd, qpn: 7 };
    let mr = register(&keys, pd, scratch, FULL | IBV_ACCESS_ON_DEMAND);
    let everything = Scratch::everything().expect("a range");
    let (implicit, _) = keys
        .register(pd, everything, 0, FULL | IBV_ACCESS_ON_DEMAND)
        .expect("registered");
    for key in [mr.key(), implicit.key()] {
        let mut bytes = [9; 8];
        assert_eq!(
            keys.using(AccessMode::Direct).write(who, key, at, &[5; 8]),
            Ok(())
        );
        assert_eq!(
            keys.using(AccessMode::Direct)
                .atomic(who, key, at, Atomic::FetchAdd(1)),
            Ok(u64::from_ne_bytes([5; 8]))
        );
        assert_eq!(
            keys.using(AccessMode::Direct).read(
                who,
                key,
                at,
                &mut bytes,
                &mut FoundPage::default(),
            ),
            Ok(())
        );
    }
    scratch.unmap().expect("unmapped");
    for key in [mr.key(), implicit.key()] {
        assert_eq!(
            keys.using(AccessMode::Direct).write(who, key, at, &[5; 8]),
            Err(Fault)
        );
        assert_eq!(
            keys.using(AccessMode::Direct).read(
                who,
                key,
                at,
                &mut [0; 8],
                &mut FoundPage::default(),
            ),
            Err(Fault)
        );
        assert_eq!(
            keys.using(AccessMode::Direct)
                .atomic(who, key, at, Atomic::FetchAdd(1)),
            Err(Fault)
        );
        assert_eq!(
            keys.using(AccessMode::Direct)
                .gather(pd, sge(key, at, 1), &mut [0]),
            Err(Fault)
        );
        assert_eq!(
            keys.using(AccessMode::Direct)
                .scatter(pd, &[sge(key, at, 1)], 0, &[0]),
            Err(Fault)
        );
    }
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            implicit.key(),
            0,
            &mut [0; 8],
            &mut FoundPage::default(),
        ),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            implicit.key(),
            u64::MAX,
            &mut [0; 8],
            &mut FoundPage::default(),
        ),
        Err(Fault)
    );
}

#[test]
fn a_null_region_reads_as_zeros_and_is_none_of_the_peers() {
    let keys = keys();
    let pd = Pd::new().id();
    let (mr, given) = keys.null_mr(pd).expect("made");
    let piece = sge(given.lkey, 0xdead_beef, 4);
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(pd, &[piece], 0, &[1; 4]),
        Ok(())
    );
    let mut bytes = [1; 4];
    assert_eq!(
        keys.using(AccessMode::Direct).gather(pd, piece, &mut bytes),
        Ok(())
    );
    assert_eq!(bytes, [0; 4]);
    let who = Peer { pd, qpn: 7 };
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(who, given.rkey, 8, &[1]),
        Err(Fault)
    );
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            given.rkey,
            8,
            &mut [1],
            &mut FoundPage::default(),
        ),
        Err(Fault)
    );
    assert_eq!(keys.deregister(&mr), Ok(()));
    assert_eq!(
        keys.using(AccessMode::Direct).gather(pd, piece, &mut bytes),
        Err(Fault)
    );
}

#[test]
fn a_region_changes_all_at_once_or_not_at_all() {
    let (keys, (scratch, at)) = (keys(), pages());
    let (pd, other) = (Pd::new().id(), Pd::new().id());
    let (second, there) = pages();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_LOCAL_WRITE);
    let used = |pd, at| {
        keys.using(AccessMode::Direct)
            .gather(pd, sge(mr.key(), at, 1), &mut [0])
    };
    let new = Some(second.memory());
    let refused = keys.rereg(&mr, new, Some(other), Some(IBV_ACCESS_REMOTE_WRITE));
    assert_eq!(refused, Err(Errno::INVAL));
    assert_eq!((used(pd, at), used(other, there)), (Ok(()), Err(Fault)));
    let given = keys.rereg(&mr, new, Some(other), None).expect("changed");
    assert_eq!(given.lkey, mr.key());
    assert_eq!((used(pd, at), used(other, there)), (Err(Fault), Ok(())));
    assert_eq!(keys.rereg(&mr, None, Some(pd), Some(0)), Ok(given));
    assert_eq!(used(pd, there), Ok(()));
    assert_eq!(
        keys.using(AccessMode::Direct)
            .scatter(pd, &[sge(mr.key(), there, 1)], 0, &[1]),
        Err(Fault)
    );
    let (null, _) = keys.null_mr(pd).expect("made");
    assert_eq!(keys.rereg(&null, None, None, Some(0)), Err(Errno::INVAL));
    assert_eq!(keys.deregister(&mr), Ok(()));
    assert_eq!(keys.rereg(&mr, None, Some(pd), None), Err(Errno::INVAL));
    assert_eq!(keys.deregister(&mr), Err(Errno::INVAL));
}

#[test]
fn advice_is_for_regions_on_demand() {
    let (keys, (scratch, at)) = (keys(), pages());
    let (pd, other) = (Pd::new().id(), Pd::new().id());
    let pinned = register(&keys, pd, scratch, 0);
    let mr = register(&keys, pd, scratch, IBV_ACCESS_ON_DEMAND);
    let advise = |pd, advice, flags, lkey, addr| {
        let length = 100;
        keys.advise(pd, advice, flags, &[ibv_sge { addr, length, lkey }])
    };
    assert_eq!(advise(pd, 0, 0, mr.key(), at), Ok(()));
    assert_eq!(advise(pd, 2, 1, mr.key(), at), Ok(()));
    assert_eq!(advise(pd, 3, 0, mr.key(), at), Err(Errno::OPNOTSUPP));
    assert_eq!(advise(pd, 0, 2, mr.key(), at), Err(Errno::INVAL));
    assert_eq!(advise(pd, 0, 0, pinned.key(), at), Err(Errno::INVAL));
    assert_eq!(advise(pd, 0, 0, mr.key() ^ 1, at), Err(Errno::NOENT));
    assert_eq!(advise(other, 0, 0, mr.key(), at), Err(Errno::PERM));
    assert_eq!(advise(pd, 1, 0, mr.key(), at), Err(Errno::PERM));
    assert_eq!(advise(pd, 0, 0, mr.key(), at - 1), Err(EFAULT));
    assert_eq!(keys.advise(pd, 0, 0, &[]), Err(Errno::INVAL));
    scratch.unmap().expect("unmapped");
    assert_eq!(advise(pd, 0, 1, mr.key(), at), Err(EFAULT));
}

#[test]
fn device_memory_is_separate_and_zero_based() {
    let keys = keys();
    let pd = Pd::new().id();
    let who = Peer { pd, qpn: 7 };
    assert_eq!(Dm::new(MAX_DEVICE_MEMORY + 1, 0).err(), Some(Errno::INVAL));
    assert_eq!(Dm::new(0, 0).err(), Some(Errno::INVAL));
    assert_eq!(Dm::new(64, 13).err(), Some(Errno::INVAL));
    let dm = Dm::new(64, 12).expect("allocated");
    assert_eq!(Dm::new(MAX_DEVICE_MEMORY, 0).err(), Some(Errno::NOMEM));
    let access = FULL | IBV_ACCESS_ZERO_BASED;
    let refused = |offset, length, access| keys.register_dm(pd, &dm, offset, length, access).err();
    assert_eq!(refused(32, 33, access), Some(Errno::INVAL));
    assert_eq!(refused(u64::MAX, 1, access), Some(Errno::INVAL));
    assert_eq!(refused(0, 64, FULL), Some(Errno::INVAL));
    assert_eq!(
        refused(0, 64, access | IBV_ACCESS_ON_DEMAND),
        Some(Errno::INVAL)
    );
    let (mr, _) = keys
        .register_dm(pd, &dm, 8, 16, access)
        .expect("registered");
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(who, mr.key(), 8, &[1; 8]),
        Ok(())
    );
    assert_eq!(
        keys.using(AccessMode::Direct)
            .write(who, mr.key(), 9, &[1; 8]),
        Err(Fault)
    );
    let one = u64::from_ne_bytes([1; 8]);
    assert_eq!(
        keys.using(AccessMode::Direct)
            .atomic(who, mr.key(), 8, Atomic::FetchAdd(1)),
        Ok(one)
    );
    let mut bytes = [9; 64];
    assert_eq!(dm.read(0, &mut bytes), Ok(()));
    assert_eq!(bytes[..16], [0; 16]);
    assert_eq!(bytes[16..24], (one + 1).to_ne_bytes());
    assert_eq!(dm.write(60, &[0; 8]), Err(EFAULT));
    assert_eq!(dm.read(u64::MAX - 3, &mut bytes), Err(EFAULT));
    assert_eq!(dm.write(56, &[0; 3]), Err(Errno::INVAL));
    assert_eq!(dm.read(2, &mut bytes[..4]), Err(Errno::INVAL));
    drop(dm);
    assert_eq!(
        keys.using(AccessMode::Direct).read(
            who,
            mr.key(),
            0,
            &mut bytes[..16],
            &mut FoundPage::default(),
        ),
        Ok(())
    );
    let all = Dm::new(MAX_DEVICE_MEMORY, 0).expect("all of it");
    let last = u64::try_from(MAX_DEVICE_MEMORY - 4).expect("small");
    assert_eq!(all.write(last, &[1; 4]), Ok(()));
}

#[test]
fn the_promised_number_of_regions_and_windows_can_be_made() {
    let keys = keys();
    let pd = Pd::new().id();
    let mut regions: Vec<Mr> = (0..MAX_REGIONS)
        .map(|_| keys.null_mr(pd).expect("room").0)
        .collect();
    let mut windows: Vec<Mw> = (0..MAX_WINDOWS)
        .map(|_| keys.alloc_mw(pd, IBV_MW_TYPE_2).expect("room").0)
        .collect();
    assert_eq!(keys.null_mr(pd).err(), Some(Errno::NOMEM));
    assert_eq!(keys.alloc_mw(pd, IBV_MW_TYPE_1).err(), Some(Errno::NOMEM));
    drop((regions.pop(), windows.pop()));
    assert!(keys.null_mr(pd).is_ok());
    assert!(keys.alloc_mw(pd, IBV_MW_TYPE_1).is_ok());
}
