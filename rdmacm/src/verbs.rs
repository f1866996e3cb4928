//! Safe calls of the libibverbs functions that this library uses. Their arguments are objects that
//! programs put into ids and arguments, whose validity the program guarantees, or objects that this
//! library made.

mod data;
pub use data::{Ah, Local, Mr, Peer, RdmaWrite, Region, immediate};

use crate::uroce;
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use kit::abi::{kernel::*, *};
use kit::cm::Verbs;
use kit::errno::{Errno, Result};
use kit::sys::{errno, pthread::deferred_cancellation, pthread::without_cancellation};

mod raw {
    use super::*;

    unsafe extern "C" {
        pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
        pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
        pub fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
        pub fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
        pub fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
        pub fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
        pub fn ibv_create_cq(
            context: *mut ibv_context,
            cqe: c_int,
            cq_context: *mut c_void,
            channel: *mut ibv_comp_channel,
            vector: c_int,
        ) -> *mut ibv_cq;
        pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
        pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
        pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
        pub fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
        pub fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
        pub fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
        pub fn ibv_copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *const ib_uverbs_qp_attr);
        pub fn ibv_copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *const ib_uverbs_ah_attr);
        pub fn ibv_query_gid(
            context: *mut ibv_context,
            port: u8,
            index: c_int,
            gid: *mut ibv_gid,
        ) -> c_int;
        pub fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
        pub fn ibv_free_device_list(list: *mut *mut ibv_device);
        pub fn ibv_get_device_guid(device: *mut ibv_device) -> be64;
        pub fn ibv_get_device_index(device: *mut ibv_device) -> c_int;
        pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
        pub fn ibv_close_device(context: *mut ibv_context) -> c_int;
        pub fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;

        pub fn ferroverbs_create_qp_ex(
            context: *mut ibv_context,
            attr: *mut ibv_qp_init_attr_ex,
        ) -> *mut ibv_qp;
        pub fn ferroverbs_create_srq_ex(
            context: *mut ibv_context,
            attr: *mut ibv_srq_init_attr_ex,
        ) -> *mut ibv_srq;
        pub fn ferroverbs_open_xrcd(context: *mut ibv_context) -> *mut ibv_xrcd;
        pub fn ferroverbs_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int;
    }
}

/// 0, an errno value, or -1 with errno set: releases and providers differ.
fn done(answer: c_int) -> Result<()> {
    match answer {
        0 => Ok(()),
        ..0 => Err(errno::get()),
        positive => Err(Errno(positive)),
    }
}

/// A thread whose cancellation is deferred (pthread_setcanceltype(3)) or disabled: it is not ended
/// in calls that are no cancellation points.
pub struct Deferred(PhantomData<*const ()>);

impl Deferred {
    /// A thread whose cancellation C has deferred.
    ///
    /// # Safety
    /// It is deferred as long as this lives.
    pub unsafe fn by_caller() -> Self {
        Self(PhantomData)
    }
}

/// Runs a function with deferred cancellation. A call of the program changes the type of its thread
/// once, however many objects it changes.
pub fn deferred<T>(run: impl FnOnce(&Deferred) -> T) -> T {
    deferred_cancellation(|| run(&Deferred(PhantomData)))
}

/// Those verbs that a call of the program may need several of.
static VERBS: AtomicPtr<Verbs> = AtomicPtr::new(core::ptr::null_mut());

/// Those of any libibverbs. Of another release some are cancellation points.
static EXPORTED: Verbs = {
    unsafe extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
        // SAFETY: vouched for by the caller.
        without_cancellation(|| unsafe { raw::ibv_modify_qp(qp, attr, mask) })
    }
    unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
        // SAFETY: as above.
        without_cancellation(|| unsafe { raw::ibv_destroy_qp(qp) })
    }
    unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq, channel: *mut ibv_comp_channel) -> c_int {
        // SAFETY: as above.
        without_cancellation(|| unsafe {
            let answer = raw::ibv_destroy_cq(cq);
            if answer != 0 || channel.is_null() {
                return answer;
            }
            raw::ibv_destroy_comp_channel(channel)
        })
    }
    Verbs {
        modify_qp,
        destroy_qp,
        destroy_cq,
    }
};

