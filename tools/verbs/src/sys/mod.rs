//! All `unsafe` of the crate, but for `tools`: the functions of libibverbs, and
//! safe types around its objects. The invariants are those of the crate's documentation:
//!
//! - an [`Object`](object::Object) is destroyed once, and before the objects that it was made with;
//! - memory that a posted request names is owned by the request's entry in [`flight`] until the
//!   device has completed the request or its queue is destroyed;
//! - memory that remote peers may access is never lent as a slice ([`pages`]).

pub(crate) mod batch;
pub(crate) mod calls;
#[cfg(feature = "connection")]
pub(crate) mod cm;
pub(crate) mod device_memory;
pub(crate) mod extended;
#[cfg(test)]
#[cfg(not(feature = "system"))]
pub(crate) mod fake;
pub(crate) mod flight;
pub(crate) mod flow;
pub(crate) mod flow_action;
pub(crate) mod object;
pub(crate) mod owner;
pub(crate) mod pages;
pub(crate) mod post;
// `tools` calls more of them.
#[cfg_attr(not(feature = "tools"), allow(dead_code))]
pub(crate) mod raw;
pub(crate) mod region;
pub(crate) mod spread;
pub(crate) mod tags;
pub(crate) mod window;
pub(crate) mod xrc;
