#![forbid(unsafe_code)]
//! Which release of rdma-core a provider was made for.
//!
//! Its private node tells, but for two nodes whose releases differ in layout. There it is found
//! out from what lies around the provider; [`decide()`] weighs that.

mod decide;
mod evidence;
mod imports;

pub use decide::{Decision, Wish, decide};

use crate::load::config;
use evidence::Evidence;
use kit::generation::Layout;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The variable that names the release of providers: `NAME=RELEASE`, several separated by `:` or
/// `;`, or `RELEASE` for all.
pub const VARIABLE: &str = "IBVERBS_PROVIDER_RELEASE";

/// What the variable says of the provider `name`.
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

/// The provider's name in its file's: `rxe` in `librxe-rdmav34.so` and in `librxe.so.1`.
pub fn name_in(file: &Path) -> Option<&str> {
    let file = file.file_name()?.to_str()?.strip_prefix("lib")?;
    let end = file.find("-rdmav").or_else(|| file.find(".so"))?;
    file.get(..end)
}

/// Decides on the layout of a provider of that node in that file. `wish` is what the user says.
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

/// The release in a file name such as `libmlx5.so.1.24.44.0`, where it stands before the last
/// number.
fn release_in(name: &OsStr) -> Option<u16> {
    // From the back: most of what lies in a folder of libraries is told by its last letter.
    let mut parts = name.as_bytes().rsplit(|byte| *byte == b'.');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u16>().ok();
    let (_, release, _, _) = (number()?, number()?, number()?, number()?);
    (parts.next() == Some(b"so")).then_some(release)
}

#[cfg(test)]
mod tests;
