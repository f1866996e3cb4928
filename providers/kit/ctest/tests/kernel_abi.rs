//! The kit's kernel types against the kernel headers installed.

fn main() {
    kit_ctest::compare();
    for name in kit_ctest::too_new() {
        println!("SKIPPED {name}: the kernel headers installed are older than it");
    }
}
