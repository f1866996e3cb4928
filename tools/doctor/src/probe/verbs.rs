//! The facts from libibverbs about the devices that programs get.

use std::io;

use verbs::tools::{
    Context, Devices,
    abi::{IBV_ACCESS_LOCAL_WRITE, IBV_GID_TYPE_ROCE_V2},
    firmware,
    memory::{Memory, NoMemory, Pd, Registration},
};

use super::library;
use crate::facts::{Verbs, VerbsDevice, VerbsGid, VerbsPort};

/// Size of the test registration, which shows whether memory may be pinned: a usual set of buffers.
const REGISTERED: usize = 1 << 20;

/// Asks the library for its devices, opens each and asks it for its ports.
#[must_use]
pub fn all() -> Verbs {
    let devices = match Devices::list() {
        Ok(devices) => devices,
        Err(error) => {
            return Verbs {
                error: Some(errno(&error)),
                devices: Vec::new(),
                has_uroce: library::has_uroce(),
            };
        }
    };
    let devices = devices.iter().map(|device| {
        let mut found = VerbsDevice {
            name: device.name(),
            kernel: device.is_kernel(),
            ..VerbsDevice::default()
        };
        match device.open() {
            Ok(context) => ask(&context, &mut found),
            Err(error) => found.error = Some(errno(&error)),
        }
        found
    });
    Verbs {
        error: None,
        devices: devices.collect(),
        has_uroce: library::has_uroce(),
    }
}

/// An error's number and words.
fn errno(error: &io::Error) -> (i32, String) {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    (error.raw_os_error().unwrap_or(0), words.to_owned())
}

fn ask(context: &Context, found: &mut VerbsDevice) {
    let Ok(attr) = context.query_device() else {
        return;
    };
    found.firmware = firmware(&attr);
    found.registration = register(context).err().map(|error| {
        let (number, words) = errno(&error);
        (number, words, u64::try_from(REGISTERED).unwrap_or(0))
    });
    let ports = 1..=attr.orig_attr.phys_port_cnt;
    found.ports = ports.filter_map(|number| port(context, number)).collect();
}

fn register(context: &Context) -> io::Result<()> {
    let pd = Pd::new(context)?;
    let how = Registration {
        access: IBV_ACCESS_LOCAL_WRITE,
        ..Registration::default()
    };
    match Memory::new(&pd, REGISTERED, 0, how) {
        Ok(_) => Ok(()),
        Err(NoMemory::Process(error) | NoMemory::Device(error) | NoMemory::Registration(error)) => {
            Err(error)
        }
    }
}

/// A port; `None` if it cannot be asked.
#[must_use]
pub fn port(context: &Context, number: u8) -> Option<VerbsPort> {
    let attr = context.query_port(number).ok()?;
    Some(VerbsPort {
        number,
        state: attr.state,
        link_layer: attr.link_layer,
        active_mtu: bytes(attr.active_mtu),
        max_mtu: bytes(attr.max_mtu),
        lid: attr.lid,
        gids: gids(context, number),
    })
}

/// The GIDs of a port, by one call: tables have a thousand places, nearly all of them empty.
fn gids(context: &Context, number: u8) -> Vec<VerbsGid> {
    let places = |number| {
        let attr = context.query_port(number).ok()?;
        usize::try_from(attr.gid_tbl_len).ok()
    };
    let ports = context
        .query_device()
        .map_or(number, |attr| attr.orig_attr.phys_port_cnt);
    let most = (1..=ports).filter_map(places).sum();
    let entries = context.query_gid_table(most).unwrap_or_default();
    let of_port = entries
        .into_iter()
        .filter(|entry| entry.port == u32::from(number));
    let gids = of_port.map(|entry| VerbsGid {
        index: entry.index,
        raw: entry.gid,
        roce_v2: entry.gid_type == IBV_GID_TYPE_ROCE_V2,
        interface: entry.interface,
    });
    gids.collect()
}

/// `enum ibv_mtu` in bytes.
fn bytes(mtu: u32) -> u32 {
    match mtu {
        1..=5 => 128 << mtu,
        _ => 0,
    }
}
