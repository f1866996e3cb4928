//! The data path: registered memory, work requests, completions.

use super::{CompChannel, Cq, Pd, Qp, done};
use crate::abi::Buffers;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::{NonNull, null_mut};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sys::{errno, pages, pthread::without_cancellation};
use rsocket_protocol::{Piece, SGE, Sge};
use rustix::fd::BorrowedFd;

mod raw {
    use super::*;

    unsafe extern "C" {
        pub fn ibv_reg_mr(
            pd: *mut ibv_pd,
            addr: *mut c_void,
            length: usize,
            access: c_int,
        ) -> *mut ibv_mr;
        pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
        pub fn ibv_get_cq_event(
            channel: *mut ibv_comp_channel,
            cq: *mut *mut ibv_cq,
            cq_context: *mut *mut c_void,
        ) -> c_int;
        pub fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint);
    }
}

// SAFETY of this file's calls: objects are those of ids, or were made here, and live until their
// owner drops them; work requests belong to this library, on the stack.

/// Memory of the program or the library that a device can access.
#[derive(Debug)]
pub struct Mr(NonNull<ibv_mr>);

// SAFETY: objects of verbs may be used by any thread.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers memory for local writes, and for writes of the peer if `remote_write`. The kernel
    /// returns an error for memory that is not mapped.
    ///
    /// # Errors
    /// Those of ibv_reg_mr(3).
    pub fn new(pd: Pd, address: usize, length: usize, remote_write: bool) -> Result<Self> {
        let mut access = IBV_ACCESS_LOCAL_WRITE;
        if remote_write {
            access |= IBV_ACCESS_REMOTE_WRITE;
        }
        let at = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: see above.
        let mr = unsafe { raw::ibv_reg_mr(pd.as_ptr(), at, length, access.cast_signed()) };
        NonNull::new(mr)
            .map(Self)
            .ok_or_else(|| match errno::get() {
                Errno(0) => Errno::NOMEM,
                other => other,
            })
    }

    pub fn local_key(&self) -> u32 {
        // SAFETY: see above.
        unsafe { (*self.0.as_ptr()).lkey }
    }

    pub fn remote_key(&self) -> u32 {
        // SAFETY: see above.
        unsafe { (*self.0.as_ptr()).rkey }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: see above.
        let _ = unsafe { raw::ibv_dereg_mr(self.0.as_ptr()) };
    }
}

/// Registered pages of the library. The peer may write to them at any time, so no references to
/// their bytes exist: they are only copied.
pub struct Region {
    at: NonNull<u8>,
    length: usize,
    /// None while it is being dropped.
    mr: Option<Mr>,
}

// SAFETY: pages of the process.
unsafe impl Send for Region {}
// SAFETY: a thread that copies holds the connection's lock; a device may write at any time.
unsafe impl Sync for Region {}

impl Region {
    /// Zeroed pages.
    ///
    /// # Errors
    /// ENOMEM; those of ibv_reg_mr(3).
    pub fn new(pd: Pd, length: usize, remote_write: bool) -> Result<Self> {
        let length = length.max(1);
        let at = pages::map(length)?;
        let mut region = Self {
            at: NonNull::new(at.cast()).ok_or(Errno::NOMEM)?,
            length,
            mr: None,
        };
        let address = at.expose_provenance();
        region.mr = Some(Mr::new(pd, address, length, remote_write)?);
        Ok(region)
    }

    pub fn address(&self) -> u64 {
        self.at.as_ptr().addr() as u64
    }

    pub fn local_key(&self) -> u32 {
        self.mr.as_ref().map_or(0, Mr::local_key)
    }

    pub fn remote_key(&self) -> u32 {
        self.mr.as_ref().map_or(0, Mr::remote_key)
    }

    /// A pointer to a piece; none unless all of it is within the region.
    fn piece(&self, piece: Piece) -> Option<*mut u8> {
        let end = piece.offset.checked_add(piece.length)?;
        if end > self.length {
            return None;
        }
        // SAFETY: within the mapping.
        Some(unsafe { self.at.as_ptr().add(piece.offset) })
    }

    /// The piece for a work request.
    pub fn sge(&self, piece: Piece) -> ibv_sge {
        ibv_sge {
            addr: self.address().wrapping_add(piece.offset as u64),
            length: u32::try_from(piece.length).unwrap_or(u32::MAX),
            lkey: self.local_key(),
        }
    }

    /// Copies bytes of the program, from position `at`, into a piece.
    pub fn fill(&self, piece: Piece, from: &Buffers, at: usize) {
        let Some(to) = self.piece(piece) else {
            return;
        };
        let mut done = 0;
        for (from, length) in from.parts(at, piece.length) {
            // SAFETY: the piece is within the mapping; the program vouches for its buffers.
            unsafe { to.add(done).copy_from(from, length) };
            done += length;
        }
    }

