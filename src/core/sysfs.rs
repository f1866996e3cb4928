#![forbid(unsafe_code)]
//! Files of sysfs: where it is, and how one is read.

use super::config;
use kit::abi::IBV_SYSFS_PATH_MAX;
use kit::abi::handle::SysfsView;
use kit::errno::Errno;
use kit::sys::first::{Answer, First};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, retry_on_intr};
use rustix::path::Arg;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

const USUAL: &CStr = c"/sys";

/// Where sysfs is mounted: SYSFS_PATH, without slashes at its end, where the environment may be
/// trusted; otherwise `/sys`. Asked once, then the same for the life of the process.
pub fn root() -> &'static CStr {
    static NAMED: Answer = Answer::new();
    static ROOT: First<CString> = First::new();
    let named = || config::trusted("SYSFS_PATH");
    if !NAMED.get_or_find(|| named().is_some()) {
        return USUAL;
    }
    ROOT.get_or_make(|| named().map_or_else(|| USUAL.to_owned(), |path| shortened(path.as_bytes())))
}

/// At most as much of a path as applications have room for, without slashes at its end.
fn shortened(path: &[u8]) -> CString {
    let room = usize::try_from(IBV_SYSFS_PATH_MAX).unwrap_or(usize::MAX);
    let path = path.get(..room).unwrap_or(path);
    let end = path.iter().rposition(|&byte| byte != b'/');
    CString::new(&path[..end.map_or(0, |last| last + 1)]).unwrap_or_default()
}

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The kernel reported it.
    Os(Errno),
    /// The contents fill the buffer and leave no room for the NUL.
    NoRoom,
}

impl ReadError {
    /// The errno, where the kernel gave one.
    pub fn errno(self) -> Option<Errno> {
        match self {
            Self::Os(e) => Some(e),
            Self::NoRoom => None,
        }
    }
}

impl From<rustix::io::Errno> for ReadError {
    fn from(e: rustix::io::Errno) -> Self {
        Self::Os(e.into())
    }
}

type ReadResult = std::result::Result<usize, ReadError>;

/// Reads the beginning of a file into `buf` and ends it with a NUL, which takes the place of a
/// newline at the end. Returns the length without the NUL; an empty file leaves `buf` alone.
pub fn read_at(dir: impl AsFd, file: impl Arg, buf: &mut [MaybeUninit<u8>]) -> ReadResult {
    let fd = open(dir, file)?;
    let size = buf.len();
    let last = retry_on_intr(|| {
        let (text, _) = read(&fd, &mut *buf)?;
        Ok(text.last().map(|&byte| (text.len(), byte)))
    })?;
    let Some((length, last)) = last else {
        return Ok(0);
    };
    let end = end_of(length, last, size)?;
    if let Some(place) = buf.get_mut(end) {
        place.write(0);
    }
    Ok(end)
}

fn open(dir: impl AsFd, file: impl Arg) -> std::result::Result<OwnedFd, ReadError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(file.into_with_c_str(|file| {
        retry_on_intr(|| openat(dir.as_fd(), file, flags, Mode::empty()))
    })?)
}

/// Where the NUL goes in a buffer of `size` bytes that `length` bytes, the last of them `last`,
/// were read into.
fn end_of(length: usize, last: u8, size: usize) -> ReadResult {
    let end = if last == b'\n' { length - 1 } else { length };
    if end < size {
        Ok(end)
    } else {
        Err(ReadError::NoRoom)
    }
}

/// Reads `<dir>/<file>`, as [`read_at`].
pub fn read_file(dir: &CStr, file: &CStr, buf: &mut [MaybeUninit<u8>]) -> ReadResult {
    let path = [dir.to_bytes(), b"/", file.to_bytes()].concat();
    read_at(CWD, path.as_slice(), buf)
}

/// Reads a file in the device's own folder, as [`read_at`].
pub fn read_ibdev_file(
    device: SysfsView<'_>,
    file: &CStr,
    buf: &mut [MaybeUninit<u8>],
) -> ReadResult {
    read_file(device.path(), file, buf)
}

/// The text of a small file, without a newline at its end; none when it cannot be read, is
/// empty or no text, or has no room in `ROOM` bytes together with a NUL.
pub fn text_at<const ROOM: usize>(dir: impl AsFd, file: impl Arg) -> Option<String> {
    let fd = open(dir, file).ok()?;
    let mut buf = [0; ROOM];
    let length = retry_on_intr(|| read(&fd, &mut buf)).ok()?;
    let last = *buf.get(..length)?.last()?;
    let text = buf.get(..end_of(length, last, ROOM).ok()?)?;
    let text = std::str::from_utf8(text).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// The number in front of a text, as strtoul(3) reads a decimal one; 0 without a number.
pub fn leading_number(text: &str) -> u32 {
    let digits = text.trim_start();
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The GUID in a text like `5054:00ff:fe12:3456`; further text is ignored.
pub fn guid(text: &str) -> Option<u64> {
    let mut parts = text.trim().splitn(4, ':');
    let mut guid = 0;
    for _ in 0..3 {
        guid = guid << 16 | hexadecimal(parts.next()?)?;
    }
    let last = parts.next()?;
    let end = last.find(|c: char| !c.is_ascii_hexdigit());
    Some(guid << 16 | hexadecimal(&last[..end.unwrap_or(last.len())])?)
}

fn hexadecimal(part: &str) -> Option<u64> {
    if part.starts_with('+') {
        return None;
    }
    Some(u16::from_str_radix(part, 16).ok()?.into())
}

#[cfg(test)]
mod tests;
