#![forbid(unsafe_code)]
//! Providers that are part of the library.
//!
//! They come before those that are loaded, for which nothing is then loaded at all. Where the
//! user prefers a loaded one, they come last.

use super::config::from_variable;
use kit::abi::handle::Driver;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The variable that names built-in providers which are to come last: separated by `:` or `;`, or
/// `all`.
pub const VARIABLE: &str = "IBVERBS_PREFER_PLUGIN";

/// All of them.
fn all() -> impl Iterator<Item = Driver> {
    rxe::driver().into_iter()
}

/// Those that come first. `value` is that of [`VARIABLE`].
pub fn first(value: Option<&OsStr>) -> Vec<Driver> {
    let names = names(value);
    all().filter(|driver| !is_last(*driver, &names)).collect()
}

/// Those that come last.
pub fn last(value: Option<&OsStr>) -> Vec<Driver> {
    let names = names(value);
    all().filter(|driver| is_last(*driver, &names)).collect()
}

fn names(value: Option<&OsStr>) -> Vec<OsString> {
    value.map(from_variable).unwrap_or_default()
}

fn is_last(driver: Driver, names: &[OsString]) -> bool {
    let name = driver.name().to_bytes();
    names
        .iter()
        .any(|asked| asked == "all" || asked.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_comes_first_unless_another_is_preferred() {
        for value in [None, Some(""), Some("mlx5"), Some("rxe0:mlx5")] {
            let value = value.map(OsStr::new);
            assert_eq!(first(value).len(), 1, "{value:?}");
            assert!(last(value).is_empty(), "{value:?}");
        }
        for value in ["rxe", "all", "siw:rxe", "mlx5;rxe"] {
            let value = Some(OsStr::new(value));
            assert!(first(value).is_empty(), "{value:?}");
            assert_eq!(last(value).len(), 1, "{value:?}");
        }
    }
}
