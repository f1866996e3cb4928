//! Compares the kit's kernel types with the kernel headers installed: sizes, alignments, members,
//! constants. The test `kernel_abi` runs it.

#[allow(unused_imports, missing_docs, bad_style, unsafe_op_in_unsafe_fn)]
#[allow(clippy::all, clippy::pedantic, clippy::restriction)]
mod compare {
    use kit::abi::kernel::{ioctl::*, *};
    use kit::abi::{be16, be32, be64, ib_uverbs_attr, ib_uverbs_ioctl_hdr};
    use std::ffi::{c_int, c_uint, c_ulong};

    include!(concat!(env!("OUT_DIR"), "/kernel_abi.rs"));

    pub fn all() {
        main();
    }
}

/// Compares everything and prints how much that was.
///
/// # Panics
/// When anything differs, after each difference has been printed.
pub fn compare() {
    compare::all();
}

/// Constants that the kernel headers installed are too old to have, which were not compared.
pub fn too_new() -> impl Iterator<Item = &'static str> {
    env!("TOO_NEW").split_whitespace()
}
