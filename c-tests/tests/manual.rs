//! The manual pages of section 3: one for each public function, exported or inline, with prototypes
//! that the headers have and errno values that the sources answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use c_tests::{
    Result,
    build::our_headers,
    tree::{package_dir, workspace_dir},
};
use tempfile::TempDir;

/// Functions that programs do not call by these names: macros and inlines of the headers call them,
/// or providers, or programs of older headers.
const NOT_FOR_PROGRAMS: &[&str] = &[
    "_ibv_query_comp_cntr_caps",
    "_ibv_query_gid_ex",
    "_ibv_query_gid_table",
    "IBV_OPCODE",
    "___ibv_query_port",
    "__ibv_reg_mr",
    "__ibv_reg_mr_iova",
    "ibv_reg_mr_iova2",
    "htonll",
    "ntohll",
    "verbs_get_ctx",
    "verbs_get_ctx_op",
    "vext_field_avail",
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_dofork_range",
    "ibv_dontfork_range",
];

/// Functions whose declaration differs from their call, because a macro precedes it.
const BEHIND_MACROS: &[&str] = &["ibv_query_port", "ibv_reg_mr", "ibv_reg_mr_iova"];

struct Page {
    name: String,
    text: String,
}

impl Page {
    fn section(&self, title: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!(".SH {title}\n"))?;
        Some(rest.split("\n.SH ").next().unwrap_or(rest))
    }

    /// The functions that it is about.
    fn functions(&self) -> Vec<String> {
        let section = self.section("NAME").unwrap_or_default();
        let names = section.split("\\-").next().unwrap_or_default();
        let names = names
            .split([',', '\n', ' '])
            .filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    /// The prototypes of its synopsis.
    fn prototypes(&self) -> Vec<String> {
        let section = self.section("SYNOPSIS").unwrap_or_default();
        let parts = section.split(".PP\n").skip(1);
        parts
            .map(|part| {
                let lines = part.lines().filter_map(|line| line.strip_prefix(".B \""));
                lines.map(|line| line.trim_end_matches('"')).collect()
            })
            .collect()
    }

    /// The errno values of its errors.
    fn errnos(&self) -> BTreeSet<String> {
        let section = self.section("ERRORS").unwrap_or_default();
        let words = section.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_errno = |word: &&str| {
            word.len() > 2
                && word.starts_with('E')
                && word
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        words
            .filter(is_errno)
            .filter(|word| *word != "ESP")
            .map(str::to_owned)
            .collect()
    }
}

fn pages() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path)?;
        pages.push(Page { name, text });
    }
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(pages)
}

fn folder() -> PathBuf {
    workspace_dir().join("docs/man/3")
}

fn public() -> Result<BTreeSet<String>> {
    let symbols = fs::read_to_string(package_dir().join("data/symbols.tsv"))?;
    let exported = symbols.lines().filter_map(|line| {
        let fields: Vec<_> = line.split('\t').collect();
        let [name, node, "yes"] = fields[..] else {
            return None;
        };
        node.starts_with("IBVERBS_1.").then(|| name.to_owned())
    });
    let inlines = fs::read_to_string(package_dir().join("data/inlines.txt"))?;
    let inlines = inlines.split_whitespace().map(str::to_owned);
    let mut all: BTreeSet<_> = exported.chain(inlines).collect();
    for name in NOT_FOR_PROGRAMS {
        if !all.remove(*name) {
            return Err(format!("{name} is not public").into());
        }
    }
    Ok(all)
}

#[test]
fn every_public_function_has_one_page() -> Result<()> {
    let mut described = BTreeMap::new();
    for page in pages()? {
        for function in page.functions() {
            if let Some(other) = described.insert(function.clone(), page.name.clone()) {
                return Err(format!("{function} is in {other} and in {}", page.name).into());
            }
        }
    }
    let public = public()?;
    let missing: Vec<_> = public
        .iter()
        .filter(|name| !described.contains_key(*name))
        .collect();
    assert!(missing.is_empty(), "no page has {missing:?}");
    // A page about many functions has another name.
    let unknown: Vec<_> = described
        .keys()
        .filter(|name| !public.contains(*name) && *name != "ibv_wr_post")
        .collect();
    assert!(unknown.is_empty(), "not public: {unknown:?}");
    Ok(())
}

