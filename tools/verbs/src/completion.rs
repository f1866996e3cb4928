//! Completions, their queues and channels.
#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    error, fmt, io,
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use kit::abi::{
    IBV_WC_GRH, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc,
    ibv_wc_status,
};
use smallvec::SmallVec;

use crate::{
    context::Context,
    error::{Error, Result},
    memory::{Buffer, Segment},
    sys::{
        calls, extended,
        flight::{self, InFlight, WorkQueue},
        post::{self, Extra, Extras, Room},
        tags,
    },
};

/// What a request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A message was sent.
    Send,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Atomic addition.
    FetchAdd,
    /// Atomic comparison and exchange.
    CompareSwap,
    /// A message was received.
    Receive,
    /// A peer wrote to a memory region, with immediate data.
    ReceiveWrite,
    /// A memory window was bound or unbound.
    Bind,
    /// A key was invalidated.
    Invalidate,
    /// A tag was added to a list ([`tag_matching`](crate::tag_matching)).
    AddTag,
    /// A tag was removed from a list.
    RemoveTag,
    /// A count of unexpected messages was reported.
    SyncTags,
    /// A message has met a tag; its bytes are still to come.
    MatchTag,
    /// A message that met a tag was received.
    ReceiveTagged,
    /// Eight bytes were written at once.
    AtomicWrite,
    /// Bytes that were written to a peer's memory are visible to it, or stored.
    Flush,
}

/// Why a request failed: `enum ibv_wc_status`, [`abi`](crate::abi)`::IBV_WC_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkError {
    /// The status.
    pub status: ibv_wc_status,
    /// The device's own number.
    pub vendor: u32,
}

impl WorkError {
    /// Whether the request was not executed, because the queue pair had failed before.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.status == IBV_WC_WR_FLUSH_ERR
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&calls::status_text(self.status))
    }
}

impl error::Error for WorkError {}

impl From<WorkError> for io::Error {
    fn from(error: WorkError) -> Self {
        Self::other(error)
    }
}

/// A request that has completed, with its memory.
#[derive(Debug)]
pub struct Completion {
    /// The number that the program gave the request.
    pub id: u64,
    /// What the request did.
    pub operation: Operation,
    /// Whether it succeeded.
    pub result: std::result::Result<(), WorkError>,
    /// How many bytes were received.
    pub bytes: usize,
    /// The immediate data that came along.
    pub immediate: Option<u32>,
    /// The key that a received message has invalidated.
    pub invalidated: Option<u32>,
    /// The number of the queue pair.
    pub queue_pair: u32,
    /// The queue pair that sent a datagram.
    pub source: u32,
    /// Whether the first 40 bytes of a received datagram are its global routing header. The
    /// message begins behind them, whether they are used or not.
    pub has_grh: bool,
    pub(crate) segments: SmallVec<[Segment; 1]>,
    pub(crate) extra: Extra,
    /// `enum ibv_wc_flags`.
    pub(crate) flags: u32,
    path: Path,
}

/// How a datagram came, on InfiniBand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub lid: u16,
    pub service_level: u8,
    pub path_bits: u8,
}

impl Completion {
    fn new(request: InFlight, wc: &ibv_wc, extra: Extra) -> Self {
        let failed = WorkError {
            status: wc.status,
            vendor: wc.vendor_err,
        };
        let done = wc.status == IBV_WC_SUCCESS;
        let tagged = request.operation == Operation::ReceiveTagged;
        let received = (tagged || request.operation == Operation::Receive) && done;
        let written = received && !tagged && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        Self {
            id: request.id,
            operation: match written {
                true => Operation::ReceiveWrite,
                false => request.operation,
            },
            result: if done { Ok(()) } else { Err(failed) },
            bytes: match received {
                true => usize::try_from(wc.byte_len).unwrap_or(usize::MAX),
                false => 0,
            },
            immediate: post::immediate(wc).filter(|_| received),
            invalidated: post::invalidated(wc).filter(|_| received),
            queue_pair: wc.qp_num,
            source: if received { wc.src_qp } else { 0 },
            has_grh: received && wc.wc_flags & IBV_WC_GRH != 0,
            segments: request.segments,
            extra,
            flags: wc.wc_flags,
            path: Path {
                lid: wc.slid,
                service_level: wc.sl,
                path_bits: wc.dlid_path_bits,
            },
        }
    }

    /// One of an unsignaled request that `wc` completes as well.
    fn before(request: InFlight, wc: &ibv_wc) -> Self {
        Self {
            id: request.id,
            operation: request.operation,
            result: Ok(()),
            bytes: 0,
            immediate: None,
            invalidated: None,
            queue_pair: wc.qp_num,
            source: 0,
            has_grh: false,
            segments: request.segments,
            extra: Extra::default(),
            flags: 0,
            path: Path::default(),
        }
    }

