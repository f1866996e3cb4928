//! The transport from queue pairs to the network and to other processes: passed to each thread that
//! calls queue pairs.
//!
//! [`Transport`] owns the queue pairs, their deadlines, the sockets and the links. It knows nothing
//! of packets on their way in. Its members lock for themselves.

use super::outbound::Outbound;
use super::progress::alarm::Alarm;
use super::progress::batches::Batches;
use super::progress::deadlines::{Deadlines, Task};
use super::registry::{NEVER, Numbers, Table};
use crate::carrier::shm::{Directory, IDLE};
use crate::carrier::udp::{Outbox, Slot, Sockets};
use crate::cm::Cm;
use std::sync::Arc;
use uroce_engine::timer::Time;

/// The queue pairs, their deadlines, and the ways out. Knows nothing of packets on their way in.
pub(super) struct Transport {
    pub numbers: Numbers,
    pub table: Table,
    pub outbound: Outbound,
    pub deadlines: Deadlines,
    pub alarm: Alarm,
    /// The queue pairs whose requests wait for others.
    pub batches: Batches,
    /// Processes of this host that can be reached by shared memory; `None` if that is not wanted,
    /// or is not available.
    pub directory: Option<Directory>,
    /// Only shared memory leads to this host's addresses.
    pub only_local: bool,
    /// By which packets for other processes of the host are handed on.
    pub slot: Arc<Slot>,
    /// Receives the packets for queue pair 1.
    pub cm: Arc<Cm>,
}

impl Transport {
    /// The index of a QP number of this process, or of one that it has taken over.
    #[inline]
    pub fn index(&self, qpn: u32) -> Option<u32> {
        self.numbers.index(qpn)
    }

    /// The sockets of port 4791.
    pub fn sockets(&self) -> &Sockets {
        self.outbound.sockets()
    }

    /// The sender's view of shared memory.
    pub fn local(&self) -> Option<(&Directory, bool)> {
        let directory = self.directory.as_ref()?;
        Some((directory, self.only_local))
    }

    /// Sends the packets of an outbox.
    pub fn send(&self, outbox: &mut Outbox, now: Time) {
        self.outbound.send(outbox, now);
        if self.outbound.is_bad() {
            self.schedule_held();
        }
    }

    /// Sends packets whose simulated delay is over.
    pub fn send_held(&self, now: Time) {
        self.outbound.send_held(now);
        self.schedule_held();
    }

    /// Has the timers know of packets that the bad network holds.
    fn schedule_held(&self) {
        if let Some(time) = self.outbound.next_held() {
            self.add_task(Task::HeldPackets, time);
        }
    }

    /// Has the timers know of a queue pair's deadline, unless they know of an earlier one.
    pub fn schedule(&self, index: u32, deadline: Time) {
        let deadline = deadline.nanos();
        if self.deadlines.add(&self.table, index, deadline) {
            self.alarm.deadline(deadline);
        }
    }

    /// Has the timers know of a task.
    pub fn add_task(&self, task: Task, time: u64) {
        if self.deadlines.add_task(&self.table, task, time) {
            self.alarm.deadline(time);
        }
    }

    /// The requests of a queue pair wait for others, to leave together; not for long. Returns
    /// whether they do.
    pub fn batch(&self, index: u32, now: Time) -> bool {
        self.batches.add(&self.table, index, now)
    }

    /// Passes a bell to the progress thread that another thread has received: that thread may never
    /// check a ring again. Schedules the next step of the rendezvous.
    #[inline]
    pub fn pass_bell(&self) {
        let Some(directory) = &self.directory else {
            return;
        };
        let time = directory.deadline();
        if time != NEVER {
            self.schedule_rendezvous(time);
        }
        if directory.take_bell() && !self.alarm.is_progress_thread() {
            self.alarm.kick();
        }
    }

    #[inline(never)]
    fn schedule_rendezvous(&self, time: u64) {
        self.add_task(Task::Rendezvous, time);
    }

    /// Continues the rendezvous with other processes.
    pub fn continue_rendezvous(&self) {
        if let Some(directory) = &self.directory {
            directory.on_time();
        }
        self.pass_bell();
    }

    /// A region of a peer was mapped: has the timers know when it may be idle.
    pub fn mapped_region(&self, now: Time) {
        self.add_task(Task::IdleRegions, now.plus(IDLE).nanos());
    }

    /// Unmaps regions of peers that are not used any more, and looks again later if some are.
    pub fn unmap_idle_regions(&self, now: Time) {
        let directory = self.directory.as_ref();
        if directory.is_some_and(Directory::forget_idle_regions) {
            self.mapped_region(now);
        }
    }

    /// Receives messages of the rendezvous, and ends of processes, if there may be some.
    pub fn look_after_peers(&self, may_have_come: bool) {
        if let Some(directory) = self.directory.as_ref().filter(|_| may_have_come) {
            self.attend(directory);
            self.pass_bell();
        }
    }

    /// The same, without a bell.
    pub fn attend(&self, directory: &Directory) {
        directory.attend();
        // A process that finds a successor verifies that process next.
        self.numbers.take_connections();
    }
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        namespace::run("node::transport::tests::inside::", &[], &[]);
    }

    mod inside {
        use super::super::*;
        use crate::carrier::Carrier;
        use crate::carrier::udp::Tools;
        use crate::clock;
        use crate::namespace::there;
        use crate::node::inner::NodeInner;
        use crate::node::progress::deadlines::Due;
        use crate::node::tests::Idle;

        const SECOND: u64 = 1_000_000_000;

        fn node(carrier: Carrier) -> Arc<NodeInner> {
            let tools = Tools {
                carrier,
                ..Tools::default()
            };
            NodeInner::open(tools, Cm::new()).expect("a node")
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn the_earliest_deadline_of_queue_pairs_and_tasks_counts() {
            if !there() {
                return;
            }
            let node = node(Carrier::Udp);
            let transport = node.transport();
            let index = transport.table.reserve().expect("an index");
            transport.table.put(index, Arc::new(Idle));
            let now = clock::now();
            assert_eq!(transport.deadlines.next(), NEVER);
            transport.schedule(index, now.plus(3 * SECOND));
            transport.add_task(Task::Backlog, now.plus(2 * SECOND).nanos());
            transport.schedule(index, now.plus(SECOND));
            let expired = |after| {
                transport
                    .deadlines
                    .expired(&transport.table, now.plus(after))
            };
            assert_eq!(expired(SECOND / 2), None);
            assert_eq!(expired(3 * SECOND / 2), Some(Due::QueuePair(index)));
            assert_eq!(expired(3 * SECOND / 2), None);
            assert_eq!(expired(5 * SECOND / 2), Some(Due::Task(Task::Backlog)));
            assert_eq!(
                expired(4 * SECOND),
                None,
                "the later deadline does not count"
            );
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn numbers_lead_to_indices_of_this_process_alone() {
            if !there() {
                return;
            }
            let node = node(Carrier::Udp);
            let transport = node.transport();
            let own = transport.numbers.of(7);
            assert_eq!(transport.index(own), Some(7));
            assert_eq!(transport.index(own ^ 1 << 14), None);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn shared_memory_depends_on_the_carrier_setting() {
            if !there() {
                return;
            }
            assert!(node(Carrier::Udp).transport().local().is_none());
            let node = node(Carrier::Shm);
            let local = node.transport().local();
            assert!(local.is_some_and(|(_, only_local)| only_local));
        }
    }
}
