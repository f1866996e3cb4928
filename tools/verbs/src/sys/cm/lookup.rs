//! rdma_getaddrinfo(3).

use std::{
    ffi::{CStr, CString, c_char, c_int},
    net::SocketAddr,
    ptr,
};

use super::{Storage, datagram::copied, raw};
use crate::{
    error::{Error, Result},
    sys::object::last,
};

const FUNCTION: &str = "rdma_getaddrinfo";

/// `RAI_PASSIVE`, and others of the header.
pub(crate) const PASSIVE: i32 = 1;
pub(crate) const NUMERIC_HOST: i32 = 2;
pub(crate) const NO_ROUTE: i32 = 4;
pub(crate) const FAMILY: i32 = 8;

/// An address with what a connection to it, or a listener at it, needs: `struct rdma_addrinfo`.
///
/// By [`ToSocketAddrs`](std::net::ToSocketAddrs) it is an address for
/// [`Connection`](crate::connection::Connection), [`Listener`](crate::connection::Listener) and
/// those of datagrams: the destination, or the source if it is passive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// `RAI_PASSIVE` (1) and others, as rdma_getaddrinfo(3) has them.
    pub flags: i32,
    /// The family: `AF_INET`, `AF_INET6`, `AF_IB`.
    pub family: i32,
    /// `enum ibv_qp_type`, [`abi`](crate::abi)`::IBV_QPT_*`.
    pub queue_pair_type: u32,
    /// `enum rdma_port_space`.
    pub port_space: u32,
    /// The address of this end; none if there is none, and for InfiniBand's own family.
    pub source: Option<SocketAddr>,
    /// The address of the other end. As above.
    pub destination: Option<SocketAddr>,
    /// The canonical name of this end, if it is known.
    pub source_name: Option<String>,
    /// The canonical name of the other end, if it is known.
    pub destination_name: Option<String>,
    /// Path records of InfiniBand, if they are known.
    pub route: Vec<u8>,
    /// Data for the request of a connection, if there is any.
    pub connect: Vec<u8>,
}

/// A list of the library, freed once.
struct List(*mut raw::rdma_addrinfo);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the library made the list, and nothing else frees it.
        unsafe { raw::rdma_freeaddrinfo(self.0) };
    }
}

/// Looks a node and a service up: a copy of each entry of the list.
pub(crate) fn find(
    node: Option<&CString>,
    service: Option<&CString>,
    hints: &Address,
) -> Result<Vec<Address>> {
    let mut source = hints.source.map(Storage::of);
    let mut destination = hints.destination.map(Storage::of);
    let at = |storage: &mut Option<Storage>| match storage {
        Some(storage) => storage.at(),
        None => ptr::null_mut(),
    };
    let asked = raw::rdma_addrinfo {
        ai_flags: hints.flags,
        ai_family: hints.family,
        ai_qp_type: hints.queue_pair_type.cast_signed(),
        ai_port_space: hints.port_space.cast_signed(),
        ai_src_len: length(hints.source),
        ai_dst_len: length(hints.destination),
        ai_src_addr: at(&mut source),
        ai_dst_addr: at(&mut destination),
        ai_src_canonname: ptr::null_mut(),
        ai_dst_canonname: ptr::null_mut(),
        ai_route_len: 0,
        ai_route: ptr::null_mut(),
        ai_connect_len: 0,
        ai_connect: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    };
    // Other answers than those to no hints come of hints that say nothing.
    let asked = match *hints == Address::default() {
        true => ptr::null(),
        false => &raw const asked,
    };
    let text = |text: Option<&CString>| text.map_or(ptr::null(), |text| text.as_ptr());
    let (node, service) = (text(node), text(service));
    let mut list = ptr::null_mut();
    // SAFETY: strings, hints and their addresses live during the call; the pointer may be written.
    expect_found(unsafe { raw::rdma_getaddrinfo(node, service, asked, &raw mut list) })?;
    let list = List(list);
    let mut found = Vec::new();
    let mut next = list.0.cast_const();
    // SAFETY: the list is the library's, whole, and lives until the end of this function.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the same.
        found.push(unsafe { copy(entry) });
        next = entry.ai_next;
    }
    Ok(found)
}

fn length(address: Option<SocketAddr>) -> libc::socklen_t {
    match address {
        None => 0,
        Some(SocketAddr::V4(_)) => 16,
        Some(SocketAddr::V6(_)) => 28,
    }
}

/// The values of getaddrinfo(3), or -1 with the errno.
fn expect_found(code: c_int) -> Result<()> {
    let errno = match code {
        0 => return Ok(()),
        -1 | libc::EAI_SYSTEM => return Err(last(FUNCTION)),
        libc::EAI_MEMORY => libc::ENOMEM,
        libc::EAI_AGAIN => libc::EAGAIN,
        libc::EAI_FAMILY => libc::EAFNOSUPPORT,
        libc::EAI_SOCKTYPE => libc::ESOCKTNOSUPPORT,
        _ => {
            let none = Error::new(FUNCTION, libc::EADDRNOTAVAIL);
            return Err(none.because("no address has this name and service"));
        }
    };
    Err(Error::new(FUNCTION, errno))
}

/// # Safety
/// All that the entry names is there, as long as it says.
unsafe fn copy(entry: &raw::rdma_addrinfo) -> Address {
    // SAFETY: by the caller.
    unsafe {
        Address {
            flags: entry.ai_flags,
            family: entry.ai_family,
            queue_pair_type: entry.ai_qp_type.cast_unsigned(),
            port_space: entry.ai_port_space.cast_unsigned(),
            source: address(entry.ai_src_addr, entry.ai_src_len),
            destination: address(entry.ai_dst_addr, entry.ai_dst_len),
            source_name: name(entry.ai_src_canonname),
            destination_name: name(entry.ai_dst_canonname),
            route: copied(entry.ai_route, entry.ai_route_len),
            connect: copied(entry.ai_connect, entry.ai_connect_len),
        }
    }
}

/// # Safety
/// The address is NULL or has that many bytes.
unsafe fn address(at: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: by the caller.
    let bytes = unsafe { copied(at.cast(), length) };
    Storage::of_bytes(&bytes).address()
}

/// # Safety
/// The name is NULL or a string.
unsafe fn name(at: *const c_char) -> Option<String> {
    if at.is_null() {
        return None;
    }
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(at) };
    Some(name.to_string_lossy().into_owned())
}
