//! Latency and bandwidth over message size, for the plots.
#![forbid(unsafe_code)]

use super::{
    figure::{Figure, Side},
    row::{
        AVERAGE, BANDWIDTH, Carrier, Perftest, Quantity, TYPICAL, Transports, UCX_MEDIAN, UcxTest,
        Unit, Work,
    },
};
use crate::bench::plot::{Line, Plot};
use crate::bench::sample::median;

/// Sizes with the options of perftest, and how often the peers do it. Few of the large ones, which
/// take long and vary less.
const SIZES: [(u32, &str, u32); 7] = [
    (8, "-s 8 -n 20000", 100_000),
    (64, "-s 64 -n 20000", 100_000),
    (512, "-s 512 -n 20000", 100_000),
    (4096, "-s 4096 -n 10000", 50_000),
    (32768, "-s 32768 -n 5000", 10_000),
    (262_144, "-s 262144 -n 1000", 2000),
    (2_097_152, "-s 2097152 -n 200", 300),
];

/// A line: its name, and the function that measures this size.
type Measured = (&'static str, fn(usize) -> Work);

/// The contents of a plot, and its file.
pub struct Curves {
    pub file: &'static str,
    pub title: &'static str,
    values: &'static str,
    pub unit: Unit,
    lines: [Measured; 4],
}

fn perftest(program: &'static str, carrier: Carrier, field: usize, at: usize) -> Work {
    let (_, options, _) = SIZES[at];
    let perftest = Perftest {
        program,
        options,
        field,
    };
    Work::Uroce(perftest, carrier)
}

/// The plots. Latencies of shared memory are medians, as UCX reports them; those of UDP and TCP are
/// averages, as qperf reports them.
pub const PLOTS: [Curves; 2] = [
    Curves {
        file: "plots/uroce-latency.svg",
        title: "Latency of a message, one way",
        values: "µs (lower is better)",
        unit: Unit::Microseconds,
        lines: [
            ("uroce, shared memory", |at| {
                perftest("ib_send_lat", Carrier::Shm, TYPICAL, at)
            }),
            ("uroce, UDP on lo", |at| {
                perftest("ib_send_lat", Carrier::Udp, AVERAGE, at)
            }),
            ("UCX posix, tag_lat", |at| {
                let (size, _, count) = SIZES[at];
                let test = UcxTest {
                    test: "tag_lat",
                    size,
                    count,
                    field: UCX_MEDIAN,
                };
                Work::Ucx(test, Transports::Named("posix,self"))
            }),
            ("TCP on lo, qperf tcp_lat", |at| {
                Work::Tcp("tcp_lat", SIZES[at].0)
            }),
        ],
    },
    Curves {
        file: "plots/uroce-bandwidth.svg",
        title: "Bandwidth of RDMA writes",
        values: "MiB/s (higher is better)",
        unit: Unit::Mebibytes,
        lines: [
            ("uroce, shared memory", |at| {
                perftest("ib_write_bw", Carrier::Shm, BANDWIDTH, at)
            }),
            ("uroce, UDP on lo", |at| {
                perftest("ib_write_bw", Carrier::Udp, BANDWIDTH, at)
            }),
            ("process_vm_writev alone", |at| {
                let (size, _, count) = SIZES[at];
                Work::Raw("writev", size, count, Quantity::Bandwidth)
            }),
            ("TCP on lo, qperf tcp_bw", |at| {
                Work::Tcp("tcp_bw", SIZES[at].0)
            }),
        ],
    },
];

/// A point to measure.
pub struct Point {
    pub name: String,
    pub unit: Unit,
    pub work: Work,
}

/// All points of all plots.
pub fn points() -> impl Iterator<Item = Point> {
    let of_line = |plot: &'static Curves, (line, work): Measured| {
        SIZES.iter().enumerate().map(move |(at, (size, ..))| Point {
            name: name(plot, line, *size),
            unit: plot.unit,
            work: work(at),
        })
    };
    static ALL: [Curves; 2] = PLOTS;
    ALL.iter().flat_map(move |plot| {
        plot.lines
            .into_iter()
            .flat_map(move |line| of_line(plot, line))
    })
}

fn name(plot: &Curves, line: &str, size: u32) -> String {
    format!("{}: {line}: {size}", plot.title)
}

/// The plot of the figures: medians of the rounds.
pub fn plot(plot: &Curves, figures: &[Figure]) -> Plot {
    let value = |line: &str, size: u32| {
        let name = name(plot, line, size);
        let mine = |figure: &&Figure| figure.side == Side::Ours && figure.row == name;
        let values = figures.iter().filter(mine).map(|figure| figure.value);
        median(&values.collect::<Vec<_>>())
    };
    let line = |(name, _): Measured| Line {
        name,
        points: SIZES
            .iter()
            .filter_map(|(size, ..)| Some((f64::from(*size), value(name, *size)?)))
            .collect(),
    };
    Plot {
        title: plot.title,
        values: plot.values,
        lines: plot.lines.map(line).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn options_name_their_size() {
        for (size, options, _) in SIZES {
            assert!(options.starts_with(&format!("-s {size} -n ")), "{options}");
        }
    }

    #[test]
    fn each_point_has_a_unique_name() {
        let names: HashSet<_> = points().map(|point| point.name).collect();
        assert_eq!(names.len(), PLOTS.len() * 4 * SIZES.len());
        assert!(names.iter().all(|name| !name.contains('\t')));
    }

    #[test]
    fn a_plot_has_the_medians_of_the_measurements() {
        let [first, _] = &PLOTS;
        let figure = |value| Figure {
            row: name(first, "uroce, UDP on lo", 64),
            side: Side::Ours,
            value,
        };
        let plot = plot(first, &[figure(5.0), figure(1.0), figure(2.0)]);
        let points: Vec<_> = plot.lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(points, [vec![], vec![(64.0, 2.0)], vec![], vec![]]);
    }
}
