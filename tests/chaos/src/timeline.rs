//! A run as a picture: throughput, what is unfinished, and the faults, over time.

use std::collections::BTreeMap;

use super::report::Report;
use super::schedule::Kind;
use plot::{COLORS, Chart, Figure, Lane, Lanes, Line, Lines, Panel};

/// Points of a line at most.
const POINTS_MAX: i64 = 600;

/// The horizontal axis, from the first submission to the end, in Unix milliseconds.
#[derive(Clone, Copy)]
struct Axis {
    begin_ms: i64,
    end_ms: i64,
}

impl Axis {
    fn seconds(self, ms: i64) -> f64 {
        (ms - self.begin_ms) as f64 / 1_000.0
    }

    /// The length of the period that one point stands for.
    fn piece_ms(self) -> i64 {
        ((self.end_ms - self.begin_ms) / POINTS_MAX).max(1_000)
    }

    /// The rate over time, as the points of a line.
    fn rate(self, moments: impl Iterator<Item = i64>) -> Vec<(f64, f64)> {
        let length_ms = self.end_ms - self.begin_ms;
        let bin_ms = self.piece_ms();
        let place = |ms: i64| usize::try_from(ms / bin_ms).unwrap_or(0);
        let mut bins = vec![0_u64; place(length_ms) + 1];
        for moment in moments {
            if let Some(bin) = bins.get_mut(place(moment - self.begin_ms)) {
                *bin += 1;
            }
        }
        let width_s = bin_ms as f64 / 1_000.0;
        let point =
            |(at, count): (usize, &u64)| ((at as f64 + 0.5) * width_s, *count as f64 / width_s);
        bins.iter().enumerate().map(point).collect()
    }
}

/// The picture of a run.
#[must_use]
pub fn timeline(report: &Report) -> Figure {
    let begin_ms = report.lives.iter().map(|life| life.created_ms).min().unwrap_or(0);
    let axis = Axis { begin_ms, end_ms: report.phases.end_ms.max(begin_ms + 1_000) };
    let x_max = axis.seconds(axis.end_ms);
    let chart = |x_label: &str, y_label: &str, lines: Vec<Line>| {
        let (x_label, y_label) = (x_label.to_owned(), y_label.to_owned());
        Chart::Lines(Lines { x_label, y_label, x_max, lines, ..Lines::default() })
    };
    let rates = chart("", "transactions a second", rates(report, axis));
    let unfinished = chart("seconds", "transactions", vec![unfinished(report, axis)]);
    let faults = Chart::Lanes(Lanes { x_max, lanes: lanes(report, axis) });
    let panel =
        |title: &str, height: u32, chart: Chart| Panel { title: title.into(), height, chart };
    Figure {
        title: format!(
            "{} transactions, {} faults, {} violations",
            report.lives.len(),
            report.faults.len(),
            report.violations.len()
        ),
        width: 1_200,
        panels: vec![
            panel("Throughput", 240, rates),
            panel("Unfinished", 200, unfinished),
            panel("Faults", 40 + 20 * Kind::ALL.len() as u32, faults),
        ],
    }
}

fn line(name: &str, color: usize, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), color: COLORS[color], points }
}

fn rates(report: &Report, axis: Axis) -> Vec<Line> {
    let created = report.lives.iter().map(|life| life.created_ms);
    let done = report.lives.iter().filter(|life| life.done).map(|life| life.final_ms);
    vec![line("submitted", 1, axis.rate(created)), line("settled", 0, axis.rate(done))]
}

fn unfinished(report: &Report, axis: Axis) -> Line {
    // The maximum of each period: with every sample, the line of a long run could not be read.
    let mut highest = BTreeMap::<i64, f64>::new();
    let piece_ms = axis.piece_ms();
    for (ms, count) in &report.beside.samples {
        let piece = highest.entry((ms - axis.begin_ms) / piece_ms).or_default();
        *piece = piece.max(*count as f64);
    }
    let seconds = |piece: i64| (piece * piece_ms) as f64 / 1_000.0;
    line("unfinished", 5, highest.into_iter().map(|(piece, n)| (seconds(piece), n)).collect())
}

fn lanes(report: &Report, axis: Axis) -> Vec<Lane> {
    let spans = |kind: Kind| {
        let faults = report.faults.iter().filter(move |one| one.fault.kind == kind);
        faults.map(|one| (axis.seconds(one.began_ms), axis.seconds(one.over_ms))).collect()
    };
    let colors = COLORS.iter().cycle();
    let lanes = Kind::ALL.iter().zip(colors).map(|(kind, color)| Lane {
        name: kind.name().to_owned(),
        color: *color,
        spans: spans(*kind),
    });
    lanes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_every_moment_once() {
        let axis = Axis { begin_ms: 10_000, end_ms: 13_000 };
        let points = axis.rate([10_000, 10_999, 11_000, 13_000].into_iter());
        assert_eq!(points, [(0.5, 2.0), (1.5, 1.0), (2.5, 0.0), (3.5, 1.0)]);
        let long = Axis { begin_ms: 0, end_ms: 6_000_000 };
        assert!(long.rate(std::iter::empty()).len() <= 601);
    }
}
