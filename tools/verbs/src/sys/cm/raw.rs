//! The functions of librdmacm, as its header declares them. Each has a man page of its name.

use kit::abi::{ibv_ah_attr, ibv_context, ibv_ece, ibv_qp, ibv_qp_attr};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    mem::offset_of,
};

#[repr(C)]
pub struct rdma_event_channel {
    pub fd: c_int,
}

/// The beginning of `struct rdma_route`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rdma_route {
    pub src_storage: libc::sockaddr_storage,
    pub dst_storage: libc::sockaddr_storage,
    rest: [u64; 7],
}

/// The beginning of the structure, which the library makes.
#[repr(C)]
pub struct rdma_cm_id {
    pub verbs: *mut ibv_context,
    pub channel: *mut rdma_event_channel,
    pub context: *mut c_void,
    pub qp: *mut ibv_qp,
    pub route: rdma_route,
    pub ps: c_uint,
    pub port_num: u8,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct rdma_conn_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct rdma_ud_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: ibv_ah_attr,
    pub qp_num: u32,
    pub qkey: u32,
}

/// `conn` is of connections, `ud` of datagrams and of multicast groups.
#[repr(C)]
pub union rdma_cm_event_param {
    pub conn: rdma_conn_param,
    pub ud: rdma_ud_param,
}

#[repr(C)]
pub struct rdma_cm_event {
    pub id: *mut rdma_cm_id,
    pub listen_id: *mut rdma_cm_id,
    pub event: c_uint,
    pub status: c_int,
    pub param: rdma_cm_event_param,
}

#[repr(C)]
pub struct rdma_cm_join_mc_attr_ex {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut libc::sockaddr,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct rdma_addrinfo {
    pub ai_flags: c_int,
    pub ai_family: c_int,
    pub ai_qp_type: c_int,
    pub ai_port_space: c_int,
    pub ai_src_len: libc::socklen_t,
    pub ai_dst_len: libc::socklen_t,
    pub ai_src_addr: *mut libc::sockaddr,
    pub ai_dst_addr: *mut libc::sockaddr,
    pub ai_src_canonname: *mut c_char,
    pub ai_dst_canonname: *mut c_char,
    pub ai_route_len: usize,
    pub ai_route: *mut c_void,
    pub ai_connect_len: usize,
    pub ai_connect: *mut c_void,
    pub ai_next: *mut rdma_addrinfo,
}

const _: () = {
    assert!(offset_of!(rdma_addrinfo, ai_next) == 88 && size_of::<rdma_addrinfo>() == 96);
    assert!(offset_of!(rdma_cm_id, route) == 32 && size_of::<rdma_route>() == 312);
    assert!(offset_of!(rdma_cm_id, ps) == 344 && offset_of!(rdma_cm_id, port_num) == 348);
    assert!(offset_of!(rdma_conn_param, srq) == 14 && size_of::<rdma_conn_param>() == 24);
    assert!(offset_of!(rdma_ud_param, ah_attr) == 16 && size_of::<rdma_ud_param>() == 56);
    assert!(offset_of!(rdma_cm_event, param) == 24 && size_of::<rdma_cm_event>() == 80);
    assert!(size_of::<rdma_cm_join_mc_attr_ex>() == 16);
};

unsafe extern "C" {
    pub fn rdma_create_event_channel() -> *mut rdma_event_channel;
    pub fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
    pub fn rdma_get_cm_event(
        channel: *mut rdma_event_channel,
        event: *mut *mut rdma_cm_event,
    ) -> c_int;
    pub fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
    pub fn rdma_create_id(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut c_void,
        port_space: c_uint,
    ) -> c_int;
    pub fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
    pub fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
    pub fn rdma_set_option(
        id: *mut rdma_cm_id,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: usize,
    ) -> c_int;
    pub fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut libc::sockaddr) -> c_int;
    pub fn rdma_resolve_addr(
        id: *mut rdma_cm_id,
        source: *mut libc::sockaddr,
        destination: *mut libc::sockaddr,
        milliseconds: c_int,
    ) -> c_int;
    pub fn rdma_resolve_route(id: *mut rdma_cm_id, milliseconds: c_int) -> c_int;
    pub fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
    pub fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    pub fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    pub fn rdma_establish(id: *mut rdma_cm_id) -> c_int;
    pub fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int;
    pub fn rdma_join_multicast_ex(
        id: *mut rdma_cm_id,
        attr: *mut rdma_cm_join_mc_attr_ex,
        context: *mut c_void,
    ) -> c_int;
    pub fn rdma_leave_multicast(id: *mut rdma_cm_id, group: *mut libc::sockaddr) -> c_int;
    pub fn rdma_reject_ece(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int;
    pub fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int;
    pub fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int;
    pub fn rdma_getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const rdma_addrinfo,
        list: *mut *mut rdma_addrinfo,
    ) -> c_int;
    pub fn rdma_freeaddrinfo(list: *mut rdma_addrinfo);
    pub fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
    pub fn rdma_init_qp_attr(
        id: *mut rdma_cm_id,
        attr: *mut ibv_qp_attr,
        mask: *mut c_int,
    ) -> c_int;
}
