//! Compiles the C files that the static library has: the calls in which threads are cancelled, and
//! the inline functions of verbs.h.

const FILES: [&str; 3] = ["src/export/wait.c", "src/export/rsocket.c", "src/verbs.c"];

fn main() {
    for file in FILES.iter().chain(&["c.h", "include/infiniband"]) {
        println!("cargo::rerun-if-changed={file}");
    }
    // The function that the shared library finds by dlsym(3) is a part of the program.
    println!("cargo::rustc-check-cfg=cfg(ibverbs_linked)");
    println!("cargo::rustc-cfg=ibverbs_linked");
    let mut c = cc::Build::new();
    c.files(FILES)
        .include("include")
        .include(".")
        .extra_warnings(true)
        // Cancelled threads are unwound.
        .flag("-fexceptions")
        .flag_if_supported("-fstack-protector-strong");
    c.compile("ferroverbs_rdmacm");
}
