//! Tag matching: a device gives messages to receive requests by their tag.
//!
//! A [`TagQueue`] is a shared receive queue with a list of tags, each with separate memory. A
//! message begins with a [`Header`]; the device compares its tag with those of the list, from the
//! oldest on, and writes what follows the header to the memory of the first that it meets. A
//! message that meets none (an unexpected one) goes with its header to a receive request of the
//! queue.
//!
//! Neither uroce nor soft-RoCE has tag matching: EOPNOTSUPP. `tm_caps` of
//! [`Context::extended_attributes`](crate::Context::extended_attributes) says what a device has.
//!
//! ```no_run
//! use verbs::{Operation, ReceiveRequest, tag_matching::{Size, Tag}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = verbs::Device::first()?.open()?;
//! # let pd = context.protection_domain()?;
//! // Tags are read from an extended completion queue.
//! let cq = context.completion_queue_builder(256).tags().build()?;
//! let queue = pd.tag_queue(&cq, Size { requests: 32, segments: 1, tags: 64, operations: 32 })?;
//! let sends = context.completion_queue(32)?;
//! let qp = pd.reliable(&sends).tags(&queue).build()?;
//! // For messages that meet no tag.
//! queue.post_receive(ReceiveRequest::new(pd.buffer(4096)?))?;
//! let tag = queue.add(ReceiveRequest::new(pd.buffer(1 << 20)?).id(7), Tag::exactly(42), None)?;
//! # let qp = qp.connect(&verbs::Endpoint::default())?;
//!
//! let mut handled = 0;
//! loop {
//!     for completion in cq.wait()? {
//!         let must_report = completion.needs_sync();
//!         match completion.operation {
//!             Operation::ReceiveTagged => {
//!                 let completion = completion.success()?;
//!                 assert_eq!(completion.id, 7);
//!                 assert_eq!(completion.tag().map(|tag| tag.value), Some(42));
//!                 return Ok(());
//!             }
//!             // A message that met no tag: the program looks for its tag by itself.
//!             Operation::Receive => handled += 1,
//!             _ => {}
//!         }
//!         if must_report {
//!             queue.synchronise(handled, 0)?;
//!         }
//!     }
//! }
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
#[cfg(not(feature = "system"))]
mod tests;

use std::{fmt, sync::Arc};

use kit::abi::IBV_WC_TM_SYNC_REQ;

use crate::{
    completion::{Completion, CompletionQueue, Operation},
    domain::ProtectionDomain,
    error::{Error, PostError, Result},
    memory::RemoteMemory,
    qp::QueuePairBuilder,
    request::ReceiveRequest,
    sys::{calls, flight::WorkQueue, post, tags as sys},
    transport::Reliable,
};

/// How much a tag matching queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Receive requests, for messages that meet no tag.
    pub requests: u32,
    /// Segments of a request, and of a tag's memory.
    pub segments: u32,
    /// Tags in the list.
    pub tags: u32,
    /// Operations on the list that wait.
    pub operations: u32,
}

/// Which messages meet: those whose tag is this value under the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The value.
    pub value: u64,
    /// Which bits are compared.
    pub mask: u64,
}

impl Tag {
    /// All bits are compared.
    #[must_use]
    pub const fn exactly(value: u64) -> Self {
        Self {
            value,
            mask: u64::MAX,
        }
    }
}

/// A tag in the list of a queue ([`TagQueue::add`]).
#[derive(Debug)]
pub struct AddedTag(sys::Entry);

/// A tag matching queue: a shared receive queue with a list of tags
/// ([`ProtectionDomain::tag_queue`]). Copies are the same one.
///
/// Each operation on the list has a completion, with the operation [`Operation::AddTag`],
/// [`Operation::RemoveTag`] or [`Operation::SyncTags`]. A message that met a tag has one with
/// [`Operation::ReceiveTagged`], which returns the memory; if it is long, one with
/// [`Operation::MatchTag`] comes before it. All are completions of the queue's own completion
/// queue, as are those of its receive requests ([`Operation::Receive`]).
///
/// Memory of a tag whose operation `AddTag` has failed, or whose message never ends, stays in
/// flight until the queue is dropped.
#[derive(Clone)]
pub struct TagQueue(Arc<sys::Srq>);

