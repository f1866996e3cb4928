#![forbid(unsafe_code)]
//! Open devices. A process has one context a device, which stays open: programs compare the
//! pointers, and make protection domains before they have ids.

use crate::backend::DevicePort;
use crate::verbs::{self, Context, DeviceList, Pd, Xrcd};
use core::ptr::null_mut;
use kit::abi::{IBV_TRANSPORT_IWARP, ibv_pd};
use kit::errno::{Errno, Result};
use kit::sys::{fork_guard::ForkGuard, forks, lock::Lock, per_process::PerProcess};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// What the connections of a device are like.
#[derive(Clone, Copy)]
pub struct Capabilities {
    /// Most RDMA reads and atomics that a queue pair initiates.
    pub max_initiator_depth: u8,
    /// Most RDMA reads and atomics that a queue pair answers.
    pub max_responder_resources: u8,
    pub is_iwarp: bool,
}

impl Capabilities {
    const IS_THERE: u32 = 1;
    const IS_IWARP: u32 = 2;

    /// As a number that is not 0, which is read without a lock.
    pub fn packed(self) -> u32 {
        let bits = Self::IS_THERE | if self.is_iwarp { Self::IS_IWARP } else { 0 };
        let depth = u32::from(self.max_initiator_depth);
        let resources = u32::from(self.max_responder_resources);
        resources << 16 | depth << 8 | bits
    }

    /// The reverse; none for 0.
    #[inline]
    pub fn unpacked(packed: u32) -> Option<Self> {
        let [bits, max_initiator_depth, max_responder_resources, _] = packed.to_le_bytes();
        (bits != 0).then_some(Self {
            max_initiator_depth,
            max_responder_resources,
            is_iwarp: u32::from(bits) & Self::IS_IWARP != 0,
        })
    }
}

/// An open device.
pub struct Device {
    /// The `ibv_device`, by which the device is found in a list.
    address: usize,
    guid: u64,
    index: Option<u32>,
    pub verbs: Context,
    pub capabilities: Capabilities,
    /// Maximum number of requests in a queue.
    pub max_requests: u32,
    /// Ids that use the device: 0 becomes 1 with `shared` locked.
    ids: AtomicUsize,
    /// The domain that the ids share; NULL without one. Changed with `shared` locked.
    pd: AtomicPtr<ibv_pd>,
    shared: Lock<Shared>,
    opened_by: ForkGuard,
}

impl Device {
    /// Whether this process can use the context. A forked child cannot use that of a device in user
    /// space, which has no index.
    fn is_usable(&self) -> bool {
        self.index.is_some() || self.opened_by.here().is_ok()
    }
}

impl Device {
    /// Frees the objects that its ids share, unless there is an id again.
    #[cold]
    #[inline(never)]
    fn free_shared(&self) {
        let mut shared = self.shared.lock();
        if self.ids.load(Ordering::Acquire) > 0 {
            return;
        }
        // A domain that contains objects of the program remains for the next id.
        if shared.xrcd.is_some_and(|xrcd| xrcd.close().is_ok()) {
            shared.xrcd = None;
        }
        let pd = Pd::of(self.pd.load(Ordering::Relaxed));
        if pd.is_some_and(|pd| pd.dealloc().is_ok()) {
            self.pd.store(null_mut(), Ordering::Relaxed);
        }
    }

    /// Counts an id beside others, and returns the domain that they share; none if it is the first.
    #[inline]
    fn join(&self) -> Option<Pd> {
        // The domain is freed where there is no id, and only the first id makes it.
        let more = |ids: usize| (ids > 0).then_some(ids + 1);
        let joined = self
            .ids
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        joined.ok()?;
        Pd::of(self.pd.load(Ordering::Acquire))
    }

    /// The same for the first id, which makes the domain.
    #[cold]
    #[inline(never)]
    fn join_first(&self) -> Result<Pd> {
        let shared = self.shared.lock();
        let pd = match Pd::of(self.pd.load(Ordering::Relaxed)) {
            Some(pd) => pd,
            None => self.verbs.alloc_pd()?,
        };
        self.pd.store(pd.as_ptr(), Ordering::Release);
        self.ids.fetch_add(1, Ordering::AcqRel);
        drop(shared);
        Ok(pd)
    }
}

/// The objects that the ids of a device share.
#[derive(Default)]
struct Shared {
    xrcd: Option<Xrcd>,
}

/// A forked child keeps the kernel's devices, on which its parent may have made objects.
static OPEN: Lock<Vec<&'static Device>> = Lock::new(Vec::new());

/// Whether the process has found a device. Each call that may be the first one checks this, and
/// listing devices costs more than most of these calls. A forked child lists the devices itself,
/// because libibverbs knows devices in user space only in a process that has listed them.
static FOUND: PerProcess<AtomicBool> = PerProcess::new();

