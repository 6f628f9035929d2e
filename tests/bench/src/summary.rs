//! The figures that have targets, by name.

use serde::Serialize;

use super::contender::Contender;
use super::contender::Contender::{
    Articles, Auto, AutoFull, Native, NativeBatch, NativeLean, Tandem, TandemFull, Transaction,
};
use super::growth::cost_ratio;
use super::latency::{Latency, Situation};
use super::report::{Report, Trial};
use super::scale::{self, Replicas};
use super::situations::SIDE_RATE;
use super::sustained::{self, Sustained};
use super::table::find;
use super::workload::Workload;
use super::workload::Workload::{HalfHot, MultiLeg, Refused, SingleIds, Uniform};

/// The figures that matter most; what was not measured is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each name says what it is; README.md explains them")]
pub struct Summary {
    pub uniform_vs_native: Option<f64>,
    pub uniform_full_vs_native: Option<f64>,
    pub half_hot_vs_native: Option<f64>,
    pub legs_vs_native: Option<f64>,
    pub refused_vs_native: Option<f64>,
    pub uniform_vs_native_batch: Option<f64>,
    pub single_ids_ratio: Option<f64>,
    pub two_phase_uniform_vs_native: Option<f64>,
    pub two_phase_half_hot_vs_native: Option<f64>,
    pub two_phase_legs_vs_native: Option<f64>,
    pub two_phase_refused_vs_native: Option<f64>,
    pub two_phase_uniform_vs_articles: Option<f64>,
    pub two_phase_uniform_vs_native_lean: Option<f64>,
    pub documents_per_transfer_uniform: Option<f64>,
    pub documents_per_transfer_half_hot: Option<f64>,
    pub commands_per_transfer: Option<f64>,
    pub client_cpu_share: Option<f64>,
    pub idle_p50_ms: Option<f64>,
    pub idle_p99_ms: Option<f64>,
    pub two_phase_idle_p50_ms: Option<f64>,
    pub two_phase_idle_p99_ms: Option<f64>,
    pub latency_1500_p50_ms: Option<f64>,
    pub latency_1500_p99_ms: Option<f64>,
    pub latency_4500_p50_ms: Option<f64>,
    pub latency_4500_p99_ms: Option<f64>,
    pub two_phase_latency_1500_p50_ms: Option<f64>,
    pub two_phase_latency_1500_p99_ms: Option<f64>,
    pub two_phase_latency_3000_p50_ms: Option<f64>,
    pub two_phase_latency_3000_p99_ms: Option<f64>,
    pub two_phase_latency_refused_p99_ms: Option<f64>,
    pub two_phase_latency_legs_p99_ms: Option<f64>,
    pub sustained_last_vs_first: Option<f64>,
    pub sustained_vs_native: Option<f64>,
    pub two_phase_sustained_vs_native: Option<f64>,
    pub scale_8_vs_1: Option<f64>,
    pub workers_cost_ratio: Option<f64>,
    pub worker_peak_mib: Option<f64>,
    pub submit_rows_per_s: Option<f64>,
    pub submit_peak_mib: Option<f64>,
    pub backlog_cost_ratio: Option<f64>,
    pub two_phase_half_hot_vs_native_as_on_uniform: Option<f64>,
    pub transaction_engine_vs_native: Option<f64>,
    pub transaction_engine_half_hot_vs_two_phase: Option<f64>,
}

