//! One-sided operations: the tables by which a process writes and reads the memory of another one
//! on the same host. `qp` decides when to use them; errors and all other cases go by packets.
//!
//! | type | contents |
//! | --- | --- |
//! | `Gate` | the rights that a queue pair grants its peer: identity, domain, P_Key, access, whether there are credits. Published while requests are accepted |
//! | `Key` | a region: tag, access, domain, bounds, and the place of its bytes. Published while the slot is locked for changes (`memory::Keys`) |
//! | `record` | the words of either under a sequence lock; a reader never waits, because the writer may have died |
//! | `Shown` | gate and key as read, with their change counts; while those are equal, nothing is read again |
//! | `Claim` | the initiator's entry in the link: the gate, key and range that it uses |
//! | `Credit` | the number of messages that a queue pair has receive requests for, in a separate cache line |
//!
//! *Copies.* The kernel copies (process_vm_writev(2), process_vm_readv(2)) and answers EFAULT for
//! missing pages. A region in a file of which nothing can be taken away is mapped instead
//! ([`super::mapped`]). Other files are not: a process that shortens its file would end every
//! process that has it mapped by SIGBUS.
//!
//! *Revocation.* An initiator writes its claim, and then reads the peer's tables. A process that
//! deregisters memory or closes a gate writes its table, and then reads the claims of all peers. A
//! full fence is between the two steps on each side, so at least one of the two sees the other.
//! ibv_dereg_mr(3) waits until no claim names the memory; meanwhile packets may still use the
//! region.
//!
//! *Stopped initiators.* The claim contains the range in the target in the form in which the kernel
//! reads it at the start of the system call (`struct iovec`), in the link, where the target can
//! write it. Revocation sets its length to 0, so a copy that has not begun moves nothing, and the
//! request continues by packets, which find the key removed. A copy that has begun is inside a
//! system call of at most 4 MiB, in which no thread can be stopped. A thread that /proc shows as
//! stopped, or as blocked in another system call, is therefore not awaited. A running thread is
//! awaited for a second; then ibv_dereg_mr(3) and ibv_rereg_mr(3) answer EBUSY, nothing has
//! changed, and the log names the process. A gate is closed with the queue pair locked for at most
//! 2 ms, and the rest of the second is waited without a lock in ibv_modify_qp(3) or
//! ibv_destroy_qp(3).
//!
//! *The right process.* A copy names its target by process number, which the kernel may give to
//! another process once the peer has ended and its parent knows; and a peer that executes another
//! program keeps its number. So the initiator asks before a copy whether the number is still the
//! peer's, and its program the same, and after it whether they were all the time
//! (`WatchedProcess::has_its_number`); if not, the request goes by packets, and fails there. When a
//! peer has ended, the process takes away its own copies to it that have not begun
//! ([`claims::withdraw`]), so that one of its threads may be stopped between the question and the
//! system call. What remains: the whole process is stopped there, the peer ends meanwhile, its
//! number becomes that of another process of the user, and the copy is a write. The kernel has no
//! copy that names its target by a descriptor.
//!
//! *Limits.* Requests of more than 64 MiB or 8 pieces, atomics, memory windows and the own process
//! go by packets. If the kernel denies the calls (EPERM, ENOSYS), the queue pair uses packets from
//! then on. If memory was unmapped while registered, the copy ends early and the request is
//! repeated by packets.
//!
//! Tests: `providers/uroce/tests/onesided.rs` and `neighbours.rs`.

mod claims;
mod credit;
mod gate;
mod key;
mod record;
mod rest;
#[cfg(test)]
mod tests;

pub use claims::{Claim, Claims, Patience, Use};
pub(super) use claims::{PAUSE, SPINS, claims_anything, take_away, withdraw};
pub use credit::Credit;
pub use gate::{Gate, Right};
pub use key::Key;
pub(super) use rest::is_at_rest;

use super::segment::{PeerSegment, Segment};

/// Where the parts of the tables begin, in words from the beginning of [`Segment::tables`]. Gates
/// are as many as a process has queue pairs, and so are credits; keys as many as there is room for,
/// the rest is not shown.
const GATES: usize = 0;
const CREDITS: usize = GATES + QPS * gate::WORDS;
const KEYS: usize = CREDITS + QPS * credit::WORDS;
/// Queue pairs that a process may have.
const QPS: usize = 1 << 14;

fn part<T>(tables: &[T], start: usize, words: usize) -> Option<&[T]> {
    tables.get(start..start.checked_add(words)?)
}

/// The words of a queue pair, in the part of the tables that begins there; `None` for an invalid
/// index.
#[inline]
fn of_qp<T>(tables: &[T], start: usize, index: u32, words: usize) -> Option<&[T]> {
    let index = usize::try_from(index).ok().filter(|index| *index < QPS)?;
    part(tables, start + index * words, words)
}