impl TagQueue {
    fn new(pd: &ProtectionDomain, cq: &CompletionQueue, size: Size) -> Result<Self> {
        let invalid = Error::new("ibv_create_srq_ex", libc::EINVAL);
        if !cq.context().same(pd.context()) {
            return Err(invalid.because("a completion queue of another open device"));
        }
        if !cq.reports_tags() {
            return Err(invalid.because("the completion queue reports no tags"));
        }
        Ok(Self(Arc::new(sys::create(pd, cq, size)?)))
    }

    pub(crate) fn object(&self) -> &sys::Srq {
        &self.0
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.0.pd
    }

    pub(crate) fn queue(&self) -> &Arc<WorkQueue> {
        &self.0.unexpected
    }

    /// Posts a receive request, for a message that meets no tag. The message is received with its
    /// header.
    ///
    /// # Errors
    /// Of ibv_post_srq_recv(3), with the request; EINVAL if its memory is of another protection
    /// domain. If the device may have the request, it does not come back ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        request.post("ibv_post_srq_recv", self.domain(), |flight| {
            post::receive_srq(&self.0, self.queue(), flight)
        })
    }

    /// Adds a tag at the end of the list, with the memory of the request. The completion of the
    /// operation and that of the message have the request's number.
    ///
    /// `handled` is how many unexpected messages the program has looked at before, none of which
    /// meets this tag. While the device has received more than that, it matches no new tag, so that
    /// no message is taken out of turn.
    ///
    /// # Errors
    /// Of ibv_post_srq_ops(3), with the request: EOPNOTSUPP if the device has no tag matching,
    /// ENOMEM if the list is full or as many operations wait as the queue was made for; EINVAL if
    /// the memory is of another protection domain. If the device may have the request, it does not
    /// come back ([`PostError`]).
    pub fn add(
        &self,
        request: ReceiveRequest,
        tag: Tag,
        handled: Option<u32>,
    ) -> std::result::Result<AddedTag, PostError<ReceiveRequest>> {
        let (operation, verb) = (Operation::ReceiveTagged, "ibv_post_srq_ops");
        let added = request.post_as(operation, verb, self.domain(), |flight| {
            sys::add(&self.0, flight, (tag.value, tag.mask), handled)
        })?;
        Ok(AddedTag(added))
    }

    /// Removes a tag. The completion of the operation, which has the number `id`, returns the tag's
    /// memory. It fails with the status IBV_WC_TM_ERR if a message has met the tag meanwhile, whose
    /// completion returns the memory then.
    ///
    /// # Errors
    /// Of ibv_post_srq_ops(3): ENOMEM if too many operations wait; EINVAL for a tag of another
    /// queue; ENOENT if the completion that returns its memory was polled.
    pub fn remove(&self, tag: &AddedTag, id: u64, handled: Option<u32>) -> Result<()> {
        sys::remove(&self.0, tag.0, id, handled)
    }

    /// Reports how many unexpected messages the program has handled in all, if no other operation
    /// does. The completion of the operation has the number `id`.
    ///
    /// # Errors
    /// Of ibv_post_srq_ops(3): ENOMEM if too many operations wait.
    pub fn synchronise(&self, handled: u32, id: u64) -> Result<()> {
        sys::synchronise(&self.0, handled, id)
    }

    /// Asks for the event IBV_EVENT_SRQ_LIMIT_REACHED, once, when fewer receive requests are left.
    ///
    /// # Errors
    /// Of ibv_modify_srq(3).
    pub fn arm(&self, limit: u32) -> Result<()> {
        calls::arm_srq(&self.0, limit)
    }
}

impl fmt::Debug for TagQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagQueue").finish_non_exhaustive()
    }
}

impl ProtectionDomain {
    /// Makes a tag matching queue, whose completions go to `cq`: one that reports tags
    /// ([`CompletionQueueBuilder::tags`](crate::CompletionQueueBuilder::tags)), with room for all
    /// receive requests and operations, and for two completions of each tag.
    ///
    /// # Errors
    /// Of ibv_create_srq_ex(3): EOPNOTSUPP if the device has no tag matching, as uroce; EINVAL for
    /// more than it has, and for a completion queue of another open device or without tags; ENOSPC
    /// if the completion queue has too few entries.
    pub fn tag_queue(&self, cq: &CompletionQueue, size: Size) -> Result<TagQueue> {
        TagQueue::new(self, cq, size)
    }
}

