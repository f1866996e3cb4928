//! Where a user's files may be.

use kit::errno::{Errno, Result};
use kit::sys::identity::effective_user;
use kit::sys::privilege;
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno as Os;
use std::env;
use std::os::fd::OwnedFd;

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
    /// The user's directory below `above`; the first call makes it.
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match openat(&base, &name, flags, Mode::empty()) {
            // Another process has just taken it away, because nothing was in it.
            Err(Os::NOENT) => return Err(Errno::AGAIN),
            dir => dir?,
        };
        let about = fstat(&dir)?;
        if about.st_uid != user || about.st_mode & 0o077 != 0 {
            return Err(Errno::PERM);
        }
        let path = format!("{}/{name}", above.trim_end_matches('/'));
        Ok(Self { dir, path })
    }
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
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        let place = UserDirectory::below(path).expect("made");
        assert!(place.path.starts_with(&format!("{path}/uroce-")));
        set_permissions(&place.path, Permissions::from_mode(0o750)).expect("changed");
        assert_eq!(UserDirectory::below(path).err(), Some(Errno::PERM));
        std::fs::remove_dir(&place.path).expect("removed");
        symlink("/", &place.path).expect("made");
        assert!(UserDirectory::below(path).is_err(), "a link");
        assert!(UserDirectory::below("/proc/self/nowhere").is_err());
    }
}
