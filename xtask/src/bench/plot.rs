//! Line plots as SVG. Both axes are logarithmic.
//!
//! The plots are a dozen lines and labels, so they are written directly: a crate for plots would
//! bring more code to compile than this file has.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// The area of the lines: left, top, right, bottom.
const AREA: [f64; 4] = [80.0, 50.0, 540.0, 370.0];
/// Colours that people with any kind of colour vision can distinguish (Okabe and Ito), with a
/// pattern of dashes each for print.
const STYLES: [(&str, &str); 4] = [
    ("#0072b2", "none"),
    ("#d55e00", "7 3"),
    ("#009e73", "2 3"),
    ("#555555", "9 3 2 3"),
];

/// The horizontal axis.
#[derive(Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    /// The axis has a label at each power of this.
    pub base: f64,
    pub label: fn(f64) -> String,
}

pub const MESSAGE_SIZE: Scale = Scale {
    name: "message size",
    base: 8.0,
    label: size,
};

/// A line: its name, and points in order of their place on the horizontal axis.
pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

pub struct Plot {
    pub title: &'static str,
    /// The name of the values, with their unit.
    pub values: &'static str,
    pub over: Scale,
    pub lines: Vec<Line>,
}

/// A logarithmic axis.
struct Axis {
    /// Logarithms of the ends.
    from: f64,
    to: f64,
    /// Where the ends are in the picture.
    start: f64,
    end: f64,
}

impl Axis {
    /// From the least to the most value, in whole powers of `base`; at least one of them long.
    fn over(values: impl Iterator<Item = f64>, base: f64, [start, end]: [f64; 2]) -> Self {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let power = |value: f64| value.ln() / base.ln();
        // Rounding keeps an exact power from becoming the one beside it.
        let from = (power(least) + 1e-9).floor();
        let to = (power(most) - 1e-9).ceil().max(from + 1.0);
        Self {
            from: from * base.ln(),
            to: to * base.ln(),
            start,
            end,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.ln() - self.from) / (self.to - self.from);
        self.start + part * (self.end - self.start)
    }

    /// The whole powers of `base` on the axis.
    fn powers(&self, base: f64) -> Vec<f64> {
        let [first, last] = [self.from, self.to].map(|end| (end / base.ln()).round());
        let mut powers = Vec::new();
        let mut power = first;
        while power <= last {
            powers.push(base.powf(power));
            power += 1.0;
        }
        powers
    }
}

/// A message size: `8 B`, `4 KiB`, `1 MiB`.
fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1_048_576.0 => format!("{:.0} MiB", bytes / 1_048_576.0),
        bytes if bytes >= 1024.0 => format!("{:.0} KiB", bytes / 1024.0),
        bytes => format!("{bytes:.0} B"),
    }
}

/// A number with at most three decimals below 1, none from there on.
pub fn number(value: f64) -> String {
    if value >= 1.0 {
        return format!("{value:.0}");
    }
    format!("{value:.3}").trim_end_matches('0').to_owned()
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// The plot as a file. Values that no logarithm has (zero, infinity) are left out; `None` where
/// there is nothing left to show.
pub fn svg(plot: &Plot) -> Option<String> {
    let usable =
        |&(at, value): &(f64, f64)| at.is_finite() && value.is_finite() && at > 0.0 && value > 0.0;
    let usable_of = |line: &Line| Line {
        name: line.name,
        points: line.points.iter().copied().filter(usable).collect(),
    };
    let lines: Vec<Line> = plot.lines.iter().map(usable_of).collect();
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    points().next()?;
    let [left, top, right, bottom] = AREA;
    let x = Axis::over(points().map(|(at, _)| at), plot.over.base, [left, right]);
    let y = Axis::over(points().map(|(_, value)| value), 10.0, [bottom, top]);
    let mut text = head(plot);
    grid(&mut text, plot.over, &x, &y);
    for ((at, Line { name, points }), (colour, dashes)) in lines.iter().enumerate().zip(STYLES) {
        let place = |&(at, value): &(f64, f64)| format!("{:.1},{:.1}", x.place(at), y.place(value));
        let places: Vec<String> = points.iter().map(place).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            places.join(" ")
        );
        for (across, value) in points {
            let _ = writeln!(
                text,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}: {}, {value:.2}</title></circle>",
                x.place(*across),
                y.place(*value),
                escaped(name),
                (plot.over.label)(*across),
            );
        }
        let middle = (0..=at).fold(top, |middle, _| middle + 24.0);
        let _ = writeln!(
            text,
            "<line x1=\"{:.0}\" y1=\"{middle:.0}\" x2=\"{:.0}\" y2=\"{middle:.0}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            right + 16.0,
            right + 44.0,
            right + 50.0,
            middle + 4.0,
            escaped(name),
        );
    }
    text.push_str("</svg>\n");
    Some(text)
}

