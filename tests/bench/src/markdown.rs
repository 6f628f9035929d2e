//! The tables in Markdown: printed on the console, and copied into the README of this crate.
//!
//! - `curve`: latency against the rate of arrival.
//! - `lasting`: long runs, more workers, and what has no message.
//! - `reads`: each read of the HTTP API.

mod curve;
mod lasting;
mod reads;

use std::fmt::{Result, Write};

use harness::figures::thousands;

use super::contender::Contender;
use super::growth::{Backlog, Step};
use super::latency::{Latency, Situation};
use super::report::Report;
use super::table::{Row, find};
use super::workload::Workload;

/// What the schema-design book measured in its scenario, on a laptop of 2013 with `MongoDB` 3.0.
const BOOK: &str =
    "| the book's own (2013, one laptop) | 46.7 | 8,655 | – | 19,937 | 29,972 | 40,604 |";

/// All tables for which something was measured.
#[must_use]
pub fn tables(report: &Report) -> String {
    let mut text = String::new();
    write_all(report, &mut text).expect("writing to a string never fails");
    text.trim().to_owned()
}

fn write_all(report: &Report, text: &mut String) -> Result {
    throughput(&report.table, text)?;
    costs(&report.table, text)?;
    latencies(&report.latencies, text)?;
    curve::curves(&report.latencies, text)?;
    curve::side_workloads(&report.latencies, text)?;
    book(&report.latencies, text)?;
    backlogs(&report.backlogs, text)?;
    steps(&report.steps, text)?;
    lasting::replicas(&report.replicas, text)?;
    lasting::limited(&report.limited, text)?;
    lasting::standby(&report.standby, text)?;
    lasting::inserted(&report.inserted, text)?;
    lasting::ended(&report.ended, text)?;
    lasting::undated(&report.undated, text)?;
    reads::reads(&report.reads, text)?;
    lasting::sustained(&report.sustained, text)
}

