//! Tag matching: ibv_create_srq_ex(3) with `IBV_SRQT_TM`, ibv_post_srq_ops(3).
//!
//! A tag has separate memory, which belongs to its entry in the queue's list of tags from before
//! the tag is added until one of these has been polled: a message that met the tag, with all its
//! bytes; a completion that the tag was removed. If adding fails after it was posted, the memory
//! stays until the queue is destroyed.

use std::{ffi::c_int, ptr, sync::Arc};

use kit::abi::*;
use smallvec::SmallVec;

use super::{
    extended::extended,
    flight::{Effect, InFlight, Unposted, WorkQueue, numbers},
    object::{Object, made, status},
    post, raw,
};
use crate::{
    completion::{CompletionQueue, Operation},
    domain::ProtectionDomain,
    error::{Error, Result},
    memory::Segment,
    tag_matching::Size,
};

const POST: &str = "ibv_post_srq_ops";

/// A tag matching queue: the objects that it was made with, and its requests in flight.
pub(crate) type Srq = Object<ibv_srq, Kept>;

pub(crate) struct Kept {
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    /// Receive requests, for messages that meet no tag.
    pub unexpected: Arc<WorkQueue>,
    tags: Arc<WorkQueue>,
    /// Operations on the list of tags.
    operations: Arc<WorkQueue>,
}

/// ibv_create_srq_ex(3).
pub(crate) fn create(pd: &ProtectionDomain, cq: &CompletionQueue, size: Size) -> Result<Srq> {
    const VERB: &str = "ibv_create_srq_ex";
    let device = pd.context().object();
    let create = extended!(device, "ibv_create_srq_ex", create_srq_ex)?;
    let kept = Kept {
        pd: pd.clone(),
        cq: cq.clone(),
        unexpected: Arc::new(WorkQueue::of_shared_receives(VERB, size.requests)?),
        tags: Arc::new(WorkQueue::of_tags(VERB, size.tags)?),
        operations: Arc::new(WorkQueue::of_receives(VERB, size.operations)?),
    };
    for queue in [&kept.unexpected, &kept.tags, &kept.operations] {
        cq.serve(VERB, queue)?;
    }
    let mut attr = ibv_srq_init_attr_ex {
        srq_context: ptr::null_mut(),
        attr: ibv_srq_attr {
            max_wr: size.requests,
            max_sge: size.segments,
            srq_limit: 0,
        },
        comp_mask: IBV_SRQ_INIT_ATTR_TYPE
            | IBV_SRQ_INIT_ATTR_PD
            | IBV_SRQ_INIT_ATTR_CQ
            | IBV_SRQ_INIT_ATTR_TM,
        srq_type: IBV_SRQT_TM,
        pd: pd.object().as_ptr(),
        xrcd: ptr::null_mut(),
        cq: cq.object().as_ptr(),
        tm_cap: ibv_tm_cap {
            max_num_tags: size.tags,
            max_ops: size.operations,
        },
    };
    // SAFETY: all objects live, and are kept. The queue is new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, raw::ibv_destroy_srq, kept))
    }
}

/// A tag of a list: its place among the requests in flight, and the device's name for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    list: u32,
    place: u32,
    handle: u32,
}

/// The tag that a request removes.
pub(crate) struct Removal {
    list: Arc<WorkQueue>,
    place: u32,
}

impl Removal {
    /// The memory of the tag, which the device does not have any more.
    pub(crate) fn take(&self) -> SmallVec<[Segment; 1]> {
        let mut segments = SmallVec::new();
        self.list
            .complete(self.place, |request, _| segments = request.segments);
        segments
    }
}

/// Whether a completion says that a message has met a tag, and another one will say that its bytes
/// have arrived.
pub(crate) fn is_first_of_two(wc: &ibv_wc) -> bool {
    let both = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
    matches!(wc.status, IBV_WC_SUCCESS | IBV_WC_TM_RNDV_INCOMPLETE)
        && wc.opcode == IBV_WC_TM_RECV
        && wc.wc_flags & both == IBV_WC_TM_MATCH
}

