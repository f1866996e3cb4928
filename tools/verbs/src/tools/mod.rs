//! For the programs of this project: libibverbs with C's numbers and structures, as the stock
//! programs print them. Other programs use the modules beside it; nothing here is stable.
//!
//! - [`Devices`], [`Device`], [`Context`]: the list, a device, an open device and its queries;
//! - [`memory`]: protection domains, registered memory, device memory, address handles. Bytes that
//!   a device may write are read one at a time, as volatile;
//! - [`completion`]: channels and completion queues;
//! - [`queue`]: queue pairs, shared receive queues, XRC domains; a request has one piece of memory;
//! - [`getopt`], [`process`]: functions of the C library that the stock programs use.
//!
//! *Invariant.* An object is released once: by `close`, which returns the result, or by dropping
//! it. It holds counted references to the objects that it was created with, so the order of
//! destruction is always right. Closing an object in use is EBUSY.

pub mod completion;
mod context;
mod device;
pub mod getopt;
mod handle;
pub mod memory;
pub mod process;
pub mod queue;
mod text;

pub use context::{Context, GidEntry, firmware};
pub use device::{Device, Devices};
pub use kit::abi;

use crate::sys::raw;
