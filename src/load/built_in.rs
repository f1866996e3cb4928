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
    [rxe::driver(), siw::driver()].into_iter().flatten()
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
        let names = |drivers: Vec<Driver>| -> Vec<_> {
            let names = drivers.iter().map(|driver| driver.name().to_string_lossy());
            names.map(|name| name.into_owned()).collect()
        };
        let asked: [(Option<&str>, &[&str], &[&str]); 8] = [
            (None, &["rxe", "siw"], &[]),
            (Some(""), &["rxe", "siw"], &[]),
            (Some("mlx5"), &["rxe", "siw"], &[]),
            (Some("rxe0:mlx5"), &["rxe", "siw"], &[]),
            (Some("rxe"), &["siw"], &["rxe"]),
            (Some("mlx5;siw"), &["rxe"], &["siw"]),
            (Some("siw:rxe"), &[], &["rxe", "siw"]),
            (Some("all"), &[], &["rxe", "siw"]),
        ];
        for (value, before, after) in asked {
            let value = value.map(OsStr::new);
            assert_eq!(names(first(value)), before, "{value:?}");
            assert_eq!(names(last(value)), after, "{value:?}");
        }
    }
}
