//! The table as text, for the terminal, for docs/benchmarks-uroce.md and for the page for users.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{
    curves::{Curves, ROW_PLOTS},
    figure::{Figure, Side},
    row::{Bound, Row, Unit},
    rows::limit,
};
use crate::bench::sample::Pairs;

const INTRODUCTION: &str = "\
# Benchmarks of uroce
This page compares uroce ([uroce.md](uroce.md)) with other transports between two processes, \
in one run of

    cargo xtask bench uroce --write

The command measures, reports which bounds are met, and writes this file and its plots.

Every row has a peer that did the same kind of work in the same rounds, in turn. Figures are \
medians of the rounds, and the ratio is that of the medians. The last column counts the \
rounds whose own two figures missed the bound. Each program runs on a separate processor, \
the server on the first, the client on the second. The processors of a virtual machine may \
come nearer to each other or move apart during a row over shared memory, which the time of a \
cache line between them shows; such a round is measured again. perftest, ucx_perftest and \
qperf are Debian's. Latencies are one way. On this machine they are averages if the peer \
reports only averages (qperf), otherwise the median of a run.

Rows *with loss* run over uroce with `UROCE_FAULTS`, by which both sides drop that share of \
their packets, at random but by a seed, before these reach the kernel.

*Pair* rows have two hosts on this machine: network namespaces with a virtual Ethernet pair \
between them.

*OpenMPI* rows have a rank on each of four hosts on this machine, which a bridge joins. The ranks \
outnumber the processors, so that a figure contains the time of other ranks, in both columns. \
Over uroce the messages go by UCX's `rc_verbs`, over TCP by OpenMPI's `btl tcp`. Rows *over UCX's tcp* \
are there to compare: UCX has the same protocol there as over uroce.

*Between hosts* and *hosts* rows were measured in the virtual machine, which is emulated: its times can be \
compared with each other, but have no meaning by themselves. uroce has each end of a virtual \
Ethernet pair in a separate network namespace. Soft-RoCE listens in the first namespace \
only, and uses the port there. It has both ends of a second pair in that namespace, and \
routing rules send its packets through the pair. Where a row names a delay or a loss, \
both ends have it (tc-netem(8)), for uroce and for TCP.

Rows *by UDP sockets alone* are there to compare (`c-tests/bench/raw.c`), on uroce's pair. *A \
datagram* is one that two processes send to and fro, which poll their sockets. Where *each call \
addresses* it, the sockets are not connected: the kernel numbers the packets of connected sockets, \
which the check sum of RoCE v2 does not allow. *Datagrams* are a \
stream of them, as long as packets of the path MTU, of which a call sends and receives as many as \
it can (UDP_SEGMENT, UDP_GRO). The receiver counts the bytes, and informs the sender by shared \
memory how far it is. There is no check sum of RoCE, no copy to the place of a message, no \
acknowledgement, and nothing is sent again. So these rows show how much of a ratio to TCP the \
kernel and the processors allow to a program that carries RoCE by such sockets. The row *with \
CRC-32 and copies* has both of these at both ends: the CRC by tables, since the instructions that \
compute it fast on a real processor are slow in emulation.

Rows *by a ring and receive queues alone* are messages in shared memory without queue pairs, into \
as many receive queues as the rows of queue pairs have, each with as many posted requests as \
perftest's.

Where a reason is known why a row misses its bound, it stands below the tables. Shares of time are \
those of perf(1) for the programs of the row, counts of system calls those of strace(1), numbers of \
instructions those of callgrind.
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

