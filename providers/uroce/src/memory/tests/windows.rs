//! Binding and invalidating.

use super::*;
use kit::sys::application::FoundPage;

struct World {
    keys: Arc<Keys>,
    pd: PdId,
    at: u64,
    mr: Arc<Mr>,
}

fn world(access: u32) -> World {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = Arc::new(register(&keys, pd, scratch, access));
    World { keys, pd, at, mr }
}

impl World {
    fn who(&self, qpn: u32) -> Peer {
        Peer { pd: self.pd, qpn }
    }

    fn window(&self, mw_type: ibv_mw_type) -> (Arc<Mw>, u32) {
        let (mw, rkey) = self.keys.alloc_mw(self.pd, mw_type).expect("allocated");
        (Arc::new(mw), rkey)
    }

    fn binding(&self, mw: &Arc<Mw>, rkey: u32, access: u32) -> Binding {
        Binding {
            mw: Arc::clone(mw),
            rkey,
            mr: Some(Arc::clone(&self.mr)),
            address: self.at + 16,
            length: 32,
            access,
        }
    }

    fn reads(&self, qpn: u32, rkey: u32, offset: u64) -> bool {
        let who = self.who(qpn);
        let done = self.keys.using(AccessMode::Direct).read(
            who,
            rkey,
            self.at + offset,
            &mut [0; 4],
            &mut FoundPage::default(),
        );
        done.is_ok()
    }
}

const READ: u32 = IBV_ACCESS_REMOTE_READ;
const WRITE: u32 = IBV_ACCESS_REMOTE_WRITE;

#[test]
fn a_window_shows_its_part_of_a_region() {
    let world = world(FULL);
    let (mw, first) = world.window(IBV_MW_TYPE_1);
    assert!(!world.reads(1, first, 16));
    let rkey = world.keys.next_rkey(&mw).expect("type 1");
    assert_ne!(rkey, first);
    let binding = world.binding(&mw, rkey, READ);
    assert_eq!(world.keys.bind(world.who(1), &binding), Ok(()));
    assert!(world.reads(1, rkey, 16));
    assert!(world.reads(2, rkey, 44), "type 1 goes by the domain");
    assert!(!world.reads(1, rkey, 15) && !world.reads(1, rkey, 45));
    assert!(!world.reads(1, first, 16), "the old key is gone");
    let write = world
        .keys
        .using(AccessMode::Direct)
        .write(world.who(1), rkey, world.at + 16, &[1]);
    assert_eq!(write, Err(Fault));
    let local = sge(rkey, world.at + 16, 1);
    assert_eq!(
        world
            .keys
            .using(AccessMode::Direct)
            .gather(world.pd, local, &mut [0]),
        Err(Fault)
    );
}

#[test]
fn a_region_stays_while_a_window_is_bound_to_it() {
    let world = world(FULL);
    let (mw, _) = world.window(IBV_MW_TYPE_1);
    let bind = |mr: Option<&Arc<Mr>>, length| {
        let rkey = world.keys.next_rkey(&mw).expect("type 1");
        let mut binding = world.binding(&mw, rkey, READ);
        binding.mr = mr.cloned();
        binding.length = length;
        world.keys.bind(world.who(1), &binding).map(|()| rkey)
    };
    for unbind in [None, Some(&world.mr)] {
        let bound = bind(Some(&world.mr), 8).expect("bound");
        assert!(world.reads(1, bound, 16));
        assert_eq!(world.keys.deregister(&world.mr), Err(Errno::BUSY));
        let access = Some(READ);
        let rereg = world.keys.rereg(&world.mr, None, None, access);
        assert_eq!(rereg, Err(Errno::BUSY));
        let unbound = bind(unbind, 0).expect("unbound");
        assert!(!world.reads(1, bound, 16) && !world.reads(1, unbound, 16));
        let pd = Some(world.pd);
        assert!(world.keys.rereg(&world.mr, None, pd, None).is_ok());
    }
    assert!(bind(Some(&world.mr), 8).is_ok());
    assert_eq!(world.keys.dealloc_mw(&mw), Ok(()));
    assert_eq!(world.keys.dealloc_mw(&mw), Err(Errno::INVAL));
    assert_eq!(world.keys.deregister(&world.mr), Ok(()));
    assert!(bind(Some(&world.mr), 8).is_err());
}

#[test]
fn bindings_that_may_not_be_leave_the_window_as_it_was() {
    let world = world(FULL);
    let readable = Arc::new({
        let (scratch, _) = pages();
        register(&world.keys, world.pd, scratch, READ | IBV_ACCESS_MW_BIND)
    });
    let (scratch, _) = pages();
    let other = |pd, access| Arc::new(register(&world.keys, pd, scratch, access));
    let (mw, _) = world.window(IBV_MW_TYPE_1);
    let rkey = world.keys.next_rkey(&mw).expect("type 1");
    let good = world.binding(&mw, rkey, READ);
    assert_eq!(world.keys.bind(world.who(1), &good), Ok(()));
    let at = scratch.memory().address() as u64;
    let refused = |change: &dyn Fn(&mut Binding)| {
        let mut binding = world.binding(&mw, world.keys.next_rkey(&mw).expect("type 1"), READ);
        change(&mut binding);
        assert_eq!(world.keys.bind(world.who(1), &binding), Err(Fault));
        assert!(world.reads(1, rkey, 16));
    };
    refused(&|binding| binding.length = 8192);
    refused(&|binding| binding.address = world.at - 1);
    refused(&|binding| binding.address = u64::MAX);
    refused(&|binding| binding.access = IBV_ACCESS_ON_DEMAND);
    refused(&|binding| binding.rkey = rkey.wrapping_add(256));
    refused(&|binding| {
        binding.mr = Some(Arc::clone(&readable));
        binding.address = scratch.memory().address() as u64;
        binding.access = WRITE;
    });
    for (pd, access) in [
        (world.pd, IBV_ACCESS_LOCAL_WRITE | READ),
        (Pd::new().id(), FULL),
        (world.pd, FULL | IBV_ACCESS_ZERO_BASED),
    ] {
        let mr = other(pd, access);
        refused(&|binding| {
            binding.mr = Some(Arc::clone(&mr));
            binding.address = at;
        });
    }
    let foreign = Peer {
        pd: Pd::new().id(),
        qpn: 1,
    };
    let binding = world.binding(&mw, world.keys.next_rkey(&mw).expect("type 1"), READ);
    assert_eq!(world.keys.bind(foreign, &binding), Err(Fault));
    assert!(world.reads(1, rkey, 16));
}

