//! Requests in flight: each with its memory, from the moment before it is posted until the
//! device has completed it or its queue is destroyed.
//!
//! A request's number for the device (`wr_id`) is the number of its work queue and its place in
//! it. A completion is believed only if a request of that number is in flight, so that a late one
//! of a destroyed queue finds nothing.
//!
//! Completions are matched in the order in which the device reports them: the completion queue
//! holds its lock from taking them until they are matched. Else a later completion could take an
//! unsignaled request that failed for one that succeeded.
#![forbid(unsafe_code)]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use smallvec::SmallVec;

use super::{tags::Removal, window::Binding};
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
    pub effect: Option<Box<Effect>>,
}

/// What a request does to other objects.
pub(crate) enum Effect {
    /// It binds a window.
    Binds(Binding),
    /// It removes a tag.
    Removes(Removal),
}

impl InFlight {
    /// A signaled request that has none.
    pub(crate) fn without_memory(id: u64, operation: Operation) -> Self {
        Self {
            id,
            operation,
            signaled: true,
            segments: SmallVec::new(),
            address: None,
            effect: None,
        }
    }

    /// The window that it binds.
    pub(crate) fn binding(&self) -> Option<&Binding> {
        match self.effect.as_deref()? {
            Effect::Binds(binding) => Some(binding),
            Effect::Removes(_) => None,
        }
    }

