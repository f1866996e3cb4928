//! A target that another process has made, opened here (ibv_open_qp(3)).

use super::message::Call;
use super::{Domain, Link, TakeoverState};
use crate::channel::Records;
use crate::qp::{EventListener, QpState};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use kit::sync::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A target of another process, or one that was. Its state and attributes are asked for where it
/// is.
pub struct Opened {
    /// Its number.
    pub number: u32,
    token: Token,
    events: Arc<Records>,
    domain: Weak<Domain>,
    place: Mutex<Location>,
    /// `place` has changed.
    moved: Condvar,
}

/// Where a target is.
#[derive(Clone)]
pub enum Location {
    /// In the process at the other end.
    At(Arc<Link>),
    /// In this process, which has taken it over.
    Here(Arc<QpState>, Arc<TakeoverState>),
    /// Nowhere: no process could take it over.
    Nowhere,
}

const GONE: Errno = Errno(libc::EIO);
/// How long a process has to answer: one that runs takes milliseconds, and a second more where it
/// waits for a third one.
const PATIENCE: Duration = Duration::from_secs(5);
const SILENT: Errno = Errno(libc::ETIMEDOUT);

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
            place: Mutex::new(Location::At(link)),
            moved: Condvar::new(),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// EINVAL if there is no target of that number; EIO if the process ends meanwhile; ETIMEDOUT if
    /// it does not answer.
    pub fn open(&self) -> Result<()> {
        let opened = self.ask(Call::Open).map(|_| ());
        if opened == Err(SILENT)
            && let Location::At(link) = self.place()
        {
            // It may be opened for us later.
            link.ask(self.number, Call::Close);
        }
        opened
    }

    /// Where it is.
    pub fn place(&self) -> Location {
        self.place.lock().clone()
    }

    /// It is there from now on.
    pub fn moves(&self, to: Location) {
        *self.place.lock() = to;
        self.moved.notify_all();
    }

    /// Whether it is a target of the process at the other end.
    pub fn is_of(&self, link: &Arc<Link>) -> bool {
        matches!(&*self.place.lock(), Location::At(at) if Arc::ptr_eq(at, link))
    }

    /// The attributes after a call, of the process that has the target. If that process ends, its
    /// successor is asked.
    fn ask(&self, call: Call) -> Result<ibv_qp_attr> {
        let until = Instant::now() + PATIENCE;
        let mut again = false;
        loop {
            let link = match self.place() {
                Location::At(link) => link,
                Location::Here(core, _) => return self.ask_here(&core, call, again),
                Location::Nowhere => return Err(GONE),
            };
            let answer = link.call(self.number, call, until);
            if link.is_gone() && matches!(answer, Err(GONE)) {
                again = true;
                self.wait_for_successor(&link, until)?;
                continue;
            }
            return match (answer, call) {
                (Ok(attr), _) => attr.ok_or(GONE),
                (Err(error), Call::Modify(wanted, mask)) if again => {
                    let now = link.call(self.number, Call::Query, until)?.ok_or(GONE)?;
                    done(&wanted, mask, now).ok_or(error)
                }
                (Err(error), _) => Err(error),
            };
        }
    }

    fn ask_here(&self, core: &Arc<QpState>, call: Call, again: bool) -> Result<ibv_qp_attr> {
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
                core.remove_listener(self);
                Ok(attr)
            }
        }
    }

    fn wait_for_successor(&self, gone: &Arc<Link>, until: Instant) -> Result<()> {
        let mut place = self.place.lock();
        while matches!(&*place, Location::At(at) if Arc::ptr_eq(at, gone)) {
            let (waited, late) = self.moved.wait_until(place, until);
            if late {
                return Err(SILENT);
            }
            place = waited;
        }
        Ok(())
    }

    /// ibv_modify_qp(3); returns the state after it.
    ///
    /// # Errors
    /// As for one that was made here; EIO if no process could take it over; ETIMEDOUT if the
    /// process that has it does not answer within 5 seconds, because it is stopped.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        Ok(self.ask(Call::Modify(*attr, mask))?.qp_state)
    }

    /// ibv_query_qp(3).
    ///
    /// # Errors
    /// EIO if no process could take it over; ETIMEDOUT if the process that has it does
    /// not answer within 5 seconds, because it is stopped.
    pub fn query(&self, attr: &mut ibv_qp_attr) -> Result<()> {
        *attr = self.ask(Call::Query)?;
        Ok(())
    }

    /// ibv_destroy_qp(3). Returns how many events were reported for this handle.
    pub fn close(&self) -> u32 {
        // If no process has it, it has gone.
        let _ = self.ask(Call::Close);
        let place = std::mem::replace(&mut *self.place.lock(), Location::Nowhere);
        if let Location::Here(core, _) = place {
            // Inherited since it was closed there, perhaps.
            core.remove_listener(self);
        }
        if let Some(domain) = self.domain.upgrade() {
            domain.release(self);
        }
        self.events.take_back(self.token)
    }
}

impl EventListener for Opened {
    fn report(&self, event: ibv_event_type) {
        self.events.asynchronous(event, self.token);
    }
}

/// The attributes, if they show that a change has been made which was asked for again: the process
/// that was asked first may have made it and ended before it answered.
fn done(wanted: &ibv_qp_attr, mask: u32, now: ibv_qp_attr) -> Option<ibv_qp_attr> {
    (mask & IBV_QP_STATE != 0 && now.qp_state == wanted.qp_state).then_some(now)
}
