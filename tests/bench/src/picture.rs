//! The comparison as a picture for the README of this crate.

use clap::ValueEnum;

use super::contender::Contender;
use super::latency::{Latency, Situation};
use super::markdown::contenders;
use super::report::Report;
use super::scale::Replicas;
use super::situations::TOGETHER;
use super::sustained::Sustained;
use super::table::{Row, find};
use super::workload::Workload;
use plot::{Bar, BarGroup, Bars, COLORS, Chart, Figure, Line, Lines, Panel};

const WIDTH: u32 = 1_500;
const HEIGHT: u32 = 330;

/// Throughput, what it costs, how long a transfer takes, what more workers bring and what lasts, as
/// far as they were measured.
#[must_use]
pub fn figure(report: &Report) -> Figure {
    let mut panels = Vec::new();
    if !report.table.is_empty() {
        panels.push(throughput(&report.table));
        panels.push(cpu(&report.table));
    }
    for together in TOGETHER {
        panels.extend(latency(&report.latencies, together, "p50", |latency| latency.p50_ms));
        panels.extend(latency(&report.latencies, together, "p99", |latency| latency.p99_ms));
    }
    panels.extend(replicas(&report.replicas));
    panels.extend(sustained(&report.sustained));
    let title = format!(
        "Settling transfers on MongoDB {}, w: majority, {} cores for servers and clients",
        report.machine.mongodb, report.machine.cores
    );
    Figure { title, width: WIDTH, panels }
}

fn panel(title: &str, bars: Bars) -> Panel {
    Panel { title: title.to_owned(), height: HEIGHT, chart: Chart::Bars(bars) }
}

/// A line for each contender that has points, in the same colour in every panel; no panel if none
/// has.
fn curve(title: &str, axes: Lines, points: impl Fn(Contender) -> Vec<(f64, f64)>) -> Option<Panel> {
    let colored = Contender::value_variants().iter().zip(COLORS.into_iter().cycle());
    let lines: Vec<Line> = colored
        .map(|(contender, color)| (*contender, color, points(*contender)))
        .filter(|(_, _, points)| !points.is_empty())
        .map(|(contender, color, points)| Line { name: name(contender), color, points })
        .collect();
    if lines.is_empty() {
        return None;
    }
    let chart = Chart::Lines(Lines { lines, ..axes });
    Some(Panel { title: title.to_owned(), height: HEIGHT, chart })
}

/// Short, since all of them stand in one line.
fn name(contender: Contender) -> String {
    contender.name().to_owned()
}

fn workloads(rows: &[Row]) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = rows.iter().map(|row| row.workload).collect();
    workloads.dedup();
    workloads
}

fn throughput(rows: &[Row]) -> Panel {
    let contenders = contenders(rows);
    let bar = |row: &Row| Bar { value: row.per_s, low: row.per_s_min, high: row.per_s_max };
    let group = |workload: Workload| BarGroup {
        name: workload.title().to_owned(),
        bars: contenders.iter().map(|c| find(rows, workload, *c).map(bar)).collect(),
    };
    let bars = Bars {
        y_label: "transfers/s: median, lowest, highest".to_owned(),
        series: contenders.iter().copied().map(name).collect(),
        groups: workloads(rows).into_iter().map(group).collect(),
        logarithmic: true,
    };
    panel("Throughput", bars)
}

fn cpu(rows: &[Row]) -> Panel {
    let workload = workloads(rows)[0];
    let group = |row: &Row| {
        let cpu = row.cpu_per_1000;
        let clients = cpu.worker + cpu.producer + cpu.client;
        BarGroup {
            name: name(row.contender),
            bars: [cpu.mongod, cpu.rabbitmq, clients].map(|s| Some(Bar::exactly(s))).to_vec(),
        }
    };
    let bars = Bars {
        y_label: "CPU seconds for 1,000 transfers".to_owned(),
        series: ["mongod", "RabbitMQ", "clients"].map(str::to_owned).to_vec(),
        groups: rows.iter().filter(|row| row.workload == workload).map(group).collect(),
        logarithmic: false,
    };
    panel(&format!("Cost, {}", workload.title()), bars)
}

/// One percentile against the rate, as far as each contender keeps up.
fn latency(
    latencies: &[Latency],
    together: usize,
    percentile: &str,
    of: fn(&Latency) -> f64,
) -> Option<Panel> {
    let shown = |latency: &&Latency| {
        let on_curve = latency.situation == Situation::Rate && latency.together == together;
        let counts = latency.kept_up && latency.problems.is_empty();
        on_curve && latency.workload == Workload::Uniform && counts
    };
    let axes = Lines {
        x_label: "transfers a second that arrive".to_owned(),
        y_label: "ms, as far as each keeps up".to_owned(),
        logarithmic: true,
        dotted: true,
        ..Lines::default()
    };
    let title = format!("Submission to applied, {together} at a time: {percentile}");
    curve(&title, axes, |contender| {
        let own = latencies.iter().filter(shown).filter(|latency| latency.contender == contender);
        own.filter_map(|latency| Some((latency.rate_per_s?, of(latency)))).collect()
    })
}

fn replicas(all: &[Replicas]) -> Option<Panel> {
    let shown = |one: &&Replicas| one.round_trip_ms > 0 && one.problems.is_empty();
    let axes = Lines {
        x_label: "workers".to_owned(),
        y_label: "transfers/s, queue full".to_owned(),
        dotted: true,
        ..Lines::default()
    };
    curve("Workers 10 ms away from the servers", axes, |contender| {
        let own = all.iter().filter(shown).filter(|one| one.contender == contender);
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        let point = |one: &Replicas| (one.workers as f64, one.per_s);
        own.map(point).collect()
    })
}

fn sustained(all: &[Sustained]) -> Option<Panel> {
    let axes = Lines {
        x_label: "seconds".to_owned(),
        y_label: "transfers/s".to_owned(),
        ..Lines::default()
    };
    curve("Under steady load", axes, |contender| {
        let own = all.iter().filter(|run| run.contender == contender && run.problems.is_empty());
        own.flat_map(|run| run.course.iter().copied()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::latency::tests::at_rate;
    use super::super::table::tests::run;
    use super::*;

    #[test]
    fn the_picture_names_contenders_workloads_and_figures() {
        let mut report = Report {
            runs: vec![
                run(Workload::Uniform, Contender::Native, 1_000.0),
                run(Workload::Uniform, Contender::Tandem, 9_500.0),
            ],
            ..Report::default()
        };
        let mut behind = at_rate(Contender::Articles, Workload::Uniform, (750.0, 25), 900.0);
        behind.kept_up = false;
        report.latencies =
            vec![at_rate(Contender::Auto, Workload::Uniform, (1_500.0, 25), 7.0), behind];
        report.reckon();
        let figure = figure(&report);
        let svg = figure.svg();
        for text in ["tandem", "native", "uniform", "9,500", "25 at a time: p99", "auto"] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert!(!svg.contains("articles"), "it did not keep up");
        assert_eq!(figure.panels.len(), 4);
    }
}
