//! Providers: what /etc/libibverbs.d names, and what the files are.

use std::{fs, io::Read, path::Path};

use super::{Probe, names, read};
use crate::facts::{Plugin, PluginState};

/// The generation of the private interface that the library has, in the names of files and in the
/// symbols that they ask for.
const GENERATION: &str = "34";

/// Where distributions keep providers.
const FOLDERS: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/libibverbs",
    "usr/lib/aarch64-linux-gnu/libibverbs",
    "usr/lib64/libibverbs",
    "usr/lib/libibverbs",
    "usr/local/lib/libibverbs",
];

/// `e_machine` of this program.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

pub(super) fn all(probe: &Probe) -> Vec<Plugin> {
    let config = probe.file("etc/libibverbs.d");
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
                    state: state(probe, name),
                    name: name.to_owned(),
                });
            }
        }
    }
    plugins
}

fn state(probe: &Probe, name: &str) -> PluginState {
    let file = format!("lib{name}-rdmav{GENERATION}.so");
    let mut other = None;
    for folder in FOLDERS {
        let folder = probe.file(folder);
        let path = folder.join(&file);
        if path.exists() {
            return look(&path);
        }
        let start = format!("lib{name}-rdmav");
        let found = names(&folder).into_iter().find_map(|file| {
            let generation = file.strip_prefix(&start)?.strip_suffix(".so")?;
            Some(generation.to_owned())
        });
        other = other.or(found);
    }
    other.map_or(PluginState::Missing, PluginState::Generation)
}

/// Reads the header of a shared object, and which private symbols it asks for.
fn look(path: &Path) -> PluginState {
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
    match generation(&bytes) {
        Some(other) if other != GENERATION => PluginState::Generation(other),
        _ => PluginState::Fine,
    }
}

/// The number in the first `IBVERBS_PRIVATE_…` of a file.
fn generation(bytes: &[u8]) -> Option<String> {
    const NODE: &[u8] = b"IBVERBS_PRIVATE_";
    let at = bytes.windows(NODE.len()).position(|part| part == NODE)?;
    let digits = bytes.get(at + NODE.len()..)?;
    let digits: String = digits
        .iter()
        .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
        .collect();
    Some(digits)
}
