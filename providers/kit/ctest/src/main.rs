//! Compares the kit's kernel types with the kernel headers installed: sizes, alignments, members,
//! constants.

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

fn main() {
    compare::all();
    for name in env!("TOO_NEW").split_whitespace() {
        println!("SKIPPED {name}: the kernel headers installed are older than it");
    }
}
