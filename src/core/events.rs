#![forbid(unsafe_code)]
//! Reading from the descriptor of a channel or a context, one record for each call
//! (ibv_get_cq_event(3), ibv_get_async_event(3)).
//!
//! `export/cancel.c` reads. The call blocks, or answers EAGAIN, as the descriptor is set. Several
//! threads may be in it; the kernel gives each record to one of them. A signal handler that runs
//! meanwhile ends it with EINTR, which programs use to get out of it.

pub mod kept;

use bytemuck::cast;
use kit::{
    abi::{kernel::*, *},
    errno::{Errno, Result},
};

/// A record as it is read: `struct ib_uverbs_async_event_desc`, or the shorter
/// `struct ib_uverbs_comp_event_desc` and bytes without meaning.
pub type Record = [u64; 2];
const _: () = assert!(size_of::<ib_uverbs_async_event_desc>() == size_of::<Record>());
const _: () = assert!(size_of::<ib_uverbs_comp_event_desc>() == size_of::<u64>());

/// The queue that a completion event is about, as the number that the kernel was given for it.
///
/// # Errors
/// EIO when it is no address.
pub fn completion([queue, _]: Record) -> Result<usize> {
    element(queue)
}

/// The type of an asynchronous event, and the object or port that it is about.
pub fn asynchronous(record: Record) -> (ibv_event_type, u64) {
    let record: ib_uverbs_async_event_desc = cast(record);
    (record.event_type, record.element)
}

/// A number that the kernel was given for an object, as an address.
///
/// # Errors
/// EIO when the number is not an address.
pub fn element(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Errno::IO)
}

/// The kind of object that an asynchronous event belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A completion queue.
    Cq,
    /// A queue pair.
    Qp,
    /// A shared receive queue.
    Srq,
    /// A work queue.
    Wq,
    /// A port, or the whole device.
    Port,
}

/// The subject of an event type. Types of a later kernel belong to a port or the device.
pub fn subject(event: ibv_event_type) -> Subject {
    match event {
        IBV_EVENT_CQ_ERR => Subject::Cq,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => Subject::Qp,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Subject::Srq,
        IBV_EVENT_WQ_FATAL => Subject::Wq,
        _ => Subject::Port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_name_their_object() {
        assert_eq!(completion([7, u64::MAX]), Ok(7));
        let record = ib_uverbs_async_event_desc {
            element: 9,
            event_type: IBV_EVENT_QP_FATAL,
            reserved: 0,
        };
        assert_eq!(asynchronous(cast(record)), (IBV_EVENT_QP_FATAL, 9));
    }

    #[test]
    fn every_event_has_its_subject() {
        let subjects: Vec<Subject> = (IBV_EVENT_CQ_ERR..=IBV_EVENT_WQ_FATAL)
            .map(subject)
            .collect();
        let count = |s| subjects.iter().filter(|x| **x == s).count();
        assert_eq!(count(Subject::Cq), 1);
        assert_eq!(count(Subject::Qp), 8);
        assert_eq!(count(Subject::Srq), 2);
        assert_eq!(count(Subject::Wq), 1);
        assert_eq!(count(Subject::Port), 8);
        assert_eq!(subject(1000), Subject::Port);
    }
}
