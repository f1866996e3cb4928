//! The file behind memory of another process, found in /proc (proc_pid_maps(5), proc_pid_fd(5),
//! proc_pid_map_files(5)). The kernel shows mappings and descriptors to processes that may read
//! that memory. It opens the file of a mapping, whose descriptor the process has closed, for
//! privileged processes only.
#![forbid(unsafe_code)]

use kit::errno::{Errno, Result};
use rustix::fs::{Mode, OFlags, Stat, fstat, makedev, open, stat};
use rustix::process::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Mappings and descriptors of the other process that are looked at: the caller posts a request,
/// and waits meanwhile.
const MAPPINGS: usize = 4096;
const DESCRIPTORS: usize = 1024;

/// A mapping of a file that others can have, too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    there: Range<u64>,
    device: u64,
    inode: u64,
    /// Where in the file the range begins that was looked for.
    offset: u64,
}

impl Mapping {
    fn is_of(&self, status: &Stat) -> bool {
        (status.st_dev, status.st_ino) == (self.device, self.inode)
    }
}

/// The file that another process has mapped where a range of its addresses is, and the place of the
/// range in the file.
///
/// # Errors
/// ENOENT if there is none, if it is no memfd, if the range is in more than one mapping, or if the
/// process does not have it open, and this one is not privileged; of open(2) and read(2) in /proc.
pub(super) fn file_behind(process: Pid, range: &Range<u64>) -> Result<(OwnedFd, Range<u64>)> {
    let process = process.as_raw_nonzero();
    let maps = File::open(format!("/proc/{process}/maps"))?;
    let mapping = find_mapping(BufReader::new(maps), range)?.ok_or(Errno::NOENT)?;
    let length = range.end.checked_sub(range.start).ok_or(Errno::INVAL)?;
    let end = mapping.offset.checked_add(length).ok_or(Errno::INVAL)?;
    let Range { start, end: last } = mapping.there;
    let of_mapping = format!("/proc/{process}/map_files/{start:x}-{last:x}");
    let file = match open_anew(&of_mapping, &mapping) {
        Ok(file) => file,
        Err(_) => find_descriptor(&format!("/proc/{process}/fd"), &mapping)?,
    };
    Ok((file, mapping.offset..end))
}

fn find_mapping(maps: impl BufRead, range: &Range<u64>) -> Result<Option<Mapping>> {
    for line in maps.lines().take(MAPPINGS) {
        let line = line?;
        let Some((there, rest)) = addresses(&line) else {
            continue;
        };
        if there.end > range.start {
            let all = there.start <= range.start && there.end >= range.end;
            return Ok(all.then(|| mapping(there, rest, range)).flatten());
        }
    }
    Ok(None)
}

/// The addresses of a line, and the rest of it.
fn addresses(line: &str) -> Option<(Range<u64>, &str)> {
    let (there, rest) = line.split_once(' ')?;
    let (start, end) = there.split_once('-')?;
    Some((hexadecimal(start)?..hexadecimal(end)?, rest))
}

/// That of the rest of a line: rights, offset, device, inode, name.
fn mapping(there: Range<u64>, rest: &str, range: &Range<u64>) -> Option<Mapping> {
    let mut words = rest.split_whitespace();
    let rights = words.next()?;
    let offset = hexadecimal(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = makedev(number(major)?, number(minor)?);
    let inode = words.next()?.parse().ok()?;
    let is_memfd = words.next()?.starts_with("/memfd:");
    let within = range.start.checked_sub(there.start)?;
    (rights.starts_with("rw") && rights.ends_with('s') && is_memfd).then_some(Mapping {
        there,
        device,
        inode,
        offset: offset.checked_add(within)?,
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Opens the file of a mapping anew, if it is among the descriptors of a folder.
fn find_descriptor(folder: &str, mapping: &Mapping) -> Result<OwnedFd> {
    for entry in std::fs::read_dir(folder)?.take(DESCRIPTORS) {
        let path = entry?.path();
        // Closed meanwhile, or no file.
        if stat(&path).is_ok_and(|status| mapping.is_of(&status)) {
            return open_anew(&path, mapping);
        }
    }
    Err(Errno::NOENT)
}

/// Opens the file of a mapping anew by a link of /proc.
fn open_anew(link: impl rustix::path::Arg, mapping: &Mapping) -> Result<OwnedFd> {
    // The link may lead to another file by now, whose opening does something.
    let found = open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if !mapping.is_of(&fstat(&found)?) {
        return Err(Errno::NOENT);
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::shared::Shared;
    use rustix::process::getpid;

    const MAPS: &str = "\
1000-3000 r-xp 00000000 fe:01 17 /bin/a name
4000-6000 rw-s 00002000 00:01 77                       /memfd:x y (deleted)
6000-8000 rw-p 00000000 00:00 0
9000-a000 r--s 00000000 00:01 78                       /memfd:z (deleted)
b000-c000 rw-s 00000000 00:19 79                       /dev/shm/z
not a line
d000-e000 rw-s 00000000 00:01 80                       /SYSV00000000 (deleted)
";

    fn found(range: Range<u64>) -> Option<(u64, u64)> {
        let found = find_mapping(MAPS.as_bytes(), &range).expect("read");
        found.map(|mapping| (mapping.inode, mapping.offset))
    }

    #[test]
    fn only_one_writable_mapping_of_a_memfd_is_found() {
        assert_eq!(found(0x4000..0x6000), Some((77, 0x2000)));
        assert_eq!(found(0x5001..0x5002), Some((77, 0x3001)));
        for other in [
            0x1000..0x1001,
            0x3000..0x3001,
            0x3fff..0x4001,
            0x5000..0x6001,
            0x6000..0x6001,
            0x9000..0x9001,
            0xb000..0xb001,
            0xd000..0xd001,
            0xf000..0xf001,
        ] {
            assert_eq!(found(other), None);
        }
    }

    #[test]
    fn a_file_is_found_that_a_process_has_open() {
        let (memory, fd) = Shared::create(c"uroce-test", 1 << 16).expect("memory");
        let start = u64::try_from(memory.words().as_ptr().addr()).expect("64 bits");
        let range = start + 100..start + 5000;
        let (file, place) = file_behind(getpid(), &range).expect("found");
        assert_eq!(place, 100..5000);
        let number = |fd: &OwnedFd| fstat(fd).expect("a status").st_ino;
        assert_eq!(number(&file), number(&fd));
        drop(file);
        let maps = File::open("/proc/self/maps").expect("maps");
        let mapping = find_mapping(BufReader::new(maps), &range).expect("read");
        let mapping = mapping.expect("found");
        let folder = "/proc/self/fd";
        let file = find_descriptor(folder, &mapping).expect("found");
        assert_eq!(number(&file), number(&fd));
        drop((file, fd));
        let gone = find_descriptor(folder, &mapping).err();
        assert_eq!(gone, Some(Errno::NOENT), "no descriptor of it");
        // By its mapping, if that is permitted here.
        if let Ok((file, place)) = file_behind(getpid(), &range) {
            assert_eq!((number(&file), place), (mapping.inode, 100..5000));
        }
        let other = open_anew("/proc/self/exe", &mapping).err();
        assert_eq!(other, Some(Errno::NOENT));
    }
}
