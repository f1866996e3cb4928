#![forbid(unsafe_code)]
//! The log: messages up to VERBS_LOG_LEVEL go to VERBS_LOG_FILE.
//!
//! Without a file, or with one that cannot be opened, nothing is logged.

use super::config;
use kit::log::Level;
use kit::sys::output::Output;
use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

/// Messages of a higher level are dropped; 0 until the file is open.
static LEVEL: AtomicU32 = AtomicU32::new(0);
static FILE: OnceLock<Output> = OnceLock::new();

/// Reads the environment and opens the log. Later calls change nothing.
pub fn init() {
    let level = config::number("VERBS_LOG_LEVEL").unwrap_or(0);
    let Ok(level @ 1..) = u32::try_from(level) else {
        return;
    };
    let Some(path) = config::trusted("VERBS_LOG_FILE") else {
        return;
    };
    let Ok(file) = Output::open("VERBS_LOG_FILE", &path) else {
        return;
    };
    if FILE.set(file).is_ok() {
        LEVEL.store(level, Ordering::Release);
        kit::log::send_to(line);
    }
}

/// Writes one line in the library's name, if messages of the level are kept.
pub fn line(level: Level, text: &str) {
    if wants(level as u32) {
        write(format!("libibverbs: {text}\n").as_bytes());
    }
}

/// Whether messages of this level are kept.
pub fn wants(level: u32) -> bool {
    level <= LEVEL.load(Ordering::Acquire)
}

/// Writes one message, which brings its own line end.
pub fn write(text: &[u8]) {
    if let Some(file) = FILE.get() {
        file.write(text);
    }
}
