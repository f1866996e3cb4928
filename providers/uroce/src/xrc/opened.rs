//! A target that another process has made, opened here (ibv_open_qp(3)).

use super::words::Call;
use super::{Domain, Estate, Link};
use crate::channel::Records;
use crate::qp::Core;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};

/// A target of another process, or one that was. Its state and attributes are asked for where it is.
pub struct Opened {
    /// Its number.
    pub number: u32,
    token: Token,
    events: Arc<Records>,
    domain: Weak<Domain>,
    place: Mutex<Place>,
    /// `place` has changed.
    moved: Condvar,
}

/// Where a target is.
#[derive(Clone)]
pub enum Place {
    /// In the process at the other end.
    At(Arc<Link>),
    /// In this process, which has inherited it.
    Here(Arc<Core>, Arc<Estate>),
    /// Nowhere: nobody could go on with it.
    Nowhere,
}

const GONE: Errno = Errno(libc::EIO);

impl Opened {
    /// One that is not open yet.
    pub fn new(
        domain: &Arc<Domain>,
        link: Arc<Link>,
        number: u32,
        token: Token,
        events: Arc<Records>,
    ) -> Self {
        Self {
            domain: Arc::downgrade(domain),
            number,
            token,
            events,
            place: Mutex::new(Place::At(link)),
            moved: Condvar::new(),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// EINVAL if there is none of that number; EIO if the process ends meanwhile.
    pub fn open(&self) -> Result<()> {
        self.ask(Call::Open).map(|_| ())
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place.lock().clone()
    }

    /// It is there from now on.
    pub fn moves(&self, to: Place) {
        *self.place.lock() = to;
        self.moved.notify_all();
    }

    /// Whether it is a target of the process at the other end.
    pub fn is_of(&self, link: &Arc<Link>) -> bool {
        matches!(&*self.place.lock(), Place::At(at) if Arc::ptr_eq(at, link))
    }

    /// The attributes after a call, of the process that has the target. If that process ends, its heir
    /// is asked.
    fn ask(&self, call: Call) -> Result<ibv_qp_attr> {
        let mut again = false;
        loop {
            let link = match self.place() {
                Place::At(link) => link,
                Place::Here(core, _) => return self.ask_here(&core, call, again),
                Place::Nowhere => return Err(GONE),
            };
            let answer = link.call(self.number, call);
            if link.is_gone() && matches!(answer, Err(GONE)) {
                again = true;
                self.wait_for_heir(&link);
                continue;
            }
            return match (answer, call) {
                (Ok(attr), _) => attr.ok_or(GONE),
                (Err(error), Call::Modify(wanted, mask)) if again => {
                    let now = link.call(self.number, Call::Query)?.ok_or(GONE)?;
                    done(&wanted, mask, now).ok_or(error)
                }
                (Err(error), _) => Err(error),
            };
        }
    }

    fn ask_here(&self, core: &Arc<Core>, call: Call, again: bool) -> Result<ibv_qp_attr> {
        let mut attr = bytemuck::Zeroable::zeroed();
        match call {
            Call::Modify(wanted, mask) => {
                let modified = core.modify(&wanted, mask);
                core.query(&mut attr);
                match modified {
                    Ok(_) => Ok(attr),
                    Err(error) if again => done(&wanted, mask, attr).ok_or(error),
                    Err(error) => Err(error),
                }
            }
            Call::Query | Call::Open => {
                core.query(&mut attr);
                Ok(attr)
            }
            Call::Close => {
                core.leave(self);
                Ok(attr)
            }
        }
    }

    fn wait_for_heir(&self, gone: &Arc<Link>) {
        let mut place = self.place.lock();
        while matches!(&*place, Place::At(at) if Arc::ptr_eq(at, gone)) {
            self.moved.wait(&mut place);
        }
    }

    /// ibv_modify_qp(3); answers the state after it.
    ///
    /// # Errors
    /// As for one that was made here; EIO if nobody could go on with it.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        Ok(self.ask(Call::Modify(*attr, mask))?.qp_state)
    }

    /// ibv_query_qp(3).
    ///
    /// # Errors
    /// EIO if nobody could go on with it.
    pub fn query(&self, attr: &mut ibv_qp_attr) -> Result<()> {
        *attr = self.ask(Call::Query)?;
        Ok(())
    }

    /// ibv_destroy_qp(3). Answers how many events were told under this name.
    pub fn close(&self) -> u32 {
        // If nobody has it, it has gone.
        let _ = self.ask(Call::Close);
        let place = std::mem::replace(&mut *self.place.lock(), Place::Nowhere);
        if let Place::Here(core, _) = place {
            // Inherited since it was closed there, perhaps.
            core.leave(self);
        }
        if let Some(domain) = self.domain.upgrade() {
            domain.release(self);
        }
        self.events.take_back(self.token)
    }

    /// Tells an asynchronous event.
    pub fn tell(&self, event: ibv_event_type) {
        self.events.asynchronous(event, self.token);
    }
}

/// The attributes, if they say that a change has been made which was asked for again: the process
/// that was asked first may have made it and ended before it answered.
fn done(wanted: &ibv_qp_attr, mask: u32, now: ibv_qp_attr) -> Option<ibv_qp_attr> {
    (mask & IBV_QP_STATE != 0 && now.qp_state == wanted.qp_state).then_some(now)
}
