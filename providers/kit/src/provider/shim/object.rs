//! Blocks that contain a C structure, followed by the provider's object.

use super::context::Context;
use crate::abi::handle::watch;
use crate::abi::{ibv_context, ibv_pd};
use crate::errno::{Errno, Result};
use crate::provider::{Provider, Token};
use crate::sys::memory;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, addr_of_mut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// The provider's side of an object.
///
/// # Safety
/// `C` is a C structure that starts with the pointer to its context, and all zeros is a value of
/// it.
pub(super) unsafe trait Side {
    /// The structure for applications.
    type C;
}

/// How many objects were made with this one. A block that has a count is not freed before the
/// count is 0.
pub(super) struct Uses(AtomicUsize);

impl Uses {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Whether an object is left that was made with this one.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Counts one more, until the answer is dropped.
    pub(super) fn hold(&self) -> Hold {
        self.0.fetch_add(1, Ordering::Relaxed);
        Hold(NonNull::from(&self.0))
    }
}

/// One use of another object, which therefore stays.
pub(super) struct Hold(NonNull<AtomicUsize>);

// SAFETY: the count is atomic, and stays where it is while it is not 0.
unsafe impl Send for Hold {}
// SAFETY: as above.
unsafe impl Sync for Hold {}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: this hold is counted, and a block is not freed before its count is 0.
        unsafe { self.0.as_ref() }.fetch_sub(1, Ordering::Release);
    }
}

/// The provider's answer when it destroyed its side of an object: how many of its events the
/// program got. The block stays until they are acknowledged.
pub(super) struct Ended<const N: usize> {
    has: AtomicBool,
    reported: [AtomicU32; N],
}

impl<const N: usize> Ended<N> {
    pub(super) const fn not_yet() -> Self {
        Self {
            has: AtomicBool::new(false),
            reported: [const { AtomicU32::new(0) }; N],
        }
    }

    /// The result of `destroy`, or its earlier result.
    ///
    /// # Errors
    /// Its errno; the object stays as it was.
    pub(super) fn once(&self, destroy: impl FnOnce() -> Result<[u32; N]>) -> Result<[u32; N]> {
        if self.has.load(Ordering::Acquire) {
            let reported = self.reported.each_ref();
            return Ok(reported.map(|count| count.load(Ordering::Relaxed)));
        }
        let reported = destroy()?;
        for (place, count) in self.reported.iter().zip(reported) {
            place.store(count, Ordering::Relaxed);
        }
        self.has.store(true, Ordering::Release);
        Ok(reported)
    }
}

/// The functions of a parent domain from which objects get their memory
/// (ibv_alloc_parent_domain(3)).
#[derive(Clone, Copy)]
pub(super) struct Allocator {
    pub(super) pd: *mut ibv_pd,
    pub(super) pd_context: *mut c_void,
    pub(super) alloc:
        unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void,
    pub(super) free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
}

/// `IBV_ALLOCATOR_USE_DEFAULT`.
const USE_DEFAULT: usize = usize::MAX;
/// The requested alignment: a cache line.
const ALIGNMENT: usize = 64;
/// `resource_type`: devices in user space have no driver number of the kernel's, and one kind of
/// memory.
const RESOURCE: u64 = 0;

impl Allocator {
    /// Memory from the application; `None` if it leaves that to the library.
    fn block(&self, size: usize) -> Result<Option<*mut c_void>> {
        // SAFETY: the application's function, called according to its man page.
        let block = unsafe { (self.alloc)(self.pd, self.pd_context, size, ALIGNMENT, RESOURCE) };
        if block.is_null() {
            return Err(Errno::NOMEM);
        }
        if block.addr() == USE_DEFAULT {
            return Ok(None);
        }
        if !block.addr().is_multiple_of(align_of::<libc::max_align_t>()) {
            // SAFETY: as above; the block is not used.
            unsafe { self.release(block) };
            return Err(Errno::INVAL);
        }
        // SAFETY: the application gave that many bytes.
        unsafe { block.write_bytes(0, size) };
        Ok(Some(block))
    }

    /// # Safety
    /// `block` came from `alloc` and is not used any more.
    unsafe fn release(&self, block: *mut c_void) {
        if let Some(free) = self.free {
            // SAFETY: vouched for by the caller.
            unsafe { free(self.pd, self.pd_context, block, RESOURCE) }
        }
    }
}

