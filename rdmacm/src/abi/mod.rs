//! The C types of rdma/rdma_cma.h that the library and programs share, and the objects that own
//! them.

mod addrinfo;
mod buffers;
mod channel;
mod event;
mod id;
mod poll;
mod sockaddr;
mod spare;

pub use addrinfo::{AddrInfo, Hints};
pub use buffers::Buffers;
pub use channel::Channel;
pub use event::{Conn, EventBlock, Param, event_name};
pub use id::IdBlock;
pub use poll::poll_now;
pub use sockaddr::{Address, canonical, gid_of, in_ipv6};

pub use kit::abi::cma::*;

/// A value with pointers from a program, to be returned to it or used by the call that it was
/// passed to.
#[derive(Clone, Copy)]
pub struct Given<T: Copy>(pub T);

// SAFETY: the library follows the pointers on behalf of the thread that calls it, as the program
// would.
unsafe impl<T: Copy> Send for Given<T> {}
// SAFETY: as above.
unsafe impl<T: Copy> Sync for Given<T> {}

pub use kit::cm::{event_type, port_space};

/// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`: the device's maximum.
pub const MAX_DEPTH: u8 = 255;

#[cfg(test)]
pub mod tests {
    use super::{AddrInfo, Hints, rdma_addrinfo};

    /// The first entry of a list of this library, for freeing it.
    pub fn read_and_free(list: *mut rdma_addrinfo) -> Hints {
        // SAFETY: the list came from `AddrInfo::into_raw` and is freed once.
        unsafe {
            let read = Hints::from_raw(list).unwrap();
            drop(AddrInfo::from_raw(list));
            read
        }
    }
}