/// A row for each contender, a column for each workload.
fn throughput(rows: &[Row], text: &mut String) -> Result {
    let mut workloads: Vec<Workload> = rows.iter().map(|row| row.workload).collect();
    workloads.dedup();
    if workloads.is_empty() {
        return Ok(());
    }
    let titles: Vec<_> = workloads.iter().map(|workload| workload.title()).collect();
    heading(text, "transfers/s (× native)", &titles)?;
    for contender in contenders(rows) {
        write!(text, "| {} |", contender.title())?;
        for workload in &workloads {
            match find(rows, *workload, contender) {
                Some(row) => {
                    write!(text, " {}", thousands(row.per_s))?;
                    let ratio = row.vs_native.filter(|_| contender != Contender::Native);
                    ratio.map_or(Ok(()), |ratio| write!(text, " (×{ratio:.1})"))?;
                    write!(text, " |")?;
                }
                None => write!(text, " – |")?,
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

/// The cost of a transfer on the uniform workload, or else on the first one.
fn costs(rows: &[Row], text: &mut String) -> Result {
    let Some(workload) = rows.iter().map(|row| row.workload).min() else { return Ok(()) };
    let columns = [
        "lowest–highest",
        "documents updated",
        "commands",
        "mongod",
        "RabbitMQ",
        "worker",
        "producer",
        "client",
    ];
    let first = format!("{}: per transfer; CPU s per 1,000", workload.title());
    heading(text, &first, &columns)?;
    for row in rows.iter().filter(|row| row.workload == workload) {
        let cpu = row.cpu_per_1000;
        writeln!(
            text,
            "| {} | {}–{} | {:.2} | {:.4} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            row.contender.title(),
            thousands(row.per_s_min),
            thousands(row.per_s_max),
            row.documents_per_transfer,
            row.commands_per_transfer,
            cpu.mongod,
            cpu.rabbitmq,
            cpu.worker,
            cpu.producer,
            cpu.client
        )?;
    }
    Ok(())
}

fn latencies(latencies: &[Latency], text: &mut String) -> Result {
    let shown = || latencies.iter().filter(|latency| latency.situation == Situation::Idle);
    if shown().next().is_none() {
        return Ok(());
    }
    heading(text, "submission to `applied`, one after the other", &["p50 ms", "p95 ms", "p99 ms"])?;
    for latency in shown().filter(|latency| latency.problems.is_empty()) {
        writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} |",
            latency.contender.title(),
            latency.p50_ms,
            latency.p95_ms,
            latency.p99_ms
        )?;
    }
    Ok(())
}

fn book(latencies: &[Latency], text: &mut String) -> Result {
    let shown = || latencies.iter().filter(|latency| latency.situation == Situation::Book);
    let Some(first) = shown().next() else { return Ok(()) };
    let columns = ["seconds", "mean ms", "p50 ms", "p95 ms", "p99 ms", "max ms"];
    let title = format!("the book's scenario: {} transfers", thousands_of(first.transfers));
    heading(text, &title, &columns)?;
    for latency in shown().filter(|latency| latency.problems.is_empty()) {
        let ms = [latency.mean_ms, latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms];
        write!(text, "| {} | {:.1} |", latency.contender.title(), latency.seconds)?;
        ms.iter().try_for_each(|ms| write!(text, " {} |", thousands(*ms)))?;
        writeln!(text)?;
    }
    writeln!(text, "{BOOK}")
}

fn backlogs(backlogs: &[Backlog], text: &mut String) -> Result {
    if backlogs.is_empty() {
        return Ok(());
    }
    let columns =
        ["submitted rows/s", "producer MiB", "settled/s", "CPU s per 1,000", "worker MiB"];
    heading(text, "backlog", &columns)?;
    for backlog in backlogs.iter().filter(|backlog| backlog.problems.is_empty()) {
        #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
        let per_s = backlog.drained as f64 / backlog.seconds;
        writeln!(
            text,
            "| {} | {} | {:.0} | {} | {:.3} | {:.0} |",
            thousands_of(backlog.backlog),
            thousands(backlog.submit_rows_per_s),
            backlog.submit_peak_mib,
            thousands(per_s),
            backlog.cpu_per_1000.total(),
            backlog.worker_peak_mib
        )?;
    }
    Ok(())
}

fn steps(steps: &[Step], text: &mut String) -> Result {
    if steps.is_empty() {
        return Ok(());
    }
    heading(text, "uniform", &["transfers/s", "CPU s per 1,000", "worker MiB"])?;
    for Step { accounts, run } in steps.iter().filter(|step| step.run.counts()) {
        writeln!(
            text,
            "| {} accounts | {} | {:.3} | {:.0} |",
            thousands_of(*accounts),
            thousands(run.per_s),
            run.cpu_per_1000.total(),
            run.worker_peak_mib.unwrap_or_default()
        )?;
    }
    Ok(())
}

fn heading(text: &mut String, first: &str, columns: &[&str]) -> Result {
    write!(text, "\n| {first} |")?;
    columns.iter().try_for_each(|column| write!(text, " {column} |"))?;
    writeln!(text, "\n| --- |{}", " --: |".repeat(columns.len()))
}

/// Those that have rows, in their order.
#[must_use]
pub fn contenders(rows: &[Row]) -> Vec<Contender> {
    let mut contenders: Vec<Contender> = rows.iter().map(|row| row.contender).collect();
    contenders.sort();
    contenders.dedup();
    contenders
}

#[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
fn thousands_of(number: usize) -> String {
    thousands(number as f64)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::run;
    use super::*;

    #[test]
    fn every_row_of_a_table_has_a_cell_for_every_column() {
        let mut report = Report {
            runs: vec![
                run(Workload::Uniform, Contender::Native, 1_000.0),
                run(Workload::Uniform, Contender::Tandem, 9_500.0),
                run(Workload::HalfHot, Contender::Tandem, 12_000.0),
            ],
            ..Report::default()
        };
        report.reckon();
        let text = tables(&report);
        assert!(text.contains("| **Tandem** | 9,500 (×9.5) | 12,000 |"), "{text}");
        assert!(text.contains("| native transaction each | 1,000 | – |"), "{text}");
        for table in text.split("\n\n") {
            let cells: Vec<_> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        }
    }

    #[test]
    fn nothing_measured_makes_no_table() {
        assert_eq!(tables(&Report::default()), "");
    }
}
