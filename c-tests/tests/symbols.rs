//! The built library offers exactly the names, nodes and SONAME it should.

use std::{collections::BTreeSet, fs, path::Path};

use c_tests::{
    Result,
    elf::{self, Image},
    library::built_library,
    tree::package_dir,
};

type Pairs = BTreeSet<(String, String)>;

fn built() -> Result<Image> {
    elf::read(&built_library()?.join("libibverbs.so.1"))
}

fn table(name: &str) -> Result<Pairs> {
    let text = fs::read_to_string(package_dir().join("data").join(name))?;
    let mut pairs = Pairs::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(name), Some(node)) = (fields.next(), fields.next()) else {
            return Err(format!("not a line of the table: {line}").into());
        };
        pairs.insert((name.to_owned(), node.to_owned()));
    }
    Ok(pairs)
}

fn pairs(image: &Image, default: bool) -> Pairs {
    let wanted = image.defined.iter().filter(|s| s.default == default);
    wanted.map(|s| (s.name.clone(), s.node.clone())).collect()
}

#[test]
fn exports_are_those_of_the_table_and_no_other() -> Result<()> {
    let image = built()?;
    assert_eq!(pairs(&image, true), table("symbols.tsv")?);
    assert_eq!(pairs(&image, false), Pairs::new());
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

/// The public nodes form a chain in the order of their numbers; the private
/// node names no parent and is named by none.
#[test]
fn public_nodes_are_a_chain_and_the_private_one_stands_alone() -> Result<()> {
    let nodes = built()?.nodes;
    let numbers = [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut previous: Vec<String> = Vec::new();
    for number in numbers {
        let name = format!("IBVERBS_1.{number}");
        assert_eq!(nodes.get(&name), Some(&previous), "parents of {name}");
        names.insert(name.clone());
        previous = vec![name];
    }
    let private = "IBVERBS_PRIVATE_34".to_owned();
    assert_eq!(nodes.get(&private), Some(&Vec::new()));
    names.insert(private);
    assert_eq!(nodes.keys().cloned().collect::<BTreeSet<_>>(), names);
    Ok(())
}

/// Against the library that Debian installs, where it is that version: the
/// same default symbols, nodes and SONAME; of its old versions (`@`) ours has
/// none, and they are those of the list.
#[test]
fn the_installed_stock_library_offers_the_same() -> Result<()> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    if !path.exists() {
        println!("not compared: {} is not installed", path.display());
        return Ok(());
    }
    let stock = elf::read(path)?;
    if !stock.nodes.contains_key("IBVERBS_PRIVATE_34") || stock.nodes.contains_key("IBVERBS_1.15") {
        println!("not compared: {} is of another generation", path.display());
        return Ok(());
    }
    let ours = built()?;
    assert_eq!(pairs(&ours, true), pairs(&stock, true));
    assert_eq!(ours.nodes, stock.nodes);
    assert_eq!(ours.soname, stock.soname);
    assert_eq!(pairs(&stock, false), table("compat-missing.tsv")?);
    Ok(())
}
