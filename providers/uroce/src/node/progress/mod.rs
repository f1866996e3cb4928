//! The threads that move queue pairs along, and when they do.
//!
//! | module | contents |
//! | --- | --- |
//! | `poll` | one check of all sources of packets |
//! | `pass`, `lazy_pass` | the calls to queue pairs that one check leads to, and the sending at its end |
//! | `deadlines`, `timers` | when a queue pair, or a task of the node, is due |
//! | `thread`, `alarm`, `idle_backoff` | the progress thread, the events that wake it, and when it leaves the sockets to pollers |
//! | `busy_poll` | when it looks for packets for a moment before it sleeps |
//! | `poll_again` | whether it leaves packets to a thread that polled just now |
//! | `moderation` | how often packets wake it while threads post |
//! | `batches` | queue pairs whose requests wait for others, to leave together |
//! | `watch` | descriptors that the progress thread waits on for others |
//! | `failing` | queue pairs that failed inside a call that may not wait |
//! | `unreadable` | sockets that a sandbox forbids to read |
//! | `yield_policy` | when pollers give the processor to other programs |
//!
//! *Time.* The clock is read when a request is posted and when packets have come, once each. A look
//! that finds nothing does not read it: `CLOCK_MONOTONIC_COARSE`, one read of memory, shows whether
//! a deadline may have come. Where the kernel does not trust the processor's counter (many virtual
//! machines), reading the clock is a system call.
//!
//! *Batches.* By UDP a system call costs several times as much as a short message. So requests that
//! are posted while others are under way may wait and leave together; the engine decides which
//! (`QueuePair::may_batch`). They leave with the next post that may not wait, packet from the peer,
//! poll of an empty queue, or call of [`super::Node::armed`], and after 200 µs by the progress
//! thread, which a timer wakes.
//!
//! *The progress thread* sleeps in epoll on the sockets, the watched descriptors, a kick and the
//! next deadline. When it wakes it checks only the sources that epoll reports. While a program
//! polls (32 polls within 1 ms, and no thread announced that it will wait) it leaves the sockets
//! alone, for 1 ms a time or an eighth of the time that this has lasted, up to 8 ms; 1 ms where a
//! connection has a timeout under 16 ms. [`super::Node::armed`] ends that at once. If packets are
//! still there afterwards, and 1 ms passes without a poll, the program polls rarely and spins on
//! memory in between (`ib_write_lat`): the thread then stays awake until it has found nothing for
//! 10 ms. Awake, it leaves packets to a poller that polled within 20 µs and polls again within 1
//! ms: on one processor each turn of the thread stops the poller. It does not wait for one that ran
//! and did not poll (`poll_again`). It runs in short slices
//! (sched_setattr(2), heeded since Linux 6.12) and at a nice value 10 lower, if the process may.
//!
//! A stream that no program polls for (RDMA writes, mostly) is received by the progress thread
//! alone. It polls the sockets for up to 64 µs before it sleeps then (`busy_poll`).
//!
//! A poll that finds completions and leaves more in the queue counts as a poll, and one of eight
//! looks for packets. A thread that works off the completions of many queue pairs would share its
//! processor with the progress thread otherwise, which would receive further messages for receive
//! requests that are not posted again yet.
//!
//! *Slow processors*, or emulated ones. A look that finds packets may take as long as many that
//! find none: longer than 1 ms in emulation. Therefore it counts as so many polls, and packets that
//! wait meanwhile are not left.
//!
//! *Few processors.* With more programs than processors, a program may not poll because another one
//! has its processor. That is no reason to stay awake: the thread would take three of four packets
//! of MPI ranks, by the kernel's copies, and each one would stop a rank. Therefore the thread looks
//! whether the one that polled last could run (proc(5)) but did not, and counts its polls over the
//! time for which it ran, within 8 ms.
//!
//! A thread that posts all the time and polls rarely (64 queue pairs, one poll for 1600 requests)
//! leaves its packets to the progress thread, which then looks every 100 to 400 µs instead of for
//! each packet (`moderation`).
//!
//! *Locks.* See `poll`. Deadlines of queue pairs are atomics in the table; the heap of timers has a
//! separate lock, under which no function is called.

pub(super) mod alarm;
pub(super) mod batches;
mod busy_poll;
pub(super) mod deadlines;
mod failing;
pub(super) mod idle_backoff;
pub(super) mod lazy_pass;
mod moderation;
pub(super) mod pass;
pub(super) mod poll;
mod poll_again;
pub(super) mod thread;
mod timers;
mod unreadable;
pub(super) mod watch;
mod yield_policy;
