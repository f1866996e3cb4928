//! Completion queues.

use crate::mapped::{self, FLAG};
use bytemuck::{Zeroable, bytes_of_mut};
use core::mem::offset_of;
use core::sync::atomic::AtomicU8;
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Commands, CqInit, Polled, ReportedEvents, plain};
use kit::queue::owner::Flag;
use kit::queue::{Region, SharedWord, Slots};
use kit::sync::Mutex;
use kit::uverbs::{Driver, cq};

/// Bytes of a completion.
const ENTRY: usize = size_of::<siw_cqe>();
const VALID: u8 = 1;
const REMOTE_INVALIDATED: u8 = 0x20;

type Completions = Slots<ENTRY, FLAG, AtomicU8>;

const _: () = assert!(
    VALID as u16 == SIW_WQE_VALID
        && REMOTE_INVALIDATED as u16 == SIW_WQE_REM_INVAL
        && FLAG == offset_of!(siw_cqe, flags)
);

/// A completion queue.
pub struct Cq {
    pub(crate) handle: u32,
    /// None once it is destroyed.
    queue: Mutex<Option<Queue>>,
}

struct Queue {
    completions: Completions,
    /// The completion to be read next, counted on and on.
    next: u32,
    /// The completions that the kernel reports as events.
    notify: SharedWord,
}

impl Queue {
    /// The queue of `count` completions in a region, followed by its control word.
    fn new(region: Region, count: u32) -> Result<Self> {
        let control = Completions::bytes(count)? + offset_of!(siw_cq_ctrl, flags);
        let [completions, notify] = region.twice();
        let queue = Self {
            notify: SharedWord::new(notify, control)?,
            completions: Slots::new(completions, count)?,
            next: 0,
        };
        queue.notify.set(SIW_NOTIFY_NOT);
        Ok(queue)
    }

    fn map(kernel: &Commands, reported: &siw_uresp_create_cq) -> Result<Self> {
        let entries = Completions::bytes(reported.num_cqe)?;
        let length = entries
            .checked_add(size_of::<siw_cq_ctrl>())
            .ok_or(Errno::IO)?;
        Self::new(
            mapped::map(kernel, reported.cq_key, length)?,
            reported.num_cqe,
        )
    }

    /// Takes the oldest completion.
    #[inline]
    fn take(&mut self) -> Option<ibv_wc> {
        let flags = self.completions.flag(self.next).look();
        if flags & VALID == 0 {
            return None;
        }
        let entry = self.completions.entry(self.next).get::<0, siw_cqe>();
        self.completions.flag(self.next).set(0);
        self.next = self.next.wrapping_add(1);
        Some(completion(&entry, flags))
    }
}

/// A completion as the application reads it. The entry may contain anything: values without a
/// meaning become a general error.
#[inline]
fn completion(entry: &siw_cqe, flags: u8) -> ibv_wc {
    let mut wc = ibv_wc::zeroed();
    wc.wr_id = entry.id;
    wc.byte_len = entry.bytes;
    // Queue pairs are numbered in 24 bits.
    wc.qp_num = (entry.qp_id & 0xff_ffff).try_into().unwrap_or_default();
    let opcode = opcode(entry.opcode);
    wc.opcode = opcode.unwrap_or_default();
    wc.status = match opcode {
        Some(_) => status(entry.status),
        None => IBV_WC_GENERAL_ERR,
    };
    if flags & REMOTE_INVALIDATED != 0 {
        wc.wc_flags = IBV_WC_WITH_INV;
        let key = (entry.imm_data & u64::from(u32::MAX)).try_into();
        wc.imm.invalidated_rkey = key.unwrap_or_default();
    }
    wc
}

