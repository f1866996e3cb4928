//! An XRC target that outlives its home: what is written down for its heirs, and how one of them goes
//! on with it.

use super::attributes;
use super::core::{Core, Inner};
use crate::address;
use crate::xrc::{Estate, Link, Opened, Record, Standing, Word, Xrcd};
use kit::abi::*;
use kit::errno::{Errno, Result};
use std::sync::{Arc, Weak};
use uroce_engine::qp::{Rest, State};

/// What is told of attributes to an heir, besides the state and the address.
const WRITTEN: u32 = IBV_QP_ACCESS_FLAGS
    | IBV_QP_PATH_MTU
    | IBV_QP_TIMEOUT
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

/// What an heir has besides the target.
#[derive(Default)]
pub(super) struct Inheritance {
    /// Keeps the domain open as long as others have the target open.
    kept: Option<Xrcd>,
    /// Who had it open in this process, before it was here.
    holders: Vec<Weak<Opened>>,
}

/// At home.
impl Core {
    /// Another process has opened it, and can inherit it.
    ///
    /// # Errors
    /// Of what the heir would need: memfd_create(2), socket(2), mmap(2).
    pub fn add_visitor(&self, link: &Arc<Link>) -> Result<()> {
        let inner = &mut *self.inner.lock();
        let estate = match &inner.estate {
            Some(estate) => Arc::clone(estate),
            None => {
                let kept = self.node().keeps_slot()?;
                let estate = Arc::new(Estate::create(self.node().slot(), kept)?);
                inner.estate = Some(Arc::clone(&estate));
                estate
            }
        };
        self.visitors.lock().push(link.slot());
        self.record(inner);
        estate.show(self.number, link);
        if let Some(at) = inner.away.at() {
            estate.show(self.number, at);
        }
        Ok(())
    }

    /// Another process has opened it `most` times less, or as often as it did.
    pub fn remove_visitor(self: &Arc<Self>, slot: u16, most: usize) {
        let is_it = |known: &mut u16| *known == slot;
        let fewer = self
            .visitors
            .lock()
            .extract_if(.., is_it)
            .take(most)
            .count();
        if fewer > 0 {
            self.record(&self.inner.lock());
            self.end_elsewhere();
        }
    }

    /// Writes down how things stand, if there is anybody to inherit.
    pub(super) fn record(&self, inner: &Inner) {
        let Some(estate) = &inner.estate else {
            return;
        };
        estate.write(&Record {
            attr: self.told(inner),
            rest: inner.engine.rest(),
            at: inner.away.at().map_or(0, |at| at.slot()),
            turn: inner.lent,
            visitors: self.visitors.lock().clone(),
        });
    }
}

/// As an heir.
impl Core {
    /// Goes on with a target whose home, of that slot, has ended, and that this process has taken.
    /// `guest` is who has it at the moment, if that is another process.
    ///
    /// # Errors
    /// EIO for a state that there is not; EINVAL for an address that the interface does not have; of
    /// socket(2), bind(2).
    pub fn inherit(
        &self,
        record: &Record,
        home: u16,
        guest: Option<Arc<Link>>,
        estate: Arc<Estate>,
        kept: Xrcd,
    ) -> Result<()> {
        let state = attributes::state(record.attr.qp_state).map_err(|_| Errno(libc::EIO))?;
        let values = attributes::modify(&record.attr, WRITTEN)?.values;
        let path = address::path(self.port(), &record.attr.ah_attr);
        let path = if state.receives() { Some(path?) } else { None };
        *self.home.lock() = None;
        *self.visitors.lock() = record.visitors.clone();
        let inner = &mut *self.inner.lock();
        // It may be a guest here, and then this process knows best.
        let stay = inner.stay.take();
        let is_guest = record.at == self.node().slot();
        let knows = is_guest && stay.is_some_and(|stay| stay.turn == record.turn);
        if knows && inner.engine.state() == State::Error {
            inner.engine.inherit(State::Error, values, None);
        } else {
            let rest = (!knows).then_some(&record.rest);
            inner.engine.inherit(state, values, rest);
        }
        inner.path = path;
        inner.av = Some(record.attr.ah_attr);
        inner.lent = record.turn;
        inner.estate = Some(estate);
        if let Some(guest) = guest {
            guest.say(&Word::Inherited(self.number, record.turn, home));
            inner.away.is_with(guest);
        }
        self.record(inner);
        self.inheritance.lock().kept = Some(kept);
        self.node().inherit(self.number, self.place)
    }

    /// Somebody in this process had it open before it was here.
    pub fn join(&self, opened: &Arc<Opened>) {
        let mut inheritance = self.inheritance.lock();
        inheritance.holders.push(Arc::downgrade(opened));
    }

    /// Somebody in this process has it open no more.
    pub fn leave(&self, opened: &Opened) {
        let mut inheritance = self.inheritance.lock();
        let is_his = |known: &Weak<Opened>| std::ptr::eq(known.as_ptr(), opened);
        inheritance.holders.retain(|known| !is_his(known));
        drop(inheritance);
        self.end();
    }

    /// Those in this process who had it open before it was here.
    pub(super) fn holders(&self) -> Vec<Arc<Opened>> {
        let inheritance = self.inheritance.lock();
        inheritance
            .holders
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// What was inherited goes, in a thread that may wait.
    pub(super) fn renounce(&self) {
        self.node().disinherit(self.number);
        let kept = self.inheritance.lock().kept.take();
        drop(kept);
    }
}

/// As a guest whose home has ended.
impl Core {
    /// Whether its home has ended.
    pub fn is_bereft(&self) -> bool {
        self.home.lock().as_ref().is_some_and(|home| home.is_gone())
    }

    /// Tells an heir how things stand with the target, which was lent that often.
    pub fn stand(&self, heir: &Arc<Link>, turn: u32) {
        *self.home.lock() = Some(Arc::clone(heir));
        let inner = &mut *self.inner.lock();
        let rest = inner.engine.rest();
        let failed = inner.engine.state() == State::Error;
        let Some(stay) = inner.stay.as_mut().filter(|stay| stay.turn == turn) else {
            let word = Word::Rest(self.number, Standing::Never, Rest::default());
            return heir.say(&word);
        };
        stay.home = Arc::clone(heir);
        let standing = match (stay.here, failed) {
            (true, _) => Standing::Going,
            (false, true) => Standing::Failed,
            (false, false) => Standing::Back,
        };
        heir.say(&Word::Rest(self.number, standing, rest));
    }
}
