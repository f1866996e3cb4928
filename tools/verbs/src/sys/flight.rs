//! Requests in flight: each with its memory, from the moment before it is posted until the
//! device has completed it or its queue is destroyed.
//!
//! A request's number for the device (`wr_id`) is the number of its work queue and its place in
//! it. A completion is believed only if a request of that number is in flight, so that a late one
//! of a destroyed queue finds nothing.
#![forbid(unsafe_code)]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use smallvec::SmallVec;

use crate::{
    address::AddressHandle,
    completion::Operation,
    error::{Error, Result},
    memory::Segment,
};

/// What a posted request owns.
pub(crate) struct InFlight {
    /// The program's number.
    pub id: u64,
    pub operation: Operation,
    /// Whether the device reports a completion for it.
    pub signaled: bool,
    pub segments: SmallVec<[Segment; 1]>,
    /// Where a datagram goes.
    pub address: Option<AddressHandle>,
}

/// Requests that wait.
enum Waiting {
    /// Unsignaled ones complete with the next that the device reports. The first has the number
    /// `first`.
    Sends {
        first: u32,
        requests: VecDeque<Option<InFlight>>,
    },
    /// Completed in any order.
    Receives {
        next: u32,
        requests: HashMap<u32, InFlight>,
    },
}

/// The send queue or the receive queue of a queue pair, or a shared receive queue.
pub(crate) struct WorkQueue {
    number: u32,
    /// How many requests may be in flight: those included whose completion was not polled yet. A
    /// device may take more, and then overruns the completion queue.
    capacity: usize,
    waiting: Mutex<Waiting>,
}

/// The number of the next work queue. They do not come back, so that no completion of a destroyed
/// queue is taken for one of another.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl WorkQueue {
    fn new(function: &'static str, capacity: u32, waiting: Waiting) -> Result<Self> {
        let next = |number: u32| number.checked_add(1);
        let number = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| Error::new(function, libc::EOVERFLOW))?;
        Ok(Self {
            number,
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            waiting: Mutex::new(waiting),
        })
    }

    pub(crate) fn of_sends(function: &'static str, capacity: u32) -> Result<Self> {
        let requests = VecDeque::new();
        Self::new(function, capacity, Waiting::Sends { first: 0, requests })
    }

    pub(crate) fn of_receives(function: &'static str, capacity: u32) -> Result<Self> {
        let requests = HashMap::new();
        Self::new(function, capacity, Waiting::Receives { next: 0, requests })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Enters a request, then posts it by `post`, which gets its number. A completion waits
    /// until both are done; requests are entered in the order in which they are posted.
    pub(crate) fn post(
        &self,
        function: &'static str,
        request: InFlight,
        post: impl FnOnce(u64, &InFlight) -> Result<()>,
    ) -> std::result::Result<(), (Error, InFlight)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let in_flight = match &*waiting {
            Waiting::Sends { requests, .. } => requests.len(),
            Waiting::Receives { requests, .. } => requests.len(),
        };
        if in_flight >= self.capacity {
            return Err((Error::new(function, libc::ENOMEM), request));
        }
        match &mut *waiting {
            Waiting::Sends { first, requests } => {
                let place = u32::try_from(requests.len()).unwrap_or(u32::MAX);
                let number = self.wr_id(first.wrapping_add(place));
                requests.push_back(Some(request));
                let entry = requests.back().and_then(Option::as_ref);
                match entry.map_or(Ok(()), |entry| post(number, entry)) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let back = requests.pop_back().flatten();
                        back.map_or(Ok(()), |request| Err((error, request)))
                    }
                }
            }
            Waiting::Receives { next, requests } => {
                while requests.contains_key(next) {
                    *next = next.wrapping_add(1);
                }
                let number = *next;
                *next = next.wrapping_add(1);
                let entry = requests.entry(number).or_insert(request);
                match post(self.wr_id(number), entry) {
                    Ok(()) => Ok(()),
                    Err(error) => requests.remove(&number).map_or(Ok(()), |r| Err((error, r))),
                }
            }
        }
    }

    fn wr_id(&self, place: u32) -> u64 {
        u64::from(self.number) << 32 | u64::from(place)
    }

    /// Takes the request of that place out, behind the unsignaled ones that it completes as well.
    pub(crate) fn complete(&self, place: u32, mut take: impl FnMut(InFlight, bool)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            Waiting::Sends { first, requests } => {
                let before = usize::try_from(place.wrapping_sub(*first)).unwrap_or(usize::MAX);
                if before >= requests.len() {
                    return;
                }
                for entry in requests.iter_mut().take(before) {
                    if let Some(request) = entry.take_if(|request| !request.signaled) {
                        take(request, false);
                    }
                }
                if let Some(request) = requests.get_mut(before).and_then(Option::take) {
                    take(request, true);
                }
                while let Some(None) = requests.front() {
                    requests.pop_front();
                    *first = first.wrapping_add(1);
                }
            }
            Waiting::Receives { requests, .. } => {
                if let Some(request) = requests.remove(&place) {
                    take(request, true);
                }
            }
        }
    }
}

