//! Borrowed C objects.
//!
//! A handle is made once, by an exported function, from the pointer that C passed; from then on
//! the code is safe. Objects are used in place: a handle gives out values and borrowed parts,
//! never a copy of the object.

mod context;
mod device;
mod driver;
mod memory;
mod number;
mod object;
mod qp_attr;
mod queue;
mod requests;
mod sysfs;
pub mod watch;

pub use context::{Ctx, LaterVerbs, LibraryVerbs};
pub use device::{DeviceRef, HeldDevice, hold, release};
pub(crate) use device::{name_of, transport};
pub use driver::{Driver, Match, MatchEntry};
pub use number::{counters_number, flow_action_number, xrcd_number};
pub use object::*;
pub use qp_attr::{QpAnswer, QpChange};
pub use queue::UNACKED;
pub use requests::{FlowSpec, Posted, receives, sends, specs};
pub use sysfs::{Found, SysfsDev, SysfsView};
