//! A run as a picture: throughput, what is unfinished, and the faults, over time.

use super::report::Report;
use super::schedule::Kind;
use crate::plot::{COLORS, Chart, Figure, Lane, Lanes, Line, Lines, Panel};

/// Points of a line at most.
const POINTS_MAX: i64 = 600;

/// The picture of a run.
#[must_use]
pub fn timeline(report: &Report) -> Figure {
    let begin_ms = report.lives.iter().map(|life| life.created_ms).min().unwrap_or(0);
    let end_ms = report.phases.end_ms.max(begin_ms + 1_000);
    let seconds = |ms: i64| (ms - begin_ms) as f64 / 1_000.0;
    let bin_ms = ((end_ms - begin_ms) / POINTS_MAX).max(1_000);
    let rate = |moments: Vec<i64>| {
        let mut bins = vec![0_u64; usize::try_from((end_ms - begin_ms) / bin_ms).unwrap_or(0) + 1];
        for moment in moments {
            let at = usize::try_from((moment - begin_ms) / bin_ms).unwrap_or(0);
            if let Some(bin) = bins.get_mut(at) {
                *bin += 1;
            }
        }
        let per_s = 1_000.0 / bin_ms as f64;
        let width_s = bin_ms as f64 / 1_000.0;
        let point =
            |(at, count): (usize, &u64)| ((at as f64 + 0.5) * width_s, *count as f64 * per_s);
        bins.iter().enumerate().map(point).collect::<Vec<_>>()
    };
    let created = report.lives.iter().map(|life| life.created_ms).collect();
    let done = report.lives.iter().filter(|life| life.done).map(|life| life.final_ms).collect();
    let unfinished =
        report.beside.samples.iter().map(|(ms, count)| (seconds(*ms), *count as f64)).collect();
    let x_max = seconds(end_ms);
    let lines = |x_label: &str, y_label: &str, lines: Vec<Line>| {
        let (x_label, y_label) = (x_label.to_owned(), y_label.to_owned());
        Chart::Lines(Lines { x_label, y_label, x_max, y_max: 0.0, lines })
    };
    let line = |name: &str, color: usize, points| Line {
        name: name.to_owned(),
        color: COLORS[color],
        points,
    };
    let rates = vec![line("submitted", 1, rate(created)), line("settled", 0, rate(done))];
    let lanes: Vec<Lane> = Kind::ALL
        .iter()
        .enumerate()
        .map(|(index, kind)| Lane {
            name: kind.name().to_owned(),
            color: COLORS[index % COLORS.len()],
            spans: report
                .faults
                .iter()
                .filter(|one| one.fault.kind == *kind)
                .map(|one| (seconds(one.began_ms), seconds(one.over_ms)))
                .collect(),
        })
        .collect();
    let panel =
        |title: &str, height: u32, chart: Chart| Panel { title: title.into(), height, chart };
    let title = format!(
        "{} transactions, {} faults, {} violations",
        report.lives.len(),
        report.faults.len(),
        report.violations.len()
    );
    Figure {
        title,
        width: 1_200,
        panels: vec![
            panel("Throughput", 240, lines("", "transactions a second", rates)),
            panel(
                "Unfinished",
                200,
                lines("seconds", "transactions", vec![line("unfinished", 5, unfinished)]),
            ),
            panel("Faults", 40 + 20 * Kind::ALL.len() as u32, Chart::Lanes(Lanes { x_max, lanes })),
        ],
    }
}
