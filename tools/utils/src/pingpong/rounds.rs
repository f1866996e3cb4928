//! The messages: one in flight for each queue pair, answered by the other end.

use verbs::tools::{
    abi::IBV_WC_SUCCESS,
    completion::{Completion, status_text},
};

use super::{
    args::Args,
    endpoint::{Endpoint, RECEIVE, SEND, Slot},
    kinds::Transport,
    outcome::Times,
};
use crate::{
    numbers::byte,
    program::{Failed, Step, fail},
};

/// How far it has come.
struct Count {
    sent: u32,
    received: u32,
    events: u32,
    times: Times,
    previous: Option<u64>,
}

/// Sends and receives until both have been done as often as asked for. The client begins.
pub(super) fn play(args: &Args, endpoint: &mut Endpoint, first: bool) -> Step<Times> {
    let mut count = Count {
        sent: 0,
        received: 0,
        events: 0,
        times: Times::default(),
        previous: None,
    };
    let ended = run_rounds(args, endpoint, first, &mut count);
    // Also after a failure: the queue goes only when its events were acknowledged.
    endpoint.acknowledge(count.events);
    ended.map(|()| count.times)
}

fn run_rounds(args: &Args, endpoint: &mut Endpoint, first: bool, count: &mut Count) -> Step {
    endpoint.begin(args, first)?;
    let mut completions = Vec::new();
    let most = match args.transport {
        Transport::Srq => endpoint.most_completions(args),
        _ => 2,
    };
    while count.received < args.iters || count.sent < args.iters {
        if args.events {
            endpoint.wait()?;
            count.events += 1;
        }
        poll(args, endpoint, most, &mut completions)?;
        for completion in &completions {
            let taken = take(args, endpoint, count, completion);
            if taken.is_err() && args.transport == Transport::Rc && !args.timestamps {
                eprintln!("parse WC failed {}", completions.len());
            }
            taken?;
        }
    }
    Ok(())
}

/// Takes completions; without events, waits for one.
fn poll(args: &Args, endpoint: &Endpoint, most: usize, into: &mut Vec<Completion>) -> Step {
    loop {
        if let Err(error) = endpoint.poll(most, into) {
            eprintln!("poll CQ failed {error}");
            let status = if args.timestamps { byte(error) } else { 1 };
            return Err(Failed(status));
        }
        if args.events || !into.is_empty() {
            return Ok(());
        }
    }
}

fn take(args: &Args, endpoint: &mut Endpoint, count: &mut Count, completion: &Completion) -> Step {
    let (id, status) = (completion.id, completion.status);
    if status != IBV_WC_SUCCESS {
        let words = status_text(status);
        return fail(format!("Failed status {words} ({status}) for wr_id {id}"));
    }
    let Some(Slot(slot)) = endpoint.slot_of(completion) else {
        let number = completion.queue_pair;
        return fail(format!("Couldn't find QPN {number:06x}"));
    };
    match id {
        SEND => count.sent += 1,
        RECEIVE => {
            endpoint.received(args)?;
            count.received += 1;
            if args.timestamps {
                time(endpoint, count, completion.timestamp);
            }
        }
        _ => return fail(format!("Completion for unknown wr_id {id}")),
    }
    let idle = endpoint.ended(Slot(slot), id);
    if idle && count.sent < args.iters {
        endpoint.send(args, Slot(slot))?;
    }
    Ok(())
}

/// The clock may have begun anew.
fn time(endpoint: &Endpoint, count: &mut Count, now: u64) {
    if let Some(before) = count.previous.replace(now) {
        let delta = now.checked_sub(before);
        let around = endpoint.clock_mask().wrapping_sub(before).wrapping_add(now);
        count.times.add(delta.unwrap_or(around.wrapping_add(1)));
    }
}
