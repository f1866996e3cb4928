//! Makes the stub that programs are linked with: a library that has the name, the functions and the
//! versions of `libibverbs.so.1` but no code. Cargo cannot link a program with the shared library
//! that it builds, and the system's need not be installed. The library that a program runs on is
//! found when it starts, as for programs in C.

use std::{env, error::Error, fmt::Write, fs, path::Path};

/// The functions that `src/raw.rs` declares, by their node.
const NODES: &[(&str, &[&str])] = &[
    (
        "IBVERBS_1.0",
        &[
            "ibv_create_comp_channel",
            "ibv_destroy_comp_channel",
            "ibv_read_sysfs_file",
        ],
    ),
    (
        "IBVERBS_1.1",
        &[
            "ibv_ack_async_event",
            "ibv_ack_cq_events",
            "ibv_alloc_pd",
            "ibv_attach_mcast",
            "ibv_detach_mcast",
            "ibv_fork_init",
            "ibv_modify_srq",
            "ibv_close_device",
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
            "ibv_free_device_list",
            "ibv_get_async_event",
            "ibv_get_cq_event",
            "ibv_get_device_guid",
            "ibv_get_device_list",
            "ibv_get_device_name",
            "ibv_modify_qp",
            "ibv_open_device",
            "ibv_query_device",
            "ibv_query_gid",
            "ibv_query_port",
            "ibv_query_qp",
            "ibv_reg_mr",
            "ibv_wc_status_str",
        ],
    ),
    ("IBVERBS_1.6", &["ibv_qp_to_qp_ex"]),
    (
        "IBVERBS_1.11",
        &["_ibv_query_gid_ex", "_ibv_query_gid_table"],
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let (mut source, mut map) = (String::new(), String::new());
    for (node, functions) in NODES {
        writeln!(map, "{node} {{ global: {}; }};", functions.join("; "))?;
        for function in *functions {
            writeln!(source, "void {function}(void) {{}}")?;
        }
    }
    fs::write(out.join("empty.c"), source)?;
    fs::write(out.join("empty.map"), map)?;
    let made = cc::Build::new()
        .try_get_compiler()?
        .to_command()
        .current_dir(out)
        .args(["-shared", "-fPIC", "-nostdlib", "-o", "libibverbs-empty.so"])
        .args([
            "-Wl,-soname,libibverbs.so.1",
            "-Wl,--version-script=empty.map",
        ])
        .arg("empty.c")
        .status()?;
    if !made.success() {
        return Err("the C compiler could not make a shared library".into());
    }
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=dylib=ibverbs-empty");
    Ok(())
}
