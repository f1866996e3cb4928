//! `ibv_asyncwatch`: prints the asynchronous events of a device as they come.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
};

use serde_json::json;
use verbs::tools::getopt::{Opt, Options};

use crate::{
    program::{Failed, JSON_USAGE, Step, devices, fail, print_json, text},
    words,
};

/// Its options.
pub const OPTIONS: &[Opt] = &[Opt::new('d', "ib-dev", true), Opt::new('h', "help", false)];

/// Runs the program, until it is ended or the device is gone.
///
/// # Errors
/// Status 1, with the reason on stderr.
pub fn run(mut options: Options) -> Result<(), u8> {
    let (mut device, mut json) = (None, false);
    for (name, value) in options.by_ref() {
        match name {
            'd' => device = Some(value),
            'J' => json = true,
            other => {
                print!("{}", usage(&options.program));
                return if other == 'h' { Ok(()) } else { Err(1) };
            }
        }
    }
    watch(device, json).map_err(|failed| failed.0)
}

fn usage(program: &str) -> String {
    format!(
        "Usage:\n\
         \x20 {program}            start an asyncwatch process\n\
         \n\
         Options:\n\
         \x20 -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n\
         \x20 -h, --help             print a help text and exit\n\
         {JSON_USAGE}"
    )
}

fn watch(wanted: Option<OsString>, json: bool) -> Step {
    let devices = devices(1)?;
    let name = wanted.as_ref().map(|name| name.as_bytes());
    let Some(device) = devices.find(name) else {
        let name = wanted.as_ref().map(text).unwrap_or_default();
        return fail(format!("IB device {name} not found"));
    };
    let name = device.name();
    let Ok(context) = device.open() else {
        return fail(format!("Couldn't get context for {name}"));
    };
    let mut out = io::stdout();
    if json {
        print_json(&json!({"device": name, "async_fd": context.async_fd()}))?;
    } else {
        writeln!(out, "{name}: async event FD {}", context.async_fd())?;
    }
    loop {
        let Ok((event, port)) = context.async_event() else {
            return Err(Failed(1));
        };
        let word = words::event(event);
        if json {
            print_json(&json!({"event_type": word, "number": event, "port": port}))?;
        } else {
            writeln!(out, "  event_type {word} ({event}), port {port}")?;
        }
    }
}
