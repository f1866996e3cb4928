//! The congestion window on paths of different lengths.

use super::*;

/// Bytes a second.
const RATE: u64 = 40_000_000;
const MTU: u32 = 1024;
const MILLISECOND: u64 = 1_000_000;
const MESSAGE: u32 = 64 << 10;
/// Messages posted at once.
const POSTED: usize = 96;

/// What a stream consists of.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Write,
    Read,
}

/// PSNs begin anywhere, by the seed.
fn setup(seed: u64, reads: u8) -> Setup {
    let psns = [0x00ff_fff0, 0x0080_0010, 7];
    let psn = psns
        .into_iter()
        .cycle()
        .nth(usize::try_from(seed % 3).unwrap_or(0));
    Setup {
        psn: Psn::new(psn.unwrap_or(0)),
        mtu: Mtu::B1024,
        timeout: 18,
        reads,
        ..Setup::new(Service::Rc)
    }
}

/// A connection that always has something to do.
struct Flow {
    world: World,
    stream: Stream,
    done: u64,
}

impl Flow {
    fn new(stream: Stream, bottleneck: &Bottleneck, faults: Faults, seed: u64) -> Self {
        Self::with_reads(stream, bottleneck, faults, seed, 64)
    }

    fn with_reads(
        stream: Stream,
        bottleneck: &Bottleneck,
        faults: Faults,
        seed: u64,
        reads: u8,
    ) -> Self {
        Self::of(&setup(seed, reads), stream, bottleneck, faults, seed)
    }

    fn of(
        setup: &Setup,
        stream: Stream,
        bottleneck: &Bottleneck,
        faults: Faults,
        seed: u64,
    ) -> Self {
        let mut world = World::new(setup, faults, seed);
        world.link.bottleneck = Some(bottleneck.clone());
        Self {
            world,
            stream,
            done: 0,
        }
    }

    fn post(&mut self) {
        while self.world.ends[0].qp.outstanding() < POSTED {
            let request = match self.stream {
                Stream::Write => Request::Write(remote(0)),
                Stream::Read => Request::Read(remote(0)),
            };
            self.world.post(0, wr(0, request, 0x20000, MESSAGE));
        }
    }

    fn step(&mut self) {
        assert!(self.world.step());
        for completion in self.world.ends[0].host.completions.drain(..) {
            assert_eq!(completion.status, Status::Success);
            self.done += u64::from(MESSAGE);
        }
    }
}

/// Runs connections up to a time. Returns the bytes that each has moved.
fn run(flows: &mut [Flow], until: u64) -> Vec<u64> {
    let before: Vec<u64> = flows.iter().map(|flow| flow.done).collect();
    loop {
        for flow in &mut *flows {
            flow.post();
        }
        let times = flows.iter_mut().map(|flow| flow.world.next_time());
        let next = times.zip(0..).min().expect("one at least");
        let (Some(at), index) = next else {
            return Vec::new();
        };
        if at.nanos() > until {
            break;
        }
        flows[index].step();
    }
    let done = flows.iter().zip(before);
    done.map(|(flow, before)| flow.done - before).collect()
}

/// Packets and their headers, for so many bytes.
fn with_headers(bytes: u64) -> u64 {
    bytes + bytes / u64::from(MTU) * 16
}

/// Per thousand of what the path carries that connections move in the last second of `seconds`.
fn use_of_the_path(flows: &mut [Flow], seconds: u64) -> u64 {
    run(flows, (seconds - 1) * 1000 * MILLISECOND);
    let bytes: u64 = run(flows, seconds * 1000 * MILLISECOND).iter().sum();
    with_headers(bytes) * 1000 / RATE
}

