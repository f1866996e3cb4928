//! Compares our packages' symbols files with those of the installed Debian packages.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::files::{PACKAGES, file_with, package_in};

/// The packages with a library.
const LIBRARIES: [(&str, &str); 2] = [PACKAGES[0], PACKAGES[3]];

pub fn compare(job: &Path) -> Result<()> {
    for (ours, stock) in LIBRARIES {
        compare_one(job, ours, stock).context(ours)?;
    }
    Ok(())
}

fn compare_one(job: &Path, ours: &str, stock: &str) -> Result<()> {
    let package = package_in(job, ours)?;
    let output = Command::new("dpkg-deb")
        .arg("--info")
        .arg(&package)
        .arg("symbols")
        .output()?;
    if !output.status.success() {
        bail!("{} has no symbols file", package.display());
    }
    let ours = String::from_utf8(output.stdout)?;
    let info = Path::new("/var/lib/dpkg/info");
    let stock = fs::read_to_string(file_with(info, &format!("{stock}:"), ".symbols")?)?;
    differences(&ours, &stock)
}

/// The nodes that Debian's library does not have. Programs that use them depend on our package.
const LATER_NODES: [&str; 12] = [
    "IBVERBS_1.15",
    "IBVERBS_1.16",
    "IBVERBS_1.17",
    "IBVERBS_1.18",
    "FERROVERBS_1.0",
    "FERROVERBS_1.1",
    "IBVERBS_PRIVATE_57",
    "IBVERBS_PRIVATE_59",
    "IBVERBS_PRIVATE_64",
    "IBVERBS_PRIVATE_65",
    "RDMACM_1.4",
    "RDMACM_1.5",
];

/// Symbols that later releases added to a node that exists in 44.
const LATER_NAMES: [&str; 2] = [
    "ibv_cmd_create_cq_ex2@IBVERBS_PRIVATE_34",
    "ibv_wr_opcode_str@IBVERBS_PRIVATE_34",
];

fn is_later(symbol: &str) -> bool {
    let node = symbol.split_once('@').map(|(_, node)| node);
    LATER_NAMES.contains(&symbol) || node.is_some_and(|node| LATER_NODES.contains(&node))
}

/// Everything of ours is in Debian's file with the same version, or later than its library; all of
/// Debian's is there, but for the lines about nodes.
fn differences(ours: &str, stock: &str) -> Result<()> {
    let first = |text: &str| text.lines().next().map(str::to_owned);
    if first(ours) != first(stock) {
        bail!("programs would depend on {:?}", first(ours));
    }
    let (ours, stock) = (symbols(ours)?, symbols(stock)?);
    for (symbol, version) in ours.difference(&stock) {
        if is_later(symbol) {
            // The second dependency of the file, which names our package.
            if !version.ends_with(" 1") {
                bail!("programs that use {symbol} would depend on Debian's package");
            }
            continue;
        }
        bail!("{symbol} {version} is not in Debian's symbols file");
    }
    for (symbol, _) in stock.difference(&ours) {
        let (name, node) = symbol.split_once('@').unwrap_or_default();
        if name != node {
            bail!("{symbol} is missing");
        }
    }
    Ok(())
}

/// Symbols with their first versions.
fn symbols(text: &str) -> Result<BTreeSet<(String, String)>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(' '));
    lines
        .map(|line| {
            let (symbol, version) = line.split_once(' ').context("a symbol has a version")?;
            Ok((symbol.to_owned(), version.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "\
libibverbs.so.1 libibverbs1 #MINVER#
* Build-Depends-Package: libibverbs-dev
 IBVERBS_1.1@IBVERBS_1.1 1.1.6
 ibv_a@IBVERBS_1.0 1.1.6
 ibv_a@IBVERBS_1.1 1.1.6
 ibv_b@IBVERBS_1.9 30
 ibv_register_driver@IBVERBS_1.1 1.1.6
";

    #[test]
    fn lines_about_nodes_are_not_symbols() {
        let ours = STOCK.replace(" IBVERBS_1.1@IBVERBS_1.1 1.1.6\n", "");
        assert!(differences(&ours, STOCK).is_ok());
        assert!(differences(STOCK, STOCK).is_ok());
    }

    /// The names of the version script, each with its node: `name@NODE`.
    fn exported(map: &str) -> BTreeSet<String> {
        let mut node = "";
        let mut names = BTreeSet::new();
        for line in map.lines() {
            if let Some(begun) = line.strip_suffix(" {") {
                node = begun;
            }
            // "*" is everything else, which stays hidden.
            if let Some(name) = line
                .trim()
                .strip_suffix(';')
                .filter(|name| line.starts_with('\t') && !name.contains('*'))
            {
                names.insert(format!("{name}@{node}"));
            }
        }
        names
    }

    /// The check of dpkg-gensymbols, without minutes of building.
    #[test]
    fn the_symbols_file_follows_the_version_script() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let maps = ["src/libibverbs.map", "rdmacm/src/librdmacm.map"];
        let known = ["ibv_reg_mr@IBVERBS_1.1", "rdma_listen@RDMACM_1.0"];
        for ((map, known), (package, _)) in maps.iter().zip(known).zip(LIBRARIES) {
            let exported = exported(&read(map));
            assert!(exported.contains(known), "{exported:?}");
            let listed = symbols(&read(&format!("debian/{package}.symbols"))).unwrap();
            let listed: BTreeSet<_> = listed.into_iter().map(|(symbol, _)| symbol).collect();
            let only = |a: &BTreeSet<String>, b| a.difference(b).cloned().collect::<Vec<_>>();
            assert_eq!(only(&exported, &listed), Vec::<String>::new(), "not listed");
            let more = only(&listed, &exported);
            assert_eq!(more, Vec::<String>::new(), "not exported");
        }
    }

    #[test]
    fn later_symbols_are_of_our_package() {
        let with = |line: &str| format!("{STOCK}{line}");
        assert!(differences(&with(" ibv_c@IBVERBS_1.15 0.1.0 1\n"), STOCK).is_ok());
        assert!(differences(&with(" ibv_c@IBVERBS_1.15 0.1.0\n"), STOCK).is_err());
        assert!(differences(&with(" ibv_c@IBVERBS_1.14 0.1.0 1\n"), STOCK).is_err());
    }

    #[test]
    fn other_differences_are_found() {
        for (from, to) in [
            (" 30", " 31"),
            (" ibv_b@IBVERBS_1.9 30\n", ""),
            (" ibv_a@IBVERBS_1.0 1.1.6\n", ""),
            ("ibv_b@", "ibv_c@"),
            (" libibverbs1 ", " libferroverbs1 "),
        ] {
            assert!(
                differences(&STOCK.replace(from, to), STOCK).is_err(),
                "{to}"
            );
        }
    }
}