fn head(plot: &Plot) -> String {
    let [left, top, _, _] = AREA;
    let (title, values) = (escaped(plot.title), escaped(plot.values));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"{left}\" y=\"{}\">{values}</text>\n",
        top - 10.0,
    )
}

/// Lines at the powers of both axes, with their labels.
fn grid(text: &mut String, over: Scale, x: &Axis, y: &Axis) {
    let [left, top, right, bottom] = AREA;
    for value in y.powers(10.0) {
        let place = y.place(value);
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{place:.1}\" x2=\"{right}\" y2=\"{place:.1}\" stroke=\"#dddddd\"/>\n\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            place + 4.0,
            number(value),
        );
    }
    for power in x.powers(over.base) {
        let place = x.place(power);
        let _ = writeln!(
            text,
            "<line x1=\"{place:.1}\" y1=\"{top}\" x2=\"{place:.1}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\n\
             <text x=\"{place:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            (over.label)(power),
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        bottom + 38.0,
        escaped(over.name),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "a < b",
            values: "µs",
            over: MESSAGE_SIZE,
            lines: vec![Line {
                name: "x & y",
                points: points.to_vec(),
            }],
        }
    }

    #[test]
    fn the_ends_of_an_axis_are_whole_powers() {
        let axis = Axis::over([8.0, 300.0].into_iter(), 8.0, [0.0, 100.0]);
        let powers: Vec<_> = axis.powers(8.0).into_iter().map(f64::round).collect();
        assert_eq!(powers, [8.0, 64.0, 512.0]);
        assert!((axis.place(8.0) - 0.0).abs() < 1e-6);
        assert!((axis.place(64.0) - 50.0).abs() < 1e-6);
        assert!((axis.place(512.0) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn an_axis_of_one_value_has_a_length() {
        let axis = Axis::over([10.0].into_iter(), 10.0, [0.0, 100.0]);
        assert_eq!(axis.powers(10.0).len(), 2);
        assert!(axis.place(10.0).is_finite());
    }

    #[test]
    fn a_line_has_a_point_for_each_value() {
        let text = svg(&plot(&[(8.0, 0.5), (64.0, 1.0), (512.0, 12.0)])).expect("a plot");
        assert_eq!(text.matches("<circle").count(), 3);
        assert_eq!(text.matches("<polyline").count(), 1);
        assert!(text.contains("a &lt; b") && text.contains("x &amp; y: 64 B, 1.00"));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn larger_values_are_higher_and_larger_messages_further_right() {
        let text = svg(&plot(&[(8.0, 1.0), (64.0, 10.0)])).expect("a plot");
        let points = text
            .split("points=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        assert_eq!(points, Some("80.0,370.0 540.0,50.0"));
    }

    #[test]
    fn values_without_logarithm_are_left_out() {
        let text = svg(&plot(&[(8.0, 0.0), (64.0, f64::INFINITY), (512.0, 3.0)])).expect("a plot");
        assert_eq!(text.matches("<circle").count(), 1);
        assert!(svg(&plot(&[(8.0, 0.0)])).is_none() && svg(&plot(&[])).is_none());
    }

    #[test]
    fn sizes_have_units() {
        let sizes = [8.0, 4096.0, 1_048_576.0].map(size);
        assert_eq!(sizes, ["8 B", "4 KiB", "1 MiB"]);
        assert_eq!(
            [0.1, 0.01, 1.0, 100.0].map(number),
            ["0.1", "0.01", "1", "100"]
        );
    }
}
