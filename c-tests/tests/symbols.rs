//! The built library offers exactly the names, nodes and SONAME it should.

use std::{collections::BTreeSet, fs, path::Path};

use c_tests::{
    Result,
    elf::{self, Image},
    library::built_library,
    tree::{package_dir, workspace_dir},
};

type Pairs = BTreeSet<(String, String)>;

fn built() -> Result<Image> {
    elf::read(&built_library()?.join("libibverbs.so.1"))
}

/// Those of the table that are the default of their name, or the others.
fn table(default: bool) -> Result<Pairs> {
    let text = fs::read_to_string(package_dir().join("data/symbols.tsv"))?;
    let mut pairs = Pairs::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(name), Some(node), Some(is_default)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("not a line of the table: {line}").into());
        };
        if default == (is_default == "yes") {
            pairs.insert((name.to_owned(), node.to_owned()));
        }
    }
    Ok(pairs)
}

fn has_node(image: &Image, name: &str) -> bool {
    image.nodes.iter().any(|node| node == name)
}

fn pairs(image: &Image, default: bool) -> Pairs {
    let wanted = image.defined.iter().filter(|s| s.default == default);
    wanted.map(|s| (s.name.clone(), s.node.clone())).collect()
}

#[test]
fn exports_are_those_of_the_table_and_no_other() -> Result<()> {
    let image = built()?;
    assert_eq!(pairs(&image, true), table(true)?);
    assert_eq!(pairs(&image, false), table(false)?);
    Ok(())
}

#[test]
fn no_name_has_two_defaults() -> Result<()> {
    let image = built()?;
    let mut seen = BTreeSet::new();
    for symbol in image.defined.iter().filter(|s| s.default) {
        assert!(seen.insert(&symbol.name), "{} twice", symbol.name);
    }
    Ok(())
}

#[test]
fn soname_is_that_of_the_stock_library() -> Result<()> {
    assert_eq!(built()?.soname.as_deref(), Some("libibverbs.so.1"));
    Ok(())
}

const STOCK_NODES: [u32; 12] = [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// Those of rdma-core 65 besides.
const LATER_NODES: [u32; 4] = [15, 16, 17, 18];
/// What no other library has; it stands alone.
const OWN_NODE: &str = "FERROVERBS_1.0";

fn public_nodes() -> impl Iterator<Item = String> {
    let numbers = STOCK_NODES.into_iter().chain(LATER_NODES);
    numbers.map(|n| format!("IBVERBS_1.{n}"))
}

#[test]
fn nodes_are_those_of_the_interface_in_order() -> Result<()> {
    let mut wanted: Vec<String> = public_nodes().collect();
    wanted.push("IBVERBS_PRIVATE_34".to_owned());
    wanted.push(OWN_NODE.to_owned());
    assert_eq!(built()?.nodes, wanted);
    Ok(())
}

/// Each public node names the one before it as its parent; the private node
/// names none. The map says so; lld does not carry it into the file.
#[test]
fn public_nodes_are_a_chain_in_the_map() -> Result<()> {
    let map = fs::read_to_string(workspace_dir().join("src/libibverbs.map"))?;
    let mut found = Vec::new();
    let mut node = String::new();
    for line in map.lines() {
        if let Some(name) = line.strip_suffix(" {") {
            node = name.to_owned();
        }
        if let Some(parent) = line.strip_prefix('}') {
            found.push((node.clone(), parent.trim_matches([' ', ';']).to_owned()));
        }
    }
    let mut wanted = Vec::new();
    let mut parent = String::new();
    for name in public_nodes() {
        wanted.push((name.clone(), parent));
        parent = name;
    }
    wanted.push(("IBVERBS_PRIVATE_34".to_owned(), String::new()));
    wanted.push((OWN_NODE.to_owned(), String::new()));
    assert_eq!(found, wanted);
    Ok(())
}

/// Against the library that Debian installs, where it is that version: all of
/// its symbols, default and old, its nodes and SONAME, and besides them the
/// symbols of later nodes and of our own alone.
#[test]
fn all_that_the_installed_stock_library_offers_is_there() -> Result<()> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    if !path.exists() {
        println!("not compared: {} is not installed", path.display());
        return Ok(());
    }
    let stock = elf::read(path)?;
    if !has_node(&stock, "IBVERBS_PRIVATE_34") || has_node(&stock, "IBVERBS_1.15") {
        println!("not compared: {} is of another generation", path.display());
        return Ok(());
    }
    let ours = built()?;
    let later = |node: &String| {
        node == OWN_NODE
            || LATER_NODES
                .iter()
                .any(|n| *node == format!("IBVERBS_1.{n}"))
    };
    let of_stock = |(_, node): &(String, String)| !later(node);
    let both: Pairs = pairs(&ours, true).into_iter().filter(of_stock).collect();
    assert_eq!(both, pairs(&stock, true));
    let nodes: Vec<&String> = ours.nodes.iter().filter(|node| !later(node)).collect();
    assert_eq!(nodes, stock.nodes.iter().collect::<Vec<_>>());
    assert_eq!(ours.soname, stock.soname);
    assert_eq!(pairs(&ours, false), pairs(&stock, false));
    Ok(())
}
