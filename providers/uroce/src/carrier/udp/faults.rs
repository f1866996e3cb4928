//! A bad network on demand:
//! `UROCE_FAULTS="loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=0-2ms,seed=7"`.
//!
//! Applied to each packet that this process sends, by a generator with a seed: the same packets in
//! the same order have the same faults. Packets without a fault leave together as on a good
//! network, so that a measurement shows the cost of faults, and not that of more system calls. With
//! `first=500`, only the first 500 packets do, and the network is good from then on: so a program's
//! behaviour after recovery, and its end, can be tested separately.

use super::path::Path;
use kit::sync::Mutex;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use uroce_engine::timer::Time;

/// The variable.
pub const VARIABLE: &str = "UROCE_FAULTS";
/// Shares are counted in millionths.
const MILLION: u32 = 1_000_000;
/// How late a packet is that others overtake: at least so much, and up to as much more.
const LATE: u64 = 200_000;
/// Packets held at most; beyond, they are not delayed.
const HELD: usize = 65_536;

/// The faults: shares in millionths, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Not sent.
    pub loss: u32,
    /// Sent twice.
    pub duplicate: u32,
    /// Sent 0.2 to 0.4 ms later than without.
    pub reorder: u32,
    /// One bit flipped.
    pub corrupt: u32,
    /// Every packet is held for a time between these, and none overtakes another by that.
    pub delay: (u64, u64),
    /// Where the generator starts.
    pub seed: u64,
    /// All this happens to so many packets, and to none after them. Without, to all.
    pub first: Option<u64>,
}

