//! Diagnostics of calls in a running program: `IBVERBS_EXPLAIN`, `IBVERBS_VALIDATE`,
//! `IBVERBS_TRACE` (docs/explain.md).
//!
//! The environment is read once, before the first device list, because reading it takes longer than
//! the rest of opening a context. If a variable is set, [`cover()`] copies the provider's table
//! when a context opens (`Private::cover`) and puts a function of `cover` into every slot and every
//! public member. A call is therefore seen whether it comes through an exported function, an inline
//! of the headers, or another library. If no variable is set, the provider's own pointers stay in
//! place and not even a flag is read. Verbs that a provider sets later go into the copy.
//!
//! | module or type | contents |
//! | --- | --- |
//! | `cover::Call` | a call with C's arguments; one variant for each verb, generated from the list of verbs (`kit::each_verb`) |
//! | `answer::Outcome` | the result of a call in any convention: a value, or an errno |
//! | `later` | calls without a slot in the table. They are seen in the exported function, whether the provider, the kernel or the library implements them |
//! | `librdmacm` | calls of librdmacm, which uses the outputs of this library |
//! | `extended` | functions stored in objects (`start_poll`, `next_poll`, `wr_complete`), replaced when the object is created |
//! | `originals::Originals` | the replaced functions by the object's address. It has no lock, because it is read on every poll and in forked children |
//! | `facts` | queries made after a failure: limits, GIDs, states, locked memory, mappings |
//! | `explain`, `validate`, `trace` | read C's arguments for `core::explain`, `core::validate` and `core::trace` |
//!
//! *Flow.* `around` runs the provider's verb, saves errno, passes call and outcome to the
//! diagnostics, and restores errno. No argument and no result changes. Failures of the library
//! itself (a device that cannot be opened, NULL arguments) are reported where they occur, since no
//! cover function sees them.
//!
//! *Environment.* A variable that names a file, a provider or a device is read by
//! `core::config::trusted`, which returns nothing in a process with more rights than its caller.
//!
//! *State* (statuses already reported, the recorded objects, unwritten trace records) is in
//! `PerProcess` values. A forked child starts without it and without locks held by other threads.
//!
//! Outputs: `kit::sys::output`. Destroyed objects: `kit::abi::handle::watch`.
//!
//! Tests: `c-tests/programs/self_checking/explain*.c`, `validate*.c`, `trace.c`, `observe_off.c`,
//! and `post_44/observe.c`.

mod answer;
mod cover;
mod explain;
mod extended;
mod facts;
mod later;
pub mod librdmacm;
mod originals;
mod subject;
mod trace;
mod validate;

pub use crate::core::trace::record::Later;
pub use explain::{failed, not_opened, refused};
pub use later::{later, reg_mr_ex};
pub use subject::Argument;

use crate::core::{explain as text, init, report, trace as recording};
use answer::{Answer, Outcome};
use cover::{Call, OPS};
use kit::abi::handle::{Ctx, Qp, UNACKED, watch};
use kit::abi::{ibv_async_event, ibv_context, ibv_qp};
use kit::errno::Errno;
use kit::sys::{errno, exit, first, pthread::without_cancellation};
use kit::table::Table;

/// Whether a variable asks for any of this: to read all of them takes longer than the rest of
/// opening a context.
static ASKED: first::Answer = first::Answer::new();

/// Reads the environment now rather than when the first context opens.
pub fn ask() {
    ASKED.get_or_find(init::is_observed);
}

/// Whether the environment enables any of this; the outputs are open then.
fn is_on() -> bool {
    if !ASKED.get_or_find(init::is_observed) {
        return false;
    }
    report::init();
    recording::init(exit::at_exit);
    report::on() || recording::on()
}

/// Puts the functions of this module in front of a context's verbs, if the environment enables any
/// of them.
///
/// # Safety
/// Nothing else refers to the context yet.
pub unsafe fn cover(ctx: Ctx<'_>) {
    if !is_on() {
        return;
    }
    // SAFETY: vouched for by the caller; the table has every verb.
    unsafe { ctx.private().cover(ctx.verbs(), &raw const OPS) }
    if report::validates() {
        watch::check_by(validate::is_destroyed);
        validate::opened(ctx);
    }
}

