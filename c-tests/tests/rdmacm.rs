//! The built librdmacm offers the names, nodes and SONAME that it should.

use std::{collections::BTreeSet, fs, path::Path};

use c_tests::{
    Result,
    elf::{self, Image},
    library::built_rdmacm,
    tree::{package_dir, workspace_dir},
};

type Pairs = BTreeSet<(String, String)>;

fn built() -> Result<Image> {
    elf::read(&built_rdmacm()?.join("librdmacm.so.1"))
}

/// The functions of the interface: those that the library has, or those that it has not yet.
fn table(there: bool) -> Result<Pairs> {
    let text = fs::read_to_string(package_dir().join("data/symbols-rdmacm.tsv"))?;
    let mut pairs = Pairs::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, node, is_there] = fields[..] else {
            return Err(format!("not a line of the table: {line}").into());
        };
        if there == (is_there == "yes") {
            pairs.insert((name.to_owned(), node.to_owned()));
        }
    }
    Ok(pairs)
}

fn pairs(image: &Image) -> Pairs {
    let defined = image.defined.iter();
    defined.map(|s| (s.name.clone(), s.node.clone())).collect()
}

#[test]
fn exports_are_those_of_the_table_and_no_other() -> Result<()> {
    let image = built()?;
    assert_eq!(pairs(&image), table(true)?);
    assert!(image.defined.iter().all(|symbol| symbol.default));
    assert_eq!(image.soname.as_deref(), Some("librdmacm.so.1"));
    Ok(())
}

#[test]
fn nodes_are_a_chain_in_the_map() -> Result<()> {
    let map = fs::read_to_string(workspace_dir().join("rdmacm/src/librdmacm.map"))?;
    let nodes = map.lines().filter_map(|line| line.strip_suffix(" {"));
    let nodes: Vec<&str> = nodes.collect();
    let wanted: Vec<String> = (0..nodes.len()).map(|n| format!("RDMACM_1.{n}")).collect();
    assert_eq!(nodes, wanted);
    assert_eq!(built()?.nodes, wanted);
    let parents = map.lines().filter_map(|line| line.strip_prefix('}'));
    let parents: Vec<&str> = parents.map(|p| p.trim_matches([' ', ';'])).collect();
    assert_eq!(parents[0], "");
    assert_eq!(parents[1..], wanted[..wanted.len() - 1]);
    Ok(())
}

/// Compares with the library that Debian installs: each of its symbols exists with its node, or the
/// table lists it as missing.
#[test]
fn the_installed_stock_library_has_no_other_symbols() -> Result<()> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/librdmacm.so.1");
    if !path.exists() {
        println!("not compared: {} is not installed", path.display());
        return Ok(());
    }
    let stock = elf::read(path)?;
    let mut known = pairs(&built()?);
    known.extend(table(false)?);
    let unknown: Vec<_> = pairs(&stock).difference(&known).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    Ok(())
}

/// A thread that is cancelled within Rust would be unwound through its frames. `wait.c` waits by
/// names that are in no list of the C library's functions; getaddrinfo(3) is called with
/// cancellation off.
#[test]
fn waiting_is_in_c() -> Result<()> {
    let image = built()?;
    let undefined: BTreeSet<&str> = image.undefined.iter().map(|s| s.name.as_str()).collect();
    for name in ["write", "read", "poll", "recvmsg", "sendmsg", "open64"] {
        assert!(!undefined.contains(name), "{name}");
    }
    assert!(undefined.contains("__write") && undefined.contains("__poll"));
    Ok(())
}

#[test]
fn only_libibverbs_is_needed_of_rdma() -> Result<()> {
    let image = built()?;
    let verbs = image.undefined.iter();
    let foreign: Vec<&str> = verbs
        .filter(|symbol| symbol.node.starts_with("IBVERBS_PRIVATE"))
        .map(|symbol| symbol.name.as_str())
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    Ok(())
}
