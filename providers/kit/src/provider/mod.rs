#![deny(unsafe_code)]
//! Providers written in Rust: the traits that they implement.
//!
//! [`Provider`] is implemented by one value for each open context. Its objects are values too. The
//! C structures that applications hold (`ibv_pd`, `ibv_qp` …) precede them in one memory block
//! each, and belong to `shim`, the C side. The trait uses safe types only: references to the
//! provider's own objects, C attributes as plain values, work requests as views.
//!
//! The shims take care of:
//! - the C structures, their mutexes and conditions, and destruction that waits for events that
//!   were not acknowledged;
//! - EBUSY: an object is not destroyed before the objects that were created with it;
//! - NULL and foreign pointers (EINVAL), and the sizes of extensible structures;
//! - the return conventions.
//!
//! *Devices in user space* (uroce) are created with [`Device`]: a `verbs_device` with separate
//! operations. Opening runs the provider's function and creates a context without a kernel command
//! descriptor, whose private part names the provider's [`Edges`] (channels, GIDs, P_Keys). Closing
//! calls `close` and drops the provider. Objects that the application did not destroy keep the
//! block of their context: destroying them later is EINVAL and their memory is leaked, where a
//! provider in C would use freed memory.
//!
//! *Devices of the kernel* (rxe, siw) implement [`KernelProvider`] as well: the kernel driver, its
//! ABI versions, and `open`. [`driver`] makes the table that a C provider would register, so
//! matching, opening and the life of the device are ordinary code of the library. The shim creates
//! the kernel's context and gives the provider its [`Commands`], a `uverbs::Kernel` that may be
//! stored and shared and answers EBADF after the context is closed. Channels, GIDs and events come
//! from the kernel. [`plain`] implements objects of drivers that add nothing to the kernel's common
//! commands.
//!
//! docs/write-a-provider.md is a walk through a small provider.

mod command;
mod comp_cntr;
mod edges;
mod kernel;
pub mod plain;
mod request;
#[allow(unsafe_code, reason = "the shims speak with C")]
mod shim;
mod steering;

pub use command::command_device;
pub use comp_cntr::{CompCntr, Counts, MAX_COMP_CNTRS};
pub use edges::Edges;
pub use kernel::{KernelProvider, Numbered};
pub use request::{
    Bind, BindInfo, Data, Flush, Inline, ReceiveRequest, SendChain, SendRequest, SendView, Tso,
};
pub use shim::{Commands, Device, DeviceSpec, Opened, Pieces, driver};
pub use steering::{FlowInit, FlowPart, Rss, WqChange, WqInit};

use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::sys::application::ApplicationMemory;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The number of an object for C; a kernel would get it as the user handle. Event records contain
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// The keys of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// L_Key.
    pub lkey: u32,
    /// R_Key.
    pub rkey: u32,
}

/// How a region is to be changed (ibv_rereg_mr(3)).
pub struct Rereg<'a, P: Provider> {
    /// `IBV_REREG_MR_CHANGE_TRANSLATION`: address and length.
    pub range: Option<ApplicationMemory>,
    /// `IBV_REREG_MR_CHANGE_PD`.
    pub pd: Option<&'a Arc<P::Pd>>,
    /// `IBV_REREG_MR_CHANGE_ACCESS`.
    pub access: Option<u32>,
}

/// Parameters of a new completion queue.
pub struct CqInit<'a> {
    /// The queue in event records.
    pub token: Token,
    /// Entries asked for, at least 1.
    pub entries: u32,
    /// The descriptor of the channel, one that [`Edges::create_comp_channel`] made.
    pub channel: Option<BorrowedFd<'a>>,
    /// `comp_vector`.
    pub vector: u32,
    /// `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`.
    pub ignore_overrun: bool,
    /// The fields of completions that the application wants to read, if the queue is an extended
    /// one: bits of `enum ibv_create_cq_wc_flags` that the shim has readers for.
    pub readers: Option<u64>,
}

/// A completion with the values that extended queues have beyond `ibv_wc`.
#[derive(Clone, Copy)]
pub struct Polled {
    /// The completion.
    pub wc: ibv_wc,
    /// When, in ticks of the device's clock.
    pub timestamp: u64,
    /// When, in nanoseconds since 1970.
    pub wallclock: u64,
}