#[inline]
fn opcode(siw: u8) -> Option<ibv_wc_opcode> {
    Some(match siw {
        SIW_OP_WRITE => IBV_WC_RDMA_WRITE,
        SIW_OP_READ | SIW_OP_READ_LOCAL_INV => IBV_WC_RDMA_READ,
        SIW_OP_SEND | SIW_OP_SEND_WITH_IMM | SIW_OP_SEND_REMOTE_INV => IBV_WC_SEND,
        SIW_OP_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        SIW_OP_COMP_AND_SWAP => IBV_WC_COMP_SWAP,
        SIW_OP_RECEIVE => IBV_WC_RECV,
        _ => return None,
    })
}

#[inline]
fn status(siw: u16) -> ibv_wc_status {
    match siw {
        SIW_WC_SUCCESS => IBV_WC_SUCCESS,
        SIW_WC_LOC_LEN_ERR => IBV_WC_LOC_LEN_ERR,
        SIW_WC_LOC_PROT_ERR => IBV_WC_LOC_PROT_ERR,
        SIW_WC_LOC_QP_OP_ERR => IBV_WC_LOC_QP_OP_ERR,
        SIW_WC_WR_FLUSH_ERR => IBV_WC_WR_FLUSH_ERR,
        SIW_WC_BAD_RESP_ERR => IBV_WC_BAD_RESP_ERR,
        SIW_WC_LOC_ACCESS_ERR => IBV_WC_LOC_ACCESS_ERR,
        SIW_WC_REM_ACCESS_ERR => IBV_WC_REM_ACCESS_ERR,
        SIW_WC_REM_INV_REQ_ERR => IBV_WC_REM_INV_REQ_ERR,
        _ => IBV_WC_GENERAL_ERR,
    }
}

impl Cq {
    /// Makes a queue; returns how many entries it has, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for time stamps, which completions do not have, and for a queue that may be
    /// overrun; the kernel's own errno.
    pub fn create(kernel: &Commands, init: &CqInit<'_>) -> Result<(Self, u32)> {
        if init.ignore_overrun {
            return Err(Errno::OPNOTSUPP);
        }
        let new = init.plain(kernel, 0)?;
        let mut reported = siw_uresp_create_cq::zeroed();
        let made = cq::create_cq(
            kernel,
            &new,
            &mut Driver::response(bytes_of_mut(&mut reported)),
        )?;
        let queue = Queue::map(kernel, &reported).inspect_err(|_| {
            // The application does not have the queue; it ends with the context at the latest.
            let _ = cq::destroy_cq(kernel, made.handle);
        })?;
        let queue = Mutex::new(Some(queue));
        let handle = made.handle;
        Ok((Self { handle, queue }, made.cqe))
    }

