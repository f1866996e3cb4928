//! RDMA in user space: RoCE v2 devices over ordinary network interfaces, without a kernel module
//! and without root. For its use see docs/uroce.md.
//!
//! | module | contents |
//! | --- | --- |
//! | [`list`], [`config`], [`device`], [`netdev`], `files` | which devices exist; the port of each, which follows a network interface |
//! | [`context`] | an open device: the provider's side of every verb (`kit::provider::Provider`) |
//! | `qp`, `xrc`, `raw`, `address` | queue pairs over the protocol engine (`uroce_engine`), XRC targets shared between processes, raw Ethernet queue pairs, address handles |
//! | [`memory`], [`cq`], [`channel`], [`receive`] | the objects that queue pairs use; none of them knows the protocol or a network socket |
//! | [`node`] | the part of a process that all its devices share: QP numbers, received packets, timers, the progress thread |
//! | [`cm`] | the connection manager of these devices, for librdmacm |
//! | [`carrier`] | the ways between processes: UDP, and shared memory on one host |
//!
//! A verb runs on the application's thread. Posting transmits at once, or behind others a moment
//! later (`node::progress::batches`); polling an empty queue
//! processes received packets. The progress thread of the node does the same for threads that
//! sleep.
//!
//! *Locks.* While the lock of a queue pair is held, the locks of memory keys, receive queues,
//! completion queues and the carrier's sending side may be taken, never that of another queue pair.
//! Inside, a window's key precedes its region's.
//!
//! *Environment variables* that name devices, carriers or files are ignored in set-user-ID
//! programs.
//!
//! # Tests of failures
//!
//! The tests in `tests/` run as root in separate network namespaces. The processes of a test have
//! roles and communicate with it over pipes. `UROCE_CARRIER=shm` and `UROCE_CARRIER=udp` run all
//! tests over one carrier. Variables prolong some tests.
//!
//! Ten minutes after its start a process of a test is taken to hang; `WATCHDOG_SECONDS` sets more
//! for longer tests.
//!
//! | test | shows | longer with |
//! | --- | --- | --- |
//! | `verbs` | data moves between two open devices of one process over UDP | |
//! | `processes` | after SIGKILL of a process at a random moment, its peer's request ends in RETRY_EXC, threads and descriptors are as before, the next pair works, no slot stays taken; 64 processes move data at once | `UROCE_KILL_ROUNDS`, `UROCE_PROCESSES` |
//! | `rendezvous` | the rendezvous of two processes, one of which is stopped, is killed or has a full socket at each turn: it gets the link afterwards, or another process does | |
//! | `mesh` | processes that connect all to all, or each to its neighbours in a ring: every connection moves data | `UROCE_MESH`, `UROCE_MESH_NEIGHBOURS` |
//! | `hostile` | packets with a valid ICRC at live queue pairs: from a stranger who knows keys and sequence numbers, and from the peer's address without that knowledge | `UROCE_HOSTILE_PACKETS` |
//! | `strangers` | the possible actions of another user of the host | |
//! | `scale` | thousands of connected queue pairs, at most 16 KiB each, all move data | `UROCE_SCALE` |
//! | `forks` | children that use, close and open devices; children that outlive the parent; exits without closing | |
//! | `soak` | mixed traffic and new connections on a bad network: memory, descriptors and threads do not grow | `UROCE_SOAK_ROUNDS` |
//! | `lossy` | the bytes that long messages cost on a network with loss and reordering | |
//! | `onesided` | writes and reads between processes of a host: a stopped target, wrong keys and ranges, a file that is shortened, deregistration under a stream of writes and while the writer is stopped | `UROCE_DEREG_ROUNDS` |
//! | `credits` | messages on the eager path: credits, their revocation, failures between | |
//! | `stalled` | each operation in three sizes ends within its limit, over each carrier: towards a peer that is stopped, was killed, has a full ring, never polls, or has no receive request; from a program that polls, sleeps or computes | |
//! | `neighbours` | a process of the same user that writes arbitrary data into the memory it shares with a neighbour: the neighbour survives, serves others, and no wait is unbounded | `UROCE_SCRIBBLES` |
//! | `xrc_stopped` | calls about an XRC target of a stopped process | |
//! | `shortage` | without free descriptors, opening fails entirely and an open device continues; with a file size limit (RLIMIT_FSIZE), no shared memory and no signal | |
//! | `unmapped` | memory that is unmapped while it is registered, over each carrier: messages, datagrams, one-sided and atomic operations, retransmissions; by the progress thread, beside a thread that polls another queue, and at the end of a queue pair | |
//! | `raw`, `account` | raw packets and flow rules; counters | |
//!
//! A process that only receives does not learn from the protocol that its peer is gone; it has to
//! send a request. Any host that can send from the peer's address and knows sequence numbers can
//! end a connection, as with every RoCE.
#![forbid(unsafe_code)]

mod address;
pub mod carrier;
pub mod channel;
pub mod clock;
pub mod cm;
pub mod config;
pub mod context;
pub mod cq;
pub mod device;
mod few;
mod files;
mod limits;
pub mod list;
pub mod memory;
mod named;
#[cfg(test)]
#[path = "../tests/alone/namespace.rs"]
mod namespace;
pub mod netdev;
pub mod node;
mod objects;
mod qp;
mod raw;
pub mod receive;
mod span;
mod threads;
mod xrc;
