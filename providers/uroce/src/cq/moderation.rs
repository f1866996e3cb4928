//! Completion events on their way to the channel, which may be held back for a while
//! (ibv_modify_cq(3)).

use super::alarm::{self, OnTime};
use super::turn::{self, Deferred};
use crate::channel::Records;
use kit::provider::Token;
use kit::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The events of one queue.
pub struct Moderation {
    channel: Arc<Records>,
    token: Token,
    state: Mutex<State>,
    /// Whether an event is held back, for a check without the lock.
    holds: AtomicBool,
}

#[derive(Default)]
struct State {
    count: u16,
    period: u16,
    /// Completions since an event is due that is held back, its own included.
    held: Option<u16>,
    /// Which event is held back: alarms for earlier ones mean nothing.
    number: u64,
    ended: bool,
}

impl Moderation {
    /// Nothing is held back at first.
    pub fn new(channel: Arc<Records>, token: Token) -> Self {
        turn::may_be_reported();
        Self {
            channel,
            token,
            state: Mutex::default(),
            holds: AtomicBool::new(false),
        }
    }

    /// Completions and microseconds to wait for, whichever is first.
    pub fn set(self: &Arc<Self>, count: u16, period: u16) {
        let mut state = self.state.lock();
        state.count = count;
        state.period = period;
        if state.held.is_some() {
            self.send(&mut state);
        }
    }

    /// Whether an event is held back.
    #[inline]
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// There was a completion; `due` if it calls for an event.
    pub fn completion(self: &Arc<Self>, due: bool) {
        if !due && !self.holds() {
            return;
        }
        let mut state = self.state.lock();
        let held = match state.held {
            Some(held) => held.saturating_add(1),
            None if due => 1,
            None => return,
        };
        if held >= state.count || state.period == 0 {
            self.send(&mut state);
            return;
        }
        let is_first = state.held.is_none();
        state.held = Some(held);
        self.holds.store(true, Ordering::Release);
        if is_first && self.wait(&mut state).is_err() {
            self.send(&mut state);
        }
    }

    fn wait(self: &Arc<Self>, state: &mut State) -> kit::errno::Result<()> {
        state.number += 1;
        let period = Duration::from_micros(u64::from(state.period));
        let listener: Weak<dyn OnTime> = Arc::<Self>::downgrade(self);
        alarm::set(Instant::now() + period, listener, state.number)
    }

    fn send(self: &Arc<Self>, state: &mut State) {
        state.held = None;
        self.holds.store(false, Ordering::Release);
        if !state.ended && !turn::put_off(self) {
            self.channel.completion(self.token);
        }
    }

    /// The queue goes: events that the application was handed.
    pub fn end(&self) -> u32 {
        let mut state = self.state.lock();
        state.ended = true;
        state.held = None;
        self.holds.store(false, Ordering::Release);
        self.channel.take_back(self.token)
    }
}

impl Deferred for Moderation {
    fn report(&self) {
        if !self.state.lock().ended {
            self.channel.completion(self.token);
        }
    }
}

impl OnTime for Moderation {
    fn on_time(self: Arc<Self>, number: u64) {
        let mut state = self.state.lock();
        if state.held.is_some() && state.number == number {
            self.send(&mut state);
        }
    }
}
