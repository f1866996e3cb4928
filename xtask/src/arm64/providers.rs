//! Debian's providers for arm64.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use super::{
    inside::Inside,
    step::{STAGE, must},
};
use crate::dirs::Dirs;

/// Their directory in the chroot.
const FOLDER: &str = "usr/lib/aarch64-linux-gnu/libibverbs";
/// Fewer are not all.
const AT_LEAST: usize = 17;
/// The library's word for one that it does not use.
const REFUSED: &str = "couldn't load driver";

/// Has the library load all of them into one `ibv_devices`, with every symbol that they import, and
/// register them.
///
/// # Errors
/// One is missing, or is not used.
pub fn load(dirs: &Dirs, inside: &Inside, library: &Path) -> Result<()> {
    println!("-- {STAGE}: Debian's providers");
    let mut names = Vec::new();
    for entry in fs::read_dir(inside.root().join(FOLDER)).context(FOLDER)? {
        let file = entry?.file_name();
        if let Some(name) = file.to_str().and_then(driver) {
            names.push(name.to_owned());
        }
    }
    if names.len() < AT_LEAST {
        bail!("only {} in {FOLDER}", names.len());
    }
    let mut load = inside.script("providers");
    let text = must(dirs, "providers", load.arg(library).args(&names))?;
    if text.contains(REFUSED) {
        bail!("ibv_devices: {text}");
    }
    for name in &names {
        let loaded = |line: &str| {
            line.contains("calling init: ") && line.contains(&format!("/lib{name}-rdmav"))
        };
        if !text.lines().any(loaded) {
            bail!("{name} was not loaded");
        }
    }
    println!("-- {STAGE}: {} providers registered", names.len());
    Ok(())
}

/// The name of the driver in that of a provider's file.
fn driver(file: &str) -> Option<&str> {
    let (name, _) = file.strip_prefix("lib")?.split_once("-rdmav")?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_named_by_its_file() {
        assert_eq!(driver("libmlx5-rdmav65.so"), Some("mlx5"));
        assert_eq!(driver("libmlx5.so.1"), None);
    }
}
