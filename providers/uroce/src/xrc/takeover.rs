//! The takeover of targets whose owner has ended, by one of the processes that have them open.

use super::{
    DelegateState, Domain, LOOKED, Link, Location, Message, Opened, Record, Shared, TakeoverState,
    Xrcd,
};
use crate::carrier::qpn;
use crate::qp::{EventListener, QpState};
use kit::abi::*;
use kit::errno::{Errno, Result};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Instant;
use uroce_engine::qp::Rest;

/// How often a process tries to take a target over while others do.
const TAKEN: u32 = 64;

/// A successor asks for the state of a delegation.
pub(super) struct StateRequest {
    pub successor: Arc<Link>,
    /// The target's number.
    pub number: u32,
    /// The number of the delegation.
    pub delegation: u32,
    /// The slot of the former owner.
    pub former: u16,
}

/// The successor of an owner that has ended, as far as is known here.
enum Successor {
    /// A process that is not connected yet: it is asked after its greeting.
    Unknown,
    /// Another process.
    Other(Arc<Link>),
    /// This process, which has the target already.
    This,
    /// None yet: the former owner, of that slot, has ended.
    None(u16, u64),
}

impl Domain {
    /// A process has sent its slot.
    pub(super) fn greet(self: &Arc<Self>, link: &Arc<Link>, slot: u16) {
        link.is_of(slot);
        if let Some(shared) = &self.shared {
            shared.gone.lock().remove(&slot);
        }
        self.take_over_orphans();
    }

    /// The takeover state of a target has come.
    pub(super) fn keep_takeover(&self, number: u32, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        if let (Some(shared), Some(memory), Some(kept)) =
            (&self.shared, descriptors.next(), descriptors.next())
            && let Ok(takeover) = TakeoverState::map(memory, kept)
        {
            let mut takeovers = shared.takeovers.lock();
            takeovers.insert(number, Arc::new(takeover));
        }
    }

    /// A handle of a target is closed: its takeover state is not for this process any more, unless
    /// other handles are open, or this process is its delegate.
    pub(super) fn release(&self, opened: &Opened) {
        let Some(shared) = &self.shared else {
            return;
        };
        let number = opened.number;
        let mut all = shared.opened.lock();
        all.retain(|known| !std::ptr::eq(known.as_ptr(), opened));
        let mut open = all.iter().filter_map(Weak::upgrade);
        if !open.any(|other| other.number == number)
            && !shared.delegates.lock().contains_key(&number)
        {
            shared.takeovers.lock().remove(&number);
        }
    }

    /// The process that has a target: the one that its number leads to, or the successor.
    pub(super) fn link_of(&self, number: u32) -> Option<Arc<Link>> {
        let shared = self.shared.as_ref()?;
        let successor = || self.link(shared.ground.node.successor(number)?);
        self.link(qpn::slot_of(number)).or_else(successor)
    }

    /// Whether a process may have the domain open: also one that has not sent its slot.
    pub(super) fn is_there(&self, shared: &Shared, slot: u16) -> bool {
        self.link(slot).is_some()
            || !shared.gone.lock().contains(&slot) && shared.key.is_open_at(slot)
    }

    /// The same, as far as it was looked for just now.
    pub(super) fn is_coming(&self, shared: &Shared, slot: u16) -> bool {
        let mut coming = shared.coming.lock();
        coming.retain(|_, (since, _)| since.elapsed() < LOOKED);
        if let Some((_, is_there)) = coming.get(&slot) {
            return *is_there;
        }
        let is_there = self.is_there(shared, slot);
        coming.insert(slot, (Instant::now(), is_there));
        is_there
    }

    /// Takes over, or finds the successors of, targets that are open here and whose owner has
    /// ended. Called in one thread only, which receives all messages of other processes.
    pub(super) fn take_over_orphans(self: &Arc<Self>) {
        let Some(shared) = &self.shared else {
            return;
        };
        let orphans: Vec<Arc<Opened>> = {
            let opened = shared.opened.lock();
            let all = opened.iter().filter_map(Weak::upgrade);
            all.filter(|opened| matches!(opened.place(), Location::At(at) if at.is_gone()))
                .collect()
        };
        for opened in orphans {
            let done = match self.takeover(shared, opened.number) {
                Some(takeover) => self.take_over_orphan(shared, &opened, &takeover),
                None => Err(Errno(libc::EIO)),
            };
            if done.is_err() {
                opened.moves(Location::Nowhere);
                opened.report(IBV_EVENT_QP_FATAL);
            }
        }
    }

    fn takeover(&self, shared: &Shared, number: u32) -> Option<Arc<TakeoverState>> {
        shared.takeovers.lock().get(&number).map(Arc::clone)
    }

