//! The answers of all processes at one moment, as values.

use crate::lines::Devices;
use std::collections::BTreeMap;
use std::time::Instant;

/// Numbers by name.
pub type Counters = BTreeMap<String, u64>;

/// What every process answered at one moment.
#[derive(Debug)]
pub struct Sample {
    /// When the answers were there.
    pub at: Instant,
    /// By slot.
    pub processes: Vec<Process>,
    /// The sums of the queue pairs of each device.
    pub devices: Devices,
}

/// A process that has a device open.
#[derive(Debug, Default)]
pub struct Process {
    /// Its number, if known.
    pub id: Option<u32>,
    /// The name of its program; empty if it cannot be seen from here.
    pub command: String,
    /// Its slot.
    pub slot: String,
    /// Packets of the process as a whole.
    pub network: Counters,
    /// Its queue pairs.
    pub pairs: Vec<Pair>,
    /// All other lines.
    pub others: Vec<Other>,
}

/// A queue pair.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Its number, as text.
    pub number: String,
    /// Values other than numbers: device, type, state, peer, carrier.
    pub words: BTreeMap<String, String>,
    /// The counters.
    pub counters: Counters,
}

/// A line about something else: a word for its kind, its name, and pairs of a name and a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Other {
    /// The first word.
    pub kind: String,
    /// The second one.
    pub name: String,
    /// The rest.
    pub values: Vec<(String, String)>,
}

impl Process {
    /// Reads the lines of a process. Lines without a meaning are left out.
    #[must_use]
    pub fn read(id: Option<u32>, command: String, lines: &[String]) -> Self {
        let mut process = Self {
            id,
            command,
            ..Self::default()
        };
        for line in lines {
            process.add(line);
        }
        process
    }

    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["process", _, ref rest @ ..] => {
                let slot = pairs(rest).find(|(name, _)| *name == "slot");
                self.slot = slot.map_or_else(String::new, |(_, slot)| slot.to_owned());
            }
            ["network", ref rest @ ..] => self.network = split(rest).1,
            ["qp", number, ref rest @ ..] => {
                let (words, counters) = split(rest);
                self.pairs.push(Pair {
                    number: number.to_owned(),
                    words,
                    counters,
                });
            }
            [kind, name, ref rest @ ..] => self.others.push(Other {
                kind: kind.to_owned(),
                name: name.to_owned(),
                values: pairs(rest)
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            }),
            _ => {}
        }
    }
}

impl Pair {
    /// A value that is no number; empty if it is absent.
    #[must_use]
    pub fn word(&self, name: &str) -> &str {
        self.words.get(name).map_or("", String::as_str)
    }

    /// A counter; 0 if it is absent.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

impl Sample {
    /// The same queue pair in this sample.
    #[must_use]
    pub fn find(&self, process: &Process, number: &str) -> Option<&Pair> {
        let is_same = |known: &&Process| known.id == process.id && known.slot == process.slot;
        let known = self.processes.iter().find(is_same)?;
        // Queue pairs are in the order of their numbers, of which all have the same length.
        let at = known
            .pairs
            .binary_search_by(|pair| pair.number.as_str().cmp(number));
        match at {
            Ok(at) => known.pairs.get(at),
            Err(_) => known.pairs.iter().find(|pair| pair.number == number),
        }
    }
}

fn pairs<'a>(words: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    words.chunks_exact(2).filter_map(|pair| match pair {
        [name, value] => Some((*name, *value)),
        _ => None,
    })
}

/// Values that are no numbers, and numbers.
fn split(words: &[&str]) -> (BTreeMap<String, String>, Counters) {
    let (mut texts, mut numbers) = (BTreeMap::new(), Counters::new());
    for (name, value) in pairs(words) {
        match value.parse() {
            Ok(number) => drop(numbers.insert(name.to_owned(), number)),
            Err(_) => drop(texts.insert(name.to_owned(), value.to_owned())),
        }
    }
    (texts, numbers)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Of a process with two queue pairs.
    pub fn process(sent: u64, rnr: u64) -> Process {
        let lines = [
            "process 7 slot 3".to_owned(),
            "network packets_sent 9 packets_refused 0".to_owned(),
            format!(
                "qp 0x00c001 device uroce_lo type RC state RTS peer 127.0.0.1/0x010002 carrier shm \
                 packets_sent 4 bytes_sent {sent} bytes_received 10 rnr_received {rnr} errors 0"
            ),
            "qp 0x00c002 device uroce_lo type UD state INIT bytes_sent 5".to_owned(),
            "listener 7471 owner 7 backlog 5".to_owned(),
            "odd".to_owned(),
        ];
        Process::read(Some(7), "server".to_owned(), &lines)
    }

    pub fn sample(process: Process, at: Instant) -> Sample {
        Sample {
            at,
            processes: vec![process],
            devices: Devices::default(),
        }
    }

    #[test]
    fn lines_become_values() {
        let read = process(8, 1);
        assert_eq!((read.id, read.slot.as_str()), (Some(7), "3"));
        assert_eq!(read.network["packets_sent"], 9);
        let [first, second] = &read.pairs[..] else {
            panic!("{read:?}");
        };
        assert_eq!(first.word("peer"), "127.0.0.1/0x010002");
        assert_eq!((first.counter("bytes_sent"), first.counter("x")), (8, 0));
        assert_eq!((second.word("state"), second.word("peer")), ("INIT", ""));
        let [listener] = &read.others[..] else {
            panic!("{read:?}");
        };
        assert_eq!((&*listener.kind, &*listener.name), ("listener", "7471"));
        assert_eq!(listener.values[1], ("backlog".into(), "5".into()));
    }

    #[test]
    fn a_queue_pair_is_found_again() {
        let sample = sample(process(8, 1), Instant::now());
        let later = process(9, 1);
        let found = sample.find(&later, "0x00c002");
        assert_eq!(found, Some(&sample.processes[0].pairs[1]));
        assert_eq!(sample.find(&later, "0x00c003"), None);
        let other = Process {
            id: Some(8),
            ..process(9, 1)
        };
        assert_eq!(sample.find(&other, "0x00c001"), None);
    }
}