/// Checks that the process has found a device, now or earlier.
///
/// # Errors
/// ENODEV if there are none; ENOMEM at the first call.
pub fn any() -> Result<()> {
    let found = FOUND.get()?;
    if !found.load(Ordering::Relaxed) {
        DeviceList::new()?;
        found.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// All devices that can be opened.
///
/// # Errors
/// ENODEV if there is none.
pub fn all() -> Result<Vec<Context>> {
    let list = DeviceList::new()?;
    let open = list.devices().filter_map(|device| of(&device).ok());
    Ok(open.map(|device| device.verbs).collect())
}

/// The device of a place, opened at its first use.
///
/// # Errors
/// ENODEV if libibverbs does not list it; those of ibv_open_device(3).
pub fn at(place: &DevicePort) -> Result<&'static Device> {
    let known =
        |known: &&&'static Device| is_at(place, known.index, known.guid) && known.is_usable();
    if let Some(device) = OPEN.lock().iter().find(known) {
        return Ok(device);
    }
    let list = DeviceList::new()?;
    let found = list
        .devices()
        .find(|device| is_at(place, device.index(), device.guid()));
    of(&found.ok_or(Errno::NODEV)?)
}

/// A device in user space may have the GUID of a kernel device: the index has precedence.
fn is_at(place: &DevicePort, index: Option<u32>, guid: u64) -> bool {
    match (place.index, index) {
        (Some(wanted), Some(index)) => wanted == index,
        (Some(_), None) => false,
        (None, _) => place.guid == guid,
    }
}

fn of(device: &verbs::Device<'_>) -> Result<&'static Device> {
    forks::wait_for(&OPEN)?;
    let mut open = OPEN.lock();
    let known = |known: &&&'static Device| known.address == device.address() && known.is_usable();
    if let Some(known) = open.iter().find(known) {
        return Ok(known);
    }
    let opened_by = ForkGuard::new()?;
    let verbs = device.open()?;
    let attr = verbs.query_device().inspect_err(|_| verbs.close())?;
    let depth = |most: i32| u8::try_from(most.max(0)).unwrap_or(u8::MAX);
    let made: &'static Device = Box::leak(Box::new(Device {
        address: device.address(),
        guid: device.guid(),
        index: device.index(),
        verbs,
        capabilities: Capabilities {
            max_initiator_depth: depth(attr.max_qp_init_rd_atom),
            max_responder_resources: depth(attr.max_qp_rd_atom),
            is_iwarp: verbs.transport() == IBV_TRANSPORT_IWARP,
        },
        max_requests: u32::try_from(attr.max_qp_wr).unwrap_or(0),
        ids: AtomicUsize::new(0),
        pd: AtomicPtr::new(null_mut()),
        shared: Lock::default(),
        opened_by,
    }));
    open.push(made);
    Ok(made)
}

/// A device in use by an id, with the domain that its ids share. The first id makes the domain, the
/// last one frees it.
pub struct Lease {
    pub device: &'static Device,
    pub pd: Pd,
}

impl Lease {
    /// # Errors
    /// Those of [`at`] and ibv_alloc_pd(3).
    pub fn new(place: &DevicePort) -> Result<Self> {
        let device = at(place)?;
        let pd = match device.join() {
            Some(pd) => pd,
            None => device.join_first()?,
        };
        Ok(Self { device, pd })
    }

    /// The anonymous domain of the device, made at its first use.
    ///
    /// # Errors
    /// Those of ibv_open_xrcd(3).
    pub fn xrcd(&self) -> Result<Xrcd> {
        let mut shared = self.device.shared.lock();
        match shared.xrcd {
            Some(xrcd) => Ok(xrcd),
            None => Ok(*shared.xrcd.insert(self.device.verbs.open_xrcd()?)),
        }
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        if self.device.ids.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.device.free_shared();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::abi::be16;

    #[test]
    fn capabilities_are_unpacked_as_they_were_packed() {
        assert!(Capabilities::unpacked(0).is_none());
        for is_iwarp in [false, true] {
            let packed = Capabilities {
                max_initiator_depth: 255,
                max_responder_resources: 3,
                is_iwarp,
            }
            .packed();
            let found = Capabilities::unpacked(packed).unwrap();
            let depths = (found.max_initiator_depth, found.max_responder_resources);
            assert_eq!((depths, found.is_iwarp), ((255, 3), is_iwarp));
        }
    }

    #[test]
    fn the_index_has_precedence_over_the_guid() {
        let place = |index| DevicePort {
            guid: 5,
            index,
            port: 1,
            pkey: be16::new(0xffff),
        };
        assert!(is_at(&place(Some(3)), Some(3), 9));
        assert!(!is_at(&place(Some(3)), Some(4), 5));
        assert!(!is_at(&place(Some(3)), None, 5));
        assert!(is_at(&place(None), None, 5));
        assert!(!is_at(&place(None), Some(3), 6));
    }
}
