//! Queue pairs.
//!
//! | module | type | contents |
//! | --- | --- | --- |
//! | `handle` | [`Qp`] | a queue pair as an application holds it: of the protocol, of raw packets, or an XRC target of another process |
//! | `state`, `endpoint` | [`QpState`] | a queue pair of the protocol: routes calls of verbs and of the node to its parts |
//! | `locked` | `Locked` | the parts under the lock, and which of them takes a request |
//! | `resources` | `Resources` | number, node, queues, sizes: the parts used without the lock |
//! | `connection` | `Connection` | the protocol engine and its waiting conditions |
//! | `fast_path` | `FastPath` | messages and one-sided operations without packets, within a host |
//! | `xrc_target` | `XrcTarget`, `Sharing` | an XRC target that several processes share |
//! | `host` | `Surroundings` | the engine's environment (`uroce_engine::host::Host`), during one call |
//! | `write_combining` | `WriteCombining` | payloads of RDMA writes that are written together |
//! | `attributes`, `requests` | | C's numbers and views as the engine's values; errors in them are EINVAL here |
//! | `domain` | [`XrcDomain`], [`EventListener`] | a target's interface to its domain, which imports queue pairs |
//! | `route`, `stall`, `binds`, `destinations`, `counting`, `multicast` | | values of the parts |
//!
//! How requests are posted, completions polled and datagrams delivered: see [`crate::context`].
//!
//! *Imports.* `endpoint` and `handle` import `state`, which imports the parts, which import
//! `resources`. No part imports another one of its kind, but for `Connection`, which the fast path
//! and the XRC target are handed. Requests are generic over the provider ([`crate::objects`]), so
//! that nothing here imports the context.
//!
//! *Locks.* See `state`.
//!
//! *Tests.* Each module has its own; `tests` has those of queue pairs with a real node.

pub mod attributes;
mod binds;
mod connection;
pub mod counting;
mod destinations;
mod domain;
mod endpoint;
mod fast_path;
mod handle;
mod host;
mod link_wait;
mod locked;
mod multicast;
mod requests;
mod resources;
mod route;
mod stall;
mod state;
#[cfg(test)]
mod tests;
mod write_combining;
mod xrc_target;

pub use domain::{EventListener, XrcDomain};
pub use handle::{Named, Qp};
pub use resources::CreateParams;
pub use state::QpState;
