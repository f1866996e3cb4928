//! Whether objects of a device that is gone may be destroyed with success.

use crate::private;
use kit::uverbs;
use std::sync::atomic::{AtomicBool, Ordering};

/// One byte that providers read, 0 or 1 (C's `bool`).
static ALLOW: AtomicBool = AtomicBool::new(false);
private!(data ALLOW => "verbs_allow_disassociate_destroy");

const _: () = assert!(size_of::<AtomicBool>() == 1);

/// Sets it, for providers and for the library's own commands (`RDMAV_ALLOW_DISASSOC_DESTROY`
/// of ibv_open_device(3)).
pub fn allow_disassociate(allow: bool) {
    ALLOW.store(allow, Ordering::Relaxed);
    uverbs::allow_disassociate(allow);
}
