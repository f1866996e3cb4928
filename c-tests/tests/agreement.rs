//! Every constant of `kit::abi` has the value that C sees under the same name, in our headers
//! and in the kernel's.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of a test

use std::{fmt::Write as _, fs, path::Path, process::Command};

use c_tests::tree::workspace_dir;

/// Headers that between them name every constant.
const HEADERS: [&str; 10] = [
    "infiniband/driver.h",
    "infiniband/kern-abi.h",
    "infiniband/cmd_ioctl.h",
    "infiniband/verbs.h",
    "infiniband/sa.h",
    "rdma/ib_user_verbs.h",
    "rdma/ib_user_ioctl_cmds.h",
    "rdma/rdma_user_ioctl.h",
    "rdma/ib_user_sa.h",
    "rdma/rdma_user_cm.h",
];

/// How names of the API and of the kernel begin; other constants are Rust's own.
const PREFIXES: [&str; 5] = ["IB", "UVERBS_", "VERBS_", "VSYSFS_", "RDMA_"];

/// Values of rdma-core 44's copy of the kernel's headers that the headers of Linux 6.1 lack.
const LATER_THAN_LINUX_6_1: [&str; 3] = [
    "IB_UVERBS_DEVICE_ATOMIC_WRITE",
    "IB_UVERBS_WC_ATOMIC_WRITE",
    "IB_UVERBS_WR_ATOMIC_WRITE",
];

/// The constants as cbindgen writes them: `#define fv_NAME VALUE`.
fn generated(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_crate(root.join("providers/kit"))
        .generate()
        .unwrap()
        .write(&mut text);
    String::from_utf8(text).unwrap()
}

/// Parts of names that only later kernels' headers contain.
const MUCH_LATER: &str = include_str!("../../providers/kit/ctest/later.txt");

fn is_in_headers(name: &str) -> bool {
    let kernels = name.starts_with("UVERBS_") && MUCH_LATER.lines().any(|part| name.contains(part));
    !kernels && !LATER_THAN_LINUX_6_1.contains(&name)
}

fn names(defines: &str) -> Vec<&str> {
    defines
        .lines()
        .filter_map(|line| line.strip_prefix("#define fv_"))
        .filter_map(|rest| rest.split_whitespace().next())
        .filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| is_in_headers(name))
        .collect()
}

#[test]
fn constants_have_the_values_of_the_headers() {
    let root = workspace_dir();
    let defines = generated(root);
    let names = names(&defines);
    assert!(names.len() > 700, "only {} constants found", names.len());

    let mut program = String::new();
    for header in HEADERS {
        writeln!(program, "#include <{header}>").unwrap();
    }
    program.push_str(&defines);
    for name in &names {
        writeln!(
            program,
            "_Static_assert((long long)({name}) == (long long)(fv_{name}), \"{name}\");"
        )
        .unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("agreement.c");
    fs::write(&source, program).unwrap();
    let output = Command::new("gcc")
        .args(["-std=gnu11", "-fsyntax-only", "-I"])
        .arg(root.join("include"))
        .arg(&source)
        .output()
        .expect("gcc (package gcc)");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
