#![forbid(unsafe_code)]
//! Explanations and records of calls (`IBVERBS_EXPLAIN`, `IBVERBS_TRACE`: docs/explain.md).
//! libibverbs reads the environment and has the outputs: over rdma-core's there is neither.
//!
//! | module | contents |
//! | --- | --- |
//! | `about` | the arguments of a call that say why it failed |
//! | `call` | why a call failed |
//! | `event` | what an event reports |
//! | `reject` | reasons of a REJ |

mod about;
mod call;
mod event;
mod reject;

pub use about::About;
pub use event::{join, taken};

use crate::abi::{Address, event_name};
use crate::id::Id;
use crate::{registry, uroce};
use kit::cm::{Call, EXPLAINS, Observed, RECORDS};
use kit::errno::{Errno, Result, named};
use kit::sys::errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the environment asks for; each thread that finds it unknown asks, all with one answer.
static REQUESTED: AtomicU32 = AtomicU32::new(UNKNOWN);

const UNKNOWN: u32 = u32::MAX;

#[inline(always)]
fn requested() -> u32 {
    match REQUESTED.load(Ordering::Relaxed) {
        UNKNOWN => ask(),
        known => known,
    }
}

#[cold]
#[inline(never)]
fn ask() -> u32 {
    let requested = uroce::observes();
    REQUESTED.store(requested, Ordering::Relaxed);
    requested
}

#[inline]
pub fn explains() -> bool {
    requested() & EXPLAINS != 0
}

/// When a call begins, nanoseconds of CLOCK_MONOTONIC; 0 if nothing looks at calls.
#[inline]
pub fn begin() -> u64 {
    match requested() {
        0 => 0,
        _ => now(),
    }
}

#[cold]
#[inline(never)]
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Runs a call, then explains and records it. `id` is the address of the id that it is about, or
/// 0; `value` is recorded as the answer.
pub fn call<T>(
    (call, id, words): (Call, usize, &[u64]),
    about: impl FnOnce() -> About,
    value: impl FnOnce(&T) -> u64,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let begin = begin();
    let answer = run();
    if begin != 0 {
        let value = answer
            .as_ref()
            .map_or_else(|e| Err(*e), |made| Ok(value(made)));
        over(begin, (call, id, words), about, value);
    }
    answer
}

/// The call that began then is over: explains and records it, as `call`.
pub fn over(
    begin: u64,
    (call, id, words): (Call, usize, &[u64]),
    about: impl FnOnce() -> About,
    answer: Result<u64>,
) {
    if begin == 0 {
        return;
    }
    kept_errno(|| {
        let (code, value) = answer.map_or_else(|e| (e.raw(), 0), |value| (0, value));
        if id == 0 {
            record(call, begin, code, value, words);
        } else {
            record(call, begin, code, value, &[&[id as u64], words].concat());
        }
        if let Err(e) = answer
            && is_explained(e)
        {
            failed(call, id, &about(), e);
        }
    });
}

/// rdma_get_cm_event(3) is over: with an event of these words, or with errno.
pub fn got_event(begin: u64, words: &[u64], failure: Option<Errno>) {
    if begin == 0 {
        return;
    }
    kept_errno(|| {
        let code = failure.map_or(0, Errno::raw);
        record(Call::GetCmEvent, begin, code, 0, words);
        if let Some(e) = failure.filter(|e| is_explained(*e)) {
            let why = call::of_channel(e);
            explain(&format!("rdma_get_cm_event failed: {}. {why}", named(e)));
        }
    });
}

/// A call waits until the program acknowledges events of an id.
pub fn waits(call: Call, id: &Arc<Id>, missing: u32) {
    if missing == 0 || !explains() {
        return;
    }
    kept_errno(|| {
        let events = registry::unacknowledged(id);
        let events = events.iter().map(|(kind, at)| {
            let name = event_name(*kind).map_or("?".into(), |name| name.to_string_lossy());
            format!("{name} ({at:#x})")
        });
        let events = events.collect::<Vec<_>>().join(", ");
        explain(&format!(
            "{}({}) waits: the program has {missing} event(s) of it that it has not given to \
             rdma_ack_cm_event: {events}. A thread that has such an event and makes this call \
             waits for ever.",
            call.name(),
            shown(id),
        ));
    });
}

fn is_explained(e: Errno) -> bool {
    explains() && e != Errno::AGAIN && e.raw() != libc::EINTR
}

fn record(call: Call, begin: u64, error: i32, value: u64, words: &[u64]) {
    if requested() & RECORDS == 0 {
        return;
    }
    let call = Observed {
        call: call.number(),
        begin,
        took: now().saturating_sub(begin),
        value,
        words: core::ptr::null(),
        count: 0,
        error: error.unsigned_abs(),
    };
    uroce::record(call, words);
}

fn failed(call: Call, address: usize, about: &About, e: Errno) {
    let id = registry::id(address).ok();
    let subject = match (&id, address) {
        (Some(id), _) => shown(id),
        (None, 0) => String::new(),
        (None, address) => format!("{address:#x}"),
    };
    let why = match (&id, needs_id(call)) {
        (None, true) => "The pointer is no id of this library: it is NULL, or the id was \
                         destroyed, or the call that makes it failed and its answer was not \
                         looked at."
            .to_owned(),
        (id, _) => call::why(call, id.as_ref(), about, e),
    };
    explain(&format!(
        "{}({subject}) failed: {}. {why}",
        call.name(),
        named(e)
    ));
}

fn needs_id(call: Call) -> bool {
    !matches!(
        call,
        Call::CreateEventChannel
            | Call::GetCmEvent
            | Call::AckCmEvent
            | Call::CreateId
            | Call::CreateEp
            | Call::GetAddrInfo
            | Call::GetDevices
    )
}

/// An id in a text: its address, the addresses of both sides, and the device.
fn shown(id: &Arc<Id>) -> String {
    let ip = |address: Option<Address>| address.and_then(|address| address.ip());
    let (source, destination) = (ip(id.block.source()), ip(id.block.destination()));
    let way = match (source, destination) {
        (Some(from), Some(to)) => format!(", {from} to {to}"),
        (Some(from), None) => format!(", {from}"),
        (None, Some(to)) => format!(", to {to}"),
        (None, None) => String::new(),
    };
    let device = id.device();
    let device = device.map(|device| format!(", {}", device.verbs.name()));
    format!("id {:#x}{way}{}", id.address(), device.unwrap_or_default())
}

fn explain(text: &str) {
    uroce::explain(&format!("librdmacm: {text}\n"));
}

/// Runs what must not disturb the program's errno.
fn kept_errno<T>(run: impl FnOnce() -> T) -> T {
    let left = errno::get();
    let answer = run();
    errno::set(left);
    answer
}
