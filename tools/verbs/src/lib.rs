//! RDMA verbs for programs in Rust: a safe interface to libibverbs.
//!
//! By default the library itself is a part of the program: no C library is installed or loaded, and
//! with uroce there is an RDMA device on any machine. With the feature `system` the program is
//! linked with `libibverbs.so.1` instead.
//!
//! ```
//! use verbs::{Device, ReceiveRequest, SendRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // RoCE v2 over the loopback interface, in user space.
//! verbs::use_uroce("lo");
//! let context = Device::find("uroce_lo")?.open()?;
//! let pd = context.protection_domain()?;
//! let cq = context.completion_queue(64)?;
//!
//! // Two ends of a connection. In a real program each exchanges its endpoint with its peer.
//! let a = pd.reliable(&cq).build()?;
//! let b = pd.reliable(&cq).build()?;
//! let (at_a, at_b) = (a.endpoint(), b.endpoint());
//! b.post_receive(ReceiveRequest::new(pd.buffer(64)?).id(2))?;
//! let (a, _b) = (a.connect(&at_b)?, b.connect(&at_a)?);
//!
//! let mut message = pd.buffer(5)?;
//! message.copy_from_slice(b"hello");
//! a.post(SendRequest::send(message).id(1))?;
//!
//! let mut done = 0;
//! while done < 2 {
//!     for completion in cq.wait()? {
//!         let completion = completion.success()?;
//!         let (id, bytes) = (completion.id, completion.bytes);
//!         let buffer = completion.into_buffer().ok_or("a request with a buffer")?;
//!         if id == 2 {
//!             assert_eq!(&buffer[..bytes], b"hello");
//!         }
//!         done += 1;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Objects
//! [`Device`], [`Context`] (an open device), [`ProtectionDomain`], [`Buffer`] and [`MemoryRegion`],
//! [`CompletionQueue`] and [`CompletionChannel`], [`QueuePair`] (made by a [`QueuePairBuilder`]),
//! [`SharedReceiveQueue`], [`AddressHandle`], [`MemoryWindow`], [`DeviceMemory`],
//! [`XrcDomain`], [`TagQueue`](tag_matching::TagQueue). Each holds counted references to the
//! objects that it was made with; so none is destroyed too early, whatever the order in which a
//! program drops them. An object that the library refuses to destroy keeps those objects, for good.
//! Objects of different open devices, or a shared receive queue of another protection domain, do
//! not work together: `build` fails with EINVAL.
//!
//! # Memory
//! A [`Buffer`] is registered memory that only this program accesses; it is a slice of bytes. A
//! request owns its buffers from the moment in which it is posted, so that no code can access what
//! a device reads or writes. The [`Completion`] returns them; a request that could not be posted
//! comes back in the error ([`PostError`]), unless the device may have it. Buffers of requests that
//! never complete are freed after the queue pair was destroyed, or with the shared receive queue
//! that they wait in; among them are unsignaled requests with no signaled one behind them
//! ([`QueuePair::shut_down`]). Registered memory has whole pages, so that a child process of
//! fork(2) loses no other memory ([`fork_init`]). A [`MemoryRegion`] is memory that remote peers
//! may access at any time; its bytes are copied in and out.
//!
//! ```compile_fail,E0382
//! # fn f(qp: &verbs::QueuePair<verbs::Reliable>, mut buffer: verbs::Buffer) {
//! qp.post(verbs::SendRequest::send(buffer));
//! buffer[0] = 1; // error: the request has the buffer
//! # }
//! ```
//!
//! # States
//! A queue pair is built as an [`UnconnectedQueuePair`], which has an [`Endpoint`] and takes
//! receive requests; [`UnconnectedQueuePair::connect`] makes a [`QueuePair`], which can send. The
//! type of the queue pair decides which calls and which operations it has: [`Reliable`] all,
//! [`Unreliable`] messages and RDMA writes, [`Datagram`] messages, [`RawPacket`] frames
//! ([`flow`]). Other requests are refused with EINVAL.
//!
//! # Queues
//! A completion queue has room for all requests that its queue pairs may have in flight, 16 sends
//! and 16 receives each if the program asks for no others; `build` fails with ENOSPC otherwise. So
//! no completion is lost. An extended one ([`Context::completion_queue_builder`]) reports the time
//! of each completion.
//!
//! # Errors
//! [`Error`] names the verb and has the errno; it converts to [`std::io::Error`]. A request that
//! was posted and failed is a [`Completion`] with a [`WorkError`].
//!
//! # Threads
//! All types are [`Send`] and [`Sync`]: requests may be posted and completions polled by several
//! threads at once.
//!
//! # Features
//! - `static` (default): the library is linked into the program ([`use_uroce`]). It has the
//!   providers for uroce, soft-RoCE and soft-iWARP. Providers of cards are plugins, which need
//!   `libibverbs.so.1`; programs for cards take the feature `system`. Queue pairs of soft-iWARP are
//!   connected by the connection manager alone; [`Context::gid_index`] returns ENODATA there.
//! - `connection` (default): `connection`, connections by address, as those of TCP. The connection
//!   manager is linked into the program, too; with `system` the program is linked with
//!   `librdmacm.so.1`.
//! - `system`: the program is linked with `libibverbs.so.1`, this project's or rdma-core's.
//!   It prevails if both are enabled.
//! - `tokio`: `AsyncCompletionQueue`, whose completions are awaited, and with `connection`
//!   `AsyncListener`, `AsyncConnection`, `AsyncDatagramListener` and `AsyncDatagrams`.
//! - `tools`: for the programs of this project alone.
//!
//! The C structures that some calls return are in [`abi`].