#[test]
fn windows_of_type_2_belong_to_the_queue_pair_and_are_invalidated() {
    let world = world(FULL);
    let (mw, first) = world.window(IBV_MW_TYPE_2);
    assert_eq!(world.keys.next_rkey(&mw), Err(Errno::INVAL));
    let rkey = first & !0xff | 0x42;
    let binding = world.binding(&mw, rkey, READ | WRITE);
    let bind = |qpn| world.keys.bind(world.who(qpn), &binding);
    let invalidate = |qpn, rkey| world.keys.invalidate(world.who(qpn), rkey, true);
    assert_eq!(invalidate(1, first), Err(Fault), "it is not bound");
    assert_eq!(bind(1), Ok(()));
    assert_eq!(bind(1), Err(Fault), "it is bound already");
    assert!(world.reads(1, rkey, 16));
    assert!(!world.reads(2, rkey, 16));
    assert_eq!(world.keys.deregister(&world.mr), Err(Errno::BUSY));
    assert_eq!(invalidate(2, rkey), Err(Fault));
    assert_eq!(invalidate(1, rkey ^ 1), Err(Fault));
    let foreign = Peer {
        pd: Pd::new().id(),
        qpn: 1,
    };
    assert_eq!(world.keys.invalidate(foreign, rkey, true), Err(Fault));
    assert!(world.reads(1, rkey, 16));
    assert_eq!(invalidate(1, rkey), Ok(()));
    assert!(!world.reads(1, rkey, 16));
    assert_eq!(invalidate(1, rkey), Err(Fault));
    assert_eq!(bind(2), Ok(()));
    assert!(world.reads(2, rkey, 16) && !world.reads(1, rkey, 16));
    let mut nothing = world.binding(&mw, rkey, READ);
    assert_eq!(invalidate(2, rkey), Ok(()));
    nothing.length = 0;
    assert_eq!(world.keys.bind(world.who(2), &nothing), Err(Fault));
    assert_eq!(world.keys.deregister(&world.mr), Ok(()));
}

#[test]
fn regions_and_windows_of_type_1_are_not_invalidated() {
    let world = world(FULL);
    let (mw, _) = world.window(IBV_MW_TYPE_1);
    let rkey = world.keys.next_rkey(&mw).expect("type 1");
    let binding = world.binding(&mw, rkey, READ);
    assert_eq!(world.keys.bind(world.who(1), &binding), Ok(()));
    for key in [rkey, world.mr.key(), 0, u32::MAX] {
        for remote in [false, true] {
            let done = world.keys.invalidate(world.who(1), key, remote);
            assert_eq!(done, Err(Fault));
        }
    }
    assert!(world.reads(1, rkey, 16) && world.reads(1, world.mr.key(), 0));
}

#[test]
fn windows_of_type_2a_belong_to_the_queue_pair_alone() {
    let world = world(FULL);
    let (mw, first) = world.keys.alloc_mw_2a(Pd::new().id()).expect("allocated");
    let rkey = first ^ 1;
    let binding = world.binding(&Arc::new(mw), rkey, READ);
    assert_eq!(world.keys.bind(world.who(3), &binding), Ok(()));
    let peer = Peer {
        pd: Pd::new().id(),
        qpn: 3,
    };
    let mut bytes = [0; 4];
    assert_eq!(
        world.keys.using(AccessMode::Direct).read(
            peer,
            rkey,
            world.at + 16,
            &mut bytes,
            &mut FoundPage::default(),
        ),
        Ok(())
    );
    assert!(!world.reads(4, rkey, 16));
    assert_eq!(world.keys.invalidate(world.who(4), rkey, false), Err(Fault));
    assert_eq!(world.keys.invalidate(peer, rkey, false), Ok(()));
    assert!(!world.reads(3, rkey, 16));
}

#[test]
fn a_zero_based_window_counts_from_its_first_byte() {
    let world = world(FULL);
    let (mw, first) = world.window(IBV_MW_TYPE_2);
    let binding = world.binding(&mw, first, READ | IBV_ACCESS_ZERO_BASED | WRITE);
    assert_eq!(world.keys.bind(world.who(1), &binding), Ok(()));
    let who = world.who(1);
    assert_eq!(
        world
            .keys
            .using(AccessMode::Direct)
            .write(who, first, 31, &[7]),
        Ok(())
    );
    assert_eq!(
        world
            .keys
            .using(AccessMode::Direct)
            .write(who, first, 32, &[7]),
        Err(Fault)
    );
    let mut byte = [0];
    let there = sge(world.mr.key(), world.at + 47, 1);
    assert_eq!(
        world
            .keys
            .using(AccessMode::Direct)
            .gather(world.pd, there, &mut byte),
        Ok(())
    );
    assert_eq!(byte, [7]);
    assert_eq!(world.keys.alloc_mw(world.pd, 3).err(), Some(Errno::INVAL));
}
