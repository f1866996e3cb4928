//! The trace event format of chrome://tracing, which ui.perfetto.dev reads too, with times in
//! microseconds: names of processes and threads, a slice for each call, a flow from the post of a
//! request to its completion, and counters of outstanding requests and of completions a second.
//!
//! Polls of an empty queue that follow each other in a thread are one slice.

use crate::file::{Call, Trace};
use crate::requests::{Flow, Level, follow};
use crate::text::joined;
use crate::words::{errno, number, value};
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// Requests or completions of a call that are printed at most.
const SHOWN: usize = 16;
/// Nanoseconds between two polls of one slice at most.
const GAP: u64 = 1_000_000;
/// Values of the rate of completions at most.
const RATES: u64 = 400;

/// Events by their times. At the same time, slices come before flows, which have to be inside.
type Events = Vec<(u64, Kind, String)>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Slice,
    FlowStart,
    FlowEnd,
    Counter,
}

/// Prints one JSON document.
pub fn print(trace: &Trace, to: &mut impl Write) -> Result<()> {
    let requests = follow(trace);
    let mut events = slices(trace);
    for (id, one) in requests.flows.iter().enumerate() {
        flow(trace, id, one, &mut events);
    }
    events.extend(requests.levels.iter().map(level));
    rates(requests.completions, &mut events);
    events.sort_by_key(|(time, kind, _)| (*time, *kind));
    writeln!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut separator = "";
    for event in names(trace)
        .iter()
        .chain(events.iter().map(|event| &event.2))
    {
        write!(to, "{separator}{event}")?;
        separator = ",\n";
    }
    writeln!(to, "\n]}}")
}

