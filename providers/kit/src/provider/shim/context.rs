//! An open context of a provider, and how the shims find it.

use super::Commands;
use super::import::{self, Exports, Left};
use super::lent::Lent;
use super::object::{Object, Side, Uses, free};
use super::{later, table};
use crate::abi::handle::{Ctx, DeviceRef, hold, release};
use crate::abi::{ibv_context, verbs_context};
use crate::errno::{Errno, Result};
use crate::provider::{Edges, KernelProvider, Opened, Provider, command};
use crate::sys::memory;
use crate::table::Table;
use crate::uverbs;
use bytemuck::{Zeroable, bytes_of_mut};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::addr_of_mut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// The block of a context: the C structure first.
#[repr(C)]
pub(super) struct Context<P: Provider> {
    /// Applications and the library write here too.
    _verbs: UnsafeCell<verbs_context>,
    /// Objects of the context.
    pub(super) uses: Uses,
    /// `None` once the context is closed and only waits for objects that were left.
    provider: UnsafeCell<Option<Arc<P>>>,
    /// Objects by handle, shared with contexts that were imported.
    exports: Arc<Exports<P>>,
    /// Imported domains that were given up while they were in use.
    left: Left<P>,
}

/// Devices of this library have no driver in the kernel (`RDMA_DRIVER_UNKNOWN`).
const NO_DRIVER: u32 = 0;

impl<P: Provider> Context<P> {
    /// The pointer by which C knows the context.
    pub(super) fn public(&self) -> *mut ibv_context {
        core::ptr::from_ref(self)
            .cast_mut()
            .cast::<u8>()
            .wrapping_add(offset_of!(verbs_context, context))
            .cast()
    }

    /// Objects that can be imported.
    pub(super) fn exports(&self) -> &Exports<P> {
        &self.exports
    }

    /// Imported domains that were given up.
    pub(super) fn left(&self) -> &Left<P> {
        &self.left
    }

    /// The provider.
    ///
    /// # Errors
    /// EINVAL when the context is closed.
    pub(super) fn provider(&self) -> Result<&Arc<P>> {
        // SAFETY: written when the context is opened and closed only, while no other call runs.
        unsafe { (*self.provider.get()).as_ref() }.ok_or(Errno::INVAL)
    }

    /// The context that C passed to a verb of `P`.
    ///
    /// # Errors
    /// EINVAL for NULL.
    ///
    /// # Safety
    /// `raw` is NULL or a context that [`open`] made for the same provider, and stays for `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut ibv_context) -> Result<&'a Self> {
        if raw.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: vouched for by the caller: the context lies in such a block.
        Ok(unsafe {
            &*raw
                .byte_sub(offset_of!(verbs_context, context))
                .cast::<Self>()
        })
    }

    /// An object that a verb is given beside its first.
    ///
    /// # Errors
    /// EINVAL for NULL, and for an object of another context.
    ///
    /// # Safety
    /// `raw` is NULL or an object of the type's kind, of any context, and is valid for `'a`.
    pub(super) unsafe fn object<'a, R: Side>(&self, raw: *mut R::C) -> Result<&'a Object<R>> {
        if raw.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: vouched for by the caller; every object starts with its context. One of this
        // context was made by the shims of this provider, as such a block.
        unsafe {
            if *raw.cast::<*mut ibv_context>() != self.public() {
                return Err(Errno::INVAL);
            }
            Ok(&*raw.cast::<Object<R>>())
        }
    }

    /// As [`Self::object`], for one that may be left out.
    ///
    /// # Errors
    /// EINVAL for an object of another context.
    ///
    /// # Safety
    /// As for [`Self::object`].
    pub(super) unsafe fn optional<'a, R: Side>(
        &self,
        raw: *mut R::C,
    ) -> Result<Option<&'a Object<R>>> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: vouched for by the caller.
        unsafe { self.object(raw) }.map(Some)
    }
}

/// The object that a verb is about, and the context that it belongs to.
pub(super) struct Subject<'a, P: Provider, R: Side> {
    pub(super) context: Lent<'a, Context<P>>,
    pub(super) provider: Lent<'a, Arc<P>>,
    pub(super) object: Lent<'a, Object<R>>,
    raw: *mut R::C,
}

