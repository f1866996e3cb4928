//! Writing below one directory and nowhere else.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
    process,
};

use anyhow::{Context, Result, bail};

const DIRECTORY: u32 = 0o755;
const FILE: u32 = 0o644;
const PROGRAM: u32 = 0o755;

/// A directory that represents `/`.
pub struct Tree {
    /// Free of links.
    root: PathBuf,
}

impl Tree {
    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("create {}", root.display()))?;
        let root = fs::canonicalize(root).with_context(|| root.display().to_string())?;
        Ok(Self { root })
    }

    /// Writes a file whole or not at all: a program that has the old one mapped keeps it.
    pub fn file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.made(path, |new| Ok(fs::write(new, bytes)?))
    }

    /// The same with a file that something else makes, at the path it is given.
    pub fn made(&self, path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.with_mode(path, FILE, make)
    }

    /// The same with a file that can be run.
    pub fn program(&self, path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.with_mode(path, PROGRAM, make)
    }

    fn with_mode(
        &self,
        path: &Path,
        mode: u32,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        self.replace(path, |new| {
            // Not through a link that lies there, if any does.
            File::create_new(new)?;
            make(new)?;
            // The mode is the same whatever the umask.
            Ok(fs::set_permissions(new, Permissions::from_mode(mode))?)
        })
    }

    pub fn link(&self, path: &Path, target: &str) -> Result<()> {
        self.replace(path, |new| Ok(symlink(target, new)?))
    }

    /// Makes something beside its place and moves it there.
    fn replace(&self, path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            bail!("{} names no file", path.display());
        };
        let dir = self.directory(parent)?;
        let place = dir.join(name);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", process::id()));
        let new = dir.join(hidden);
        let done = make(&new).and_then(|()| Ok(fs::rename(&new, &place)?));
        if done.is_err() {
            // Nothing of a failed attempt stays; that it was never made is no error.
            let _ = fs::remove_file(&new);
        }
        done.with_context(|| format!("write {}", place.display()))
    }

    /// The place of an absolute directory below the root; missing directories are made.
    fn directory(&self, path: &Path) -> Result<PathBuf> {
        let mut place = self.root.clone();
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => place = self.step(&place.join(name))?,
                _ => bail!("{} leads upwards", path.display()),
            }
        }
        Ok(place)
    }

    /// One directory down, through a link if it stays below the root.
    fn step(&self, place: &Path) -> Result<PathBuf> {
        match fs::create_dir(place) {
            Ok(()) => fs::set_permissions(place, Permissions::from_mode(DIRECTORY))
                .with_context(|| place.display().to_string())?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("create {}", place.display()));
            }
        }
        let real = fs::canonicalize(place).with_context(|| place.display().to_string())?;
        if !real.starts_with(&self.root) {
            bail!(
                "{} leads to {}, outside of {}",
                place.display(),
                real.display(),
                self.root.display()
            );
        }
        if !real.is_dir() {
            bail!("{} is not a directory", place.display());
        }
        Ok(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_get_their_modes_and_can_be_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::at(&dir.path().join("new/root")).unwrap();
        for bytes in [b"one".as_slice(), b"three"] {
            tree.file(Path::new("/usr/lib/a.so"), bytes).unwrap();
            tree.link(Path::new("/usr/lib/a"), "a.so").unwrap();
            let lib = dir.path().join("new/root/usr/lib");
            assert_eq!(fs::read(lib.join("a")).unwrap(), bytes);
            assert_eq!(mode(&lib.join("a.so")), FILE);
            let program = Path::new("/usr/bin/p");
            tree.program(program, |new| Ok(fs::write(new, "")?))
                .unwrap();
            assert_eq!(mode(&dir.path().join("new/root/usr/bin/p")), PROGRAM);
            assert_eq!(mode(&lib), DIRECTORY);
            assert_eq!(fs::read_dir(&lib).unwrap().count(), 2);
        }
    }

    #[test]
    fn an_open_file_keeps_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::at(dir.path()).unwrap();
        tree.file(Path::new("/a"), b"old").unwrap();
        let open = File::open(dir.path().join("a")).unwrap();
        tree.file(Path::new("/a"), b"new").unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "old");
    }

    #[test]
    fn links_inside_are_followed_and_links_outside_refused() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tree = Tree::at(dir.path()).unwrap();
        fs::create_dir_all(dir.path().join("usr/lib")).unwrap();
        symlink("usr/lib", dir.path().join("lib")).unwrap();
        tree.file(Path::new("/lib/a"), b"").unwrap();
        assert!(dir.path().join("usr/lib/a").exists());
        symlink(outside.path(), dir.path().join("usr/include")).unwrap();
        assert!(tree.file(Path::new("/usr/include/a"), b"").is_err());
        assert!(tree.file(Path::new("/usr/include/b/a"), b"").is_err());
        assert!(tree.file(Path::new("/usr/../../a"), b"").is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn failed_creations_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::at(dir.path()).unwrap();
        let failed = tree.made(Path::new("/a"), |new| {
            fs::write(new, "half")?;
            bail!("no more")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn failed_replacements_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::at(dir.path()).unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        assert!(tree.file(Path::new("/a"), b"").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(dir.path().join("f"), "").unwrap();
        assert!(tree.file(Path::new("/f/a"), b"").is_err());
    }
}
