//! Many runs become one row: the median of those whose books balance, with their spread.

use serde::Serialize;

use super::contender::{Contender, Run};
use super::usage::Cpu;
use super::workload::Workload;

/// The repetitions of one contender on one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: Workload,
    /// The contender.
    pub contender: Contender,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not, because they failed or their books do not balance.
    pub failed: usize,
    /// Transfers at once, or in a batch; workers.
    pub size: usize,
    /// The median, in transfers a second.
    pub per_s: f64,
    /// The lowest.
    pub per_s_min: f64,
    /// The highest.
    pub per_s_max: f64,
    /// The median, divided by that of the native transactions on the same workload.
    pub vs_native: Option<f64>,
    /// Documents updated per transfer.
    pub documents_per_transfer: f64,
    /// Commands per transfer.
    pub commands_per_transfer: f64,
    /// CPU seconds per 1,000 transfers, each part's median.
    pub cpu_per_1000: Cpu,
    /// The highest memory of a worker in any run.
    pub worker_peak_mib: Option<f64>,
}

/// The middle of some numbers; the mean of the middle two if their count is even.
#[must_use]
pub fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A row for each contender and workload that has runs, in their order.
#[must_use]
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let mut keys: Vec<_> = runs.iter().map(|run| (run.workload, run.contender)).collect();
    keys.sort();
    keys.dedup();
    let mut rows: Vec<Row> = keys
        .into_iter()
        .filter_map(|(workload, contender)| row(runs, workload, contender))
        .collect();
    for at in 0..rows.len() {
        let workload = rows[at].workload;
        let native = find(&rows, workload, Contender::Native).map(|native| native.per_s);
        rows[at].vs_native = native.map(|native| rows[at].per_s / native);
    }
    rows
}

/// The row of a contender on a workload.
#[must_use]
pub fn find(rows: &[Row], workload: Workload, contender: Contender) -> Option<&Row> {
    rows.iter().find(|row| row.workload == workload && row.contender == contender)
}

fn row(runs: &[Run], workload: Workload, contender: Contender) -> Option<Row> {
    let ours = || runs.iter().filter(|run| run.workload == workload && run.contender == contender);
    let counting: Vec<&Run> = ours().filter(|run| run.counts()).collect();
    let mid = |of: fn(&Run) -> f64| median(counting.iter().map(|run| of(run)));
    let rates = || counting.iter().map(|run| run.per_s);
    Some(Row {
        workload,
        contender,
        runs: counting.len(),
        failed: ours().count() - counting.len(),
        size: counting.last()?.size,
        per_s: mid(|run| run.per_s)?,
        per_s_min: rates().fold(f64::INFINITY, f64::min),
        per_s_max: rates().fold(0.0, f64::max),
        vs_native: None,
        documents_per_transfer: mid(|run| run.documents_per_transfer)?,
        commands_per_transfer: mid(|run| run.commands_per_transfer)?,
        cpu_per_1000: Cpu {
            mongod: mid(|run| run.cpu_per_1000.mongod)?,
            rabbitmq: mid(|run| run.cpu_per_1000.rabbitmq)?,
            worker: mid(|run| run.cpu_per_1000.worker)?,
            producer: mid(|run| run.cpu_per_1000.producer)?,
            client: mid(|run| run.cpu_per_1000.client)?,
        },
        worker_peak_mib: counting.iter().filter_map(|run| run.worker_peak_mib).reduce(f64::max),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::counters::Counters;
    use super::*;

    /// A run with this rate.
    pub fn run(workload: Workload, contender: Contender, per_s: f64) -> Run {
        Run {
            workload,
            contender,
            repeat: 0,
            transfers: 1_000,
            size: 1,
            seconds: 1_000.0 / per_s,
            per_s,
            documents_per_transfer: 7.0,
            commands_per_transfer: 0.02,
            cpu_per_1000: Cpu { mongod: 0.8, worker: 0.1, producer: 0.1, ..Cpu::default() },
            counters: Counters::default(),
            cpu: Cpu::default(),
            worker_peak_mib: (contender == Contender::Tandem).then_some(per_s / 100.0),
            producer_peak_mib: None,
            submit_seconds: None,
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_the_median_of_the_runs_that_count() {
        let (uniform, native, tandem) = (Workload::Uniform, Contender::Native, Contender::Tandem);
        let mut runs = vec![
            run(uniform, native, 1_000.0),
            run(uniform, tandem, 8_000.0),
            run(uniform, tandem, 9_000.0),
            run(uniform, tandem, 10_000.0),
            run(Workload::HalfHot, tandem, 5.0),
        ];
        let mut false_books = run(uniform, tandem, 1_000_000.0);
        false_books.problems.push("money came from nowhere".to_owned());
        runs.push(false_books);
        let rows = rows(&runs);
        assert_eq!(rows.len(), 3);
        let row = find(&rows, uniform, tandem).expect("a row");
        assert_eq!((row.runs, row.failed), (3, 1));
        assert_eq!((row.per_s, row.per_s_min, row.per_s_max), (9_000.0, 8_000.0, 10_000.0));
        assert_eq!(row.vs_native, Some(9.0));
        assert_eq!(row.worker_peak_mib, Some(100.0));
        let hot = find(&rows, Workload::HalfHot, tandem).expect("a row");
        assert_eq!(hot.vs_native, None);
    }

    #[test]
    fn a_contender_whose_books_never_balance_has_no_row() {
        let mut only = run(Workload::Uniform, Contender::Native, 1.0);
        only.problems.push("x".to_owned());
        assert!(rows(&[only]).is_empty());
    }

    #[test]
    fn a_median_stands_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
