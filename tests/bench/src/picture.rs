//! The comparison as a picture for the README of this crate.

use super::contender::Contender;
use super::latency::Situation;
use super::markdown::contenders;
use super::report::Report;
use super::table::{Row, find};
use super::workload::Workload;
use plot::{Bar, BarGroup, Bars, Chart, Figure, Panel};

const WIDTH: u32 = 1_500;
const HEIGHT: u32 = 330;

/// Throughput, what it costs, and how long a transfer takes, as far as they were measured.
#[must_use]
pub fn figure(report: &Report) -> Figure {
    let mut panels = Vec::new();
    if !report.table.is_empty() {
        panels.push(throughput(&report.table));
        panels.push(cpu(&report.table));
    }
    if report.latencies.iter().any(|latency| latency.situation == Situation::Half) {
        panels.push(latency(report));
    }
    let title = format!(
        "Settling transfers on MongoDB {}, w: majority, {} cores for servers and clients",
        report.machine.mongodb, report.machine.cores
    );
    Figure { title, width: WIDTH, panels }
}

fn panel(title: &str, bars: Bars) -> Panel {
    Panel { title: title.to_owned(), height: HEIGHT, chart: Chart::Bars(bars) }
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

fn latency(report: &Report) -> Panel {
    let measured = |c: &Contender| report.latencies.iter().any(|latency| latency.contender == *c);
    let contenders: Vec<_> = contenders(&report.table).into_iter().filter(measured).collect();
    let bar = |workload: Workload, contender: Contender| {
        let mut half = report.latencies.iter().filter(|l| l.situation == Situation::Half);
        let found = half.find(|l| l.workload == workload && l.contender == contender)?;
        let counts = found.problems.is_empty();
        counts.then_some(Bar { value: found.p50_ms, low: found.p50_ms, high: found.p99_ms })
    };
    let group = |workload: Workload| BarGroup {
        name: workload.title().to_owned(),
        bars: contenders.iter().map(|contender| bar(workload, *contender)).collect(),
    };
    let bars = Bars {
        y_label: "ms: p50, and up to p99".to_owned(),
        series: contenders.iter().copied().map(name).collect(),
        groups: workloads(&report.table).into_iter().map(group).collect(),
        logarithmic: true,
    };
    panel("Submission to applied, at half load", bars)
}

#[cfg(test)]
mod tests {
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
        report.reckon();
        let svg = figure(&report).svg();
        for text in ["tandem", "native", "uniform", "9,500"] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
    }
}
