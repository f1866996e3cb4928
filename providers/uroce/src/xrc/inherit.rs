//! What becomes of targets whose home has ended: one of the processes that have them open inherits
//! them.

use super::{Domain, Estate, Link, Opened, Place, Record, Shared, Standing, Word, Xrcd};
use crate::carrier::udp::slot;
use crate::qp::Core;
use kit::abi::*;
use kit::errno::{Errno, Result};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use uroce_engine::qp::Rest;

/// A question of an heir's: how do things stand with a guest?
pub(super) struct Asks {
    pub heir: Arc<Link>,
    /// The target's number.
    pub number: u32,
    /// How often it was lent.
    pub turn: u32,
    /// The slot of its former home.
    pub home: u16,
}

/// Whose a target is whose home has ended, as far as is known here.
enum Heir {
    /// Somebody's who is not known yet: it is told when he has said who he is.
    Unknown,
    /// Another process's.
    Other(Arc<Link>),
    /// This one's, which has it already.
    This,
    /// Nobody's, since its home, of that slot, has ended.
    Nobody(u16, u64),
}

impl Domain {
    /// A process has said who it is.
    pub(super) fn greet(self: &Arc<Self>, link: &Arc<Link>, slot: u16) {
        link.is_of(slot);
        if let Some(shared) = &self.shared {
            shared.gone.lock().remove(&slot);
        }
        self.settle();
    }

    /// What a target leaves was handed over.
    pub(super) fn keep_estate(&self, number: u32, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        if let (Some(shared), Some(memory), Some(kept)) =
            (&self.shared, descriptors.next(), descriptors.next())
            && let Ok(estate) = Estate::map(memory, kept)
        {
            let mut estates = shared.estates.lock();
            estates.insert(number, Arc::new(estate));
        }
    }

    /// Somebody here has a target open no more: what it leaves is not for this process, unless others
    /// here have it open, or it is a guest here.
    pub(super) fn release(&self, opened: &Opened) {
        let Some(shared) = &self.shared else {
            return;
        };
        let number = opened.number;
        let mut all = shared.opened.lock();
        all.retain(|known| !std::ptr::eq(known.as_ptr(), opened));
        let mut open = all.iter().filter_map(Weak::upgrade);
        if !open.any(|other| other.number == number) && !shared.guests.lock().contains_key(&number)
        {
            shared.estates.lock().remove(&number);
        }
    }

    /// The process that has a target: the one whose number it is, or its heir.
    pub(super) fn link_of(&self, number: u32) -> Option<Arc<Link>> {
        let shared = self.shared.as_ref()?;
        let heir = || self.link(shared.ground.node.heir(number)?);
        self.link(slot::of(number)).or_else(heir)
    }

    /// Whether a process may have the domain open: also one that has not said who it is.
    pub(super) fn is_there(&self, shared: &Shared, slot: u16) -> bool {
        self.link(slot).is_some()
            || !shared.gone.lock().contains(&slot) && shared.key.is_open_at(slot)
    }

    /// Sees to the targets that are open here and whose home has ended. Called in one thread only,
    /// in which all that other processes say is heard.
    pub(super) fn settle(self: &Arc<Self>) {
        let Some(shared) = &self.shared else {
            return;
        };
        let orphans: Vec<Arc<Opened>> = {
            let opened = shared.opened.lock();
            let all = opened.iter().filter_map(Weak::upgrade);
            all.filter(|opened| matches!(opened.place(), Place::At(at) if at.is_gone()))
                .collect()
        };
        for opened in orphans {
            let settled = match self.estate(shared, opened.number) {
                Some(estate) => self.settle_one(shared, &opened, &estate),
                None => Err(Errno(libc::EIO)),
            };
            if settled.is_err() {
                opened.moves(Place::Nowhere);
                opened.tell(IBV_EVENT_QP_FATAL);
            }
        }
    }

    fn estate(&self, shared: &Shared, number: u32) -> Option<Arc<Estate>> {
        shared.estates.lock().get(&number).map(Arc::clone)
    }

