//! Common parts of all suites of uroce: the device, and ways to run a program over it.
#![forbid(unsafe_code)]

use std::path::Path;

use super::Target;

/// The script that shows uroce's devices where the kernel shows its own.
pub const IN_SYSFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/uroce-sysfs");

/// No shared memory.
pub const BY_UDP: (&str, &str) = ("UROCE_CARRIER", "udp");

/// The device over `lo`: its GIDs are 127.0.0.1 and ::1.
pub fn target(helpers: &Path, faults: bool) -> Target {
    Target {
        device: "uroce_lo",
        address: "127.0.0.1",
        gid: 0,
        other_gid: 1,
        mtu: 4096,
        connection_manager: false,
        faults,
        helpers: helpers.to_owned(),
    }
}
