//! Reads the file. Its form is explained in the library's `core::trace`.

use std::collections::BTreeMap;

const MAGIC: &[u8] = b"IBVT";
/// The first version has neither threads nor words that repeat.
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=2;
const NAMES: u8 = 0;
const RECORDS: u8 = 1;
const THREADS: u8 = 2;
const HEAD: usize = 24;

/// A call as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The process.
    pub process: u32,
    /// The number of its name.
    pub name: usize,
    /// The thread.
    pub thread: u64,
    /// When it began, nanoseconds.
    pub begin: u64,
    /// How long it took, nanoseconds.
    pub took: u64,
    /// The errno of a failure, 0 for none.
    pub error: u64,
    /// The result.
    pub value: u64,
    /// Arguments, and the recorded members of structures.
    pub words: Vec<u64>,
}

/// The names of a call and of its words.
#[derive(Debug)]
struct Names {
    call: String,
    /// Of the first words.
    first: Vec<String>,
    /// Of those after them, over and over: once for each request or completion.
    repeated: Vec<String>,
}

/// What the file contains about a process.
#[derive(Debug, Default)]
pub struct Process {
    /// The name of its program.
    pub name: String,
    /// Its threads, by their numbers in the file: the kernel's number of the thread, and its name.
    pub threads: BTreeMap<u64, (u32, String)>,
}

/// All calls of a file, by the time at which they began.
#[derive(Debug, Default)]
pub struct Trace {
    names: BTreeMap<u32, Vec<Names>>,
    /// Those that a process described.
    pub processes: BTreeMap<u32, Process>,
    /// The calls.
    pub calls: Vec<Call>,
    /// Why the file could not be read to its end.
    pub cut_short: Option<String>,
}

impl Trace {
    fn entry(&self, call: &Call) -> Option<&Names> {
        self.names.get(&call.process)?.get(call.name)
    }

    /// The name of a call.
    pub fn name(&self, call: &Call) -> &str {
        self.entry(call).map_or("?", |names| &names.call)
    }

    /// Its first words with their names.
    pub fn words<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = (&'a str, u64)> {
        let names = self.entry(call);
        let first = names.map_or(&[][..], |names| &names.first);
        let repeats = names.is_some_and(|names| !names.repeated.is_empty());
        let count = if repeats { first.len() } else { usize::MAX };
        let words = call.words.iter().enumerate().take(count);
        words.map(|(at, word)| (first.get(at).map_or("arg", String::as_str), *word))
    }

    /// The words that repeat, with their names: one group for each request or completion.
    pub fn groups<'a>(
        &'a self,
        call: &'a Call,
    ) -> impl Iterator<Item = impl Iterator<Item = (&'a str, u64)> + Clone> {
        let names = self.entry(call);
        let repeated = names.map_or(&[][..], |names| &names.repeated);
        let first = names.map_or(0, |names| names.first.len());
        let words = match repeated {
            [] => &[],
            _ => call.words.get(first..).unwrap_or(&[]),
        };
        let group = |words: &'a [u64]| {
            let names = repeated.iter().map(String::as_str);
            names.zip(words.iter().copied())
        };
        words.chunks_exact(repeated.len().max(1)).map(group)
    }

    /// The word of a name among the first ones.
    pub fn word(&self, call: &Call, name: &str) -> Option<u64> {
        let mut words = self.words(call);
        words.find_map(|(found, word)| (found == name).then_some(word))
    }
}

/// Reads a file.
///
/// # Errors
/// If it is not a trace, or one of another version.
pub fn read(bytes: &[u8]) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((head, behind)) = rest.split_at_checked(HEAD) else {
            trace.cut_short = Some("the file ends inside a chunk".to_owned());
            break;
        };
        if !head.starts_with(MAGIC) {
            if trace.calls.is_empty() && trace.names.is_empty() {
                return Err("not a trace of IBVERBS_TRACE".to_owned());
            }
            trace.cut_short = Some("a chunk is damaged".to_owned());
            break;
        }
        if !head
            .get(4)
            .is_some_and(|version| VERSIONS.contains(version))
        {
            return Err("written by another version of the library".to_owned());
        }
        let length = usize::try_from(u32_at(head, 12)).unwrap_or(usize::MAX);
        let Some((body, next)) = behind.split_at_checked(length) else {
            trace.cut_short = Some("the file ends inside a chunk".to_owned());
            break;
        };
        take(&mut trace, head, body);
        rest = next;
    }
    trace.calls.sort_by_key(|call| call.begin);
    Ok(trace)
}

