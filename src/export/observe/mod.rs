//! What looks at calls while a program runs: `IBVERBS_EXPLAIN`, `IBVERBS_VALIDATE`,
//! `IBVERBS_TRACE`.
//!
//! When it is on, [`cover()`] puts a function of this module in front of each of the provider's
//! verbs, in the context's table and in the members that applications call directly. When it is
//! off, the provider's own pointers stand there and nothing of this module runs.

mod answer;
mod cover;
mod explain;
mod extended;
mod facts;
mod later;
mod originals;
mod subject;
mod trace;
mod validate;

pub use crate::core::trace::record::Later;
pub use explain::{failed, not_opened, refused};
pub use later::{later, reg_mr_ex};
pub use subject::Word;

use crate::core::{explain as text, init, report, trace as recording};
use answer::{Answer, Outcome};
use cover::{Call, OPS};
use kit::abi::handle::{Ctx, Qp, watch};
use kit::abi::{ibv_async_event, ibv_context, ibv_qp};
use kit::errno::Errno;
use kit::sys::{errno, exit};
use kit::table::Table;
use std::sync::LazyLock;

/// Whether a variable asks for any of this: to read all of them takes longer than the rest of
/// opening a context.
static ASKED: LazyLock<bool> = LazyLock::new(init::is_observed);

/// Reads the environment now rather than when the first context opens.
pub fn ask() {
    LazyLock::force(&ASKED);
}

/// Puts the functions of this module in front of a context's verbs, if the environment asks for
/// any of what they do.
///
/// # Safety
/// Nobody else knows the context yet.
pub unsafe fn cover(ctx: Ctx<'_>) {
    if !*ASKED {
        return;
    }
    report::init();
    recording::init(exit::at_exit);
    if !report::on() && !recording::on() {
        return;
    }
    // SAFETY: vouched for by the caller; the table has every verb.
    unsafe { ctx.private().cover(ctx.verbs(), &raw const OPS) }
    if report::validates() {
        watch::check_by(validate::is_destroyed);
        validate::opened(ctx);
    }
}

/// What becomes of objects that bring functions of their own.
///
/// # Safety
/// The call has just answered `value`.
unsafe fn objects(call: &Call, value: u64) {
    let made = usize::try_from(value).unwrap_or(0);
    let made = std::ptr::with_exposed_provenance_mut::<ibv_qp>(made);
    // SAFETY: a provider's new object is valid, and nobody else knows it.
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

/// Runs a verb of the provider and looks at what comes of it.
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
    let answer = run(beneath);
    let end = trace::begin();
    let outcome = answer.outcome(call.verb());
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

/// Runs what must not disturb the program's errno.
fn kept_errno<T>(run: impl FnOnce() -> T) -> T {
    let left = errno::get();
    let answer = run();
    errno::set(left);
    answer
}

/// # Safety
/// The call has just answered `outcome`, and its arguments are still the caller's; `before` is
/// what was known before it.
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
/// The event is one that was just read, whose object is live.
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

/// What the explained texts call a verb: `ibv_` and its name.
fn name(verb: &str) -> String {
    text::call_name(verb)
}
