//! The C side of providers written in Rust: one function for each verb, generic over the provider,
//! collected in one [`table`]. Unsafe code is allowed here. A verb takes C's pointers as borrowed
//! objects, calls [`Provider`], and converts the result ([`answer`]).
//!
//! *Objects.* An object is one block: the C structure first, so that both have the same address,
//! then the number of objects created with it, then the provider's `Arc`. The block exists before
//! the provider is called, and its address is the `Token` in event records. A verb takes the object
//! that it acts on as [`context::Subject`] and every further object through
//! [`context::Context::object`]. NULL, and objects of another context or another kind of device,
//! are EINVAL. An `ibv_flow` does not begin with its context, so its block has one more in front.
//!
//! *Counts.* Domains, queues and device memory count the objects that were created with them; an
//! object with a count is EBUSY. A rule counts on its queue pair and counters, a table on its work
//! queues, a queue pair on its table. If the provider refuses a destruction, nothing has changed.
//!
//! *Events.* A destroyed queue is removed from the provider first. Its block remains until the
//! application has acknowledged as many events as the provider reported; until then the verb
//! answers `UNACKED`.
//!
//! *Work requests.* `Sends` and `Receives` walk a chain while the provider posts it, one request at
//! a time, as a value (`SendRequest`) or as a view that reads members on demand (`SendView`).
//! Nothing is allocated or copied, and inline data is read in place (`Pieces`). A malformed request
//! (a negative count, a NULL list, an address handle, window or region of another context) ends the
//! chain: the requests before it are posted, and C gets its address. If the provider refuses, the
//! request it took last is the bad one.
//!
//! *ibv_wr_post(3).* [`builder`] holds the queue pair's request lock from `ibv_wr_start` to
//! `ibv_wr_complete` or `ibv_wr_abort`, in thread domains too. Inline data is copied at once, up to
//! the limit of the queue pair. The first mistake is remembered; `Provider::post_send_all` posts
//! all requests or none. Only the functions of the requested operations are set.
//!
//! *Extended completion queues* ([`cq_ex`]). `start_poll` locks the queue against other batches
//! until `end_poll`; `ibv_poll_cq` works meanwhile. Only the requested readers are set. VLAN tags,
//! flow tags and tag matching are EOPNOTSUPP.
//!
//! *Flow rules and work queues.* `FlowPart`, `WqInit` and `Rss` are C's structures, read once; a
//! filter is its value and mask in equal length. Counters are bound by the rule that names them,
//! and cannot be bound to an existing rule (EOPNOTSUPP).
//!
//! *Parent domains* ([`pd`]) exist in the shims only: the provider sees the wrapped domain. With
//! allocators, the blocks of queues and queue pairs come from the application's function, are
//! zeroed, and are returned to it.
//!
//! *Importing* ([`import`]). Domains, regions and device memory have handles, which the contexts of
//! one command descriptor share. `ibv_import_device` opens the device again; an imported object is
//! a separate block around the provider's side of the original and holds it, so the original is
//! EBUSY. Its unimport or destroy verb ends only the import. A domain that is destroyed while
//! objects created with it remain releases its original at once; its block waits for them. A
//! command descriptor of another process is EOPNOTSUPP, because the objects are in that process's
//! memory.
//!
//! Tests: `cargo test -p ferroverbs-kit provider::` calls each verb of an in-memory provider
//! through the table.

mod ah;
mod answer;
mod buf;
mod builder;
mod commands;
mod comp_cntr;
mod context;
mod counters;
mod cq;
mod cq_ex;
mod device;
mod dm;
mod flow;
mod import;
mod kernel;
mod lent;
mod mr;
mod mw;
mod object;
mod pd;
mod pieces;
mod qp;
mod qp_create;
mod query;
mod receive;
mod send;
mod srq;
mod work;
mod wq;
mod xrcd;

#[cfg(test)]
mod tests;

pub use commands::Commands;
pub use device::{Device, DeviceSpec, Opened};
pub use kernel::driver;
pub use pieces::Pieces;

use super::Provider;
use crate::abi::verbs_context_ops;
use crate::table::Given;

/// The verbs of a provider that came after those of the table.
fn later<P: Provider>() -> Given {
    buf::with_verbs::<P>(comp_cntr::with_verbs::<P>(Given {
        query_port_speed: Some(query::query_port_speed::<P>),
        ..Given::default()
    }))
}

