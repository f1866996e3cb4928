//! The test `scale`, with as many queue pairs as the bound is about.
#![forbid(unsafe_code)]

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{
    figure::{Figure, Side},
    row::MEMORY,
};
use crate::{dirs::Dirs, host};

const PAIRS: &str = "10000";
/// Bytes that a queue pair may take.
const MOST: f64 = 4096.0;
/// Where the test prints the memory of idle queue pairs that have moved data.
const PREFIX: &str = "queue pairs, used: ";

/// Fails also if a queue pair does not move data.
pub fn measure(dirs: &Dirs) -> Result<[Figure; 2]> {
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
    let bytes = bytes(&outcome.text).context("the test did not say what a queue pair takes")?;
    let figure = |side, value| Figure {
        row: MEMORY.to_owned(),
        side,
        value,
    };
    Ok([figure(Side::Ours, bytes), figure(Side::Peer, MOST)])
}

fn bytes(text: &str) -> Option<f64> {
    let (_, after) = text.split_once(PREFIX)?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_test_is_read() {
        let text =
            "2000 queue pairs, connected: 1 bytes each\n2000 queue pairs, used: 4242 bytes each\n";
        assert_eq!(bytes(text), Some(4242.0));
        assert_eq!(bytes(""), None);
    }
}
