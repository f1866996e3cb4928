//! The directory of this process.

use super::place::{UserDirectory, candidates};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::exit;
use kit::sys::per_process::PerProcess;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat,
    unlinkat,
};
use rustix::io::Errno as Os;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A forked child makes a separate one. Its parent's remains as long as either runs.
static ROOM: PerProcess<Mutex<Option<Arc<Room>>>> = PerProcess::new();

/// How often a name is tried that another process has, or is just taking away.
const ATTEMPTS: u32 = 64;
/// How many directories of other processes are looked at when one is made, and how many of
/// processes that ended are taken away. Where a thousand processes run, a look at each would cost
/// more than the rest of opening a device; where a thousand were killed, taking all of them away at
/// once would take seconds.
const LOOKED_AT: usize = 32;
const SWEPT: usize = 8;
/// How deep directories lie in one another, at most: none of ours is deeper.
const DEPTH: usize = 8;

/// The directory of a process.
pub struct Room {
    /// The directory. The lock goes with it.
    dir: OwnedFd,
    name: String,
    path: String,
    /// Path of the user's directory, which it lies in.
    above: String,
}

impl Room {
    /// That of this process.
    ///
    /// # Errors
    /// The error of the last place that was tried.
    pub fn get() -> Result<Arc<Self>> {
        let mut room = ROOM.get()?.lock();
        if let Some(room) = &*room {
            return Ok(Arc::clone(room));
        }
        let mut why = Errno(libc::ENOENT);
        for above in candidates() {
            match Self::below(&above) {
                Ok(made) => {
                    let made = Arc::new(made);
                    *room = Some(Arc::clone(&made));
                    exit::at_exit(leave);
                    return Ok(made);
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// A new one in the user's directory below `above`.
    ///
    /// # Errors
    /// Those of [`UserDirectory::below`], mkdirat(2), flock(2).
    pub fn below(above: &str) -> Result<Self> {
        for attempt in 0..ATTEMPTS {
            let place = match UserDirectory::below(above) {
                Err(Errno::AGAIN) => continue,
                place => place?,
            };
            let name = format!("{}.{attempt}", std::process::id());
            match mkdirat(&place.dir, &name, Mode::RWXU) {
                Ok(()) => {}
                // The second: the user's directory has just been taken away.
                Err(Os::EXIST | Os::NOENT) => continue,
                Err(error) => return Err(error.into()),
            }
            let dir = match open(place.dir.as_fd(), &name) {
                // Another process took it for a leftover of a process that ended.
                Err(Errno(libc::ENOENT)) => continue,
                dir => dir?,
            };
            match lock(&dir, place.dir.as_fd(), &name) {
                Ok(true) => {}
                // And has taken it away, or is about to.
                Ok(false) => continue,
                Err(error) => {
                    let _ = unlinkat(&place.dir, &name, AtFlags::REMOVEDIR);
                    return Err(error);
                }
            }
            sweep(&place);
            let path = format!("{}/{name}", place.path);
            return Ok(Self {
                dir,
                name,
                path,
                above: place.path,
            });
        }
        Err(Errno::AGAIN)
    }

    /// Its descriptor.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn remove(&self) {
        let Ok(above) = open(CWD, &self.above) else {
            return;
        };
        remove(above.as_fd(), &self.name, DEPTH);
        // Stays if other processes have theirs in it.
        let _ = unlinkat(CWD, &self.above, AtFlags::REMOVEDIR);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.remove();
    }
}

/// At exit: other threads may still be here, and then the next process takes it away.
fn leave() {
    if let Some(room) = ROOM.made()
        && let Some(room) = room.try_lock()
        && let Some(room) = &*room
    {
        room.remove();
    }
}

fn open(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Takes away some directories of processes that ended. The first one that is looked at is random,
/// so that those of running processes hide no other from all.
fn sweep(place: &UserDirectory) {
    let mut names = names(place.dir.as_fd());
    let count = u64::try_from(names.len()).unwrap_or(u64::MAX);
    let first = RandomState::new().hash_one(()).checked_rem(count);
    names.rotate_left(first.map_or(0, |first| usize::try_from(first).unwrap_or(0)));
    let mut swept = 0;
    for name in names.into_iter().take(LOOKED_AT) {
        let Ok(dir) = open(place.dir.as_fd(), &name) else {
            continue;
        };
        if lock(&dir, place.dir.as_fd(), &name) == Ok(true) {
            remove(place.dir.as_fd(), &name, DEPTH);
            swept += 1;
        }
        if swept == SWEPT {
            return;
        }
    }
}

/// Locks the directory that was opened by a name. Returns whether it is this process's then: no
/// other process has the lock, and the directory still has that name. Another process may have
/// removed it since it was opened, and made another one, which has a separate lock. Some file
/// systems do not change the number of links of a directory that is removed.
fn lock(dir: &OwnedFd, at: BorrowedFd<'_>, name: &str) -> Result<bool> {
    match flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(is_named(dir, at, name)),
        Err(Os::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a directory still has that name.
fn is_named(dir: &OwnedFd, at: BorrowedFd<'_>, name: &str) -> bool {
    let [Ok(opened), Ok(named)] = [fstat(dir), statat(at, name, AtFlags::SYMLINK_NOFOLLOW)] else {
        return false;
    };
    (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
}

fn names(dir: BorrowedFd<'_>) -> Vec<String> {
    let Ok(entries) = Dir::read_from(dir) else {
        return Vec::new();
    };
    let names =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    names.filter(|name| name != "." && name != "..").collect()
}

/// Removes a file, or a directory with its contents.
pub fn remove(at: BorrowedFd<'_>, name: &str, depth: usize) {
    if unlinkat(at, name, AtFlags::empty()).is_ok() || depth == 0 {
        return;
    }
    if let Ok(dir) = open(at, name) {
        for inner in names(dir.as_fd()) {
            remove(dir.as_fd(), &inner, depth - 1);
        }
    }
    let _ = unlinkat(at, name, AtFlags::REMOVEDIR);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).map_or(0, Iterator::count)
    }

    #[test]
    fn rooms_go_with_their_processes_and_leave_nothing() {
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        let one = Room::below(path).expect("made");
        let user = Path::new(one.path()).parent().expect("in one").to_owned();
        let two = Room::below(path).expect("made");
        assert_ne!(one.path(), two.path());
        assert_eq!(entries(&user), 2);
        // Of a process that was killed: it is not locked.
        fs::create_dir_all(user.join("7.0/uroce_lo/ports/1")).expect("made");
        fs::write(user.join("7.0/uroce_lo/ports/1/state"), "4: ACTIVE\n").expect("written");
        let three = Room::below(path).expect("made");
        assert!(!user.join("7.0").exists());
        assert_eq!(entries(&user), 3, "those that are held stay");
        drop((one, two));
        assert!(user.exists());
        drop(three);
        assert_eq!(entries(above.path()), 0);
    }

    /// Directories that processes left when they were killed.
    fn leave_behind(user: &Path, count: usize) {
        for number in 0..count {
            fs::create_dir_all(user.join(format!("{number}.0/uroce_lo"))).expect("made");
        }
    }

    #[test]
    fn many_leftovers_are_taken_away_by_several_processes() {
        const LEFT: usize = 200;
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        let held = Room::below(path).expect("made");
        let user = Path::new(held.path()).parent().expect("in one").to_owned();
        leave_behind(&user, LEFT);
        let mut left = entries(&user);
        let mut made = 0;
        while left > 1 {
            drop(Room::below(path).expect("made"));
            made += 1;
            let now = entries(&user);
            assert!(
                left - now <= SWEPT,
                "{left} {now}: one process takes all away"
            );
            left = now;
        }
        assert!(made >= LEFT / SWEPT, "{made}");
        drop(held);
        assert_eq!(entries(above.path()), 0);
    }

    #[test]
    fn directories_of_running_processes_hide_none_of_others() {
        const RUNNING: usize = LOOKED_AT + 16;
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        let room = || Room::below(path).expect("made");
        let running: Vec<Room> = (0..RUNNING).map(|_| room()).collect();
        let user = Path::new(running[0].path()).parent().expect("in one");
        leave_behind(user, 1);
        while user.join("0.0").exists() {
            // Ends: each process looks at most of them, from a random one on.
            drop(room());
        }
        assert_eq!(entries(user), RUNNING);
        drop(running);
        assert_eq!(entries(above.path()), 0);
    }

    #[test]
    fn a_directory_that_has_another_name_by_now_is_not_taken_for_a_leftover() {
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        let room = Room::below(path).expect("made");
        let place = UserDirectory::below(path).expect("made");
        let opened = open(place.dir.as_fd(), &room.name).expect("opened");
        let is_ours = |name: &str| {
            let place = UserDirectory::below(path).expect("made");
            lock(&opened, place.dir.as_fd(), name)
        };
        assert_eq!(is_ours(&room.name), Ok(false), "it is locked");
        let name = room.name.clone();
        // Another device is opened as soon as the last one is closed.
        drop(room);
        let next = Room::below(path).expect("made");
        assert_eq!(next.name, name);
        assert_eq!(is_ours(&name), Ok(false), "the name is another's");
        drop(next);
        assert_eq!(is_ours(&name), Ok(false), "nothing has the name");
    }

    /// So some file systems show one that is taken away: with links.
    #[test]
    fn a_directory_with_links_but_without_the_name_is_not_locked() {
        let above = tempfile::tempdir().expect("made");
        let at = open(CWD, above.path().to_str().expect("text")).expect("opened");
        mkdirat(&at, "7.0", Mode::RWXU).expect("made");
        let opened = open(at.as_fd(), "7.0").expect("opened");
        fs::rename(above.path().join("7.0"), above.path().join("8.0")).expect("renamed");
        assert_ne!(fstat(&opened).expect("there").st_nlink, 0);
        assert_eq!(lock(&opened, at.as_fd(), "7.0"), Ok(false));
        assert_eq!(lock(&opened, at.as_fd(), "8.0"), Ok(true));
    }

    #[test]
    fn many_at_once() {
        let above = tempfile::tempdir().expect("made");
        let path = above.path().to_str().expect("text");
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let room = Room::below(path).expect("made");
                        assert!(Path::new(room.path()).exists());
                    }
                });
            }
        });
        assert_eq!(entries(above.path()), 0);
    }
}