/// The bounds that are not met, a line each, with the reason if it is known.
pub fn faults(rows: &[&Row], figures: &[Figure]) -> Vec<String> {
    let reason = |row: &Row| limit(row.name).map_or(String::new(), |why| format!(". {why}."));
    let fault = |row: &&Row| match pairs(row, figures).ratio() {
        Some(ratio) if row.bound.is_met(ratio) => None,
        Some(ratio) => {
            let missed = format!("{}: {ratio:.2}, {}", row.name, bound(row.bound));
            Some(missed + &reason(row))
        }
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

pub fn tables(rows: &[&Row], figures: &[Figure]) -> String {
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
pub fn guide(page: &str, rows: &[&Row], figures: &[Figure]) -> Result<String> {
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

fn in_short(rows: &[&Row], figures: &[Figure]) -> String {
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
        Unit::Times => format!("{value:.0}"),
    }
}

/// Where the document has its plots, up to the next heading.
const PLOTS: &str = "## Over message size and queue pairs\n";
/// The heading behind it.
const BEHIND_PLOTS: &str = "## Not met\n";

/// The section with the plots.
pub fn plots(plots: &[Curves], machine: &[(&str, String)], rounds: usize) -> String {
    let mut text = format!(
        "{PLOTS}Both processes are on this machine. A point is the median of the rounds ({rounds}). Latencies by \
         shared memory are medians of a run, those by UDP and TCP averages. Measured by\n\n    \
         cargo xtask bench uroce --only plots --write\n\nor as a part of the command above, with\n\n"
    );
    for (name, value) in machine {
        if ["processor", "load when it began", "this library"].contains(name) {
            let _ = writeln!(text, "- {name}: {value}");
        }
    }
    for plot in plots {
        let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file);
    }
    text
}

/// The document with this section in the place of the one before.
pub fn with_plots(page: &str, section: &str) -> String {
    let (front, behind) = match page.split_once(PLOTS) {
        Some((front, rest)) => {
            let end = rest.find("\n## ").map_or(rest.len(), |end| end + 1);
            (front, rest.get(end..).unwrap_or_default())
        }
        None => page.split_at(page.find(BEHIND_PLOTS).unwrap_or(page.len())),
    };
    let gap = if behind.is_empty() { "" } else { "\n" };
    format!("{front}{section}{gap}{behind}")
}

pub fn document(machine: &[(&str, String)], tables: &str, faults: &[String]) -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n| | |\n| --- | --- |\n");
    for (name, value) in machine {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let _ = writeln!(text, "\n{tables}\n## Over delay and loss");
    text.push_str("The plots show rows *hosts* of the table.\n");
    for plot in &ROW_PLOTS {
        let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file);
    }
    text.push_str("\n## Not met\n");
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
    use super::super::curves::PLOTS as PLOTS_SHOWN;
    use super::super::rows;
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
        let rows = rows::all();
        let row = rows.get(..1).unwrap_or_default();
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
    fn the_plots_take_the_place_of_those_before() {
        let machine = [
            ("this library", "commit 1".to_owned()),
            ("system", "Debian".to_owned()),
        ];
        let section = plots(&PLOTS_SHOWN, &machine, 3);
        assert!(section.contains("- this library: commit 1\n") && !section.contains("Debian"));
        assert_eq!(section.matches("\n![").count(), PLOTS_SHOWN.len());
        let page = "# Page\n\n## Not met\nNone.\n";
        let once = with_plots(page, &section);
        assert_eq!(once, format!("# Page\n\n{section}\n## Not met\nNone.\n"));
        assert_eq!(with_plots(&once, &section), once);
        assert_eq!(
            with_plots("# Page\n", &section),
            format!("# Page\n{section}")
        );
    }

    #[test]
    fn a_bound_is_met_or_not_or_not_measured() {
        let all = rows::all();
        let first = all.iter().position(|row| row.bound == Bound::AtMost(1.2));
        let rows = first.and_then(|first| all.get(first..first + 2));
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
        let limited = |row: &&&Row| row.name.contains("shared-memory region");
        let limited: Vec<_> = all.iter().filter(limited).copied().collect();
        let name = limited.first().map_or("", |row| row.name);
        let [reported] =
            <[String; 1]>::try_from(faults(&limited, &figures(name, 10.0, 60.0))).expect("one row");
        assert!(
            reported.contains(": 6.00, at most 3. uroce maps no"),
            "{reported}"
        );
        let text = tables(rows, &measured);
        assert!(text.contains("| 11.00 µs |") && text.contains("| NOT MET | 1 of 1 |"));
        assert!(document(&[], &text, &[]).ends_with("None.\n"));
    }
}