/// Posts an operation: the device's name for the tag. All are signaled.
fn operate(
    srq: &Srq,
    request: InFlight,
    opcode: ibv_ops_wr_opcode,
    mut tm: ibv_ops_wr_tm,
    handled: Option<u32>,
) -> std::result::Result<u32, Unposted> {
    let device = srq.pd.context().object();
    let verb = match extended!(device, "ibv_post_srq_ops", post_srq_ops) {
        Ok(verb) => verb,
        Err(error) => return Err((error, Some(request))),
    };
    let mut flags = IBV_OPS_SIGNALED;
    if let Some(count) = handled {
        flags |= IBV_OPS_TM_SYNC;
        tm.unexpected_cnt = count;
    }
    let mut handle = 0;
    srq.operations.post(POST, request, |wr_id, _| {
        let mut wr = ibv_ops_wr {
            wr_id,
            next: ptr::null_mut(),
            opcode,
            flags: flags.cast_signed(),
            tm,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue lives. The memory of a tag that is added is owned by its entry in the
        // list until the device has given it back or the queue is destroyed.
        status(POST, unsafe {
            verb(srq.as_ptr(), &raw mut wr, &raw mut bad)
        })?;
        handle = wr.tm.handle;
        Ok(())
    })?;
    Ok(handle)
}

/// An operation without a tag.
fn tm() -> ibv_ops_wr_tm {
    ibv_ops_wr_tm {
        unexpected_cnt: 0,
        handle: 0,
        add: ibv_ops_wr_tm_add {
            recv_wr_id: 0,
            sg_list: ptr::null_mut(),
            num_sge: 0,
            tag: 0,
            mask: 0,
        },
    }
}

/// Adds a tag with the memory of the request.
pub(crate) fn add(
    srq: &Srq,
    request: InFlight,
    (tag, mask): (u64, u64),
    handled: Option<u32>,
) -> std::result::Result<Entry, Unposted> {
    let mut entry = Entry {
        list: srq.tags.number(),
        place: 0,
        handle: 0,
    };
    srq.tags.post(POST, request, |recv_wr_id, request| {
        let mut sges = post::sges(request, None, POST)?;
        let mut tm = tm();
        tm.add = ibv_ops_wr_tm_add {
            recv_wr_id,
            sg_list: sges.as_mut_ptr(),
            num_sge: c_int::try_from(sges.len()).unwrap_or(c_int::MAX),
            tag,
            mask,
        };
        let operation = InFlight::without_memory(request.id, Operation::AddTag);
        let posted = operate(srq, operation, IBV_WR_TAG_ADD, tm, handled);
        (_, entry.place) = numbers(recv_wr_id);
        entry.handle = posted.map_err(|(error, _)| error)?;
        Ok(())
    })?;
    Ok(entry)
}

/// Removes a tag.
pub(crate) fn remove(srq: &Srq, entry: Entry, id: u64, handled: Option<u32>) -> Result<()> {
    if entry.list != srq.tags.number() {
        let invalid = Error::new(POST, libc::EINVAL);
        return Err(invalid.because("a tag of another queue"));
    }
    let mut tm = tm();
    tm.handle = entry.handle;
    let mut operation = InFlight::without_memory(id, Operation::RemoveTag);
    operation.effect = Some(Box::new(Effect::Removes(Removal {
        list: Arc::clone(&srq.tags),
        place: entry.place,
    })));
    // A device uses the name again for another tag when the completion of this one is polled.
    srq.cq.between_polls(|| {
        if srq.tags.tagged(entry.place).is_none() {
            let none = Error::new(POST, libc::ENOENT);
            return Err(none.because("the tag has completed"));
        }
        let posted = operate(srq, operation, IBV_WR_TAG_DEL, tm, handled);
        posted.map(|_| ()).map_err(|(error, _)| error)
    })
}

/// Reports how many unexpected messages were handled.
pub(crate) fn synchronise(srq: &Srq, handled: u32, id: u64) -> Result<()> {
    let operation = InFlight::without_memory(id, Operation::SyncTags);
    let posted = operate(srq, operation, IBV_WR_TAG_SYNC, tm(), Some(handled));
    posted.map(|_| ()).map_err(|(error, _)| error)
}
