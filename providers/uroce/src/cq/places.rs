//! The completions of a queue, in places that are there from the beginning.
//!
//! A completion is written in its final place. If it were made elsewhere and copied, the copy would
//! wait until the small parts have left the processor's store buffer.

use crate::span::Span;
use kit::abi::ibv_wc;
use kit::errno::{Errno, Result};
use uroce_engine::timer::Time;

/// A completion as it waits, as long as a cache line. Not aligned to one: zeroed memory of such an
/// alignment is written when it is taken, all of it.
#[derive(Clone, Copy, bytemuck::Zeroable)]
#[repr(C)]
struct Line {
    wc: ibv_wc,
    at: u64,
    spare: u64,
}

const _: () = assert!(size_of::<Line>() == 64);

/// Completions in the order in which they were added. An empty queue begins anew at the first
/// place, so that a long queue which is polled in time uses few places, and these stay in a cache.
pub(super) struct Places {
    places: Box<[Line]>,
    used: Span,
}

impl Places {
    /// Room for that many. Pages take memory when they are first used.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(capacity: usize) -> Result<Self> {
        let places = bytemuck::allocation::try_zeroed_slice_box(capacity);
        Ok(Self {
            places: places.map_err(|()| Errno::NOMEM)?,
            used: Span::default(),
        })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.places.len()
    }

    /// Adds one, if there is room.
    #[inline(always)]
    pub fn push(&mut self, wc: ibv_wc, at: Time) {
        if self.is_full() {
            return;
        }
        let index = self.used.index(self.len(), self.places.len());
        if let Some(place) = self.places.get_mut(index) {
            place.wc = wc;
            place.at = at.nanos();
            self.used.add();
        }
    }

    /// Takes the oldest out.
    #[inline]
    pub fn pop(&mut self) -> Option<(ibv_wc, Time)> {
        if self.len() == 0 {
            return None;
        }
        let Line { wc, at, .. } = *self.places.get(self.used.first())?;
        self.used.pass(self.places.len());
        if self.len() == 0 {
            self.used = Span::default();
        }
        Some((wc, Time::from_nanos(at)))
    }

    /// Drops those that `keep` does not want, which is asked about the oldest first.
    pub fn retain(&mut self, mut keep: impl FnMut(&ibv_wc) -> bool) {
        for _ in 0..self.len() {
            let Some((wc, at)) = self.pop() else {
                return;
            };
            if keep(&wc) {
                self.push(wc, at);
            }
        }
    }

    /// Adds all of the other's, as far as there is room.
    pub fn append(&mut self, other: &mut Self) {
        while !self.is_full()
            && let Some((wc, at)) = other.pop()
        {
            self.push(wc, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::success;
    use super::*;
    use kit::abi::IBV_WC_SEND;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(u32),
        Pop,
        Drop(u32),
        Resize(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..4u32).prop_map(Step::Push),
            4 => Just(Step::Pop),
            1 => (0..4u32).prop_map(Step::Drop),
            1 => (1..9usize).prop_map(Step::Resize),
        ]
    }

    /// Bytes of memory in use by this process.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
        let pages = statm.split(' ').nth(1).expect("a second number");
        pages.parse::<usize>().expect("pages") * rustix::param::page_size()
    }

    #[test]
    fn many_places_take_no_memory_before_they_are_used() {
        // Far more than other tests allocate meanwhile.
        const PLACES: usize = 16 << 20;
        let before = resident();
        let mut places = Places::new(PLACES).expect("memory");
        places.push(success(1, IBV_WC_SEND, 0, 0), Time::default());
        let taken = resident().saturating_sub(before);
        assert!(taken < PLACES * size_of::<Line>() / 2, "{taken}");
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn a_queue_that_is_polled_in_time_uses_few_places() {
        let mut places = Places::new(100).expect("memory");
        for id in 0..1000 {
            places.push(success(id, IBV_WC_SEND, 0, 0), Time::default());
            places.push(success(id, IBV_WC_SEND, 0, 0), Time::default());
            assert!(places.pop().is_some() && places.pop().is_some());
            assert_eq!(places.used.first(), 0);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(step(), 0..80)) {
            let mut places = Places::new(5).expect("memory");
            let (mut model, mut capacity, mut next) = (VecDeque::new(), 5, 0);
            for step in steps {
                match step {
                    Step::Push(qpn) => {
                        places.push(success(next, IBV_WC_SEND, 0, qpn), Time::from_nanos(next + 1));
                        if model.len() < capacity {
                            model.push_back((next, qpn));
                        }
                        next += 1;
                    }
                    Step::Pop => {
                        let popped = places.pop().map(|(wc, at)| {
                            assert_eq!(at.nanos(), wc.wr_id + 1);
                            (wc.wr_id, wc.qp_num)
                        });
                        prop_assert_eq!(popped, model.pop_front());
                    }
                    Step::Drop(qpn) => {
                        places.retain(|wc| wc.qp_num != qpn);
                        model.retain(|(_, of)| *of != qpn);
                    }
                    Step::Resize(size) => {
                        capacity = size.max(model.len()).max(1);
                        let mut new = Places::new(capacity).expect("memory");
                        new.append(&mut places);
                        places = new;
                    }
                }
                prop_assert_eq!(places.len(), model.len());
                prop_assert_eq!(places.is_full(), model.len() == capacity);
            }
        }
    }
}