    fn settle_one(
        self: &Arc<Self>,
        shared: &Shared,
        opened: &Arc<Opened>,
        estate: &Arc<Estate>,
    ) -> Result<()> {
        let own = shared.ground.node.slot();
        loop {
            let (home, since) = match self.heir(shared, estate) {
                Heir::Unknown => return Ok(()),
                Heir::Other(link) => {
                    opened.moves(Place::At(link));
                    return Ok(());
                }
                Heir::This => {
                    let core = self.target(opened.number).ok_or(Errno(libc::EIO))?;
                    core.join(opened);
                    opened.moves(Place::Here(core, Arc::clone(estate)));
                    return Ok(());
                }
                Heir::Nobody(home, since) => (home, since),
            };
            let record = estate.read()?;
            if record.at != own && self.link(record.at).is_none() && self.waits(shared, record.at) {
                return Ok(());
            }
            if estate.take(since, own) {
                let core = self.inherit(shared, opened, estate, home)?;
                opened.moves(Place::Here(core, Arc::clone(estate)));
                return Ok(());
            }
        }
    }

    /// Whether a process that has the target as a guest is there and has not said who it is.
    fn waits(&self, shared: &Shared, slot: u16) -> bool {
        slot != 0 && self.is_there(shared, slot)
    }

    fn heir(&self, shared: &Shared, estate: &Estate) -> Heir {
        let (slot, since) = estate.owner();
        if slot == shared.ground.node.slot() {
            return Heir::This;
        }
        match self.link(slot) {
            Some(link) => Heir::Other(link),
            None if self.is_there(shared, slot) => Heir::Unknown,
            None => Heir::Nobody(slot, since),
        }
    }

    /// Goes on with a target, which is this process's from now on.
    fn inherit(
        self: &Arc<Self>,
        shared: &Shared,
        opened: &Arc<Opened>,
        estate: &Arc<Estate>,
        home: u16,
    ) -> Result<Arc<Core>> {
        let own = shared.ground.node.slot();
        let mut record = estate.read()?;
        let kept = Xrcd::again(self)?;
        record
            .visitors
            .retain(|slot| *slot != own && self.is_there(shared, *slot));
        let core = self.guest(opened.number)?;
        let guest = self.link(record.at);
        core.inherit(&record, home, guest, Arc::clone(estate), kept)?;
        shared.guests.lock().remove(&core.number);
        let mut targets = self.targets.lock();
        targets.insert(core.number, Arc::downgrade(&core));
        drop(targets);
        core.join(opened);
        core.node().post(core.place);
        Ok(core)
    }

    /// An heir asks how things stand with a guest. As long as not all has been heard that its former
    /// home had said, it waits for the answer.
    pub(super) fn stand(&self, asks: Asks) {
        if let Some(shared) = &self.shared {
            shared.asked.lock().push(asks);
        }
        self.stand_now();
    }

    /// Answers the heirs that can be answered.
    pub(super) fn stand_now(&self) {
        let Some(shared) = &self.shared else {
            return;
        };
        let can_be = |asks: &mut Asks| self.link(asks.home).is_none();
        let asked: Vec<Asks> = shared.asked.lock().extract_if(.., can_be).collect();
        for Asks {
            heir, number, turn, ..
        } in asked
        {
            let guest = shared.guests.lock().get(&number).map(Arc::clone);
            match guest {
                Some(guest) => guest.stand(&heir, turn),
                None => heir.say(&Word::Rest(number, Standing::Never, Rest::default())),
            }
        }
    }

    /// Ends the guests whose home has ended, and that nobody is going to inherit.
    pub(super) fn end_orphans(&self) {
        let Some(shared) = &self.shared else {
            return;
        };
        let orphans: Vec<Arc<Core>> = {
            let mut guests = shared.guests.lock();
            let ends = guests
                .extract_if(|number, guest| guest.is_bereft() && !self.has_heirs(shared, *number));
            ends.map(|(_, guest)| guest).collect()
        };
        for guest in orphans {
            shared.estates.lock().remove(&guest.number);
            guest.go_home(true);
            guest.node().detach(guest.place);
        }
    }

    fn has_heirs(&self, shared: &Shared, number: u32) -> bool {
        let Some(estate) = self.estate(shared, number) else {
            return false;
        };
        let Ok(Record { visitors, .. }) = estate.read() else {
            return false;
        };
        let own = shared.ground.node.slot();
        let (owner, _) = estate.owner();
        let others = visitors.iter().filter(|slot| **slot != own);
        others
            .chain(Some(&owner).filter(|slot| **slot != own))
            .any(|slot| self.is_there(shared, *slot))
    }
}
