//! The ports of this process.

use super::port::Port;
use crate::netdev::{self, Interface};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A forked child starts with none: its parent's may have been changing just then.
static PORTS: PerProcess<Ports> = PerProcess::new();

/// Those of this process.
///
/// # Errors
/// ENOMEM at the first call.
pub fn ports() -> Result<&'static Ports> {
    PORTS.get()
}

/// Lists the interfaces unless notifications are followed. The known state stays if the kernel
/// cannot be asked.
fn look_unless_followed() {
    if let Ok(ports) = ports()
        && ports.followers.load(Ordering::Acquire) == 0
    {
        let _ = ports.look();
    }
}

/// Ports, one an interface: made when first asked for, kept as long as the interface is there.
#[derive(Default)]
pub struct Ports {
    /// Held while the kernel is queried, so that the state of ports never goes back in time.
    known: Mutex<Vec<Arc<Port>>>,
    /// How many see to it that notifications are taken in when they come.
    followers: AtomicUsize,
}

impl Ports {
    /// Adopts the present interfaces, and returns them. Events are reported before it returns.
    ///
    /// # Errors
    /// Those of [`netdev::interfaces`].
    pub fn look(&self) -> Result<Vec<Interface>> {
        self.look_for(|_| false)
    }

    /// The same. Wanted interfaces have ports afterwards, also in a forked child, whose devices are
    /// its parent's.
    ///
    /// # Errors
    /// Those of [`netdev::interfaces`].
    pub fn look_for(&self, wants: impl Fn(&Interface) -> bool) -> Result<Vec<Interface>> {
        let mut known = self.known.lock();
        let interfaces = netdev::interfaces()?;
        follow(&mut known, &interfaces);
        for interface in interfaces.iter().filter(|interface| wants(interface)) {
            port_of(&mut known, interface);
        }
        Ok(interfaces)
    }

    /// All that were asked for, as their interfaces are now.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Port>> {
        look_unless_followed();
        self.known.lock().clone()
    }

    pub(super) fn add_follower(&self) {
        self.followers.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn remove_follower(&self) {
        self.followers.fetch_sub(1, Ordering::AcqRel);
    }

    /// The port of the interface of that index.
    ///
    /// # Errors
    /// ENODEV for an unknown interface; those of [`netdev::interfaces`].
    pub fn of(&self, index: u32) -> Result<Arc<Port>> {
        let mut known = self.known.lock();
        let interfaces = netdev::interfaces()?;
        follow(&mut known, &interfaces);
        let interface = interfaces.iter().find(|i| i.index == index);
        Ok(port_of(&mut known, interface.ok_or(Errno::NODEV)?))
    }
}

/// The port of an interface; the first call makes it.
fn port_of(known: &mut Vec<Arc<Port>>, interface: &Interface) -> Arc<Port> {
    if let Some(port) = known
        .iter()
        .find(|port| port.interface() == interface.index)
    {
        return Arc::clone(port);
    }
    let port = Arc::new(Port::new(interface).refreshed_by(look_unless_followed));
    known.push(Arc::clone(&port));
    port
}

/// Drops ports whose interface was removed; contexts on them keep them.
fn follow(known: &mut Vec<Arc<Port>>, interfaces: &[Interface]) {
    known.retain(|port| {
        let interface = interfaces.iter().find(|i| i.index == port.interface());
        port.follow(interface);
        interface.is_some()
    });
}
