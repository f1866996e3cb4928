//! A sample as tables for people.

use crate::advice;
use crate::sample::{Pair, Process, Sample};
use std::fmt::Write as _;
use std::time::Duration;

/// Characters of a cell that are shown at most.
const WIDEST: usize = 48;
/// Kinds of other lines, and their columns, that are shown at most.
const KINDS: usize = 16;
const COLUMNS: usize = 12;

/// Rows of cells; the first one has the names of the columns.
struct Table(Vec<Vec<String>>);

impl Table {
    fn new(columns: &[&str]) -> Self {
        Self(vec![
            columns.iter().map(|name| (*name).to_owned()).collect(),
        ])
    }

    fn add(&mut self, row: impl IntoIterator<Item = String>) {
        let cells = row.into_iter().take(COLUMNS + 3);
        // Cells are ASCII.
        let cells = cells.map(|mut cell| {
            cell.truncate(WIDEST);
            cell
        });
        self.0.push(cells.collect());
    }

    /// Columns as wide as their widest cell.
    fn text(&self) -> String {
        let mut widths = Vec::new();
        for row in &self.0 {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.len().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.0 {
            let cells = row.iter().zip(&widths);
            let line: String = cells.fold(String::new(), |mut line, (cell, width)| {
                // Writing to a string does not fail.
                let _ = write!(line, "{cell:width$}  ");
                line
            });
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The queue pairs, other objects, and what slows connections. Rates are those since `earlier`.
#[must_use]
pub fn text(sample: &Sample, earlier: &Sample, advice_since: Option<&Sample>) -> String {
    let time = sample.at.saturating_duration_since(earlier.at);
    let mut pairs = Table::new(&[
        "PROCESS",
        "COMMAND",
        "QP",
        "DEVICE",
        "TYPE",
        "STATE",
        "PEER",
        "BY",
        "SENT/s",
        "RECEIVED/s",
        "RETRIES",
        "RNR",
        "DROPPED",
        "ERRORS",
    ]);
    for process in &sample.processes {
        for pair in &process.pairs {
            let before = earlier.find(process, &pair.number);
            pairs.add(row(process, pair, before, time));
        }
        if process.pairs.is_empty() {
            let mut row = start(process);
            row.push("-".to_owned());
            pairs.add(row);
        }
    }
    if sample.processes.is_empty() {
        return "no process has a device of uroce open\n".to_owned();
    }
    let mut text = pairs.text();
    text += &others(sample);
    let advice = advice::of(sample, advice_since);
    if !advice.is_empty() {
        text.push('\n');
    }
    for line in advice {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn start(process: &Process) -> Vec<String> {
    let id = process
        .id
        .map_or_else(|| "?".to_owned(), |id| id.to_string());
    let command = match process.command.as_str() {
        "" => "?",
        command => command,
    };
    vec![id, command.to_owned()]
}

fn row(process: &Process, pair: &Pair, before: Option<&Pair>, time: Duration) -> Vec<String> {
    let rate = |name| match before {
        Some(before) => rate(
            pair.counter(name).saturating_sub(before.counter(name)),
            time,
        ),
        None => "-".to_owned(),
    };
    let word = |name| match pair.word(name) {
        "" => "-".to_owned(),
        word => word.to_owned(),
    };
    let count = |names: &[&str]| {
        let counters = names.iter().map(|name| pair.counter(name));
        counters.fold(0, u64::saturating_add).to_string()
    };
    let mut row = start(process);
    row.push(pair.number.clone());
    row.extend(["device", "type", "state", "peer", "carrier"].map(word));
    row.extend([rate("bytes_sent"), rate("bytes_received")]);
    row.push(count(&["retries"]));
    row.push(count(&["rnr_received", "rnr_sent"]));
    row.push(count(&["dropped"]));
    row.push(count(&["errors"]));
    row
}

/// A table for each kind of other lines, in the order of their first one.
fn others(sample: &Sample) -> String {
    let mut tables: Vec<(&str, Table)> = Vec::new();
    for process in &sample.processes {
        for other in &process.others {
            let known = tables.iter().position(|(kind, _)| *kind == other.kind);
            let at = match known {
                Some(at) => at,
                None if tables.len() == KINDS => continue,
                None => {
                    let mut table = Table(Vec::new());
                    let names = ["PROCESS".to_owned(), "COMMAND".to_owned()].into_iter();
                    let names = names.chain([other.kind.to_uppercase()]);
                    let columns = other.values.iter().map(|(name, _)| name.to_uppercase());
                    table.add(names.chain(columns));
                    tables.push((&other.kind, table));
                    tables.len() - 1
                }
            };
            let values = other.values.iter().map(|(_, value)| value.clone());
            let row = start(process).into_iter().chain([other.name.clone()]);
            if let Some((_, table)) = tables.get_mut(at) {
                table.add(row.chain(values));
            }
        }
    }
    let texts = tables
        .iter()
        .map(|(_, table)| format!("\n{}", table.text()));
    texts.collect()
}

/// Bytes a second, with a unit.
fn rate(bytes: u64, time: Duration) -> String {
    let nanos = time.as_nanos().max(1);
    let mut rate = u128::from(bytes) * 1_000_000_000 / nanos;
    for unit in ["B", "kB", "MB", "GB"] {
        if rate < 10_000 {
            return format!("{rate} {unit}");
        }
        rate /= 1000;
    }
    format!("{rate} TB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{process, sample};
    use std::time::Instant;

    #[test]
    fn a_row_for_each_queue_pair() {
        let now = Instant::now();
        let earlier = sample(process(0, 0), now);
        let later = sample(process(3_000_000, 2), now + Duration::from_secs(2));
        let text = text(&later, &earlier, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
            "7 server 0x00c001 uroce_lo RC RTS 127.0.0.1/0x010002 shm 1500 kB 0 B 0 2 0 0"
        );
        assert!(lines[2].contains(" INIT   -  "), "{text}");
        assert!(lines[4].starts_with("PROCESS  COMMAND  LISTENER  OWNER  BACKLOG"));
        assert!(lines[5].starts_with("7        server   7471      7      5"));
        assert!(lines[7].contains("2 RNRs received"), "{text}");
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn rates_have_units() {
        let second = Duration::from_secs(1);
        assert_eq!(rate(0, second), "0 B");
        assert_eq!(rate(9_999, second), "9999 B");
        assert_eq!(rate(10_000, second), "10 kB");
        assert_eq!(rate(12_345_678_901, second), "12 GB");
        assert_eq!(rate(u64::MAX, Duration::ZERO).split(' ').count(), 2);
    }

    #[test]
    fn tables_have_bounds() {
        let now = Instant::now();
        let long = "x".repeat(1000);
        let lines: Vec<String> = (0..2 * KINDS)
            .map(|kind| format!("k{kind} {long}{}", " n 1".repeat(2 * COLUMNS)))
            .chain([format!(
                "qp 1 bytes_sent 1 rnr_sent {0} rnr_received {0}",
                u64::MAX
            )])
            .collect();
        let hostile = || Process::read(None, String::new(), &lines);
        let text = text(&sample(hostile(), now), &sample(hostile(), now), None);
        assert_eq!(text.matches("\nPROCESS").count(), KINDS);
        assert!(text.lines().all(|line| line.len() < 700), "{text}");
        assert!(text.contains(&u64::MAX.to_string()));
    }

    #[test]
    fn there_may_be_no_process() {
        let nothing = Sample {
            at: Instant::now(),
            processes: Vec::new(),
            devices: crate::lines::Devices::default(),
        };
        let text = text(&nothing, &nothing, None);
        assert_eq!(text, "no process has a device of uroce open\n");
    }
}
