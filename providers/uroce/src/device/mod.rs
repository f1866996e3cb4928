//! Devices and their one port each. A device follows one network interface.
//!
//! `UROCE_DEVICES` names the interfaces (separated by commas, or `all`; empty means none),
//! otherwise the lines `device NAME...` in /etc/libibverbs.d/uroce.conf. A set-user-ID program
//! ignores the variable. Without configuration there are no devices, and nothing is asked of the
//! kernel.
//!
//! | type | contents |
//! | --- | --- |
//! | `ports::Ports` | the ports of the process, by interface index |
//! | `Port` | the port of a device, shared by its contexts: GID table, state, MTU, speed |
//! | `follower::Follower` | updates the ports when the notification socket is readable. The node has one, in the progress thread's epoll set. Without one (no open context, or a sandbox without notifications), queries ask the kernel first |
//! | `shown` | the files of a device (`crate::files`): the kernel's names and formats, rewritten when the port changes |
//!
//! *GIDs.* RoCE v2, one GID for each address, IPv4 mapped. The table has 256 entries, because an
//! address vector cannot name more. An address keeps its index for as long as the interface has it;
//! a new one takes the first free index, so index 0 of a new table is in use if any address exists.
//! IPv4 comes first, then IPv6, wider scopes first. An IPv6 address under duplicate address
//! detection is not listed.
//!
//! *State.* ACTIVE if the interface is up, has a carrier, and its MTU holds a packet of 256 bytes;
//! otherwise DOWN (physical state polling if the interface is up, disabled if not). The active MTU
//! is the largest whose packets fit the interface's MTU less 96 bytes of headers, as the kernel's
//! RoCE computes it. Width and speed are the lowest of InfiniBand's that are not below the
//! interface's speed; 1X SDR if the speed is unknown.
//!
//! *Events.* IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE;
//! IBV_EVENT_DEVICE_FATAL once when the interface is gone. That is permanent: an interface of the
//! same name has another index and is another device. Contexts on the old device can still be
//! closed.
//!
//! *Locks.* One lock is held from the query of the kernel to the delivery of events, so that states
//! are delivered in order. A forked child starts without ports.
//!
//! Tests: `tests` here on made-up interfaces, and as root in separate network namespaces;
//! `c-tests/programs/self_checking/uroce_devices.c` and `uroce_files.c` through the C interface.

mod follower;
mod gids;
mod guid;
mod link;
mod port;
mod ports;
mod shown;
mod state;

pub use follower::Follower;
pub use gids::PLACES;
pub use guid::of as guid;
pub use port::{Listener, Port};
pub use ports::{Ports, ports};
pub use state::{NUMBER, PKEY, gid_of};

#[cfg(test)]
mod tests;
