//! What looks at calls while a program runs: `IBVERBS_EXPLAIN`.
//!
//! When it is on, [`cover`] puts a function of this module in front of each of the provider's
//! verbs, in the context's table and in the members that applications call directly. When it is
//! off, the provider's own pointers stand there and nothing of this module runs.

mod answer;
mod cover;
mod explain;
mod extended;
mod facts;
mod originals;
mod subject;

pub use explain::{event, failed, not_opened, refused};

use crate::core::{explain as text, report};
use answer::{Answer, Outcome};
use cover::{Call, OPS};
use kit::abi::handle::{Ctx, Qp};
use kit::abi::{ibv_context, ibv_qp};
use kit::errno::Errno;
use kit::sys::errno;
use kit::table::Table;

/// Puts the functions of this module in front of a context's verbs, if the environment asks for
/// any of what they do.
///
/// # Safety
/// Nobody else knows the context yet.
pub unsafe fn cover(ctx: Ctx<'_>) {
    report::init();
    if report::on() {
        // SAFETY: vouched for by the caller; the table has every verb.
        unsafe { ctx.private().cover(ctx.verbs(), &raw const OPS) }
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
/// `context` is NULL or that of the object which the call is about, `run` calls the verb of
/// `call` with its arguments, which are the caller's.
unsafe fn around<A: Answer>(
    context: *mut ibv_context,
    call: Call,
    run: impl FnOnce(&Table) -> A,
) -> A {
    // SAFETY: vouched for by the caller.
    let ctx = unsafe { Ctx::from_raw(context) };
    let Ok(ctx) = ctx else {
        return A::refused(Errno::INVAL);
    };
    let Some(beneath) = ctx.private().beneath() else {
        return A::refused(Errno::INVAL);
    };
    let answer = run(beneath);
    if matches!(call, Call::free_context(..)) {
        return answer;
    }
    let left = errno::get();
    let outcome = answer.outcome(call.verb());
    // SAFETY: the arguments are the caller's; the context is open.
    unsafe {
        if let Outcome::Done(value) = outcome {
            objects(&call, value);
        }
        look(ctx, &call, outcome);
    }
    errno::set(left);
    answer
}

/// # Safety
/// The call has just answered `outcome`, and its arguments are still the caller's.
unsafe fn look(ctx: Ctx<'_>, call: &Call, outcome: Outcome) {
    if !report::explains() {
        return;
    }
    // SAFETY: vouched for by the caller.
    unsafe {
        match outcome {
            Outcome::Failed(e) => explain::verb(ctx, call, e),
            Outcome::Done(value) => explain::succeeded(ctx, call, value),
        }
    }
}

/// What the explained texts call a verb: `ibv_` and its name.
fn name(verb: &str) -> String {
    text::call_name(verb)
}
