//! Which latencies are measured: of every contender, idle, at a curve of rates, and as in the book.
//!
//! The curve belongs to all contenders alike: at each rate all of them are measured in turn, so
//! that a slow minute of the machine affects them all. A contender's curve ends after the first
//! rate that it does not keep up with. The other workloads have one rate, for those who keep up
//! with it.

use std::time::Duration;

use super::args::Part;
use super::contender::{Contender, Kind};
use super::feed::Arrivals;
use super::latency::{Latency, Situation, Task};
use super::table::{self, find};
use super::throughput;
use super::workload::{Load, Workload};
use super::{Bench, say};

/// Users of a round of the book's scenario, a round each second.
const USERS: usize = 1_000;
/// How many transfers arrive together: the two curves.
pub const TOGETHER: [usize; 2] = [1, 25];
/// The rate of the workloads beside the uniform one, which arrive one at a time.
pub const SIDE_RATE: u32 = 2_000;
const SIDE_WORKLOADS: [Workload; 3] = [Workload::HalfHot, Workload::MultiLeg, Workload::Refused];

/// Measures what is wanted.
pub async fn run(bench: &mut Bench) {
    let contenders = throughput::available(bench.args.contenders());
    let contenders: Vec<Contender> = contenders.into_iter().filter(answers_at_once).collect();
    if bench.args.wants(Part::Idle) {
        for contender in &contenders {
            let count = bench.args.scale().idle;
            one(bench, Workload::Uniform, *contender, Situation::Idle, None, count).await;
        }
    }
    if bench.args.wants(Part::Latency) {
        curves(bench, &contenders).await;
    }
    if bench.args.wants(Part::Book) {
        let count = bench.args.scale().rounds * USERS;
        #[expect(clippy::cast_precision_loss, reason = "a thousand")]
        let arrivals = Some(Arrivals { per_s: USERS as f64, together: 1 });
        for contender in &contenders {
            one(bench, Workload::Book, *contender, Situation::Book, arrivals, count).await;
        }
    }
}

/// A queue that is filled beforehand answers when it comes to it.
fn answers_at_once(contender: &Contender) -> bool {
    !matches!(contender.kind(), Kind::Tandem { filled: true, .. })
}

async fn curves(bench: &mut Bench, contenders: &[Contender]) {
    let workloads = bench.args.workloads();
    let rates = bench.args.rates();
    if workloads.contains(&Workload::Uniform) {
        for together in TOGETHER {
            let mut still = contenders.to_vec();
            for rate in &rates {
                let mut keeping_up = Vec::new();
                for contender in still {
                    if at_rate(bench, Workload::Uniform, contender, *rate, together).await {
                        keeping_up.push(contender);
                    }
                }
                still = keeping_up;
            }
        }
    }
    for workload in SIDE_WORKLOADS.into_iter().filter(|workload| workloads.contains(workload)) {
        for contender in contenders {
            if may_keep_up(&bench.report.latencies, *contender, SIDE_RATE) {
                at_rate(bench, workload, *contender, SIDE_RATE, TOGETHER[0]).await;
            }
        }
    }
}

/// Whether nothing says that this rate of single transfers is too much for a contender.
fn may_keep_up(latencies: &[Latency], contender: Contender, rate: u32) -> bool {
    let slower = |latency: &&Latency| {
        let same = latency.contender == contender && latency.workload == Workload::Uniform;
        same && latency.together == 1
            && latency.rate_per_s.is_some_and(|measured| measured <= f64::from(rate))
    };
    latencies.iter().filter(slower).all(|latency| latency.kept_up)
}

/// Measures at a rate; says whether the contender keeps up.
async fn at_rate(
    bench: &mut Bench,
    workload: Workload,
    contender: Contender,
    rate: u32,
    together: usize,
) -> bool {
    let arrivals = Arrivals { per_s: f64::from(rate), together };
    let count = transfers_in(rate, bench.args.scale().latency, together);
    one(bench, workload, contender, Situation::Rate, Some(arrivals), count).await
}

/// How many transfers arrive in this time, in whole groups.
fn transfers_in(rate: u32, duration: Duration, together: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let transfers = (f64::from(rate) * duration.as_secs_f64()) as usize;
    transfers.max(1).next_multiple_of(together)
}

/// Says whether there is a figure, and the contender keeps up.
async fn one(
    bench: &mut Bench,
    workload: Workload,
    contender: Contender,
    situation: Situation,
    arrivals: Option<Arrivals>,
    count: usize,
) -> bool {
    let load = Load::generate(workload, bench.args.accounts, count, bench.args.seed);
    let rows = table::rows(&bench.report.runs);
    let size = match find(&rows, workload, contender) {
        Some(row) => row.size,
        None => throughput::uniform_size(bench, contender).await,
    };
    let (crew, ids_per_message) = (&bench.crew, bench.args.ids_per_message);
    let task = Task { workload, contender, situation, arrivals, size, crew, ids_per_message };
    let field = bench.field(contender).await;
    let ran = task.run(&field, load).await;
    field.finish().await;
    match ran {
        Ok(latency) => {
            say(line(&latency));
            let kept_up = latency.kept_up;
            bench.report.latencies.push(latency);
            kept_up
        }
        Err(problem) => {
            let (contender, workload) = (contender.name(), workload.name());
            bench.failed(format!("{situation:?} latency of {contender} on {workload}: {problem}"));
            false
        }
    }
}

fn line(latency: &Latency) -> String {
    let (workload, contender) = (latency.workload.name(), latency.contender.name());
    let rate = latency.rate_per_s.map_or("one by one".to_owned(), |rate| format!("{rate:.0}/s"));
    format!(
        "{workload:<9} {contender:<12} {rate:>10}, {:>2} at a time  p50 {:.1}  p95 {:.1}  p99 {:.1}  \
         max {:.1} ms, {:.1} s{} {}",
        latency.together,
        latency.p50_ms,
        latency.p95_ms,
        latency.p99_ms,
        latency.max_ms,
        latency.seconds,
        if latency.kept_up { "" } else { ", FALLS BEHIND" },
        latency.problems.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::latency::tests::at_rate;
    use super::*;

    #[test]
    fn arrivals_come_in_whole_groups() {
        for (rate, seconds, together, transfers) in
            [(250, 10, 1, 2_500), (250, 10, 25, 2_500), (100, 2, 25, 200), (1, 1, 25, 25)]
        {
            let duration = Duration::from_secs(seconds);
            assert_eq!(transfers_in(rate, duration, together), transfers);
        }
    }

    #[test]
    fn other_workloads_are_for_those_who_keep_up_with_the_rate() {
        let mut behind = at_rate(Contender::Native, Workload::Uniform, (1_500.0, 1), 900.0);
        behind.kept_up = false;
        let mut too_fast = at_rate(Contender::Auto, Workload::Uniform, (8_000.0, 1), 900.0);
        too_fast.kept_up = false;
        let seen = [behind, too_fast];
        assert!(!may_keep_up(&seen, Contender::Native, 2_000));
        assert!(may_keep_up(&seen, Contender::Auto, 2_000));
        assert!(may_keep_up(&seen, Contender::Tandem, 2_000));
    }
}
