//! How librdmacm reaches the connection manager of devices in user space.

use crate::abi::{ibv_comp_channel, ibv_cq, ibv_qp, ibv_qp_attr};
use core::ffi::c_int;

/// The version of the table that this library speaks. Members are only ever added at the end.
pub const VERSION: u32 = 2;

/// A bit of [`Table::observes`]: failures are explained (`IBVERBS_EXPLAIN`).
pub const EXPLAINS: u32 = 1;
/// The same: calls are recorded (`IBVERBS_TRACE`).
pub const RECORDS: u32 = 2;

/// A call that `IBVERBS_TRACE` records.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Its number in [`super::CALLS`].
    pub call: usize,
    /// When it began and how long it took, nanoseconds of CLOCK_MONOTONIC.
    pub begin: u64,
    /// See above.
    pub took: u64,
    /// The address of the new object.
    pub value: u64,
    /// Arguments.
    pub words: *const u64,
    /// How many.
    pub count: usize,
    /// The errno of a failure, 0 for none.
    pub error: u32,
}

/// The table that `ferroverbs_connection_manager()` of libibverbs returns (node `FERROVERBS_1.1`).
/// Each function returns 0 or an errno value.
#[repr(C)]
pub struct Table {
    /// Bytes of the table.
    pub size: usize,
    /// [`VERSION`].
    pub version: u32,
    /// Opens an event channel: a number, and a descriptor that can be read (poll(2)) as long as an
    /// event waits. The descriptor belongs to the caller. ENODEV without devices.
    pub open: Option<unsafe extern "C" fn(channel: *mut u32, descriptor: *mut c_int) -> c_int>,
    /// Closes a channel, and ends its ids.
    pub close: Option<unsafe extern "C" fn(channel: u32) -> c_int>,
    /// Gives a channel the command of a number: the bytes that follow the header when the command
    /// is written to the character device. The response goes to the last two arguments. The address
    /// of a response in the command is not followed. `GET_EVENT` answers EAGAIN at once if no event
    /// waits; `SET_OPTION` has the value behind it; `MIGRATE_ID` names the old channel by its
    /// number.
    pub ask: Option<
        unsafe extern "C" fn(
            channel: u32,
            number: u32,
            command: *const u8,
            length: usize,
            response: *mut u8,
            room: usize,
        ) -> c_int,
    >,
    /// What the environment asks for of calls of librdmacm: [`EXPLAINS`], [`RECORDS`].
    pub observes: Option<extern "C" fn() -> u32>,
    /// Writes an explanation, a line of UTF-8.
    pub explain: Option<unsafe extern "C" fn(text: *const u8, length: usize)>,
    /// Records a call.
    pub record: Option<unsafe extern "C" fn(call: *const Observed)>,
}

/// The table, with the verbs for librdmacm behind it: [`Table::size`] says whether they are there.
#[repr(C)]
pub struct WithVerbs {
    /// The table.
    pub table: Table,
    /// The verbs.
    pub verbs: Verbs,
}

/// Verbs as those that libibverbs exports, for a thread whose cancellation is deferred or disabled
/// (pthread_setcanceltype(3)). They are no cancellation points, and leave the thread's state alone:
/// librdmacm calls several of them in one call of the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Verbs {
    /// ibv_modify_qp(3).
    pub modify_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
    /// ibv_destroy_qp(3).
    pub destroy_qp: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    /// ibv_destroy_cq(3), and after a success ibv_destroy_comp_channel(3). The channel is that of
    /// the queue, or NULL.
    pub destroy_cq: unsafe extern "C" fn(*mut ibv_cq, *mut ibv_comp_channel) -> c_int,
}
