//! Verbs that came after generation 34, kept beside the table.
//!
//! A provider in C of generation 34 has no slots for them; a later provider, or one in Rust, may. A
//! lookup returns a [`Known`]: the provider's function, or omitted by a provider that could have
//! it, or newer than the provider.
//!
//! The library implements a missing verb itself where the kernel command carries no data of the
//! provider: completion counters ([`crate::uverbs::comp_cntr`]; in software,
//! [`crate::provider::CompCntr`]), the speed of a port, and `ibv_reg_mr_ex`, which it maps to older
//! calls. Buffers of `ibv_alloc_buf` are pages of the process unless the provider allocates them
//! ([`crate::provider::Provider::SHARES_BUFFERS`]). Verbs that only a provider can implement answer
//! EOPNOTSUPP: hints (`ibv_alloc_dmah`) and device memory as a DMA buffer.
//!
//! Tests: `c-tests/programs/post_44/` and `post_44_rxe/`; `uverbs::tests::later`.
#![allow(missing_docs)] // each verb is explained by its man page

use super::default::code;
use crate::abi::*;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

/// State of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<F> {
    /// The provider's function.
    Is(F),
    /// The provider could have it and does not.
    LeftOut,
    /// The provider is from before the verb.
    TooOld,
}

macro_rules! later {
    ($( $slot:literal $name:ident since $since:literal ( $($arg:ty),* ) $(-> $ret:ty)?; )*) => {
        /// The numbers of these verbs, which count from 0 as those of the table do.
        #[allow(non_upper_case_globals)]
        pub mod slot {
            $( pub const $name: usize = $slot; )*
        }

        /// How many they are.
        pub const COUNT: usize = [$($slot),*].len();

        /// The verbs that a provider gives; `None` leaves one as it is.
        #[derive(Clone, Copy, Default)]
        #[repr(C)]
        pub struct Given {
            $( pub $name: Option<unsafe extern "C" fn($($arg),*) $(-> $ret)?>, )*
        }

        const _: () = {
            $( assert!(core::mem::offset_of!(Given, $name) == $slot * size_of::<*mut c_void>()); )*
            assert!(size_of::<Given>() == COUNT * size_of::<*mut c_void>());
        };

        impl Later {
            $(
                /// The verb of that name.
                pub fn $name(&self) -> Known<unsafe extern "C" fn($($arg),*) $(-> $ret)?> {
                    let verb = self.slots[$slot].load(Ordering::Relaxed);
                    if verb.is_null() {
                        return self.none($since);
                    }
                    // SAFETY: slot and type come from the same line; the stored function has that
                    // type (`take`).
                    Known::Is(unsafe {
                        transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(verb)
                    })
                }
            )*
        }
    };
}

type OnCounter = unsafe extern "C" fn(*mut ibv_comp_cntr, u64) -> c_int;
type OfCounter = unsafe extern "C" fn(*mut ibv_comp_cntr, *mut u64) -> c_int;

