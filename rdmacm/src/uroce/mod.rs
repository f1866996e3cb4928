//! The connection manager of devices in user space. libibverbs contains it; a function takes
//! commands in the kernel's format.

mod channel;
mod id;
mod table;

pub use channel::{Channel, wait};
pub use id::{UroceFile, UroceId};
pub use table::{explain, observes, record, verbs};
