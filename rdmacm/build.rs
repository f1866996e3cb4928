//! Linker arguments: the library's name, its symbol versions, and the objects compiled from C. The
//! library is linked with a stub of `libibverbs.so.1` (`stub/library.rs`).

use std::{env, error::Error, path::Path};

#[path = "../stub/library.rs"]
mod stub;

/// Cancellation points.
const WAIT: &str = "src/export/wait.c";
const RSOCKET: &str = "src/export/rsocket.c";
/// The inline functions of verbs.h.
const INLINES: &str = "src/verbs.c";
/// System calls that are not cancellation points, as in libibverbs.
const SYSCALLS: &str = "../src/export/syscalls.c";
const SHARED: [&str; 2] = ["../src/export/c.h", "../include"];

/// The functions of libibverbs that this library calls, by symbol version node.
const NODES: stub::Nodes<'_> = &[
    (
        "IBVERBS_1.0",
        &[
            "ibv_copy_qp_attr_from_kern",
            "ibv_create_comp_channel",
            "ibv_destroy_comp_channel",
        ],
    ),
    (
        "IBVERBS_1.1",
        &[
            "ibv_ack_cq_events",
            "ibv_alloc_pd",
            "ibv_attach_mcast",
            "ibv_close_device",
            "ibv_copy_ah_attr_from_kern",
            "ibv_create_ah",
            "ibv_create_cq",
            "ibv_create_qp",
            "ibv_create_srq",
            "ibv_dealloc_pd",
            "ibv_dereg_mr",
            "ibv_destroy_ah",
            "ibv_destroy_cq",
            "ibv_destroy_qp",
            "ibv_destroy_srq",
            "ibv_detach_mcast",
            "ibv_free_device_list",
            "ibv_get_cq_event",
            "ibv_get_device_guid",
            "ibv_get_device_list",
            "ibv_modify_qp",
            "ibv_open_device",
            "ibv_query_device",
            "ibv_query_gid",
            "ibv_reg_mr",
        ],
    ),
    ("IBVERBS_1.9", &["ibv_get_device_index"]),
    ("IBVERBS_1.10", &["ibv_query_ece", "ibv_set_ece"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    // `rlib/build.rs` sets it.
    println!("cargo::rustc-check-cfg=cfg(ibverbs_linked)");
    for file in [WAIT, RSOCKET, INLINES, SYSCALLS].iter().chain(&SHARED) {
        println!("cargo::rerun-if-changed={file}");
    }
    // The objects are passed to the linker directly: no Rust code refers to them, so the linker
    // would drop them from an archive.
    let objects = [WAIT, RSOCKET, SYSCALLS].map(|file| c(file).compile_intermediates());
    for object in objects.iter().flatten() {
        println!("cargo::rustc-link-arg-cdylib={}", object.display());
    }
    c(INLINES).compile("ferroverbs_inlines");
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let map = Path::new(&root).join("src/librdmacm.map");
    println!("cargo::rerun-if-changed={}", map.display());
    // lld: GNU ld refuses a named version script beside the anonymous one that rustc passes.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    // Debug packages find their file by it; RPM requires one of this size.
    println!("cargo::rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,librdmacm.so.1");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
    stub::link_nodes("ibverbs", NODES)
}

fn c(file: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .file(file)
        .include("../include")
        .include("../src/export")
        .warnings_into_errors(true)
        .extra_warnings(true)
        // Cancelled threads are unwound.
        .flag("-fexceptions")
        .flag_if_supported("-fstack-protector-strong");
    build
}
