//! Which interfaces are to have a device: `UROCE_DEVICES`, else `/etc/libibverbs.d/uroce.conf`.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

/// What the program itself asked for.
static ASKED: OnceLock<Wanted> = OnceLock::new();

/// Asks for devices from within the program that this provider is a part of: names separated by
/// commas, or `all`. Variable and file are then not read. Returns whether this call decided: a
/// process asks once.
pub fn ask_for(names: &str) -> bool {
    ASKED.set(from_variable(names)).is_ok()
}

/// What the program asked for by [`ask_for`].
#[must_use]
pub fn asked() -> Option<&'static Wanted> {
    ASKED.get()
}

/// The variable: names of interfaces, separated by commas, or `all`. Set but empty it means none,
/// whatever the file contains.
pub const VARIABLE: &str = "UROCE_DEVICES";

/// The file: lines `device NAME...`, names separated by blanks or commas, or `all`; `#` begins a
/// comment.
pub const FILE: &str = "/etc/libibverbs.d/uroce.conf";

/// Which interfaces are to have a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// All that there are.
    pub all: bool,
    /// Those of these names, each once.
    pub names: Vec<String>,
}

impl Wanted {
    fn add(&mut self, name: &str) {
        if name == "all" {
            self.all = true;
        } else if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Whether an interface is wanted.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.all || self.names.iter().any(|wanted| wanted == name)
    }

    /// Whether none is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}

/// The wanted interfaces, and the invalid words, each with advice. `variable` is the value of
/// [`VARIABLE`]; a caller that must not trust its environment passes none.
#[must_use]
pub fn read(variable: Option<&OsStr>, file: &Path) -> (Wanted, Vec<String>) {
    if let Some(value) = variable {
        return (from_variable(&value.to_string_lossy()), Vec::new());
    }
    match fs::read_to_string(file) {
        Ok(text) => from_file(&text, file),
        Err(e) if e.kind() == ErrorKind::NotFound => <_>::default(),
        Err(e) => {
            let file = file.display();
            let complaint = format!("{file} cannot be read ({e}): it is passed over");
            (Wanted::default(), vec![complaint])
        }
    }
}

fn from_variable(value: &str) -> Wanted {
    let mut wanted = Wanted::default();
    names(value).for_each(|name| wanted.add(name));
    wanted
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    let separator = |c: char| c == ',' || c.is_whitespace();
    text.split(separator).filter(|name| !name.is_empty())
}

fn from_file(text: &str, file: &Path) -> (Wanted, Vec<String>) {
    let (mut wanted, mut complaints) = (Wanted::default(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line
            .split_once('#')
            .map_or(line, |(before, _)| before)
            .trim();
        if line.is_empty() {
            continue;
        }
        match line.split_once([' ', '\t']) {
            Some(("device", rest)) => names(rest).for_each(|name| wanted.add(name)),
            _ => complaints.push(format!(
                "{}, line {number}: not understood, write 'device' and names of interfaces",
                file.display()
            )),
        }
    }
    (wanted, complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(all: bool, names: &[&str]) -> Wanted {
        Wanted {
            all,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn the_variable() {
        for (value, expected) in [
            ("", wanted(false, &[])),
            ("lo", wanted(false, &["lo"])),
            (" lo, eth0,,lo ,", wanted(false, &["lo", "eth0"])),
            ("all", wanted(true, &[])),
            ("lo,all", wanted(true, &["lo"])),
            ("All", wanted(false, &["All"])),
        ] {
            assert_eq!(from_variable(value), expected, "{value:?}");
        }
        assert!(wanted(true, &[]).wants("x"));
        assert!(!wanted(false, &["lo"]).wants("l"));
        assert!(wanted(false, &[]).is_none());
    }

    #[test]
    fn the_file() {
        let text = "# devices\n\ndevice lo eth0 # two\n\tdevice\teth1,lo\ndevices eth2\ndevice\n";
        let (found, complaints) = from_file(text, Path::new("uroce.conf"));
        assert_eq!(found, wanted(false, &["lo", "eth0", "eth1"]));
        assert_eq!(complaints.len(), 2);
        assert!(
            complaints[0].starts_with("uroce.conf, line 5: "),
            "{complaints:?}"
        );
        assert!(
            complaints[1].starts_with("uroce.conf, line 6: "),
            "{complaints:?}"
        );
    }

    #[test]
    fn the_variable_comes_before_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("uroce.conf");
        assert_eq!(read(None, &file), <_>::default());
        fs::write(&file, "device eth0\n").expect("written");
        assert_eq!(read(None, &file).0, wanted(false, &["eth0"]));
        assert_eq!(
            read(Some(OsStr::new("lo")), &file).0,
            wanted(false, &["lo"])
        );
        assert!(read(Some(OsStr::new("")), &file).0.is_none());
        let (none, complaints) = read(None, folder.path());
        assert_eq!((none.is_none(), complaints.len()), (true, 1));
    }
}
