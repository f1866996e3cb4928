//! The curves of the plots: some are measured for the plot, some are rows of the table.
#![forbid(unsafe_code)]

use super::{
    figure::{Figure, Side},
    row::{
        AVERAGE, BANDWIDTH, Carrier, Perftest, Quantity, RATE, TYPICAL, Transports, UCX_MEDIAN,
        UcxTest, Unit, Work,
    },
};
use crate::bench::plot::{self, Line, Plot, Scale};
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

/// Queue pairs with the options of perftest, for as many messages in all.
const QUEUE_PAIRS: [(u32, &str); 6] = [
    (1, "-s 64 -n 204800 -q 1 -N"),
    (4, "-s 64 -n 51200 -q 4 -N"),
    (16, "-s 64 -n 12800 -q 16 -N"),
    (64, "-s 64 -n 3200 -q 64 -N"),
    (256, "-s 64 -n 800 -q 256 -N"),
    (1024, "-s 64 -n 200 -q 1024 -N"),
];

/// The values of the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    MessageSize,
    QueuePairs,
}

impl Over {
    fn values(self) -> Vec<u32> {
        match self {
            Self::MessageSize => SIZES.iter().map(|(size, ..)| *size).collect(),
            Self::QueuePairs => QUEUE_PAIRS.iter().map(|(pairs, _)| *pairs).collect(),
        }
    }

    fn scale(self) -> Scale {
        match self {
            Self::MessageSize => plot::MESSAGE_SIZE,
            Self::QueuePairs => Scale {
                name: "queue pairs",
                base: 4.0,
                label: |pairs| format!("{pairs:.0}"),
            },
        }
    }
}

