#![forbid(unsafe_code)]
//! Reading events: one record a call, from the descriptor of a channel or a context
//! (ibv_get_cq_event(3), ibv_get_async_event(3)).
//!
//! The call blocks, or answers EAGAIN, as the descriptor is set. Several threads may be in it;
//! the kernel gives each record to one of them. A signal handler that runs meanwhile ends it with
//! EINTR, which programs use to get out of it.

use bytemuck::{Pod, bytes_of_mut};
use kit::{
    abi::{kernel::*, *},
    errno::{Errno, Result},
};
use std::os::fd::BorrowedFd;

/// The queue of the next completion event, as the number that was given to the kernel for it.
///
/// # Errors
/// EAGAIN, EINTR, or what else read(2) answers; EIO when the channel has come to its end.
pub fn next_completion(channel: BorrowedFd<'_>) -> Result<usize> {
    let record: ib_uverbs_comp_event_desc = read(channel)?;
    element(record.cq_handle)
}

/// The next asynchronous event: its type, and the object or port that it is about.
///
/// # Errors
/// As for [`next_completion`].
pub fn next_async(context: BorrowedFd<'_>) -> Result<(ibv_event_type, u64)> {
    let record: ib_uverbs_async_event_desc = read(context)?;
    Ok((record.event_type, record.element))
}

/// A number that the kernel was given for an object, as an address.
///
/// # Errors
/// EIO when it is none.
pub fn element(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Errno::IO)
}

fn read<T: Pod>(fd: BorrowedFd<'_>) -> Result<T> {
    let mut record = T::zeroed();
    let got = rustix::io::read(fd, bytes_of_mut(&mut record))?;
    if got != size_of::<T>() {
        return Err(Errno::IO);
    }
    Ok(record)
}

/// What kind of object an asynchronous event is about.
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

/// What an event of this type is about. Types of a later kernel are about a port or the device.
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
    use rustix::{io::write, pipe::pipe};
    use std::os::fd::AsFd;

    #[test]
    fn records_come_one_by_one() {
        let (from, to) = pipe().unwrap();
        for n in [7u64, 9] {
            write(&to, &n.to_ne_bytes()).unwrap();
        }
        assert_eq!(next_completion(from.as_fd()), Ok(7));
        assert_eq!(next_completion(from.as_fd()), Ok(9));
    }

    #[test]
    fn a_channel_that_ends_is_an_error() {
        let (from, to) = pipe().unwrap();
        drop(to);
        assert_eq!(next_completion(from.as_fd()), Err(Errno::IO));
        assert_eq!(next_async(from.as_fd()), Err(Errno::IO));
    }

    #[test]
    fn an_empty_channel_that_does_not_block_answers_eagain() {
        let (from, _to) = pipe().unwrap();
        rustix::io::ioctl_fionbio(&from, true).unwrap();
        assert_eq!(next_async(from.as_fd()), Err(Errno(libc::EAGAIN)));
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
