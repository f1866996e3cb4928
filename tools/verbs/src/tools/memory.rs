//! Protection domains, memory, device memory, address handles.

use std::{
    alloc::{self, Layout},
    error,
    ffi::c_int,
    fmt, io, ptr,
    ptr::NonNull,
    rc::Rc,
};

use bytemuck::Zeroable;
use kit::abi::{
    IBV_ACCESS_ZERO_BASED, ibv_access_flags, ibv_ah, ibv_ah_attr, ibv_alloc_dm_attr, ibv_dm,
    ibv_gid, ibv_mr, ibv_pd, ibv_sge,
};

use crate::{
    sys::pages::layout,
    tools::{
        context::{Context, extended, sole},
        handle::{Handle, made, status},
        raw,
    },
};

/// A protection domain.
#[derive(Clone)]
pub struct Pd(Rc<(Handle<ibv_pd>, Context)>);

impl Pd {
    /// # Errors
    /// The errno of ibv_alloc_pd(3).
    pub fn new(context: &Context) -> io::Result<Self> {
        // SAFETY: the context is open, and is kept open.
        let pd = unsafe {
            let at = made(raw::ibv_alloc_pd(context.as_ptr()))?;
            Handle::new(at, raw::ibv_dealloc_pd)
        };
        Ok(Self(Rc::new((pd, context.clone()))))
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_pd {
        self.0.0.as_ptr()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.1
    }

    /// Gives it back.
    ///
    /// # Errors
    /// EBUSY if something made with it is left, else the errno of ibv_dealloc_pd(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.0.destroy()
    }
}

/// Memory of this process: whole pages.
struct Pages {
    at: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(length: usize, byte: u8) -> io::Result<Self> {
        let none = || io::Error::from_raw_os_error(libc::ENOMEM);
        let layout = layout(length).ok_or_else(none)?;
        // SAFETY: the size is not zero.
        let at = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or_else(none)?;
        // SAFETY: that many bytes were allocated.
        unsafe { at.write_bytes(byte, layout.size()) };
        Ok(Self { at, layout })
    }
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Process(error) | Self::Device(error) | Self::Registration(error)) = self;
        error.fmt(f)
    }
}

impl error::Error for NoMemory {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// How memory is registered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// `enum ibv_access_flags`.
    pub access: ibv_access_flags,
    /// The whole address space, on demand; the memory's keys are good for all of it.
    pub implicit: bool,
    /// Memory of the device is registered instead, and the process's is a copy of it.
    pub on_device: bool,
}

/// Registered memory, with the memory itself.
pub struct Memory {
    mr: Handle<ibv_mr>,
    device_memory: Option<Handle<ibv_dm>>,
    pages: Pages,
    length: usize,
    pd: Pd,
}

/// Why memory could not be registered.
#[derive(Debug)]
pub enum NoMemory {
    /// The process has none left.
    Process(io::Error),
    /// ibv_alloc_dm(3) refused.
    Device(io::Error),
    /// ibv_reg_mr(3) refused.
    Registration(io::Error),
}

impl Memory {
    /// Allocates memory, fills it with a byte and registers it.
    ///
    /// # Errors
    /// The step that failed, with its errno.
    pub fn new(pd: &Pd, length: usize, byte: u8, how: Registration) -> Result<Self, NoMemory> {
        let pages = Pages::new(length, byte).map_err(NoMemory::Process)?;
        let device_memory = match how.on_device {
            true => Some(device_memory(pd.context(), length).map_err(NoMemory::Device)?),
            false => None,
        };
        let registered = match &device_memory {
            Some(dm) => register_dm(pd, dm, length, how.access),
            None => {
                let whole = how.implicit.then_some((ptr::null_mut(), usize::MAX));
                let (at, length) = whole.unwrap_or((pages.at.as_ptr(), length));
                let access = how.access.cast_signed();
                // SAFETY: the pages stay until the registration is gone; a registration of
                // everything names no memory.
                made(unsafe { raw::ibv_reg_mr(pd.as_ptr(), at.cast(), length, access) })
            }
        };
        // SAFETY: the domain, the pages and the device memory are kept until it is given back.
        let mr = unsafe {
            let at = registered.map_err(NoMemory::Registration)?;
            Handle::new(at, raw::ibv_dereg_mr)
        };
        Ok(Self {
            mr,
            device_memory,
            pages,
            length,
            pd: pd.clone(),
        })
    }

