//! What slows a connection, by its counters.

use crate::sample::{Pair, Process, Sample};

/// A cause, by the counter that shows it, in words after the number.
const CAUSES: &[(&str, &str)] = &[
    (
        "rnr_received",
        "RNRs received: the peer posts too few receive requests",
    ),
    (
        "rnr_sent",
        "RNRs sent: this process posts too few receive requests",
    ),
    (
        "timeouts",
        "timeouts: the peer did not answer in time (not running, overloaded, or packets were lost)",
    ),
    (
        "naks_received",
        "NAKs received: packets to the peer were lost or overtook each other, or the peer refused \
         a request",
    ),
    (
        "out_of_sequence",
        "packets received too early: packets before them were lost or overtaken",
    ),
    (
        "congestion",
        "congestion notifications: the network marks packets (ECN)",
    ),
    (
        "dropped",
        "packets dropped: not for this queue pair, its state or its keys",
    ),
    ("errors", "completions in error"),
];
/// The most that is said of one sample.
const MOST: usize = 20;

/// What happened to the queue pairs since the earlier sample, or without one since they were
/// created: the largest numbers first.
#[must_use]
pub fn of(sample: &Sample, earlier: Option<&Sample>) -> Vec<String> {
    let mut found: Vec<(u64, String)> = Vec::new();
    for process in &sample.processes {
        for pair in &process.pairs {
            let before = earlier.and_then(|earlier| earlier.find(process, &pair.number));
            found.extend(of_pair(process, pair, before));
        }
        let refused = process.network.get("packets_refused").copied();
        if let Some(count) = refused.filter(|count| *count > 0 && earlier.is_none()) {
            let who = name(process);
            found.push((
                count,
                format!(
                    "{who}: {count} packets that the kernel did not take (full socket buffers)"
                ),
            ));
        }
    }
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    found.truncate(MOST);
    found.into_iter().map(|(_, text)| text).collect()
}

fn of_pair(process: &Process, pair: &Pair, before: Option<&Pair>) -> Vec<(u64, String)> {
    let causes = CAUSES.iter().filter_map(|(counter, words)| {
        let now = pair.counter(counter);
        let count = now.saturating_sub(before.map_or(0, |before| before.counter(counter)));
        let text = format!("{} qp {}: {count} {words}", name(process), pair.number);
        (count > 0).then_some((count, text))
    });
    causes.collect()
}

fn name(process: &Process) -> String {
    let id = process
        .id
        .map_or_else(|| "?".to_owned(), |id| id.to_string());
    match process.command.as_str() {
        "" => format!("process {id}"),
        command => format!("{command} ({id})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{process, sample};
    use std::time::Instant;

    #[test]
    fn rnrs_name_the_side_that_lacks_receive_requests() {
        let now = Instant::now();
        let advice = of(&sample(process(1, 250), now), None);
        assert_eq!(
            advice,
            ["server (7) qp 0x00c001: 250 RNRs received: the peer posts too few receive requests"]
        );
    }

    #[test]
    fn only_the_increase_counts() {
        let now = Instant::now();
        let (before, same) = (sample(process(1, 250), now), sample(process(2, 250), now));
        assert!(of(&same, Some(&before)).is_empty());
        let more = sample(process(2, 253), now);
        assert!(of(&more, Some(&before))[0].contains(" 3 RNRs received"));
    }
}
