//! Writes the comparison of `kit::abi::kernel` with linux-libc-dev's headers.
//!
//! ctest reads one self-contained Rust file for the names, members and constants to compare. The
//! kit's files are combined into one such file, without the parts for the compiler (derives, layout
//! assertions, imports). The compared types are the kit's: the test is compiled against the crate.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Where the declarations stand, and the headers they are declared from.
const SOURCES: &str = "../src/abi/kernel";
/// The frame of the ioctl interface, beside the command buffer of providers, which is no
/// kernel type.
const FRAME: &str = "../src/abi/cmd.rs";
const HEADERS: [&str; 8] = [
    "rdma/ib_user_verbs.h",
    "rdma/ib_user_ioctl_verbs.h",
    "rdma/ib_user_ioctl_cmds.h",
    "rdma/rdma_user_ioctl_cmds.h",
    "rdma/rdma_user_ioctl.h",
    "rdma/ib_user_sa.h",
    "rdma/rdma_user_rxe.h",
    "rdma/siw-abi.h",
];

/// A structure that C declares without a name; its members are compared by the size of the
/// member that it is.
const UNNAMED: [&str; 2] = [
    "ib_uverbs_attr_attr_data_enum_data",
    "ib_uverbs_odp_caps_per_transport_caps",
];

/// Not the kernel's.
const PROVIDERS_OWN: [&str; 2] = ["ibv_command_buffer", "_UHW_NO_INDEX"];

/// Members that C declares as unnamed structures or unions: place and size are compared, the
/// type cannot be.
const ANONYMOUS: [(&str, &str); 7] = [
    ("ib_uverbs_attr", "attr_data"),
    ("ib_uverbs_odp_caps", "per_transport_caps"),
    ("ib_uverbs_send_wr", "ex"),
    ("ib_uverbs_send_wr", "wr"),
    ("ib_uverbs_wc", "ex"),
    ("rxe_send_wr", "ex"),
    ("rxe_send_wr", "wr"),
];

/// Members that have a name only in Rust: padding, and a union whose members are C's.
const NAMELESS: [(&str, &str); 2] = [
    ("ib_uverbs_attr", "u0"),
    ("ib_uverbs_flow_action_esp_encap", "padding"),
];

/// Structures that end in an array without a length and fit in registers: compilers disagree on
/// how such a one is passed by value.
const OPEN_ENDED: [&str; 2] = ["ib_uverbs_create_ah_resp", "ib_uverbs_ioctl_hdr"];

/// Constants that Linux 6.2 added: compared where the headers installed have them.
const SINCE_6_2: [&str; 4] = [
    "IB_UVERBS_DEVICE_ATOMIC_WRITE",
    "IB_UVERBS_WC_ATOMIC_WRITE",
    "IB_UVERBS_WR_ATOMIC_WRITE",
    "RDMA_DRIVER_MANA",
];

/// Parts of the names of methods and attributes that only Linux 6.12 and later have.
const LATER: &str = include_str!("later.txt");

/// Those of [`SINCE_6_2`] and [`LATER`] that the headers installed lack.
fn too_new(flat: &str) -> Vec<String> {
    let text: String = HEADERS
        .iter()
        .filter_map(|header| fs::read_to_string(Path::new("/usr/include").join(header)).ok())
        .collect();
    let is_later = |name: &String| LATER.lines().any(|part| name.contains(part));
    let later = names(flat, "pub const ").into_iter().filter(is_later);
    SINCE_6_2
        .into_iter()
        .map(str::to_owned)
        .chain(later)
        .filter(|name| !text.contains(name))
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed={FRAME}");
    println!("cargo::rerun-if-changed=build.rs");
    let flat = flatten(Path::new(SOURCES))?;
    let file = PathBuf::from(env::var("OUT_DIR")?).join("flat.rs");
    fs::write(&file, &flat)?;
    let too_new = too_new(&flat);
    println!("cargo::rustc-env=TOO_NEW={}", too_new.join(" "));
    let mut generator = generator(&flat, too_new);
    ctest::generate_test(&mut generator, &file, "kernel_abi.rs")?;
    Ok(())
}

/// One file of plain declarations.
fn flatten(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut flat = String::from(
        "#![allow(non_camel_case_types, non_snake_case)]\n\
         use std::ffi::{c_int, c_uint, c_ulong};\n\
         pub type be16 = u16;\npub type be32 = u32;\npub type be64 = u64;\n",
    );
    let mut files = vec![PathBuf::from(FRAME)];
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    for file in files.iter().filter(|f| !f.ends_with("mod.rs")) {
        for line in fs::read_to_string(file)?.lines() {
            let only_for_rustc = ["#[derive", "#![", "//!", "layout!", "use "];
            if !only_for_rustc.iter().any(|start| line.starts_with(start)) {
                flat.push_str(line);
                flat.push('\n');
            }
        }
    }
    Ok(flat)
}

/// The first word after `start` in each line that begins with it.
fn names(flat: &str, start: &str) -> BTreeSet<String> {
    let word = |rest: &str| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        rest.get(..end.unwrap_or(rest.len())).map(str::to_owned)
    };
    flat.lines()
        .filter_map(|line| line.strip_prefix(start).and_then(word))
        .collect()
}

fn generator(flat: &str, too_new: Vec<String>) -> ctest::TestGenerator {
    let structs = names(flat, "pub struct ");
    let enums: BTreeSet<String> = names(flat, "pub type ")
        .into_iter()
        .filter(|name| !name.starts_with("be"))
        .collect();
    let c_enums = enums.clone();

    let mut generator = ctest::TestGenerator::new();
    for header in HEADERS {
        generator.header(header);
    }
    generator
        .edition(2024)
        .skip_const(move |constant| {
            let name = constant.ident();
            too_new.iter().any(|new| new == name) || PROVIDERS_OWN.contains(&name)
        })
        .skip_struct(|s| UNNAMED.contains(&s.ident()) || PROVIDERS_OWN.contains(&s.ident()))
        .skip_union(|_| true)
        .skip_struct_field(|s, member| NAMELESS.contains(&(s.ident(), member.ident())))
        .skip_struct_field_type(|s, member| ANONYMOUS.contains(&(s.ident(), member.ident())))
        .rename_struct_ty(move |name| structs.contains(name).then(|| format!("struct {name}")))
        .rename_type(move |name| match name {
            "u64" | "be16" | "be32" | "be64" => Some(format!("__{name}")),
            _ => enums.contains(name).then(|| format!("enum {name}")),
        })
        .skip_roundtrip(|name| OPEN_ENDED.contains(&name))
        // Names that are words of Rust end in an underscore.
        .rename_struct_field(|_, member| member.ident().strip_suffix('_').map(str::to_owned))
        .skip_alias(move |alias| {
            alias.ident().starts_with("be") || c_enums.contains(alias.ident())
        });
    generator
}
