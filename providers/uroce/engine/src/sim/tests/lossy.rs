//! Every accepted request completes once, in order, with the right bytes, whatever the link does.

use super::*;
use crate::wire::ImmDt;
use proptest::prelude::*;

const AREA: u64 = 0x20000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    Add,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    kind: Kind,
    length: u32,
    signaled: bool,
    fence: bool,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let length = prop_oneof![Just(0u32), 1u32..10, 200u32..300, 0u32..3000];
    proptest::collection::vec(operation(length), 1..40)
}

/// Few, of many packets each.
fn long_operations() -> impl Strategy<Value = Vec<Operation>> {
    let length = prop_oneof![0u32..3000, 16_000u32..30_000];
    proptest::collection::vec(operation(length), 1..5)
}

fn operation(length: impl Strategy<Value = u32>) -> impl Strategy<Value = Operation> {
    let kind = proptest::sample::select(vec![
        Kind::Send,
        Kind::SendImm,
        Kind::Write,
        Kind::WriteImm,
        Kind::Read,
        Kind::Add,
    ]);
    (kind, length, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(kind, length, signaled, fence)| Operation {
            kind,
            length,
            signaled,
            fence,
        },
    )
}

/// Where an operation's bytes come from and go to, so that all can be compared at the end.
struct Plan {
    operation: Operation,
    at: u64,
    number: u64,
}

/// Posts one side's operations, each with different bytes. Source and result of reads lie in the
/// first area, targets of sends and writes in the second, of the other side's in the third.
fn post_all(world: &mut World, side: usize, operations: &[Operation]) -> Vec<Plan> {
    let mut at = 0;
    let mut plans = Vec::new();
    let target = AREA * (1 + side as u64);
    for (operation, number) in operations.iter().zip(0u64..) {
        let length = match operation.kind {
            Kind::Add => 8,
            _ => operation.length,
        };
        let place = remote(target + at);
        let immediate = ImmDt {
            data: u32::try_from(number).expect("small"),
        };
        let request = match operation.kind {
            Kind::Send => Request::Send,
            Kind::SendImm => Request::SendImm(immediate),
            Kind::Write => Request::Write(place),
            Kind::WriteImm => Request::WriteImm(place, immediate),
            Kind::Read => Request::Read(place),
            Kind::Add => Request::FetchAdd {
                remote: remote(3 * AREA + 8 * side as u64),
                add: 1,
            },
        };
        if request.takes_receive() {
            world.post_receive(1 - side, 1000 + number, target + at, length);
        }
        let mut wr = wr(number, request, at, length);
        wr.signaled = operation.signaled;
        wr.fence = operation.fence;
        world.post(side, wr);
        plans.push(Plan {
            operation: *operation,
            at,
            number,
        });
        at += u64::from(length).next_multiple_of(8);
    }
    plans
}

fn check(world: &World, side: usize, plans: &[Plan], start: u64) {
    let completions = &world.ends[side].host.completions;
    let sent: Vec<(u64, Status)> = completions
        .iter()
        .filter(|completion| !completion.is_receive())
        .map(|completion| (completion.id, completion.status))
        .collect();
    let signaled = plans.iter().filter(|plan| plan.operation.signaled);
    let expected: Vec<(u64, Status)> = signaled
        .map(|plan| (plan.number, Status::Success))
        .collect();
    assert_eq!(sent, expected);
    assert_eq!(world.ends[side].qp.outstanding(), 0);
    let received: Vec<(u64, Status)> = world.ends[1 - side]
        .host
        .completions
        .iter()
        .filter(|completion| completion.is_receive())
        .map(|completion| (completion.id, completion.status))
        .collect();
    let takes = |plan: &&Plan| {
        matches!(
            plan.operation.kind,
            Kind::Send | Kind::SendImm | Kind::WriteImm
        )
    };
    let expected: Vec<(u64, Status)> = plans
        .iter()
        .filter(takes)
        .map(|plan| (1000 + plan.number, Status::Success))
        .collect();
    assert_eq!(received, expected);
    let target = AREA * (1 + side as u64);
    let mut adds = 0;
    for plan in plans {
        if let Kind::Add = plan.operation.kind {
            let found = world.ends[side]
                .host
                .bytes(BASE + plan.at, 8)
                .expect("in memory");
            assert_eq!(found, (start.wrapping_add(adds)).to_ne_bytes());
            adds += 1;
        } else {
            let length = plan.operation.length;
            assert!(world.same((side, plan.at), (1 - side, target + plan.at), length));
        }
    }
    let counter = BASE + 3 * AREA + 8 * side as u64;
    let now = world.ends[1 - side]
        .host
        .bytes(counter, 8)
        .expect("in memory");
    assert_eq!(now, start.wrapping_add(adds).to_ne_bytes());
}

fn counter(world: &World, side: usize) -> u64 {
    let address = BASE + 3 * AREA + 8 * side as u64;
    let bytes = world.ends[1 - side]
        .host
        .bytes(address, 8)
        .expect("in memory");
    u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
}

fn faults() -> impl Strategy<Value = Faults> {
    (0u16..15, 0u16..100, 0u16..100, 0u16..15).prop_map(|(loss, duplicate, reorder, corrupt)| {
        Faults {
            loss,
            duplicate,
            reorder,
            corrupt,
        }
    })
}