impl Summary {
    /// Takes the figures out of a report.
    #[must_use]
    pub fn of(report: &Report) -> Summary {
        let row = |workload, contender| find(&report.table, workload, contender);
        let ratio =
            |workload, one, other| Some(row(workload, one)?.per_s / row(workload, other)?.per_s);
        let single_ids = [TandemFull, AutoFull]
            .iter()
            .filter_map(|engine| {
                Some(row(SingleIds, *engine)?.per_s / row(Uniform, *engine)?.per_s)
            })
            .reduce(f64::min);
        let uniform = row(Uniform, Tandem);
        let idle = |contender| {
            report.latencies.iter().find(|latency| {
                let this = latency.situation == Situation::Idle && latency.contender == contender;
                this && latency.problems.is_empty()
            })
        };
        let (idle, two_phase_idle) = (idle(Auto), idle(Tandem));
        let sound = || report.backlogs.iter().filter(|backlog| backlog.problems.is_empty());
        let largest = sound().max_by_key(|backlog| backlog.backlog);
        let peaks = report.table.iter().filter_map(|row| row.worker_peak_mib);
        let peaks = peaks.chain(sound().map(|backlog| backlog.worker_peak_mib));
        Summary {
            uniform_vs_native: ratio(Uniform, Auto, Native),
            uniform_full_vs_native: ratio(Uniform, AutoFull, Native),
            half_hot_vs_native: ratio(HalfHot, Auto, Native),
            legs_vs_native: ratio(MultiLeg, Auto, Native),
            refused_vs_native: ratio(Refused, Auto, Native),
            uniform_vs_native_batch: ratio(Uniform, Auto, NativeBatch),
            single_ids_ratio: single_ids,
            two_phase_uniform_vs_native: ratio(Uniform, Tandem, Native),
            two_phase_half_hot_vs_native: ratio(HalfHot, Tandem, Native),
            two_phase_legs_vs_native: ratio(MultiLeg, Tandem, Native),
            two_phase_refused_vs_native: ratio(Refused, Tandem, Native),
            two_phase_uniform_vs_articles: ratio(Uniform, Tandem, Articles),
            two_phase_uniform_vs_native_lean: ratio(Uniform, Tandem, NativeLean),
            documents_per_transfer_uniform: uniform.map(|row| row.documents_per_transfer),
            documents_per_transfer_half_hot: row(HalfHot, Tandem)
                .map(|row| row.documents_per_transfer),
            commands_per_transfer: uniform.map(|row| row.commands_per_transfer),
            client_cpu_share: uniform.map(|row| row.cpu_per_1000.client_share()),
            idle_p50_ms: idle.map(|latency| latency.p50_ms),
            idle_p99_ms: idle.map(|latency| latency.p99_ms),
            two_phase_idle_p50_ms: two_phase_idle.map(|latency| latency.p50_ms),
            two_phase_idle_p99_ms: two_phase_idle.map(|latency| latency.p99_ms),
            worker_peak_mib: peaks.reduce(f64::max),
            submit_rows_per_s: largest.map(|backlog| backlog.submit_rows_per_s),
            submit_peak_mib: largest.map(|backlog| backlog.submit_peak_mib),
            backlog_cost_ratio: cost_ratio(&report.backlogs),
            two_phase_half_hot_vs_native_as_on_uniform: as_on_uniform(report),
            transaction_engine_vs_native: ratio(Uniform, Transaction, Native),
            transaction_engine_half_hot_vs_two_phase: ratio(HalfHot, Transaction, Tandem),
            ..Summary::at_rates(report)
        }
    }

    /// Only the latencies at rates, and what long runs and more workers show.
    fn at_rates(report: &Report) -> Summary {
        let at = |workload, contender, rate, together| {
            at_rate(&report.latencies, workload, contender, rate, together)
        };
        let (single, grouped) = (at(Uniform, Auto, 1_500, 1), at(Uniform, Auto, 4_500, 25));
        let two_phase = |workload, rate| at(workload, Tandem, rate, 1);
        let (slow, fast) = (two_phase(Uniform, 1_500), two_phase(Uniform, 3_000));
        let p50 = |latency: Option<&Latency>| latency.map(|latency| latency.p50_ms);
        let p99 = |latency: Option<&Latency>| latency.map(|latency| latency.p99_ms);
        Summary {
            latency_1500_p50_ms: p50(single),
            latency_1500_p99_ms: p99(single),
            latency_4500_p50_ms: p50(grouped),
            latency_4500_p99_ms: p99(grouped),
            two_phase_latency_1500_p50_ms: p50(slow),
            two_phase_latency_1500_p99_ms: p99(slow),
            two_phase_latency_3000_p50_ms: p50(fast),
            two_phase_latency_3000_p99_ms: p99(fast),
            two_phase_latency_refused_p99_ms: p99(two_phase(Refused, SIDE_RATE)),
            two_phase_latency_legs_p99_ms: p99(two_phase(MultiLeg, SIDE_RATE)),
            sustained_last_vs_first: last_vs_first(&report.sustained),
            sustained_vs_native: last_minute(&report.sustained, Auto),
            two_phase_sustained_vs_native: last_minute(&report.sustained, Tandem),
            scale_8_vs_1: scale_8_vs_1(&report.replicas),
            workers_cost_ratio: workers_cost_ratio(&report.replicas),
            ..Summary::default()
        }
    }
}

