//! The lines of an answer, in printable characters alone, and the sums of the counters of each
//! device's queue pairs.

use crate::ask::Answer;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a line, and lines of a process, that are printed at most. A process has 16384 queue
/// pairs at most, and shows as many ids of the connection manager.
const LONGEST: usize = 1024;
const MOST: usize = 2 * 16_384 + 16;
/// Devices, and counters of each, that are summed up at most.
const DEVICES: usize = 4096;
const COUNTERS: usize = 64;

type Sums = BTreeMap<String, u64>;

/// Sums by device.
#[derive(Debug, Default)]
pub struct Devices(BTreeMap<String, Sums>);

/// The number of the process that an answer is about: the kernel's word, or else its own.
#[must_use]
pub fn process_of(answer: &Answer) -> Option<u32> {
    answer.process.or_else(|| {
        let line = answer.text.split(|byte| *byte == b'\n').next()?;
        let rest = std::str::from_utf8(line).ok()?.strip_prefix("process ")?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// The lines of an answer, as they are printed, and whether they are all.
#[must_use]
pub fn lines(answer: &Answer) -> (Vec<String>, bool) {
    let process = process_of(answer);
    let mut lines = Vec::new();
    let mut is_whole = true;
    for line in answer.text.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        if lines.len() >= MOST {
            return (lines, false);
        }
        if line.len() > LONGEST {
            is_whole = false;
            continue;
        }
        lines.push(printable(line, process));
    }
    (lines, is_whole)
}

/// A line in printable characters of ASCII alone, and with the right process number.
fn printable(line: &[u8], process: Option<u32>) -> String {
    let mut text = escaped(line);
    let mut words = text.split(' ');
    if let (Some("process"), Some(_), Some(process)) = (words.next(), words.next(), process) {
        let rest: Vec<_> = words.collect();
        text = format!("process {process} {}", rest.join(" "));
    }
    text
}

/// Printable characters of ASCII as they are, all other bytes by their number.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() || *byte == b' ' {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The name of a program, as one printable word.
#[must_use]
pub fn printable_name(name: &[u8]) -> String {
    escaped(name.trim_ascii()).replace(' ', "_")
}

impl Devices {
    /// Adds what queue pairs have counted to their devices.
    pub fn add(&mut self, lines: &[String]) {
        for line in lines.iter().filter(|line| line.starts_with("qp ")) {
            self.add_pair(line);
        }
    }

    fn add_pair(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut pairs = words.chunks_exact(2).filter_map(|pair| match pair {
            [name, value] => Some((*name, *value)),
            _ => None,
        });
        let Some((_, device)) = pairs.by_ref().find(|(name, _)| *name == "device") else {
            return;
        };
        if self.0.len() >= DEVICES && !self.0.contains_key(device) {
            return;
        }
        let sums = self.0.entry(device.to_owned()).or_default();
        for (name, value) in std::iter::once(("qps", "1")).chain(pairs) {
            let Ok(value) = value.parse::<u64>() else {
                continue;
            };
            if sums.len() >= COUNTERS && !sums.contains_key(name) {
                continue;
            }
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(value);
        }
    }

    /// The sums by device and counter.
    pub fn sums(&self) -> &BTreeMap<String, BTreeMap<String, u64>> {
        &self.0
    }

    /// A line for each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(device, sums)| {
            let mut line = format!("device {device}");
            for (name, sum) in sums {
                let _ = write!(line, " {name} {sum}");
            }
            line
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "process 7 slot 3\n\
        network packets_sent 9 packets_refused 0\n\
        qp 0x00c001 device uroce_lo type RC state RTS packets_sent 4 errors 0\n\
        qp 0x00c002 device uroce_lo type UD state RTS packets_sent 5 errors 1\n\
        qp 0x00c003 device uroce_eth0 type UD state INIT packets_sent 0 errors 0\n";

    fn answer(process: Option<u32>, text: &[u8]) -> Answer {
        Answer {
            process,
            text: text.to_vec(),
        }
    }

    #[test]
    fn queue_pairs_add_up_by_device() {
        let mut devices = Devices::default();
        let (lines, is_whole) = lines(&answer(None, TEXT.as_bytes()));
        assert!(is_whole && lines.len() == 5);
        devices.add(&lines);
        devices.add(&lines);
        let of = |device: &str, name: &str| devices.0[device][name];
        assert_eq!(of("uroce_lo", "packets_sent"), 18);
        assert_eq!((of("uroce_lo", "errors"), of("uroce_lo", "qps")), (2, 4));
        assert_eq!(of("uroce_eth0", "qps"), 2);
        let first = devices.lines().next();
        assert_eq!(
            first.as_deref(),
            Some("device uroce_eth0 errors 0 packets_sent 0 qps 2")
        );
    }

    #[test]
    fn the_process_number_is_the_kernels() {
        let lied = answer(Some(9), TEXT.as_bytes());
        assert_eq!(process_of(&lied), Some(9));
        assert_eq!(lines(&lied).0[0], "process 9 slot 3");
        let hidden = answer(None, TEXT.as_bytes());
        assert_eq!(process_of(&hidden), Some(7));
        assert_eq!(process_of(&answer(None, b"qp 7")), None);
    }

    #[test]
    fn nothing_is_printed_raw_or_without_end() {
        let hostile = b"process 1 slot \x1b[2J\r\n\xff\x00\xc2\x9b\n".to_vec();
        let (shown, is_whole) = lines(&answer(None, &hostile));
        assert!(is_whole);
        assert_eq!(
            shown,
            ["process 1 slot \\x1b[2J\\x0d", "\\xff\\x00\\xc2\\x9b"]
        );
        let (shown, is_whole) = lines(&answer(None, &[b'x'; 2 * LONGEST]));
        assert!(shown.is_empty() && !is_whole);
        let (shown, is_whole) = lines(&answer(None, "x\n".repeat(MOST + 1).as_bytes()));
        assert!(shown.len() == MOST && !is_whole);
    }

    #[test]
    fn sums_have_bounds() {
        let mut devices = Devices::default();
        for device in 0..2 * DEVICES {
            devices.add(&[format!("qp 1 device d{device} errors 1")]);
        }
        assert_eq!(devices.0.len(), DEVICES);
        for counter in 0..2 * COUNTERS {
            devices.add(&[format!("qp 1 device d0 c{counter} {}", u64::MAX)]);
            devices.add(&[format!("qp 1 device d0 c{counter} 1")]);
        }
        assert_eq!(devices.0["d0"].len(), COUNTERS);
        assert_eq!(devices.0["d0"]["c0"], u64::MAX);
    }
}
