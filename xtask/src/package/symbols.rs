//! Our package's symbols file, held against the one of the Debian package that is installed.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{PACKAGES, file_with, package_in};

/// The only symbol besides those of IBVERBS_1.0 that Debian's library has and ours has not.
const OLD_DRIVERS: &str = "ibv_register_driver@IBVERBS_1.1";

pub fn compare(job: &Path) -> Result<()> {
    let (ours, stock) = PACKAGES[0];
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

/// Everything of ours is in Debian's file with the same version; what ours lacks is known.
fn differences(ours: &str, stock: &str) -> Result<()> {
    let first = |text: &str| text.lines().next().map(str::to_owned);
    if first(ours) != first(stock) {
        bail!("programs would depend on {:?}", first(ours));
    }
    let (ours, stock) = (symbols(ours)?, symbols(stock)?);
    if let Some((symbol, version)) = ours.difference(&stock).next() {
        bail!("{symbol} {version} is not in Debian's symbols file");
    }
    for (symbol, _) in stock.difference(&ours) {
        let (name, node) = symbol.split_once('@').unwrap_or_default();
        let known = name == node || node == "IBVERBS_1.0" || symbol == OLD_DRIVERS;
        if !known {
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
    fn known_gaps_are_none() {
        let ours = "libibverbs.so.1 libibverbs1 #MINVER#\n ibv_a@IBVERBS_1.1 1.1.6\n ibv_b@IBVERBS_1.9 30\n";
        assert!(differences(ours, STOCK).is_ok());
        assert!(differences(STOCK, STOCK).is_ok());
    }

    #[test]
    fn other_differences_are_found() {
        for (from, to) in [
            (" 30", " 31"),
            (" ibv_b@IBVERBS_1.9 30\n", ""),
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
