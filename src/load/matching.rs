#![forbid(unsafe_code)]
//! Which provider takes a device.

use crate::core::{sysfs, warn};
use kit::abi::handle::{Driver, Found, HeldDevice, Match, MatchEntry, SysfsDev};
use kit::errno::Result;
use kit::sys::glob;
use rustix::fs::CWD;
use std::ffi::{CStr, CString};

/// Bytes of `verbs_sysfs_dev::modalias`.
const MODALIAS: usize = 512;

/// Makes the device of `found` with the first provider that takes it: those whose table names the
/// kernel driver come first, then all in the order in which they registered. None when no
/// provider takes it.
///
/// # Errors
/// ENOMEM; ENAMETOOLONG for a name that has no room in the C struct.
pub fn find(drivers: &[Driver], found: &Found, dev_path: &str) -> Result<Option<HeldDevice>> {
    let named = |driver: &&Driver| by_driver_id(**driver, found).is_some();
    let first = drivers.iter().filter(named);
    let others = drivers.iter().filter(|driver| !named(driver));
    let mut device = SysfsDev::new(found)?;
    for driver in first.chain(others) {
        if !matches(*driver, found, &mut device) {
            continue;
        }
        device = match driver.alloc_device(device, dev_path) {
            Ok(made) => return Ok(Some(made)),
            Err(back) => back,
        };
        let path = &found.path;
        warn(&format!("Fatal: couldn't allocate device for {path}"));
    }
    Ok(None)
}

/// Whether a provider takes a device: its table has an entry for it or, where it brings a match
/// function, that function says so; and it knows the version of the kernel driver's interface.
fn matches(driver: Driver, found: &Found, device: &mut SysfsDev) -> bool {
    let entry = by_driver_id(driver, found)
        .or_else(|| by_name(driver, found))
        .or_else(|| by_modalias(driver, found, device));
    device.set_match(entry);
    if !driver.match_device(device).unwrap_or(entry.is_some()) {
        return false;
    }
    let versions = driver.abi_versions();
    if versions.contains(&found.abi) {
        return true;
    }
    warn(&format!(
        "Warning: Driver {} does not support the kernel ABI of {} (supports {} to {}) for device {}",
        driver.name().to_string_lossy(),
        found.abi,
        versions.start(),
        versions.end(),
        found.path,
    ));
    false
}

fn by_driver_id(driver: Driver, found: &Found) -> Option<MatchEntry> {
    if found.driver_id == 0 {
        return None;
    }
    let asked = Match::DriverId(found.driver_id.into());
    driver.entries().find(|entry| entry.asks() == asked)
}

/// Providers name devices by a modalias of the library's own making.
fn by_name(driver: Driver, found: &Found) -> Option<MatchEntry> {
    let alias = CString::new(format!("rdma_device:N{}", found.name)).ok()?;
    driver.entries().find(|entry| fits(entry.asks(), &alias))
}

fn by_modalias(driver: Driver, found: &Found, device: &mut SysfsDev) -> Option<MatchEntry> {
    driver.entries().next()?;
    if device.modalias().is_none() {
        let file = format!("{}/device/modalias", found.path);
        let alias = sysfs::text_at::<MODALIAS>(CWD, file);
        device.set_modalias(&alias.unwrap_or_default());
    }
    let alias = device.modalias().filter(|alias| !alias.is_empty())?;
    driver.entries().find(|entry| fits(entry.asks(), alias))
}

fn fits(asked: Match<'_>, alias: &CStr) -> bool {
    match asked {
        Match::Modalias(pattern) => glob::matches(pattern, alias),
        Match::Pci(vendor, device) => {
            let start = format!("pci:v{vendor:08X}d{device:08X}sv");
            alias.to_bytes().starts_with(start.as_bytes())
        }
        Match::DriverId(_) | Match::Unknown => false,
    }
}

#[cfg(test)]
mod tests;
