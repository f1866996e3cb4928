//! Calls newer than the verbs of the table. They are observed where programs make them, independent
//! of the executing side: a provider that has the verb, the kernel, or the library.

use super::answer::{Answer, Outcome};
use super::{explain, kept_errno, trace, validate};
use crate::core::explain::{Reasons, memory};
use crate::core::trace::{self as recording, record::Later};
use crate::core::validate::{Kind, with};
use crate::core::{explain as text, report};
use kit::abi::{handle::Ctx, *};
use kit::errno::{Errno, Result};

/// The kind of object that a call makes.
fn makes(call: Later) -> Option<Kind> {
    match call {
        Later::AllocDmah => Some(Kind::Other("dmah")),
        Later::CreateCompCntr => Some(Kind::Other("completion counter")),
        _ => None,
    }
}

/// The object that a call destroys: its first argument.
fn victim(call: Later, words: &[u64]) -> usize {
    match (call, words) {
        (Later::DeallocDmah | Later::DestroyCompCntr, [object, ..]) => address(*object),
        _ => 0,
    }
}

fn address(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

/// Makes a call with these arguments, and observes its result.
pub fn later<A: Answer>(ctx: Ctx<'_>, call: Later, words: &[u64], run: impl FnOnce() -> A) -> A {
    seen(ctx, call, words, run, |_| Reasons::default())
}

/// The same, where more is known of why it failed.
fn seen<A: Answer>(
    ctx: Ctx<'_>,
    call: Later,
    words: &[u64],
    run: impl FnOnce() -> A,
    why: impl FnOnce(Errno) -> Reasons,
) -> A {
    if !report::on() && !recording::on() {
        return run();
    }
    let context = ctx.as_ptr().addr();
    let object = victim(call, words);
    let before = match report::validates() {
        true => kept_errno(|| with(|world| world.generation(object))),
        false => 0,
    };
    let begin = trace::begin();
    let answer = run();
    let end = trace::begin();
    let outcome = answer.outcome(call.name());
    kept_errno(|| {
        if recording::on() {
            trace::later(call, outcome, begin, end, words);
        }
        match outcome {
            Outcome::Failed(e) if report::explains() => {
                let name = text::call_name(call.name());
                explain::later(ctx, &name, &call.arguments(words), e, why(e));
            }
            Outcome::Done(value) if report::validates() => with(|world| {
                if let Some(kind) = makes(call) {
                    world.answered(address(value));
                    world.made(kind, address(value), context, "");
                }
                if object != 0 {
                    world.destroyed(object, before);
                }
            }),
            Outcome::Failed(_) | Outcome::Done(_) => {}
        }
    });
    answer
}

/// Registers by a provider's verb. `pinned` means that it is memory of this process that has to
/// remain.
///
/// # Safety
/// `run` returns a new region of that domain, made by `attr`.
pub unsafe fn reg_mr_ex(
    ctx: Ctx<'_>,
    pd: *mut ibv_pd,
    attr: &ibv_mr_init_attr,
    pinned: bool,
    run: impl FnOnce() -> Result<*mut ibv_mr>,
) -> Result<*mut ibv_mr> {
    let (length, access) = (attr.length as u64, attr.access.cast_unsigned());
    let words = [
        pd.addr() as u64,
        std::ptr::from_ref(attr).addr() as u64,
        length,
        attr.iova,
        access.into(),
    ];
    let made = seen(ctx, Later::RegMrEx, &words, run, |e| {
        let wanted = memory::Registration {
            addr: attr.addr.addr() as u64,
            length,
            access,
        };
        explain::memory(ctx, &wanted, e)
    })?;
    if report::validates() {
        let memory = pinned.then_some((attr.addr.addr(), attr.length));
        // SAFETY: vouched for by the caller.
        kept_errno(|| unsafe {
            validate::registered(
                ctx,
                made.addr(),
                pd.addr(),
                (attr.iova, length, access),
                memory,
            );
        });
    }
    Ok(made)
}
