//! The kernel's connection manager: a character device; each open file is an event channel.

mod file;
mod find;
mod id;

pub use file::next_event;
pub use find::open;
pub use id::{KernelFile, KernelId};
