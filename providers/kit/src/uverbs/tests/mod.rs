//! The command layer on a made-up kernel.
#![allow(clippy::unwrap_used, clippy::panic)]

mod commands;
mod destroy;
mod device;
mod flow;
mod later;
mod policy;
mod post;
mod qp;
mod queues;
mod write;
