//! Proof of which libibverbs.so.1 and librdmacm.so.1 a program ran over, from its dynamic linker's
//! messages about loaded files.
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
const RDMACM: &str = "/librdmacm.so.1";
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

    /// Puts the library under the command, and makes the linker report the libraries it uses.
    pub fn attend(&self, command: &mut Command) {
        put_library(command, self.library);
        command
            .env("LD_DEBUG", "libs")
            .env("LD_DEBUG_OUTPUT", self.dir.join("linker"));
    }

    /// Reports an error if fewer than `least` processes loaded the library, or any loaded another
    /// one. The messages are removed.
    pub fn verdict(&self, least: usize) -> Result<Option<String>> {
        let mut loaded = Vec::new();
        let mut connecting = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let text = fs::read(entry?.path())?;
            let text = String::from_utf8_lossy(&text);
            loaded.extend(initialised(&text));
            connecting.extend(initialised_as(&text, RDMACM));
        }
        fs::remove_dir_all(&self.dir)?;
        let Self { library, .. } = self;
        let wrong = judge(library, &loaded, least);
        Ok(wrong.or_else(|| judge_rdmacm(library, &connecting)))
    }
}

/// The libibverbs.so.1 that a process initialised, from its linker's messages.
pub fn initialised(text: &str) -> Option<String> {
    initialised_as(text, NAME)
}

fn initialised_as(text: &str, name: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.split_once(INIT));
    let mut ours = paths
        .map(|(_, path)| path.trim())
        .filter(|path| path.ends_with(name));
    ours.next().map(str::to_owned)
}

fn is_systems(path: &str) -> bool {
    path.starts_with("/lib/") || path.starts_with("/usr/lib/")
}

/// The same of librdmacm.so.1, which not each program loads; but those do that run over ours.
fn judge_rdmacm(library: &Library, loaded: &[String]) -> Option<String> {
    let right = |path: &str| match library {
        Library::Stock | Library::Ours(_) => is_systems(path),
        Library::WithRdmacm(dir) => Path::new(path) == dir.join("librdmacm.so.1"),
    };
    if let Some(wrong) = loaded.iter().find(|path| !right(path)) {
        return Some(format!("loaded {wrong}"));
    }
    let wanted = matches!(library, Library::WithRdmacm(_));
    (wanted && loaded.is_empty()).then(|| "no process loaded a librdmacm.so.1".to_owned())
}

fn judge(library: &Library, loaded: &[String], least: usize) -> Option<String> {
    let right = |path: &str| match library {
        Library::Stock => is_systems(path),
        Library::Ours(dir) | Library::WithRdmacm(dir) => {
            Path::new(path) == dir.join("libibverbs.so.1")
        }
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

    #[test]
    fn librdmacm_is_the_one_that_was_put_there() {
        let both = Library::WithRdmacm("/x/lib".into());
        let stock = "/lib/x86_64-linux-gnu/librdmacm.so.1".to_owned();
        let built = "/x/lib/librdmacm.so.1".to_owned();
        assert_eq!(judge_rdmacm(&both, std::slice::from_ref(&built)), None);
        assert!(judge_rdmacm(&both, &[]).is_some());
        assert!(judge_rdmacm(&both, &[built.clone(), stock.clone()]).is_some());
        let ours = Library::Ours("/x/lib".into());
        assert_eq!(judge_rdmacm(&ours, &[]), None);
        assert_eq!(judge_rdmacm(&ours, &[stock]), None);
        assert!(judge_rdmacm(&ours, &[built]).is_some());
    }
}
