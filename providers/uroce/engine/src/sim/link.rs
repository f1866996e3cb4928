//! A link with faults, and the random numbers they come from.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::timer::Time;

/// Random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`; 0 for 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// True so many times of a thousand.
    pub fn per_mille(&mut self, share: u16) -> bool {
        self.below(1000) < u64::from(share)
    }
}

/// Faults, each in packets of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost.
    pub loss: u16,
    /// Delivered twice.
    pub duplicate: u16,
    /// Delayed by ten times the ordinary delay.
    pub reorder: u16,
    /// One bit flipped.
    pub corrupt: u16,
}

/// Ordinary delay of the link, in nanoseconds.
const DELAY: u64 = 2_000;

/// A place on the way that carries so much in a time, in each direction. Links may share it.
#[derive(Clone, Debug)]
pub struct Bottleneck(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    /// Bytes a second.
    rate: u64,
    /// Bytes that wait at most.
    queue: u64,
    /// Nanoseconds on the way behind it.
    delay: u64,
    /// When each direction has carried all it has taken.
    free: [Time; 2],
    lost: u64,
    wake_ups: Option<WakeUps>,
    runs: Option<Runs>,
}

/// Packets that leave together, and are lost together: a kernel takes a run of packets as one.
#[derive(Debug)]
struct Runs {
    /// One of so many is lost.
    one_of: u64,
    random: Random,
    /// The run of each direction: when it left, how many packets it has, and whether it is lost.
    last: [(Time, u32, bool); 2],
}

/// Packets of a run at most.
const RUN: u32 = 62;

impl Runs {
    /// Whether a packet that leaves now is lost.
    fn loses(&mut self, now: Time, to: usize) -> bool {
        let Some((left, packets, lost)) = self.last.get_mut(to) else {
            return false;
        };
        if *left != now || *packets >= RUN {
            *left = now;
            *packets = 0;
            *lost = self.random.below(self.one_of) == 0;
        }
        *packets += 1;
        *lost
    }
}

/// The moments at which receivers look for packets.
#[derive(Debug)]
struct WakeUps {
    /// Nanoseconds from one to the next at most.
    most: u64,
    random: Random,
    /// The next of each side.
    next: [Time; 2],
}

impl WakeUps {
    /// When a side takes in a packet that arrives at this time.
    fn after(&mut self, arrival: Time, to: usize) -> Option<Time> {
        let next = self.next.get_mut(to)?;
        while *next < arrival {
            *next = next.plus(1 + self.random.below(self.most));
        }
        Some(*next)
    }
}

impl Bottleneck {
    /// Carries `rate` bytes a second, with a queue of so many bytes, and a delay in nanoseconds.
    #[must_use]
    pub fn new(rate: u64, queue: u64, delay: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            rate,
            queue,
            delay,
            free: [Time::default(); 2],
            lost: 0,
            wake_ups: None,
            runs: None,
        })))
    }

    /// The same, whose receivers take in packets at random moments, at most so many nanoseconds
    /// apart: as processes do that wait for a timer or for the processor.
    #[must_use]
    pub fn with_wake_ups(self, most: u64, seed: u64) -> Self {
        self.0.borrow_mut().wake_ups = Some(WakeUps {
            most,
            random: Random::new(seed),
            next: [Time::default(); 2],
        });
        self
    }

    /// The same, which loses one of so many runs of packets, each as a whole. Packets that leave at
    /// one time make up runs.
    #[must_use]
    pub fn with_lost_runs(self, one_of: u64, seed: u64) -> Self {
        self.0.borrow_mut().runs = Some(Runs {
            one_of,
            random: Random::new(seed),
            last: [(Time::default(), RUN, false); 2],
        });
        self
    }

    /// Packets that the queue had no room for.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.borrow().lost
    }

    /// How long a packet takes that leaves now; `None` if it is lost.
    fn carry(&self, now: Time, to: usize, bytes: usize) -> Option<u64> {
        let state = &mut *self.0.borrow_mut();
        if state.runs.as_mut().is_some_and(|runs| runs.loses(now, to)) {
            return None;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let time = |bytes: u64| bytes.saturating_mul(1_000_000_000) / state.rate.max(1);
        let free = state.free.get_mut(to)?;
        let waits = free.nanos().saturating_sub(now.nanos());
        if waits > time(state.queue) {
            state.lost += 1;
            return None;
        }
        let takes = waits + time(bytes);
        *free = now.plus(takes);
        let arrival = now.plus(takes + state.delay);
        let taken_in = match &mut state.wake_ups {
            Some(wake_ups) => wake_ups.after(arrival, to)?,
            None => arrival,
        };
        Some(taken_in.nanos() - now.nanos())
    }
}

type Queued = Reverse<(Time, u64, usize, Vec<u8>)>;

/// Packets on the way.
#[derive(Debug)]
pub struct Link {
    faults: Faults,
    random: Random,
    sent: u64,
    under_way: BinaryHeap<Queued>,
    /// Where packets wait for others.
    pub bottleneck: Option<Bottleneck>,
    /// Sides that hear nothing any more.
    pub deaf: [bool; 2],
}

impl Link {
    /// An empty link.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Random::new(seed),
            sent: 0,
            under_way: BinaryHeap::new(),
            bottleneck: None,
            deaf: [false; 2],
        }
    }

    /// Takes a datagram for one side.
    pub fn send(&mut self, now: Time, to: usize, bytes: Vec<u8>) {
        if self.random.per_mille(self.faults.loss) || self.deaf.get(to) == Some(&true) {
            return;
        }
        if self.random.per_mille(self.faults.duplicate) {
            self.queue(now, to, bytes.clone());
        }
        self.queue(now, to, bytes);
    }

    fn queue(&mut self, now: Time, to: usize, mut bytes: Vec<u8>) {
        if self.random.per_mille(self.faults.corrupt) {
            let length = u64::try_from(bytes.len()).unwrap_or(0);
            let at = usize::try_from(self.random.below(length)).unwrap_or(0);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << self.random.below(8);
            }
        }
        let mut delay = DELAY;
        if let Some(bottleneck) = &self.bottleneck {
            let Some(takes) = bottleneck.carry(now, to, bytes.len()) else {
                return;
            };
            delay += takes;
        }
        if self.random.per_mille(self.faults.reorder) {
            delay += 9 * DELAY + self.random.below(10 * DELAY);
        }
        self.sent += 1;
        let entry = (now.plus(delay), self.sent, to, bytes);
        self.under_way.push(Reverse(entry));
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse((time, ..))| *time)
    }

    /// A packet that has arrived, and at which side.
    pub fn receive(&mut self, now: Time) -> Option<(usize, Vec<u8>)> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse((_, _, to, bytes)) = self.under_way.pop()?;
        Some((to, bytes))
    }

    /// Loses everything on the way.
    pub fn lose_all(&mut self) {
        self.under_way.clear();
    }
}