impl<'a, P: Provider, R: Side> Subject<'a, P, R> {
    /// Takes the pointer that C passed.
    ///
    /// # Errors
    /// EINVAL for NULL, and when the context is closed.
    ///
    /// # Safety
    /// `raw` is NULL or an object of that kind that the shims of `P` made, and stays for `'a`.
    pub(super) unsafe fn from_raw(raw: *mut R::C) -> Result<Self> {
        if raw.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: vouched for by the caller; an object starts with its context, whose block exists
        // as long as it has objects.
        unsafe {
            let context = Context::from_raw(*raw.cast::<*mut ibv_context>())?;
            Ok(Self {
                provider: Lent::new(context.provider()?),
                context: Lent::new(context),
                object: Lent::new(&*raw.cast::<Object<R>>()),
                raw,
            })
        }
    }

    /// Frees the object.
    ///
    /// # Safety
    /// It is idle, and it is not used any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: vouched for by the caller.
        unsafe { free(self.raw.cast::<Object<R>>()) }
    }
}

/// Makes the context of a device that a provider has opened.
///
/// # Errors
/// ENOMEM, EMFILE, ENFILE.
pub(super) fn open<P: Provider + Edges>(
    device: DeviceRef<'_>,
    opened: Opened<P>,
) -> Result<*mut verbs_context> {
    let exports = Arc::<Exports<P>>::default();
    let shared = Arc::<Exports<P>>::clone(&exports);
    let command = command::open(device.hold(), shared)?;
    let made = make(device, opened, exports, || command.as_raw_fd());
    if made.is_ok() {
        // The context owns it now.
        let _ = command.into_raw_fd();
    } else {
        command::forget(command.as_fd());
    }
    made
}

/// Makes another context around a command descriptor, which it owns if there is no error.
///
/// # Errors
/// EINVAL for a descriptor of no open context, or of another kind of device; ENOMEM.
pub(super) fn import<P: Provider + Edges>(
    device: DeviceRef<'_>,
    opened: Opened<P>,
    command: BorrowedFd<'_>,
) -> Result<*mut verbs_context> {
    let shared = command::again(command)?;
    let made = shared
        .downcast::<Exports<P>>()
        .map_err(|_| Errno::INVAL)
        .and_then(|exports| make(device, opened, exports, || command.as_raw_fd()));
    if made.is_err() {
        command::forget(command);
    }
    made
}

/// Lays out the block of a context that has no provider yet. It holds its device, and owns the
/// descriptor that `command` answers, which is asked last.
///
/// # Errors
/// ENOMEM.
fn lay<P: Provider>(
    device: DeviceRef<'_>,
    driver: u32,
    exports: Arc<Exports<P>>,
    command: impl FnOnce() -> OwnedFd,
) -> Result<*mut Context<P>> {
    let block = memory::zeroed(size_of::<Context<P>>())?.cast::<Context<P>>();
    // SAFETY: the block is new, large enough and zeroed; each of its members is made ready once,
    // before anything else refers to it.
    unsafe {
        let context = block.cast::<verbs_context>();
        Ctx::init(context, device, Some(command()), driver);
        hold(device);
        addr_of_mut!((*block).uses).write(Uses::new());
        addr_of_mut!((*block).provider).write(UnsafeCell::new(None));
        addr_of_mut!((*block).exports).write(exports);
        addr_of_mut!((*block).left).write(Left::new());
        let ctx = Ctx::from_raw(&raw mut (*context).context)?;
        ctx.private().set_later(&later::<P>());
    }
    Ok(block)
}

/// Frees the block of a context that is closed.
///
/// # Safety
/// [`lay`] made it, it is closed, and it is not used any more.
unsafe fn clear<P: Provider>(block: *mut Context<P>) {
    // SAFETY: vouched for by the caller; members that own something are dropped once.
    unsafe {
        drop(addr_of_mut!((*block).exports).read());
        drop(addr_of_mut!((*block).left).read());
        memory::free(block.cast());
    }
}