/// A line: its name, and the work at the value with this index.
type Measured = (&'static str, fn(usize) -> Work);

/// The contents of a plot, and its file.
pub struct Curves {
    pub file: &'static str,
    pub title: &'static str,
    values: &'static str,
    pub unit: Unit,
    over: Over,
    lines: &'static [Measured],
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

fn on_queue_pairs(carrier: Carrier, at: usize) -> Work {
    let (_, options) = QUEUE_PAIRS[at];
    let perftest = Perftest {
        program: "ib_send_bw",
        options,
        field: RATE,
    };
    Work::Uroce(perftest, carrier)
}

/// The plots that are measured. Latencies of shared memory are medians, as UCX reports them; those
/// of UDP and TCP are averages, as qperf reports them.
pub const PLOTS: [Curves; 3] = [
    Curves {
        file: "plots/uroce-latency.svg",
        title: "Latency of a message, one way",
        values: "µs (lower is better)",
        unit: Unit::Microseconds,
        over: Over::MessageSize,
        lines: &[
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
        over: Over::MessageSize,
        lines: &[
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
    Curves {
        file: "plots/uroce-queue-pairs.svg",
        title: "Messages of 64 B over queue pairs",
        values: "million messages a second (higher is better)",
        unit: Unit::Messages,
        over: Over::QueuePairs,
        lines: &[
            ("uroce, shared memory", |at| {
                on_queue_pairs(Carrier::Shm, at)
            }),
            ("uroce, UDP on lo", |at| on_queue_pairs(Carrier::Udp, at)),
        ],
    },
];

/// A point to measure.
pub struct Point {
    pub name: String,
    pub unit: Unit,
    pub work: Work,
}

/// All points of all measured plots.
pub fn points() -> impl Iterator<Item = Point> {
    static ALL: [Curves; 3] = PLOTS;
    ALL.iter().flat_map(|plot| {
        let of_line = move |(line, work): &Measured| {
            let point = |(at, value)| Point {
                name: name(plot, line, value),
                unit: plot.unit,
                work: work(at),
            };
            let values = plot.over.values().into_iter().enumerate();
            values.map(point).collect::<Vec<_>>()
        };
        plot.lines.iter().flat_map(of_line)
    })
}

fn name(plot: &Curves, line: &str, value: u32) -> String {
    format!("{}: {line}: {value}", plot.title)
}

/// The median of a side of a row, or of a point.
fn value_of(figures: &[Figure], side: Side, row: &str) -> Option<f64> {
    let mine = |figure: &&Figure| figure.side == side && figure.row == row;
    let values = figures.iter().filter(mine).map(|figure| figure.value);
    median(&values.collect::<Vec<_>>())
}

/// The plot of the figures: medians of the rounds.
pub fn plot(plot: &Curves, figures: &[Figure]) -> Plot {
    let point = |line: &str, value: u32| {
        let height = value_of(figures, Side::Ours, &name(plot, line, value))?;
        Some((f64::from(value), height))
    };
    let line = |(name, _): &Measured| {
        let values = plot.over.values().into_iter();
        Line {
            name,
            points: values.filter_map(|value| point(name, value)).collect(),
        }
    };
    Plot {
        title: plot.title,
        values: plot.values,
        over: plot.over.scale(),
        lines: plot.lines.iter().map(line).collect(),
    }
}

/// A line of rows: its name, the side, and values of the horizontal axis with their rows.
type LineOfRows = (&'static str, Side, &'static [(f64, &'static str)]);

/// A plot of rows of the table.
pub struct RowCurves {
    pub file: &'static str,
    pub title: &'static str,
    over: Scale,
    lines: [LineOfRows; 4],
}

const WRITES_BY_DELAY: &[(f64, &str)] = &[
    (1.0, "ib_write_bw 64 KiB, hosts, 1 ms each way"),
    (5.0, "ib_write_bw 64 KiB, hosts, 5 ms each way"),
    (20.0, "ib_write_bw 64 KiB, hosts, 20 ms each way"),
];
const LOSSY_WRITES_BY_DELAY: &[(f64, &str)] = &[
    (1.0, "ib_write_bw 64 KiB, hosts, 1 ms each way, loss 0.1 %"),
    (5.0, "ib_write_bw 64 KiB, hosts, 5 ms each way, loss 0.1 %"),
    (
        20.0,
        "ib_write_bw 64 KiB, hosts, 20 ms each way, loss 0.1 %",
    ),
];
const WRITES_BY_LOSS: &[(f64, &str)] = &[
    (0.01, "ib_write_bw 64 KiB, hosts, loss 0.01 %"),
    (0.1, "ib_write_bw 64 KiB, hosts, loss 0.1 %"),
    (1.0, "ib_write_bw 64 KiB, hosts, loss 1 %"),
];
const READS_BY_LOSS: &[(f64, &str)] = &[
    (0.01, "ib_read_bw 64 KiB, hosts, loss 0.01 %"),
    (0.1, "ib_read_bw 64 KiB, hosts, loss 0.1 %"),
    (1.0, "ib_read_bw 64 KiB, hosts, loss 1 %"),
];
const SENDS_BY_LOSS: &[(f64, &str)] = &[
    (0.01, "ib_send_bw 64 KiB, hosts, loss 0.01 %"),
    (0.1, "ib_send_bw 64 KiB, hosts, loss 0.1 %"),
    (1.0, "ib_send_bw 64 KiB, hosts, loss 1 %"),
];

/// The plots of rows, which two hosts in the virtual machine measured.
pub const ROW_PLOTS: [RowCurves; 2] = [
    RowCurves {
        file: "plots/uroce-delay.svg",
        title: "Bandwidth over delay, emulated hosts",
        over: Scale {
            name: "delay each way",
            base: 10.0,
            label: |delay| format!("{delay:.0} ms"),
        },
        lines: [
            ("uroce, ib_write_bw", Side::Ours, WRITES_BY_DELAY),
            ("TCP", Side::Peer, WRITES_BY_DELAY),
            ("uroce, loss 0.1 %", Side::Ours, LOSSY_WRITES_BY_DELAY),
            ("TCP, loss 0.1 %", Side::Peer, LOSSY_WRITES_BY_DELAY),
        ],
    },
    RowCurves {
        file: "plots/uroce-loss.svg",
        title: "Bandwidth over loss, emulated hosts",
        over: Scale {
            name: "loss",
            base: 10.0,
            label: |loss| format!("{} %", plot::number(loss)),
        },
        lines: [
            ("uroce, ib_write_bw", Side::Ours, WRITES_BY_LOSS),
            ("uroce, ib_read_bw", Side::Ours, READS_BY_LOSS),
            ("uroce, ib_send_bw", Side::Ours, SENDS_BY_LOSS),
            ("TCP", Side::Peer, WRITES_BY_LOSS),
        ],
    },
];

/// The plot of rows: medians of the rounds.
pub fn plot_of_rows(plot: &RowCurves, figures: &[Figure]) -> Plot {
    let line = |(name, side, points): LineOfRows| {
        let point = |(at, row): &(f64, &str)| Some((*at, value_of(figures, side, row)?));
        Line {
            name,
            points: points.iter().filter_map(point).collect(),
        }
    };
    Plot {
        title: plot.title,
        values: "MiB/s (higher is better)",
        over: plot.over,
        lines: plot.lines.map(line).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::uroce::rows;
    use std::collections::HashSet;

    #[test]
    fn options_name_their_size() {
        for (size, options, _) in SIZES {
            assert!(options.starts_with(&format!("-s {size} -n ")), "{options}");
        }
    }

    #[test]
    fn options_name_their_queue_pairs_and_send_as_much() {
        for (pairs, options) in QUEUE_PAIRS {
            let count = 204_800 / pairs;
            assert_eq!(options, format!("-s 64 -n {count} -q {pairs} -N"));
        }
    }

    #[test]
    fn each_point_has_a_unique_name() {
        let names: HashSet<_> = points().map(|point| point.name).collect();
        assert_eq!(names.len(), 2 * 4 * SIZES.len() + 2 * QUEUE_PAIRS.len());
        assert!(names.iter().all(|name| !name.contains('\t')));
    }

    #[test]
    fn a_plot_has_the_medians_of_the_measurements() {
        let [first, ..] = &PLOTS;
        let figure = |value| Figure {
            row: name(first, "uroce, UDP on lo", 64),
            side: Side::Ours,
            value,
        };
        let plot = plot(first, &[figure(5.0), figure(1.0), figure(2.0)]);
        let points: Vec<_> = plot.lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(points, [vec![], vec![(64.0, 2.0)], vec![], vec![]]);
    }

    #[test]
    fn plots_of_rows_have_rows_of_the_table() {
        let rows: HashSet<_> = rows::all().into_iter().map(|row| row.name).collect();
        for (_, _, points) in ROW_PLOTS.iter().flat_map(|plot| plot.lines) {
            assert!(
                points.iter().all(|(_, row)| rows.contains(row)),
                "{points:?}"
            );
        }
    }

    #[test]
    fn a_plot_of_rows_has_both_sides() {
        let figure = |side, value| Figure {
            row: "ib_write_bw 64 KiB, hosts, 5 ms each way".to_owned(),
            side,
            value,
        };
        let [delay, _] = &ROW_PLOTS;
        let figures = [figure(Side::Ours, 3.0), figure(Side::Peer, 4.0)];
        let plot = plot_of_rows(delay, &figures);
        let points: Vec<_> = plot.lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(points, [vec![(5.0, 3.0)], vec![(5.0, 4.0)], vec![], vec![]]);
    }
}