/// Events of an object that the application has read so far; destroying the object waits until
/// the application has acknowledged as many. Records that are unread when the object is destroyed
/// are withdrawn, and not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedEvents {
    /// Completion events.
    pub completion: u32,
    /// Asynchronous events.
    pub asynchronous: u32,
}

/// Parameters of a new shared receive queue.
pub struct SrqInit<'a, P: Provider> {
    /// The queue in event records.
    pub token: Token,
    /// Protection domain.
    pub pd: &'a Arc<P::Pd>,
    /// `max_wr`, `max_sge`, `srq_limit`; the shim returns the values that the provider leaves here.
    pub attr: &'a mut ibv_srq_attr,
    /// `IBV_SRQT_XRC`.
    pub xrc: Option<XrcInit<'a, P>>,
}

/// Additional parameters of an XRC shared receive queue.
pub struct XrcInit<'a, P: Provider> {
    /// The domain.
    pub xrcd: &'a Arc<P::Xrcd>,
    /// Queue for completions of its requests.
    pub cq: &'a P::Cq,
}

/// Parameters of a new queue pair.
pub struct QpInit<'a, P: Provider> {
    /// The queue pair in event records.
    pub token: Token,
    /// `qp_type`.
    pub qp_type: ibv_qp_type,
    /// Protection domain; XRC targets have none.
    pub pd: Option<&'a Arc<P::Pd>>,
    /// Queue for completions of send requests.
    pub send_cq: Option<&'a P::Cq>,
    /// Queue for completions of receive requests.
    pub recv_cq: Option<&'a P::Cq>,
    /// Shared receive queue.
    pub srq: Option<&'a P::Srq>,
    /// XRC domain of an XRC target.
    pub xrcd: Option<&'a Arc<P::Xrcd>>,
    /// Requested sizes; the shim returns the values that the provider leaves here.
    pub cap: &'a mut ibv_qp_cap,
    /// Every send request is signalled.
    pub sq_sig_all: bool,
    /// `enum ibv_qp_create_flags`.
    pub create_flags: u32,
    /// With `IBV_QP_CREATE_SOURCE_QPN`: the number that packets name as their source.
    pub source_qpn: u32,
    /// Longest header of `IBV_WR_TSO`.
    pub max_tso_header: u16,
    /// `enum ibv_qp_create_send_ops_flags`: the ibv_wr_* functions that will be called; the shim
    /// has checked that the type of queue pair can have them (EOPNOTSUPP).
    pub send_ops: u64,
    /// `IBV_QP_INIT_ATTR_IND_TABLE`, `IBV_QP_INIT_ATTR_RX_HASH`: the queue pair only receives, by a
    /// table of work queues, and has no queues itself.
    pub rss: Option<Rss<'a, P>>,
}

