#![forbid(unsafe_code)]
//! Which provider takes a device.

use crate::warn::warn;
use kit::abi::handle::{Driver, Found, HeldDevice, Match, MatchEntry, SysfsDev};
use kit::errno::Result;
use kit::sys::glob;
use std::ffi::CString;

/// Makes the device of `found` with the first provider that takes it: those whose table names the
/// kernel driver come first, then all in the order of their registration. None when no provider
/// takes it.
///
/// `dev_path` is the folder of the character device in sysfs; `modalias` reads that of the device
/// below, and is called once at most.
///
/// # Errors
/// ENOMEM; ENAMETOOLONG for a name that has no room in the C struct.
pub fn find(
    drivers: &[Driver],
    found: &Found,
    dev_path: &str,
    modalias: &dyn Fn() -> String,
) -> Result<Option<HeldDevice>> {
    let named = |driver: &&Driver| by_driver_id(**driver, found).is_some();
    let first = drivers.iter().filter(named);
    let others = drivers.iter().filter(|driver| !named(driver));
    let mut candidate = Candidate::new(found, modalias)?;
    for driver in first.chain(others) {
        if !candidate.suits(*driver) {
            continue;
        }
        candidate.device = match driver.alloc_device(candidate.device, dev_path) {
            Ok(made) => return Ok(Some(made)),
            Err(back) => back,
        };
        let path = &found.path;
        warn(&format!("Fatal: couldn't allocate device for {path}"));
    }
    Ok(None)
}

fn by_driver_id(driver: Driver, found: &Found) -> Option<MatchEntry> {
    if found.driver_id == 0 {
        return None;
    }
    let asked = Match::DriverId(found.driver_id.into());
    driver.entries().find(|entry| entry.asks() == asked)
}

/// A device that is offered to one provider after the other.
struct Candidate<'a> {
    found: &'a Found,
    modalias: &'a dyn Fn() -> String,
    device: SysfsDev,
    /// Providers name devices by a modalias of the library's own making.
    name: Alias,
    /// The modalias of the device below, read when the first provider needs it.
    below: Option<Alias>,
}

impl<'a> Candidate<'a> {
    fn new(found: &'a Found, modalias: &'a dyn Fn() -> String) -> Result<Self> {
        Ok(Self {
            found,
            modalias,
            device: SysfsDev::new(found)?,
            name: Alias::new(format!("rdma_device:N{}", found.name)),
            below: None,
        })
    }

    /// Whether a provider takes the device: its table has an entry for it or, if it has a match
    /// function, that function accepts it; and it knows the version of the kernel driver's
    /// interface.
    fn suits(&mut self, driver: Driver) -> bool {
        let entry = by_driver_id(driver, self.found)
            .or_else(|| self.name.entry(driver))
            .or_else(|| self.below(driver));
        self.device.set_match(entry);
        let taken = driver.match_device(&mut self.device);
        taken.unwrap_or(entry.is_some()) && self.has_version_for(driver)
    }

    fn below(&mut self, driver: Driver) -> Option<MatchEntry> {
        driver.entries().next()?;
        let (modalias, device) = (self.modalias, &mut self.device);
        let alias = self.below.get_or_insert_with(|| {
            let text = modalias();
            device.set_modalias(&text);
            Alias::new(text)
        });
        alias.entry(driver)
    }

    fn has_version_for(&self, driver: Driver) -> bool {
        let versions = driver.abi_versions();
        if versions.contains(&self.found.abi) {
            return true;
        }
        warn(&format!(
            "Warning: Driver {} does not support the kernel ABI of {} (supports {} to {}) for device {}",
            driver.name().to_string_lossy(),
            self.found.abi,
            versions.start(),
            versions.end(),
            self.found.path,
        ));
        false
    }
}

/// A modalias, taken apart once.
struct Alias {
    text: CString,
    /// Vendor and device, when it is one of PCI.
    pci: Option<(u16, u16)>,
}

impl Alias {
    fn new(text: String) -> Self {
        Self {
            pci: pci(&text),
            text: CString::new(text).unwrap_or_default(),
        }
    }

    /// The first entry of a provider's table that asks for it. An empty one matches nothing.
    fn entry(&self, driver: Driver) -> Option<MatchEntry> {
        if self.text.is_empty() {
            return None;
        }
        driver.entries().find(|entry| self.fits(entry.asks()))
    }

    fn fits(&self, asked: Match<'_>) -> bool {
        match asked {
            Match::Modalias(pattern) => glob::matches(pattern, &self.text),
            Match::Pci(vendor, device) => self.pci == Some((vendor, device)),
            Match::DriverId(_) | Match::Unknown => false,
        }
    }
}

/// Vendor and device of a modalias like `pci:v000015B3d00001017sv...`.
fn pci(alias: &str) -> Option<(u16, u16)> {
    let (vendor, rest) = hexadecimal(alias.strip_prefix("pci:v")?)?;
    let (device, rest) = hexadecimal(rest.strip_prefix('d')?)?;
    rest.starts_with("sv").then_some((vendor, device))
}

/// Eight upper-case digits, and the text after them. None when the number is not a PCI id.
fn hexadecimal(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(8)?;
    let upper = |c: char| matches!(c, '0'..='9' | 'A'..='F');
    if !digits.chars().all(upper) {
        return None;
    }
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some((number.try_into().ok()?, rest))
}

#[cfg(test)]
mod tests;