#[inline]
fn verbs() -> &'static Verbs {
    // SAFETY: NULL, or one of the two that `find_verbs` has found.
    unsafe { VERBS.load(Ordering::Acquire).as_ref() }.unwrap_or_else(find_verbs)
}

/// Finds the verbs; each thread that looks for them finds the same.
#[cold]
#[inline(never)]
fn find_verbs() -> &'static Verbs {
    let exported = [
        raw::ibv_modify_qp as *const c_void,
        raw::ibv_destroy_qp as *const c_void,
        raw::ibv_destroy_cq as *const c_void,
        raw::ibv_destroy_comp_channel as *const c_void,
    ];
    let found = uroce::verbs(&exported).unwrap_or(&EXPORTED);
    VERBS.store((&raw const *found).cast_mut(), Ordering::Release);
    found
}

macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $t:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(NonNull<$t>);

        // SAFETY: objects of verbs may be used by any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        #[allow(dead_code)] // each type has both ways, used or not
        impl $name {
            /// The object at a pointer that the program passed; none for NULL.
            pub fn of(object: *mut $t) -> Option<Self> {
                NonNull::new(object).map(Self)
            }

            pub fn as_ptr(self) -> *mut $t {
                self.0.as_ptr()
            }

            fn made(object: *mut $t) -> Result<Self> {
                Self::of(object).ok_or_else(|| match errno::get() {
                    Errno(0) => Errno::NOMEM,
                    other => other,
                })
            }
        }
    };
}

object!(
    /// An open device.
    Context,
    ibv_context
);
object!(Pd, ibv_pd);
object!(Qp, ibv_qp);
object!(Cq, ibv_cq);
object!(Srq, ibv_srq);
object!(CompChannel, ibv_comp_channel);
object!(Xrcd, ibv_xrcd);

// SAFETY of this file's calls: objects are those that programs put into ids and arguments, which
// live as long as the interface requires, or were made here; attributes belong to this library.
//
// The calls in which libibverbs may wait run without cancellation, or are those of `Verbs`: a
// thread that is cancelled in such a wait would be unwound through the frames of this library.

/// # Safety
/// The device is of a list, or open.
unsafe fn name_of(device: *mut ibv_device) -> String {
    // SAFETY: vouched for by the caller; the name is an array with NUL in it.
    let name = unsafe { (&raw const (*device).name).read() };
    // Characters of C are signed or not, by architecture.
    let bytes = name.iter().map(|byte| byte.to_ne_bytes()[0]);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Context {
    /// The name of its device.
    pub fn name(self) -> String {
        // SAFETY: an open device; its device lives as long.
        unsafe { name_of((*self.as_ptr()).device) }
    }

    pub fn transport(self) -> ibv_transport_type {
        // SAFETY: an open device; its device lives as long.
        unsafe { (*(*self.as_ptr()).device).transport_type }
    }

    pub fn query_device(self) -> Result<ibv_device_attr> {
        let mut attr = bytemuck::Zeroable::zeroed();
        // SAFETY: see above.
        done(unsafe { raw::ibv_query_device(self.as_ptr(), &raw mut attr) })?;
        Ok(attr)
    }

    /// A GID of a port's table.
    pub fn gid(self, port: u8, index: i32) -> Result<[u8; 16]> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: see above.
        done(unsafe { raw::ibv_query_gid(self.as_ptr(), port, index, &raw mut gid) })?;
        Ok(gid_bytes(&gid))
    }

    pub fn close(self) {
        // SAFETY: see above; no caller has received the context.
        let _ = unsafe { raw::ibv_close_device(self.as_ptr()) };
    }

    pub fn alloc_pd(self) -> Result<Pd> {
        // SAFETY: see above.
        Pd::made(unsafe { raw::ibv_alloc_pd(self.as_ptr()) })
    }

    pub fn open_xrcd(self) -> Result<Xrcd> {
        // SAFETY: see above.
        Xrcd::made(unsafe { raw::ferroverbs_open_xrcd(self.as_ptr()) })
    }

    pub fn create_comp_channel(self) -> Result<CompChannel> {
        // SAFETY: see above.
        CompChannel::made(unsafe { raw::ibv_create_comp_channel(self.as_ptr()) })
    }

    /// A completion queue whose events contain `cq_context`.
    pub fn create_cq(
        self,
        entries: u32,
        cq_context: *mut c_void,
        channel: CompChannel,
    ) -> Result<Cq> {
        let entries = c_int::try_from(entries).map_err(|_| Errno::INVAL)?;
        // SAFETY: see above.
        Cq::made(unsafe {
            raw::ibv_create_cq(self.as_ptr(), entries, cq_context, channel.as_ptr(), 0)
        })
    }

    pub fn create_qp(self, attr: &mut ibv_qp_init_attr_ex) -> Result<Qp> {
        // SAFETY: see above.
        Qp::made(unsafe { raw::ferroverbs_create_qp_ex(self.as_ptr(), attr) })
    }

    pub fn create_srq(self, attr: &mut ibv_srq_init_attr_ex) -> Result<Srq> {
        // SAFETY: see above.
        Srq::made(unsafe { raw::ferroverbs_create_srq_ex(self.as_ptr(), attr) })
    }
}