/// The numbers of queue and place in a request's number.
pub(crate) fn numbers(wr_id: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = wr_id.to_be_bytes();
    let (queue, place) = ([a, b, c, d], [e, f, g, h]);
    (u32::from_be_bytes(queue), u32::from_be_bytes(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64) -> InFlight {
        InFlight {
            id,
            operation: Operation::Send,
            signaled: id >= 12,
            segments: SmallVec::new(),
            address: None,
        }
    }

    fn posted(queue: &WorkQueue, id: u64) -> u32 {
        let mut place = 0;
        let post = |wr_id: u64, request: &InFlight| {
            assert_eq!(request.id, id);
            let (queue_number, at) = numbers(wr_id);
            assert_eq!(queue_number, queue.number());
            place = at;
            Ok(())
        };
        assert!(queue.post("test", request(id), post).is_ok());
        place
    }

    fn completed(queue: &WorkQueue, place: u32) -> Vec<(u64, bool)> {
        let mut ids = Vec::new();
        queue.complete(place, |request, last| ids.push((request.id, last)));
        ids
    }

    #[test]
    fn a_send_completes_the_unsignaled_ones_before_it() {
        let queue = WorkQueue::of_sends("test", 3).unwrap();
        let places = [10, 11, 12].map(|id| posted(&queue, id));
        assert_eq!(completed(&queue, places[1]), [(10, false), (11, true)]);
        assert_eq!(completed(&queue, places[1]), []);
        assert_eq!(completed(&queue, places[2]), [(12, true)]);
    }

    #[test]
    fn a_signaled_send_waits_for_its_own_completion() {
        let queue = WorkQueue::of_sends("test", 3).unwrap();
        let places = [12, 11, 13].map(|id| posted(&queue, id));
        assert_eq!(completed(&queue, places[2]), [(11, false), (13, true)]);
        assert_eq!(completed(&queue, places[0]), [(12, true)]);
        let place = posted(&queue, 14);
        assert_eq!(completed(&queue, place), [(14, true)]);
    }

    #[test]
    fn receives_complete_in_any_order_and_once() {
        let queue = WorkQueue::of_receives("test", 3).unwrap();
        let places = [10, 11].map(|id| posted(&queue, id));
        assert_eq!(completed(&queue, places[1]), [(11, true)]);
        assert_eq!(completed(&queue, places[1]), []);
        assert_eq!(completed(&queue, places[0]), [(10, true)]);
    }

    #[test]
    fn a_refused_request_comes_back_and_leaves_its_place() {
        for queue in [
            WorkQueue::of_sends("test", 3).unwrap(),
            WorkQueue::of_receives("test", 3).unwrap(),
        ] {
            let error = Error::new("test", libc::ENOMEM);
            let back = queue.post("test", request(1), |_, _| Err(error));
            assert!(back.is_err_and(|(e, request)| e == error && request.id == 1));
            let place = posted(&queue, 2);
            assert_eq!(completed(&queue, place), [(2, true)]);
        }
    }

    #[test]
    fn a_full_queue_refuses_until_a_completion_was_polled() {
        for queue in [
            WorkQueue::of_sends("test", 3).unwrap(),
            WorkQueue::of_receives("test", 3).unwrap(),
        ] {
            let places = [12, 13, 14].map(|id| posted(&queue, id));
            let full = queue.post("test", request(15), |_, _| Ok(()));
            assert!(full.is_err_and(|(e, r)| e.errno() == libc::ENOMEM && r.id == 15));
            assert_eq!(completed(&queue, places[0]), [(12, true)]);
            posted(&queue, 15);
        }
    }

    #[test]
    fn numbers_of_sends_wrap() {
        let mut queue = WorkQueue::of_sends("test", 3).unwrap();
        queue.waiting = Mutex::new(Waiting::Sends {
            first: u32::MAX,
            requests: VecDeque::new(),
        });
        let places = [1, 2].map(|id| posted(&queue, id));
        assert_eq!(places, [u32::MAX, 0]);
        assert_eq!(completed(&queue, 0), [(1, false), (2, true)]);
    }
}
