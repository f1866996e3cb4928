//! Debian's programs for arm64 over a device of uroce.
#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::{Result, bail};

use super::{
    inside::Inside,
    step::{STAGE, log, must, one, succeeded, watched},
};
use crate::{dirs::Dirs, report::Tally};

/// How often a pair is tried whose requests time out: a program that ends may leave the
/// acknowledgement of its last message to a thread that is not scheduled any more.
const ATTEMPTS: usize = 3;
/// What both kinds of programs print then.
const TIMED_OUT: [&str; 2] = ["retry counter exceeded", "Failed status 12"];

/// Carrier, program and options, and a word that it prints when it has succeeded.
type Pair = (&'static str, &'static str, &'static str);

const PINGPONG: &str = "iters in";
/// What a pingpong prints about a wrong byte, with exit status 0.
const WRONG: &str = "invalid data";
/// Words above perftest's results.
const LATENCY: &str = "t_typical";
const BANDWIDTH: &str = "MsgRate";

/// The pairs. Requests time out after 4 seconds, and 7 retries. `ibv_xsrq_pingpong` is left out,
/// because it waits for ever when one of its requests has timed out; C tests use XRC. Without `-F`
/// perftest ends with an error if it cannot find out how fast the processor's clock is, which
/// happens on a busy machine.
const PAIRS: [Pair; 13] = [
    ("shm", "ibv_rc_pingpong -g 0 -n 20 -c", PINGPONG),
    (
        "shm",
        "ibv_rc_pingpong -g 0 -n 20 -c -e -N -s 65536",
        PINGPONG,
    ),
    ("shm", "ibv_uc_pingpong -g 0 -n 20 -c -e", PINGPONG),
    ("shm", "ibv_ud_pingpong -g 0 -n 20 -c -s 1024", PINGPONG),
    ("shm", "ibv_srq_pingpong -g 0 -n 20 -c", PINGPONG),
    ("shm", "ib_send_lat -x 0 -n 50 -u 20 -F", LATENCY),
    ("shm", "ib_write_bw -x 0 -n 50 -u 20 -F", BANDWIDTH),
    ("shm", "ib_read_lat -x 0 -n 50 -u 20 -F", LATENCY),
    ("shm", "ib_atomic_bw -x 0 -n 50 -u 20 -F", BANDWIDTH),
    ("udp", "ibv_rc_pingpong -g 0 -n 20 -c -e", PINGPONG),
    ("udp", "ib_send_bw -x 0 -n 50 -u 20 -F", BANDWIDTH),
    ("udp", "ib_write_lat -x 0 -n 50 -u 20 -F", LATENCY),
    ("udp", "ib_read_bw -x 0 -n 50 -u 20 -F", BANDWIDTH),
];

/// The port of the first pair.
const PORT: u16 = 18000;

/// Runs all of them.
pub fn run(dirs: &Dirs, inside: &Inside, library: &Path, tally: &mut Tally) {
    println!("-- {STAGE}: Debian's programs over uroce");
    one(tally, "ibv_devinfo", devinfo(dirs, inside, library));
    for (pair, port) in PAIRS.iter().zip(PORT..) {
        let (carrier, line, _) = pair;
        let run = both_ends(dirs, inside, library, pair, port);
        one(tally, &format!("{line} over {carrier}"), run);
    }
}

/// A device of uroce in Debian's program.
fn devinfo(dirs: &Dirs, inside: &Inside, library: &Path) -> Result<()> {
    let mut program = inside.arm64(library, &[("UROCE_DEVICES", "lo")], "/usr/bin/ibv_devinfo");
    let text = must(dirs, "devinfo", program.args(["-d", "uroce_lo"]))?;
    shows_a_device(&text)
}

/// Whether that is in the output of `ibv_devinfo`.
pub fn shows_a_device(text: &str) -> Result<()> {
    let active = |line: &str| line.contains("state:") && line.contains("PORT_ACTIVE");
    if !text.contains("uroce_lo") || !text.lines().any(active) {
        bail!("{text}");
    }
    Ok(())
}

/// Whether both ends of a pingpong have ended well, by their output.
pub fn exchanged(text: &str) -> Result<()> {
    if text.matches(PINGPONG).count() != 2 || text.contains(WRONG) {
        bail!("{text}");
    }
    Ok(())
}

fn both_ends(
    dirs: &Dirs,
    inside: &Inside,
    library: &Path,
    (carrier, line, says): &Pair,
    port: u16,
) -> Result<()> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let port = port.to_string();
    let name = format!("{program}-{port}");
    let mut attempt = 1;
    loop {
        let mut command = inside.script("pair");
        command.arg(library).args([carrier, &*port]);
        command.arg(format!("/usr/bin/{program}"));
        command.args(["-d", "uroce_lo", "-p", &*port]);
        command.args(words.clone());
        let outcome = watched(dirs, &name, &mut command)?;
        let text = &outcome.text;
        if attempt < ATTEMPTS && timed_out(text) {
            println!("-- {STAGE}: {program} once more: a request timed out");
            attempt += 1;
            continue;
        }
        succeeded(&outcome, &log(dirs, &name))?;
        // Of ends that read, only the one that reads prints it.
        if !text.contains(says) || text.contains(WRONG) {
            bail!("{text}");
        }
        return Ok(());
    }
}

fn timed_out(printed: &str) -> bool {
    TIMED_OUT.iter().any(|words| printed.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_timed_out_are_tried_again() {
        assert!(timed_out(
            "Failed status transport retry counter exceeded (12) for wr_id 2\n"
        ));
        assert!(timed_out(
            " Completion with error at client\n Failed status 12: wr_id 0"
        ));
        assert!(!timed_out("Failed status 10: wr_id 0"));
    }
}
