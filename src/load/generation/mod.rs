#![forbid(unsafe_code)]
//! Finds the release of rdma-core that a provider in C was compiled for, and with it the layout of
//! the structures that it shares with the library ([`kit::generation`]).
//!
//! A private node with one layout is sufficient. For other nodes the first of these sources
//! decides:
//! 1. `IBVERBS_PROVIDER_RELEASE`;
//! 2. `release=N` in the provider's line in /etc/libibverbs.d;
//! 3. the release in the name of the provider's file, or of a library of its name beside it
//!    (`libmlx5.so.1.24.44.0`);
//! 4. its Debian package: a library with a release in its name in that package, or the package's
//!    version;
//! 5. the release in the names of other libraries of rdma-core beside it;
//! 6. 44.
//!
//! The result has to agree with the symbols that the provider imports. The provider is not
//! registered if sources of one kind contradict each other, the node or the imports, or if nothing
//! decides for node 59. The loader then tries the next file of its name. The log reports each
//! decision and its source at level 3.
//!
//! `Evidence` gathers the sources, [`decide()`] weighs them. Tests: `tests` here, and
//! `c-tests/tests/generations.rs`, which builds a provider for each layout from independent tables
//! (`data/generation-*.tsv`) and loads all twelve into one process.

mod decide;
mod evidence;
mod imports;
mod names;

pub use decide::{Decision, Wish, decide};
pub use names::name_in;

use crate::load::config;
use evidence::Evidence;
use kit::generation::Layout;
use std::ffi::OsStr;
use std::path::Path;

/// The variable that names the release of providers: `NAME=RELEASE`, several separated by `:` or
/// `;`, or `RELEASE` for all.
pub const VARIABLE: &str = "IBVERBS_PROVIDER_RELEASE";

/// The release that the variable contains for the provider `name`.
pub fn from_variable(value: &OsStr, name: &str) -> Option<u16> {
    let mut for_all = None;
    for word in config::from_variable(value) {
        let word = word.to_string_lossy();
        match word.split_once('=') {
            Some((of, release)) if of == name => return release.parse().ok(),
            Some(_) => {}
            None => for_all = word.parse().ok(),
        }
    }
    for_all
}

/// Decides on the layout of a provider of that node in that file. `wish` is the user's choice.
///
/// # Errors
/// The reason why it is refused.
pub fn of(node: u16, file: Option<&Path>, wish: Option<Wish>) -> Result<Decision, String> {
    let mut layouts = Layout::of_node(node);
    let (first, second) = (layouts.next(), layouts.next());
    if let (Some(layout), None) = (first, second) {
        return Ok(Decision {
            layout,
            from: format!("IBVERBS_PRIVATE_{node}"),
        });
    }
    let evidence = file.map(|file| Evidence::gather(node, file));
    decide(node, wish, &evidence.unwrap_or_default())
}

#[cfg(test)]
mod tests;