/// The verbs of a provider; those that are left out keep the defaults of the table.
fn table<P: Provider>() -> verbs_context_ops {
    // SAFETY: the structure is pointers to functions that may be NULL.
    let none: verbs_context_ops = unsafe { core::mem::zeroed() };
    verbs_context_ops {
        advise_mr: Some(mr::advise_mr::<P>),
        alloc_dm: Some(dm::alloc_dm::<P>),
        alloc_mw: Some(mw::alloc_mw::<P>),
        alloc_null_mr: Some(mr::alloc_null_mr::<P>),
        alloc_parent_domain: Some(pd::alloc_parent_domain::<P>),
        alloc_pd: Some(pd::alloc_pd::<P>),
        alloc_td: Some(pd::alloc_td::<P>),
        attach_counters_point_flow: Some(counters::attach_counters_point_flow::<P>),
        attach_mcast: Some(qp::attach_mcast::<P>),
        bind_mw: Some(mw::bind_mw::<P>),
        close_xrcd: Some(xrcd::close_xrcd::<P>),
        create_ah: Some(ah::create_ah::<P>),
        create_counters: Some(counters::create_counters::<P>),
        create_cq: Some(cq::create_cq::<P>),
        create_cq_ex: Some(cq::create_cq_ex::<P>),
        create_flow: Some(flow::create_flow::<P>),
        create_qp: Some(qp_create::create_qp::<P>),
        create_qp_ex: Some(qp_create::create_qp_ex::<P>),
        create_rwq_ind_table: Some(wq::create_rwq_ind_table::<P>),
        create_srq: Some(srq::create_srq::<P>),
        create_srq_ex: Some(srq::create_srq_ex::<P>),
        create_wq: Some(wq::create_wq::<P>),
        dealloc_mw: Some(mw::dealloc_mw::<P>),
        dealloc_pd: Some(pd::dealloc_pd::<P>),
        dealloc_td: Some(pd::dealloc_td::<P>),
        dereg_mr: Some(mr::dereg_mr::<P>),
        destroy_ah: Some(ah::destroy_ah::<P>),
        destroy_counters: Some(counters::destroy_counters::<P>),
        destroy_cq: Some(cq::destroy_cq::<P>),
        destroy_flow: Some(flow::destroy_flow::<P>),
        destroy_qp: Some(qp::destroy_qp::<P>),
        destroy_rwq_ind_table: Some(wq::destroy_rwq_ind_table::<P>),
        destroy_srq: Some(srq::destroy_srq::<P>),
        destroy_wq: Some(wq::destroy_wq::<P>),
        detach_mcast: Some(qp::detach_mcast::<P>),
        free_context: Some(context::free_context::<P>),
        free_dm: Some(dm::free_dm::<P>),
        get_srq_num: Some(srq::get_srq_num::<P>),
        modify_cq: Some(cq::modify_cq::<P>),
        modify_qp: Some(qp::modify_qp::<P>),
        modify_srq: Some(srq::modify_srq::<P>),
        modify_wq: Some(wq::modify_wq::<P>),
        open_qp: Some(qp_create::open_qp::<P>),
        open_xrcd: Some(xrcd::open_xrcd::<P>),
        poll_cq: Some(cq::poll_cq::<P>),
        post_recv: Some(qp::post_recv::<P>),
        post_send: Some(qp::post_send::<P>),
        post_srq_recv: Some(srq::post_srq_recv::<P>),
        query_device_ex: Some(query::query_device_ex::<P>),
        query_ece: Some(qp::query_ece::<P>),
        query_port: Some(query::query_port::<P>),
        query_qp: Some(qp::query_qp::<P>),
        query_rt_values: Some(query::query_rt_values::<P>),
        query_srq: Some(srq::query_srq::<P>),
        read_counters: Some(counters::read_counters::<P>),
        reg_dm_mr: Some(dm::reg_dm_mr::<P>),
        reg_mr: Some(mr::reg_mr::<P>),
        req_notify_cq: Some(cq::req_notify_cq::<P>),
        rereg_mr: Some(mr::rereg_mr::<P>),
        resize_cq: Some(cq::resize_cq::<P>),
        set_ece: Some(qp::set_ece::<P>),
        ..none
    }
}