/// The place of a queue pair's gate.
#[inline]
fn gate_at<T>(tables: &[T], index: u32) -> Option<&[T]> {
    of_qp(tables, GATES, index, gate::WORDS)
}

/// The place of a queue pair's credit.
#[inline]
fn credit_at<T>(tables: &[T], index: u32) -> Option<&[T]> {
    of_qp(tables, CREDITS, index, credit::WORDS)
}

/// The place of a key; `None` for one that is not shown.
fn key_at<T>(tables: &[T], index: u32) -> Option<&[T]> {
    let start = usize::try_from(index).ok()?.checked_mul(key::WORDS)?;
    part(tables, KEYS.checked_add(start)?, key::WORDS)
}

/// A gate that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateSeen {
    index: u32,
    /// How often it had been changed.
    count: u64,
}

/// A gate and a key, as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The gate.
    pub gate: Gate,
    /// The region of the key.
    pub key: Key,
    index: u32,
    rkey: u32,
    /// How often the gate and the key had been changed.
    counts: [u64; 2],
}

impl Shown {
    /// Whether it is of that gate and that key.
    #[must_use]
    #[inline]
    pub fn is_of(&self, index: u32, rkey: u32) -> bool {
        self.index == index && self.rkey == rkey
    }

    /// The key.
    #[must_use]
    #[inline]
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// How often the key had been changed.
    #[must_use]
    #[inline]
    pub fn key_count(&self) -> u64 {
        let [_, count] = self.counts;
        count
    }

    /// Whether the other is of the same key, which has not been changed between the two.
    #[must_use]
    pub fn has_key_of(&self, other: &Self) -> bool {
        let ([_, count], [_, others]) = (self.counts, other.counts);
        self.rkey == other.rkey && count == others
    }
}

/// The tables of a peer.
impl PeerSegment {
    fn read_gate(&self, index: u32) -> Option<(Gate, u64)> {
        let (count, words) = record::read(gate_at(self.tables(), index)?)?;
        Some((Gate::of(words)?, count))
    }

    /// `None` also for a key that is not shown, or of another tag.
    fn read_key(&self, key: u32) -> Option<(Key, u64)> {
        let (count, words) = record::read(key_at(self.tables(), key >> 8)?)?;
        let there = Key::of(words)?;
        (u32::from(there.tag) == key & 0xff).then_some((there, count))
    }

    /// The gate of the queue pair of that index, and a key; `None` unless both exist.
    #[must_use]
    pub fn shown(&self, index: u32, rkey: u32) -> Option<Shown> {
        let (gate, gate_count) = self.read_gate(index)?;
        let (key, key_count) = self.read_key(rkey)?;
        Some(Shown {
            gate,
            key,
            index,
            rkey,
            counts: [gate_count, key_count],
        })
    }

    /// The gate of the queue pair of that index.
    #[must_use]
    pub fn gate_seen(&self, index: u32) -> Option<(Gate, GateSeen)> {
        let (gate, count) = self.read_gate(index)?;
        Some((gate, GateSeen { index, count }))
    }

    /// Whether the gate is still the one that was read.
    #[must_use]
    #[inline]
    pub fn gate_is_still(&self, seen: GateSeen) -> bool {
        let place = gate_at(self.tables(), seen.index);
        place.is_some_and(|place| record::is_still(place, seen.count))
    }

    /// The credit of the queue pair of that index. It is good as long as the gate is that was read
    /// before.
    #[must_use]
    pub fn credit(&self, index: u32) -> Option<Credit> {
        Credit::read(credit_at(self.tables(), index)?)
    }

    /// Whether gate and key are still those that were read.
    #[must_use]
    #[inline]
    pub fn still_shows(&self, shown: &Shown) -> bool {
        let tables = self.tables();
        let [gate, key] = shown.counts;
        gate_at(tables, shown.index).is_some_and(|place| record::is_still(place, gate))
            && key_at(tables, shown.rkey >> 8).is_some_and(|place| record::is_still(place, key))
    }
}

/// The tables of this process.
impl Segment {
    /// Shows a credit. One at a time for each index.
    #[inline]
    pub fn show_credit(&self, index: u32, credit: Credit) {
        if let Some(place) = credit_at(self.tables(), index) {
            credit.show(place);
        }
    }

    /// Shows a gate. One at a time for each index.
    pub fn show_gate(&self, index: u32, gate: Option<Gate>) {
        if let Some(place) = gate_at(self.tables(), index) {
            record::write(place, gate.map_or([0; gate::WORDS - 1], Gate::words));
        }
    }

    /// Publishes a key's index. One call at a time for each index.
    pub fn show_key(&self, index: u32, key: Option<Key>) {
        if let Some(place) = key_at(self.tables(), index) {
            record::write(place, key.map_or([0; key::WORDS - 1], Key::words));
        }
    }
}
