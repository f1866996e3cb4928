//! Data passed to the kernel, byte by byte.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod ioctl;
mod link;
mod write;

use std::fs::File;

/// A descriptor whose driver knows no verbs ioctl: every one returns ENOTTY.
fn dull() -> File {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap()
}
