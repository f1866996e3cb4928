//! The functions of libibverbs 1.0 (`@IBVERBS_1.0`, before 2007), whose structures had other
//! layouts.
//!
//! An object of 1.0 is a wrapper: a block with the members that programs of 1.0 read, and a pointer
//! to the object of the current interface. A function checks the wrapper, calls the current
//! function of the same name, and updates the wrapper's members. The rest of the library does not
//! know wrappers.
//!
//! | type | contents |
//! | --- | --- |
//! | `layout::ibv_*_1_0` | the structures of 1.0, with sizes and offsets asserted |
//! | `Wrapper` | a structure that points to a current object and copies its numbers and keys |
//! | `context::Marked` | a context of 1.0, as long as a current one. Where a current context has all ones, it has an address inside the library. The same member distinguishes both, and a context of the other version is EINVAL |
//! | `device::Shared` | a device in a list of 1.0, held by the list and by the contexts opened with it |
//! | `channel::ibv_comp_channel_1_0` | a completion channel of 1.0, which is a bare descriptor. The two channel functions have one version for all programs: the context selects the kind to create, a mark in the channel the kind to destroy |
//! | `post::Chain` | work requests of 1.0 converted to current ones, on the stack up to 16 |
//!
//! *Events.* The `*_context` member of the current object is the wrapper, set at creation. An event
//! thus leads to the object that the program knows. Destroying the current object waits for its
//! events, and the wrapper is freed afterwards.
//!
//! *Posting and polling* are inline in the headers of 1.0 too. Five members of the old context's
//! `ops` are functions of this module; the others are NULL, because no program called them.
//!
//! Tests: `c-tests/programs/self_checking/old.c` and `rxe/old.c`.

mod ah;
pub mod channel;
mod context;
mod cq;
mod device;
mod event;
mod layout;
mod mr;
mod pd;
mod post;
mod qp;
mod query;
mod register;
mod srq;

use super::ret;
use kit::abi::*;
use kit::errno::Result;
use kit::sys::{errno, memory, pthread};
use layout::*;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// A wrapper.
///
/// # Safety
/// The structure begins with the pointer to its `ibv_context_1_0`.
unsafe trait Wrapper {
    /// The object of today.
    type Real;

    /// The member that points to it.
    fn real(&self) -> *mut Self::Real;

    /// Takes over a new object, with the members that programs read: numbers and keys.
    ///
    /// # Safety
    /// The object is valid.
    unsafe fn take(&mut self, object: *mut Self::Real);
}

macro_rules! wrappers {
    ($( $name:ident { $member:ident: $real:ident $(, $same:ident)+ } )*) => { $(
        // SAFETY: the first member is the context; `layout` asserts it.
        unsafe impl Wrapper for $name {
            type Real = $real;

            fn real(&self) -> *mut $real {
                self.$member
            }

            unsafe fn take(&mut self, object: *mut $real) {
                self.$member = object;
                // SAFETY: vouched for by the caller.
                unsafe { $( self.$same = (*object).$same; )+ }
            }
        }
    )* };
}

wrappers! {
    ibv_pd_1_0 { real_pd: ibv_pd, handle }
    ibv_mr_1_0 { real_mr: ibv_mr, handle, lkey, rkey }
    ibv_ah_1_0 { real_ah: ibv_ah, handle }
    ibv_cq_1_0 { real_cq: ibv_cq, handle, cqe }
    ibv_srq_1_0 { real_srq: ibv_srq, handle }
    ibv_qp_1_0 { real_qp: ibv_qp, handle, qp_num, state }
}

/// Takes the pointer that C passed: the wrapper, which other threads may use as well.
///
/// # Errors
/// EINVAL when it is NULL or not an object of 1.0.
///
/// # Safety
/// `raw` is NULL or a live object of either version.
unsafe fn wrapper<W: Wrapper>(raw: *mut W) -> Result<*mut W> {
    ret::not_null(raw)?;
    // SAFETY: objects of either version begin with the pointer to their context, which lives as
    // long as they do; one whose context is a wrapper is one itself.
    unsafe {
        context::check(raw.cast::<*mut ibv_context_1_0>().read())?;
    }
    Ok(raw)
}

/// Takes the pointer that C passed: the object of today.
///
/// # Errors
/// As for [`wrapper`].
///
/// # Safety
/// As for [`wrapper`].
unsafe fn real<W: Wrapper>(raw: *mut W) -> Result<*mut W::Real> {
    // SAFETY: vouched for by the caller.
    unsafe { wrapper(raw).map(|w| (*w).real()) }
}

/// The object of today behind one that may be left out.
///
/// # Errors
/// EINVAL when it is there and none of 1.0's.
///
/// # Safety
/// As for [`wrapper`].
unsafe fn optional<W: Wrapper>(raw: *mut W) -> Result<*mut W::Real> {
    if raw.is_null() {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: vouched for by the caller.
    unsafe { real(raw) }
}

/// A new wrapper for the object that `make` makes; `make` gets the wrapper's address. If a step
/// fails, the result is NULL with its errno, and neither exists.
///
/// # Safety
/// `make` answers NULL with errno, or a new object of today.
unsafe fn made<W: Wrapper>(value: W, make: impl FnOnce(*mut W) -> *mut W::Real) -> *mut W {
    let new = match memory::new(value) {
        Ok(new) => new,
        Err(e) => return ret::null(e),
    };
    let object = make(new);
    // SAFETY: the block is new and only the object refers to it, which cannot have had events yet.
    unsafe {
        if object.is_null() {
            let why = errno::get();
            memory::free(new.cast());
            return ret::null(why);
        }
        (*new).take(object);
    }
    new
}

/// Ends an object of today, and its wrapper if that went well.
///
/// # Safety
/// `raw` is as for [`wrapper`], and is not used after an answer of 0; `destroy` ends objects of
/// that type.
unsafe fn ended<W: Wrapper>(raw: *mut W, destroy: impl FnOnce(*mut W::Real) -> c_int) -> c_int {
    // SAFETY: vouched for by the caller. Destroying the current object waited until its last event
    // was acknowledged, so no event refers to the wrapper any more.
    unsafe {
        ret::code_of(real(raw), |object| {
            let answer = destroy(object);
            if answer == 0 {
                memory::free(raw.cast());
            }
            answer
        })
    }
}

/// A mutex and a condition for members that programs could only copy or ignore: today's objects
/// have those that count.
fn idle() -> (pthread::pthread_mutex_t, pthread::pthread_cond_t) {
    (
        libc::PTHREAD_MUTEX_INITIALIZER,
        libc::PTHREAD_COND_INITIALIZER,
    )
}

/// Attributes of today, all zero.
fn zeroed<T: AllZero>() -> T {
    // SAFETY: all zeros is a value of the type.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// # Safety
/// All zeros is a value of the type.
unsafe trait AllZero {}
// SAFETY: numbers and pointers.
unsafe impl AllZero for ibv_qp_init_attr {}
// SAFETY: numbers and pointers.
unsafe impl AllZero for ibv_send_wr {}
