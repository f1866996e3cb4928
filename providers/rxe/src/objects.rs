//! Objects of which the provider keeps no more than the kernel's numbers.

/// Memory region.
pub struct Mr {
    pub(crate) handle: u32,
    /// The key by which windows are bound. Reregistering changes it in kernels that support it.
    pub(crate) lkey: core::sync::atomic::AtomicU32,
}

/// Memory window.
pub struct Mw {
    pub(crate) handle: u32,
}

/// Address handle.
pub struct Ah {
    pub(crate) handle: u32,
    /// Number by which send requests name it.
    pub(crate) number: u32,
}
