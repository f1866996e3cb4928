//! `uroce-stat [PROCESS...]`: what the devices and queue pairs of uroce have counted, in the
//! processes of this user (all, for root) and this network namespace that have one open.
//!
//! A line is words: what it is about, then pairs of a name and a value. Lines of a process follow
//! each other, first its own, then its queue pairs; at the end stands a line for each device, with
//! the sums of its queue pairs that are there.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::ExitCode;

const USAGE: &str = "usage: uroce-stat [PROCESS...]\n\
    \n\
    Prints what the queue pairs of uroce have counted, in the processes that have\n\
    a device of it open, or in those named.\n";

/// The processes to tell of, all if none is named; `None` asks for the usage.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Vec<u32>>, String> {
    let mut wanted = Vec::new();
    for word in words {
        if word == "--help" || word == "-h" {
            return Ok(None);
        }
        let process = word.parse();
        wanted.push(process.map_err(|_| format!("{word} is no process number"))?);
    }
    Ok(Some(wanted))
}

fn main() -> ExitCode {
    let wanted = match arguments(std::env::args().skip(1)) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("uroce-stat: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match report(&wanted) {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(e) => {
            eprintln!("uroce-stat: {e}");
            ExitCode::FAILURE
        }
    }
}

fn report(wanted: &[u32]) -> io::Result<String> {
    let mut report = String::new();
    let mut devices = BTreeMap::new();
    for name in names(&fs::read_to_string("/proc/net/unix")?) {
        // A process that has just ended, or is another user's, says nothing.
        let Ok(text) = ask(&name) else {
            continue;
        };
        let process = process_of(&text);
        if wanted.is_empty() || process.is_some_and(|process| wanted.contains(&process)) {
            report.push_str(&text);
            add(&mut devices, &text);
        }
    }
    for (device, sums) in devices {
        let _ = write!(report, "device {device}");
        for (name, sum) in sums {
            let _ = write!(report, " {name} {sum}");
        }
        report.push('\n');
    }
    Ok(report)
}

/// The abstract sockets that processes answer on, each once (a connection has its name, too).
fn names(table: &str) -> Vec<String> {
    let is_ours = |name: &&str| name.starts_with("uroce/") && name.ends_with("/stat");
    let names = table.lines().filter_map(|line| line.rsplit_once('@'));
    let mut names: Vec<_> = names.map(|(_, name)| name).filter(is_ours).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(str::to_owned).collect()
}

fn ask(name: &str) -> io::Result<String> {
    let address = SocketAddr::from_abstract_name(name.as_bytes())?;
    let mut text = String::new();
    UnixStream::connect_addr(&address)?.read_to_string(&mut text)?;
    Ok(text)
}

fn process_of(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("process ")?;
    rest.split_whitespace().next()?.parse().ok()
}

type Sums = BTreeMap<String, u64>;

/// Adds what queue pairs have counted to their devices.
fn add(devices: &mut BTreeMap<String, Sums>, text: &str) {
    for line in text.lines().filter(|line| line.starts_with("qp ")) {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut pairs = words.chunks_exact(2).filter_map(|pair| match pair {
            [name, value] => Some((*name, *value)),
            _ => None,
        });
        let Some((_, device)) = pairs.by_ref().find(|(name, _)| *name == "device") else {
            continue;
        };
        let sums = devices.entry(device.to_owned()).or_default();
        *sums.entry("qps".to_owned()).or_default() += 1;
        for (name, value) in pairs {
            if let Ok(value) = value.parse::<u64>() {
                let sum = sums.entry(name.to_owned()).or_default();
                *sum = sum.saturating_add(value);
            }
        }
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

    #[test]
    fn the_command_line() {
        let of = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(of(&[]), Ok(Some(vec![])));
        assert_eq!(of(&["7", "8"]), Ok(Some(vec![7, 8])));
        assert_eq!(of(&["7", "--help"]), Ok(None));
        for word in ["x", "-7", "4294967296", "--all"] {
            assert!(of(&[word]).is_err(), "{word}");
        }
    }

    #[test]
    fn queue_pairs_add_up_by_device() {
        let mut devices = BTreeMap::new();
        add(&mut devices, TEXT);
        add(&mut devices, TEXT);
        let of = |device: &str, name: &str| devices[device][name];
        assert_eq!(of("uroce_lo", "packets_sent"), 18);
        assert_eq!((of("uroce_lo", "errors"), of("uroce_lo", "qps")), (2, 4));
        assert_eq!(of("uroce_eth0", "qps"), 2);
        assert_eq!(process_of(TEXT), Some(7));
        assert_eq!(process_of("qp 7"), None);
    }

    #[test]
    fn only_sockets_that_answer_are_asked() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 4711 @uroce/3/stat\n\
            0: 00000003 00000000 00000000 0001 03 4712 @uroce/3/stat\n\
            0: 00000002 00000000 00000000 0002 01 4713 @uroce/3\n\
            0: 00000002 00000000 00000000 0002 01 4714 /run/uroce/9/stat\n";
        assert_eq!(names(table), ["uroce/3/stat"]);
    }
}