/// The latency at a rate, also of a contender that did not keep up with it, so that a target that
/// was missed by far is seen to be missed.
fn at_rate(
    latencies: &[Latency],
    workload: Workload,
    contender: Contender,
    rate: u32,
    together: usize,
) -> Option<&Latency> {
    latencies.iter().find(|latency| {
        let same = latency.workload == workload && latency.contender == contender;
        let arrived = latency.rate_per_s == Some(f64::from(rate)) && latency.together == together;
        same && arrived && latency.situation == Situation::Rate && latency.problems.is_empty()
    })
}

/// The lower one of two phases and auto.
fn last_vs_first(all: &[Sustained]) -> Option<f64> {
    let kept = |contender| {
        let run = sustained::find(all, contender)?;
        Some(run.last.per_s / run.first.per_s)
    };
    [Tandem, Auto].into_iter().filter_map(kept).reduce(f64::min)
}

/// The last minute beside that of native transactions.
fn last_minute(all: &[Sustained], contender: Contender) -> Option<f64> {
    let last = |contender| Some(sustained::find(all, contender)?.last.per_s);
    Some(last(contender)? / last(Native)?)
}

/// What eight workers far away settle beside one.
fn scale_8_vs_1(all: &[Replicas]) -> Option<f64> {
    let per_s = |workers| Some(scale::find(all, Auto, workers, true)?.per_s);
    Some(per_s(8)? / per_s(1)?)
}

/// What a transfer costs the database with four workers near it, beside one.
fn workers_cost_ratio(all: &[Replicas]) -> Option<f64> {
    let cost = |workers| Some(scale::find(all, Tandem, workers, false)?.cpu_per_1000.mongod);
    Some(cost(4)? / cost(1)?).filter(|ratio| ratio.is_finite())
}

/// Tandem's rate divided by that of native transactions, with the concurrency that is best for them
/// if no account is hot: an operator does not know beforehand which account will be hot.
fn as_on_uniform(report: &Report) -> Option<f64> {
    let tandem = find(&report.table, HalfHot, Tandem)?.per_s;
    let size = find(&report.table, Uniform, Native)?.size;
    let of = |trial: &&Trial| trial.workload == HalfHot && trial.contender == Native;
    let native = report.trials.iter().filter(of).find(|trial| trial.size == size)?;
    Some(tandem / native.per_s)
}

#[cfg(test)]
mod tests {
    use super::super::growth::tests::backlog;
    use super::super::latency::tests::at_rate;
    use super::super::scale::tests::replicas;
    use super::super::sustained::tests::sustained;
    use super::super::table::tests::run;
    use super::*;

    fn report() -> Report {
        let mut report = Report {
            runs: vec![
                run(Uniform, Articles, 500.0),
                run(Uniform, Native, 1_000.0),
                run(Uniform, NativeBatch, 12_500.0),
                run(Uniform, Tandem, 10_000.0),
                run(Uniform, Auto, 11_000.0),
                run(HalfHot, Native, 200.0),
                run(Uniform, AutoFull, 12_000.0),
                run(SingleIds, AutoFull, 9_000.0),
                run(HalfHot, Tandem, 12_000.0),
            ],
            trials: [(1, 150.0), (4, 400.0)]
                .map(|(size, per_s)| Trial { workload: HalfHot, contender: Native, size, per_s })
                .to_vec(),
            backlogs: vec![backlog(10, 100, 1.0), backlog(1_000, 100, 1.1)],
            ..Report::default()
        };
        report.reckon();
        report
    }