    /// The tag that it removes.
    pub(crate) fn removal(&mut self) -> Option<Removal> {
        match *self.effect.take()? {
            Effect::Removes(removal) => Some(removal),
            Effect::Binds(_) => None,
        }
    }
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

/// Why a request was not posted, and the request, unless the device may have it.
pub(crate) type Unposted = (Error, Option<InFlight>);

/// Whether a device that returns the error has not taken the request. Others come after the request
/// is in a queue of the device: soft-RoCE's, for example, when the kernel could not be notified.
pub(crate) fn is_refusal(error: Error) -> bool {
    matches!(
        error.errno(),
        libc::EINVAL | libc::ENOMEM | libc::EOPNOTSUPP
    )
}

/// The send queue or the receive queue of a queue pair, or a shared receive queue.
pub(crate) struct WorkQueue {
    number: u32,
    /// How many requests may be in flight: those included whose completion was not polled yet. A
    /// device may take more, and then overruns the completion queue.
    capacity: usize,
    /// How many entries of a completion queue it needs.
    completions: u32,
    waiting: Mutex<Waiting>,
}

/// The number of the next work queue. They do not come back, so that no completion of a destroyed
/// queue is taken for one of another.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl WorkQueue {
    fn new(function: &'static str, completions: u32, waiting: Waiting) -> Result<Self> {
        let next = |number: u32| number.checked_add(1);
        let number = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| Error::new(function, libc::EOVERFLOW))?;
        Ok(Self {
            number,
            capacity: usize::try_from(completions).unwrap_or(usize::MAX),
            completions,
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

    /// A shared receive queue. Requests that a destroyed queue pair had taken stay, so the device
    /// says when it is full.
    pub(crate) fn of_shared_receives(function: &'static str, requests: u32) -> Result<Self> {
        let mut queue = Self::of_receives(function, requests)?;
        queue.capacity = usize::MAX;
        Ok(queue)
    }

    /// The list of a tag matching queue. A tag has two completions at most.
    pub(crate) fn of_tags(function: &'static str, tags: u32) -> Result<Self> {
        let mut queue = Self::of_shared_receives(function, tags)?;
        queue.completions = tags.saturating_mul(2);
        Ok(queue)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn completions(&self) -> u32 {
        self.completions
    }

    /// Enters a request, then posts it by `post`, which gets its number. A completion waits
    /// until both are done; requests are entered in the order in which they are posted. A request
    /// that the device has refused comes back. One that the device may have stays, with its number.
    pub(crate) fn post(
        &self,
        function: &'static str,
        request: InFlight,
        post: impl FnOnce(u64, &InFlight) -> Result<()>,
    ) -> std::result::Result<(), Unposted> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let in_flight = match &*waiting {
            Waiting::Sends { requests, .. } => requests.len(),
            Waiting::Receives { requests, .. } => requests.len(),
        };
        if in_flight >= self.capacity {
            return Err((Error::new(function, libc::ENOMEM), Some(request)));
        }
        match &mut *waiting {
            Waiting::Sends { first, requests } => {
                let place = u32::try_from(requests.len()).unwrap_or(u32::MAX);
                let number = self.wr_id(first.wrapping_add(place));
                requests.push_back(Some(request));
                let entry = requests.back().and_then(Option::as_ref);
                match entry.map_or(Ok(()), |entry| post(number, entry)) {
                    Ok(()) => Ok(()),
                    Err(error) if is_refusal(error) => Err((error, requests.pop_back().flatten())),
                    Err(error) => {
                        // No other completion is one of this request.
                        if let Some(Some(request)) = requests.back_mut() {
                            request.signaled = true;
                        }
                        Err((error, None))
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
                    Err(error) if is_refusal(error) => Err((error, requests.remove(&number))),
                    Err(error) => Err((error, None)),
                }
            }
        }
    }

    /// Enters several send requests, then posts them by `post`, which gets their numbers. As for
    /// [`WorkQueue::post`], the device has either all of them or none.
    pub(crate) fn post_all(
        &self,
        function: &'static str,
        all: Vec<InFlight>,
        post: impl FnOnce(&[(u64, &InFlight)]) -> Result<()>,
    ) -> std::result::Result<(), (Error, Option<Vec<InFlight>>)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting::Sends { first, requests } = &mut *waiting else {
            return Err((Error::new(function, libc::EINVAL), Some(all)));
        };
        let before = requests.len();
        if self.capacity.saturating_sub(before) < all.len() {
            return Err((Error::new(function, libc::ENOMEM), Some(all)));
        }
        requests.extend(all.into_iter().map(Some));
        let place = |at: usize| first.wrapping_add(u32::try_from(at).unwrap_or(u32::MAX));
        let entries = requests.iter().enumerate().skip(before);
        let numbered: Vec<_> = entries
            .filter_map(|(at, entry)| Some((self.wr_id(place(at)), entry.as_ref()?)))
            .collect();
        match post(&numbered) {
            Ok(()) => Ok(()),
            Err(error) if is_refusal(error) => {
                let back = requests.drain(before..).flatten().collect();
                Err((error, Some(back)))
            }
            Err(error) => {
                // No other completion is one of these requests.
                for request in requests.iter_mut().skip(before).flatten() {
                    request.signaled = true;
                }
                Err((error, None))
            }
        }
    }

    /// The program's number of the tag at that place, if its memory is in flight.
    pub(crate) fn tagged(&self, place: u32) -> Option<u64> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting::Receives { requests, .. } = &*waiting else {
            return None;
        };
        let tagged = |request: &&InFlight| request.operation == Operation::ReceiveTagged;
        requests
            .get(&place)
            .filter(tagged)
            .map(|request| request.id)
    }

    /// Whether the device has requests whose completions it reports.
    #[cfg(feature = "connection")]
    pub(crate) fn awaits_completions(&self) -> bool {
        match &*self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Waiting::Sends { requests, .. } => requests.iter().flatten().any(|one| one.signaled),
            Waiting::Receives { requests, .. } => !requests.is_empty(),
        }
    }

