//! The files of one device.

use super::room::{Room, remove};
use kit::errno::Result;
use kit::sync::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};
use rustix::io::{Errno as Os, write};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The entry at a path below the device's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file: one line, without its end.
    Line(String),
    /// A symbolic link.
    Link(String),
}

/// Everything that is shown, by path.
pub type Contents = BTreeMap<String, Entry>;

/// The most bytes that C has room for (`IBV_SYSFS_PATH_MAX`), with the NUL.
const PATH_MAX: usize = 256;
/// A file is written under this name, and renamed.
const NEW: &str = ".new";

/// The files of a device, which go when it is dropped.
pub struct Tree {
    room: Arc<Room>,
    name: String,
    path: String,
    shown: Mutex<Contents>,
}

impl Tree {
    /// Shows a device.
    ///
    /// # Errors
    /// ENAMETOOLONG for a path that C has no room for; EEXIST if there is a device of that name;
    /// why this process has no place for files.
    pub fn new(name: &str, contents: Contents) -> Result<Self> {
        Self::within(Room::get()?, name, contents)
    }

    fn within(room: Arc<Room>, name: &str, contents: Contents) -> Result<Self> {
        let path = format!("{}/{name}", room.path());
        if path.len() >= PATH_MAX {
            return Err(Os::NAMETOOLONG.into());
        }
        mkdirat(room.dir(), name, Mode::RWXU)?;
        let tree = Self {
            room,
            name: name.to_owned(),
            path,
            shown: Mutex::default(),
        };
        tree.update(contents)?;
        Ok(tree)
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Replaces the contents. A concurrent reader sees each file as it was or as it is.
    ///
    /// # Errors
    /// ENOSPC and the like; then part of it is shown.
    pub fn update(&self, contents: Contents) -> Result<()> {
        let mut shown = self.shown.lock();
        for (path, entry) in &contents {
            if shown.get(path) != Some(entry) {
                self.put(path, entry)?;
                shown.insert(path.clone(), entry.clone());
            }
        }
        shown.retain(|path, _| {
            let stays = contents.contains_key(path);
            if !stays {
                let _ = unlinkat(self.room.dir(), self.inside(path), AtFlags::empty());
            }
            stays
        });
        Ok(())
    }

    fn inside(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }

    fn put(&self, path: &str, entry: &Entry) -> Result<()> {
        let dir = self.room.dir();
        let (new, place) = (self.inside(NEW), self.inside(path));
        for (at, _) in place.match_indices('/') {
            match mkdirat(dir, place.get(..at).unwrap_or_default(), Mode::RWXU) {
                Ok(()) | Err(Os::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let _ = unlinkat(dir, &new, AtFlags::empty());
        match entry {
            Entry::Link(target) => symlinkat(target.as_str(), dir, &new)?,
            Entry::Line(line) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = openat(dir, &new, flags, Mode::RUSR)?;
                let text = format!("{line}\n");
                if write(&file, text.as_bytes())? < text.len() {
                    return Err(Os::NOSPC.into());
                }
            }
        }
        Ok(renameat(dir, &new, dir, &place)?)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        remove(self.room.dir(), &self.name, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn line(text: &str) -> Entry {
        Entry::Line(text.to_owned())
    }

    #[test]
    fn shown_files_follow_the_port_and_are_removed() {
        let above = tempfile::tempdir().expect("made");
        let room = Room::below(above.path().to_str().expect("text")).expect("made");
        let room = Arc::new(room);
        let mut contents = Contents::new();
        contents.insert("node_type".into(), line("1: CA"));
        contents.insert("ports/1/gids/0".into(), line("a"));
        contents.insert("ports/1/gids/1".into(), line("b"));
        contents.insert(
            "device/net/lo".into(),
            Entry::Link("/sys/class/net/lo".into()),
        );
        let tree = Tree::within(Arc::clone(&room), "uroce_lo", contents.clone()).expect("made");
        let path = Path::new(tree.path()).to_owned();
        let read = |name: &str| fs::read_to_string(path.join(name)).ok();
        assert_eq!(read("node_type").as_deref(), Some("1: CA\n"));
        assert_eq!(read("ports/1/gids/1").as_deref(), Some("b\n"));
        assert!(path.join("device/net/lo/mtu").exists());
        assert!(Tree::within(Arc::clone(&room), "uroce_lo", Contents::new()).is_err());
        contents.insert("ports/1/gids/0".into(), line("c"));
        contents.remove("ports/1/gids/1");
        tree.update(contents).expect("written");
        assert_eq!(read("ports/1/gids/0").as_deref(), Some("c\n"));
        assert_eq!(read("ports/1/gids/1"), None);
        assert_eq!(read(NEW), None);
        drop(tree);
        assert!(!path.exists());
        let long = "x".repeat(PATH_MAX);
        assert!(Tree::within(room, &long, Contents::new()).is_err());
    }
}