/// Makes a context; `command` answers the number of the descriptor that it is to own, and is the
/// last that is asked.
fn make<P: Provider + Edges>(
    device: DeviceRef<'_>,
    opened: Opened<P>,
    exports: Arc<Exports<P>>,
    command: impl FnOnce() -> RawFd,
) -> Result<*mut verbs_context> {
    let Opened { provider, async_fd } = opened;
    let vectors = c_int::try_from(provider.comp_vectors()).map_err(|_| Errno::OVERFLOW)?;
    let ops = import::with_imports::<P>(table::<P>());
    // SAFETY: the caller gives up the descriptor.
    let block = lay::<P>(device, NO_DRIVER, exports, || unsafe {
        OwnedFd::from_raw_fd(command())
    })?;
    let provider = Arc::new(provider);
    // SAFETY: the block was just laid out, and nothing else refers to it.
    unsafe {
        let context = block.cast::<verbs_context>();
        *(*block).provider.get() = Some(Arc::clone(&provider));
        (*context).context.num_comp_vectors = vectors;
        let ctx = Ctx::from_raw(&raw mut (*context).context)?;
        ctx.private().set_verbs(context, &raw const ops);
        ctx.set_async_fd(async_fd);
        ctx.private().set_edges(provider);
        Ok(context)
    }
}

/// Makes the context of a kernel device, and takes over its command descriptor.
///
/// # Errors
/// ENOMEM, the kernel's errno, the provider's.
pub(super) fn open_kernel<P: KernelProvider>(
    device: DeviceRef<'_>,
    cmd_fd: OwnedFd,
) -> Result<*mut verbs_context> {
    let block = lay::<P>(device, P::DRIVER, Arc::default(), || cmd_fd)?;
    let context = block.cast::<verbs_context>();
    // SAFETY: the block was just laid out, and there is no other reference to it; initialised
    // members are dropped before it is freed.
    unsafe {
        let ctx = Ctx::from_raw(&raw mut (*context).context)?;
        match begin::<P>(ctx) {
            Ok(provider) => {
                *(*block).provider.get() = Some(Arc::new(provider));
                let ops = table::<P>();
                ctx.table().set(context, &raw const ops);
                Ok(context)
            }
            Err(e) => {
                Ctx::uninit(context);
                clear(block);
                release(device);
                Err(e)
            }
        }
    }
}

/// Has the kernel make its part of the context, and the provider its own.
fn begin<P: KernelProvider>(ctx: Ctx<'_>) -> Result<P> {
    uverbs::choose_paths(&ctx);
    let mut answer = P::Answer::zeroed();
    let driver = &mut uverbs::Driver::response(bytes_of_mut(&mut answer));
    let reported = uverbs::context::get_context(&ctx, driver)?;
    if let Some(fd) = reported.async_fd {
        ctx.set_async_fd(fd);
    }
    // SAFETY: nothing else refers to the context yet; its device is held.
    unsafe {
        (*ctx.as_ptr()).num_comp_vectors = reported.num_comp_vectors;
        if let Some(support) = reported.core_support {
            (*ctx.device()).core_support = support;
        }
    }
    let vectors = u32::try_from(reported.num_comp_vectors).map_err(|_| Errno::PROTO)?;
    P::open(Commands::of(ctx), vectors, answer)
}

/// ibv_close_device(3). Objects that the application has left keep the block of the context:
/// their verbs answer EINVAL from now on, or EOPNOTSUPP where they are called through the context.
pub(super) unsafe extern "C" fn free_context<P: Provider>(raw: *mut ibv_context) {
    // SAFETY: the library passes an open context and it is not used any more.
    unsafe {
        let Ok(context) = Context::<P>::from_raw(raw) else {
            return;
        };
        let verbs = raw
            .byte_sub(offset_of!(verbs_context, context))
            .cast::<verbs_context>();
        let device = DeviceRef::from_raw((*raw).device);
        if let Some(provider) = (*context.provider.get()).take() {
            provider.close();
        }
        let of_kernel = Ctx::from_raw(raw).is_ok_and(|ctx| ctx.private().edges().is_none());
        if (*raw).cmd_fd >= 0 && !of_kernel {
            command::forget(BorrowedFd::borrow_raw((*raw).cmd_fd));
        }
        Ctx::uninit(verbs);
        Table::new().show(verbs);
        context.left.sweep();
        if !context.uses.any() {
            clear(verbs.cast::<Context<P>>());
        }
        if let Ok(device) = device {
            release(device);
        }
    }
}
