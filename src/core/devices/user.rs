#![forbid(unsafe_code)]
//! Devices in user space: uroce's, one for each network interface that the configuration names.

use crate::core::log;
use kit::abi::handle::HeldDevice;
use kit::errno::Result;
use kit::log::Level;
use kit::sys::{forks, lock::Lock};
use uroce::list::{Device, Listing};

/// The devices known so far.
pub struct UserSpace(Lock<Known>);

struct Known {
    devices: Vec<(Device, HeldDevice)>,
    /// The complaints that were logged last, so that a program that lists often logs each once.
    logged: Vec<String>,
}

impl UserSpace {
    /// None yet.
    pub const fn new() -> Self {
        Self(Lock::new(Known {
            devices: Vec::new(),
            logged: Vec::new(),
        }))
    }

    /// Has fork(2) wait while another thread makes a list.
    pub fn across_forks(&'static self) {
        // As in the module above.
        let _ = forks::wait_for(&self.0);
    }

    /// The present devices, with a reference to each: earlier ones are kept, new ones are made.
    /// `say` gets a message about a missing interface, with advice, once.
    pub fn refresh(
        &self,
        list: &dyn Fn() -> Listing,
        make: &dyn Fn(&Device) -> Result<HeldDevice>,
        say: &dyn Fn(&str),
    ) -> Vec<HeldDevice> {
        let mut known = self.0.lock();
        let mut listing = list();
        let before = std::mem::take(&mut known.devices);
        for device in listing.devices {
            let same = before.iter().find(|(known, _)| *known == device);
            let held = match same {
                Some((_, held)) => Ok(held.clone()),
                None => make(&device),
            };
            match held {
                Ok(held) => known.devices.push((device, held)),
                Err(e) => listing.complaints.push(not_made(&device, e.raw())),
            }
        }
        let logged = std::mem::replace(&mut known.logged, listing.complaints);
        let new = known.logged.iter().filter(|line| !logged.contains(line));
        new.for_each(|line| say(line));
        let held = known.devices.iter().map(|(_, held)| held.clone()).collect();
        drop(known);
        // Devices that are gone go back to their provider, which may take its time.
        drop(before);
        held
    }
}

fn not_made(device: &Device, errno: i32) -> String {
    format!("no device {}: errno {errno}", device.name)
}

/// Writes a complaint to the log.
pub fn complain(line: &str) {
    log::line(Level::Warning, &format!("uroce: {line}"));
}
