//! What more workers bring where each of them may use a small part of a core: the workers are the
//! limit, not the database.
//!
//! The workers consume before the first transfer is there, and get their bound then; the clock runs
//! from the submission of a file to its last transfer. So it shows how long some are idle while
//! another one has much in hand. Where control groups can't be made, it says so and measures
//! nothing.

use std::time::Instant;

use harness::cpu_limit::CpuLimit;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::field::Field;
use super::tandem::{self, Crew};
use super::workload::{Load, Workload};
use super::{Bench, say};

/// Hundredths of a core for each worker.
const PERCENT: u32 = 5;
/// How many workers, and how many transfers wait for them.
const SITUATIONS: [(usize, usize); 4] = [(1, 24_000), (4, 24_000), (1, 250_000), (8, 250_000)];
const QUICK_ONE_IN: usize = 50;

/// How fast limited workers settle a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limited {
    /// Whose workers.
    pub contender: Contender,
    /// How many.
    pub workers: usize,
    /// Hundredths of a core that each of them may use.
    pub percent: u32,
    /// Transfers in the file.
    pub transfers: usize,
    /// Transfers a second, from the submission to the last one.
    pub per_s: f64,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

impl Limited {
    /// Whether the other one measures the same.
    #[must_use]
    pub fn is_again(&self, other: &Limited) -> bool {
        let key = |one: &Limited| (one.contender, one.workers, one.percent, one.transfers);
        key(self) == key(other)
    }
}

/// Measures all situations.
pub async fn run(bench: &mut Bench) {
    let contender = bench.args.only.first().copied().unwrap_or(Contender::Tandem);
    if let Err(problem) = CpuLimit::of(std::process::id(), 100 * PERCENT).map(drop) {
        say(format!("limited: not measured, control groups can't be made here: {problem}"));
        return;
    }
    for (workers, transfers) in SITUATIONS {
        let transfers = if bench.args.quick { transfers / QUICK_ONE_IN } else { transfers };
        let field = bench.field(contender).await;
        let ran = measure(bench, &field, contender, (workers, transfers)).await;
        field.finish().await;
        match ran {
            Ok(limited) => {
                say(line(&limited));
                bench.report.limited.push(limited);
            }
            Err(problem) => {
                let contender = contender.name();
                bench.failed(format!("{workers} limited workers of {contender}: {problem}"));
            }
        }
    }
}

async fn measure(
    bench: &Bench,
    field: &Field,
    contender: Contender,
    (workers, transfers): (usize, usize),
) -> Result<Limited, String> {
    let accounts = bench.args.accounts;
    tandem::prepare(field, accounts).await;
    let load = Load::generate(Workload::Uniform, accounts, transfers, bench.args.seed);
    let file = field.write(&load)?;
    field.settle_down().await;
    let crew = contender.crew(&Crew { workers, ..bench.crew.clone() });
    let mut running = crew.start(field).await;
    let bound = running.pids().into_iter().map(|pid| CpuLimit::of(pid, PERCENT));
    let bounds = bound.collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    tandem::submit(field, Workload::Uniform, &file).await?;
    running.wait_settled(transfers as u64).await?;
    let per_s = transfers as f64 / begun.elapsed().as_secs_f64();
    drop(bounds);
    running.stop().await;
    let mut problems = field.problems(&load.books(transfers)).await;
    problems.extend(tandem::audit(field, transfers).await.err());
    problems.truncate(10);
    Ok(Limited { contender, workers, percent: PERCENT, transfers, per_s, problems })
}

fn line(limited: &Limited) -> String {
    format!(
        "{} workers of {} with {} % of a core each, {} transfers: {:.0}/s {}",
        limited.workers,
        limited.contender.name(),
        limited.percent,
        limited.transfers,
        limited.per_s,
        limited.problems.join("; ")
    )
}