    /// Takes all requests out, which no device has any more. Late completions find none of them.
    pub(crate) fn clear(&self) -> Vec<InFlight> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            Waiting::Sends { first, requests } => {
                let places = u32::try_from(requests.len()).unwrap_or(u32::MAX);
                *first = first.wrapping_add(places);
                requests.drain(..).flatten().collect()
            }
            Waiting::Receives { requests, .. } => requests.drain().map(|(_, one)| one).collect(),
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
            effect: None,
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
            let id = |request: Option<InFlight>| request.map(|request| request.id);
            assert!(back.is_err_and(|(e, request)| e == error && id(request) == Some(1)));
            let place = posted(&queue, 2);
            assert_eq!(completed(&queue, place), [(2, true)]);
        }
    }

    #[test]
    fn a_request_that_the_device_may_have_stays_with_its_number() {
        for queue in [
            WorkQueue::of_sends("test", 3).unwrap(),
            WorkQueue::of_receives("test", 3).unwrap(),
        ] {
            let error = Error::new("test", libc::EIO);
            let mut wr_id = 0;
            let failed = queue.post("test", request(1), |number, _| {
                wr_id = number;
                Err(error)
            });
            assert!(failed.is_err_and(|(e, request)| e == error && request.is_none()));
            let (_, place) = numbers(wr_id);
            let next = posted(&queue, 12);
            assert_ne!(next, place);
            // It was unsignaled; the completion of a later one is not its own.
            assert_eq!(completed(&queue, next), [(12, true)]);
            assert_eq!(completed(&queue, place), [(1, true)]);
        }
    }

    #[test]
    fn several_requests_are_posted_or_come_back_together() {
        let queue = WorkQueue::of_sends("test", 4).unwrap();
        let place = posted(&queue, 12);
        assert_eq!(completed(&queue, place), [(12, true)]);
        posted(&queue, 12);
        let all = || [13, 14, 15].map(request).into();
        let ids = |all: Option<Vec<InFlight>>| -> Vec<u64> {
            all.into_iter().flatten().map(|one| one.id).collect()
        };
        let refused = Error::new("test", libc::ENOMEM);
        let back = queue.post_all("test", all(), |_| Err(refused)).unwrap_err();
        assert_eq!((back.0, ids(back.1)), (refused, vec![13, 14, 15]));
        let mut places = Vec::new();
        let posted_all = queue.post_all("test", all(), |numbered| {
            places.extend(
                numbered
                    .iter()
                    .map(|(wr_id, one)| (numbers(*wr_id).1, one.id)),
            );
            Ok(())
        });
        assert!(posted_all.is_ok());
        let (place, id) = places[1];
        assert_eq!(completed(&queue, place), [(id, true)]);
        let full = queue.post_all("test", all(), |_| Ok(())).unwrap_err();
        assert_eq!((full.0.errno(), ids(full.1).len()), (libc::ENOMEM, 3));
    }

    #[test]
    fn several_requests_that_the_device_may_have_stay() {
        let queue = WorkQueue::of_sends("test", 4).unwrap();
        let mut places = Vec::new();
        let failed = queue.post_all("test", [1, 2].map(request).into(), |numbered| {
            places.extend(numbered.iter().map(|(wr_id, _)| numbers(*wr_id).1));
            Err(Error::new("test", libc::EIO))
        });
        assert!(failed.is_err_and(|(_, back)| back.is_none()));
        assert_eq!(completed(&queue, places[1]), [(2, true)]);
        assert_eq!(completed(&queue, places[0]), [(1, true)]);
    }

    #[test]
    fn a_cleared_queue_ignores_late_completions() {
        for queue in [
            WorkQueue::of_sends("test", 3).unwrap(),
            WorkQueue::of_receives("test", 3).unwrap(),
        ] {
            let late = [12, 13].map(|id| posted(&queue, id));
            let mut cleared: Vec<_> = queue.clear().iter().map(|one| one.id).collect();
            cleared.sort_unstable();
            assert_eq!(cleared, [12, 13]);
            let places = [14, 15, 16].map(|id| posted(&queue, id));
            assert_eq!(late.map(|place| completed(&queue, place)), [[], []]);
            assert_eq!(completed(&queue, places[0]), [(14, true)]);
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
            let id = |request: Option<InFlight>| request.map(|request| request.id);
            assert!(full.is_err_and(|(e, r)| e.errno() == libc::ENOMEM && id(r) == Some(15)));
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