/// The library itself has made an object, by no verb of the provider: whatever its memory was
/// before, it is no destroyed object.
pub fn made(object: usize) {
    if report::validates() {
        kept_errno(|| validate::answered(object as u64));
    }
}

/// Replaces the functions that new objects contain.
///
/// # Safety
/// The call has just answered `value`.
unsafe fn objects(call: &Call, value: u64) {
    let made = usize::try_from(value).unwrap_or(0);
    let made = std::ptr::with_exposed_provenance_mut::<ibv_qp>(made);
    // SAFETY: a provider's new object is valid, and nothing else refers to it.
    unsafe {
        match *call {
            Call::create_cq_ex(..) => extended::cq(made.cast()),
            Call::create_qp_ex(..) | Call::open_qp(..) => {
                if let Ok(qp) = Qp::from_raw(made) {
                    extended::qp(qp);
                }
            }
            Call::destroy_cq(cq) => extended::gone(cq.addr()),
            Call::destroy_qp(qp) => extended::gone(qp.addr()),
            _ => {}
        }
    }
}

/// Runs a verb of the provider and observes its result.
///
/// # Safety
/// `context` is NULL or that of the object at `object`, which the call is about; `run` calls the
/// verb of `call` with its arguments, which are the caller's.
unsafe fn around<A: Answer>(
    object: usize,
    context: *mut ibv_context,
    call: Call,
    run: impl FnOnce(&Table) -> A,
) -> A {
    if report::validates() && validate::is_destroyed(object, context.addr()) {
        return A::refused(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller.
    let ctx = unsafe { Ctx::from_raw(context) };
    let Ok(ctx) = ctx else {
        return A::refused(Errno::INVAL);
    };
    let Some(beneath) = ctx.private().beneath() else {
        return A::refused(Errno::INVAL);
    };
    let before = if report::validates() {
        // SAFETY: the arguments are the caller's; the context is open.
        kept_errno(|| unsafe { validate::before(ctx, &call) })
    } else {
        0
    };
    let begin = trace::begin();
    // A provider in C waits in some verbs, where a thread can be cancelled; but not with functions
    // in Rust on its stack.
    let answer = without_cancellation(|| run(beneath));
    let end = trace::begin();
    let outcome = answer.outcome(call.verb());
    if matches!(outcome, Outcome::Failed(Errno(UNACKED))) {
        // The verb will be called again.
        return answer;
    }
    if recording::on() {
        // SAFETY: as above; of a context that is closed nothing is read.
        kept_errno(|| unsafe { trace::verb(&call, outcome, begin, end) });
    }
    if matches!(call, Call::free_context(..)) {
        kept_errno(recording::flush);
        return answer;
    }
    // SAFETY: as above.
    kept_errno(|| unsafe { look(ctx, &call, outcome, before) });
    answer
}

/// Runs a function, and restores the program's errno.
fn kept_errno<T>(run: impl FnOnce() -> T) -> T {
    let left = errno::get();
    let answer = run();
    errno::set(left);
    answer
}

/// # Safety
/// The call has just returned `outcome`, and its arguments still belong to the caller; `before` is
/// the state before it.
unsafe fn look(ctx: Ctx<'_>, call: &Call, outcome: Outcome, before: u64) {
    let (explains, validates) = (report::explains(), report::validates());
    // SAFETY: vouched for by the caller.
    unsafe {
        match outcome {
            Outcome::Failed(e) => {
                if validates {
                    validate::failed(call);
                }
                if explains {
                    explain::verb(ctx, call, e);
                }
            }
            Outcome::Done(value) => {
                if validates {
                    validate::answered(value);
                }
                objects(call, value);
                if validates {
                    validate::done(ctx, call, value, before);
                }
                if explains {
                    explain::succeeded(ctx, call, value);
                }
            }
        }
    }
}

/// Looks at an asynchronous event that the program is being given.
///
/// # Safety
/// The event was just read, and its object is live.
pub unsafe fn event(ctx: Ctx<'_>, event: &ibv_async_event) {
    if !report::on() {
        return;
    }
    // SAFETY: vouched for by the caller.
    unsafe {
        kept_errno(|| {
            if report::validates() {
                validate::event(event);
            }
            explain::event(ctx, event);
        });
    }
}

/// The name of a verb in explanations: `ibv_` and its name.
fn name(verb: &str) -> String {
    text::call_name(verb)
}