    /// Ends it in the kernel.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<ReportedEvents> {
        let reported = plain::destroy_cq(kernel, self.handle)?;
        *self.queue.lock() = None;
        Ok(reported)
    }

    /// Takes the oldest completions.
    ///
    /// # Errors
    /// EINVAL once the queue is destroyed.
    #[inline]
    pub fn poll(&self, room: &mut [ibv_wc]) -> Result<usize> {
        let mut queue = self.queue.lock();
        let queue = queue.as_mut().ok_or(Errno::INVAL)?;
        let mut found = 0;
        for place in room {
            let Some(wc) = queue.take() else { break };
            *place = wc;
            found += 1;
        }
        Ok(found)
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn poll_one(&self) -> Option<Polled> {
        let wc = self.queue.lock().as_mut()?.take()?;
        Some(wc.into())
    }

    /// Makes the kernel report the next completion, or the next solicited one, as an event.
    ///
    /// # Errors
    /// EINVAL once the queue is destroyed.
    pub fn notify(&self, solicited_only: bool) -> Result<()> {
        let queue = self.queue.lock();
        let queue = queue.as_ref().ok_or(Errno::INVAL)?;
        queue.notify.set(match solicited_only {
            true => SIW_NOTIFY_SOLICITED,
            false => SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u32 = 4;

    /// A queue, and the kernel's end of it.
    fn queue() -> (Cq, Completions, Region) {
        let length = Completions::bytes(COUNT).expect("few") + size_of::<siw_cq_ctrl>();
        let region = Region::plain(length).expect("memory");
        let kernel = Slots::new(region.share(), COUNT).expect("fits");
        let queue = Queue::new(region.share(), COUNT).expect("fits");
        let cq = Cq {
            handle: 1,
            queue: Mutex::new(Some(queue)),
        };
        (cq, kernel, region)
    }

    fn put(kernel: &mut Completions, index: u32, entry: siw_cqe) {
        assert_eq!(kernel.flag(index).look(), 0, "free");
        let flags = entry.flags;
        kernel
            .entry(index)
            .put::<0, siw_cqe>(siw_cqe { flags: 0, ..entry });
        kernel.flag(index).set(flags);
    }

    fn polled(cq: &Cq) -> Vec<ibv_wc> {
        let mut room = [ibv_wc::zeroed(); 3];
        let found = cq.poll(&mut room).expect("there");
        room[..found].to_vec()
    }

    #[test]
    fn completions_come_in_order_and_give_their_places_back() {
        let (cq, mut kernel, _) = queue();
        assert!(polled(&cq).is_empty());
        let mut put_in = 0;
        for round in 0..5u32 {
            for _ in 0..COUNT {
                let entry = siw_cqe {
                    id: put_in.into(),
                    flags: VALID,
                    opcode: SIW_OP_RECEIVE,
                    bytes: put_in,
                    qp_id: 7,
                    ..siw_cqe::default()
                };
                put(&mut kernel, put_in, entry);
                put_in += 1;
            }
            let first = round * COUNT;
            let ids = |wcs: Vec<ibv_wc>| wcs.iter().map(|wc| wc.wr_id).collect::<Vec<_>>();
            let wanted = |range: core::ops::Range<u32>| range.map(u64::from).collect::<Vec<_>>();
            assert_eq!(ids(polled(&cq)), wanted(first..first + 3));
            let last = cq.poll_one().expect("one more").wc;
            assert_eq!(last.wr_id, u64::from(first + 3));
            assert_eq!((last.byte_len, last.qp_num), (first + 3, 7));
            assert_eq!((last.status, last.opcode), (IBV_WC_SUCCESS, IBV_WC_RECV));
            assert!(cq.poll_one().is_none());
        }
    }

    #[test]
    fn unknown_values_are_errors() {
        let (cq, mut kernel, _) = queue();
        let odd = [
            (SIW_OP_RECEIVE, 10),
            (SIW_OP_SEND, u16::MAX),
            (9, 0),
            (255, 0),
        ];
        for (index, (opcode, status)) in (0..).zip(odd) {
            let entry = siw_cqe {
                flags: 0xff,
                opcode,
                status,
                imm_data: u64::MAX,
                qp_id: u64::MAX,
                ..siw_cqe::default()
            };
            put(&mut kernel, index, entry);
            let wc = cq.poll_one().expect("one").wc;
            assert_eq!(wc.status, IBV_WC_GENERAL_ERR, "{opcode} {status}");
            assert_eq!(wc.wc_flags, IBV_WC_WITH_INV);
        }
    }

    #[test]
    fn arming_passes_the_awaited_completions_to_the_kernel() {
        let (cq, _, region) = queue();
        let control = Completions::bytes(COUNT).expect("few");
        assert_eq!(region.number(control), Ok(SIW_NOTIFY_NOT));
        cq.notify(true).expect("there");
        assert_eq!(region.number(control), Ok(SIW_NOTIFY_SOLICITED));
        cq.notify(false).expect("there");
        let both = SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION;
        assert_eq!(region.number(control), Ok(both));
    }

    #[test]
    fn a_count_that_cannot_be_is_refused() {
        let region = Region::plain(3 * ENTRY).expect("memory");
        for count in [0, 3, 4, u32::MAX, 1 << 31] {
            let queue = Queue::new(region.share(), count);
            assert_eq!(queue.err(), Some(Errno::IO), "{count}");
        }
    }
}