/// The names of processes and threads.
fn names(trace: &Trace) -> Vec<String> {
    let name = |what, process, thread, name: &str| {
        format!(
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{\"name\":{}}}}}",
            quoted(name)
        )
    };
    let mut events = Vec::new();
    for (id, process) in &trace.processes {
        events.push(name("process_name", *id, *id, &process.name));
        for (thread, thread_name) in process.threads.values() {
            events.push(name("thread_name", *id, *thread, thread_name));
        }
    }
    events
}

/// The kernel's number of a call's thread, if known.
fn thread(trace: &Trace, call: &Call) -> u64 {
    let process = trace.processes.get(&call.process);
    let thread = process.and_then(|process| process.threads.get(&call.thread));
    thread.map_or(call.thread, |(id, _)| u64::from(*id))
}

/// Polls of one queue, without a completion, that follow each other in a thread.
struct Polls {
    first: usize,
    count: u64,
    end: u64,
}

/// A slice for each call, in which polls without a completion are joined.
fn slices(trace: &Trace) -> Events {
    let mut events = Events::new();
    let mut polls: BTreeMap<(u32, u64), Polls> = BTreeMap::new();
    for (at, call) in trace.calls.iter().enumerate() {
        let key = (call.process, call.thread);
        if is_empty_poll(trace, call) {
            let end = call.begin.saturating_add(call.took);
            if let Some(polls) = polls.get_mut(&key)
                && call.begin.saturating_sub(polls.end) <= GAP
                && trace.calls.get(polls.first).is_some_and(|first| {
                    first.name == call.name && first.words.first() == call.words.first()
                })
            {
                polls.count += 1;
                polls.end = end;
                continue;
            }
            let new = Polls {
                first: at,
                count: 1,
                end,
            };
            events.extend(
                polls
                    .insert(key, new)
                    .and_then(|polls| joined_slice(trace, &polls)),
            );
            continue;
        }
        events.extend(
            polls
                .remove(&key)
                .and_then(|polls| joined_slice(trace, &polls)),
        );
        events.push((call.begin, Kind::Slice, slice(trace, call)));
    }
    let left = polls
        .values()
        .filter_map(|polls| joined_slice(trace, polls));
    events.extend(left);
    events
}

fn is_empty_poll(trace: &Trace, call: &Call) -> bool {
    const ENOENT: u64 = 2;
    match trace.name(call) {
        "ibv_poll_cq" => call.error == 0 && call.value == 0,
        "ibv_start_poll" => call.error == ENOENT,
        _ => false,
    }
}

fn joined_slice(trace: &Trace, polls: &Polls) -> Option<(u64, Kind, String)> {
    let call = trace.calls.get(polls.first)?;
    if polls.count == 1 {
        return Some((call.begin, Kind::Slice, slice(trace, call)));
    }
    let arguments = format!(
        "\"calls\":{},\"cq\":{}",
        polls.count,
        quoted(&number(call.words.first().copied().unwrap_or(0)))
    );
    let name = format!("{} (empty)", trace.name(call));
    let took = polls.end.saturating_sub(call.begin);
    let text = complete_event(trace, call, &name, took, &arguments);
    Some((call.begin, Kind::Slice, text))
}

fn slice(trace: &Trace, call: &Call) -> String {
    let name = trace.name(call);
    let groups = match name {
        "ibv_poll_cq" => "completion",
        _ => "request",
    };
    let words = trace
        .words(call)
        .map(|(word, number)| (word.to_owned(), value(name, word, number)));
    let groups = trace
        .groups(call)
        .take(SHOWN)
        .enumerate()
        .map(|(at, group)| (format!("{groups} {at}"), joined(name, group)));
    let answer = match call.error {
        0 => number(call.value),
        e => errno(e),
    };
    let arguments: Vec<String> = words
        .chain(groups)
        .chain([("answer".to_owned(), answer)])
        .map(|(name, value)| format!("{}:{}", quoted(&name), quoted(&value)))
        .collect();
    complete_event(trace, call, name, call.took, &arguments.join(","))
}

fn complete_event(trace: &Trace, call: &Call, name: &str, took: u64, arguments: &str) -> String {
    format!(
        "{{\"ph\":\"X\",\"name\":{},\"cat\":\"verbs\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\
         \"args\":{{{arguments}}}}}",
        quoted(name),
        call.process,
        thread(trace, call),
        microseconds(call.begin),
        microseconds(took),
    )
}

/// An arrow between the slices of two calls.
fn flow(trace: &Trace, id: usize, flow: &Flow, events: &mut Events) {
    let (Some(from), Some(to)) = (trace.calls.get(flow.from), trace.calls.get(flow.to)) else {
        return;
    };
    let name = flow.opcode.map_or_else(
        || "receive".to_owned(),
        |opcode| value("ibv_post_send", "opcode", opcode),
    );
    let event = |phase: &str, call: &Call, time: u64| {
        format!(
            "{{{phase},\"id\":{id},\"name\":{},\"cat\":\"request\",\"pid\":{},\"tid\":{},\
             \"ts\":{}}}",
            quoted(&name),
            call.process,
            thread(trace, call),
            microseconds(time)
        )
    };
    // A poll of another thread may have begun before the post.
    let end = to.begin.max(from.begin);
    let start = event("\"ph\":\"s\"", from, from.begin);
    events.push((from.begin, Kind::FlowStart, start));
    // It ends at the slice that it is inside of, not at the next one.
    let finish = event("\"ph\":\"f\",\"bp\":\"e\"", to, end);
    events.push((end, Kind::FlowEnd, finish));
}

/// A value of a counter.
fn counter(process: u32, time: u64, name: &str, values: &str) -> (u64, Kind, String) {
    let text = format!(
        "{{\"ph\":\"C\",\"name\":{},\"pid\":{process},\"ts\":{},\"args\":{{{values}}}}}",
        quoted(name),
        microseconds(time)
    );
    (time, Kind::Counter, text)
}

fn level(level: &Level) -> (u64, Kind, String) {
    let values: Vec<String> = [("sends", level.sends), ("receives", level.receives)]
        .into_iter()
        .filter_map(|(name, count)| count.map(|count| format!("\"{name}\":{count}")))
        .collect();
    let name = format!("outstanding, {}", level.queue);
    counter(level.process, level.at, &name, &values.join(","))
}

/// Completions a second of each process, in intervals of equal length.
fn rates(mut completions: Vec<(u32, u64)>, events: &mut Events) {
    completions.sort_unstable();
    for completions in completions.chunk_by(|one, next| one.0 == next.0) {
        let (Some(first), Some(last)) = (completions.first(), completions.last()) else {
            continue;
        };
        let interval = interval((last.1 - first.1) / RATES);
        let begin = first.1 / interval * interval;
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, time) in completions {
            *counts.entry((time - begin) / interval).or_default() += 1;
        }
        for (at, count) in &counts {
            let rate = count.saturating_mul(1_000_000_000) / interval;
            let mut value = |at: u64, rate: u64| {
                let time = begin.saturating_add(at.saturating_mul(interval));
                // Perfetto names the track by both words.
                let values = format!("\"a second\":{rate}");
                events.push(counter(first.0, time, "completions", &values));
            };
            value(*at, rate);
            if !counts.contains_key(&(at + 1)) {
                value(at + 1, 0);
            }
        }
    }
}

