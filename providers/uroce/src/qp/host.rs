//! The engine's interface to a queue pair's surroundings: memory, receive requests, queues of
//! completions, events.

use super::binds::Binds;
use super::counting::Counting;
use super::destinations::Destinations;
use super::resources::Resources;
use super::write_combining::{Target, WriteCombining};
use crate::cq::Entry;
use crate::memory::{AccessMode, PdId, Peer, Using, WriteRight};
use crate::receive::{ReceiveQueue, Srq};
use kit::abi::*;
use kit::sys::no_fault_copy::Staged;
use uroce_engine::host::{
    Atomic, Fault, Host, LateFault, LocalAccess, NoReceive, ReceiveSource, RemoteAccess,
    RemoteRange,
};
use uroce_engine::outgoing::Gather;
use uroce_engine::psn::Psn;
use uroce_engine::timer::Time;
use uroce_engine::work::{Completion, Event, Receive, Sge, Status};

/// The surroundings of one queue pair, as its engine uses them in one call.
pub struct Surroundings<'a> {
    /// The queue pair, without the data under its lock.
    pub qp: &'a Resources,
    /// Its own receive queue.
    pub receives: Option<&'a mut ReceiveQueue>,
    /// Its requests to bind.
    pub binds: &'a mut Binds,
    /// The paths of its datagrams.
    pub destinations: &'a mut Destinations,
    /// The counters of its requests.
    pub counting: &'a Counting,
    /// The time of the events.
    pub now: Time,
    /// The protection domain: for an XRC target that of the shared receive queue that the request
    /// names (IBTA volume 1, annex A14).
    pub domain: PdId,
    /// How memory is accessed.
    pub mode: AccessMode,
    /// Writes that are combined, if they are.
    pub writes: Option<WriteCombining>,
}

impl Surroundings<'_> {
    fn peer(&self) -> Peer {
        Peer {
            pd: self.domain,
            qpn: self.qp.number,
        }
    }

    fn memory(&self) -> Using<'_> {
        self.qp.keys().using(self.mode)
    }

    /// Writes the collected bytes: before anything that comes after them.
    #[inline]
    pub fn flush_writes(&mut self) {
        if let Some(mut writes) = self.writes.take() {
            writes.flush(|target, staged| self.write_staged(target, staged));
            self.writes = Some(writes);
        }
    }

    fn write_staged(&self, target: Target, staged: &Staged) -> Result<(), Fault> {
        let Target { by, key, address } = target;
        self.memory().write_staged(by, key, address, staged)
    }

    /// Collects a payload, which may be written; `false` if it is to be written alone. The PSN is
    /// that of an RDMA write.
    fn combine(&mut self, psn: Psn, target: Target, data: &[u8]) -> Result<bool, Fault> {
        let Some(mut writes) = self.writes.take() else {
            return Ok(false);
        };
        let combined = self.combine_with(&mut writes, psn, target, data);
        self.writes = Some(writes);
        if combined != Ok(true) {
            self.flush_writes();
        }
        combined
    }

    fn combine_with(
        &self,
        writes: &mut WriteCombining,
        psn: Psn,
        target: Target,
        data: &[u8],
    ) -> Result<bool, Fault> {
        let Target { by, key, address } = target;
        // The rights of an RDMA write were checked for all of its message.
        let is_checked = matches!(by, WriteRight::Peer(_));
        if is_checked && writes.has_failed() {
            return Err(Fault);
        }
        if is_checked && writes.join(target, data) {
            return Ok(true);
        }
        if !self.memory().combines(by, key, address, data)? {
            return Ok(false);
        }
        if !writes.join(target, data) {
            writes.add(psn, target, data, |target, staged| {
                self.write_staged(target, staged)
            });
        }
        Ok(true)
    }

    fn scatter_combined(&mut self, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), Fault> {
        let length = u32::try_from(data.len()).map_err(|_| Fault)?;
        let mut rest = data;
        for piece in Gather::new(sges, offset, length) {
            let take = usize::try_from(piece.length).map_err(|_| Fault)?;
            let (now, later) = rest.split_at_checked(take).ok_or(Fault)?;
            let target = Target {
                by: WriteRight::Local(self.domain),
                key: piece.lkey,
                address: piece.address,
            };
            // It has no PSN.
            if !self.combine(Psn::new(0), target, now)? {
                self.memory().scatter(self.domain, &[piece], 0, now)?;
            }
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(Fault) }
    }
}