    /// Copies a piece to the program's buffers, from position `at`.
    pub fn empty(&self, piece: Piece, to: &Buffers, at: usize) {
        let Some(from) = self.piece(piece) else {
            return;
        };
        let mut done = 0;
        for (to, length) in to.parts(at, piece.length) {
            // SAFETY: as above.
            unsafe { to.copy_from(from.add(done), length) };
            done += length;
        }
    }

    /// Copies bytes of the library into the region.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let length = bytes.len();
        if let Some(to) = self.piece(Piece { offset, length }) {
            // SAFETY: within the mapping, which does not overlap with a slice of the program.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
    }

    /// Copies bytes of the region; zeros where there is none.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let length = bytes.len();
        if let Some(from) = self.piece(Piece { offset, length }) {
            // SAFETY: as above.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, length) };
        }
    }

    /// Takes an entry that the peer has written: the second half is read before and after the
    /// first, and must be equal. None for length 0.
    pub fn take_entry(&self, offset: usize) -> Option<Sge> {
        let length = SGE;
        let at = self.piece(Piece { offset, length })?.cast::<u64>();
        if !at.is_aligned() {
            return None;
        }
        let mut bytes = [0; SGE];
        // SAFETY: two words within the mapping, aligned; the peer may write them meanwhile.
        unsafe {
            let (first, second) = (at, at.add(1));
            let second_before = second.read_volatile();
            core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
            let first = first.read_volatile();
            if second.read_volatile() != second_before {
                return None;
            }
            bytes[..8].copy_from_slice(&first.to_ne_bytes());
            bytes[8..].copy_from_slice(&second_before.to_ne_bytes());
        }
        let entry = Sge::decode_native(&bytes);
        if entry.length == 0 {
            return None;
        }
        // SAFETY: as above.
        unsafe { at.add(1).write_volatile(0) };
        Some(entry)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.mr = None;
        // SAFETY: the mapping belongs to this library, and no device can access it any more.
        unsafe { pages::unmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// An RDMA write.
pub struct RdmaWrite<'a> {
    pub id: u64,
    pub local: Local<'a>,
    /// Immediate data in native byte order.
    pub immediate: Option<u32>,
    pub address: u64,
    pub key: u32,
}

/// The payload of a work request.
pub enum Local<'a> {
    /// Bytes that the device copies during the call.
    Inline(&'a [u8]),
    /// Registered pieces; empty pieces are left out.
    Pieces([ibv_sge; 2]),
}

/// Elements, their number, and flags.
fn elements(local: &Local) -> ([ibv_sge; 2], c_int, c_uint) {
    let nothing = ibv_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    };
    match local {
        Local::Inline(bytes) => {
            let element = ibv_sge {
                addr: bytes.as_ptr().expose_provenance() as u64,
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                lkey: 0,
            };
            let count = c_int::from(!bytes.is_empty());
            ([element, nothing], count, IBV_SEND_INLINE)
        }
        Local::Pieces(pieces) => {
            let count = pieces.iter().filter(|piece| piece.length > 0).count();
            (*pieces, c_int::try_from(count).unwrap_or(0), 0)
        }
    }
}

/// A zeroed request, with a number and elements.
fn request(id: u64, elements: &mut [ibv_sge; 2], count: c_int, flags: c_uint) -> ibv_send_wr {
    // SAFETY: zeros are a valid request.
    let mut request: ibv_send_wr = unsafe { core::mem::zeroed() };
    request.wr_id = id;
    request.sg_list = elements.as_mut_ptr();
    request.num_sge = count;
    request.send_flags = flags;
    request
}

/// The destination of a datagram.
#[derive(Clone, Copy)]
pub struct Peer {
    pub handle: Ah,
    pub queue_pair: u32,
    pub key: u32,
}