later! {
    0 alloc_buf since 64 (*mut ibv_pd, usize, *mut *mut ibv_buf) -> *mut c_void;
    1 alloc_dmah since 59 (*mut ibv_context, *mut ibv_dmah_init_attr) -> *mut ibv_dmah;
    2 create_comp_cntr since 65 (*mut ibv_context, *mut ibv_comp_cntr_init_attr) -> *mut ibv_comp_cntr;
    3 dealloc_dmah since 59 (*mut ibv_dmah) -> c_int;
    4 destroy_comp_cntr since 65 (*mut ibv_comp_cntr) -> c_int;
    5 dm_export_dmabuf_fd since 62 (*mut ibv_dm) -> c_int;
    6 free_buf since 64 (*mut ibv_buf);
    7 inc_comp_cntr since 65 (*mut ibv_comp_cntr, u64) -> c_int;
    8 inc_err_comp_cntr since 65 (*mut ibv_comp_cntr, u64) -> c_int;
    9 qp_attach_comp_cntr since 65 (*mut ibv_qp, *mut ibv_comp_cntr, *mut ibv_qp_attach_comp_cntr_attr) -> c_int;
    10 query_comp_cntr_caps since 65 (*mut ibv_context, *mut ibv_comp_cntr_caps, usize) -> c_int;
    11 query_port_speed since 62 (*mut ibv_context, u32, *mut u64) -> c_int;
    12 read_comp_cntr since 65 (*mut ibv_comp_cntr, *mut u64) -> c_int;
    13 read_err_comp_cntr since 65 (*mut ibv_comp_cntr, *mut u64) -> c_int;
    14 reg_mr_ex since 59 (*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr;
    15 set_comp_cntr since 65 (*mut ibv_comp_cntr, u64) -> c_int;
    16 set_err_comp_cntr since 65 (*mut ibv_comp_cntr, u64) -> c_int;
}

/// The latest release whose verbs are listed here.
const LATEST: u16 = 65;

/// The later verbs of one context. Slots are atomic for the same reason as those of the table.
pub struct Later {
    slots: [AtomicPtr<c_void>; COUNT],
    /// The release that the provider was made for; 0 while it has set none.
    release: AtomicU16,
}

impl Later {
    /// Those of a provider of `release`, all left out so far.
    pub(super) fn new(release: u16) -> Self {
        Self {
            slots: [const { AtomicPtr::new(core::ptr::null_mut()) }; COUNT],
            release: AtomicU16::new(release),
        }
    }

    fn none<F>(&self, since: u16) -> Known<F> {
        match self.release.load(Ordering::Relaxed) >= since {
            true => Known::LeftOut,
            false => Known::TooOld,
        }
    }

    /// Takes over the pointers that are not NULL.
    ///
    /// # Safety
    /// Each is NULL or a function of its slot's type.
    pub(super) unsafe fn take(&self, given: &[*mut c_void; COUNT]) {
        for (slot, verb) in self.slots.iter().zip(given) {
            if !verb.is_null() {
                slot.store(*verb, Ordering::Relaxed);
            }
        }
    }

    /// Takes over the verbs of a provider of the latest release.
    pub(super) fn set(&self, given: &Given) {
        self.release.store(LATEST, Ordering::Relaxed);
        // SAFETY: the structure is COUNT pointers to functions, of the types of their slots
        // (asserted above).
        unsafe { self.take(&*core::ptr::from_ref(given).cast()) }
    }

    /// The verbs of completion counters. A provider that makes counters has those; verbs among them
    /// that it leaves out return EOPNOTSUPP.
    pub fn comp_cntr(&self) -> Known<CompCntr> {
        let create = match self.create_comp_cntr() {
            Known::Is(create) => create,
            Known::LeftOut => return Known::LeftOut,
            Known::TooOld => return Known::TooOld,
        };
        Known::Is(CompCntr {
            query_caps: self.query_comp_cntr_caps().or(no_caps),
            create,
            destroy: self.destroy_comp_cntr().or(no_destroy),
            set: self.set_comp_cntr().or(no_change),
            set_err: self.set_err_comp_cntr().or(no_change),
            inc: self.inc_comp_cntr().or(no_change),
            inc_err: self.inc_err_comp_cntr().or(no_change),
            read: self.read_comp_cntr().or(no_value),
            read_err: self.read_err_comp_cntr().or(no_value),
            attach: self.qp_attach_comp_cntr().or(no_attach),
        })
    }
}

impl<F> Known<F> {
    fn or(self, other: F) -> F {
        match self {
            Self::Is(verb) => verb,
            Self::LeftOut | Self::TooOld => other,
        }
    }
}

unsafe extern "C" fn no_caps(_: *mut ibv_context, _: *mut ibv_comp_cntr_caps, _: usize) -> c_int {
    code()
}

unsafe extern "C" fn no_destroy(_: *mut ibv_comp_cntr) -> c_int {
    code()
}

unsafe extern "C" fn no_change(_: *mut ibv_comp_cntr, _: u64) -> c_int {
    code()
}

unsafe extern "C" fn no_value(_: *mut ibv_comp_cntr, _: *mut u64) -> c_int {
    code()
}

unsafe extern "C" fn no_attach(
    _: *mut ibv_qp,
    _: *mut ibv_comp_cntr,
    _: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    code()
}

/// Completion counters. `query_caps` takes the size of the structure.
#[derive(Clone, Copy)]
pub struct CompCntr {
    pub query_caps: unsafe extern "C" fn(*mut ibv_context, *mut ibv_comp_cntr_caps, usize) -> c_int,
    pub create:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_comp_cntr_init_attr) -> *mut ibv_comp_cntr,
    pub destroy: unsafe extern "C" fn(*mut ibv_comp_cntr) -> c_int,
    pub set: OnCounter,
    pub set_err: OnCounter,
    pub inc: OnCounter,
    pub inc_err: OnCounter,
    pub read: OfCounter,
    pub read_err: OfCounter,
    pub attach: unsafe extern "C" fn(
        *mut ibv_qp,
        *mut ibv_comp_cntr,
        *mut ibv_qp_attach_comp_cntr_attr,
    ) -> c_int,
}