impl Host for Surroundings<'_> {
    fn check_local(&mut self, sges: &[Sge], access: LocalAccess) -> Result<(), Fault> {
        self.qp.keys().check_local(self.domain, sges, access)
    }

    fn scatter(&mut self, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), Fault> {
        if self.writes.is_some() {
            return self.scatter_combined(sges, offset, data);
        }
        self.memory().scatter(self.domain, sges, offset, data)
    }

    fn check_remote(&mut self, range: RemoteRange, access: RemoteAccess) -> Result<(), Fault> {
        let (keys, peer) = (self.qp.keys(), self.peer());
        let checked = keys.check_remote(peer, range, access);
        if checked.is_err() {
            keys.explain_refusal(peer, range, access);
        }
        checked
    }

    fn write(&mut self, psn: Psn, rkey: u32, address: u64, data: &[u8]) -> Result<(), Fault> {
        let target = Target {
            by: WriteRight::Peer(self.peer()),
            key: rkey,
            address,
        };
        if self.combine(psn, target, data)? {
            return Ok(());
        }
        self.memory().write(self.peer(), rkey, address, data)
    }

    fn settle(&mut self) -> Result<(), LateFault> {
        self.flush_writes();
        let failed = self.writes.as_mut().and_then(WriteCombining::take_failed);
        failed.map_or(Ok(()), |psn| Err(LateFault { psn }))
    }

    fn atomic_write(&mut self, rkey: u32, address: u64, data: [u8; 8]) -> Result<(), Fault> {
        self.flush_writes();
        let peer = self.peer();
        self.memory().atomic_write(peer, rkey, address, data)
    }

    fn atomic(&mut self, rkey: u32, address: u64, operation: Atomic) -> Result<u64, Fault> {
        self.flush_writes();
        let peer = self.peer();
        self.memory().atomic(peer, rkey, address, operation)
    }

    fn flush(&mut self, range: RemoteRange, placement: u8, selectivity: u8) -> Result<(), Fault> {
        self.flush_writes();
        let peer = self.peer();
        self.qp.keys().flush(peer, range, placement, selectivity)
    }

    fn invalidate(&mut self, rkey: u32, remote: bool) -> Result<(), Fault> {
        self.flush_writes();
        self.qp.keys().invalidate(self.peer(), rkey, remote)
    }

    fn bind(&mut self, what: u64) -> Result<(), Fault> {
        self.flush_writes();
        let binding = self.binds.take(what).ok_or(Fault)?;
        self.qp.bind(&binding)
    }

    fn receive(&mut self, source: ReceiveSource) -> Result<Receive, NoReceive> {
        match source {
            ReceiveSource::Own => {
                let next = match &mut self.receives {
                    Some(own) => own.take_alone(),
                    None => self.qp.srq().and_then(Srq::take),
                };
                next.ok_or(NoReceive::Empty)
            }
            ReceiveSource::Srq(number) => self.qp.next_shared(number),
        }
    }

    fn credits(&mut self) -> Option<u32> {
        let receives = self.receives.as_ref()?;
        Some(u32::try_from(receives.len()).unwrap_or(u32::MAX))
    }

    fn ended(&mut self, unseen: &Completion) {
        self.counting.count(unseen);
    }

    fn complete(&mut self, mut completion: Completion) {
        self.flush_writes();
        let lost = self.writes.as_mut().is_some_and(WriteCombining::take_lost);
        if lost && completion.status == Status::Success {
            completion.status = Status::LocProt;
            self.qp.fail();
        }
        self.counting.count(&completion);
        let entry = Entry::new(completion, self.qp.number).at(self.now);
        self.qp.complete(entry);
    }

    fn event(&mut self, event: Event) {
        self.flush_writes();
        self.qp.report(match event {
            Event::CommEst => IBV_EVENT_COMM_EST,
            Event::SqDrained => IBV_EVENT_SQ_DRAINED,
            Event::LastWqeReached => IBV_EVENT_QP_LAST_WQE_REACHED,
            Event::QpFatal => IBV_EVENT_QP_FATAL,
            Event::QpReqErr => IBV_EVENT_QP_REQ_ERR,
            Event::QpAccessErr => IBV_EVENT_QP_ACCESS_ERR,
        });
    }
}
