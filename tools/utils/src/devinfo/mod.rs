//! `ibv_devinfo`: the attributes of devices and ports.

mod json;
mod shown;
mod text;

use shown::{Shown, Trouble};
use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
};

use serde_json::Value;
use verbs::tools::{
    Context, Device,
    getopt::{Opt, Options},
};

use crate::{
    numbers::{int, number},
    program::{JSON_USAGE, Step, devices, print_json},
};

/// Its options.
pub const OPTIONS: &[Opt] = &[
    Opt::new('d', "ib-dev", true),
    Opt::new('i', "ib-port", true),
    Opt::new('l', "list", false),
    Opt::new('v', "verbose", false),
];

/// The status of most failures: -1, as C programs return it.
const FAILED: u8 = 255;

/// The options of the command line.
#[derive(Default)]
struct Args {
    device: Option<OsString>,
    /// 0 for all.
    port: i32,
    verbose: bool,
    json: bool,
}

/// Runs the program.
///
/// # Errors
/// 255, or the status of the failure (`Trouble`); of several devices, all bits.
pub fn run(mut options: Options) -> Result<(), u8> {
    let mut args = Args::default();
    let mut list_only = false;
    for (name, value) in options.by_ref() {
        match name {
            'd' => args.device = Some(value),
            'i' => {
                args.port = int(number(&value));
                if args.port <= 0 {
                    print!("{}", usage(&options.program));
                    return Err(1);
                }
            }
            'v' => args.verbose = true,
            'J' => args.json = true,
            'l' => {
                list_only = true;
                break;
            }
            _ => {
                print!("{}", usage(&options.program));
                return Err(FAILED);
            }
        }
    }
    // `-l` ends the reading, but `--json` counts wherever it stands.
    args.json |= list_only && std::env::args_os().any(|word| word == "--json");
    let done = if list_only {
        list(args.json)
    } else {
        show(&args)
    };
    done.map_err(|failed| failed.0)
}

fn usage(program: &str) -> String {
    format!(
        "Usage: {program}             print the ca attributes\n\
         \n\
         Options:\n\
         \x20 -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n\
         \x20 -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n\
         \x20 -l, --list             print only the IB devices names\n\
         \x20 -v, --verbose          print all the attributes of the IB device(s)\n\
         {JSON_USAGE}"
    )
}

fn list(json: bool) -> Step {
    let devices = devices(FAILED)?;
    let names = devices.iter().map(Device::name);
    if json {
        return print_json(&names.collect::<Vec<_>>().into());
    }
    let mut out = io::stdout().lock();
    let plural = if devices.len() == 1 { "" } else { "s" };
    writeln!(out, "{} HCA{plural} found:", devices.len())?;
    for name in names {
        writeln!(out, "\t{name}")?;
    }
    Ok(writeln!(out)?)
}

fn show(args: &Args) -> Step {
    let devices = devices(FAILED)?;
    let name = args.device.as_ref().map(|name| name.as_bytes());
    let chosen: Vec<Device<'_>> = match name {
        Some(name) => devices.find(Some(name)).into_iter().collect(),
        None => devices.iter().collect(),
    };
    if chosen.is_empty() {
        match &args.device {
            Some(name) => eprintln!("IB device '{}' wasn't found", name.to_string_lossy()),
            None => eprintln!("No IB devices found"),
        }
        return Err(crate::program::Failed(FAILED));
    }
    let (mut status, mut found) = (0, Vec::new());
    for device in chosen {
        let mut out = io::stdout().lock();
        let reported = report(device, args, &mut out, &mut found);
        status |= reported.err().map_or(0, Trouble::status);
        out.flush()?;
    }
    if args.json {
        print_json(&Value::from(found))?;
    }
    match status {
        0 => Ok(()),
        status => Err(crate::program::Failed(status)),
    }
}

fn report(
    device: Device<'_>,
    args: &Args,
    out: &mut impl Write,
    found: &mut Vec<Value>,
) -> Result<(), Trouble> {
    let context = device
        .open()
        .map_err(|_| Trouble::Open.with_message("Failed to open device"))?;
    let reported = report_open(device, &context, args, out, found);
    let closed = context.close();
    if closed.is_err() {
        eprint!("Failed to close device");
        return Err(Trouble::Close);
    }
    reported
}

fn report_open(
    device: Device<'_>,
    context: &Context,
    args: &Args,
    out: &mut impl Write,
    found: &mut Vec<Value>,
) -> Result<(), Trouble> {
    let attr = context
        .query_device()
        .map_err(|_| Trouble::Query.with_message("Failed to query device props"))?;
    let ports = attr.orig_attr.phys_port_cnt;
    // C passes the number as a byte.
    let port = crate::numbers::byte(args.port);
    if port > ports {
        return Err(Trouble::Port.with_message("Invalid port requested for device"));
    }
    let shown = Shown {
        device,
        context,
        attr,
        verbose: args.verbose,
    };
    let mut object = json::device(&shown);
    if !args.json {
        text::device(&shown, out)?;
    }
    let mut of_ports = Vec::new();
    let all = (1..=ports).filter(|number| port == 0 || port == *number);
    for number in all {
        let attr = shown.context.query_port(number).map_err(|error| {
            Trouble::errno(&error).with_message(&format!("Failed to query port {number} props"))
        })?;
        if args.json {
            of_ports.push(json::port(&shown, number, &attr)?);
        } else {
            text::port(&shown, number, &attr, out)?;
        }
    }
    json::add_ports(&mut object, of_ports);
    found.push(object);
    Ok(())
}
