//! How long a request that is posted before there is a link with the peer's process waits for it.
#![forbid(unsafe_code)]

use uroce_engine::qp::Service;
use uroce_engine::work::WorkRequest;

/// Bytes from which on a request is worth a link by itself, and a moment's wait for it: by UDP it
/// takes longer than both. By rows `ib_write_bw 64 KiB` of `cargo xtask bench uroce`, 1 MiB takes
/// about 0.4 ms longer by UDP; [`crate::carrier::shm::Links`] has the cost of a link.
pub const LONG: u32 = 1 << 20;
/// For how long after an attempt to have a link began such a request waits for it, in nanoseconds.
const WORTHWHILE: u64 = 5_000_000;
/// The same for a request of an unreliable connection that only a link can carry: packets that find
/// no room before there is one are lost.
const UNRELIABLE: u64 = 2_000_000_000;

/// Nanoseconds after the beginning of an attempt to have a link; `None` if the request does not
/// wait. `only_links` answers whether nothing else leads to processes of this host.
pub fn link_wait(
    service: Service,
    wr: &WorkRequest,
    only_links: impl FnOnce() -> bool,
) -> Option<u64> {
    let is_long = wr.data.length().is_some_and(|length| length >= LONG);
    match service {
        Service::Rc | Service::XrcInitiator if is_long => Some(WORTHWHILE),
        Service::Uc if only_links() => Some(UNRELIABLE),
        _ => None,
    }
}
