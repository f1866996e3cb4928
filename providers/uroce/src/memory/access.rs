//! Access flags of regions and windows (`enum ibv_access_flags`).

use kit::abi::*;
use kit::errno::{Errno, Result};
use uroce_engine::wire::feth;

const MEANT: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_OPTIONAL_RANGE;

const REMOTE_CHANGES: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// Whether a region can have these flags.
///
/// # Errors
/// EINVAL for flags without a meaning here, including `IBV_ACCESS_FLUSH_PERSISTENT` (written data
/// does not survive a power failure), and for remote writes to memory without local write access.
pub fn check(access: u32) -> Result<()> {
    let alone = access & REMOTE_CHANGES != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0;
    if access & !MEANT != 0 || alone {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// The flags that a window may have (ibv_bind_mw(3)).
pub const WINDOW: u32 = IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_FLUSH_GLOBAL;

/// Whether a region of these flags can have a window of those. `IBV_ACCESS_LOCAL_WRITE` has no
/// meaning for a window, but programs set it; other providers ignore it, too.
pub fn admits(region: u32, window: u32) -> bool {
    let changes = window & REMOTE_CHANGES != 0;
    region & IBV_ACCESS_MW_BIND != 0
        && region & IBV_ACCESS_ZERO_BASED == 0
        && window & !(WINDOW | IBV_ACCESS_LOCAL_WRITE) == 0
        && (!changes || region & IBV_ACCESS_LOCAL_WRITE != 0)
}

/// The flag that a flush of this placement needs; `None` for one that is not supported.
pub fn flush(placement: u8) -> Option<u32> {
    (placement == feth::GLOBAL).then_some(IBV_ACCESS_FLUSH_GLOBAL)
}
