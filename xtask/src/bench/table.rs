//! The tables as text, for the terminal and for docs/benchmarks.md.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use super::{
    row::{Row, Unit},
    sample::Pairs,
};

/// One Markdown table a group of rows, in the order of the rows.
pub fn tables(rows: &[Row], bound: impl Fn(&Row) -> f64) -> String {
    let mut text = String::new();
    for group in rows.chunk_by(|a, b| a.table == b.table) {
        let Some(first) = group.first() else { continue };
        let _ = writeln!(text, "## {}", first.table);
        if first.figures.contains_key(&Unit::Kibibytes) {
            sizes(&mut text, group);
        } else {
            costs(&mut text, group, bound(first));
        }
        text.push('\n');
    }
    text
}

fn costs(text: &mut String, rows: &[Row], bound: f64) {
    let _ = writeln!(
        text,
        "Ours to stock: at most {bound:.1}.\n\n\
         | row | instructions, stock | ours | ours/stock | time, stock | ours | ours/stock | rounds above |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for row in rows {
        let instructions = cells(row.figures.get(&Unit::Instructions), |count| {
            format!("{count:.0}")
        });
        let times = row.figures.get(&Unit::Nanoseconds);
        let above = times.map_or("–".to_owned(), |times| {
            let (above, all) = times.rounds_over(bound);
            format!("{above} of {all}")
        });
        let times = cells(times, time);
        let _ = writeln!(
            text,
            "| {} | {instructions} | {times} | {above} |",
            row.name
        );
    }
}

fn sizes(text: &mut String, rows: &[Row]) {
    text.push_str("KiB.\n\n| | stock | ours | ours/stock |\n| --- | ---: | ---: | ---: |\n");
    for row in rows {
        let sizes = cells(row.figures.get(&Unit::Kibibytes), |size| {
            format!("{size:.0}")
        });
        let _ = writeln!(text, "| {} | {sizes} |", row.name);
    }
}

fn cells(pairs: Option<&Pairs>, figure: impl Fn(f64) -> String) -> String {
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), &figure);
    let stock = pairs.and_then(Pairs::stock_median);
    let ours = pairs.and_then(Pairs::ours_median);
    let ratio = pairs.and_then(Pairs::ratio);
    let ratio = ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    format!("{} | {} | {ratio}", cell(stock), cell(ours))
}

fn time(nanoseconds: f64) -> String {
    if nanoseconds < 10_000.0 {
        format!("{nanoseconds:.0} ns")
    } else if nanoseconds < 10_000_000.0 {
        format!("{:.1} µs", nanoseconds / 1e3)
    } else {
        format!("{:.1} ms", nanoseconds / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::{Figure, Side};

    #[test]
    fn a_row_has_both_figures_and_their_ratio() {
        let figure = |unit, side, value| Figure {
            table: "T".into(),
            row: "r".into(),
            unit,
            side,
            value,
        };
        let rows = Row::gather([
            figure(Unit::Instructions, Side::Stock, 200.0),
            figure(Unit::Instructions, Side::Ours, 150.0),
            figure(Unit::Nanoseconds, Side::Stock, 20_000.0),
            figure(Unit::Nanoseconds, Side::Ours, 10_000.0),
        ]);
        let text = tables(&rows, |_| 1.0);
        assert!(text.starts_with("## T\nOurs to stock: at most 1.0."));
        let wanted = "| r | 200 | 150 | 0.75 | 20.0 µs | 10.0 µs | 0.50 | 0 of 1 |";
        assert_eq!(text.lines().rfind(|line| !line.is_empty()), Some(wanted));
    }

    #[test]
    fn missing_measurements_are_a_dash() {
        assert_eq!(cells(None, time), "– | – | –");
    }
}
