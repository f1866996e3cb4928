//! A peer's memory, where it is a file that the peer has mapped to share it (shared memory, hugetlbfs, a
//! memfd): mapped here too, without the peer's doing.
//!
//! The kernel shows a process's mappings and descriptors to whoever may trace it, which is what
//! process_vm_writev(2) asks for as well.

use kit::sys::shared_file::SharedFile;
use rustix::fs::{Mode, OFlags, fstat, major, minor, open};
use rustix::process::Pid;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

/// A mapping that is that of a peer.
#[derive(Debug)]
pub struct Mapped {
    file: SharedFile,
    /// Where it begins in the peer.
    start: u64,
    end: u64,
}

impl Mapped {
    /// The mapping in which a range of a process lies whole, if it is one of a file to be shared.
    #[must_use]
    pub fn find(pid: Pid, address: u64, length: u64) -> Option<Self> {
        let pid = pid.as_raw_nonzero();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let end = address.checked_add(length)?;
        let mut lines = maps.lines().filter_map(Line::parse);
        let line = lines.find(|line| line.start <= address && end <= line.end)?;
        let file = line.open(pid.get())?;
        let length = usize::try_from(line.end - line.start).ok()?;
        Some(Self {
            file: SharedFile::map(file.as_fd(), line.offset, length).ok()?,
            start: line.start,
            end: line.end,
        })
    }

    /// The file, and where in it that address of the peer is; `None` if the range is elsewhere.
    #[must_use]
    pub fn place(&self, address: u64, length: u64) -> Option<(&SharedFile, usize)> {
        let offset = address.checked_sub(self.start)?;
        let inside = address.checked_add(length)? <= self.end;
        Some((&self.file, usize::try_from(offset).ok()?)).filter(|_| inside)
    }
}

/// A line of /proc/PID/maps, of a file that is shared and may be read and written.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    start: u64,
    end: u64,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        if words.next()? != "rw-s" {
            return None;
        }
        let offset = hex(words.next()?)?;
        let (high, low) = words.next()?.split_once(':')?;
        let inode = words.next()?.parse().ok().filter(|inode| *inode != 0)?;
        let device = |text| u32::from_str_radix(text, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            offset,
            device: (device(high)?, device(low)?),
            inode,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }

    /// The file, by its name, by the mapping, or by a descriptor of the process.
    fn open(&self, pid: i32) -> Option<OwnedFd> {
        let named = format!("/proc/{pid}/root{}", self.path);
        // By the mapping itself where the kernel lets us: not every user.
        let (start, end) = (self.start, self.end);
        let mapping = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let named = self.path.starts_with('/').then_some(named);
        let mut names = named.into_iter().chain([mapping]);
        if let Some(file) = names.find_map(|name| self.try_open(&name)) {
            return Some(file);
        }
        let folder = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut entries = folder.flatten();
        entries.find_map(|entry| self.try_open(entry.path().to_str()?))
    }

    /// Opens a file, if it is this one. One that is not a plain file is not opened, since that may do
    /// something.
    fn try_open(&self, path: &str) -> Option<OwnedFd> {
        if !self.is(&rustix::fs::stat(path).ok()?) {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty()).ok()?;
        self.is(&fstat(&file).ok()?).then_some(file)
    }

    fn is(&self, stat: &rustix::fs::Stat) -> bool {
        let plain = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        let device = (major(stat.st_dev), minor(stat.st_dev));
        plain && stat.st_ino == self.inode && device == self.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    #[test]
    fn lines_of_shared_files_are_read() {
        let line =
            "7f0000000000-7f0000002000 rw-s 00001000 00:1a 77                         /dev/shm/a b";
        let wanted = Line {
            start: 0x7f00_0000_0000,
            end: 0x7f00_0000_2000,
            offset: 0x1000,
            device: (0, 0x1a),
            inode: 77,
            path: "/dev/shm/a b",
        };
        assert_eq!(Line::parse(line), Some(wanted));
        for other in [
            "7f0000000000-7f0000002000 rw-p 00001000 00:1a 77    /lib/x",
            "7f0000000000-7f0000002000 r--s 00001000 00:1a 77    /lib/x",
            "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ",
            "7f0000000000-7f0000002000 rw-s 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_own_file_is_found_by_its_descriptor() {
        let fd = memfd_create("found", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&fd, 8192).expect("sized");
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let there: Vec<u64> = maps
            .lines()
            .filter_map(Line::parse)
            .map(|line| line.start)
            .collect();
        let _file = SharedFile::map(fd.as_fd(), 0, 8192).expect("mapped");
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let new = maps.lines().filter_map(Line::parse);
        let new = new
            .filter(|line| line.path.contains("memfd:found"))
            .find(|line| !there.contains(&line.start));
        let start = new.expect("a new one").start;
        let own = rustix::process::getpid();
        let mapped = Mapped::find(own, start + 100, 8).expect("found");
        assert!(mapped.place(start + 8184, 8).is_some());
        assert!(mapped.place(start + 8184, 9).is_none());
        assert!(mapped.place(start.wrapping_sub(1), 1).is_none());
        assert!(Mapped::find(own, start + 8184, 9).is_none());
        // Private memory.
        let word = Box::new(7u64);
        let at = std::ptr::from_ref(&*word).addr() as u64;
        assert!(Mapped::find(own, at, 8).is_none());
    }
}
