//! Figures, in the form in which they are written to a file and read again.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

use anyhow::{Context, Result, bail};

/// The side of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    Peer,
}

impl Side {
    /// Both, the other one first in every second round.
    pub fn in_turn(round: usize) -> [Self; 2] {
        if round.is_multiple_of(2) {
            [Self::Peer, Self::Ours]
        } else {
            [Self::Ours, Self::Peer]
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
        }
    }
}

/// One figure of a row, in the row's unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub row: String,
    pub side: Side,
    pub value: f64,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}", self.row, self.side.name(), self.value)
    }
}

impl FromStr for Figure {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [row, side, value] = fields[..] else {
            bail!("not a figure: {line:?}");
        };
        let side = [Side::Ours, Side::Peer]
            .into_iter()
            .find(|known| known.name() == side);
        let value: f64 = value
            .parse()
            .with_context(|| format!("no number: {line:?}"))?;
        Ok(Self {
            row: row.to_owned(),
            side: side.with_context(|| format!("whose? {line:?}"))?,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_as_it_was_written() {
        for side in Side::in_turn(0) {
            let figure = Figure {
                row: "a, b".into(),
                side,
                value: 0.125,
            };
            assert_eq!(figure.to_string().parse::<Figure>().ok(), Some(figure));
        }
    }

    #[test]
    fn broken_figures_are_errors() {
        for line in ["", "r\tours", "r\ttheirs\t1", "r\tours\tx"] {
            assert!(line.parse::<Figure>().is_err(), "{line:?}");
        }
    }
}
