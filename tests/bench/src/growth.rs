//! What a transfer costs as things grow: the backlog, the accounts.
//!
//! The costs of a backlog are measured while workers drain it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::contender::{Contender, Run, Task};
use super::drain::drain;
use super::field::Field;
use super::tandem;
use super::usage::Cpu;
use super::workload::{Load, Workload};
use super::{Bench, say};

/// The small backlog, for comparison with the large one.
const SMALL: usize = 10_000;
/// Draining it takes a second or two, so it is repeated.
const SMALL_TIMES: usize = 5;
/// How much of a large backlog is not counted: more than is in flight at once, so that as much is
/// in progress when the count begins as when it ends. A small one is counted whole.
const FIRST: usize = 20_000;
/// So much of a large backlog is drained.
const DRAINED_MAX: usize = 100_000;
/// The numbers of accounts that are compared.
const ACCOUNTS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// One backlog.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// Transfers that waited.
    pub backlog: usize,
    /// Rows that the producer inserted and published a second.
    pub submit_rows_per_s: f64,
    /// The producer's highest memory.
    pub submit_peak_mib: f64,
    /// Transfers whose settlement was measured.
    pub drained: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Documents updated per transfer.
    pub documents_per_transfer: f64,
    /// Commands per transfer.
    pub commands_per_transfer: f64,
    /// CPU seconds per 1,000 transfers.
    pub cpu_per_1000: Cpu,
    /// The highest memory of a worker.
    pub worker_peak_mib: f64,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// A number of accounts, and the cost of a transfer with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// How many accounts.
    pub accounts: usize,
    /// The run.
    pub run: Run,
}

/// Submits and drains the small backlog and the large one.
pub async fn backlogs(bench: &mut Bench) {
    let sizes = bench.backlogs().into_iter().filter(|size| *size > SMALL);
    for size in [SMALL].into_iter().chain(sizes) {
        let times = if size == SMALL { SMALL_TIMES } else { 1 };
        for _ in 0..times {
            let field = bench.field(Contender::Tandem).await;
            match backlog(bench, &field, size).await {
                Ok(backlog) => {
                    say(line(&backlog));
                    bench.report.backlogs.push(backlog);
                }
                Err(problem) => bench.failed(format!("backlog of {size}: {problem}")),
            }
            field.finish().await;
        }
    }
}

fn line(backlog: &Backlog) -> String {
    format!(
        "backlog of {:>7}: submitted {:.0} rows/s, {:.0} MiB; drained {:.0}/s, CPU s/1000 {:.3}, \
         worker {:.0} MiB {}",
        backlog.backlog,
        backlog.submit_rows_per_s,
        backlog.submit_peak_mib,
        per_s(backlog.drained, backlog.seconds),
        backlog.cpu_per_1000.total(),
        backlog.worker_peak_mib,
        backlog.problems.join("; ")
    )
}

#[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
fn per_s(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are small")]
async fn backlog(bench: &Bench, field: &Field, size: usize) -> Result<Backlog, String> {
    tandem::prepare(field, bench.args.accounts).await;
    let file = {
        let load = Load::generate(Workload::Uniform, bench.args.accounts, size, bench.args.seed);
        field.write(&load)?
    };
    let submitted = tandem::submit(field, Workload::Uniform, &file).await?;
    field.settle_down().await;
    let mut workers = bench.crew.launch(field);
    let uncounted = if size > SMALL { FIRST } else { 0 };
    let to = DRAINED_MAX.min(size);
    let drained = drain(field, &mut workers, uncounted as u64, to as u64).await?;
    let worker_peak_mib = workers.peak_mib();
    workers.stop().await;
    let transfers = drained.transfers as f64;
    Ok(Backlog {
        backlog: size,
        submit_rows_per_s: size as f64 / submitted.elapsed.as_secs_f64(),
        submit_peak_mib: submitted.peak_mib,
        drained: drained.transfers,
        seconds: drained.seconds,
        documents_per_transfer: drained.counters.updated as f64 / transfers,
        commands_per_transfer: drained.counters.commands_total() as f64 / transfers,
        cpu_per_1000: drained.cpu_per_1000(),
        worker_peak_mib,
        problems: tandem::audit_live(field, size).await.err().into_iter().collect(),
    })
}

/// The cost of a transfer with the largest backlog, divided by that with the smallest.
#[must_use]
pub fn cost_ratio(backlogs: &[Backlog]) -> Option<f64> {
    let cost = |size: usize| {
        let same = || backlogs.iter().filter(|b| b.backlog == size && b.problems.is_empty());
        let drained: u64 = same().map(|backlog| backlog.drained).sum();
        #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
        let weighted = |backlog: &Backlog| backlog.cpu_per_1000.total() * backlog.drained as f64;
        let cpu: f64 = same().map(weighted).sum();
        #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
        (drained > 0).then(|| cpu / drained as f64)
    };
    let smallest = backlogs.iter().map(|backlog| backlog.backlog).min()?;
    let largest = backlogs.iter().map(|backlog| backlog.backlog).max()?;
    if smallest == largest {
        return None;
    }
    Some(cost(largest)? / cost(smallest)?)
}

/// Accounts, from few to many.
pub async fn steps(bench: &mut Bench) {
    let most = if bench.args.quick { ACCOUNTS[2] } else { ACCOUNTS[3] };
    for accounts in ACCOUNTS.into_iter().filter(|accounts| *accounts <= most) {
        step(bench, accounts).await;
    }
}

async fn step(bench: &mut Bench, accounts: usize) {
    let scale = bench.args.scale();
    let (workload, contender) = (Workload::Uniform, Contender::Tandem);
    let load = Load::generate(workload, accounts, scale.transfers, bench.args.seed);
    let (limit, crew) = (scale.baseline_limit, &bench.crew);
    let task = Task { workload, contender, repeat: 0, size: 0, limit, crew };
    let field = bench.field(contender).await;
    match task.run(&field, &Arc::new(load)).await {
        Ok(run) => {
            let (cost, rate) = (run.cpu_per_1000.total(), run.per_s);
            let problems = run.problems.join("; ");
            say(format!("{accounts} accounts: {rate:.0}/s, CPU s/1000 {cost:.3} {problems}"));
            bench.report.steps.push(Step { accounts, run });
        }
        Err(problem) => bench.failed(format!("{accounts} accounts: {problem}")),
    }
    field.finish().await;
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A backlog in which a transfer costs this much.
    pub fn backlog(size: usize, drained: u64, cost: f64) -> Backlog {
        Backlog {
            backlog: size,
            submit_rows_per_s: 1.0,
            submit_peak_mib: 1.0,
            drained,
            seconds: 1.0,
            documents_per_transfer: 5.0,
            commands_per_transfer: 0.01,
            cpu_per_1000: Cpu { mongod: cost, ..Cpu::default() },
            worker_peak_mib: 1.0,
            problems: Vec::new(),
        }
    }

    #[test]
    fn the_large_backlog_is_compared_to_all_drains_of_the_small_one() {
        let mut seen = vec![backlog(10, 100, 1.0), backlog(10, 300, 2.0), backlog(1_000, 50, 3.5)];
        assert_eq!(cost_ratio(&seen), Some(2.0));
        assert_eq!(cost_ratio(&seen[..2]), None);
        seen[2].problems.push("x".to_owned());
        assert_eq!(cost_ratio(&seen), None);
    }
}
