//! The layouts of `kit::abi`, which rustc asserts for every architecture, compared with those of
//! the C compiler for an architecture.
//!
//! Structures that Debian's `verbs.h`, `sa.h` and `rdma_cma.h` declare are compared with these
//! headers, which are rdma-core's; those of providers with this project's `driver.h`.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};

use super::{
    inside::{Inside, Machine},
    step::{STAGE, compile},
};
use crate::dirs::Dirs;

/// Debian's headers of applications, below the root.
const PUBLIC: [&str; 4] = [
    "infiniband/verbs.h",
    "infiniband/verbs_api.h",
    "infiniband/sa.h",
    "rdma/rdma_cma.h",
];
const PUBLIC_AT: &str = "usr/include";
/// This project's, with those below.
const PRIVATE_AT: &str = "include/infiniband";

/// A structure of Debian's headers that other releases have another size of: providers in Rust use
/// that of release 44.
const BY_RELEASE: &str = "verbs_context";

/// Members that have this name only in Rust: unions whose members are C's, and a member of a union
/// in C.
const NAMELESS: [(&str, &str); 9] = [
    ("ibv_command_buffer", "bits"),
    ("ibv_flow_spec", "u0"),
    ("ibv_ops_wr", "tm"),
    ("ibv_send_wr", "imm"),
    ("ibv_send_wr", "op"),
    ("ibv_wc", "imm"),
    ("rdma_addr", "ibaddr"),
    ("verbs_cq", "u0"),
    ("verbs_qp", "u0"),
];

/// Structures that are too few to be all: something was not read.
const AT_LEAST: [usize; 2] = [90, 15];

/// A structure: its name, its size, and its members with their offsets, as written in Rust.
struct Layout<'a> {
    name: &'a str,
    size: &'a str,
    members: Vec<(&'a str, &'a str)>,
}

/// Compares both sets.
///
/// # Errors
/// What the compiler reports; there are too few structures.
pub fn compare(dirs: &Dirs, inside: &Inside, machine: &Machine) -> Result<()> {
    let mut declared = String::new();
    // Those below are the kernel's, which have no mutex.
    read(
        &dirs.root.join("providers/kit/src/abi"),
        false,
        &mut declared,
    )?;
    let layouts: Vec<_> = layouts(&declared).collect();
    let headers = inside.root().join(PUBLIC_AT);
    let mut public = BTreeSet::new();
    for name in PUBLIC {
        let path = headers.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        public.extend(declarations(&text));
    }
    public.remove(BY_RELEASE);
    let mut text = String::new();
    read(&dirs.root.join(PRIVATE_AT), true, &mut text)?;
    let private: BTreeSet<_> = declarations(&text)
        .filter(|name| !public.contains(name))
        .collect();
    let (outside, within) = inside.results();
    // The second has this project's headers before Debian's.
    let sets = [
        (&public, &PUBLIC[..], &[][..]),
        (&private, &["infiniband/driver.h"], &["-I", "include"]),
    ];
    for (at, (declared, headers, options)) in sets.into_iter().enumerate() {
        let asked = layouts
            .iter()
            .filter(|layout| declared.contains(layout.name));
        let asked: Vec<_> = asked.collect();
        if asked.len() < AT_LEAST[at] {
            bail!("only {} structures of {headers:?}", asked.len());
        }
        let name = format!("{STAGE}-layouts-{at}.c");
        fs::write(outside.join(&name), program(headers, &asked))?;
        let mut gcc = inside.gcc(machine);
        gcc.args(["-std=gnu11", "-fsyntax-only"]).args(options);
        gcc.arg(within.join(&name));
        compile(dirs, &format!("layouts-{}", machine.name), &mut gcc)?;
    }
    Ok(())
}

/// Appends all files of a directory, perhaps with those below it.
fn read(dir: &Path, below: bool, text: &mut String) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            text.push_str(&fs::read_to_string(&path)?);
        } else if below {
            read(&path, below, text)?;
        }
    }
    Ok(())
}

/// The structures of `layout!(NAME, SIZE, { MEMBER: OFFSET, ... });`.
fn layouts(text: &str) -> impl Iterator<Item = Layout<'_>> {
    text.split("layout!(").skip(1).filter_map(|rest| {
        let (all, _) = rest.split_once(");")?;
        let (head, members) = all.trim_end().strip_suffix('}')?.split_once('{')?;
        let (name, size) = head.trim().trim_end_matches(',').split_once(',')?;
        let members = members
            .split(',')
            .filter_map(|member| member.split_once(':'));
        Some(Layout {
            name: name.trim(),
            size: size.trim(),
            members: members
                .map(|(name, offset)| (name.trim().trim_end_matches('_'), offset.trim()))
                .collect(),
        })
    })
}

/// The structures that headers declare.
fn declarations(text: &str) -> impl Iterator<Item = String> {
    text.split("struct ").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('{')?;
        Some(name.trim_end().to_owned())
    })
}

/// A program that compiles if C has the same layouts.
fn program(headers: &[&str], layouts: &[&Layout<'_>]) -> String {
    let mut text = String::from("#include <stddef.h>\n#include <pthread.h>\n");
    for header in headers {
        let _ = writeln!(text, "#include <{header}>");
    }
    text.push_str("#define MUTEX_GROWTH (sizeof(pthread_mutex_t) - 40)\n");
    for Layout {
        name,
        size,
        members,
    } in layouts
    {
        let _ = writeln!(
            text,
            "_Static_assert(sizeof(struct {name}) == {size}, \"size of {name}\");"
        );
        for (member, offset) in members {
            if NAMELESS.contains(&(name, member)) {
                continue;
            }
            let _ = writeln!(
                text,
                "_Static_assert(offsetof(struct {name}, {member}) == {offset}, \
                 \"{name}.{member}\");"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_rust_become_assertions_of_c() {
        let text = "layout!(ibv_mw, 8 + MUTEX_GROWTH, { type_: 0, a: 4 + MUTEX_GROWTH });\n\
            layout!(\n    ibv_wc, 8,\n    {\n        imm: 0,\n    }\n);";
        let all: Vec<_> = layouts(text).collect();
        let all: Vec<_> = all.iter().collect();
        let text = program(&["infiniband/verbs.h"], &all);
        for line in [
            "#include <infiniband/verbs.h>",
            "_Static_assert(sizeof(struct ibv_mw) == 8 + MUTEX_GROWTH, \"size of ibv_mw\");",
            "_Static_assert(offsetof(struct ibv_mw, type) == 0, \"ibv_mw.type\");",
            "_Static_assert(offsetof(struct ibv_mw, a) == 4 + MUTEX_GROWTH, \"ibv_mw.a\");",
            "_Static_assert(sizeof(struct ibv_wc) == 8, \"size of ibv_wc\");",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("ibv_wc.imm"));
    }
}
