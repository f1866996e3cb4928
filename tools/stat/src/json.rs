//! A sample as a document.

use crate::advice;
use crate::sample::{Other, Pair, Process, Sample};
use serde_json::{Map, Value, json};

/// Processes, the sums of devices, and what slows connections. Counters are those since the
/// creation of an object.
#[must_use]
pub fn document(sample: &Sample) -> Value {
    json!({
        "processes": sample.processes.iter().map(process).collect::<Vec<_>>(),
        "devices": sample.devices.sums(),
        "advice": advice::of(sample, None),
    })
}

fn process(process: &Process) -> Value {
    json!({
        "process": process.id,
        "command": process.command,
        "slot": number_or_text(&process.slot),
        "network": process.network,
        "queue_pairs": process.pairs.iter().map(pair).collect::<Vec<_>>(),
        "others": process.others.iter().map(other).collect::<Vec<_>>(),
    })
}

fn pair(pair: &Pair) -> Value {
    let mut object = Map::new();
    object.insert("qp".to_owned(), pair.number.as_str().into());
    for (name, word) in &pair.words {
        object.insert(name.clone(), word.as_str().into());
    }
    for (name, count) in &pair.counters {
        object.insert(name.clone(), (*count).into());
    }
    object.into()
}

fn other(other: &Other) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), other.kind.as_str().into());
    object.insert("name".to_owned(), other.name.as_str().into());
    for (name, value) in &other.values {
        object.insert(name.clone(), number_or_text(value));
    }
    object.into()
}

fn number_or_text(value: &str) -> Value {
    match value.parse::<u64>() {
        Ok(number) => number.into(),
        Err(_) => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests;
    use std::time::Instant;

    #[test]
    fn numbers_are_numbers() {
        let document = document(&tests::sample(tests::process(8, 1), Instant::now()));
        let process = &document["processes"][0];
        assert_eq!(
            (&process["process"], &process["slot"]),
            (&json!(7), &json!(3))
        );
        let pair = &process["queue_pairs"][0];
        assert_eq!(pair["bytes_sent"], 8);
        assert_eq!(pair["state"], "RTS");
        assert_eq!(process["others"][0]["backlog"], 5);
        assert_eq!(document["advice"].as_array().unwrap().len(), 1);
    }
}