impl QueuePairBuilder<Reliable> {
    /// Takes receive requests from a tag matching queue, which is of the same protection domain.
    /// Their completions go to that queue's completion queue. The device fetches long messages by
    /// the send queue of the queue pair; the program leaves it alone.
    pub fn tags(self, queue: &TagQueue) -> Self {
        self.shared(calls::Shared::Tags(queue.clone()))
    }
}

/// What a message says of its tag: `struct ibv_wc_tm_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedTag {
    /// The tag.
    pub value: u64,
    /// The sender's number ([`Header::number`]).
    pub number: u32,
}

impl Completion {
    /// The tag of a message that met one, or that a device with tag matching has looked at.
    #[must_use]
    pub fn tag(&self) -> Option<ReceivedTag> {
        let tag = |(value, number)| ReceivedTag { value, number };
        self.extra.tag.map(tag)
    }

    /// Whether the device waits for a report of unexpected messages before it matches new tags
    /// ([`TagQueue::synchronise`]).
    #[must_use]
    pub fn needs_sync(&self) -> bool {
        self.flags & IBV_WC_TM_SYNC_REQ != 0
    }
}

/// What a message does: `enum ibv_tmh_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It has no tag, and is always unexpected.
    NoTag,
    /// It says where the bytes are, which the receiver reads (rendezvous). [`rendezvous`] comes
    /// behind the header.
    Rendezvous,
    /// The receiver has read them: the sender's memory is its own again.
    Finished,
    /// The bytes come behind the header.
    Eager,
}

/// The beginning of a message: `struct ibv_tmh` of `infiniband/tm_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message does.
    pub kind: Kind,
    /// A number for the receiver.
    pub number: u32,
    /// The tag.
    pub tag: u64,
}

impl Header {
    /// Bytes of its encoding.
    pub const SIZE: usize = 16;

    /// Its encoding.
    ///
    /// ```
    /// use verbs::tag_matching::{Header, Kind};
    ///
    /// let header = Header { kind: Kind::Eager, number: 1, tag: 42 };
    /// assert_eq!(header.to_bytes(), [3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 42]);
    /// assert_eq!(Header::from_bytes(header.to_bytes()), Some(header));
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let kind = match self.kind {
            Kind::NoTag => 0,
            Kind::Rendezvous => 1,
            Kind::Finished => 2,
            Kind::Eager => 3,
        };
        let [a, b, c, d] = self.number.to_be_bytes();
        let [s, t, u, v, w, x, y, z] = self.tag.to_be_bytes();
        [kind, 0, 0, 0, a, b, c, d, s, t, u, v, w, x, y, z]
    }

    /// The header that [`Header::to_bytes`] encoded; none of an unknown kind.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let [kind, _, _, _, a, b, c, d, s, t, u, v, w, x, y, z] = bytes;
        let kind = match kind {
            0 => Kind::NoTag,
            1 => Kind::Rendezvous,
            2 => Kind::Finished,
            3 => Kind::Eager,
            _ => return None,
        };
        Some(Self {
            kind,
            number: u32::from_be_bytes([a, b, c, d]),
            tag: u64::from_be_bytes([s, t, u, v, w, x, y, z]),
        })
    }
}

/// Where the bytes of a message are, as it stands behind a header of [`Kind::Rendezvous`]:
/// `struct ibv_rvh`. None of memory of 4 GiB and more.
#[must_use]
pub fn rendezvous(memory: &RemoteMemory) -> Option<[u8; 16]> {
    let [s, t, u, v, w, x, y, z] = memory.address.to_be_bytes();
    let [a, b, c, d] = memory.rkey.to_be_bytes();
    let [e, f, g, h] = u32::try_from(memory.length).ok()?.to_be_bytes();
    Some([s, t, u, v, w, x, y, z, a, b, c, d, e, f, g, h])
}
