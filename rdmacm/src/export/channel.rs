//! Event channels.

use super::ret;
use crate::abi::{Channel, rdma_cm_id, rdma_event_channel};
use crate::observe::{self, About};
use crate::{channel, kept, migrate, symver};
use core::ffi::c_int;
use kit::cm::Call;

unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    let create = || channel::create().map(Channel::as_ptr);
    let about = || About::Nothing;
    ret::pointer(observe::call(
        (Call::CreateEventChannel, 0, &[]),
        about,
        |made| made.addr() as u64,
        create,
    ))
}
symver!(rdma_create_event_channel => "rdma_create_event_channel", "RDMACM_1.0");

unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    let words = [channel.addr() as u64];
    let destroy = || {
        if let Some(channel) = Channel::of(channel) {
            kept::forget_channel(channel.address());
            channel::destroy(channel);
        }
        Ok(())
    };
    let call = (Call::DestroyEventChannel, 0, &words[..]);
    // It answers nothing.
    let _ = observe::call(call, || About::Nothing, |()| 0, destroy);
}
symver!(rdma_destroy_event_channel => "rdma_destroy_event_channel", "RDMACM_1.0");

unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    let words = [channel.addr() as u64];
    ret::with(Call::MigrateId, id, &words, |id| {
        migrate::migrate(id, Channel::of(channel))
    })
}
symver!(rdma_migrate_id => "rdma_migrate_id", "RDMACM_1.0");