fn u32_at(head: &[u8], at: usize) -> u32 {
    let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

fn take(trace: &mut Trace, head: &[u8], body: &[u8]) {
    let process = u32_at(head, 8);
    let since = u64::from(u32_at(head, 16)) | u64::from(u32_at(head, 20)) << 32;
    match head.get(5) {
        Some(&NAMES) => {
            let text = String::from_utf8_lossy(body);
            trace
                .names
                .insert(process, text.lines().map(names).collect());
        }
        Some(&THREADS) => {
            let process = trace.processes.entry(process).or_default();
            for line in String::from_utf8_lossy(body).lines() {
                describe(process, line);
            }
        }
        Some(&RECORDS) => {
            let mut body = body;
            while !body.is_empty() {
                let Some(call) = record(&mut body, process, since) else {
                    trace.cut_short = Some("a record is damaged".to_owned());
                    return;
                };
                trace.calls.push(call);
            }
        }
        // Of a later library that knows more.
        _ => {}
    }
}

/// A line of names: the call's, then those of its words.
fn names(line: &str) -> Names {
    let mut words = line.split(' ').map(str::to_owned);
    let call = words.next().unwrap_or_default();
    let first = words.by_ref().take_while(|word| word != "...").collect();
    Names {
        call,
        first,
        repeated: words.collect(),
    }
}

/// Takes over a line about a process or a thread. Lines without a meaning are left out.
fn describe(process: &mut Process, line: &str) {
    if let Some(name) = line.strip_prefix("process ") {
        name.clone_into(&mut process.name);
        return;
    }
    let Some(thread) = line.strip_prefix("thread ") else {
        return;
    };
    let mut words = thread.splitn(3, ' ');
    let number = words.next().and_then(|word| word.parse().ok());
    let id = words.next().and_then(|word| word.parse().ok());
    let name = words.next().unwrap_or_default();
    if let (Some(number), Some(id)) = (number, id) {
        process.threads.insert(number, (id, name.to_owned()));
    }
}

fn record(from: &mut &[u8], process: u32, since: u64) -> Option<Call> {
    let name = usize::try_from(leb128(from)?).ok()?;
    let thread = leb128(from)?;
    let begin = since.wrapping_add(unzigzag(leb128(from)?));
    let (took, error, value) = (leb128(from)?, leb128(from)?, leb128(from)?);
    let count = leb128(from)?;
    // Each word has a byte at least.
    if count > from.len() as u64 {
        return None;
    }
    let words = (0..count).map(|_| leb128(from)).collect::<Option<_>>()?;
    Some(Call {
        process,
        name,
        thread,
        begin,
        took,
        error,
        value,
        words,
    })
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn leb128(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A chunk of process 7.
    pub fn chunk(kind: u8, since: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"IBVT\x01".to_vec();
        bytes.extend_from_slice(&[kind, 0, 0, 7, 0, 0, 0]);
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&since.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Two calls of one process: the one that began first stands second.
    pub fn sample() -> Vec<u8> {
        let mut bytes = chunk(
            NAMES,
            0,
            b"ibv_alloc_pd context\nibv_poll_cq cq num_entries\n",
        );
        let second = [1, 4, 100, 7, 22, 0, 2, 1, 2];
        let first = [0, 4, 20, 90, 0, 0xac, 2, 1, 0x80, 0x80, 4];
        bytes.extend(chunk(RECORDS, 1000, &[&second[..], &first[..]].concat()));
        bytes
    }

    #[test]
    fn words_that_repeat_come_in_groups() {
        let names = b"ibv_poll_cq cq ... wr_id status\n";
        let mut bytes = chunk(NAMES, 0, names);
        bytes.extend(chunk(
            THREADS,
            0,
            b"process my program\nthread 4 70 a b\nodd\n",
        ));
        bytes.extend(chunk(RECORDS, 0, &[0, 4, 0, 1, 0, 2, 5, 1, 77, 0, 78, 5]));
        let trace = read(&bytes).expect("a trace");
        let call = &trace.calls[0];
        assert_eq!(trace.words(call).collect::<Vec<_>>(), [("cq", 1)]);
        let groups: Vec<Vec<_>> = trace.groups(call).map(Iterator::collect).collect();
        assert_eq!(groups[1], [("wr_id", 78), ("status", 5)]);
        assert_eq!(groups.len(), 2);
        let process = &trace.processes[&7];
        assert_eq!(process.name, "my program");
        assert_eq!(process.threads[&4], (70, "a b".to_owned()));
    }

    #[test]
    fn calls_come_in_the_order_of_their_begin() {
        let trace = read(&sample()).expect("a trace");
        assert_eq!(trace.cut_short, None);
        let [first, second] = &trace.calls[..] else {
            panic!("{:?}", trace.calls);
        };
        assert_eq!(
            (trace.name(first), first.begin, first.value),
            ("ibv_alloc_pd", 1010, 300)
        );
        assert_eq!(first.words, [0x1_0000]);
        assert_eq!(
            (trace.name(second), second.begin, second.error),
            ("ibv_poll_cq", 1050, 22)
        );
        let words: Vec<_> = trace.words(second).collect();
        assert_eq!(words, [("cq", 1), ("num_entries", 2)]);
        assert_eq!(trace.groups(second).count(), 0);
    }

    #[test]
    fn damaged_files_are_read_as_far_as_they_go() {
        assert!(read(b"something else that is long enough").is_err());
        let whole = sample();
        for length in 0..whole.len() {
            let _ = read(&whole[..length]).map(|trace| trace.calls.len());
        }
        let cut = read(&whole[..whole.len() - 1]).expect("the names");
        assert!(cut.cut_short.is_some() && cut.calls.is_empty());
        let mut noise = whole.clone();
        for at in 0..noise.len() {
            noise[at] ^= 0xff;
            let _ = read(&noise);
            noise[at] ^= 0xff;
        }
    }
}