    /// Gives up the registration, and the device memory.
    ///
    /// # Errors
    /// Which step failed (`Registration` or `Device`), with its errno; the memory then stays.
    pub fn close(self) -> Result<(), NoMemory> {
        let Self {
            mr,
            device_memory,
            pages,
            ..
        } = self;
        if let Err(error) = mr.destroy() {
            // The device may still write there.
            std::mem::forget(pages);
            return Err(NoMemory::Registration(error));
        }
        match device_memory {
            Some(dm) => dm.destroy().map_err(NoMemory::Device),
            None => Ok(()),
        }
    }

    /// The key for work requests of this process.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is there.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    /// The key for those of others.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is there.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// The address of its first byte, as work requests name it.
    #[must_use]
    pub fn address(&self) -> u64 {
        if self.device_memory.is_some() {
            return 0;
        }
        u64::try_from(self.pages.at.as_ptr().addr()).unwrap_or(u64::MAX)
    }

    /// A part of it for a work request.
    pub(crate) fn part(&self, offset: usize, length: usize) -> io::Result<ibv_sge> {
        let none = || io::Error::from_raw_os_error(libc::EINVAL);
        let fits = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        if !fits {
            return Err(none());
        }
        Ok(ibv_sge {
            addr: self.address() + u64::try_from(offset).map_err(|_| none())?,
            length: u32::try_from(length).map_err(|_| none())?,
            lkey: self.lkey(),
        })
    }

    /// The byte at an offset, which the device may have written; `None` past the end.
    #[must_use]
    pub fn byte(&self, offset: usize) -> Option<u8> {
        // SAFETY: inside the pages. The device writes behind the compiler's back.
        (offset < self.length).then(|| unsafe { self.pages.at.add(offset).read_volatile() })
    }

    /// Sets a byte, if there is one at the offset.
    pub fn set(&self, offset: usize, byte: u8) {
        if offset < self.length {
            // SAFETY: inside the pages. The device reads behind the compiler's back.
            unsafe { self.pages.at.add(offset).write_volatile(byte) };
        }
    }

    /// Writes bytes from an offset on.
    ///
    /// # Errors
    /// EINVAL if they reach past the end.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.part(offset, bytes.len())?;
        for (at, byte) in bytes.iter().enumerate() {
            self.set(offset + at, *byte);
        }
        Ok(())
    }

    /// The bytes from an offset on.
    ///
    /// # Errors
    /// EINVAL if they reach past the end.
    pub fn read(&self, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        self.part(offset, length)?;
        Ok((offset..offset + length)
            .filter_map(|at| self.byte(at))
            .collect())
    }

    /// Asks for the pages of an on-demand region to be brought in for writing.
    ///
    /// # Errors
    /// The errno of ibv_advise_mr(3).
    pub fn prefetch(&self) -> io::Result<()> {
        const FOR_WRITING: u32 = 1;
        const AT_ONCE: u32 = 1;
        let verb = extended!(self.pd.context(), advise_mr)?;
        let mut part = self.part(0, self.length)?;
        // SAFETY: the domain and the region live, and one part is passed.
        status(unsafe { verb(self.pd.as_ptr(), FOR_WRITING, AT_ONCE, &raw mut part, 1) })
    }

    /// Copies the process's memory to the device's.
    ///
    /// # Errors
    /// EINVAL where the memory is not the device's, else the errno of ibv_memcpy_to_dm(3).
    pub fn to_device(&self) -> io::Result<()> {
        let dm = self.dm()?.as_ptr();
        // SAFETY: the device memory lives, is as long as the pages, and brings the function.
        unsafe {
            let verb = (*dm).memcpy_to_dm.ok_or_else(unsupported)?;
            status(verb(dm, 0, self.pages.at.as_ptr().cast(), self.length))
        }
    }

    /// Copies the device's memory to the process's.
    ///
    /// # Errors
    /// EINVAL where the memory is not the device's, else the errno of ibv_memcpy_from_dm(3).
    pub fn from_device(&self) -> io::Result<()> {
        let dm = self.dm()?.as_ptr();
        // SAFETY: the device memory lives, is as long as the pages, and brings the function.
        unsafe {
            let verb = (*dm).memcpy_from_dm.ok_or_else(unsupported)?;
            status(verb(self.pages.at.as_ptr().cast(), dm, 0, self.length))
        }
    }

    fn dm(&self) -> io::Result<&Handle<ibv_dm>> {
        let none = || io::Error::from_raw_os_error(libc::EINVAL);
        self.device_memory.as_ref().ok_or_else(none)
    }
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

