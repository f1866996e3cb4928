//! The file of the libibverbs that this program runs over.

use std::{fs, sync::OnceLock};

use memchr::memmem;

/// The variable that a library with uroce reads.
const UROCE_VARIABLE: &[u8] = b"UROCE_DEVICES";

/// The file's content, read once; empty if the file cannot be found or read.
pub(super) fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(read)
}

fn read() -> Vec<u8> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps.lines().find_map(|line| {
        let (_, path) = line.split_once('/')?;
        let name = path.rsplit('/').next()?;
        name.starts_with("libibverbs.so")
            .then(|| format!("/{path}"))
    });
    let bytes = file.and_then(|file| fs::read(file).ok());
    bytes.unwrap_or_default()
}

/// Whether the library has uroce. rdma-core's has not.
pub(super) fn has_uroce() -> bool {
    memmem::find(bytes(), UROCE_VARIABLE).is_some()
}
