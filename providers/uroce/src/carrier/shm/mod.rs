//! Carrier 2: shared memory between processes of one host, one user, one network namespace and one
//! PID namespace.
//!
//! A destination is on this host if its address belongs to the port; the slot in the QP number
//! names its process.
//!
//! | type | contents |
//! | --- | --- |
//! | [`Segment`], `PeerSegment` | the memory that a process publishes to its peers, read-only for them: a header (version, slot, generation, whether its progress thread sleeps) and the tables of one-sided operations |
//! | [`Link`] | the memory of two processes: a ring in each direction, and the claims of one-sided operations |
//! | `RendezvousSocket` | the rendezvous socket of the process, and connections to the one that listens; the kernel reports which process sends |
//! | `Peers`, [`Peer`] | processes with a link: segment, link, and a pidfd that reports their end |
//! | `Connector` | rendezvous with others: one `rendezvous::Session` each, packets that wait for a link, queue pairs that wait for one |
//! | `Traffic` | when a link is worth its cost: after so many packets by UDP ([`Links`]) |
//! | `attention` | the part of a segment that says whether a process sleeps; the steps of threads that sleep and that wake others |
//! | `Bells` | peers that could not be woken, and have to be woken again |
//! | [`Directory`] | peers and connector, as the rest of the process uses them |
//! | `onesided` | gates, keys and claims of one-sided operations |
//! | `mapped` | regions of peers that are mapped here |
//!
//! *Connecting* (`rendezvous`) never blocks. It begins when a link is worth its cost (`traffic`),
//! or when the peer begins. Until a link exists, packets use UDP. With `UROCE_CARRIER=shm`,
//! connecting begins at once, and packets wait for the link, up to 1 MiB for each process and 16
//! MiB in total, and are lost beyond that. Requests of unreliable connections, which nothing
//! repeats, wait before they become packets (`qp::link_wait`).
//!
//! *Rings* (`ring`). A record begins at a multiple of 64 bytes and does not wrap around. Its first
//! word is written last, so one cache line carries a short message and its arrival. The consumer
//! zeroes the first word of each line of a record before it releases the record: data of one lap
//! cannot be mistaken for records of the next, and the producer does not have to wait for a cache
//! line that the consumer only holds for reading. A ring has 128 KiB and serves all queue pairs of
//! the two processes. Packets in a ring are those of the engine without an ICRC. A packet without
//! room waits, and its queue pair sends no other until there is room. The data of a message is
//! copied once into the ring and once out of it. A consumer reports each eighth of the ring that it
//! has taken, in the middle of a look, too.
//!
//! *Eager messages and credits* are described in `qp::fast_path`. A message costs no system call
//! except a look at the sockets every 256 turns (every 16, if a millisecond has passed since the
//! last look), no allocation for inline data or up to two pieces of memory, and no reading of the
//! clock unless completions have time stamps.
//!
//! *Wake-ups.* A process whose progress thread sleeps sets `SLEEPS` in its segment, and `AWAITS` if
//! it waits for room in a ring. A process that writes or consumes a record checks the flags
//! afterwards, and sends one message to the rendezvous socket for each sleep, again after a while
//! if there is no room for it (`bells`). There is no full fence between the two steps, so a process
//! that falls asleep at that moment may be missed. Therefore the progress thread checks the rings
//! after it has set the flag, and again a millisecond later; and whether it waits for room or for
//! outcomes, which other threads of its process write. Pollers check up to 16 rings on every turn;
//! of more, the recently active ones and 8 others in turn.
//!
//! *Memory order* is argued at each place: in `ring`, in `onesided::claims`, in `onesided::record`
//! (a sequence lock) and in `kit::sys::lock`. Other relaxed accesses of this carrier are counters
//! and hints (`traffic`, `Peer::is_given_up`, `onesided::Credit` within its release): a late value
//! costs a packet by UDP or one more look.
//!
//! *Trust.* The boundary is the user, as with ptrace(2). Every value that a peer could have written
//! is checked where it is read, and a peer that breaks a rule is ignored from then on. Only its
//! owner can write a segment, through any descriptor (`F_SEAL_FUTURE_WRITE`, `kit::sys::shared`).
//! Two processes both write only their link, which no third process has.
//!
//! *Ends.* All of this is memfds and sockets, which disappear with their processes. A pidfd reports
//! the end of a peer. Requests whose outcome is then unknown go to the engine, whose retries fail.
//!
//! *Bounds.* Every request is bounded by timeout times retries, whatever the peer does
//! (`qp::stall`): when a timeout passes, the queue pair checks whether the peer has consumed
//! anything. After `retry_cnt` + 1 checks in vain, and not before 100 ms, the request ends with
//! RETRY_EXC. Timeout 0 means for ever. For UC and UD, records that a peer does not consume within
//! a second are lost.
//!
//! Tests: `ring::tests` (records arrive unchanged; arbitrary words in a ring do no harm),
//! `rendezvous::simulation`; `UROCE_CARRIER=shm` and `=udp` run the tests of
//! `providers/uroce/tests` over one carrier.

mod attention;
mod bells;
mod complaint;
mod connector;
mod directory;
mod home;
mod link;
mod mapped;
mod onesided;
mod peer;
mod peers;
mod rendezvous;
mod rendezvous_socket;
mod ring;
mod segment;
#[cfg(test)]
mod tests;
mod traffic;
mod watched_process;
mod wire;

pub use attention::{AWAITS, CLOSED, SLEEPS};
pub use complaint::{PATIENCE, complain, still_used};
pub use connector::{Linked, Route};
pub use directory::Directory;
pub use link::Link;
pub use mapped::{IDLE, MappedRegion, WORTHWHILE};
pub use onesided::{Credit, Gate, GateSeen, Key, Patience, Right, Shown, Use};
pub use peer::{Peer, RoomWait};
pub use peers::Census;
pub use ring::{Broken, Consumer, PREFIX, Record, SHORT};
pub use segment::{PeerSegment, SEGMENT, Segment, TABLES};
pub use traffic::Links;
pub use wire::{
    FEW, Few, Fill, Front, Header, MESSAGE, MESSAGE_HEAD, MESSAGE_MAX, NotPut, Outcome, PACKET,
    Put, Room, SHARE, SendUpdates,
};

/// Nanoseconds after which a sleeping thread can see all that was shown before others could see
/// that it sleeps: many times as long as a write stays in a processor's store buffer.
pub const LATE: u64 = 1_000_000;
