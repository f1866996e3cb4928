//! Huge pages, for tests that ask for some.
#![forbid(unsafe_code)]

use std::{fs, path::PathBuf};

/// Enough for rdma-core's tests, four runs of them at a time.
const PAGES: u64 = 128;

/// Has the kernel move memory together. Ordinary users may not write it.
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// The kernel's huge pages of the usual size, as many as it sets aside.
pub const FILE: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages that the kernel has set aside for as long as this is kept.
pub struct Lent {
    file: PathBuf,
    before: u64,
}

impl Lent {
    /// Asks for them; `None` where there are enough, where this process may not ask, and where
    /// memory is in too many pieces for all of them: a test that finds some takes them for enough.
    pub fn ask(file: &str) -> Option<Self> {
        let before = number(file)?;
        if before >= PAGES {
            return None;
        }
        let _ = fs::write(COMPACT, "1");
        fs::write(file, PAGES.to_string()).ok()?;
        let lent = Self {
            file: file.into(),
            before,
        };
        (number(file)? >= PAGES).then_some(lent)
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, self.before.to_string()) {
            println!("-- {}: {error}", self.file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_number_of_pages_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        let file = path.to_str().unwrap();
        let pages = || fs::read_to_string(file).unwrap();
        fs::write(file, "3\n").unwrap();
        let lent = Lent::ask(file).unwrap();
        assert_eq!(pages(), "128");
        drop(lent);
        assert_eq!(pages(), "3");
        fs::write(file, "200\n").unwrap();
        assert!(Lent::ask(file).is_none());
        assert!(Lent::ask("/nowhere/at all").is_none());
        assert_eq!(pages(), "200\n");
    }
}
