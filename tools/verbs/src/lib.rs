//! libibverbs for programs written in Rust.
//!
//! Programs are linked to `libibverbs.so.1` by its C names and symbol versions, as programs in C
//! are, so they run over any library of that name. Objects are values that are given back when
//! they are dropped, or by `close`, which says how that went; each keeps what it was made with.
//!
//! - [`Devices`], [`Device`], [`Context`]: the list, an open device and what it is asked;
//! - [`memory`]: protection domains, registered memory, address handles;
//! - [`completion`]: channels and completion queues;
//! - [`queue`]: queue pairs, shared receive queues, XRC domains;
//! - [`abi`]: the C types and constants;
//! - [`getopt`], [`process`]: what the stock programs have from the C library.

pub mod completion;
mod context;
mod device;
pub mod getopt;
mod handle;
pub mod memory;
pub mod process;
pub mod queue;
mod raw;

pub use context::{Context, GidEntry, firmware};
pub use device::{Device, Devices};
pub use kit::abi;
