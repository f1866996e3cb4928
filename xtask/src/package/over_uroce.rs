//! In the throw-away root: the release's own programs over the device in user space, as a user
//! without rights.
#![forbid(unsafe_code)]

use std::process::Command;

use anyhow::{Result, bail};

use crate::host::must;

/// The user that Debian has for what may do nothing.
const USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Starts `$1` and, when its port (`$0`, in hexadecimal) listens, `$2`.
const PAIR: &str = r#"
$1 & server=$!
until grep -qE ":$0 [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; do
    kill -0 $server && sleep 0.1 || exit 1
done
$2 && wait $server"#;

/// Two programs that talk to each other.
struct Pair {
    port: &'static str,
    server: &'static str,
    client: &'static str,
    says: &'static str,
}

const PAIRS: [Pair; 3] = [
    Pair {
        port: "4853",
        server: "ibv_rc_pingpong -d uroce_lo -g 0 -n 100",
        client: "ibv_rc_pingpong -d uroce_lo -g 0 -n 100 127.0.0.1",
        says: "100 iters in",
    },
    Pair {
        port: "4853",
        server: "ib_write_bw -d uroce_lo -n 100 -s 4096",
        client: "ib_write_bw -d uroce_lo -n 100 -s 4096 127.0.0.1",
        says: "BW average",
    },
    Pair {
        port: "4853",
        server: "ib_send_lat -d uroce_lo -n 100 -s 64",
        client: "ib_send_lat -d uroce_lo -n 100 -s 64 127.0.0.1",
        says: "t_typical",
    },
];

/// Runs them; `add` takes each result.
pub(super) fn run(mut add: impl FnMut(&str, Result<()>) -> Result<()>) -> Result<()> {
    must(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    add("over uroce: ibv_devinfo", device())?;
    for pair in &PAIRS {
        let name = pair.server.split(' ').next().unwrap_or_default();
        add(&format!("over uroce: {name}"), talk(pair))?;
    }
    Ok(())
}

/// A command of that user, with the device.
fn command(words: &[&str]) -> Vec<String> {
    let mut command = vec!["setpriv".to_owned()];
    command.extend(USER.iter().chain(words).map(|&word| word.to_owned()));
    command
}

fn device() -> Result<()> {
    let words = command(&["ibv_devinfo", "-d", "uroce_lo"]);
    let mut program = Command::new("env");
    let text = must(program.args(words).env("UROCE_DEVICES", "lo"))?;
    if !text.contains("PORT_ACTIVE") {
        bail!("{text}");
    }
    Ok(())
}

fn talk(pair: &Pair) -> Result<()> {
    let words = ["sh", "-c", PAIR, pair.port, pair.server, pair.client];
    let mut program = Command::new("env");
    let text = must(program.args(command(&words)).env("UROCE_DEVICES", "lo"))?;
    if !text.contains(pair.says) {
        bail!("{text}");
    }
    Ok(())
}
