//! A queue of receive requests (ibv_post_recv(3)).

use crate::memory::piece;
use kit::abi::ibv_sge;
use kit::errno::{Errno, Result};
use kit::provider::ReceiveRequest;
use kit::sys::lock::{Guard, Lock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use uroce_engine::work::{Receive, Sge, Sges};

/// Receive requests in the order in which they were posted.
pub struct ReceiveQueue {
    max_sge: usize,
    /// How many there are, for a check without the lock.
    length: AtomicUsize,
    state: Lock<State>,
}

struct State {
    requests: VecDeque<Receive>,
    capacity: usize,
    /// An event is due when fewer than that many are left; 0 for none.
    limit: usize,
}

impl State {
    /// Takes requests in until one is refused; `posted` is called for each that was taken.
    #[inline(always)]
    fn post_all<'a>(
        &mut self,
        max_sge: usize,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
        mut posted: impl FnMut(&[ibv_sge]),
    ) -> Result<()> {
        for request in requests {
            self.post(max_sge, &request)?;
            posted(request.sges);
        }
        Ok(())
    }

    /// # Errors
    /// EINVAL for more than `max_sge` pieces; ENOMEM if the queue is full, or there is no memory.
    #[inline(always)]
    fn post(&mut self, max_sge: usize, request: &ReceiveRequest<'_>) -> Result<()> {
        if request.sges.len() > max_sge {
            return Err(Errno::INVAL);
        }
        if self.requests.len() >= self.capacity {
            return Err(Errno::NOMEM);
        }
        self.requests.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        let id = request.id;
        let [one] = request.sges else {
            return self.post_pieces(id, request.sges);
        };
        let sges = Sges::from_buf_and_len([piece(one), Sge::default()], 1);
        self.requests.push_back(Receive { id, sges });
        Ok(())
    }

    /// # Errors
    /// ENOMEM.
    #[inline(never)]
    fn post_pieces(&mut self, id: u64, given: &[ibv_sge]) -> Result<()> {
        let mut sges = Sges::new();
        sges.try_reserve_exact(given.len())
            .map_err(|_| Errno::NOMEM)?;
        sges.extend(given.iter().map(piece));
        // Another way than that of the one piece, so that the compiler has one place for it and
        // builds it where it stays.
        self.requests.extend([Receive { id, sges }]);
        Ok(())
    }

    /// Whether the limit was just fallen below. It is no limit any more then.
    fn falls_below_limit(&mut self) -> bool {
        let falls = self.requests.len() < self.limit;
        if falls {
            self.limit = 0;
        }
        falls
    }
}

/// The result of [`ReceiveQueue::take_limited`].
pub(super) struct Taken {
    /// The request, if there was one.
    pub receive: Option<Receive>,
    /// Whether the limit event is due.
    pub at_limit: bool,
}

/// A queue that is locked while several requests are taken out.
pub(super) struct Taking<'q> {
    length: &'q AtomicUsize,
    state: Guard<'q, State>,
    /// Whether the limit event is due.
    pub at_limit: bool,
}

impl Taking<'_> {
    /// Takes the next request out if `receive` returns that it has processed it. Returns its
    /// identifier.
    #[inline]
    pub fn take_with(&mut self, receive: impl FnOnce(&Receive) -> bool) -> Option<u64> {
        if !receive(self.state.requests.front()?) {
            return None;
        }
        let taken = self.state.requests.pop_front()?;
        self.length
            .store(self.state.requests.len(), Ordering::Release);
        self.at_limit |= self.state.falls_below_limit();
        Some(taken.id)
    }
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl ReceiveQueue {
    /// A queue of at most `max_wr` requests of at most `max_sge` pieces.
    #[must_use]
    pub fn new(max_wr: u32, max_sge: u32) -> Self {
        Self {
            max_sge: size(max_sge),
            length: AtomicUsize::new(0),
            state: Lock::new(State {
                requests: VecDeque::new(),
                capacity: size(max_wr),
                limit: 0,
            }),
        }
    }

    /// Takes requests in until one is refused.
    ///
    /// # Errors
    /// EINVAL for too many pieces; ENOMEM if the queue is full, or there is no memory.
    pub fn post<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        let mut state = self.state.lock();
        let posted = state.post_all(self.max_sge, requests, |_| ());
        self.length.store(state.requests.len(), Ordering::Release);
        posted
    }

    /// The same, of a queue that no other thread can use meanwhile; `posted` is called with the
    /// pieces of each request that was taken.
    ///
    /// # Errors
    /// As for [`ReceiveQueue::post`].
    #[inline]
    pub fn post_alone<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
        posted: impl FnMut(&[ibv_sge]),
    ) -> Result<()> {
        let state = self.state.get_mut();
        let posted = state.post_all(self.max_sge, requests, posted);
        *self.length.get_mut() = state.requests.len();
        posted
    }

    /// Takes the next request out.
    pub fn take(&self) -> Option<Receive> {
        self.take_limited().receive
    }

    /// The same, of a queue that no other thread can use meanwhile.
    pub fn take_alone(&mut self) -> Option<Receive> {
        let requests = &mut self.state.get_mut().requests;
        let receive = requests.pop_front();
        *self.length.get_mut() = requests.len();
        receive
    }

    /// Takes the next request out if `receive` returns that it has used it; no other thread can use
    /// the queue meanwhile. Returns its identifier.
    pub fn take_alone_with(&mut self, receive: impl FnOnce(&Receive) -> bool) -> Option<u64> {
        let requests = &mut self.state.get_mut().requests;
        if !receive(requests.front()?) {
            return None;
        }
        let id = requests.pop_front()?.id;
        *self.length.get_mut() = requests.len();
        Some(id)
    }

    /// Locks the queue, to take out several requests.
    pub(super) fn taking(&self) -> Taking<'_> {
        Taking {
            length: &self.length,
            state: self.state.lock(),
            at_limit: false,
        }
    }

    pub(super) fn take_limited(&self) -> Taken {
        if self.is_empty() {
            return Taken {
                receive: None,
                at_limit: false,
            };
        }
        let mut state = self.state.lock();
        let receive = state.requests.pop_front();
        self.length.store(state.requests.len(), Ordering::Release);
        let at_limit = receive.is_some() && state.falls_below_limit();
        Taken { receive, at_limit }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.requests.clear();
        self.length.store(0, Ordering::Release);
    }

    /// The most requests of the queue, the most pieces of one, and the limit that is still to be
    /// fallen below.
    pub(super) fn sizes(&self) -> (u32, u32, u32) {
        let state = self.state.lock();
        (
            count(state.capacity),
            count(self.max_sge),
            count(state.limit),
        )
    }

    /// Changes size and limit, where they are given; returns whether the limit event is due at
    /// once, since fewer requests than that are there.
    ///
    /// # Errors
    /// EINVAL for a size of 0 or under the number of requests, and for a limit above the size. Then
    /// nothing has changed.
    pub(super) fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<bool> {
        let mut state = self.state.lock();
        let capacity = max_wr.map_or(state.capacity, size);
        let wanted = limit.map_or(state.limit, size);
        if capacity == 0 || capacity < state.requests.len() || wanted > capacity {
            return Err(Errno::INVAL);
        }
        state.capacity = capacity;
        state.limit = wanted;
        Ok(limit.is_some() && state.falls_below_limit())
    }
}