impl Faults {
    /// Reads the variable's value.
    ///
    /// # Errors
    /// The part that could not be understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            faults.apply(part).ok_or_else(|| part.to_owned())?;
        }
        Ok(faults)
    }

    fn apply(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        match name.trim() {
            "loss" => self.loss = share(value)?,
            "dup" => self.duplicate = share(value)?,
            "reorder" => self.reorder = share(value)?,
            "corrupt" => self.corrupt = share(value)?,
            "delay" => self.delay = delay(value)?,
            "seed" => self.seed = value.trim().parse().ok()?,
            "first" => self.first = Some(value.trim().parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

impl Faults {
    /// Which bit of a packet is flipped, if any, and how long it is held.
    fn draw(&self, state: &mut State, length: usize) -> (Option<(usize, u64)>, Delay) {
        let corrupt = state.happens(self.corrupt);
        let bits = u64::try_from(length).unwrap_or(0) * 8;
        let bit = state.below(bits);
        let late = state.happens(self.reorder);
        let more = state.below(LATE);
        let (least, most) = self.delay;
        let delay = Delay {
            regular: least + state.below(most - least + 1),
            late: if late { LATE + more } else { 0 },
        };
        let at = usize::try_from(bit / 8).unwrap_or(0);
        (corrupt.then_some((at, bit % 8)), delay)
    }
}

/// A number with up to so many decimals, times ten to their power.
fn fixed(text: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > decimals || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let digits = format!("{whole}{part:0<decimals$}");
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

fn share(value: &str) -> Option<u32> {
    let percent = value.trim().strip_suffix('%')?;
    let share = u32::try_from(fixed(percent.trim(), 4)?).ok()?;
    (share <= MILLION).then_some(share)
}

/// `2ms`, or `0-2ms`: the unit is that of both.
fn delay(value: &str) -> Option<(u64, u64)> {
    let value = value.trim();
    let end = value.find(|c: char| c.is_ascii_alphabetic())?;
    let (numbers, unit) = value.split_at(end);
    let decimals = match unit {
        "s" => 9,
        "ms" => 6,
        "us" => 3,
        "ns" => 0,
        _ => return None,
    };
    let (least, most) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let least = fixed(least.trim(), decimals)?;
    let most = fixed(most.trim(), decimals)?;
    (least <= most).then_some((least, most))
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it is sent where it lies.
    Intact,
    /// These are sent at once in its place; none if it is lost, or held.
    Replaced(Vec<Packet>),
}

/// A packet under way, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it goes.
    pub path: Path,
    /// Its source port.
    pub port: u16,
    /// The datagram.
    pub bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Held {
    until: u64,
    order: u64,
    packet: Packet,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        // The earliest is the greatest.
        (other.until, other.order).cmp(&(self.until, self.order))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Nanoseconds that a packet is held.
#[derive(Clone, Copy, Debug)]
struct Delay {
    regular: u64,
    late: u64,
}

#[derive(Debug)]
struct State {
    /// When the last packet that was not late is sent.
    last: u64,
    random: u64,
    /// Packets taken.
    taken: u64,
    order: u64,
    held: BinaryHeap<Held>,
}

/// The bad network of a process.
#[derive(Debug)]
pub struct BadNetwork {
    faults: Faults,
    state: Mutex<State>,
}

impl BadNetwork {
    /// One with these faults.
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        let state = State {
            last: 0,
            random: faults.seed,
            taken: 0,
            order: 0,
            held: BinaryHeap::new(),
        };
        Self {
            faults,
            state: Mutex::new(state),
        }
    }

    /// Draws the outcome of a packet of `length` bytes, of which `copy` makes a separate one.
    pub fn meet(&self, now: Time, length: usize, copy: impl FnOnce() -> Packet) -> Outcome {
        let state = &mut *self.state.lock();
        let faults = self.faults_now(state);
        // The same number of draws for every packet, so that they do not depend on each other.
        let [lost, twice] = [faults.loss, faults.duplicate].map(|at| state.happens(at));
        let draws = [(); 2].map(|()| faults.draw(state, length));
        let copies = match (lost, twice) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        // The flipped bit, and until when the copy is held.
        let mut outcomes = Vec::with_capacity(copies);
        for (flip, delay) in draws.into_iter().take(copies) {
            let until = self.until(state, now, delay);
            let is_held = until != now.nanos() && state.held.len() < HELD;
            outcomes.push((flip, is_held.then_some(until)));
        }
        match outcomes[..] {
            [] => return Outcome::Replaced(Vec::new()),
            [(None, None)] => return Outcome::Intact,
            _ => {}
        }
        let intact = copy();
        let mut at_once = Vec::new();
        for (flip, until) in outcomes {
            let mut packet = intact.clone();
            if let Some((at, bit)) = flip
                && let Some(byte) = packet.bytes.get_mut(at)
            {
                *byte ^= 1 << bit;
            }
            match until {
                None => at_once.push(packet),
                Some(until) => state.hold(until, packet),
            }
        }
        Outcome::Replaced(at_once)
    }

    /// Draws the faults of one more packet.
    fn faults_now(&self, state: &mut State) -> Faults {
        let is_over = self.faults.first.is_some_and(|first| state.taken >= first);
        state.taken += 1;
        if is_over {
            Faults::default()
        } else {
            self.faults
        }
    }

    /// When a packet is sent: not before those ahead of it, unless they are late.
    fn until(&self, state: &mut State, now: Time, delay: Delay) -> u64 {
        let until = now.plus(delay.regular).nanos().max(state.last);
        state.last = if self.faults.delay.1 == 0 { 0 } else { until };
        until.saturating_add(delay.late)
    }

    /// A packet whose time has come.
    pub fn due(&self, now: Time) -> Option<Packet> {
        let mut state = self.state.lock();
        if state.held.peek()?.until > now.nanos() {
            return None;
        }
        state.held.pop().map(|held| held.packet)
    }

    /// When the next packet's time comes.
    pub fn next(&self) -> Option<u64> {
        self.state.lock().held.peek().map(|held| held.until)
    }
}

impl State {
    fn hold(&mut self, until: u64, packet: Packet) {
        self.order += 1;
        self.held.push(Held {
            until,
            order: self.order,
            packet,
        });
    }

    /// The next random number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    fn happens(&mut self, share: u32) -> bool {
        self.below(MILLION.into()) < u64::from(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn packet(byte: u8) -> Packet {
        let path = Path {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            interface: 0,
            traffic_class: 0,
            hop_limit: 0,
            local: true,
        };
        Packet {
            path,
            port: 1,
            bytes: vec![byte; 50],
        }
    }

    /// The packets that are sent at once.
    fn take(network: &BadNetwork, now: Time, packet: &Packet) -> Vec<Packet> {
        match network.meet(now, packet.bytes.len(), || packet.clone()) {
            Outcome::Intact => vec![packet.clone()],
            Outcome::Replaced(packets) => packets,
        }
    }

    #[test]
    fn the_variable_is_read() {
        let text = "loss=1%, dup=0.5%,reorder=2%,corrupt=0.0001%,delay=0-2ms,seed=7,first=9";
        let faults = Faults {
            loss: 10_000,
            duplicate: 5_000,
            reorder: 20_000,
            corrupt: 1,
            delay: (0, 2_000_000),
            seed: 7,
            first: Some(9),
        };
        assert_eq!(Faults::parse(text), Ok(faults));
        assert_eq!(Faults::parse(""), Ok(Faults::default()));
        let delay = |text| Faults::parse(text).map(|faults| faults.delay);
        assert_eq!(delay("delay=1.5us"), Ok((1500, 1500)));
        for bad in [
            "loss",
            "loss=1",
            "loss=101%",
            "loss=%",
            "loss=-1%",
            "loss=+1%",
            "delay=2",
            "delay=2-1ms",
            "delay=1.5ns",
            "gain=1%",
            "seed=x",
            "first=-1",
            "delay=99999999999999s",
        ] {
            assert_eq!(Faults::parse(bad), Err(bad.to_owned()));
        }
    }

    #[test]
    fn shares_are_met_and_outcomes_repeat() {
        let text = "loss=10%,dup=10%,corrupt=10%,reorder=10%,seed=3";
        let faults = Faults::parse(text).expect("well formed");
        let run = || {
            let network = BadNetwork::new(faults);
            let sent: Vec<_> = (0..10_000u32)
                .map(|_| take(&network, Time::default(), &packet(0)))
                .collect();
            let held = network.state.lock().held.len();
            (sent, held)
        };
        let (sent, held) = run();
        assert_eq!((&sent, held), (&run().0, held));
        let all: usize = sent.iter().map(Vec::len).sum::<usize>() + held;
        // 0.9 * 1.1 of them, of which a tenth is late and a tenth is damaged.
        assert!((9_700..10_100).contains(&all), "{all}");
        assert!((850..1_150).contains(&held), "{held}");
        let damaged = sent
            .iter()
            .flatten()
            .filter(|one| **one != packet(0))
            .count();
        assert!((750..1_050).contains(&damaged), "{damaged}");
    }

    #[test]
    fn packets_without_a_fault_are_not_copied() {
        let network = BadNetwork::new(Faults::parse("loss=50%,seed=1").expect("well formed"));
        let outcomes: Vec<_> = (0..100)
            .map(|_| network.meet(Time::default(), 50, || unreachable!("no copy is needed")))
            .collect();
        let intact = outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Intact)
            .count();
        assert!((30..70).contains(&intact), "{intact}");
        let lost = Outcome::Replaced(Vec::new());
        assert_eq!(
            outcomes.iter().filter(|outcome| **outcome == lost).count(),
            100 - intact
        );
    }

    #[test]
    fn the_network_is_good_after_the_first_packets() {
        let taken = |text| {
            let network = BadNetwork::new(Faults::parse(text).expect("well formed"));
            let sent: Vec<_> = (0..20u8)
                .map(|byte| take(&network, Time::default(), &packet(byte)).len())
                .collect();
            (network, sent)
        };
        let (_, sent) = taken("loss=100%,first=15");
        assert_eq!(sent, [[0; 15].as_slice(), &[1; 5]].concat());
        assert_eq!(taken("loss=100%,first=0").1, [1; 20]);

        // Those that are not held by themselves overtake none that are.
        let (network, sent) = taken("delay=1-2ms,first=15");
        assert_eq!(sent, [0; 20]);
        let late = Time::from_nanos(2_000_000);
        let order: Vec<_> = std::iter::from_fn(|| network.due(late))
            .map(|held| held.bytes[0])
            .collect();
        assert!(order.is_sorted() && order.len() == 20, "{order:?}");
        assert_eq!(take(&network, late, &packet(0)).len(), 1);
    }

    #[test]
    fn held_packets_come_when_their_time_has_come() {
        let faults = Faults::parse("delay=1-2ms").expect("well formed");
        let network = BadNetwork::new(faults);
        for byte in 0..100 {
            assert_eq!(take(&network, Time::default(), &packet(byte)), []);
        }
        let next = network.next().expect("held");
        assert!((1_000_000..=2_000_000).contains(&next));
        assert_eq!(network.due(Time::from_nanos(next - 1)), None);
        assert!(network.due(Time::from_nanos(next)).is_some());
        let late = Time::from_nanos(2_000_000);
        assert_eq!(std::iter::from_fn(|| network.due(late)).count(), 99);
        assert_eq!(network.next(), None);
    }
}
