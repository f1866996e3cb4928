//! The test `scale`, with as many queue pairs as the bound is about.
#![forbid(unsafe_code)]

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{
    figure::{Figure, Side},
    row::{MEMORY, WAKE_UPS},
};
use crate::{dirs::Dirs, host};

const PAIRS: &str = "10000";
/// Bytes that a queue pair may take.
const MOST: f64 = 4096.0;
/// Where the test prints the memory of idle queue pairs that have moved data.
const USED: &str = "queue pairs, used: ";
/// Where it prints how often the threads of the library have slept meanwhile.
const IDLE: &str = "queue pairs, idle: ";

/// Fails also if a queue pair does not move data.
pub fn measure(dirs: &Dirs) -> Result<[Figure; 4]> {
    println!("-- {PAIRS} queue pairs");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--release", "-p", "uroce", "--test", "scale", "--"])
        .arg("--nocapture")
        .env("UROCE_SCALE", PAIRS)
        .current_dir(&dirs.root);
    let log = dirs.work.join("bench-uroce-scale.log");
    let outcome = host::run(&mut cargo, &log, None)?;
    if !outcome.status.success() {
        bail!("the test failed; see {}", log.display());
    }
    let bytes =
        number(USED, &outcome.text).context("the test printed no memory of a queue pair")?;
    let wake_ups = number(IDLE, &outcome.text).context("the test printed no wake-ups")?;
    let figure = |row: &str, side, value| Figure {
        row: row.to_owned(),
        side,
        value,
    };
    Ok([
        figure(MEMORY, Side::Ours, bytes),
        figure(MEMORY, Side::Peer, MOST),
        figure(WAKE_UPS, Side::Ours, wake_ups),
        figure(WAKE_UPS, Side::Peer, 1.0),
    ])
}

/// The number behind these words.
fn number(prefix: &str, text: &str) -> Option<f64> {
    let (_, after) = text.split_once(prefix)?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_test_is_read() {
        let text = "\
2000 queue pairs, connected: 1 bytes each
2000 queue pairs, used: 4242 bytes each
2000 queue pairs, idle: 0 wake-ups in 3s
";
        assert_eq!(number(USED, text), Some(4242.0));
        assert_eq!(number(IDLE, text), Some(0.0));
        assert_eq!(number(USED, ""), None);
    }
}
