//! The C interface: every exported function, one file for each kind of object. A function takes C's
//! pointers as handles (`kit::abi::handle`), calls, and converts the result by one of the return
//! conventions in [`ret`].
//!
//! [`private`] exports the functions for providers in C. `compat_1_0` exports the functions of
//! libibverbs 1.0, `ofa` the XRC calls of the older verbs manual, `observe` runs the diagnostics
//! (`IBVERBS_EXPLAIN`, `IBVERBS_VALIDATE`, `IBVERBS_TRACE`). Two files are C: `cancel.c` and
//! `syscalls.c`.
//!
//! # Thread cancellation
//!
//! A program may cancel a thread that waits in a call (pthread_cancel(3)). glibc unwinds the thread
//! from the wait and runs its cleanup handlers. Rust does not define such an unwinding through Rust
//! frames. Therefore every wait is in C (`cancel.c`), and only C frames lie between the wait and
//! the program. The exported C functions call Rust before the wait and after it.
//!
//! - *Events.* read(2) is the cancellation point. glibc before 2.41 can cancel a thread whose
//!   read(2) has just consumed a record. `core::events::kept` stores that record, and the next call
//!   on the same channel or context returns it.
//! - *Destruction.* Destroying an object waits until the program has acknowledged its events, and a
//!   thread can be cancelled in that wait. A provider in Rust does not wait: its verb returns
//!   `UNACKED`, `cancel.c` waits and calls the verb again. A cancelled thread leaves an object that
//!   can still be destroyed. A provider in C waits inside `ibv_cmd_destroy_*`, whose wait is in
//!   `cancel.c` too; the provider decides what happens to its own object. While one of the
//!   diagnostic variables is set, destruction over a provider in C cannot be cancelled, nor can the
//!   functions of libibverbs 1.0.
//! - *Bounded waits*: up to 5 seconds for udev to create a device node (`core::chardev`, in
//!   `ibv_open_device`), and 3 seconds for a neighbour's Ethernet address (`core::address::l2`, in
//!   `ibv_resolve_eth_l2_from_gid`, which providers in C call in `ibv_create_ah` and
//!   `ibv_modify_qp`). Such a call runs in steps (`core::wait`), between which `cancel.c` waits.
//! - *Calls of librdmacm* reach three verbs by a table of functions ([`connection_manager`]) and
//!   not by the exported ones: librdmacm defers cancellation once for all verbs of its call, and
//!   these functions are no cancellation points. Over a provider in C they disable cancellation.
//! - *All other calls* do not wait and are not cancellation points. `syscalls.c` replaces those
//!   functions of the C library that Rust calls and that are cancellation points (close(2),
//!   write(2), getrandom(2) and others) by versions that are not. The static library has no such
//!   replacements: a thread that was cancelled before it calls `ibv_close_device` may end inside
//!   it.
//! - *Asynchronous cancellation* (`PTHREAD_CANCEL_ASYNCHRONOUS`) is deferred for the duration of
//!   each of these calls.
//!
//! Tests: `cancel.c` in `c-tests/programs/self_checking`, `rxe` and `post_44_rxe`, and
//! `c-tests/generations/program.c` for providers in C; `c-tests/tests/symbols.rs` checks that the
//! library imports no cancellation point.

pub mod private;
pub mod ret;

mod address;
mod ah;
mod buf;
mod channel;
mod comp_cntr;
mod compat_1_0;
mod connection_manager;
mod context;
mod cq;
mod device;
mod dm;
mod dmah;
mod ended;
mod event;
#[cfg(test)]
pub mod fake;
mod fork;
mod gid;
mod marshal;
mod mr;
mod mr_ex;
mod observe;
mod ofa;
mod pd;
mod pkey;
mod port;
mod qp;
mod resolve;
mod srq;
mod step;
mod text;

/// Prepares the process before the first device is searched.
fn start() {
    crate::core::init::once(private::disassociate::allow_disassociate, observe::ask);
}