impl Pd {
    pub fn context(self) -> *mut ibv_context {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).context }
    }

    pub fn dealloc(self) -> Result<()> {
        // SAFETY: see above; a domain in use returns an error.
        done(unsafe { raw::ibv_dealloc_pd(self.as_ptr()) })
    }
}

impl Xrcd {
    pub fn close(self) -> Result<()> {
        // SAFETY: see above; a domain in use returns an error.
        done(unsafe { raw::ferroverbs_close_xrcd(self.as_ptr()) })
    }
}

impl CompChannel {
    pub fn destroy(self) {
        // SAFETY: see above; an object in use returns an error.
        let _ = without_cancellation(|| unsafe { raw::ibv_destroy_comp_channel(self.as_ptr()) });
    }
}

impl Cq {
    /// Destroys it and then its channel, if there is one.
    pub fn destroy(self, channel: *mut ibv_comp_channel, _: &Deferred) {
        // SAFETY: see above; an object in use returns an error.
        let _ = unsafe { (verbs().destroy_cq)(self.as_ptr(), channel) };
    }
}

impl Srq {
    pub fn destroy(self) {
        // SAFETY: see above; an object in use returns an error.
        let _ = without_cancellation(|| unsafe { raw::ibv_destroy_srq(self.as_ptr()) });
    }
}

impl Qp {
    pub fn number(self) -> u32 {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).qp_num }
    }

    pub fn has_srq(self) -> bool {
        // SAFETY: see above.
        unsafe { !(*self.as_ptr()).srq.is_null() }
    }

    pub fn pd(self) -> *mut ibv_pd {
        // SAFETY: see above.
        unsafe { (*self.as_ptr()).pd }
    }

    pub fn modify(self, attr: &mut ibv_qp_attr, mask: c_int, _: &Deferred) -> Result<()> {
        // SAFETY: see above.
        done(unsafe { (verbs().modify_qp)(self.as_ptr(), attr, mask) })
    }

    pub fn destroy(self, _: &Deferred) {
        // SAFETY: see above; the caller does not use it afterwards.
        let _ = unsafe { (verbs().destroy_qp)(self.as_ptr()) };
    }

    pub fn query_ece(self) -> Result<ibv_ece> {
        let mut ece = ibv_ece {
            vendor_id: 0,
            options: 0,
            comp_mask: 0,
        };
        // SAFETY: see above.
        done(unsafe { raw::ibv_query_ece(self.as_ptr(), &raw mut ece) })?;
        Ok(ece)
    }

    pub fn set_ece(self, mut ece: ibv_ece) -> Result<()> {
        // SAFETY: see above.
        done(unsafe { raw::ibv_set_ece(self.as_ptr(), &raw mut ece) })
    }

    pub fn attach(self, gid: [u8; 16], lid: u16) -> Result<()> {
        let gid = ibv_gid { raw: gid };
        // SAFETY: see above.
        done(unsafe { raw::ibv_attach_mcast(self.as_ptr(), &raw const gid, lid) })
    }

    pub fn detach(self, gid: [u8; 16], lid: u16) -> Result<()> {
        let gid = ibv_gid { raw: gid };
        // SAFETY: see above.
        done(unsafe { raw::ibv_detach_mcast(self.as_ptr(), &raw const gid, lid) })
    }
}