fn device_memory(context: &Context, length: usize) -> io::Result<Handle<ibv_dm>> {
    let alloc = extended!(context, alloc_dm)?;
    let free = extended!(context, free_dm)?;
    let mut attr = ibv_alloc_dm_attr {
        length,
        log_align_req: 0,
        comp_mask: 0,
    };
    // SAFETY: the context is open, and is kept open by the domain beside.
    unsafe {
        let at = made(alloc(context.as_ptr(), &raw mut attr))?;
        Ok(Handle::new(at, free))
    }
}

fn register_dm(
    pd: &Pd,
    dm: &Handle<ibv_dm>,
    length: usize,
    access: ibv_access_flags,
) -> io::Result<NonNull<ibv_mr>> {
    let verb = extended!(pd.context(), reg_dm_mr)?;
    let access = access | IBV_ACCESS_ZERO_BASED;
    // SAFETY: the domain and the device memory live.
    made(unsafe { verb(pd.as_ptr(), dm.as_ptr(), 0, length, access) })
}

/// Where packets go: ibv_create_ah(3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Route {
    /// The LID, on InfiniBand.
    pub dlid: u16,
    /// The service level.
    pub sl: u8,
    /// The port that sends.
    pub port: u8,
    /// The GID, its index at the sender and the hop limit; none on InfiniBand without one.
    pub global: Option<([u8; 16], u8, u8)>,
}

impl Route {
    pub(crate) fn attr(self) -> ibv_ah_attr {
        let mut attr = ibv_ah_attr::zeroed();
        attr.dlid = self.dlid;
        attr.sl = self.sl;
        attr.port_num = self.port;
        if let Some((gid, index, hops)) = self.global {
            attr.is_global = 1;
            attr.grh.dgid = ibv_gid { raw: gid };
            attr.grh.sgid_index = index;
            attr.grh.hop_limit = hops;
        }
        attr
    }
}

/// An address handle.
pub struct Ah {
    pub(crate) handle: Handle<ibv_ah>,
    _pd: Pd,
}

impl Ah {
    /// # Errors
    /// The errno of ibv_create_ah(3).
    pub fn new(pd: &Pd, route: Route) -> io::Result<Self> {
        let mut attr = route.attr();
        // SAFETY: the domain lives, and is kept.
        let handle = unsafe {
            let at = made(raw::ibv_create_ah(pd.as_ptr(), &raw mut attr))?;
            Handle::new(at, raw::ibv_destroy_ah)
        };
        let _pd = pd.clone();
        Ok(Self { handle, _pd })
    }

    /// Gives it back.
    ///
    /// # Errors
    /// The errno of ibv_destroy_ah(3).
    pub fn close(self) -> io::Result<()> {
        self.handle.destroy()
    }
}

/// A C integer from a count; a count that is too large exceeds any device.
pub(crate) fn count(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