    /// One of a message that met a tag, whose memory stays in flight.
    fn matched(id: u64, wc: &ibv_wc, extra: Extra) -> Self {
        let request = InFlight::without_memory(id, Operation::MatchTag);
        Self::new(request, wc, extra)
    }

    pub(crate) fn path(&self) -> Path {
        self.path
    }

    /// The place of the global routing header of a datagram: the first 40 bytes of its memory.
    pub(crate) fn header(&self) -> Result<[u8; 40]> {
        let mut header = [0; 40];
        let mut rest = header.as_mut_slice();
        for segment in &self.segments {
            let (part, behind) = rest.split_at_mut(segment.len().min(rest.len()));
            segment.read_front(part)?;
            rest = behind;
        }
        Ok(header)
    }

    /// When the request completed, by the device's clock, if the queue reports it
    /// ([`CompletionQueueBuilder::timestamps`]) and the request succeeded. An unsignaled request
    /// has no time. `hca_core_clock` of [`Context::extended_attributes`] is the frequency, in kHz.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.extra.device_time
    }

    /// When the request completed, if the queue reports it
    /// ([`CompletionQueueBuilder::wall_clock`]). As above.
    #[must_use]
    pub fn wall_clock(&self) -> Option<SystemTime> {
        let since_1970 = Duration::from_nanos(self.extra.wall_time?);
        SystemTime::UNIX_EPOCH.checked_add(since_1970)
    }

    /// The mark of the rule that gave the queue pair the frame
    /// ([`flow::Rule::tag`](crate::flow::Rule::tag)), if the queue reports it
    /// ([`CompletionQueueBuilder::flow_tags`]).
    #[must_use]
    pub fn flow_tag(&self) -> Option<u32> {
        self.extra.flow_tag
    }

    /// The completion, if the request succeeded.
    ///
    /// # Errors
    /// Why it failed; the memory is then dropped.
    pub fn success(self) -> std::result::Result<Self, WorkError> {
        self.result.map(|()| self)
    }

    /// The first buffer of the request.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        let mut segments = self.segments.into_iter();
        segments.find_map(|segment| match segment {
            Segment::Buffer(buffer) => Some(buffer),
            Segment::Region(_) => None,
        })
    }

    /// All memory of the request, in its order.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments.into_vec()
    }
}

/// A completion channel: completion queues report events there, for which a thread can sleep.
/// Copies are the same one.
#[derive(Clone)]
pub struct CompletionChannel(Arc<ChannelInner>);

struct ChannelInner {
    object: calls::Channel,
    queues: Mutex<HashMap<usize, Weak<QueueInner>>>,
}

impl CompletionChannel {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        Ok(Self(Arc::new(ChannelInner {
            object: calls::create_channel(context)?,
            queues: Mutex::default(),
        })))
    }

    pub(crate) fn object(&self) -> &calls::Channel {
        &self.0.object
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<usize, Weak<QueueInner>>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a completion queue that reports its events here.
    ///
    /// # Errors
    /// Of ibv_create_cq(3).
    pub fn completion_queue(&self, entries: u32) -> Result<CompletionQueue> {
        CompletionQueue::new(&self.0.object, entries, Some(self))
    }

    /// Waits for an event and acknowledges it: the queue that reported it. A queue reports one
    /// event for each [`CompletionQueue::request_event`]; afterwards it is polled until it is
    /// empty, then asked again, and polled once more, as a completion may have come in between.
    ///
    /// # Errors
    /// Of ibv_get_cq_event(3).
    pub fn wait(&self) -> Result<CompletionQueue> {
        loop {
            let number = calls::channel_event(&self.0.object)?;
            let found = self.queues().get(&number).and_then(Weak::upgrade);
            // An event of a queue that is being destroyed is dropped.
            if let Some(queue) = found {
                return Ok(CompletionQueue(queue));
            }
        }
    }
}

#[cfg(feature = "connection")]
impl CompletionChannel {
    /// Makes a channel for `poll`.
    pub(crate) fn nonblocking(context: &Context) -> Result<Self> {
        let channel = Self::new(context)?;
        calls::set_nonblocking(&channel.0.object)?;
        Ok(channel)
    }

