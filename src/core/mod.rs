//! What verbs mean: devices, contexts, memory and fork, events, addresses, configuration.

pub mod netlink;
