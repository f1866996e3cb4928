//! The functions that the C files call.

use crate::config::{self, Config, Socket};
use crate::table::{self, Entry};
use core::ffi::c_int;
use kit::sys::first::First;

/// `struct target` of `preload.h`.
#[repr(C)]
pub struct Target {
    kind: c_int,
    fd: c_int,
}

/// Exports a function to C alone.
macro_rules! hidden {
    ($f:path => $name:literal) => {
        #[cfg(not(test))]
        core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".set ", $name, ", {f}"),
            f = sym $f,
        );
        #[cfg(test)]
        const _: *const () = $f as *const ();
    };
}

fn target(entry: Option<Entry>, fd: c_int) -> Target {
    entry.map_or(Target { kind: 0, fd }, |entry| Target {
        kind: entry.kind.into(),
        fd: entry.inner,
    })
}

extern "C" fn find(fd: c_int) -> Target {
    target(table::find(fd), fd)
}
hidden!(find => "ferroverbs_preload_find");

extern "C" fn put(fd: c_int, inner: c_int, kind: c_int) -> bool {
    u16::try_from(kind).is_ok_and(|kind| table::put(fd, Entry { kind, inner }))
}
hidden!(put => "ferroverbs_preload_put");

/// # Safety
/// The pointer has room for a result.
unsafe extern "C" fn take(fd: c_int, is_last: *mut bool) -> Target {
    let taken = table::take(fd);
    // SAFETY: vouched for by the caller.
    unsafe { is_last.write(taken.is_some_and(|(_, last)| last)) };
    target(taken.map(|(entry, _)| entry), fd)
}
hidden!(take => "ferroverbs_preload_take");

/// False if there is no room.
///
/// # Safety
/// The pointers have room for the results.
unsafe extern "C" fn exchange(
    fd: c_int,
    inner: c_int,
    kind: c_int,
    before: *mut Target,
    is_last: *mut bool,
) -> bool {
    let kind = u16::try_from(kind).ok();
    let exchanged = kind.and_then(|kind| table::exchange(fd, Entry { kind, inner }));
    let taken = exchanged.flatten();
    // SAFETY: vouched for by the caller.
    unsafe {
        before.write(target(taken.map(|(entry, _)| entry), fd));
        is_last.write(taken.is_some_and(|(_, last)| last));
    }
    exchanged.is_some()
}
hidden!(exchange => "ferroverbs_preload_exchange");

/// Returns -1 at the end.
extern "C" fn set_behind(fd: c_int) -> c_int {
    table::set_behind(fd).unwrap_or(-1)
}
hidden!(set_behind => "ferroverbs_preload_set_behind");

extern "C" fn wanted(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    static CONFIG: First<(Config, String)> = First::new();
    let (config, program) = CONFIG.get_or_make(|| (Config::of_machine(), config::program()));
    config.takes(
        program,
        Socket {
            domain,
            kind,
            protocol,
        },
    )
}
hidden!(wanted => "ferroverbs_preload_wanted");
