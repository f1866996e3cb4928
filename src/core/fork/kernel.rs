#![forbid(unsafe_code)]
//! The kernel's marks, by madvise(2).

use super::{counts::Pages, page_size::base as page_size, protection::Marks};
use kit::{
    errno::{Errno, Result},
    sys::madvise,
};

/// Marks pages of this process.
pub struct Kernel;

impl Marks for Kernel {
    fn mark(&mut self, pages: Pages) -> Result<()> {
        let (addr, len) = bytes(&pages)?;
        madvise::dont_fork(addr, len)
    }

    /// A mark splits the kernel's mapping in up to three, and clearing it joins them again; but
    /// parts that each got their first page while they were apart stay apart for good, and a
    /// process may have 65,530 mappings only. So a page is put there before the first mark: with
    /// a page in it, the whole mapping belongs together. A registration pins the page anyway.
    fn prepare(&mut self, page: u64) {
        let Ok((addr, _)) = bytes(&(page..page + 1)) else {
            return;
        };
        // A page that cannot be written has no such pages or does not exist; madvise reports it.
        let _ = madvise::fault_in(addr);
    }

    fn clear(&mut self, pages: Pages) -> Result<()> {
        let (addr, len) = bytes(&pages)?;
        madvise::do_fork(addr, len)
    }
}

fn bytes(pages: &Pages) -> Result<(usize, usize)> {
    let bytes = |pages: u64| {
        let pages = usize::try_from(pages).map_err(|_| Errno::NOMEM)?;
        pages.checked_mul(page_size()).ok_or(Errno::NOMEM)
    };
    Ok((bytes(pages.start)?, bytes(pages.end - pages.start)?))
}

/// Whether the kernel knows the marks.
///
/// # Errors
/// ENOSYS where it does not, ENOMEM.
pub fn probe() -> Result<()> {
    let page = madvise::Page::new()?;
    let marked = madvise::dont_fork(page.addr(), page_size());
    let cleared = madvise::do_fork(page.addr(), page_size());
    marked.and(cleared).map_err(|_| Errno::NOSYS)
}