/// A context of a provider, and its objects. The module's documentation describes the work of the
/// shims.
///
/// Every method may be called from several threads at once. A `destroy_*` method is called when
/// nothing that was made with the object is left; after `Ok` the application has no way to reach it
/// any more (the provider may hold references to it a little longer). Queues and queue pairs lie in
/// the block of their C structure, because programs make one for each connection: a provider that
/// holds references to them names an [`Arc`] as their type. Methods that a provider leaves out
/// answer EOPNOTSUPP.
#[allow(unused_variables, reason = "the names document the defaults")]
pub trait Provider: Sized + Send + Sync + 'static {
    /// Protection domain.
    type Pd: Send + Sync + 'static;
    /// Memory region.
    type Mr: Send + Sync + 'static;
    /// Memory window.
    type Mw: Send + Sync + 'static;
    /// Device memory.
    type Dm: Send + Sync + 'static;
    /// Completion queue.
    type Cq: Send + Sync + 'static;
    /// Shared receive queue.
    type Srq: Send + Sync + 'static;
    /// Queue pair.
    type Qp: Send + Sync + 'static;
    /// Address handle.
    type Ah: Send + Sync + 'static;
    /// XRC domain.
    type Xrcd: Send + Sync + 'static;
    /// Work queue; `()` for providers without them, as for those below.
    type Wq: Send + Sync + 'static;
    /// Table of work queues.
    type WqTable: Send + Sync + 'static;
    /// Flow rule.
    type Flow: Send + Sync + 'static;
    /// Set of counters.
    type Counters: Send + Sync + 'static;

    /// Whether ibv_alloc_buf(3) gives memory that other processes of the user can map
    /// ([`crate::sys::device_memory`]), and not pages of the process alone.
    const SHARES_BUFFERS: bool = false;

    /// How many completion vectors there are (`num_comp_vectors`).
    fn comp_vectors(&self) -> u32 {
        1
    }
    /// ibv_close_device(3). The provider stops using objects that the application has left: their
    /// verbs are not called any more. The shims' references to the provider and its [`Edges`] are
    /// dropped afterwards, those to remaining objects never.
    fn close(&self) {}
    /// The number that C shows of an object (`handle`), which is the kernel's for a kernel device.
    /// `None` leaves it at 0, or at the number of a queue pair or shared receive queue.
    fn number(&self, object: Numbered<'_, Self>) -> Option<u32> {
        None
    }

    /// ibv_query_device_ex(3). `attr` is all zeros.
    ///
    /// # Errors
    /// Its errno.
    fn query_device(&self, attr: &mut ibv_device_attr_ex) -> Result<()>;
    /// ibv_query_port(3). `attr` is all zeros.
    ///
    /// # Errors
    /// EINVAL for a port that there is not.
    fn query_port(&self, port: u8, attr: &mut ibv_port_attr) -> Result<()>;
    /// ibv_query_port_speed(3), in units of 100 Mbit/s.
    ///
    /// # Errors
    /// EINVAL for a port that there is not.
    fn query_port_speed(&self, port: u32) -> Result<u64> {
        Err(Errno::OPNOTSUPP)
    }
    /// The operations that queue pairs count on completion counters: bits of
    /// `enum ibv_qp_attach_comp_cntr_op`. 0: there are no such counters.
    fn comp_cntr_ops(&self) -> u32 {
        0
    }
    /// ibv_qp_attach_comp_cntr(3): counts the operations `ops`, some of
    /// [`Provider::comp_cntr_ops`] that are not counted yet, until the queue pair is destroyed.
    ///
    /// # Errors
    /// EINVAL for a queue pair that is neither in RESET nor in INIT.
    fn attach_comp_cntr(&self, qp: &Self::Qp, cntr: Arc<CompCntr>, ops: u32) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_query_rt_values_ex(3): the device's clock, as one number in `tv_nsec`; programs do not
    /// read `tv_sec`.
    ///
    /// # Errors
    /// EOPNOTSUPP without one.
    fn raw_clock(&self) -> Result<libc::timespec> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_alloc_pd(3).
    ///
    /// # Errors
    /// Its errno.
    fn alloc_pd(&self) -> Result<Self::Pd>;
    /// ibv_dealloc_pd(3).
    ///
    /// # Errors
    /// Its errno; then the domain is still there.
    fn dealloc_pd(&self, pd: &Arc<Self::Pd>) -> Result<()> {
        Ok(())
    }

    /// ibv_reg_mr(3), ibv_reg_mr_iova(3). `access` are bits of `enum ibv_access_flags`. Implicit
    /// on-demand paging (`IBV_ACCESS_ON_DEMAND`, address 0, length `SIZE_MAX`) comes as the whole
    /// address space.
    ///
    /// # Errors
    /// EINVAL for access flags that contradict, EFAULT for a range that is not mapped, ENOMEM.
    fn reg_mr(
        &self,
        pd: &Arc<Self::Pd>,
        memory: ApplicationMemory,
        iova: u64,
        access: u32,
    ) -> Result<(Self::Mr, Keys)>;
    /// ibv_rereg_mr(3). After an error the region is as it was.
    ///
    /// # Errors
    /// As for [`Provider::reg_mr`].
    fn rereg_mr(&self, mr: &Arc<Self::Mr>, change: &Rereg<'_, Self>) -> Result<Keys> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_dereg_mr(3).
    ///
    /// # Errors
    /// EBUSY while a memory window is bound to it.
    fn dereg_mr(&self, mr: &Arc<Self::Mr>) -> Result<()>;
    /// ibv_alloc_null_mr(3).
    ///
    /// # Errors
    /// Its errno.
    fn alloc_null_mr(&self, pd: &Arc<Self::Pd>) -> Result<(Self::Mr, Keys)> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_advise_mr(3).
    ///
    /// # Errors
    /// EINVAL, EFAULT, ENOENT, EOPNOTSUPP according to its page.
    fn advise_mr(
        &self,
        pd: &Arc<Self::Pd>,
        advice: u32,
        flags: u32,
        sges: &[ibv_sge],
    ) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_alloc_dm(3): `length` bytes, aligned to 2 to the power `log_align`.
    ///
    /// # Errors
    /// Its errno.
    fn alloc_dm(&self, length: usize, log_align: u32) -> Result<Self::Dm> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_free_dm(3).
    ///
    /// # Errors
    /// Its errno.
    fn free_dm(&self, dm: &Arc<Self::Dm>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_memcpy_to_dm(3).
    ///
    /// # Errors
    /// EFAULT beyond the end.
    fn write_dm(&self, dm: &Arc<Self::Dm>, offset: u64, data: &[u8]) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_memcpy_from_dm(3).
    ///
    /// # Errors
    /// EFAULT beyond the end.
    fn read_dm(&self, dm: &Arc<Self::Dm>, offset: u64, data: &mut [u8]) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_reg_dm_mr(3).
    ///
    /// # Errors
    /// EINVAL beyond the end, or without `IBV_ACCESS_ZERO_BASED`.
    fn reg_dm_mr(
        &self,
        pd: &Arc<Self::Pd>,
        dm: &Arc<Self::Dm>,
        offset: u64,
        length: usize,
        access: u32,
    ) -> Result<(Self::Mr, Keys)> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_alloc_mw(3): the window and its R_Key.
    ///
    /// # Errors
    /// Its errno.
    fn alloc_mw(&self, pd: &Arc<Self::Pd>, mw_type: ibv_mw_type) -> Result<(Self::Mw, u32)> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_dealloc_mw(3).
    ///
    /// # Errors
    /// Its errno.
    fn dealloc_mw(&self, mw: &Arc<Self::Mw>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_bind_mw(3), for windows of type 1: posts the request, and returns the new R_Key, which
    /// the shim stores in the window.
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    fn bind_mw(
        &self,
        qp: &Self::Qp,
        mw: &Arc<Self::Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, Self>,
    ) -> Result<u32> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_cq(3), ibv_create_cq_ex(3): the queue, and how many entries it has.
    ///
    /// # Errors
    /// EINVAL for a size, vector or flag that there is not; ENOMEM.
    fn create_cq(&self, init: &CqInit<'_>) -> Result<(Self::Cq, u32)>;
    /// ibv_resize_cq(3): how many entries it has now.
    ///
    /// # Errors
    /// EINVAL for a size under the number of completions in it.
    fn resize_cq(&self, cq: &Self::Cq, entries: u32) -> Result<u32> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_modify_cq(3): moderation.
    ///
    /// # Errors
    /// Its errno.
    fn moderate_cq(&self, cq: &Self::Cq, count: u16, period: u16) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_cq(3).
    ///
    /// # Errors
    /// Its errno; then the queue is still there.
    fn destroy_cq(&self, cq: &Self::Cq) -> Result<ReportedEvents>;
    /// ibv_poll_cq(3): fills `room` from its beginning.
    ///
    /// # Errors
    /// Its errno (the shim answers it as a negative number).
    fn poll_cq(&self, cq: &Self::Cq, room: &mut [ibv_wc]) -> Result<usize>;
    /// The next completion of an extended queue; `None` if it is empty. Both ways of polling take
    /// from the same entries.
    fn poll_ex(&self, cq: &Self::Cq) -> Option<Polled>;
    /// The same in the middle of a batch: only the completions that are in the queue. A provider
    /// that looks for more when a poll finds nothing does so at the beginning of a batch, and not
    /// here: otherwise a program that has requested an event and reads to the end of the queue
    /// would get one for completions that it has just read.
    fn poll_next(&self, cq: &Self::Cq) -> Option<Polled> {
        self.poll_ex(cq)
    }
    /// ibv_req_notify_cq(3).
    ///
    /// # Errors
    /// Its errno.
    fn req_notify_cq(&self, cq: &Self::Cq, solicited_only: bool) -> Result<()>;

    /// ibv_create_srq(3), ibv_create_srq_ex(3): the queue and its number.
    ///
    /// # Errors
    /// Its errno.
    fn create_srq(&self, init: &mut SrqInit<'_, Self>) -> Result<(Self::Srq, u32)> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_modify_srq(3); `mask` are bits of `enum ibv_srq_attr_mask`.
    ///
    /// # Errors
    /// Its errno.
    fn modify_srq(&self, srq: &Self::Srq, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_query_srq(3).
    ///
    /// # Errors
    /// Its errno.
    fn query_srq(&self, srq: &Self::Srq) -> Result<ibv_srq_attr> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_srq(3): number of asynchronous events reported.
    ///
    /// # Errors
    /// Its errno.
    fn destroy_srq(&self, srq: &Self::Srq) -> Result<u32> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_post_srq_recv(3). Requests before the refused one are posted; the last one taken from
    /// the iterator is the bad one. The iterator ends before a request that the shim refuses
    /// (EINVAL); requests before it are posted, and the result is `Ok`.
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    fn post_srq_recv<'a>(
        &self,
        srq: &Self::Srq,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_qp(3), ibv_create_qp_ex(3): the queue pair and its number.
    ///
    /// # Errors
    /// Its errno.
    fn create_qp(&self, init: &mut QpInit<'_, Self>) -> Result<(Self::Qp, u32)>;
    /// ibv_open_qp(3): an XRC target of the domain by its number.
    ///
    /// # Errors
    /// Its errno.
    fn open_qp(&self, xrcd: &Arc<Self::Xrcd>, number: u32, token: Token) -> Result<Self::Qp> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_modify_qp(3): the state after it. Members of `attr` that the mask leaves out may have
    /// any value; the rate limit is then 0. The sizes of the queue pair stay those of its creation,
    /// because the shims rely on them (the provider has to refuse `IBV_QP_CAP`).
    ///
    /// # Errors
    /// EINVAL for a transition, attribute or value that there is not.
    fn modify_qp(&self, qp: &Self::Qp, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state>;
    /// ibv_query_qp(3): all attributes, capabilities included. `attr` is all zeros.
    ///
    /// # Errors
    /// Its errno.
    fn query_qp(&self, qp: &Self::Qp, attr: &mut ibv_qp_attr) -> Result<()>;
    /// ibv_destroy_qp(3): number of asynchronous events reported.
    ///
    /// # Errors
    /// EBUSY while it is attached to a multicast group.
    fn destroy_qp(&self, qp: &Self::Qp) -> Result<u32>;
    /// ibv_post_send(3). As for [`Provider::post_srq_recv`].
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    fn post_send<'a>(&self, qp: &Self::Qp, requests: &mut impl SendChain<'a, Self>) -> Result<()>;
    /// ibv_wr_complete(3): posts all of the requests, of which there is at least one, or none.
    /// Data to copy stands in memory of the shim's ([`Inline::Bytes`]).
    ///
    /// # Errors
    /// EINVAL, ENOMEM as for ibv_post_send(3); then none is posted.
    fn post_send_all<'a>(
        &self,
        qp: &Self::Qp,
        requests: &mut impl ExactSizeIterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()>;
    /// ibv_post_recv(3). As for [`Provider::post_srq_recv`].
    ///
    /// # Errors
    /// EINVAL, ENOMEM according to its page.
    fn post_recv<'a>(
        &self,
        qp: &Self::Qp,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()>;
    /// ibv_attach_mcast(3).
    ///
    /// # Errors
    /// Its errno.
    fn attach_mcast(&self, qp: &Self::Qp, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_detach_mcast(3).
    ///
    /// # Errors
    /// Its errno.
    fn detach_mcast(&self, qp: &Self::Qp, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_set_ece(3). The provider refuses unknown bits of `comp_mask`.
    ///
    /// # Errors
    /// Its errno.
    fn set_ece(&self, qp: &Self::Qp, ece: &ibv_ece) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_query_ece(3).
    ///
    /// # Errors
    /// Its errno.
    fn query_ece(&self, qp: &Self::Qp) -> Result<ibv_ece> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_ah(3).
    ///
    /// # Errors
    /// EINVAL for a port or GID that there is not.
    fn create_ah(&self, pd: &Arc<Self::Pd>, attr: &ibv_ah_attr) -> Result<Self::Ah> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_ah(3).
    ///
    /// # Errors
    /// Its errno.
    fn destroy_ah(&self, ah: &Arc<Self::Ah>) -> Result<()> {
        Ok(())
    }

    /// ibv_open_xrcd(3): the domain of the file, or an anonymous one. `flags` are `O_CREAT` and
    /// `O_EXCL`.
    ///
    /// # Errors
    /// Its errno.
    fn open_xrcd(&self, file: Option<BorrowedFd<'_>>, flags: i32) -> Result<Self::Xrcd> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_close_xrcd(3).
    ///
    /// # Errors
    /// Its errno.
    fn close_xrcd(&self, xrcd: &Arc<Self::Xrcd>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_wq(3): the queue and its number. It is in RESET.
    ///
    /// # Errors
    /// EINVAL for a size that there is not, EOPNOTSUPP for flags.
    fn create_wq(&self, init: &mut WqInit<'_, Self>) -> Result<(Self::Wq, u32)> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_modify_wq(3): the state after it.
    ///
    /// # Errors
    /// EINVAL for a transition or state that there is not.
    fn modify_wq(&self, wq: &Arc<Self::Wq>, change: &WqChange) -> Result<ibv_wq_state> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_wq(3): number of asynchronous events reported.
    ///
    /// # Errors
    /// Its errno.
    fn destroy_wq(&self, wq: &Arc<Self::Wq>) -> Result<u32> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_post_wq_recv(3). As for [`Provider::post_srq_recv`].
    ///
    /// # Errors
    /// EINVAL, ENOMEM as for ibv_post_recv(3).
    fn post_wq_recv<'a>(
        &self,
        wq: &Arc<Self::Wq>,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_create_rwq_ind_table(3): the table and its number. The queues are a power of 2; one may
    /// be there several times.
    ///
    /// # Errors
    /// EINVAL for more queues than a table can have.
    fn create_wq_table(&self, queues: &[&Arc<Self::Wq>]) -> Result<(Self::WqTable, u32)> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_rwq_ind_table(3).
    ///
    /// # Errors
    /// Its errno.
    fn destroy_wq_table(&self, table: &Arc<Self::WqTable>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_flow(3).
    ///
    /// # Errors
    /// EINVAL for an invalid rule, EOPNOTSUPP for one that the provider does not support.
    fn create_flow(&self, qp: &Self::Qp, init: &FlowInit<'_, Self>) -> Result<Self::Flow> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_flow(3).
    ///
    /// # Errors
    /// Its errno; then the rule is still there.
    fn destroy_flow(&self, flow: &Arc<Self::Flow>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// ibv_create_counters(3).
    ///
    /// # Errors
    /// Its errno.
    fn create_counters(&self) -> Result<Self::Counters> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_destroy_counters(3).
    ///
    /// # Errors
    /// Its errno.
    fn destroy_counters(&self, counters: &Arc<Self::Counters>) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_attach_counters_point_flow(3) without a flow: the quantity counted at this index, once
    /// the counters are bound to a flow. The shim refuses it afterwards (EBUSY).
    ///
    /// # Errors
    /// ENOTSUP for a quantity that cannot be counted, EINVAL for an index that is too large.
    fn attach_counter(
        &self,
        counters: &Arc<Self::Counters>,
        what: ibv_counter_description,
        index: u32,
    ) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// ibv_read_counters(3): the values by index.
    ///
    /// # Errors
    /// EINVAL for more values than there are counters.
    fn read_counters(&self, counters: &Arc<Self::Counters>, values: &mut [u64]) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
}
