//! The figures that have targets, by name.

use serde::Serialize;

use super::contender::Contender::{
    Articles, Auto, AutoFull, Native, NativeBatch, NativeLean, Tandem, TandemFull, Transaction,
};
use super::growth::cost_ratio;
use super::latency::Situation;
use super::report::{Report, Trial};
use super::table::find;
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
        }
    }
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
    fn what_was_not_measured_is_null_in_the_file() {
        let json = serde_json::to_value(report()).expect("it serializes");
        assert!(json["summary"]["transaction_engine_vs_native"].is_null());
        assert!(json["summary"]["idle_p50_ms"].is_null());
        assert_eq!(json["summary"]["uniform_vs_native"], 11.0);
    }
}
