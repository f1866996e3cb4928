//! The table as text, for the terminal, for docs/benchmarks-uroce.md and for the page for users.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{
    figure::{Figure, Side},
    rows::{Bound, Row, Unit},
};
use crate::bench::sample::Pairs;

const INTRODUCTION: &str = "\
# Benchmarks of uroce
uroce ([uroce.md](uroce.md)) beside what else moves bytes between two processes, in one run of

    cargo xtask bench uroce --write

which measures, says which bounds are met, and writes this file.

Every row has a peer that did the same kind of work in the same rounds, in turn; figures are medians \
of the rounds, the ratio is that of the medians, and the last column says in how many rounds the \
bound was not met by the round's own two figures. Each program runs on a processor of its own, the \
server on the first, the client on the second. Where a virtual machine's processors came nearer to \
each other or went farther away between the two sides of a row over shared memory, told by the time \
that a cache line takes, that round was measured again. perftest, ucx_perftest and qperf are Debian's. \
Latencies are one way. On this machine they are averages where the peer tells no other figure \
(qperf), and else the median of a run.

*Between hosts* is in the virtual machine, which is emulated: times there can be compared with each \
other, and mean nothing by themselves. uroce has each end of a virtual Ethernet pair in a network \
namespace of its own. Soft-RoCE listens in the first namespace alone, and takes the port there: it \
has both ends of a second pair of that kind in it, and rules of routing send its packets through the \
pair. One row there is to compare with: two processes that do nothing but send a datagram to and fro \
by UDP sockets and poll these (`c-tests/bench/raw.c`), on uroce's pair. No program can be faster that \
speaks RoCE by such sockets.
";

fn pairs(row: &Row, figures: &[Figure]) -> Pairs {
    let of = |side| {
        let mine = figures
            .iter()
            .filter(move |figure| figure.row == row.name && figure.side == side);
        mine.map(|figure| figure.value).collect()
    };
    Pairs {
        stock: of(Side::Peer),
        ours: of(Side::Ours),
    }
}

/// What is not met, a line each.
pub fn faults(rows: &[Row], figures: &[Figure]) -> Vec<String> {
    let fault = |row: &Row| match pairs(row, figures).ratio() {
        Some(ratio) if row.bound.is_met(ratio) => None,
        Some(ratio) => Some(format!("{}: {ratio:.2}, {}", row.name, bound(row.bound))),
        None => Some(format!("{}: not measured", row.name)),
    };
    rows.iter().filter_map(fault).collect()
}

fn bound(bound: Bound) -> String {
    match bound {
        Bound::AtMost(most) => format!("at most {most}"),
        Bound::AtLeast(least) => format!("at least {least}"),
        Bound::Any => "–".to_owned(),
    }
}

pub fn tables(rows: &[Row], figures: &[Figure]) -> String {
    let mut text = "| row | uroce | against | peer | ratio | bound | | rounds not met |\n\
         | --- | ---: | --- | ---: | ---: | --- | --- | ---: |\n"
        .to_owned();
    for row in rows {
        let pairs = pairs(row, figures);
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| unit(row, value));
        let ratio = pairs.ratio();
        let met = match ratio {
            Some(_) if row.bound == Bound::Any => "to compare",
            Some(ratio) if row.bound.is_met(ratio) => "met",
            Some(_) => "NOT MET",
            None => "not measured",
        };
        let rounds = pairs.stock.iter().zip(&pairs.ours);
        let missed = rounds.filter(|(peer, ours)| !row.bound.is_met(*ours / *peer));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {met} | {} of {} |",
            row.name,
            cell(pairs.ours_median()),
            row.against,
            cell(pairs.stock_median()),
            ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")),
            bound(row.bound),
            missed.count(),
            pairs.stock.len().min(pairs.ours.len()),
        );
    }
    text
}

/// Where the page for users has its table, up to the next heading.
const IN_GUIDE: &str = "## How fast\n";

