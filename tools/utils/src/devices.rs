//! `ibv_devices`: the devices and their GUIDs.

use std::io::{self, Write};

use serde_json::{Value, json};
use verbs::tools::getopt::Options;

use crate::program::{Step, devices, print_json};

/// Runs the program. Beside `--json`, its words are not looked at, as rdma-core's are not.
///
/// # Errors
/// Status 1, with the reason on stderr.
pub fn run(_: Options) -> Result<(), u8> {
    let json = std::env::args_os().any(|word| word == "--json");
    list(json).map_err(|failed| failed.0)
}

fn list(json: bool) -> Step {
    let devices = devices(1)?;
    let rows = devices
        .iter()
        .map(|device| (device.name(), format!("{:016x}", device.guid())));
    if json {
        let rows: Vec<Value> = rows
            .map(|(device, guid)| json!({"device": device, "node_guid": guid}))
            .collect();
        return print_json(&rows.into());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "    {:<16}\t   node GUID", "device")?;
    writeln!(out, "    {:<16}\t----------------", "------")?;
    for (device, guid) in rows {
        writeln!(out, "    {device:<16}\t{guid}")?;
    }
    Ok(())
}