    /// Acknowledges the events that there are.
    pub(crate) fn clear(&self) -> Result<()> {
        loop {
            match calls::channel_event(&self.0.object) {
                Ok(_) => {}
                Err(error) if error.errno() == libc::EAGAIN => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for CompletionChannel {
    /// The descriptor, which is readable when there is an event.
    fn as_raw_fd(&self) -> RawFd {
        calls::channel_fd(&self.0.object)
    }
}

impl fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CompletionChannel");
        shown.field("fd", &self.as_raw_fd());
        shown.finish_non_exhaustive()
    }
}

/// A completion queue. Copies are the same one.
#[derive(Clone)]
pub struct CompletionQueue(Arc<QueueInner>);

struct QueueInner {
    /// Of its events.
    number: usize,
    object: calls::Cq,
    /// Of an extended queue.
    extras: Option<Extras>,
    /// Those whose requests complete here, by number. The lock is held from taking completions
    /// until they are matched, so that two pollers do not change their order.
    work: Mutex<HashMap<u32, Weak<WorkQueue>>>,
}

const TOO_FEW: &str =
    "the completion queue has fewer entries than its queue pairs may have requests";

/// The number of the next completion queue.
static NEXT: AtomicUsize = AtomicUsize::new(1);

impl CompletionQueue {
    pub(crate) fn new(
        context: &Context,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let object = calls::create_cq(context, entries, channel, number)?;
        Ok(Self::entered(number, object, None, channel))
    }

    fn entered(
        number: usize,
        object: calls::Cq,
        extras: Option<Extras>,
        channel: Option<&CompletionChannel>,
    ) -> Self {
        let queue = Self(Arc::new(QueueInner {
            number,
            object,
            extras,
            work: Mutex::default(),
        }));
        if let Some(channel) = channel {
            channel.queues().insert(number, Arc::downgrade(&queue.0));
        }
        queue
    }

    pub(crate) fn object(&self) -> &calls::Cq {
        &self.0.object
    }

    fn work(&self) -> MutexGuard<'_, HashMap<u32, Weak<WorkQueue>>> {
        self.0.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.object.0
    }

    /// Whether its completions have the tags of messages.
    pub(crate) fn reports_tags(&self) -> bool {
        self.0.extras.is_some_and(|extras| extras.tags)
    }

    /// Runs a function while no completion is taken.
    pub(crate) fn between_polls<T>(&self, run: impl FnOnce() -> T) -> T {
        let _work = self.work();
        run()
    }

    /// Enters a work queue whose requests complete here.
    ///
    /// # Errors
    /// ENOSPC if the completions of all of them do not fit.
    pub(crate) fn serve(&self, function: &'static str, queue: &Arc<WorkQueue>) -> Result<()> {
        let mut work = self.work();
        work.retain(|_, queue| queue.strong_count() > 0);
        work.insert(queue.number(), Arc::downgrade(queue));
        let served = work.values().filter_map(Weak::upgrade);
        let needed: u64 = served.map(|queue| u64::from(queue.completions())).sum();
        if needed > u64::from(calls::cq_capacity(&self.0.object, &work)) {
            work.remove(&queue.number());
            return Err(Error::new(function, libc::ENOSPC).because(TOO_FEW));
        }
        Ok(())
    }

    /// How many completions it holds: at least as many as were asked for.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        calls::cq_capacity(&self.0.object, &self.work())
    }

    /// Makes room for at least that many completions, those included that wait.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let cq = context.completion_queue(1)?;
    /// cq.resize(2000)?;
    /// let qp = pd.reliable(&cq).sends(1000).receives(1000).build()?;
    /// assert_eq!(cq.resize(100).unwrap_err().errno(), libc::ENOSPC);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_resize_cq(3): EOPNOTSUPP if the device cannot, EINVAL for more entries than it has or
    /// fewer than completions wait; ENOSPC for fewer than its queue pairs may have requests
    /// ([`QueuePairBuilder`](crate::QueuePairBuilder)).
    pub fn resize(&self, entries: u32) -> Result<()> {
        let work = self.work();
        let served = work.values().filter_map(Weak::upgrade);
        let needed: u64 = served.map(|queue| u64::from(queue.completions())).sum();
        if needed > u64::from(entries) {
            return Err(Error::new("ibv_resize_cq", libc::ENOSPC).because(TOO_FEW));
        }
        calls::resize_cq(&self.0.object, entries, &work)
    }

    /// Has an event wait until there are that many completions, or the oldest is that old; whatever
    /// comes first. A count of 1 or a time of 0 ends that. Polling finds completions at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// let channel = context.completion_channel()?;
    /// let cq = channel.completion_queue(64)?;
    /// cq.moderate(16, Duration::from_micros(200))?;
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_modify_cq(3): EOPNOTSUPP if the device cannot; EINVAL for more than 65535
    /// microseconds.
    pub fn moderate(&self, count: u16, time: Duration) -> Result<()> {
        let microseconds = u16::try_from(time.as_micros());
        let invalid = Error::new("ibv_modify_cq", libc::EINVAL);
        let period = microseconds.map_err(|_| invalid.because("more than 65535 microseconds"))?;
        extended::moderate(&self.0.object, count, period)
    }

    /// Takes the completions that there are, up to 32 at once.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3).
    pub fn poll(&self) -> Result<Vec<Completion>> {
        let mut completions = Vec::new();
        self.poll_into(&mut completions)?;
        Ok(completions)
    }