/// `PROPTEST_CASES`, for a longer run.
fn cases() -> u32 {
    let wish = std::env::var("PROPTEST_CASES").ok();
    wish.and_then(|text| text.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn reliable_connections_lose_nothing(
        left in operations(),
        right in operations(),
        faults in faults(),
        seed in any::<u64>(),
        credits in any::<bool>(),
        delays in any::<bool>(),
        plain in any::<bool>(),
        mtu in proptest::sample::select(vec![Mtu::B256, Mtu::B1024]),
    ) {
        let setup = Setup { credits, delays, plain, mtu, ..Setup::new(Service::Rc) };
        let mut world = World::new(&setup, faults, seed);
        let starts = [counter(&world, 0), counter(&world, 1)];
        let plans = [post_all(&mut world, 0, &left), post_all(&mut world, 1, &right)];
        prop_assert!(world.run(STEPS));
        for side in 0..2 {
            check(&world, side, &plans[side], starts[side]);
        }
    }

    #[test]
    fn long_messages_of_all_kinds_lose_nothing(
        left in long_operations(),
        right in long_operations(),
        faults in faults(),
        seed in any::<u64>(),
        credits in any::<bool>(),
        plain in any::<bool>(),
        reads in proptest::sample::select(vec![1u8, 2, 4, 16]),
    ) {
        let setup = Setup { credits, plain, reads, ..Setup::new(Service::Rc) };
        let mut world = World::new(&setup, faults, seed);
        let starts = [counter(&world, 0), counter(&world, 1)];
        let plans = [post_all(&mut world, 0, &left), post_all(&mut world, 1, &right)];
        prop_assert!(world.run(STEPS));
        for side in 0..2 {
            check(&world, side, &plans[side], starts[side]);
        }
    }

    #[test]
    fn unreliable_connections_deliver_whole_messages_or_none(
        lengths in proptest::collection::vec(0u32..2000, 1..30),
        faults in faults(),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(&Setup::new(Service::Uc), faults, seed);
        for (id, length) in (0u64..).zip(&lengths) {
            world.post_receive(1, id, AREA + id * 2048, 2048);
            let immediate = ImmDt { data: u32::try_from(id).expect("small") };
            world.post(0, wr(id, Request::SendImm(immediate), id * 2048, *length));
        }
        prop_assert!(world.run(STEPS));
        let done: Vec<(u64, Status)> =
            (0..lengths.len() as u64).map(|id| (id, Status::Success)).collect();
        prop_assert_eq!(world.statuses(0), done);
        for (place, completion) in (0u64..).zip(&world.ends[1].host.completions) {
            prop_assert_eq!((completion.id, completion.status), (place, Status::Success));
            let number = completion.immediate.expect("sent with").data;
            let length = lengths[number as usize];
            prop_assert_eq!(completion.length, length);
            let (from, to) = (u64::from(number) * 2048, AREA + place * 2048);
            prop_assert!(world.same((0, from), (1, to), length));
        }
    }

    #[test]
    fn a_side_that_falls_silent_fails_the_rest_in_order(
        left in operations(),
        faults in faults(),
        seed in any::<u64>(),
        after in 0usize..60,
    ) {
        let mut world = World::new(&Setup::new(Service::Rc), faults, seed);
        let all: Vec<Operation> = left.iter().map(|o| Operation { signaled: true, ..*o }).collect();
        post_all(&mut world, 0, &all);
        world.run(after);
        world.link.deaf = [true; 2];
        world.link.lose_all();
        prop_assert!(world.run(STEPS));
        let statuses = world.statuses(0);
        prop_assert_eq!(statuses.len(), all.len());
        let mut expected = Status::Success;
        for (place, (id, status)) in (0u64..).zip(statuses) {
            prop_assert_eq!(id, place);
            if expected == Status::Success && status == Status::RetryExc {
                expected = Status::WrFlush;
            } else {
                prop_assert_eq!(status, expected);
            }
        }
        prop_assert_eq!(world.ends[0].qp.outstanding(), 0);
    }

    #[test]
    fn receive_requests_that_come_late_are_waited_for(
        lengths in proptest::collection::vec(0u32..2000, 1..20),
        faults in faults(),
        seed in any::<u64>(),
        pause in 0usize..40,
        xrc in any::<bool>(),
        credits in any::<bool>(),
        plain in any::<bool>(),
    ) {
        let (service, peer) = if xrc {
            (Service::XrcInitiator, Service::XrcTarget)
        } else {
            (Service::Rc, Service::Rc)
        };
        let setup = Setup { service, peer, credits, plain, ..Setup::new(Service::Rc) };
        let mut world = World::new(&setup, faults, seed);
        world.ends[1].host.shared.insert(7, [].into());
        for (id, length) in (0u64..).zip(&lengths) {
            world.post(0, WorkRequest { srqn: 7, ..wr(id, Request::Send, id * 2048, *length) });
        }
        for id in 0..lengths.len() as u64 {
            world.run(pause);
            let sges = vec![sge(AREA + id * 2048, 2048)];
            let end = &mut world.ends[1];
            let queue = if xrc {
                end.host.shared.get_mut(&7).expect("the queue")
            } else {
                &mut end.host.receives
            };
            queue.push_back(Receive {
                id,
                sges: sges.into(),
            });
            end.qp.receives_posted(&mut end.host);
        }
        prop_assert!(world.run(STEPS));
        let done: Vec<(u64, Status)> =
            (0..lengths.len() as u64).map(|id| (id, Status::Success)).collect();
        prop_assert_eq!(world.statuses(0), done.clone());
        prop_assert_eq!(world.statuses(1), done);
        for (id, length) in (0u64..).zip(&lengths) {
            prop_assert!(world.same((0, id * 2048), (1, AREA + id * 2048), *length));
        }
    }
}
