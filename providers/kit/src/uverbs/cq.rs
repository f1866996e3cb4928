//! Completion queues: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_resize_cq(3),
//! ibv_modify_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3).

use super::destroy::Method;
use super::events::destroy_reporting;
use super::{Driver, Fallback, Ioctl, Kernel, Path};
use super::{add_driver, try_ioctl, unless_imported, write, write_parts};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;

use crate::errno::{Errno, Result};
use crate::table::slot;
use core::ffi::c_int;
use core::sync::atomic::Ordering;

/// A queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewCq {
    /// The queue's number in the kernel's events.
    pub user_handle: u64,
    /// Entries, at least.
    pub cqe: u32,
    /// Descriptor of the completion channel.
    pub channel: Option<c_int>,
    /// Which of the device's vectors signals completions.
    pub comp_vector: u32,
    /// `IB_UVERBS_CQ_FLAGS_*`.
    pub flags: u32,
    /// The device stamps every completion, so a kernel that cannot be asked for it will do.
    pub stamps_anyway: bool,
    /// The context's descriptor for asynchronous events, negative for none.
    pub async_fd: c_int,
}

/// Memory that a provider has for a queue: `length` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Of the process.
    Memory {
        /// Address of the first byte.
        addr: u64,
        /// Bytes.
        length: u64,
    },
    /// In a DMA buffer.
    DmaBuffer {
        /// Its descriptor.
        fd: c_int,
        /// Where the memory begins in it.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Buffer {
    fn add_to(self, call: &mut Ioctl<'_>) {
        let length = match self {
            Self::Memory { addr, length } => {
                call.u64_in(UVERBS_ATTR_CREATE_CQ_BUFFER_VA, addr);
                length
            }
            Self::DmaBuffer { fd, offset, length } => {
                call.fd_in(UVERBS_ATTR_CREATE_CQ_BUFFER_FD, fd);
                call.u64_in(UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, offset);
                length
            }
        };
        call.u64_in(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, length);
    }
}

/// A queue as the kernel made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedCq {
    /// Its number in the kernel.
    pub handle: u32,
    /// Its entries.
    pub cqe: u32,
}

impl NewCq {
    fn fallback(&self) -> Fallback {
        let stamp = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
        match self.flags {
            0 => Fallback::Write,
            flags if flags == stamp && self.stamps_anyway => Fallback::Write,
            _ => Fallback::WriteEx,
        }
    }

    fn channel_or_none(&self) -> i32 {
        self.channel.unwrap_or(-1)
    }

    fn create(&self) -> ib_uverbs_create_cq {
        ib_uverbs_create_cq {
            user_handle: self.user_handle,
            cqe: self.cqe,
            comp_vector: self.comp_vector,
            comp_channel: self.channel_or_none(),
            ..Default::default()
        }
    }

    fn create_ex(&self) -> ib_uverbs_ex_create_cq {
        ib_uverbs_ex_create_cq {
            user_handle: self.user_handle,
            cqe: self.cqe,
            comp_vector: self.comp_vector,
            comp_channel: self.channel_or_none(),
            flags: self.flags,
            ..Default::default()
        }
    }
}

impl From<ib_uverbs_create_cq_resp> for CreatedCq {
    fn from(answer: ib_uverbs_create_cq_resp) -> Self {
        Self {
            handle: answer.cq_handle,
            cqe: answer.cqe,
        }
    }
}

/// Makes a completion queue.
///
/// # Errors
/// EOPNOTSUPP for an imported context on a kernel without the method; else the kernel's own
/// errno.
pub fn create_cq<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewCq,
    driver: &mut Driver<'_>,
) -> Result<CreatedCq> {
    create_cq_in(kernel, new, None, driver)
}

/// The same in memory of the provider's, if it has some.
///
/// # Errors
/// As for [`create_cq`]; EOPNOTSUPP for memory on a kernel without the method, because a write
/// command has no place for it.
pub fn create_cq_in<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewCq,
    buffer: Option<Buffer>,
    driver: &mut Driver<'_>,
) -> Result<CreatedCq> {
    let mut cqe = 0;
    let mut call = Ioctl::new(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    call.object_out(UVERBS_ATTR_CREATE_CQ_HANDLE);
    call.value_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &mut cqe);
    call.u32_in(UVERBS_ATTR_CREATE_CQ_CQE, new.cqe);
    call.u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, new.user_handle);
    call.fd_in(
        UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
        new.channel.unwrap_or(-1),
    );
    call.u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, new.comp_vector);
    let events = call.fd_in(UVERBS_ATTR_CREATE_CQ_EVENT_FD, new.async_fd);
    // The queue of an imported context would report to another process without it.
    if !kernel.private().imported.load(Ordering::Relaxed) {
        events.optional();
    }
    if let Some(buffer) = buffer {
        buffer.add_to(&mut call);
    }
    if new.flags != 0 {
        call.u32_in(UVERBS_ATTR_CREATE_CQ_FLAGS, new.flags);
    }
    add_driver(&mut call, driver);
    let fallback = match buffer {
        None => unless_imported(kernel, new.fallback()),
        Some(_) => Fallback::None,
    };
    match try_ioctl(kernel, slot::create_cq, &mut call, fallback)? {
        Path::Ioctl => {
            let handle = call.object(UVERBS_ATTR_CREATE_CQ_HANDLE)?;
            Ok(CreatedCq { handle, cqe })
        }
        Path::Write => write(kernel, &new.create(), driver).map(CreatedCq::from),
        Path::WriteEx => write(kernel, &new.create_ex(), driver).map(|a| a.base.into()),
    }
}

