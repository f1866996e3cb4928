#![forbid(unsafe_code)]
//! The interface of the kernel's connection manager for user space
//! (`linux/include/uapi/rdma/rdma_user_cm.h`): commands, their responses, and events.
//!
//! librdmacm gives these commands to the character device `rdma_cm`. Devices in user space have a
//! connection manager in libibverbs, which takes the same commands by the functions of [`Table`].

mod call;
mod command;
mod event;
mod table;

pub use call::{CALLS, Call};
pub use command::*;
pub use event::{Ece, Param, Record, UdParam};
pub use table::{EXPLAINS, Observed, RECORDS, Table, VERSION, Verbs, WithVerbs};

/// `enum rdma_cm_event_type`.
#[allow(missing_docs)] // the names are those of the kernel's header
pub mod event_type {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const ROUTE_ERROR: u32 = 3;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const CONNECT_ERROR: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const DEVICE_REMOVAL: u32 = 11;
    pub const MULTICAST_JOIN: u32 = 12;
    pub const MULTICAST_ERROR: u32 = 13;
    pub const TIMEWAIT_EXIT: u32 = 15;
    pub const ADDRINFO_RESOLVED: u32 = 16;
    pub const ADDRINFO_ERROR: u32 = 17;
    pub const USER: u32 = 18;
    pub const INTERNAL: u32 = 19;
}

/// `enum rdma_port_space`.
#[allow(missing_docs)] // as above
pub mod port_space {
    pub const RDMA_PS_IPOIB: u32 = 0x0002;
    pub const RDMA_PS_TCP: u32 = 0x0106;
    pub const RDMA_PS_UDP: u32 = 0x0111;
    pub const RDMA_PS_IB: u32 = 0x013f;
}