#[test]
fn every_page_is_whole() -> Result<()> {
    for page in pages()? {
        let name = &page.name;
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "RETURN VALUE",
            "SEE ALSO",
        ] {
            let text = page.section(section);
            assert!(
                text.is_some_and(|text| !text.trim().is_empty()),
                "{name}: no {section}"
            );
        }
        assert!(page.functions().contains(name), "{name} is not in its NAME");
        let prototypes = page.prototypes().concat();
        for function in page.functions() {
            let declared = prototypes.contains(&format!("{function}("));
            assert!(
                declared || function == "ibv_wr_post",
                "{name}: no prototype of {function}"
            );
        }
        for other in page.section("SEE ALSO").unwrap_or_default().lines() {
            let mut words = other.trim_start_matches(".BR ").split(' ');
            let (Some(other), Some(number)) = (words.next(), words.next()) else {
                return Err(format!("{name}: {other} is no reference").into());
            };
            let there = match number.trim_end_matches(',') {
                "(3)" => pages()?
                    .iter()
                    .any(|page| page.functions().iter().any(|f| f == other)),
                "(7)" => workspace_dir().join(format!("docs/man/{other}.7")).exists(),
                _ => false,
            };
            assert!(there, "{name}: there is no {other}{number}");
        }
    }
    Ok(())
}

/// The headers' own declarations and those of the pages are of one type, or the compiler refuses.
#[test]
fn prototypes_are_those_of_the_headers() -> Result<()> {
    let mut source = String::from("#include <infiniband/verbs.h>\n#include <errno.h>\n");
    for page in pages()? {
        for prototype in page.prototypes() {
            let macros = BEHIND_MACROS
                .iter()
                .filter(|name| prototype.contains(&format!("{name}(")));
            if macros.count() == 0 {
                source.push_str(&prototype);
                source.push('\n');
            }
        }
        for errno in page.errnos() {
            source.push_str(&format!("_Static_assert({errno} > 0, \"{errno}\");\n"));
        }
    }
    let folder = TempDir::new()?;
    let file = folder.path().join("prototypes.c");
    fs::write(&file, source)?;
    let output = Command::new("gcc")
        .args([
            "-std=c11",
            "-Wall",
            "-Werror",
            "-Wno-redundant-decls",
            "-fsyntax-only",
            "-I",
        ])
        .arg(our_headers())
        .arg(&file)
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    Ok(())
}

/// A call cannot return an errno that no source file contains, unless it comes from the kernel.
#[test]
fn errno_values_are_answered_somewhere() -> Result<()> {
    /// The kernel's own answers to commands, handed on as they are.
    const KERNEL: &[&str] = &["EEXIST", "EFAULT", "EMFILE", "EACCES", "EPERM"];
    let mut sources = String::new();
    for folder in ["src", "providers"] {
        read_below(&workspace_dir().join(folder), &mut sources)?;
    }
    for page in pages()? {
        for errno in page.errnos() {
            let short = errno.trim_start_matches('E');
            let named = [format!("Errno::{short}"), format!("libc::{errno}")]
                .iter()
                .any(|word| sources.contains(word));
            let answered = named || KERNEL.contains(&errno.as_str());
            assert!(answered, "{}: nothing answers {errno}", page.name);
        }
    }
    Ok(())
}

fn read_below(folder: &Path, into: &mut String) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_below(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn mandoc_finds_nothing() -> Result<()> {
    let there = Command::new("mandoc")
        .arg("-T")
        .arg("lint")
        .arg("/dev/null")
        .output();
    if there.is_err() {
        println!("skipped: there is no mandoc (Debian: mandoc)");
        return Ok(());
    }
    for page in pages()? {
        let path = folder().join(format!("{}.3", page.name));
        let output = Command::new("mandoc")
            .args(["-T", "lint"])
            .arg(&path)
            .output()?;
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(words.is_empty(), "{words}");
    }
    Ok(())
}