/// An interval that is not shorter and that people read easily: 1, 2 or 5 times a power of ten, at
/// least 10 microseconds.
fn interval(shortest: u64) -> u64 {
    let mut unit = 10_000u64;
    loop {
        for factor in [1, 2, 5] {
            let interval = unit.saturating_mul(factor);
            if interval >= shortest || interval == u64::MAX {
                return interval;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if u32::from(c) < 0x20 => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{
        read,
        tests::{chunk, sample},
    };

    fn printed(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        print(&read(bytes).expect("a trace"), &mut out).expect("printed");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn events() {
        let text = printed(&sample());
        assert!(text.contains(
            "{\"ph\":\"X\",\"name\":\"ibv_poll_cq\",\"cat\":\"verbs\",\"pid\":7,\"tid\":4,\
             \"ts\":1.050,\"dur\":0.007,\"args\":{\"cq\":\"1\",\"num_entries\":\"2\",\
             \"answer\":\"EINVAL\"}}"
        ));
        assert_eq!(text.matches("\"ph\"").count(), 2);
        assert_eq!(quoted("a\"b\\\n"), "\"a\\\"b\\\\\\u000a\"");
    }

    #[test]
    fn empty_polls_are_one_slice() {
        let mut bytes = chunk(0, 0, b"ibv_poll_cq cq ... wr_id status opcode qp_num\n");
        bytes.extend(chunk(2, 0, b"process a\nthread 4 70 b\n"));
        let poll = |time: u8, cq: u8| [0, 4, time * 2, 3, 0, 0, 1, cq];
        let polls = [poll(1, 9), poll(10, 9), poll(20, 9), poll(30, 8)];
        bytes.extend(chunk(1, 0, &polls.concat()));
        let text = printed(&bytes);
        assert!(text.contains(
            "\"name\":\"ibv_poll_cq (empty)\",\"cat\":\"verbs\",\"pid\":7,\"tid\":70,\
             \"ts\":0.001,\"dur\":0.022,\"args\":{\"calls\":3,\"cq\":\"9\"}"
        ));
        assert!(text.contains("\"name\":\"ibv_poll_cq\",\"cat\":\"verbs\",\"pid\":7,\"tid\":70"));
        assert_eq!(text.matches("\"ph\":\"X\"").count(), 2);
        assert!(text.contains(
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"tid\":70,\"args\":{\"name\":\"b\"}}"
        ));
    }

    #[test]
    fn rates_have_zeros_between_them() {
        let mut events = Events::new();
        let completions = vec![(7, 10_000), (7, 10_001), (7, 50_000)];
        rates(completions, &mut events);
        let values: Vec<(u64, bool)> = events
            .iter()
            .map(|(time, _, text)| (*time, text.contains("\"a second\":0")))
            .collect();
        let all = [
            (10_000, false),
            (20_000, true),
            (50_000, false),
            (60_000, true),
        ];
        assert_eq!(values, all);
        assert!(events[0].2.contains("\"a second\":200000"), "2 in 10 µs");
        assert_eq!(
            [interval(0), interval(10_001), interval(51_000)],
            [10_000, 20_000, 100_000]
        );
        assert!(interval(u64::MAX) > 0);
    }
}
