//! `struct rdma_cm_id`, whose members programs read and write.

use super::sockaddr::{LONGEST, STORAGE, padded};
use super::{Address, rdma_addr, rdma_cm_event, rdma_cm_id, rdma_event_channel};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sys::memory;

/// Writes an address. Bytes behind the longest one are zero in every id.
///
/// # Safety
/// The storage is that of an id.
#[inline(always)]
unsafe fn put(to: *mut libc::sockaddr_storage, address: &[u8; LONGEST]) {
    // SAFETY: vouched for by the caller.
    unsafe { to.cast::<[u8; LONGEST]>().write(*address) }
}

/// The block, which has to stay at its place while the program has the pointer. Its members are
/// read and written one at a time, because a program does so too.
pub struct IdBlock(UnsafeCell<rdma_cm_id>);

// SAFETY: the block is memory of the process; access is by volatile reads and writes.
unsafe impl Send for IdBlock {}
// SAFETY: as above.
unsafe impl Sync for IdBlock {}

macro_rules! members {
    ($($get:ident, $set:ident, $t:ty;)*) => {
        $(
            #[allow(dead_code)] // not each member is both read and written
            pub fn $get(&self) -> $t {
                // SAFETY: the block lives as long as this; every value of the member is valid.
                unsafe { (&raw const (*self.as_ptr()).$get).read_volatile() }
            }
            #[allow(dead_code)]
            pub fn $set(&self, value: $t) {
                // SAFETY: as above.
                unsafe { (&raw mut (*self.as_ptr()).$get).write_volatile(value) }
            }
        )*
    };
}

impl IdBlock {
    /// A block of zeros.
    pub const fn new() -> Self {
        // SAFETY: zeros are valid in each member.
        Self(UnsafeCell::new(unsafe { core::mem::zeroed() }))
    }

    pub fn as_ptr(&self) -> *mut rdma_cm_id {
        self.0.get()
    }

    members! {
        verbs, set_verbs, *mut ibv_context;
        channel, set_channel, *mut rdma_event_channel;
        context, set_context, *mut c_void;
        qp, set_qp, *mut ibv_qp;
        ps, set_ps, u32;
        port_num, set_port_num, u8;
        event, set_event, *mut rdma_cm_event;
        send_cq_channel, set_send_cq_channel, *mut ibv_comp_channel;
        send_cq, set_send_cq, *mut ibv_cq;
        recv_cq_channel, set_recv_cq_channel, *mut ibv_comp_channel;
        recv_cq, set_recv_cq, *mut ibv_cq;
        srq, set_srq, *mut ibv_srq;
        pd, set_pd, *mut ibv_pd;
        qp_type, set_qp_type, ibv_qp_type;
    }

    fn addr(&self) -> *mut rdma_addr {
        // SAFETY: the block lives as long as this.
        unsafe { &raw mut (*self.as_ptr()).route.addr }
    }

    pub fn source(&self) -> Option<Address> {
        // SAFETY: as above; an address is plain bytes, and the longest one is shorter than this.
        let bytes = unsafe {
            (&raw const (*self.addr()).src_storage)
                .cast::<[u8; LONGEST]>()
                .read()
        };
        Address::from_bytes(&bytes)
    }

    pub fn destination(&self) -> Option<Address> {
        // SAFETY: as above.
        let bytes = unsafe {
            (&raw const (*self.addr()).dst_storage)
                .cast::<[u8; LONGEST]>()
                .read()
        };
        Address::from_bytes(&bytes)
    }

    #[cfg(test)]
    pub fn set_source(&self, address: &Address) {
        // SAFETY: the member has room for the largest address.
        unsafe { put(&raw mut (*self.addr()).src_storage, address.padded()) }
    }

    pub fn set_destination(&self, address: &Address) {
        // SAFETY: as above.
        unsafe { put(&raw mut (*self.addr()).dst_storage, address.padded()) }
    }

    /// Takes over a source address that a connection manager reports; none of an unknown family.
    #[inline]
    pub fn take_source(&self, storage: &[u8; STORAGE], size: u16) {
        if let Some(address) = padded(storage, size) {
            // SAFETY: as above.
            unsafe { put(&raw mut (*self.addr()).src_storage, address) }
        }
    }

    /// As above, the destination.
    #[inline]
    pub fn take_destination(&self, storage: &[u8; STORAGE], size: u16) {
        if let Some(address) = padded(storage, size) {
            // SAFETY: as above.
            unsafe { put(&raw mut (*self.addr()).dst_storage, address) }
        }
    }

    pub fn set_pkey(&self, pkey: be16) {
        // SAFETY: the block lives as long as this.
        unsafe { (*self.addr()).ibaddr.pkey = pkey }
    }

    pub fn set_gids(&self, source: [u8; 16], destination: [u8; 16]) {
        // SAFETY: as above.
        unsafe {
            (*self.addr()).ibaddr.sgid = ibv_gid { raw: source };
            (*self.addr()).ibaddr.dgid = ibv_gid { raw: destination };
        }
    }

    /// Replaces the path records.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set_paths(&self, paths: impl ExactSizeIterator<Item = ibv_sa_path_rec>) -> Result<()> {
        let length = paths.len();
        c_int::try_from(length).map_err(|_| Errno::INVAL)?;
        let mut count = 0;
        let records = if length == 0 {
            null_mut()
        } else {
            memory::room::<ibv_sa_path_rec>(length)?
        };
        // SAFETY: the new block has room for all of them; the old block belongs to this library or
        // is NULL.
        unsafe {
            for (n, path) in paths.take(length).enumerate() {
                records.add(n).write(path);
                count += 1;
            }
            let route = &raw mut (*self.as_ptr()).route;
            memory::free((*route).path_rec.cast());
            (*route).path_rec = records;
            (*route).num_paths = count;
        }
        Ok(())
    }
}

impl Drop for IdBlock {
    fn drop(&mut self) {
        // SAFETY: the records belong to this library and are not used any more. A program that
        // stored another pointer there has passed its ownership.
        unsafe {
            memory::free((*self.as_ptr()).route.path_rec.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_where_programs_look() {
        let block = IdBlock::new();
        block.set_qp_type(IBV_QPT_UD);
        block.set_source(&Address::any());
        // SAFETY: the block is a whole rdma_cm_id.
        unsafe {
            assert_eq!((*block.as_ptr()).qp_type, IBV_QPT_UD);
            assert_eq!((*block.as_ptr()).route.addr.src_storage.ss_family, 2);
        }
        assert_eq!(block.source(), Some(Address::any()));
        assert_eq!(block.destination(), None);
    }

    #[test]
    fn paths_replace_those_before() {
        let block = IdBlock::new();
        let count = |block: &IdBlock| {
            // SAFETY: the block is a whole rdma_cm_id.
            unsafe {
                (
                    (*block.as_ptr()).route.num_paths,
                    (*block.as_ptr()).route.path_rec.is_null(),
                )
            }
        };
        let zero = || crate::path::record(&[0; 64]);
        block.set_paths([zero(), zero()].into_iter()).unwrap();
        assert_eq!(count(&block), (2, false));
        block.set_paths([].into_iter()).unwrap();
        assert_eq!(count(&block), (0, true));
    }
}