/// Ends a completion queue. Returns how many completion and asynchronous events were reported
/// of it; nothing if its device is gone.
///
/// # Errors
/// The kernel's own errno, EBUSY while queues complete to it.
pub fn destroy_cq<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<Option<(u32, u32)>> {
    const METHOD: Method = Method {
        slot: slot::destroy_cq,
        object: UVERBS_OBJECT_CQ,
        method: UVERBS_METHOD_CQ_DESTROY,
        attr: UVERBS_ATTR_DESTROY_CQ_HANDLE,
    };
    let command = ib_uverbs_destroy_cq {
        cq_handle: handle,
        ..Default::default()
    };
    let events = UVERBS_ATTR_DESTROY_CQ_RESP;
    let reported = destroy_reporting(kernel, &METHOD, events, handle, &command, |answer| answer)?;
    Ok(reported.map(|r| (r.comp_events_reported, r.async_events_reported)))
}

/// Gives a queue room for at least `cqe` entries; returns how many it has now.
///
/// # Errors
/// The kernel's own errno.
pub fn resize_cq<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    cqe: u32,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let command = ib_uverbs_resize_cq {
        response: 0,
        cq_handle: handle,
        cqe,
    };
    write(kernel, &command, driver).map(|answer| answer.cqe)
}

/// Changes how completions of a queue are gathered before an event: `attr_mask` of
/// `IBV_CQ_ATTR_*`, completions and microseconds.
///
/// # Errors
/// EINVAL for a mask with unknown bits; else the kernel's own errno.
pub fn modify_cq<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    attr_mask: u32,
    moderation: ib_uverbs_cq_moderation,
    driver: &mut Driver<'_>,
) -> Result<()> {
    if attr_mask >= crate::abi::IBV_CQ_ATTR_RESERVED {
        return Err(Errno::INVAL);
    }
    let command = ib_uverbs_ex_modify_cq {
        cq_handle: handle,
        attr_mask,
        attr: moderation,
        reserved: 0,
    };
    write(kernel, &command, driver)
}

/// Asks for an event with the next completion, or the next solicited one.
///
/// # Errors
/// The kernel's own errno.
pub fn req_notify_cq<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    solicited_only: bool,
) -> Result<()> {
    let command = ib_uverbs_req_notify_cq {
        cq_handle: handle,
        solicited_only: solicited_only.into(),
    };
    write(kernel, &command, &mut Driver::none())
}

/// Maximum of completions that one command fetches: a response of 16 bits' length contains them.
const BATCH: usize = 1024;

/// Fetches up to `most` completions through the kernel, the oldest first, and hands each to
/// `take`. Returns how many there were.
///
/// # Errors
/// ENOMEM, or the kernel's own errno, when nothing was fetched before.
pub fn poll_cq<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    most: usize,
    mut take: impl FnMut(usize, &ib_uverbs_wc),
) -> Result<usize> {
    let mut room = Vec::new();
    let len = most.min(BATCH);
    room.try_reserve_exact(len).map_err(|_| Errno::NOMEM)?;
    room.resize(len, ib_uverbs_wc::default());
    let mut fetched = 0;
    while fetched < most {
        let wanted = (most - fetched).min(len);
        let batch = room.get_mut(..wanted).ok_or(Errno::INVAL)?;
        match poll_once(kernel, handle, batch) {
            // Fetched completions have left the queue and must not be lost.
            Err(_) if fetched > 0 => break,
            Err(e) => return Err(e),
            Ok(found) => {
                for (i, wc) in batch.iter().take(found).enumerate() {
                    take(fetched + i, wc);
                }
                fetched += found;
                if found < wanted {
                    break;
                }
            }
        }
    }
    Ok(fetched)
}

fn poll_once<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    room: &mut [ib_uverbs_wc],
) -> Result<usize> {
    let command = ib_uverbs_poll_cq {
        response: 0,
        cq_handle: handle,
        ne: u32::try_from(room.len()).map_err(|_| Errno::INVAL)?,
    };
    let len = room.len();
    let bytes = bytemuck::cast_slice_mut(room);
    let answer = write_parts(kernel, &command, &[], &mut Driver::none(), bytes)?;
    let found = usize::try_from(answer.count).map_err(|_| Errno::PROTO)?;
    Ok(found.min(len))
}