    /// The same, appended to a vector: how many were appended. This is more than 32 where
    /// unsignaled requests have completed.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3).
    pub fn poll_into(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let mut room = Room::new();
        let work = self.work();
        let found = calls::poll(&self.0.object, self.0.extras, &work, &mut room)?;
        for (wc, extra) in room.wcs.iter().zip(room.extras).take(found) {
            let (number, place) = flight::numbers(wc.wr_id);
            let Some(queue) = work.get(&number).and_then(Weak::upgrade) else {
                continue;
            };
            if tags::is_first_of_two(wc)
                && let Some(id) = queue.tagged(place)
            {
                completions.push(Completion::matched(id, wc, extra));
                continue;
            }
            let mut removed = None;
            queue.complete(place, |mut request, last| {
                removed = request.removal();
                completions.push(match last {
                    true => Completion::new(request, wc, extra),
                    false => Completion::before(request, wc),
                });
            });
            // The memory of a tag that was removed.
            if let (Some(tag), Some(done)) = (removed, completions.last_mut())
                && done.result.is_ok()
            {
                done.segments = tag.take();
            }
        }
        Ok(completions.len() - before)
    }

    /// Polls until there is a completion, and lets other threads run in between.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3).
    pub fn wait(&self) -> Result<Vec<Completion>> {
        loop {
            let completions = self.poll()?;
            if !completions.is_empty() {
                return Ok(completions);
            }
            thread::yield_now();
        }
    }

    /// Asks for an event at the next completion.
    ///
    /// # Errors
    /// Of ibv_req_notify_cq(3).
    pub fn request_event(&self) -> Result<()> {
        post::request_event(&self.0.object, false)
    }

    /// Asks for an event at the next message whose sender marked it as solicited, or at the next
    /// error.
    ///
    /// # Errors
    /// Of ibv_req_notify_cq(3).
    pub fn request_solicited_event(&self) -> Result<()> {
        post::request_event(&self.0.object, true)
    }
}

/// A completion queue that is to be made, and what its completions report
/// ([`Context::completion_queue_builder`]).
#[derive(Clone, Debug)]
#[must_use = "`build` makes the queue"]
pub struct CompletionQueueBuilder {
    context: Context,
    entries: u32,
    channel: Option<CompletionChannel>,
    vector: u32,
    extras: Extras,
}

impl CompletionQueueBuilder {
    pub(crate) fn new(context: &Context, entries: u32) -> Self {
        Self {
            context: context.clone(),
            entries,
            channel: None,
            vector: 0,
            extras: Extras::default(),
        }
    }

    /// Reports its events at a channel of the same open device.
    pub fn channel(mut self, channel: &CompletionChannel) -> Self {
        self.channel = Some(channel.clone());
        self
    }

    /// The completion vector: which interrupt its events take.
    pub fn vector(mut self, vector: u32) -> Self {
        self.vector = vector;
        self
    }

    /// Completions have the time of the device's clock ([`Completion::timestamp`]).
    pub fn timestamps(mut self) -> Self {
        self.extras.device_time = true;
        self
    }

    /// Completions have the time of day ([`Completion::wall_clock`]).
    pub fn wall_clock(mut self) -> Self {
        self.extras.wall_time = true;
        self
    }

    /// Completions have the tags of messages
    /// ([`Completion::tag`], [`tag_matching`](crate::tag_matching)).
    pub fn tags(mut self) -> Self {
        self.extras.tags = true;
        self
    }

    /// Completions of frames have the mark of their rule ([`Completion::flow_tag`]).
    pub fn flow_tags(mut self) -> Self {
        self.extras.flow_tags = true;
        self
    }

    /// Makes the queue.
    ///
    /// # Errors
    /// Of ibv_create_cq_ex(3): EOPNOTSUPP if the device has no extended queues, or reports
    /// not all of this;     /// EINVAL for a channel of another open device.
    pub fn build(self) -> Result<CompletionQueue> {
        let invalid = Error::new("ibv_create_cq_ex", libc::EINVAL);
        let channel = self.channel.as_ref();
        if channel.is_some_and(|channel| !channel.0.object.same(&self.context)) {
            return Err(invalid.because("a completion channel of another open device"));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let wanted = extended::Wanted {
            entries: self.entries,
            channel,
            vector: self.vector,
            number,
            extras: self.extras,
        };
        let object = extended::create_cq(&self.context, &wanted)?;
        let extras = Some(self.extras);
        Ok(CompletionQueue::entered(number, object, extras, channel))
    }
}

impl PartialEq for CompletionQueue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CompletionQueue {}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CompletionQueue");
        shown.field("number", &self.0.number);
        shown.finish_non_exhaustive()
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        let (_, channel) = &*self.object;
        if let Some(channel) = channel {
            channel.queues().remove(&self.number);
        }
    }
}