#[test]
fn one_connection_uses_the_path() {
    for stream in [Stream::Write, Stream::Read] {
        for delay in [1, 5, 20] {
            let path = RATE / 1000 * 2 * delay;
            for queue in [path / 2, 2 * path] {
                let bottleneck = Bottleneck::new(RATE, queue, delay * MILLISECOND);
                let mut flows = [Flow::new(stream, &bottleneck, Faults::default(), delay)];
                let used = use_of_the_path(&mut flows, 5);
                let lost = bottleneck.lost();
                let case = format!("{stream:?} {delay} ms, queue {queue}: {used}, {lost} lost");
                assert!(used >= 900, "{case}");
                // Of five seconds.
                let packets = RATE * 5 / u64::from(MTU);
                assert!(lost <= packets / 20, "{case}");
            }
        }
    }
}

/// Receivers that look for packets at random moments delay whole rounds. That is no queue, and the
/// path is used.
#[test]
fn late_receivers_are_no_queue() {
    for stream in [Stream::Write, Stream::Read] {
        for (delay, most) in [(1, 2), (1, 4), (5, 4)] {
            for seed in 0..3 {
                let path = RATE / 1000 * 2 * (delay + most);
                let bottleneck = Bottleneck::new(RATE, path, delay * MILLISECOND)
                    .with_wake_ups(most * MILLISECOND, seed);
                let mut flows = [Flow::new(stream, &bottleneck, Faults::default(), seed)];
                let used = use_of_the_path(&mut flows, 3);
                assert!(
                    used >= 900,
                    "{stream:?} {delay} ms, looks {most} ms apart, seed {seed}: {used}"
                );
            }
        }
    }
}

/// Answers take 10 to 18 ms, and the timeout is 8.4 ms. That is no loss: sending does not go back,
/// and the window is not halved each time. Once it may, before it is known what the peer
/// understands.
#[test]
fn answers_later_than_the_timeout_are_no_loss() {
    for stream in [Stream::Write, Stream::Read] {
        for seed in 0..6 {
            let bottleneck = Bottleneck::new(RATE, RATE / 20, 5 * MILLISECOND)
                .with_wake_ups(4 * MILLISECOND, seed);
            let setup = Setup {
                timeout: 11,
                ..setup(seed, 64)
            };
            let faults = Faults::default();
            let mut flows = [Flow::of(&setup, stream, &bottleneck, faults, seed)];
            let used = use_of_the_path(&mut flows, 2);
            let [flow] = &flows;
            let counters = flow.world.ends[0].qp.counters();
            let case = format!("{stream:?}, seed {seed}: {used}, {counters:?}");
            assert!(counters.retries <= 1, "{case}");
            assert!(used >= 900, "{case}");
        }
    }
}

/// A stream of a second is long enough to fill a long path.
#[test]
fn a_path_is_filled_in_a_few_round_trips() {
    for (delay, least) in [(1, 950), (5, 900), (20, 700)] {
        for seed in 0..3 {
            let bottleneck = Bottleneck::new(RATE, RATE / 50, delay * MILLISECOND)
                .with_wake_ups(MILLISECOND, seed);
            let mut flows = [Flow::new(
                Stream::Write,
                &bottleneck,
                Faults::default(),
                seed,
            )];
            let used = use_of_the_path(&mut flows, 1);
            assert!(used >= least, "{delay} ms, seed {seed}: {used}");
        }
    }
}

/// The first timeout passes before the first answer can come, and says nothing about the path.
#[test]
fn so_it_is_if_the_timeout_is_shorter_than_the_path() {
    for (delay, timeout, least) in [(5, 11, 890), (20, 13, 550)] {
        for seed in 0..3 {
            let bottleneck = Bottleneck::new(RATE, RATE / 50, delay * MILLISECOND)
                .with_wake_ups(MILLISECOND, seed);
            let setup = Setup {
                timeout,
                ..setup(seed, 64)
            };
            let faults = Faults::default();
            let mut flows = [Flow::of(&setup, Stream::Write, &bottleneck, faults, seed)];
            let used = use_of_the_path(&mut flows, 1);
            let [flow] = &flows;
            assert_eq!(flow.world.ends[0].qp.counters().retries, 1);
            assert!(used >= least, "{delay} ms, seed {seed}: {used}");
        }
    }
}

