//! The C side of providers written in Rust: what stands between the verbs table and
//! [`Provider`].
//!
//! This is one of the rooms where unsafe code is allowed. A verb is a function generic over the
//! provider; [`table`] collects them. It takes C's pointers as borrowed objects
//! ([`context::Subject`], [`context::Context::object`]), which refuses NULL and objects of other
//! contexts, calls the provider, and converts the answer ([`answer`]).

mod ah;
mod answer;
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
    comp_cntr::with_verbs::<P>(Given {
        query_port_speed: Some(query::query_port_speed::<P>),
        ..Given::default()
    })
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