/// The page for users with these figures.
pub fn guide(page: &str, rows: &[Row], figures: &[Figure]) -> Result<String> {
    let (front, rest) = page
        .split_once(IN_GUIDE)
        .context("no place for the table")?;
    let end = rest.find("\n## ").unwrap_or(rest.len());
    let (section, behind) = rest.split_at(end);
    let words = section
        .split_once("\n|")
        .map_or(section, |(words, _)| words);
    let table = in_short(rows, figures);
    Ok(format!("{front}{IN_GUIDE}{words}\n{table}{behind}"))
}

fn in_short(rows: &[Row], figures: &[Figure]) -> String {
    let mut text = "| | uroce | beside it | | ratio |\n\
         | --- | ---: | --- | ---: | ---: |\n"
        .to_owned();
    for row in rows.iter().filter(|row| row.bound != Bound::Any) {
        let pairs = pairs(row, figures);
        if let (Some(ours), Some(peer)) = (pairs.ours_median(), pairs.stock_median()) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.2} |",
                row.name,
                unit(row, ours),
                row.against,
                unit(row, peer),
                ours / peer,
            );
        }
    }
    text
}

fn unit(row: &Row, value: f64) -> String {
    match row.unit {
        Unit::Microseconds => format!("{value:.2} µs"),
        Unit::Messages => format!("{value:.2} M/s"),
        Unit::Mebibytes => format!("{value:.0} MiB/s"),
        Unit::Bytes => format!("{value:.0} B"),
    }
}

pub fn document(machine: &[(&str, String)], tables: &str, faults: &[String]) -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n| | |\n| --- | --- |\n");
    for (name, value) in machine {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let _ = writeln!(text, "\n{tables}\n## Not met");
    if faults.is_empty() {
        text.push_str("None.\n");
    }
    for fault in faults {
        let _ = writeln!(text, "- {fault}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn figures(name: &str, peer: f64, ours: f64) -> [Figure; 2] {
        [(Side::Peer, peer), (Side::Ours, ours)].map(|(side, value)| Figure {
            row: name.to_owned(),
            side,
            value,
        })
    }

    #[test]
    fn the_table_for_users_takes_the_place_of_the_one_before() {
        let row = ROWS.get(..1).unwrap_or_default();
        let name = row.first().map_or("", |row| row.name);
        let page = "# Page\n## How fast\nWords.\n\n| old | table |\n| 1 | 2 |\n\n## Next\n";
        let once = guide(page, row, &figures(name, 10.0, 5.0)).expect("a place");
        let twice = guide(&once, row, &figures(name, 10.0, 20.0)).expect("a place");
        for (text, ratio) in [(once, "0.50"), (twice, "2.00")] {
            assert!(
                text.starts_with("# Page\n## How fast\nWords.\n\n| | uroce |"),
                "{text}"
            );
            assert!(
                text.ends_with(&format!("| {ratio} |\n\n## Next\n")),
                "{text}"
            );
            assert!(!text.contains("old"));
        }
        assert!(guide("# Page\n", row, &[]).is_err());
    }

    #[test]
    fn a_bound_is_met_or_not_or_not_measured() {
        let first = ROWS.iter().position(|row| row.bound == Bound::AtMost(1.2));
        let rows = first.and_then(|first| ROWS.get(first..first + 2));
        let rows = rows.unwrap_or_default();
        let [first, second] = [0, 1].map(|at| rows.get(at).map_or("", |row| row.name));
        let mut measured = figures(first, 10.0, 11.0).to_vec();
        let missing = faults(rows, &measured);
        assert_eq!(missing, [format!("{second}: not measured")]);
        measured.extend(figures(second, 10.0, 13.0));
        assert_eq!(
            faults(rows, &measured),
            [format!("{second}: 1.30, at most 1.2")]
        );
        let text = tables(rows, &measured);
        assert!(text.contains("| 11.00 µs |") && text.contains("| NOT MET | 1 of 1 |"));
        assert!(document(&[], &text, &[]).ends_with("None.\n"));
    }
}
