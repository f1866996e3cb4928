//! Memory windows.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use kit::abi::{IBV_MW_TYPE_1, IBV_MW_TYPE_2};

use crate::{domain::ProtectionDomain, error::Result, memory::RemoteMemory, sys::window::Window};

/// A memory window: a separate key for a part of a region, with separate rights, which is given and
/// taken by requests ([`SendRequest::bind`](crate::SendRequest::bind)). Copies are the same
/// one.
///
/// A window keeps the region that it is bound to, and so does a request that binds it. Windows of
/// type 1 ([`ProtectionDomain::memory_window`]) are bound again at any time, those of type 2
/// ([`ProtectionDomain::memory_window_2`]) after they were invalidated
/// ([`SendRequest::invalidate`](crate::SendRequest::invalidate), or a peer's
/// [`SendRequest::invalidating`](crate::SendRequest::invalidating)).
///
/// ```
/// use verbs::{Access, Operation, SendRequest};
/// # verbs::use_uroce("lo");
/// # let context = verbs::Device::find("uroce_lo")?.open()?;
/// # let pd = context.protection_domain()?;
/// # let cq = context.completion_queue(64)?;
/// # let build = || pd.reliable(&cq).access(Access::REMOTE_READ).build();
/// # let (a, b) = (build()?, build()?);
/// # let (at_a, at_b) = (a.endpoint(), b.endpoint());
/// # let (qp, _b) = (a.connect(&at_b)?, b.connect(&at_a)?);
/// let region = pd.memory_region(4096, Access::WINDOW)?;
/// let window = pd.memory_window_2()?;
/// qp.post(SendRequest::bind(&window, region.slice(1000..1064)?, Access::REMOTE_READ))?;
/// let remote = window.remote().ok_or("not bound")?; // for the peer
/// for completion in cq.wait()? {
///     assert_eq!(completion.success()?.operation, Operation::Bind);
/// }
/// qp.post(SendRequest::invalidate(remote.rkey))?;
/// for completion in cq.wait()? {
///     assert_eq!(completion.success()?.operation, Operation::Invalidate);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryWindow(Arc<Window>);

impl MemoryWindow {
    pub(crate) fn of_type_1(pd: &ProtectionDomain) -> Result<Self> {
        Ok(Self(Arc::new(Window::new(pd, IBV_MW_TYPE_1)?)))
    }

    pub(crate) fn of_type_2(pd: &ProtectionDomain) -> Result<Self> {
        Ok(Self(Arc::new(Window::new(pd, IBV_MW_TYPE_2)?)))
    }

    pub(crate) fn inner(&self) -> &Arc<Window> {
        &self.0
    }

    /// The memory and the key of the last binding that was posted; none if there is none or if it
    /// was unbound. A peer may use them when the binding has completed, or when it has received a
    /// message that was posted behind it in the same queue pair.
    #[must_use]
    pub fn remote(&self) -> Option<RemoteMemory> {
        self.0.remote()
    }
}

impl fmt::Debug for MemoryWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MemoryWindow");
        shown.field("type", &self.0.kind());
        shown.field("remote", &self.remote());
        shown.finish_non_exhaustive()
    }
}