    fn take_over_orphan(
        self: &Arc<Self>,
        shared: &Shared,
        opened: &Arc<Opened>,
        takeover: &Arc<TakeoverState>,
    ) -> Result<()> {
        let own = shared.ground.node.slot();
        // Another process that takes it in between is asked from then on, unless it writes invalid
        // data.
        for _ in 0..TAKEN {
            let (former, since) = match self.successor(shared, takeover) {
                Successor::Unknown => return Ok(()),
                Successor::Other(link) => {
                    opened.moves(Location::At(link));
                    return Ok(());
                }
                Successor::This => {
                    let core = self.target(opened.number).ok_or(Errno(libc::EIO))?;
                    core.add_listener(opened);
                    opened.moves(Location::Here(core, Arc::clone(takeover)));
                    return Ok(());
                }
                Successor::None(former, since) => (former, since),
            };
            let record = takeover.read()?;
            if record.delegate != own
                && self.link(record.delegate).is_none()
                && self.waits(shared, record.delegate)
            {
                return Ok(());
            }
            if takeover.take(since, own) {
                let core = self.take_over(shared, opened, takeover, former)?;
                opened.moves(Location::Here(core, Arc::clone(takeover)));
                return Ok(());
            }
        }
        Err(Errno(libc::EIO))
    }

    /// Whether the process that is the delegate is there and has not sent its slot.
    fn waits(&self, shared: &Shared, slot: u16) -> bool {
        slot != 0 && self.is_there(shared, slot)
    }

    fn successor(&self, shared: &Shared, takeover: &TakeoverState) -> Successor {
        let (slot, since) = takeover.owner();
        if slot == shared.ground.node.slot() {
            return Successor::This;
        }
        match self.link(slot) {
            Some(link) => Successor::Other(link),
            None if self.is_there(shared, slot) => Successor::Unknown,
            None => Successor::None(slot, since),
        }
    }

    /// Takes a target over: this process is its owner from now on.
    fn take_over(
        self: &Arc<Self>,
        shared: &Shared,
        opened: &Arc<Opened>,
        takeover: &Arc<TakeoverState>,
        former: u16,
    ) -> Result<Arc<QpState>> {
        let own = shared.ground.node.slot();
        let mut record = takeover.read()?;
        let kept = Xrcd::again(self)?;
        record
            .openers
            .retain(|slot| *slot != own && self.is_there(shared, *slot));
        let core = self.delegate(opened.number)?;
        let delegate = self.link(record.delegate);
        core.take_over(
            &record,
            (former, delegate),
            Arc::clone(takeover),
            Box::new(kept),
        )?;
        shared.delegates.lock().remove(&core.number());
        let mut targets = self.targets.lock();
        targets.insert(core.number(), Arc::downgrade(&core));
        drop(targets);
        core.add_listener(opened);
        core.post();
        Ok(core)
    }

    /// A successor asks for the state of a delegation. The answer waits until all messages of the
    /// former owner were received.
    pub(super) fn answer_later(&self, request: StateRequest) {
        if let Some(shared) = &self.shared {
            shared.requests.lock().push(request);
        }
        self.answer_successors();
    }

    /// Answers the successors that can be answered.
    pub(super) fn answer_successors(&self) {
        let Some(shared) = &self.shared else {
            return;
        };
        let can_be = |request: &mut StateRequest| self.link(request.former).is_none();
        let requests: Vec<StateRequest> = shared.requests.lock().extract_if(.., can_be).collect();
        for StateRequest {
            successor,
            number,
            delegation,
            ..
        } in requests
        {
            let delegate = shared.delegates.lock().get(&number).map(Arc::clone);
            match delegate {
                Some(delegate) => delegate.answer_successor(&successor, delegation),
                None => successor.send(&Message::Rest(
                    number,
                    DelegateState::Unknown,
                    Rest::default(),
                )),
            }
        }
    }

    /// Ends delegates whose owner has ended, and that no process is going to take over.
    pub(super) fn end_orphans(&self) {
        let Some(shared) = &self.shared else {
            return;
        };
        let orphans: Vec<Arc<QpState>> = {
            let mut delegates = shared.delegates.lock();
            let ends = delegates.extract_if(|number, delegate| {
                delegate.has_lost_owner() && !self.has_successors(shared, *number)
            });
            ends.map(|(_, delegate)| delegate).collect()
        };
        for delegate in orphans {
            shared.takeovers.lock().remove(&delegate.number());
            delegate.return_to_owner(true);
            let qp = delegate.resources();
            qp.node().detach(qp.node_number);
        }
    }

    fn has_successors(&self, shared: &Shared, number: u32) -> bool {
        let Some(takeover) = self.takeover(shared, number) else {
            return false;
        };
        let Ok(Record { openers, .. }) = takeover.read() else {
            return false;
        };
        let own = shared.ground.node.slot();
        let (owner, _) = takeover.owner();
        let others = openers.iter().filter(|slot| **slot != own);
        others
            .chain(Some(&owner).filter(|slot| **slot != own))
            .any(|slot| self.is_there(shared, *slot))
    }
}