/// Fills in the attributes of a transition from the kernel, and returns their mask.
pub fn fill_qp_attr(attr: &mut ibv_qp_attr, from: &ib_uverbs_qp_attr) -> c_int {
    // SAFETY: both are whole.
    unsafe { raw::ibv_copy_qp_attr_from_kern(attr, from) };
    from.qp_attr_mask.cast_signed()
}

/// An address from the kernel.
pub fn ah_attr(from: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    let mut attr = bytemuck::Zeroable::zeroed();
    // SAFETY: both are whole.
    unsafe { raw::ibv_copy_ah_attr_from_kern(&raw mut attr, from) };
    attr
}

/// The bytes of a GID.
pub fn gid_bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: every value of the bytes is valid.
    unsafe { gid.raw }
}

/// The list of devices.
pub struct DeviceList {
    list: *mut *mut ibv_device,
    count: usize,
}

/// A device of a list.
#[derive(Clone, Copy)]
pub struct Device<'l>(*mut ibv_device, core::marker::PhantomData<&'l DeviceList>);

impl DeviceList {
    /// # Errors
    /// ENODEV without devices; that of ibv_get_device_list(3).
    pub fn new() -> Result<Self> {
        let mut count = 0;
        // SAFETY: `count` has room for the number.
        let list = unsafe { raw::ibv_get_device_list(&raw mut count) };
        if list.is_null() {
            return Err(match errno::get() {
                Errno(libc::EPERM) => Errno::PERM,
                _ => Errno::NODEV,
            });
        }
        let list = Self {
            list,
            count: usize::try_from(count).unwrap_or(0),
        };
        if list.count == 0 {
            return Err(Errno::NODEV);
        }
        Ok(list)
    }

    pub fn devices(&self) -> impl Iterator<Item = Device<'_>> {
        (0..self.count).map(|n| {
            // SAFETY: the list has so many entries.
            let device = unsafe { self.list.add(n).read() };
            Device(device, core::marker::PhantomData)
        })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: a list is freed once.
        unsafe { raw::ibv_free_device_list(self.list) }
    }
}

impl Device<'_> {
    /// The address of the device, by which an open device is found again.
    pub fn address(&self) -> usize {
        self.0.addr()
    }

    pub fn name(&self) -> String {
        // SAFETY: a device of a list that is not freed yet.
        unsafe { name_of(self.0) }
    }

    /// In network byte order.
    pub fn guid(&self) -> u64 {
        // SAFETY: the list with the device is not freed yet.
        unsafe { raw::ibv_get_device_guid(self.0) }.wire()
    }

    /// The kernel's index; none for a device outside of the kernel, or if the kernel does not
    /// report it.
    pub fn index(&self) -> Option<u32> {
        // SAFETY: as above.
        u32::try_from(unsafe { raw::ibv_get_device_index(self.0) }).ok()
    }

    pub fn open(&self) -> Result<Context> {
        // SAFETY: as above.
        Context::made(without_cancellation(|| unsafe {
            raw::ibv_open_device(self.0)
        }))
    }
}
