//! Proof of which libibverbs.so.1 a program ran over: what its dynamic linker says it loaded.
//!
//! `LD_DEBUG=libs` makes the linker of each process write a file with a line for every library
//! it initialises, the ones opened later included.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::vm::{Library, put_library};

const NAME: &str = "/libibverbs.so.1";
const INIT: &str = "calling init: ";

/// Watches the processes of one test.
pub struct Witness<'a> {
    library: &'a Library,
    dir: PathBuf,
}

impl<'a> Witness<'a> {
    pub fn new(library: &'a Library, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        Ok(Self {
            library,
            dir: dir.to_owned(),
        })
    }

    /// Puts the library under the command, and has the linker tell.
    pub fn attend(&self, command: &mut Command) {
        put_library(command, self.library);
        command
            .env("LD_DEBUG", "libs")
            .env("LD_DEBUG_OUTPUT", self.dir.join("linker"));
    }

    /// Says what is wrong, if fewer than `least` processes loaded the library, or any loaded
    /// another one. What was written is removed.
    pub fn verdict(&self, least: usize) -> Result<Option<String>> {
        let mut loaded = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let text = fs::read(entry?.path())?;
            loaded.extend(initialised(&String::from_utf8_lossy(&text)));
        }
        fs::remove_dir_all(&self.dir)?;
        Ok(judge(self.library, &loaded, least))
    }
}

/// The libibverbs.so.1 that a process initialised, by what its linker wrote.
pub fn initialised(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.split_once(INIT));
    let mut ours = paths
        .map(|(_, path)| path.trim())
        .filter(|path| path.ends_with(NAME));
    ours.next().map(str::to_owned)
}

fn judge(library: &Library, loaded: &[String], least: usize) -> Option<String> {
    let right = |path: &str| match library {
        Library::Stock => path.starts_with("/lib/") || path.starts_with("/usr/lib/"),
        Library::Ours(dir) => Path::new(path) == dir.join("libibverbs.so.1"),
    };
    if let Some(wrong) = loaded.iter().find(|path| !right(path)) {
        return Some(format!("loaded {wrong}"));
    }
    let short = loaded.len() < least;
    short.then(|| {
        format!(
            "{} of {least} processes loaded a libibverbs.so.1",
            loaded.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKER: &str = "\
       812:	find library=libibverbs.so.1 [0]; searching
       812:	  trying file=/x/lib/libibverbs.so.1
       812:	calling init: /lib/x86_64-linux-gnu/libc.so.6
       812:	calling init: /x/lib/libibverbs.so.1
       812:	calling fini: /x/lib/libibverbs.so.1 [0]
";

    #[test]
    fn the_initialised_library_is_found() {
        assert_eq!(
            initialised(LINKER).as_deref(),
            Some("/x/lib/libibverbs.so.1")
        );
        assert_eq!(initialised("calling init: /lib/libc.so.6"), None);
    }

    #[test]
    fn another_library_is_not_ours() {
        let ours = Library::Ours("/x/lib".into());
        let stock = "/lib/x86_64-linux-gnu/libibverbs.so.1".to_owned();
        let built = "/x/lib/libibverbs.so.1".to_owned();
        assert_eq!(judge(&ours, &[built.clone(), built.clone()], 2), None);
        assert!(judge(&ours, &[built.clone(), stock.clone()], 1).is_some());
        assert!(judge(&ours, std::slice::from_ref(&built), 2).is_some());
        assert!(judge(&ours, &[], 1).is_some());
        assert_eq!(judge(&Library::Stock, &[stock], 1), None);
        assert!(judge(&Library::Stock, &[built], 1).is_some());
    }
}