impl Qp {
    fn context(self) -> *mut ibv_context {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).context }
    }

    fn post(self, request: &mut ibv_send_wr) -> Result<()> {
        let mut bad = null_mut();
        // SAFETY: see above; every open context has the function.
        let answer = unsafe {
            let post = (*self.context()).ops.post_send.ok_or(Errno::NOSYS)?;
            post(self.as_ptr(), request, &raw mut bad)
        };
        done(answer)
    }

    /// # Errors
    /// Those of ibv_post_send(3).
    pub fn write(self, write: &RdmaWrite) -> Result<()> {
        let (mut sges, count, flags) = elements(&write.local);
        let mut request = request(write.id, &mut sges, count, flags);
        request.opcode = IBV_WR_RDMA_WRITE;
        if let Some(immediate) = write.immediate {
            request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            request.imm.imm_data = be32::new(immediate);
        }
        request.wr.rdma = ibv_send_wr_wr_rdma {
            remote_addr: write.address,
            rkey: write.key,
        };
        self.post(&mut request)
    }

    /// A send of a few bytes.
    ///
    /// # Errors
    /// Those of ibv_post_send(3).
    pub fn send_inline(self, id: u64, bytes: &[u8]) -> Result<()> {
        let (mut sges, count, flags) = elements(&Local::Inline(bytes));
        let mut request = request(id, &mut sges, count, flags);
        request.opcode = IBV_WR_SEND;
        self.post(&mut request)
    }

    /// A datagram.
    ///
    /// # Errors
    /// Those of ibv_post_send(3).
    pub fn send_to(self, id: u64, local: &Local, peer: Peer) -> Result<()> {
        let (mut sges, count, flags) = elements(local);
        let mut request = request(id, &mut sges, count, flags);
        request.opcode = IBV_WR_SEND;
        request.wr.ud = ibv_send_wr_wr_ud {
            ah: peer.handle.as_ptr(),
            remote_qpn: peer.queue_pair,
            remote_qkey: peer.key,
        };
        self.post(&mut request)
    }

    /// A receive request, with memory or without.
    ///
    /// # Errors
    /// Those of ibv_post_recv(3).
    pub fn receive(self, id: u64, memory: Option<ibv_sge>) -> Result<()> {
        let mut sge = memory;
        let mut request = ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: sge.as_mut().map_or(null_mut(), |sge| &raw mut *sge),
            num_sge: c_int::from(memory.is_some()),
        };
        let mut bad = null_mut();
        // SAFETY: see above; every open context has the function.
        let answer = unsafe {
            let post = (*self.context()).ops.post_recv.ok_or(Errno::NOSYS)?;
            post(self.as_ptr(), &raw mut request, &raw mut bad)
        };
        done(answer)
    }
}

impl Cq {
    fn context(self) -> *mut ibv_context {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).context }
    }

    /// Takes completions, and returns their number.
    ///
    /// # Errors
    /// EIO if the device was removed.
    pub fn poll(self, to: &mut [ibv_wc]) -> Result<usize> {
        let most = c_int::try_from(to.len()).unwrap_or(c_int::MAX);
        // SAFETY: see above; the array has room for so many.
        let count = unsafe {
            let poll = (*self.context()).ops.poll_cq.ok_or(Errno::NOSYS)?;
            poll(self.as_ptr(), most, to.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| Errno::IO)
    }

    /// Requests an event at the next completion.
    ///
    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(self) -> Result<()> {
        // SAFETY: see above.
        let answer = unsafe {
            let notify = (*self.context()).ops.req_notify_cq.ok_or(Errno::NOSYS)?;
            notify(self.as_ptr(), 0)
        };
        done(answer)
    }
}

impl CompChannel {
    pub fn fd(self) -> c_int {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).fd }
    }

    /// Makes [`Self::take_event`] non-blocking.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn set_nonblocking(self) -> Result<()> {
        // SAFETY: the channel has the descriptor until it is destroyed.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd()) };
        let flags = rustix::fs::fcntl_getfl(fd)?;
        rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(())
    }

    /// Takes an event and acknowledges it. False if there is none.
    pub fn take_event(self) -> bool {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: see above; the channel's queues live as long as their owner, which is the caller.
        without_cancellation(|| unsafe {
            if raw::ibv_get_cq_event(self.as_ptr(), &raw mut cq, &raw mut context) != 0 {
                return false;
            }
            raw::ibv_ack_cq_events(cq, 1);
            true
        })
    }
}

/// The immediate data of a completion, in native byte order.
pub fn immediate(completion: &ibv_wc) -> u32 {
    // SAFETY: every value of the four bytes is valid.
    unsafe { completion.imm.imm_data }.get()
}

mod handle {
    use super::*;

    unsafe extern "C" {
        fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
        fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    }

    /// The address of a datagram peer.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Ah(NonNull<ibv_ah>);

    // SAFETY: objects of verbs may be used by any thread.
    unsafe impl Send for Ah {}
    // SAFETY: as above.
    unsafe impl Sync for Ah {}

    impl Ah {
        /// # Errors
        /// Those of ibv_create_ah(3).
        pub fn new(pd: Pd, attr: &mut ibv_ah_attr) -> Result<Self> {
            // SAFETY: see above.
            let ah = without_cancellation(|| unsafe { ibv_create_ah(pd.as_ptr(), attr) });
            NonNull::new(ah)
                .map(Self)
                .ok_or_else(|| match errno::get() {
                    Errno(0) => Errno::NOMEM,
                    other => other,
                })
        }

        pub fn as_ptr(self) -> *mut ibv_ah {
            self.0.as_ptr()
        }

        pub fn destroy(self) {
            // SAFETY: see above; the caller does not use it afterwards.
            let _ = unsafe { ibv_destroy_ah(self.as_ptr()) };
        }
    }
}
pub use handle::Ah;
