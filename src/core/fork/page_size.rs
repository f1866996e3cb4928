#![forbid(unsafe_code)]
//! Page sizes: the system's, and that of a mapping, for `RDMAV_HUGEPAGES_SAFE`.

use kit::sys::mapping;
use std::{
    fs::File,
    io::{BufRead, BufReader},
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Size in bytes of the system's pages: a constant if the processor has only one size, otherwise a
/// cached value, because sysconf(3) takes as many instructions as counting a range.
#[inline]
pub fn base() -> usize {
    if cfg!(target_arch = "x86_64") {
        return 4096;
    }
    static BASE: AtomicUsize = AtomicUsize::new(0);
    let kept = BASE.load(Relaxed);
    if kept != 0 {
        return kept;
    }
    let asked = rustix::param::page_size();
    BASE.store(asked, Relaxed);
    asked
}

/// Size in bytes of the pages that hold `address`: asked of the kernel, where it does not answer
/// (Linux before 6.11) read from /proc/self/smaps. None where nothing is mapped, or /proc is not.
pub fn at(address: usize) -> Option<usize> {
    match mapping::page_size(address) {
        Ok(size) => size,
        Err(_) => in_smaps(
            BufReader::new(File::open("/proc/self/smaps").ok()?),
            address,
        ),
    }
}

/// Reads smaps as proc(5) describes it: a line `from-to ...` heads each mapping, and among the
/// lines below it is `KernelPageSize:  4 kB`.
fn in_smaps(mut smaps: impl BufRead, address: usize) -> Option<usize> {
    let mut line = Vec::new();
    let mut inside = false;
    loop {
        line.clear();
        if smaps.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(mapping) = head(&text) {
            if inside {
                return None;
            }
            inside = mapping.contains(&address);
        } else if inside && let Some(size) = text.strip_prefix("KernelPageSize:") {
            return kilobytes(size);
        }
    }
}

fn head(line: &str) -> Option<Range<usize>> {
    let (from, rest) = line.split_once('-')?;
    let (to, _) = rest.split_once(' ')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some(hex(from)?..hex(to)?)
}

fn kilobytes(text: &str) -> Option<usize> {
    let number: usize = text.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    number
        .checked_mul(1024)
        .filter(|size| size.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon
Size:                328 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
VmFlags: rd ex mr mw me
2aaaaac00000-2aaaab000000 rw-p 00000000 00:0f 1   /anon_hugepage\xff (deleted)
Size:               4096 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
7ffe0000-7fff0000 rw-p 00000000 00:00 0
Size:                 64 kB
7fff0000-7fff1000 rw-p 00000000 00:00 0
KernelPageSize:        odd
";

    #[test]
    fn reads_smaps() {
        let at = |address| in_smaps(SMAPS, address);
        assert_eq!(at(0x0040_0000), Some(4096));
        assert_eq!(at(0x2aaa_aaff_ffff), Some(2 << 20));
        assert_eq!(at(0x0045_2000), None, "between mappings");
        assert_eq!(at(0x7ffe_0000), None, "no such line");
        assert_eq!(at(0x7fff_0000), None, "no number");
    }

    #[test]
    fn of_this_process() {
        let here = Box::new(0u8);
        let address = (&raw const *here).addr();
        let file = File::open("/proc/self/smaps").unwrap();
        let base = rustix::param::page_size();
        assert_eq!(in_smaps(BufReader::new(file), address), Some(base));
        assert_eq!(at(address), Some(base));
        assert_eq!(super::base(), base);
        assert_eq!(at(0), None);
    }
}
