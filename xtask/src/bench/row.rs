//! The rows: the figures of both libraries, and whether ours keeps within its bound.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fmt, str::FromStr};

use anyhow::{Context, Result, bail};

use super::sample::Pairs;

/// Which of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Stock,
    Ours,
}

impl Side {
    /// Both, the other one first in every second round.
    pub fn in_turn(round: usize) -> [Self; 2] {
        if round.is_multiple_of(2) {
            [Self::Stock, Self::Ours]
        } else {
            [Self::Ours, Self::Stock]
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Ours => "ours",
        }
    }
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// User space, by callgrind.
    Instructions,
    /// Wall clock.
    Nanoseconds,
    Kibibytes,
}

const UNITS: [(Unit, &str); 3] = [
    (Unit::Instructions, "instructions"),
    (Unit::Nanoseconds, "ns"),
    (Unit::Kibibytes, "KiB"),
];

/// One figure, as it is written to a file and read again: fields with tabs between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub table: String,
    pub row: String,
    pub unit: Unit,
    pub side: Side,
    pub value: f64,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(unit, _)| *unit == self.unit);
        let unit = unit.map_or("?", |(_, name)| name);
        let Self {
            table, row, value, ..
        } = self;
        write!(f, "{table}\t{row}\t{unit}\t{}\t{value}", self.side.name())
    }
}

impl FromStr for Figure {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [table, row, unit, side, value] = fields[..] else {
            bail!("not a figure: {line:?}");
        };
        let unit = UNITS.iter().find(|(_, name)| *name == unit);
        let side = [Side::Stock, Side::Ours]
            .into_iter()
            .find(|known| known.name() == side);
        Ok(Self {
            table: table.into(),
            row: row.into(),
            unit: unit.with_context(|| format!("unknown unit: {line:?}"))?.0,
            side: side.with_context(|| format!("unknown library: {line:?}"))?,
            value: value
                .parse()
                .with_context(|| format!("no number: {line:?}"))?,
        })
    }
}

/// All figures of one row.
#[derive(Debug)]
pub struct Row {
    pub table: String,
    pub name: String,
    pub figures: BTreeMap<Unit, Pairs>,
}

impl Row {
    /// Gathers figures, rows in the order in which they were first seen.
    pub fn gather(figures: impl IntoIterator<Item = Figure>) -> Vec<Self> {
        let mut rows: Vec<Self> = Vec::new();
        for figure in figures {
            let place = rows
                .iter()
                .position(|row| row.table == figure.table && row.name == figure.row);
            let place = place.unwrap_or_else(|| {
                rows.push(Self {
                    table: figure.table.clone(),
                    name: figure.row.clone(),
                    figures: BTreeMap::new(),
                });
                rows.len() - 1
            });
            let Some(row) = rows.get_mut(place) else {
                continue;
            };
            let pairs = row.figures.entry(figure.unit).or_default();
            match figure.side {
                Side::Stock => pairs.stock.push(figure.value),
                Side::Ours => pairs.ours.push(figure.value),
            }
        }
        rows
    }

    /// The faults of the row: its figures against `bound`, the limit of the ratio of ours to the
    /// stock library's.
    pub fn faults(&self, bound: f64) -> Vec<String> {
        let mut faults = Vec::new();
        for (unit, pairs) in &self.figures {
            let more = match unit {
                Unit::Kibibytes => continue,
                // Two libraries that leave the work to the kernel take the same time, and which
                // median is the smaller one is chance.
                Unit::Nanoseconds if bound >= 1.0 => pairs.exceeds_surely(bound),
                Unit::Nanoseconds | Unit::Instructions => pairs.exceeds(bound),
            };
            let unit = match unit {
                Unit::Instructions => "instructions",
                Unit::Nanoseconds | Unit::Kibibytes => "time",
            };
            let (ratio, place) = (pairs.ratio(), format!("{}, {}", self.table, self.name));
            match (more, ratio) {
                (Some(false), _) => {}
                (Some(true), Some(ratio)) => {
                    faults.push(format!("{place}: {unit} {ratio:.3}, at most {bound:.1}"));
                }
                _ => faults.push(format!("{place}: {unit} not measured")),
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(row: &str, unit: Unit, side: Side, value: f64) -> Figure {
        Figure {
            table: "t".into(),
            row: row.into(),
            unit,
            side,
            value,
        }
    }

    #[test]
    fn a_figure_is_read_as_it_was_written() {
        for unit in UNITS {
            let figure = figure("a b", unit.0, Side::Ours, 12.5);
            let read = figure.to_string().parse::<Figure>();
            assert_eq!(read.ok(), Some(figure));
        }
    }

    #[test]
    fn broken_figures_are_errors() {
        for line in [
            "",
            "t\tr\tns\tours",
            "t\tr\tns\ttheirs\t1",
            "t\tr\tm\tours\t1",
            "t\tr\tns\tours\tx",
        ] {
            assert!(line.parse::<Figure>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn rows_keep_their_order_and_their_rounds() {
        let rows = Row::gather([
            figure("b", Unit::Nanoseconds, Side::Stock, 1.0),
            figure("a", Unit::Nanoseconds, Side::Stock, 2.0),
            figure("b", Unit::Nanoseconds, Side::Ours, 3.0),
            figure("b", Unit::Nanoseconds, Side::Stock, 4.0),
        ]);
        let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        let pairs = rows
            .first()
            .and_then(|row| row.figures.get(&Unit::Nanoseconds));
        let wanted = Pairs {
            stock: vec![1.0, 4.0],
            ours: vec![3.0],
        };
        assert_eq!(pairs, Some(&wanted));
    }

    #[test]
    fn one_more_instruction_is_a_fault_and_one_late_round_is_none() {
        let count = |value| figure("c", Unit::Instructions, Side::Ours, value);
        let stock = figure("c", Unit::Instructions, Side::Stock, 100.0);
        let faults = |bound, figures: Vec<Figure>| -> Vec<String> {
            let rows = Row::gather(figures);
            rows.iter().flat_map(|row| row.faults(bound)).collect()
        };
        assert_eq!(faults(1.0, vec![stock.clone(), count(100.0)]).len(), 0);
        assert_eq!(faults(1.0, vec![stock.clone(), count(101.0)]).len(), 1);
        assert_eq!(faults(0.5, vec![stock.clone(), count(51.0)]).len(), 1);
        assert_eq!(faults(1.0, vec![stock]).len(), 1, "ours was not measured");
        let time = |side, value| figure("c", Unit::Nanoseconds, side, value);
        let late = vec![time(Side::Stock, 1.0), time(Side::Ours, 2.0)];
        assert_eq!(faults(1.0, late.clone()).len(), 0);
        assert_eq!(faults(0.5, late).len(), 1);
    }
}
