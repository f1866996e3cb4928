//! Two builds of the library, compared by the rows of the table: `bench uroce --before LIBRARY`.
//!
//! An earlier build does the work of each row that runs uroce, in turn with this one. A row is
//! slower if its median is, and so many of its rounds are that chance does not explain it (sign
//! test), so there have to be at least ten rounds.
#![forbid(unsafe_code)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    figure::{Figure, Side},
    row::Row,
};
use crate::bench::sample::Pairs;

/// The directory of the earlier build, in that of the job.
const BEFORE: &str = "before";
const SONAME: &str = "libibverbs.so.1";

/// Puts the earlier build where [`library`] finds it.
pub fn add(dir: &Path, built: &Path) -> Result<()> {
    let before = dir.join(BEFORE);
    fs::create_dir(&before).with_context(|| before.display().to_string())?;
    fs::copy(built, before.join(SONAME)).with_context(|| built.display().to_string())?;
    Ok(())
}

/// The directory of the earlier build, if the job has one.
pub fn library(dir: &Path) -> Option<PathBuf> {
    let before = dir.join(BEFORE);
    before.exists().then_some(before)
}

/// A row that both builds did.
pub struct Compared {
    name: &'static str,
    /// The costs of the rounds, the earlier build's as the peer's.
    costs: Pairs,
}

/// The rows that both builds did, in the order of `rows`.
pub fn compare(rows: &[&Row], figures: &[Figure]) -> Vec<Compared> {
    let costs = |row: &Row, side| {
        let mine = figures
            .iter()
            .filter(|figure| figure.row == row.name && figure.side == side);
        mine.map(|figure| row.unit.cost(figure.value)).collect()
    };
    let compared = |row: &&Row| Compared {
        name: row.name,
        costs: Pairs {
            stock: costs(row, Side::Peer),
            ours: costs(row, Side::Ours),
        },
    };
    let rows = rows.iter().filter(|row| row.ours.runs_uroce());
    rows.map(compared).collect()
}

pub fn table(rows: &[Compared]) -> String {
    let mut text =
        "| row | cost, now to before | rounds slower |\n| --- | ---: | ---: |\n".to_owned();
    for Compared { name, costs } in rows {
        let ratio = costs
            .ratio()
            .map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        let (slower, all) = costs.rounds_over(1.0);
        let _ = writeln!(text, "| {name} | {ratio} | {slower} of {all} |");
    }
    text
}

/// The rows that became slower, and those without figures.
pub fn faults(rows: &[Compared]) -> Vec<String> {
    let fault = |row: &Compared| match row.costs.exceeds_surely(1.0) {
        Some(false) => None,
        Some(true) => Some(row.name.to_owned()),
        None => Some(format!("{}: not measured", row.name)),
    };
    rows.iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::uroce::row::{
        Addressing, Bound, Carrier, Location, Perftest, SharedFile, Unit, Work,
    };

    const PERFTEST: Perftest = Perftest {
        program: "ib_send_lat",
        options: "",
        field: 0,
    };

    fn row(name: &'static str, unit: Unit, ours: Work) -> Row {
        Row {
            name,
            against: "",
            place: Location::Loopback,
            unit,
            bound: Bound::Any,
            ours,
            peer: Work::Nothing,
        }
    }

    fn rounds(row: &str, before: f64, now: f64) -> Vec<Figure> {
        let figure = |side, value| Figure {
            row: row.to_owned(),
            side,
            value,
        };
        let round = [figure(Side::Peer, before), figure(Side::Ours, now)];
        std::iter::repeat_n(round, 10).flatten().collect()
    }

    #[test]
    fn less_bandwidth_is_slower_and_less_time_is_not() {
        let work = Work::Uroce(PERFTEST, Carrier::Udp);
        let addressing = Addressing::Connected;
        let rows = [
            row("time", Unit::Microseconds, work),
            row("bandwidth", Unit::Mebibytes, work),
            row(
                "sockets",
                Unit::Microseconds,
                Work::Sockets(addressing, 1, 1),
            ),
        ];
        let mut figures = rounds("time", 2.0, 1.0);
        figures.extend(rounds("bandwidth", 2.0, 1.0));
        let compared = compare(&rows.each_ref(), &figures);
        assert_eq!(faults(&compared), ["bandwidth"]);
        let table = table(&compared);
        assert!(table.contains("| time | 0.50 | 0 of 10 |"), "{table}");
        assert!(table.contains("| bandwidth | 2.00 | 10 of 10 |"), "{table}");
        assert!(!table.contains("sockets"), "{table}");
    }

    #[test]
    fn a_row_without_figures_is_a_fault() {
        let work = Work::UroceShared(PERFTEST, SharedFile::DevShm);
        let compared = compare(&[&row("time", Unit::Microseconds, work)], &[]);
        assert_eq!(faults(&compared), ["time: not measured"]);
    }
}
