#![forbid(unsafe_code)]
//! Work on an opened context besides its provider's: ibv_open_device(3), ibv_import_device(3).

use kit::{abi::handle::Ctx, errno::Result, uverbs};
use std::sync::atomic::Ordering;

/// Finds out, before its first command, how the context's kernel takes commands.
pub fn prepare(ctx: Ctx<'_>) {
    uverbs::choose_paths(&ctx);
}

/// Notes that the context came from another process.
pub fn mark_imported(ctx: Ctx<'_>) {
    ctx.private().imported.store(true, Ordering::Relaxed);
}

/// Asks the kernel for the descriptor of asynchronous events, unless opening gave one already
/// (as the write interface does).
///
/// # Errors
/// The kernel's.
pub fn ensure_async_fd(ctx: Ctx<'_>) -> Result<()> {
    if ctx.async_fd_raw() >= 0 {
        return Ok(());
    }
    ctx.set_async_fd(uverbs::alloc_async_fd(&ctx)?);
    Ok(())
}
