//! Providers: those that /etc/libibverbs.d names, and the kinds of their files.

use std::{fs, io::Read, path::Path};

use memchr::memmem;

use super::{
    Probe, library,
    root::{names, read},
};
use crate::facts::{Plugin, PluginState};

/// The generation of the private interface that every library since rdma-core 34 has.
const USUAL: u16 = 34;
/// Prefix of a private node, in the library and in the imports of providers.
const NODE: &[u8] = b"IBVERBS_PRIVATE_";

/// Where distributions keep providers.
const FOLDERS: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/libibverbs",
    "usr/lib/aarch64-linux-gnu/libibverbs",
    "usr/lib/riscv64-linux-gnu/libibverbs",
    "usr/lib/powerpc64le-linux-gnu/libibverbs",
    "usr/lib64/libibverbs",
    "usr/lib/libibverbs",
    "usr/local/lib/libibverbs",
];

/// `e_machine` of this program.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else if cfg!(target_arch = "powerpc64") {
    21
} else {
    62
};

pub(super) fn all(probe: &Probe) -> Vec<Plugin> {
    let config = probe.file("etc/libibverbs.d");
    let ours = of_library();
    let mut plugins: Vec<Plugin> = Vec::new();
    for file in names(&config) {
        for line in read(&config.join(file)).lines() {
            let mut words = line.split_whitespace();
            if words.next() != Some("driver") {
                continue;
            }
            let Some(name) = words.next() else {
                continue;
            };
            let new = !plugins.iter().any(|plugin| plugin.name == name);
            if new {
                plugins.push(Plugin {
                    state: state(probe, name, &ours),
                    name: name.to_owned(),
                });
            }
        }
    }
    plugins
}

/// The generations that the library has which this program runs on: its file names them.
fn of_library() -> Vec<u16> {
    let mut found = generations(library::bytes());
    if found.is_empty() {
        found.push(USUAL);
    }
    found
}

/// The latest file that the library can load decides, as it does when providers are loaded.
fn state(probe: &Probe, name: &str, ours: &[u16]) -> PluginState {
    let start = format!("lib{name}-rdmav");
    let number = |file: &str| {
        let digits = file.strip_prefix(&start)?.strip_suffix(".so")?;
        digits.parse::<u16>().ok()
    };
    let mut other = None;
    for folder in FOLDERS {
        let folder = probe.file(folder);
        let files = names(&folder);
        let there = files.iter().filter_map(|file| Some((number(file)?, file)));
        let (known, unknown): (Vec<_>, Vec<_>) = there.partition(|(of, _)| ours.contains(of));
        if let Some((_, file)) = known.iter().max() {
            return look(&folder.join(file), ours);
        }
        other = other.or(unknown.iter().map(|(of, _)| *of).max());
    }
    match other {
        Some(theirs) => PluginState::Generation(theirs, ours.to_vec()),
        None => PluginState::Missing,
    }
}

/// Reads the header of a shared object, and which private symbols it asks for.
fn look(path: &Path, ours: &[u16]) -> PluginState {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    if let Err(error) = read {
        return PluginState::Damaged(error.to_string());
    }
    let [0x7f, b'E', b'L', b'F', ..] = bytes.as_slice() else {
        return PluginState::Damaged("no ELF file".into());
    };
    let Some([low, high]) = bytes.get(18..20) else {
        return PluginState::Damaged("the file ends early".into());
    };
    let machine = u16::from_le_bytes([*low, *high]);
    if machine != MACHINE {
        return PluginState::Foreign(machine, MACHINE);
    }
    match generations(&bytes).first() {
        Some(theirs) if !ours.contains(theirs) => PluginState::Generation(*theirs, ours.to_vec()),
        _ => PluginState::Fine,
    }
}

/// The numbers of the private nodes that a file names.
fn generations(bytes: &[u8]) -> Vec<u16> {
    let mut found = Vec::new();
    for at in memmem::find_iter(bytes, NODE) {
        let behind = bytes.get(at + NODE.len()..).unwrap_or_default();
        let digits: String = behind
            .iter()
            .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
            .collect();
        // The name of a node ends with a zero; a sentence about one does not.
        let ends = behind.get(digits.len()) == Some(&0);
        if let Ok(number) = digits.parse()
            && ends
            && !found.contains(&number)
        {
            found.push(number);
        }
    }
    found.sort_unstable();
    found
}