/// The window is what limits requests for responses also where the peer serves few at a time.
#[test]
fn few_reads_at_a_time_use_the_path() {
    for reads in [8, 16] {
        let bottleneck = Bottleneck::new(RATE, RATE / 50, 5 * MILLISECOND);
        let faults = Faults::default();
        let mut flows = [Flow::with_reads(
            Stream::Read,
            &bottleneck,
            faults,
            1,
            reads,
        )];
        let used = use_of_the_path(&mut flows, 3);
        assert!(used >= 900, "{reads} reads: {used}");
    }
}

#[test]
fn loss_without_congestion_leaves_the_path_in_use() {
    for stream in [Stream::Write, Stream::Read] {
        for (loss, least) in [(1, 900), (10, 800)] {
            let delay = 5;
            let bottleneck = Bottleneck::new(RATE, RATE / 50, delay * MILLISECOND);
            let faults = Faults {
                loss,
                ..Faults::default()
            };
            let mut flows = [Flow::new(stream, &bottleneck, faults, 1)];
            let used = use_of_the_path(&mut flows, 3);
            assert!(used >= least, "{stream:?} at {loss}: {used}");
        }
    }
}

#[test]
fn two_connections_share_the_path() {
    for (delay, late) in [(1, 0), (5, 0), (20, 0), (5, 1)] {
        let queue = RATE / 1000 * 4 * delay;
        let bottleneck = Bottleneck::new(RATE, queue, delay * MILLISECOND);
        let flow = |seed| Flow::new(Stream::Write, &bottleneck, Faults::default(), seed);
        let mut flows = vec![flow(1)];
        run(&mut flows, late * 1000 * MILLISECOND);
        let mut second = flow(2);
        second.world.now = Time::from_nanos(late * 1000 * MILLISECOND);
        flows.push(second);
        // Until then all have measured the path without a queue, and have the same share.
        let begin = (late + 5) * 1000 + 100 * delay;
        run(&mut flows, begin * MILLISECOND);
        let done = run(&mut flows, (begin + 3000) * MILLISECOND);
        let used = with_headers(done.iter().sum()) * 1000 / (3 * RATE);
        assert!(used >= 900, "{delay} ms: {used}");
        let (least, most) = (done.iter().min(), done.iter().max());
        let (least, most) = (least.expect("two"), most.expect("two"));
        assert!(
            least * 10 >= most * 8,
            "{delay} ms, {late} s late: {done:?}"
        );
    }
}

/// Both ends take in packets after up to 30 ms, on a path that is short beside that.
#[test]
fn ends_that_are_late_use_the_path() {
    for stream in [Stream::Write, Stream::Read] {
        for delay in [25_000, 5 * MILLISECOND] {
            for seed in 0..2 {
                let bottleneck =
                    Bottleneck::new(RATE, RATE / 2, delay).with_wake_ups(30 * MILLISECOND, seed);
                let mut flows = [Flow::new(stream, &bottleneck, Faults::default(), seed)];
                let used = use_of_the_path(&mut flows, 3);
                assert!(used >= 700, "{stream:?} {delay} ns, seed {seed}: {used}");
            }
        }
    }
}

/// Ends are late by up to 5 ms, and packets are lost in the runs that they leave in.
#[test]
fn more_loss_is_not_faster() {
    let used = |one_of: Option<u64>| -> u64 {
        let seeds = 0..3;
        let flows = seeds.map(|seed| {
            let mut bottleneck =
                Bottleneck::new(RATE, RATE / 2, 25_000).with_wake_ups(5 * MILLISECOND, seed);
            if let Some(one_of) = one_of {
                bottleneck = bottleneck.with_lost_runs(one_of, seed);
            }
            let faults = Faults::default();
            let mut flows = [Flow::new(Stream::Write, &bottleneck, faults, seed)];
            use_of_the_path(&mut flows, 3)
        });
        flows.sum()
    };
    let [none, few, many] = [None, Some(1000), Some(100)].map(used);
    let case = format!("{none}, {few}, {many}");
    assert!(none >= many && few >= many, "{case}");
    assert!(many >= 2400, "{case}");
}
