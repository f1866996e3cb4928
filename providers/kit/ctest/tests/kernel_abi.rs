//! The kit's kernel types against the kernel headers installed.

use std::io::{Write, stderr};

#[test]
fn agrees_with_the_headers_installed() {
    // Written past the test harness, which hides the output of passing tests.
    for name in kit_ctest::too_new() {
        let reported = writeln!(
            stderr(),
            "skipped {name}: the kernel headers installed are older than it"
        );
        assert!(reported.is_ok());
    }
    kit_ctest::compare();
}
