//! The C types that applications, providers and the kernel share with the library.
//!
//! Names are those of the C headers, in files by object. Every type is followed by
//! its layout (LP64, little-endian), asserted at compile time; the build script refuses
//! other machines. Architectures differ in the size of `pthread_mutex_t` alone
//! ([`MUTEX_GROWTH`]). C enumerations are plain integers here: a value from outside may
//! be any number.

#![allow(non_camel_case_types, non_snake_case)]

/// Bytes by which `pthread_mutex_t` is larger than the 40 of x86-64, riscv64 and ppc64el: 8 on
/// arm64 (bits/pthreadtypes-arch.h of glibc). Structures with a mutex grow by it, members behind
/// the mutex move by it.
pub const MUTEX_GROWTH: usize = size_of::<libc::pthread_mutex_t>() - 40;

const _: () = assert!(MUTEX_GROWTH == if cfg!(target_arch = "aarch64") { 8 } else { 0 });

/// Asserts size and member offsets of a C type at compile time.
macro_rules! layout {
    ($t:ident, $size:expr, { $($f:ident : $off:expr),* $(,)? }) => {
        const _: () = {
            assert!(core::mem::size_of::<$t>() == $size);
            $( assert!(core::mem::offset_of!($t, $f) == $off); )*
        };
    };
}

mod endian;

/// Common imports of the files of this module.
mod prelude {
    pub use super::endian::*;
    pub use super::kernel::*;
    pub use super::*;
    pub use bytemuck::{Pod, Zeroable};
    pub use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
    pub use core::mem::ManuallyDrop;
    pub use core::sync::atomic::AtomicI32;
}

mod ah;
pub mod cma;
mod cmd;
mod comp_cntr;
mod context;
mod counters;
mod cq;
mod device;
mod driver;
mod event;
mod flow;
pub mod handle;
pub mod kernel;
mod mr;
mod ops;
mod pd;
mod port;
mod qp;
mod sa;
mod srq;
mod wq;
mod wr;
mod xrcd;

pub use ah::*;
pub use cmd::*;
pub use comp_cntr::*;
pub use context::*;
pub use counters::*;
pub use cq::*;
pub use device::*;
pub use driver::*;
pub use endian::*;
pub use event::*;
pub use flow::*;
pub use mr::*;
pub use ops::*;
pub use pd::*;
pub use port::*;
pub use qp::*;
pub use sa::*;
pub use srq::*;
pub use wq::*;
pub use wr::*;
pub use xrcd::*;
