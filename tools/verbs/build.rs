//! With the feature `system`, links programs with stubs of `libibverbs.so.1` and, for connections,
//! `librdmacm.so.1` (`stub/library.rs`). The libraries that a program runs on are found when it
//! starts, as for programs in C.

use std::{env, error::Error};

mod stub;

/// The functions that `src/sys/raw.rs` declares, by their node.
const NODES: stub::Nodes<'_> = &[
    (
        "IBVERBS_1.0",
        &[
            "ibv_create_comp_channel",
            "ibv_destroy_comp_channel",
            "ibv_read_sysfs_file",
        ],
    ),
    (
        "IBVERBS_1.1",
        &[
            "ibv_ack_async_event",
            "ibv_ack_cq_events",
            "ibv_alloc_pd",
            "ibv_attach_mcast",
            "ibv_detach_mcast",
            "ibv_fork_init",
            "ibv_modify_srq",
            "ibv_close_device",
            "ibv_create_ah",
            "ibv_create_ah_from_wc",
            "ibv_create_cq",
            "ibv_create_qp",
            "ibv_create_srq",
            "ibv_dealloc_pd",
            "ibv_dereg_mr",
            "ibv_destroy_ah",
            "ibv_destroy_cq",
            "ibv_destroy_qp",
            "ibv_destroy_srq",
            "ibv_event_type_str",
            "ibv_free_device_list",
            "ibv_get_async_event",
            "ibv_get_cq_event",
            "ibv_get_device_guid",
            "ibv_get_device_list",
            "ibv_get_device_name",
            "ibv_init_ah_from_wc",
            "ibv_modify_qp",
            "ibv_open_device",
            "ibv_query_device",
            "ibv_query_gid",
            "ibv_query_pkey",
            "ibv_query_port",
            "ibv_query_qp",
            "ibv_query_srq",
            "ibv_reg_mr",
            "ibv_resize_cq",
            "ibv_wc_status_str",
        ],
    ),
    ("IBVERBS_1.5", &["ibv_get_pkey_index"]),
    ("IBVERBS_1.6", &["ibv_qp_to_qp_ex"]),
    ("IBVERBS_1.8", &["ibv_reg_mr_iova2"]),
    ("IBVERBS_1.9", &["ibv_get_device_index"]),
    ("IBVERBS_1.10", &["ibv_query_ece", "ibv_set_ece"]),
    (
        "IBVERBS_1.11",
        &["_ibv_query_gid_ex", "_ibv_query_gid_table"],
    ),
    ("IBVERBS_1.12", &["ibv_reg_dmabuf_mr"]),
    ("IBVERBS_1.13", &["ibv_is_fork_initialized"]),
];

/// The functions that `src/sys/cm/raw.rs` declares.
const CONNECTION: stub::Nodes<'_> = &[
    (
        "RDMACM_1.0",
        &[
            "rdma_accept",
            "rdma_ack_cm_event",
            "rdma_bind_addr",
            "rdma_connect",
            "rdma_create_event_channel",
            "rdma_create_id",
            "rdma_destroy_event_channel",
            "rdma_destroy_id",
            "rdma_disconnect",
            "rdma_freeaddrinfo",
            "rdma_getaddrinfo",
            "rdma_get_cm_event",
            "rdma_leave_multicast",
            "rdma_listen",
            "rdma_migrate_id",
            "rdma_reject",
            "rdma_resolve_addr",
            "rdma_resolve_route",
            "rdma_set_option",
        ],
    ),
    ("RDMACM_1.1", &["rdma_join_multicast_ex"]),
    ("RDMACM_1.2", &["rdma_establish", "rdma_init_qp_attr"]),
    (
        "RDMACM_1.3",
        &[
            "rdma_get_remote_ece",
            "rdma_reject_ece",
            "rdma_set_local_ece",
        ],
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    if env::var_os("CARGO_FEATURE_SYSTEM").is_none() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed=build.rs");
    stub::link_nodes("ibverbs", NODES)?;
    match env::var_os("CARGO_FEATURE_CONNECTION") {
        Some(_) => stub::link_nodes("rdmacm", CONNECTION),
        None => Ok(()),
    }
}