mod address;
#[cfg(feature = "tokio")]
mod asynchronous;
mod attributes;
mod batch;
mod changes;
mod completion;
#[cfg(feature = "connection")]
pub mod connection;
mod context;
mod device;
mod device_memory;
mod domain;
mod ece;
mod error;
pub mod flow;
mod memory;
mod modify;
mod qp;
mod rate;
mod request;
mod sender;
mod spread;
mod srq;
mod state;
mod sys;
pub mod tag_matching;
#[cfg(feature = "tools")]
#[doc(hidden)]
pub mod tools;
mod transport;
mod window;
mod xrc;

pub use address::{AddressHandle, Endpoint};
#[cfg(feature = "tokio")]
pub use asynchronous::AsyncCompletionQueue;
pub use attributes::QueuePairAttributes;
pub use batch::Batch;
pub use changes::Changes;
pub use completion::{
    Completion, CompletionChannel, CompletionQueue, CompletionQueueBuilder, Operation, WorkError,
};
pub use context::{AsyncEvent, Context};
pub use device::Device;
pub use device_memory::DeviceMemory;
pub use domain::ProtectionDomain;
pub use ece::Ece;
pub use error::{Error, PostError, Result};
pub use kit::abi;
pub use memory::{Access, Buffer, MemoryRegion, Prefetch, RegionSlice, RemoteMemory, Segment};
pub use qp::{QueuePair, QueuePairBuilder, UnconnectedQueuePair};
pub use rate::RateLimit;
pub use request::{ReceiveRequest, SendRequest};
pub use spread::{HashFields, SpreadQueuePair, WorkQueue, WorkQueueTable};
pub use srq::SharedReceiveQueue;
pub use state::State;
pub use sys::owner::{ExclusiveMemory, MemoryOwner};
pub use transport::{
    Acknowledged, Connected, Datagram, RawPacket, Reliable, Transport, Unreliable, XrcInitiator,
};
pub use window::MemoryWindow;
pub use xrc::{OpenedXrcTarget, XrcDomain, XrcReceiveQueue, XrcTarget};

#[cfg(all(feature = "static", not(feature = "system")))]
extern crate ferroverbs_static as _;

#[cfg(all(feature = "static", feature = "connection", not(feature = "system")))]
extern crate ferroverbs_rdmacm_static as _;

#[cfg(not(any(feature = "static", feature = "system")))]
compile_error!("one of the features `static` and `system` says which library a program has");

/// Asks for uroce devices on these network interfaces: names separated by commas, or `all`. It is
/// called before devices are listed, and takes precedence over the variable `UROCE_DEVICES` and
/// over `/etc/libibverbs.d/uroce.conf`. Returns whether this call decided: a process asks once.
/// With the feature `system` it does nothing and returns false; there the variable asks.
///
/// ```
/// verbs::use_uroce("lo");
/// let devices = verbs::Device::list()?;
/// assert!(devices.iter().any(|device| device.name() == "uroce_lo"));
/// # Ok::<(), verbs::Error>(())
/// ```
pub fn use_uroce(interfaces: &str) -> bool {
    #[cfg(all(feature = "static", not(feature = "system")))]
    let decided = ferroverbs_static::ask_for_uroce(interfaces);
    #[cfg(feature = "system")]
    let decided = {
        let _ = interfaces;
        false
    };
    decided
}

/// Whether registered memory stays usable in programs that call fork(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForkStatus {
    /// It may not: [`fork_init`] was not called.
    Disabled,
    /// It does: [`fork_init`] was called.
    Enabled,
    /// It does: the kernel copies such memory.
    Unneeded,
}

/// Whether registered memory stays usable in programs that call fork(2):
/// ibv_is_fork_initialized(3).
///
/// ```
/// use verbs::ForkStatus;
///
/// verbs::fork_init()?;
/// assert_ne!(verbs::fork_status(), ForkStatus::Disabled);
/// # Ok::<(), verbs::Error>(())
/// ```
#[must_use]
pub fn fork_status() -> ForkStatus {
    match sys::calls::fork_status() {
        abi::IBV_FORK_ENABLED => ForkStatus::Enabled,
        abi::IBV_FORK_UNNEEDED => ForkStatus::Unneeded,
        _ => ForkStatus::Disabled,
    }
}

/// Keeps registered memory usable in programs that call fork(2): ibv_fork_init(3). It is called
/// before the first registration.
///
/// # Errors
/// Of ibv_fork_init(3).
pub fn fork_init() -> Result<()> {
    sys::calls::fork_init()
}