    #[test]
    fn ratios_are_those_of_medians_on_the_same_workload() {
        let summary = report().summary;
        assert_eq!(summary.uniform_vs_native, Some(11.0));
        assert_eq!(summary.two_phase_uniform_vs_native, Some(10.0));
        assert_eq!(summary.two_phase_half_hot_vs_native, Some(60.0));
        assert_eq!(summary.half_hot_vs_native, None);
        assert_eq!(summary.single_ids_ratio, Some(0.75));
        // The runs on the uniform workload had a concurrency of one.
        assert_eq!(summary.two_phase_half_hot_vs_native_as_on_uniform, Some(80.0));
        assert_eq!(summary.two_phase_uniform_vs_articles, Some(20.0));
        assert_eq!(summary.uniform_vs_native_batch, Some(0.88));
        assert_eq!(summary.transaction_engine_vs_native, None);
        assert_eq!(summary.backlog_cost_ratio, Some(1.1));
        assert_eq!(summary.worker_peak_mib, Some(120.0));
    }

    #[test]
    fn latencies_are_found_by_rate_and_by_how_many_come_together() {
        let mut report = report();
        report.latencies = vec![
            at_rate(Auto, Uniform, (1_500.0, 25), 7.0),
            at_rate(Auto, Uniform, (1_500.0, 1), 8.0),
            at_rate(Auto, Uniform, (4_500.0, 25), 9.0),
            at_rate(Tandem, Uniform, (3_000.0, 1), 10.0),
            at_rate(Tandem, Refused, (2_000.0, 1), 11.0),
        ];
        let summary = Summary::of(&report);
        assert_eq!(summary.latency_1500_p50_ms, Some(8.0));
        assert_eq!(summary.latency_4500_p99_ms, Some(90.0));
        assert_eq!(summary.two_phase_latency_1500_p50_ms, None);
        assert_eq!(summary.two_phase_latency_3000_p99_ms, Some(100.0));
        assert_eq!(summary.two_phase_latency_refused_p99_ms, Some(110.0));
        assert_eq!(summary.idle_p50_ms, None);
    }

    #[test]
    fn what_lasts_is_the_lower_engine_and_compared_in_the_last_minute() {
        let mut report = report();
        report.sustained = vec![
            sustained(Native, 1_000.0, 800.0),
            sustained(Tandem, 8_000.0, 7_200.0),
            sustained(Auto, 10_000.0, 8_000.0),
        ];
        let summary = Summary::of(&report);
        assert_eq!(summary.sustained_last_vs_first, Some(0.8));
        assert_eq!(summary.two_phase_sustained_vs_native, Some(9.0));
        assert_eq!(summary.sustained_vs_native, Some(10.0));
    }

    #[test]
    fn workers_far_away_add_rate_and_near_ones_cost() {
        let mut report = report();
        report.replicas = vec![
            replicas(Tandem, 1, 0, (9_000.0, 0.2)),
            replicas(Tandem, 4, 0, (6_000.0, 0.3)),
            replicas(Auto, 1, 10, (1_000.0, 0.1)),
            replicas(Auto, 8, 10, (6_500.0, 0.1)),
        ];
        let summary = Summary::of(&report);
        assert_eq!(summary.scale_8_vs_1, Some(6.5));
        let ratio = summary.workers_cost_ratio.expect("both were measured");
        assert!((ratio - 1.5).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn what_was_not_measured_is_null_in_the_file() {
        let json = serde_json::to_value(report()).expect("it serializes");
        assert!(json["summary"]["transaction_engine_vs_native"].is_null());
        assert!(json["summary"]["idle_p50_ms"].is_null());
        assert_eq!(json["summary"]["uniform_vs_native"], 11.0);
    }
}
