//! Which latencies are measured: of every contender, at rates that depend on its own throughput.

use super::args::Part;
use super::contender::{Contender, Kind};
use super::latency::{Latency, Situation, Task};
use super::table::{self, find};
use super::throughput;
use super::workload::{Load, Workload};
use super::{Bench, say};

/// Users of a round of the book's scenario, a round each second.
const USERS: usize = 1_000;

/// Measures what is wanted.
pub async fn run(bench: &mut Bench) {
    let contenders = throughput::available(bench.args.contenders());
    let contenders: Vec<Contender> = contenders.into_iter().filter(answers_at_once).collect();
    if bench.args.wants(Part::Idle) {
        for contender in &contenders {
            one(bench, Workload::Uniform, *contender, Situation::Idle, None).await;
        }
    }
    if bench.args.wants(Part::Latency) {
        for workload in bench.args.workloads() {
            for contender in &contenders {
                if let Some(rate) = half_rate(bench, workload, *contender).await {
                    one(bench, workload, *contender, Situation::Half, Some(rate)).await;
                }
            }
        }
    }
    if bench.args.wants(Part::Book) {
        for contender in &contenders {
            #[expect(clippy::cast_precision_loss, reason = "a thousand")]
            let rate = USERS as f64;
            one(bench, Workload::Book, *contender, Situation::Book, Some(rate)).await;
        }
    }
}

/// A queue that is filled beforehand answers when it comes to it.
fn answers_at_once(contender: &Contender) -> bool {
    !matches!(contender.kind(), Kind::Tandem { filled: true, .. })
}

/// Half of its measured rate; if none was measured, the rate is measured now.
async fn half_rate(bench: &mut Bench, workload: Workload, contender: Contender) -> Option<f64> {
    let row = |bench: &Bench| {
        let rows = table::rows(&bench.report.runs);
        find(&rows, workload, contender).map(|row| row.per_s / 2.0)
    };
    if row(bench).is_none() {
        throughput::once(bench, workload, contender).await;
    }
    row(bench)
}

async fn one(
    bench: &mut Bench,
    workload: Workload,
    contender: Contender,
    situation: Situation,
    rate: Option<f64>,
) {
    let scale = bench.args.scale();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let count = match situation {
        Situation::Half => (rate.unwrap_or_default() * scale.latency.as_secs_f64()) as usize,
        Situation::Idle => scale.idle,
        Situation::Book => scale.rounds * USERS,
    };
    let load = Load::generate(workload, bench.args.accounts, count.max(1), bench.args.seed);
    let rows = table::rows(&bench.report.runs);
    let known = [workload, Workload::Uniform].map(|workload| find(&rows, workload, contender));
    let known = known.into_iter().flatten().next().map(|row| row.size);
    let size = known.unwrap_or_else(|| throughput::default_size(contender));
    let task = Task { workload, contender, situation, rate, size, crew: &bench.crew };
    let field = bench.field().await;
    match task.run(&field, load).await {
        Ok(latency) => {
            say(line(&latency));
            bench.report.latencies.push(latency);
        }
        Err(problem) => {
            let (contender, workload) = (contender.name(), workload.name());
            bench.failed(format!("{situation:?} latency of {contender} on {workload}: {problem}"));
        }
    }
    field.finish().await;
}

fn line(latency: &Latency) -> String {
    let (workload, contender) = (latency.workload.name(), latency.contender.name());
    let rate = latency.rate_per_s.map_or("one by one".to_owned(), |rate| format!("{rate:.0}/s"));
    format!(
        "{workload:<9} {contender:<12} {rate:>10}  p50 {:.1}  p95 {:.1}  p99 {:.1}  max {:.1} ms, \
         {:.1} s {}",
        latency.p50_ms,
        latency.p95_ms,
        latency.p99_ms,
        latency.max_ms,
        latency.seconds,
        latency.problems.join("; ")
    )
}
