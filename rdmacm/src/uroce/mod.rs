//! The connection manager of devices in user space, which is in libibverbs: it takes the kernel's
//! commands by a function.

mod channel;
mod id;
mod table;

pub use channel::{Channel, wait};
pub use id::{UroceFile, UroceId};
