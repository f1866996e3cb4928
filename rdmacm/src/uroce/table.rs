//! The functions of libibverbs for connections of devices in user space and for diagnostics. The
//! shared library finds them by dlsym(3): rdma-core's library has no such functions.

use core::ffi::c_void;
#[cfg(not(ibverbs_linked))]
use kit::cm::WithVerbs;
use kit::cm::{Observed, Table, VERSION, Verbs};
use kit::errno::{Errno, Result};
use kit::sys::first::First;
use rustix::fd::BorrowedFd;

/// The function that returns the table; none if libibverbs does not have it.
#[cfg(not(ibverbs_linked))]
fn connection_manager() -> Option<unsafe extern "C" fn() -> *const Table> {
    const NAME: &core::ffi::CStr = c"ferroverbs_connection_manager";
    // SAFETY: the name ends with NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the function of this name has this type in every version of the table.
    let function = unsafe {
        core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C" fn() -> *const Table>(
            found,
        )
    };
    Some(function)
}

/// The function that returns the table: this library and libibverbs are parts of one program.
#[cfg(ibverbs_linked)]
fn connection_manager() -> Option<unsafe extern "C" fn() -> *const Table> {
    unsafe extern "C" {
        fn ferroverbs_connection_manager() -> *const Table;
    }
    Some(ferroverbs_connection_manager)
}

/// The table, if libibverbs has one of a known version.
fn table() -> Option<&'static Table> {
    static TABLE: First<Option<&'static Table>> = First::new();
    *TABLE.get_or_make(|| {
        let function = connection_manager()?;
        // SAFETY: the returned table lives as long as libibverbs, to which this library is linked.
        let table = unsafe { function().as_ref() }?;
        let is_known = table.version >= VERSION && table.size >= size_of::<Table>();
        is_known.then_some(table)
    })
}

/// The verbs for this library; none if the libibverbs is of another release, or if the verbs that
/// the process calls by the names of the exported ones are those of another object, which looks at
/// the calls.
#[cfg(not(ibverbs_linked))]
pub fn verbs(exported: &[*const c_void]) -> Option<&'static Verbs> {
    let table = table()?;
    if table.size < size_of::<WithVerbs>() {
        return None;
    }
    let own = object_of((&raw const *table).cast())?;
    if exported.iter().any(|verb| object_of(*verb) != Some(own)) {
        return None;
    }
    // SAFETY: the size says that the verbs lie behind the table; they live as long.
    Some(unsafe { &(*(&raw const *table).cast::<WithVerbs>()).verbs })
}

/// None: without the system calls of the shared library the verbs are cancellation points.
#[cfg(ibverbs_linked)]
pub fn verbs(_exported: &[*const c_void]) -> Option<&'static Verbs> {
    None
}

/// The shared object or program that contains an address.
#[cfg(not(ibverbs_linked))]
fn object_of(address: *const c_void) -> Option<usize> {
    let mut found = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: there is room for the answer, which is whole if it is not 0.
    unsafe {
        let is_found = libc::dladdr(address, found.as_mut_ptr()) != 0;
        is_found.then(|| found.assume_init_ref().dli_fbase.addr())
    }
}

fn done(code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Errno(code)),
    }
}

/// Opens a channel. Returns its number, and a descriptor that the caller owns.
///
/// # Errors
/// ENODEV without such devices.
pub fn open() -> Result<(u32, i32)> {
    let open = table().and_then(|table| table.open).ok_or(Errno::NODEV)?;
    let (mut channel, mut descriptor) = (0, -1);
    // SAFETY: there is room for both results.
    done(unsafe { open(&raw mut channel, &raw mut descriptor) })?;
    Ok((channel, descriptor))
}

/// Closes a channel.
pub fn close(channel: u32) {
    if let Some(close) = table().and_then(|table| table.close) {
        // SAFETY: any number is allowed. The channels of a parent process are unknown here.
        let _ = unsafe { close(channel) };
    }
}

/// Sends a command to a channel.
///
/// # Errors
/// The command's.
pub fn ask(channel: u32, number: u32, command: &[u8], response: &mut [u8]) -> Result<()> {
    let ask = table().and_then(|table| table.ask).ok_or(Errno::NODEV)?;
    let (bytes, room) = (command.len(), response.len());
    // SAFETY: both buffers have the stated lengths.
    done(unsafe {
        ask(
            channel,
            number,
            command.as_ptr(),
            bytes,
            response.as_mut_ptr(),
            room,
        )
    })
}

/// Uses the descriptor of a channel of the program.
///
/// # Errors
/// EBADF for an invalid one; the error of the function.
pub fn borrow<T>(descriptor: i32, call: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
    if descriptor < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: the descriptor of a channel is open until the program destroys the channel; an
    // invalid number is EBADF.
    call(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// What the environment asks for of calls ([`kit::cm::EXPLAINS`], [`kit::cm::RECORDS`]).
pub fn observes() -> u32 {
    let observes = table().and_then(|table| table.observes);
    observes.map_or(0, |observes| observes())
}

/// Writes an explanation.
pub fn explain(text: &str) {
    if let Some(explain) = table().and_then(|table| table.explain) {
        // SAFETY: the text is as long as is said.
        unsafe { explain(text.as_ptr(), text.len()) }
    }
}

/// Records a call with these words.
pub fn record(call: Observed, words: &[u64]) {
    let call = Observed {
        words: words.as_ptr(),
        count: words.len(),
        ..call
    };
    if let Some(record) = table().and_then(|table| table.record) {
        // SAFETY: the call is whole, and there are so many words.
        unsafe { record(&raw const call) }
    }
}
