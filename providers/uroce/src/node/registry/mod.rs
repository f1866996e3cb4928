//! The queue pairs of a process: by index ([`Table`]), by QP number ([`Numbers`]), by multicast
//! group ([`Groups`]).
//!
//! *Invariants.* A number that is gone is given again as late as possible, so that packets for it
//! find no queue pair for a while. The sockets are members of a group as long as a queue pair is.
//!
//! *Locks.* A call to a queue pair holds the read lock of its place in the table; taking the queue
//! pair out of the table takes the write lock, and so waits for those calls. No other lock of this
//! folder is held during a call.

mod groups;
mod numbers;
mod table;

pub(super) use groups::Groups;
pub(super) use numbers::Numbers;
pub(super) use table::{Entry, NEVER, Table};
