//! Providers for tests, in the form in which C providers register.

use kit::abi::handle::Driver;
use kit::abi::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Devices that counted fake providers have made and not taken back.
static LIVING: AtomicUsize = AtomicUsize::new(0);

/// How many devices counted fake providers have made and not taken back.
pub fn living() -> usize {
    LIVING.load(Ordering::SeqCst)
}

/// A provider. It stays for the rest of the process, as a loaded one does.
pub struct Fake {
    pub abi: (u32, u32),
    pub entries: Vec<verbs_match_ent>,
    /// Whether the match function, if any, takes the device.
    pub matches: Option<bool>,
    /// Whether devices are made.
    pub works: bool,
    /// Whether its devices count in [`living`].
    pub counted: bool,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            abi: (1, 1),
            entries: Vec::new(),
            matches: None,
            works: true,
            counted: false,
        }
    }
}

pub fn for_driver(id: u64) -> verbs_match_ent {
    entry(VERBS_MATCH_DRIVER_ID, verbs_match_ent_u { driver_id: id })
}

pub fn for_modalias(pattern: &'static CStr) -> verbs_match_ent {
    let u = verbs_match_ent_u {
        modalias: pattern.as_ptr(),
    };
    entry(VERBS_MATCH_MODALIAS, u)
}

pub fn for_pci(vendor: u16, device: u16) -> verbs_match_ent {
    verbs_match_ent {
        vendor,
        device,
        ..entry(VERBS_MATCH_PCI, verbs_match_ent_u { driver_id: 0 })
    }
}

fn entry(kind: u32, u: verbs_match_ent_u) -> verbs_match_ent {
    verbs_match_ent {
        driver_data: null_mut(),
        u,
        vendor: 0,
        device: 0,
        kind: kind.try_into().unwrap(),
    }
}

impl Fake {
    pub fn driver(self) -> Driver {
        let mut entries = self.entries;
        let has_table = !entries.is_empty();
        entries.push(entry(
            VERBS_MATCH_SENTINEL,
            verbs_match_ent_u { driver_id: 0 },
        ));
        let table: &'static [verbs_match_ent] = entries.leak();
        let ops = verbs_device_ops {
            name: c"fake".as_ptr(),
            match_min_abi_version: self.abi.0,
            match_max_abi_version: self.abi.1,
            match_table: if has_table { table.as_ptr() } else { null() },
            static_providers: null(),
            match_device: match self.matches {
                None => None,
                Some(true) => Some(yes),
                Some(false) => Some(no),
            },
            alloc_context: None,
            import_context: None,
            alloc_device: Some(match (self.works, self.counted) {
                (false, _) => fail,
                (true, false) => make,
                (true, true) => make_counted,
            }),
            uninit_device: Some(if self.counted { unmake_counted } else { unmake }),
        };
        // SAFETY: a table of that type which is never freed.
        unsafe { Driver::from_raw(Box::leak(Box::new(ops))) }.unwrap()
    }
}

unsafe extern "C" fn yes(_: *mut verbs_sysfs_dev) -> bool {
    true
}

unsafe extern "C" fn no(_: *mut verbs_sysfs_dev) -> bool {
    false
}

unsafe extern "C" fn fail(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    null_mut()
}

unsafe extern "C" fn make(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    // SAFETY: all zeros is a verbs_device that the library will complete.
    unsafe { libc::calloc(1, size_of::<verbs_device>()).cast() }
}

unsafe extern "C" fn make_counted(sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    LIVING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: as called.
    unsafe { make(sysfs) }
}

unsafe extern "C" fn unmake(device: *mut verbs_device) {
    // SAFETY: made by `make`, and the library is done with it.
    unsafe { libc::free(device.cast()) }
}

unsafe extern "C" fn unmake_counted(device: *mut verbs_device) {
    LIVING.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as called.
    unsafe { unmake(device) }
}
