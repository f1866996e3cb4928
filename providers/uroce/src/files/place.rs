//! Where a user's files may be.

use kit::errno::{Errno, Result};
use kit::sys::identity::effective_user;
use kit::sys::privilege;
use rustix::fs::{CWD, Dir, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno as Os;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

/// How many entries are looked at in search of a directory with a second name.
const LOOKED_AT: usize = 4096;

/// A directory of this user's that no other user may enter.
pub struct UserDirectory {
    /// The directory.
    pub dir: OwnedFd,
    /// Its path.
    pub path: String,
}

/// Directories that users may have theirs in, those that go with the user's sessions first.
pub fn candidates() -> Vec<String> {
    let mut all = Vec::new();
    let variable = |name| env::var_os(name)?.into_string().ok();
    let trusted = !privilege::exceeds_caller();
    all.extend(variable("XDG_RUNTIME_DIR").filter(|_| trusted));
    all.push(format!("/run/user/{}", effective_user()));
    all.extend(variable("TMPDIR").filter(|_| trusted));
    all.extend(["/tmp".to_owned(), "/dev/shm".to_owned()]);
    all.retain(|path| path.starts_with('/'));
    all
}

impl UserDirectory {
    /// The user's directory below `above`; the first call makes it. Where another user has its
    /// name, it has a second name, which cannot be guessed.
    ///
    /// # Errors
    /// EPERM if another user could change its contents; EAGAIN if it was just removed; those of
    /// openat(2), mkdirat(2).
    pub fn below(above: &str) -> Result<Self> {
        let user = effective_user();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = openat(CWD, above, flags, Mode::empty())?;
        if !is_safe(&fstat(&base)?, user) {
            return Err(Errno::PERM);
        }
        let name = format!("uroce-{user}");
        match mkdirat(&base, &name, Mode::RWXU) {
            Ok(()) | Err(Os::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let (dir, name) = match open_private(&base, &name, user) {
            // Another process has just taken it away, because nothing was in it.
            Err(Errno(libc::ENOENT)) => return Err(Errno::AGAIN),
            Err(Errno(libc::EPERM | libc::EACCES | libc::ENOTDIR | libc::ELOOP)) => {
                second(&base, &format!("{name}."), user)?
            }
            dir => (dir?, name),
        };
        let path = format!("{}/{name}", above.trim_end_matches('/'));
        Ok(Self { dir, path })
    }
}

/// A directory that the user alone may enter.
fn open_private(base: &OwnedFd, name: &str, user: u32) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(base, name, flags, Mode::empty())?;
    let about = fstat(&dir)?;
    if about.st_uid != user || about.st_mode & 0o077 != 0 {
        return Err(Errno::PERM);
    }
    Ok(dir)
}

/// The user's directory whose name begins so: one that is there, or else a new one.
fn second(base: &OwnedFd, begin: &str, user: u32) -> Result<(OwnedFd, String)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Not every directory that may be written to may be read.
    let entries = openat(base, ".", flags, Mode::empty()).and_then(Dir::new);
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.take(LOOKED_AT).filter_map(|entry| {
        let name = entry.file_name().to_str().ok()?;
        name.starts_with(begin).then(|| name.to_owned())
    });
    for name in names {
        if let Ok(dir) = open_private(base, &name, user) {
            return Ok((dir, name));
        }
    }
    let name = format!("{begin}{:016x}", RandomState::new().hash_one(begin));
    mkdirat(base, &name, Mode::RWXU)?;
    Ok((open_private(base, &name, user)?, name))
}

/// Whether only root and the user can remove or rename the user's entries of a directory.
fn is_safe(about: &Stat, user: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    let owned = about.st_uid == 0 || about.st_uid == user;
    owned && (about.st_mode & OTHERS_WRITE == 0 || about.st_mode & STICKY != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn directories_writable_by_others_are_not_used() {
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        let allow = |mode| {
            set_permissions(above.path(), Permissions::from_mode(mode)).expect("changed");
        };
        allow(0o777);
        assert_eq!(UserDirectory::below(path).err(), Some(Errno::PERM));
        allow(0o1777);
        assert!(UserDirectory::below(path).is_ok());
        assert!(UserDirectory::below("/proc/self/nowhere").is_err());
    }

    /// Names that a process of another user can take before the user's first one.
    #[test]
    fn a_name_that_is_taken_is_passed_over() {
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        set_permissions(above.path(), Permissions::from_mode(0o1777)).expect("changed");
        let usual = UserDirectory::below(path).expect("made").path;
        assert_eq!(usual, format!("{path}/uroce-{}", effective_user()));
        assert_eq!(UserDirectory::below(path).expect("made").path, usual);
        let passed_over = |what: &str| {
            let second = UserDirectory::below(path).expect(what).path;
            assert!(second.starts_with(&format!("{usual}.")), "{what}: {second}");
            let again = UserDirectory::below(path).expect(what);
            assert_eq!(again.path, second, "{what}: all processes have the same");
            let about = fstat(&again.dir).expect("asked");
            assert_eq!(
                (about.st_uid, about.st_mode & 0o777),
                (effective_user(), 0o700)
            );
            std::fs::remove_dir(&second).expect("removed");
        };
        set_permissions(&usual, Permissions::from_mode(0o750)).expect("changed");
        passed_over("open to others");
        if effective_user() == 0 {
            chown(&usual, Some(65534), None).expect("given away");
            set_permissions(&usual, Permissions::from_mode(0o700)).expect("changed");
            passed_over("another user's");
            // One of the second kind of name, too.
            let other = format!("{usual}.0");
            std::fs::create_dir(&other).expect("made");
            chown(&other, Some(65534), None).expect("given away");
            passed_over("another user's twice");
        }
        std::fs::remove_dir(&usual).expect("removed");
        symlink("/", &usual).expect("made");
        passed_over("a link");
        std::fs::remove_file(&usual).expect("removed");
        std::fs::write(&usual, "").expect("made");
        passed_over("a file");
    }
}
