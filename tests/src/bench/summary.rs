//! The figures that the targets are about, by name.

use serde::Serialize;

use super::contender::Contender::{Articles, Native, NativeBatch, Tandem, Transaction};
use super::report::Report;
use super::table::find;
use super::workload::Workload::{HalfHot, Uniform};

/// See the module; what was not measured is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each name says what it is; the README explains them")]
pub struct Summary {
    pub uniform_vs_native: Option<f64>,
    pub half_hot_vs_native: Option<f64>,
    pub uniform_vs_articles: Option<f64>,
    pub uniform_vs_native_batch: Option<f64>,
    pub documents_per_transfer_uniform: Option<f64>,
    pub documents_per_transfer_half_hot: Option<f64>,
    pub commands_per_transfer: Option<f64>,
    pub client_cpu_share: Option<f64>,
    pub idle_p50_ms: Option<f64>,
    pub idle_p99_ms: Option<f64>,
    pub worker_peak_mib: Option<f64>,
    pub submit_rows_per_s: Option<f64>,
    pub submit_peak_mib: Option<f64>,
    pub backlog_cost_ratio: Option<f64>,
    pub transaction_engine_vs_native: Option<f64>,
    pub transaction_engine_half_hot_vs_tandem: Option<f64>,
}

impl Summary {
    /// Takes the figures out of a report.
    #[must_use]
    pub fn of(report: &Report) -> Summary {
        let row = |workload, contender| find(&report.table, workload, contender);
        let ratio =
            |workload, one, other| Some(row(workload, one)?.per_s / row(workload, other)?.per_s);
        let uniform = row(Uniform, Tandem);
        Summary {
            uniform_vs_native: ratio(Uniform, Tandem, Native),
            half_hot_vs_native: ratio(HalfHot, Tandem, Native),
            uniform_vs_articles: ratio(Uniform, Tandem, Articles),
            uniform_vs_native_batch: ratio(Uniform, Tandem, NativeBatch),
            documents_per_transfer_uniform: uniform.map(|row| row.documents_per_transfer),
            documents_per_transfer_half_hot: row(HalfHot, Tandem)
                .map(|row| row.documents_per_transfer),
            commands_per_transfer: uniform.map(|row| row.commands_per_transfer),
            client_cpu_share: uniform.map(|row| row.cpu_per_1000.client_share()),
            idle_p50_ms: None,
            idle_p99_ms: None,
            worker_peak_mib: report
                .table
                .iter()
                .filter_map(|row| row.worker_peak_mib)
                .reduce(f64::max),
            submit_rows_per_s: None,
            submit_peak_mib: None,
            backlog_cost_ratio: None,
            transaction_engine_vs_native: ratio(Uniform, Transaction, Native),
            transaction_engine_half_hot_vs_tandem: ratio(HalfHot, Transaction, Tandem),
        }
    }
}
