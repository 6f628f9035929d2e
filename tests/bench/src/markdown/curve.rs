//! Latency against the rate of arrival: a row for each contender, a column for each rate.

use std::fmt::{Result, Write};

use harness::figures::thousands;

use super::heading;
use crate::contender::Contender;
use crate::latency::{Latency, Situation};
use crate::situations::{SIDE_RATE, TOGETHER};
use crate::workload::Workload;

/// What stands where a contender did not keep up.
const BEHIND: &str = "falls behind";

/// A table for each number that arrives together.
pub(super) fn curves(latencies: &[Latency], text: &mut String) -> Result {
    for together in TOGETHER {
        let on_curve = |latency: &&Latency| {
            latency.workload == Workload::Uniform && latency.together == together
        };
        let shown: Vec<&Latency> = at_a_rate(latencies).filter(on_curve).collect();
        let mut rates: Vec<f64> = shown.iter().filter_map(|latency| latency.rate_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        if rates.is_empty() {
            continue;
        }
        let columns: Vec<String> =
            rates.iter().map(|rate| format!("{}/s", thousands(*rate))).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        heading(text, &format!("p50 / p99 ms, {together} at a time"), &columns)?;
        for contender in contenders(&shown) {
            let find = |rate: &f64| {
                let mut found = shown.iter().filter(|latency| latency.contender == contender);
                found.find(|latency| latency.rate_per_s == Some(*rate)).copied()
            };
            row(contender, rates.iter().map(find), text)?;
        }
    }
    Ok(())
}

/// The other workloads, which have one rate.
pub(super) fn side_workloads(latencies: &[Latency], text: &mut String) -> Result {
    let beside = |latency: &&Latency| latency.workload != Workload::Uniform;
    let shown: Vec<&Latency> = at_a_rate(latencies).filter(beside).collect();
    let mut workloads: Vec<Workload> = shown.iter().map(|latency| latency.workload).collect();
    workloads.sort();
    workloads.dedup();
    if workloads.is_empty() {
        return Ok(());
    }
    let titles: Vec<&str> = workloads.iter().map(|workload| workload.title()).collect();
    let rate = thousands(f64::from(SIDE_RATE));
    heading(text, &format!("p50 / p99 ms at {rate}/s, {} at a time", TOGETHER[0]), &titles)?;
    for contender in contenders(&shown) {
        let find = |workload: &Workload| {
            let mut found = shown.iter().filter(|latency| latency.contender == contender);
            found.find(|latency| latency.workload == *workload).copied()
        };
        row(contender, workloads.iter().map(find), text)?;
    }
    Ok(())
}

fn at_a_rate(latencies: &[Latency]) -> impl Iterator<Item = &Latency> {
    latencies.iter().filter(|one| one.situation == Situation::Rate && one.problems.is_empty())
}

fn contenders(shown: &[&Latency]) -> Vec<Contender> {
    let mut contenders: Vec<Contender> = shown.iter().map(|latency| latency.contender).collect();
    contenders.sort();
    contenders.dedup();
    contenders
}

fn row<'a>(
    contender: Contender,
    cells: impl Iterator<Item = Option<&'a Latency>>,
    text: &mut String,
) -> Result {
    write!(text, "| {} |", contender.title())?;
    for cell in cells {
        match cell {
            Some(latency) if latency.kept_up => {
                write!(text, " {:.1} / {:.1} |", latency.p50_ms, latency.p99_ms)?;
            }
            Some(_) => write!(text, " {BEHIND} |")?,
            None => write!(text, " – |")?,
        }
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::tests::at_rate;

    #[test]
    fn a_curve_ends_where_a_contender_falls_behind() {
        let mut behind = at_rate(Contender::Native, Workload::Uniform, (1_500.0, 1), 400.0);
        behind.kept_up = false;
        let latencies = [
            at_rate(Contender::Native, Workload::Uniform, (250.0, 1), 4.0),
            behind,
            at_rate(Contender::Auto, Workload::Uniform, (1_500.0, 1), 7.0),
            at_rate(Contender::Auto, Workload::Uniform, (3_000.0, 1), 8.25),
            at_rate(Contender::Auto, Workload::Refused, (2_000.0, 1), 9.0),
        ];
        let mut text = String::new();
        curves(&latencies, &mut text).expect("a string");
        assert!(
            text.contains("| p50 / p99 ms, 1 at a time | 250/s | 1,500/s | 3,000/s |"),
            "{text}"
        );
        assert!(
            text.contains("| native transaction each | 4.0 / 40.0 | falls behind | – |"),
            "{text}"
        );
        assert!(text.contains("| – | 7.0 / 70.0 | 8.2 / 82.5 |"), "{text}");
        assert!(!text.contains("25 at a time"), "{text}");
        let mut text = String::new();
        side_workloads(&latencies, &mut text).expect("a string");
        assert!(text.contains("| p50 / p99 ms at 2,000/s, 1 at a time | 5 % refused |"), "{text}");
        assert!(text.contains("| 9.0 / 90.0 |"), "{text}");
    }
}