/// An object: the C structure first, so that both have the same address.
#[repr(C)]
pub(super) struct Object<R: Side> {
    /// Applications and the library write here too.
    _c: UnsafeCell<R::C>,
    /// Objects made with this object.
    pub(super) uses: Uses,
    /// The allocator of the block, if it is not the library's.
    allocator: Option<Allocator>,
    /// The context, which stays.
    context: Hold,
    /// The provider's side.
    pub(super) side: R,
}

impl<R: Side> Object<R> {
    /// The C structure.
    pub(super) fn c(&self) -> *mut R::C {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// # Errors
    /// EBUSY while something is left that was made with this object.
    pub(super) fn idle(&self) -> Result<()> {
        if self.uses.any() {
            return Err(Errno::BUSY);
        }
        Ok(())
    }
}

/// Frees an object.
///
/// # Safety
/// It was made complete by [`New::finish`], is [`Object::idle`] and not used any more.
pub(super) unsafe fn free<R: Side>(raw: *mut Object<R>) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let allocator = (*raw).allocator;
        let side = addr_of_mut!((*raw).side).read();
        let context = addr_of_mut!((*raw).context).read();
        // A parent domain is held until its memory is back.
        release(raw.cast(), allocator);
        drop(side);
        drop(context);
    }
}

/// # Safety
/// `block` was taken from that allocator, or else from the heap, and is not used any more.
unsafe fn release(block: *mut c_void, allocator: Option<Allocator>) {
    // SAFETY: vouched for by the caller.
    unsafe {
        match allocator {
            Some(allocator) => allocator.release(block),
            None => watch::free(block),
        }
    }
}

/// A block whose address is known, while the provider still makes its side.
pub(super) struct New<R: Side> {
    raw: NonNull<Object<R>>,
    allocator: Option<Allocator>,
    context: ManuallyDrop<Hold>,
}

impl<R: Side> New<R> {
    /// A block of zeros that names its context.
    ///
    /// # Errors
    /// ENOMEM; EINVAL if an application's allocator gives memory that is not aligned.
    pub(super) fn alloc<P: Provider>(
        context: &Context<P>,
        allocator: Option<Allocator>,
    ) -> Result<Self> {
        const { assert!(align_of::<Object<R>>() <= align_of::<libc::max_align_t>()) };
        const { assert!(size_of::<R::C>() >= size_of::<*mut ibv_context>()) };
        let size = size_of::<Object<R>>();
        let own = match allocator {
            None => None,
            Some(allocator) => allocator.block(size)?.map(|block| (block, allocator)),
        };
        let (block, allocator) = match own {
            Some((block, allocator)) => (block, Some(allocator)),
            None => (memory::zeroed(size)?, None),
        };
        let raw = NonNull::new(block.cast()).ok_or(Errno::NOMEM)?;
        // SAFETY: the block is large enough and aligned; every C structure of an object starts
        // with its context.
        unsafe { block.cast::<*mut ibv_context>().write(context.public()) };
        Ok(Self {
            raw,
            allocator,
            context: ManuallyDrop::new(context.uses.hold()),
        })
    }

    /// The C structure, for C.
    pub(super) fn as_ptr(&self) -> *mut R::C {
        self.raw.as_ptr().cast()
    }

    /// The C structure, to which nothing else refers yet.
    pub(super) fn c(&mut self) -> &mut R::C {
        // SAFETY: a zeroed structure of the block's beginning; all zeros is a value of it.
        unsafe { self.raw.cast().as_mut() }
    }

    /// The object's identity in events: its address.
    pub(super) fn token(&self) -> Token {
        Token(self.as_ptr().expose_provenance() as u64)
    }

    /// Makes the object complete.
    pub(super) fn finish(self, side: R) -> *mut R::C {
        let mut new = ManuallyDrop::new(self);
        let raw = new.raw.as_ptr();
        // SAFETY: the members lie in the block; none of them has been written yet, and each is
        // written once. The C structure stays as it is.
        unsafe {
            addr_of_mut!((*raw).uses).write(Uses::new());
            addr_of_mut!((*raw).allocator).write(new.allocator);
            addr_of_mut!((*raw).context).write(ManuallyDrop::take(&mut new.context));
            addr_of_mut!((*raw).side).write(side);
        }
        raw.cast()
    }
}

impl<R: Side> Drop for New<R> {
    fn drop(&mut self) {
        // SAFETY: the block was not made complete, so nothing refers to it; the hold is dropped
        // once (`finish` does not come here).
        unsafe {
            release(self.raw.as_ptr().cast(), self.allocator);
            ManuallyDrop::drop(&mut self.context);
        }
    }
}
