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

/// Symbols of private nodes besides the defaults.
fn private_table() -> Result<Pairs> {
    let text = fs::read_to_string(package_dir().join("data/symbols-private.tsv"))?;
    let lines = text.lines().skip(1);
    let pairs = lines.map(|line| {
        let pair = line.split_once('\t');
        pair.ok_or(format!("not a line of the table: {line}"))
    });
    pairs
        .map(|pair| pair.map(|(name, node)| (name.to_owned(), node.to_owned())))
        .collect::<std::result::Result<_, _>>()
        .map_err(Into::into)
}

/// The pairs that are not the default of their name: those of private nodes, and public ones.
fn old(image: &Image) -> (Pairs, Pairs) {
    pairs(image, false)
        .into_iter()
        .partition(|(_, node)| node.starts_with("IBVERBS_PRIVATE_"))
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
    let (private, public) = old(&image);
    assert_eq!(public, table(false)?);
    assert_eq!(private, private_table()?);
    Ok(())
}

/// At each private node, every name that a release from 39 on has there. By signature there are
/// 81, 73, 83, 82 and 92: five names at 34, and five at 59, changed theirs without a new node.
#[test]
fn private_nodes_have_the_names_of_all_their_releases() -> Result<()> {
    let image = built()?;
    let count = |node: &str| image.defined.iter().filter(|s| s.node == node).count();
    let found = PRIVATE_NODES.map(|n| count(&format!("IBVERBS_PRIVATE_{n}")));
    assert_eq!(found, [73, 73, 78, 82, 92]);
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

/// The functions of the C library in which a thread can be cancelled (pthreads(7)), as far as a
/// library of this kind could come to call them.
const CANCELLATION_POINTS: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "close",
    "connect",
    "copy_file_range",
    "creat",
    "epoll_pwait",
    "epoll_wait",
    "fallocate",
    "fdatasync",
    "fsync",
    "getrandom",
    "msgrcv",
    "msync",
    "nanosleep",
    "open",
    "open64",
    "openat",
    "openat64",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "preadv",
    "preadv64",
    "pselect",
    "pthread_clockjoin_np",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "select",
    "sem_wait",
    "send",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sigwait",
    "sleep",
    "splice",
    "system",
    "tee",
    "usleep",
    "vmsplice",
    "wait",
    "waitid",
    "waitpid",
    "write",
    "writev",
];

/// A thread that is cancelled within Rust would be unwound through its frames, and leave locks
/// taken. `src/export/cancel.c` waits for acknowledgements, and reads by a name that is not in this
/// list.
#[test]
fn rust_calls_no_cancellation_point() -> Result<()> {
    let image = built()?;
    let undefined: BTreeSet<&str> = image.undefined.iter().map(|s| s.name.as_str()).collect();
    let called: Vec<&str> = CANCELLATION_POINTS
        .iter()
        .copied()
        .filter(|name| undefined.contains(name))
        .collect();
    assert_eq!(called, ["pthread_cond_wait"]);
    assert!(undefined.contains("__read"), "{undefined:?}");
    Ok(())
}

#[test]
fn soname_is_that_of_the_stock_library() -> Result<()> {
    assert_eq!(built()?.soname.as_deref(), Some("libibverbs.so.1"));
    Ok(())
}

const PRIVATE_NODES: [u32; 5] = [34, 57, 59, 64, 65];
/// The stock library's own.
const STOCK_PRIVATE: &str = "IBVERBS_PRIVATE_34";
const STOCK_NODES: [u32; 12] = [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// Those of rdma-core 65 besides.
const LATER_NODES: [u32; 4] = [15, 16, 17, 18];
/// Nodes that only this library has: a separate chain.
const OWN_NODES: [&str; 2] = ["FERROVERBS_1.0", "FERROVERBS_1.1"];

fn private_nodes() -> impl Iterator<Item = String> {
    PRIVATE_NODES.iter().map(|n| format!("IBVERBS_PRIVATE_{n}"))
}

fn public_nodes() -> impl Iterator<Item = String> {
    let numbers = STOCK_NODES.into_iter().chain(LATER_NODES);
    numbers.map(|n| format!("IBVERBS_1.{n}"))
}

#[test]
fn nodes_are_those_of_the_interface_in_order() -> Result<()> {
    let mut wanted: Vec<String> = public_nodes().collect();
    wanted.extend(private_nodes());
    wanted.extend(OWN_NODES.map(str::to_owned));
    assert_eq!(built()?.nodes, wanted);
    Ok(())
}

/// Each public node names the one before it as its parent; private nodes name none. The map
/// contains this; lld does not write it to the file.
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
    wanted.extend(private_nodes().map(|node| (node, String::new())));
    let mut parent = String::new();
    for node in OWN_NODES {
        let before = std::mem::replace(&mut parent, node.to_owned());
        wanted.push((node.to_owned(), before));
    }
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
    if !has_node(&stock, STOCK_PRIVATE) || has_node(&stock, "IBVERBS_1.15") {
        println!("not compared: {} is of another generation", path.display());
        return Ok(());
    }
    let ours = built()?;
    let later = |node: &String| {
        let public = LATER_NODES.map(|n| format!("IBVERBS_1.{n}"));
        OWN_NODES.contains(&node.as_str())
            || public.contains(node)
            || (node != STOCK_PRIVATE && private_nodes().any(|n| n == *node))
    };
    let of_stock = |(_, node): &(String, String)| !later(node);
    let both: Pairs = pairs(&ours, true).into_iter().filter(of_stock).collect();
    assert_eq!(both, pairs(&stock, true));
    let nodes: Vec<&String> = ours.nodes.iter().filter(|node| !later(node)).collect();
    assert_eq!(nodes, stock.nodes.iter().collect::<Vec<_>>());
    assert_eq!(ours.soname, stock.soname);
    assert_eq!(old(&ours).1, pairs(&stock, false));
    Ok(())
}
