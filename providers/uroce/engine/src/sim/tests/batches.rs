//! Hosts that leave short requests to a later transmission, as [`QueuePair::may_batch`] permits.

use super::*;
use proptest::prelude::*;

/// Messages that an idle connection sends one by one.
const FIRST: u64 = 4;
/// Messages of a batch.
const BATCH: u64 = 32;

fn write(id: u64, length: u32) -> WorkRequest {
    let mut wr = wr(id, Request::Write(remote(64)), 0, length);
    wr.signaled = true;
    wr
}

impl World {
    /// Sends all that end 0 may send now. Returns the number of packets.
    fn transmit(&mut self) -> usize {
        std::iter::from_fn(|| self.send_one(0).then_some(())).count()
    }

    /// Posts a request as such a host does. Returns the number of packets that leave.
    fn post_in_batch(&mut self, wr: WorkRequest) -> usize {
        self.post(0, wr);
        match self.ends[0].qp.may_batch() {
            true => 0,
            false => self.transmit(),
        }
    }

    /// Lets the next thing happen. End 0 transmits only if it concerns that end.
    fn step_apart(&mut self) {
        while self.send_one(1) {}
        let deadlines = self.ends.iter().filter_map(|end| end.qp.deadline());
        let next = deadlines.chain(self.link.next_arrival()).min();
        self.now = self.now.max(next.expect("something is to happen"));
        let mut concerned = false;
        while let Some((to, bytes)) = self.link.receive(self.now) {
            self.deliver(to, &bytes);
            concerned |= to == 0;
        }
        for (side, end) in self.ends.iter_mut().enumerate() {
            concerned |= side == 0 && end.qp.deadline().is_some_and(|time| time <= self.now);
            end.qp.on_time(self.now, &mut end.host);
        }
        if concerned {
            self.transmit();
        }
    }
}

/// Two ends, of which the first has short requests wait.
fn world(service: Service, faults: Faults, seed: u64) -> World {
    let setup = Setup {
        mtu: Mtu::B1024,
        ..Setup::new(service)
    };
    let mut world = World::new(&setup, faults, seed);
    world.ends[0].qp.batch_requests(true);
    world
}

fn reliable() -> World {
    world(Service::Rc, Faults::default(), 1)
}

#[test]
fn messages_behind_others_wait_for_a_batch() {
    let mut world = reliable();
    for id in 0..FIRST {
        assert_eq!(world.post_in_batch(write(id, 8)), 1, "message {id}");
    }
    for id in 1..BATCH {
        assert_eq!(world.post_in_batch(write(FIRST + id, 8)), 0);
    }
    let batch = world.post_in_batch(write(FIRST + BATCH, 8));
    assert_eq!(batch as u64, BATCH);
    world.rest();
    assert_eq!(world.statuses(0).len() as u64, FIRST + BATCH);
}

#[test]
fn messages_that_wait_leave_after_the_acknowledgement() {
    let mut world = reliable();
    for id in 0..FIRST + 6 {
        world.post_in_batch(write(id, 8));
    }
    assert!(world.ends[0].qp.first_waiting().is_some());
    while world.ends[0].host.completions.is_empty() {
        world.step_apart();
    }
    assert!(world.ends[0].qp.first_waiting().is_none(), "all have left");
    world.rest();
    assert_eq!(world.statuses(0).len() as u64, FIRST + 6);
}

#[test]
fn a_longer_message_does_not_wait() {
    let mut world = reliable();
    for id in 0..2 * FIRST {
        world.post_in_batch(write(id, 8));
    }
    let all = world.post_in_batch(write(2 * FIRST, 20 << 10));
    assert_eq!(all as u64, FIRST + 20, "with those before it");
}

#[test]
fn a_local_operation_does_not_wait() {
    let mut world = reliable();
    for id in 0..2 * FIRST {
        world.post_in_batch(write(id, 8));
    }
    let local = wr(2 * FIRST, Request::LocalInvalidate(7), 0, 0);
    assert_eq!(world.post_in_batch(local) as u64, FIRST, "those before it");
}

#[test]
fn a_batch_does_not_wait_for_lost_packets() {
    let mut world = reliable();
    for id in 0..FIRST {
        world.post_in_batch(write(id, 8));
    }
    while world.link.receive(Time::from_nanos(u64::MAX)).is_some() {}
    assert_eq!(world.post_in_batch(write(FIRST, 8)), 0);
    while world.ends[0].qp.outstanding() > 0 {
        world.step_apart();
    }
    let done: Vec<_> = (0..=FIRST).map(|id| (id, Status::Success)).collect();
    assert_eq!(world.statuses(0), done);
}

/// Where a packet costs no call, as in shared memory.
#[test]
fn requests_do_not_wait_unless_that_is_wanted() {
    let mut world = reliable();
    world.ends[0].qp.batch_requests(false);
    for id in 0..2 * BATCH {
        assert_eq!(world.post_in_batch(write(id, 8)), 1, "message {id}");
    }
    // The limit for short messages applies again.
    assert_eq!(world.post_in_batch(write(2 * BATCH, 8)), 0);
    assert!(world.ends[0].qp.first_waiting().is_some());
}

#[test]
fn requests_of_other_services_and_states_do_not_wait() {
    let mut world = world(Service::Uc, Faults::default(), 1);
    for id in 0..3 * FIRST {
        assert_eq!(world.post_in_batch(write(id, 8)), 1);
    }
    let mut world = reliable();
    for id in 0..2 * FIRST {
        world.post_in_batch(write(id, 8));
    }
    assert!(world.ends[0].qp.may_batch());
    let end = &mut world.ends[0];
    let modify = Modify {
        state: Some(State::Sqd),
        mask: Mask::STATE,
        ..Modify::default()
    };
    assert_eq!(end.qp.modify(&modify, &mut end.host), Ok(()));
    assert!(!end.qp.may_batch());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_request_waits_for_ever(
        lengths in proptest::collection::vec(prop_oneof![0u32..64, 0u32..3000], 1..100),
        steps in proptest::collection::vec(0u8..3, 100),
        loss in 0u16..15,
        seed in any::<u64>(),
    ) {
        let faults = Faults { loss, ..Faults::default() };
        let mut world = world(Service::Rc, faults, seed);
        for ((id, length), steps) in (0u64..).zip(&lengths).zip(&steps) {
            world.post_in_batch(write(id, *length));
            for _ in 0..*steps {
                if world.ends[0].qp.outstanding() > 0 {
                    world.step_apart();
                }
            }
        }
        while world.ends[0].qp.outstanding() > 0 {
            world.step_apart();
        }
        let done: Vec<_> = (0..lengths.len() as u64).map(|id| (id, Status::Success)).collect();
        prop_assert_eq!(world.statuses(0), done);
    }
}
