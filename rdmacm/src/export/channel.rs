//! Event channels.

use super::ret;
use crate::abi::{Channel, rdma_cm_id, rdma_event_channel};
use crate::{channel, migrate, symver};
use core::ffi::c_int;

unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    ret::pointer(channel::create().map(Channel::as_ptr))
}
symver!(rdma_create_event_channel => "rdma_create_event_channel", "RDMACM_1.0");

unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if let Some(channel) = Channel::of(channel) {
        super::event::forget(channel);
        channel::destroy(channel);
    }
}
symver!(rdma_destroy_event_channel => "rdma_destroy_event_channel", "RDMACM_1.0");

unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    ret::with(id, |id| migrate::migrate(id, Channel::of(channel)))
}
symver!(rdma_migrate_id => "rdma_migrate_id", "RDMACM_1.0");
