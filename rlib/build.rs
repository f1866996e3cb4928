//! Compiles the one C file that the static library has: the calls in which threads are cancelled.

const CANCEL: &str = "src/export/cancel.c";

fn main() {
    for file in [CANCEL, "src/export/c.h", "include/infiniband"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let mut c = cc::Build::new();
    c.file(CANCEL)
        .include("include")
        .extra_warnings(true)
        // Cancelled threads are unwound.
        .flag("-fexceptions")
        .flag_if_supported("-fstack-protector-strong");
    c.compile("ferroverbs_cancel");
}
