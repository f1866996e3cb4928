//! `struct rdma_addrinfo`: a program's question, and the answer. All parts of an answer are blocks
//! of malloc(3), because programs change and free parts of it.

use super::rdma_addrinfo;
use super::sockaddr::Address;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use kit::errno::{Errno, Result};
use kit::sys::memory;

/// An address list that a program passes, with addresses as values.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    pub flags: c_int,
    pub family: c_int,
    pub qp_type: c_int,
    pub port_space: c_int,
    pub source: Option<Address>,
    pub destination: Option<Address>,
    pub route: Vec<u8>,
    pub connect: Vec<u8>,
}

impl Hints {
    /// Reads the first entry of a list.
    ///
    /// # Errors
    /// EINVAL for an address of an unknown family.
    ///
    /// # Safety
    /// A whole `struct rdma_addrinfo`, its pointers NULL or of as many bytes as it says.
    pub unsafe fn from_raw(list: *const rdma_addrinfo) -> Result<Self> {
        // SAFETY: vouched for by the caller.
        let entry = unsafe { list.read() };
        let address = |address: *mut libc::sockaddr, length: u32| {
            if length == 0 || address.is_null() {
                return Ok(None);
            }
            // SAFETY: vouched for by the caller.
            unsafe { Address::from_raw(address) }
        };
        let bytes = |bytes: *mut c_void, length: usize| {
            if length == 0 || bytes.is_null() {
                return Vec::new();
            }
            // SAFETY: vouched for by the caller.
            unsafe { core::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec()
        };
        Ok(Self {
            flags: entry.ai_flags,
            family: entry.ai_family,
            qp_type: entry.ai_qp_type,
            port_space: entry.ai_port_space,
            source: address(entry.ai_src_addr, entry.ai_src_len)?,
            destination: address(entry.ai_dst_addr, entry.ai_dst_len)?,
            route: bytes(entry.ai_route, entry.ai_route_len),
            connect: bytes(entry.ai_connect, entry.ai_connect_len),
        })
    }
}

/// Owns a list until the program gets it.
pub struct AddrInfo(*mut rdma_addrinfo);

impl AddrInfo {
    /// A list of one entry.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(from: &Hints) -> Result<Self> {
        let entry = memory::zeroed(size_of::<rdma_addrinfo>())?.cast::<rdma_addrinfo>();
        let list = Self(entry);
        let source = copy(from.source.as_ref().map_or(&[], Address::bytes))?;
        // SAFETY: this owner has the block, which is whole and zeroed; it frees the members with
        // it.
        unsafe {
            (*entry).ai_src_addr = source.cast();
            (*entry).ai_dst_addr =
                copy(from.destination.as_ref().map_or(&[], Address::bytes))?.cast();
            (*entry).ai_flags = from.flags;
            (*entry).ai_family = from.family;
            (*entry).ai_qp_type = from.qp_type;
            (*entry).ai_port_space = from.port_space;
            (*entry).ai_src_len = from.source.map_or(0, |address| address.size().into());
            (*entry).ai_dst_len = from.destination.map_or(0, |address| address.size().into());
            (*entry).ai_route = copy(&from.route)?;
            (*entry).ai_route_len = from.route.len();
            (*entry).ai_connect = copy(&from.connect)?;
            (*entry).ai_connect_len = from.connect.len();
        }
        Ok(list)
    }

    /// Takes over a list that a program has got.
    /// # Safety
    /// # Safety
    /// NULL, or a list of this library that is not used afterwards.
    pub unsafe fn from_raw(list: *mut rdma_addrinfo) -> Self {
        Self(list)
    }

    /// Gives the list to the program.
    pub fn into_raw(self) -> *mut rdma_addrinfo {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for AddrInfo {
    fn drop(&mut self) {
        let mut next = self.0;
        while !next.is_null() {
            // SAFETY: entries and their members are blocks of malloc(3), each freed once.
            unsafe {
                let entry = next.read();
                memory::free(entry.ai_src_addr.cast());
                memory::free(entry.ai_dst_addr.cast());
                memory::free(entry.ai_src_canonname.cast());
                memory::free(entry.ai_dst_canonname.cast());
                memory::free(entry.ai_route);
                memory::free(entry.ai_connect);
                memory::free(next.cast());
                next = entry.ai_next;
            }
        }
    }
}

/// A block with these bytes; NULL for none.
fn copy(bytes: &[u8]) -> Result<*mut c_void> {
    if bytes.is_empty() {
        return Ok(null_mut());
    }
    let block = memory::zeroed(bytes.len())?;
    if block.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the block is new and has this size.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), block.cast(), bytes.len()) };
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_list_is_read_back() {
        let hints = Hints {
            flags: 1,
            family: 2,
            qp_type: 2,
            port_space: 0x106,
            source: Some(Address::any()),
            destination: None,
            route: b"route".to_vec(),
            connect: Vec::new(),
        };
        let raw = AddrInfo::new(&hints).unwrap().into_raw();
        // SAFETY: the list is whole; its new owner frees it.
        let read = unsafe { Hints::from_raw(raw) }.unwrap();
        // SAFETY: as above.
        drop(unsafe { AddrInfo::from_raw(raw) });
        assert_eq!(read.source, hints.source);
        assert_eq!((read.destination, read.route), (None, b"route".to_vec()));
        assert_eq!((read.family, read.port_space), (2, 0x106));
        // SAFETY: NULL is allowed.
        drop(unsafe { AddrInfo::from_raw(null_mut()) });
    }
}
