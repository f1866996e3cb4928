use super::*;
use crate::core::wait::to_the_end;
use rustix::fs::makedev;
use std::os::unix::fs::symlink;
use std::thread;

const NULL: u64 = makedev_null();

const fn makedev_null() -> u64 {
    1 << 8 | 3
}

fn opened(step: Result<Step<Missing>>) -> Result<OwnedFd> {
    Ok(to_the_end(step?)?.unwrap())
}

struct Folders {
    nodes: tempfile::TempDir,
    links: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        Self {
            nodes: tempfile::tempdir().unwrap(),
            links: tempfile::tempdir().unwrap(),
        }
    }

    fn find(&self, cdev: u64) -> Result<OwnedFd> {
        let text = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
        opened(find(
            &text(&self.nodes),
            &text(&self.links),
            c"uverbs0",
            cdev,
        ))
    }

    fn waited(&self, patience: Duration) -> Result<OwnedFd> {
        let folder = self.links.path().to_str().unwrap();
        let link = format!("{folder}/1:3");
        opened(Missing::begin(folder, link, NULL, Errno::NOENT, patience))
    }
}

#[test]
fn by_its_name() {
    assert_eq!(makedev(1, 3), NULL);
    let folders = Folders::new();
    symlink("/dev/null", folders.nodes.path().join("uverbs0")).unwrap();
    assert!(folders.find(NULL).is_ok());
    assert!(folders.find(0).is_ok());
}

#[test]
fn by_its_number_when_the_name_is_another_device() {
    let folders = Folders::new();
    symlink("/dev/zero", folders.nodes.path().join("uverbs0")).unwrap();
    symlink("/dev/null", folders.links.path().join("1:3")).unwrap();
    let fd = folders.find(NULL).unwrap();
    assert_eq!(fstat(&fd).unwrap().st_rdev, NULL);
}

#[test]
fn a_file_is_no_device() {
    let folders = Folders::new();
    std::fs::write(folders.nodes.path().join("uverbs0"), "").unwrap();
    assert_eq!(folders.find(0).err(), Some(Errno(libc::ENXIO)));
}

#[test]
fn a_missing_name_without_a_number() {
    assert_eq!(Folders::new().find(0).err(), Some(Errno::NOENT));
}

#[test]
fn a_system_without_links_by_number() {
    let folders = Folders::new();
    let nodes = folders.nodes.path().to_str().unwrap();
    let find = || opened(find(nodes, "/nowhere", c"uverbs0", NULL));
    let missing = find();
    assert_eq!(missing.err(), Some(Errno::NOENT));
    std::fs::write(folders.nodes.path().join("uverbs0"), "").unwrap();
    let other = find();
    assert_eq!(other.err(), Some(Errno(libc::ENXIO)));
}

#[test]
fn a_directory_is_refused_without_waiting() {
    let folders = Folders::new();
    std::fs::create_dir(folders.nodes.path().join("uverbs0")).unwrap();
    assert_eq!(folders.find(NULL).err(), Some(Errno(libc::EISDIR)));
}

#[test]
fn a_late_link_is_taken() {
    let folders = Folders::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| folders.waited(Duration::MAX / 4));
        symlink("/dev/zero", folders.links.path().join("1:5")).unwrap();
        symlink("/dev/null", folders.links.path().join("1:3")).unwrap();
        assert!(waiting.join().unwrap().is_ok());
    });
}

#[test]
fn patience_ends() {
    let folders = Folders::new();
    let refused = folders.waited(Duration::from_millis(1)).err();
    assert_eq!(refused, Some(Errno::NOENT));
}
