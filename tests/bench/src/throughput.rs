//! All contenders on all workloads: interleaved, so that a slow minute of the machine affects all
//! of them, and repeated, each time beginning with another contender.

use std::collections::HashMap;
use std::sync::Arc;

use super::contender::{Contender, Kind, Run, Task};
use super::report::Trial;
use super::workload::{Load, Workload};
use super::{Bench, baseline, say};
use harness::process::program;

/// Runs them, and notes every run in the report.
pub async fn run(bench: &mut Bench) {
    let contenders = available(bench.args.contenders());
    let workloads = bench.args.workloads();
    warm_up(bench, &contenders).await;
    let mut sizes = HashMap::new();
    for repeat in 0..bench.args.scale().repeat {
        for workload in &workloads {
            if repeat >= bench.args.repeats(*workload) {
                continue;
            }
            let loads = Loads::new(bench, *workload);
            for at in 0..contenders.len() {
                let contender = contenders[(at + repeat) % contenders.len()];
                if let std::collections::hash_map::Entry::Vacant(entry) =
                    sizes.entry((*workload, contender))
                {
                    entry.insert(best_size(bench, *workload, contender, &loads).await);
                }
                let size = sizes[&(*workload, contender)];
                one(bench, *workload, contender, repeat, size, &loads).await;
            }
        }
    }
}

/// The size that is best on the uniform workload; if none was tried yet, they are tried now.
pub(super) async fn uniform_size(bench: &mut Bench, contender: Contender) -> usize {
    let (Kind::Baseline(_), uniform) = (contender.kind(), Workload::Uniform) else {
        return default_size(contender);
    };
    let same = |trial: &&Trial| trial.workload == uniform && trial.contender == contender;
    let tried = bench.report.trials.iter().filter(same);
    if let Some(best) = tried.max_by(|one, other| one.per_s.total_cmp(&other.per_s)) {
        return best.size;
    }
    let loads = Loads::new(bench, uniform);
    best_size(bench, uniform, contender, &loads).await
}

/// The contenders that the built worker supports.
pub(super) fn available(contenders: Vec<Contender>) -> Vec<Contender> {
    let help = std::process::Command::new(program("worker")).arg("--help").output();
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let has_engines = help.is_ok_and(|help| help.contains("--engine"));
    let can = |contender: &Contender| match contender.kind() {
        Kind::Tandem { engine: Some(_), .. } => has_engines,
        Kind::Tandem { engine: None, .. } | Kind::Baseline(_) => true,
    };
    contenders.into_iter().filter(can).collect()
}

/// The same transfers for every contender. Baselines are measured for a fixed time, so they get
/// more transfers.
struct Loads {
    tandem: Arc<Load>,
    baseline: Arc<Load>,
}

impl Loads {
    fn new(bench: &Bench, workload: Workload) -> Loads {
        let (scale, accounts) = (bench.args.scale(), bench.args.accounts);
        let load = |count| Arc::new(Load::generate(workload, accounts, count, bench.args.seed));
        Loads { tandem: load(scale.transfers), baseline: load(scale.baseline_transfers) }
    }

    fn of(&self, contender: Contender) -> &Arc<Load> {
        match contender.kind() {
            Kind::Baseline(_) => &self.baseline,
            Kind::Tandem { .. } => &self.tandem,
        }
    }
}

/// Every contender runs once without being measured: files grow, caches fill, connections open.
async fn warm_up(bench: &mut Bench, contenders: &[Contender]) {
    say("warming up");
    let mut short = bench.args.clone();
    (short.quick, short.transfers) = (true, Some(5_000));
    let full = std::mem::replace(&mut bench.args, short);
    let loads = Loads::new(bench, Workload::Uniform);
    for contender in contenders {
        let size = default_size(*contender);
        if let Err(problem) = measure(bench, Workload::Uniform, *contender, 0, size, &loads).await {
            bench.failed(format!("warming up {}: {problem}", contender.name()));
        }
    }
    bench.args = full;
}

fn default_size(contender: Contender) -> usize {
    match contender.kind() {
        Kind::Baseline(baseline) => *baseline.sizes().last().expect("there are sizes"),
        Kind::Tandem { .. } => 0,
    }
}

/// The concurrency, or the batch, with which a baseline is fastest on this workload.
async fn best_size(
    bench: &mut Bench,
    workload: Workload,
    contender: Contender,
    loads: &Loads,
) -> usize {
    let Kind::Baseline(baseline) = contender.kind() else {
        return default_size(contender);
    };
    let mut best = (0.0, default_size(contender));
    for size in baseline.sizes() {
        let field = bench.field(contender).await;
        let pace = super::feed::Pace::Flood(bench.args.scale().trial);
        let prepared = baseline::prepare(&field, baseline, loads.baseline.accounts).await;
        if prepared.is_ok()
            && let Ok(driven) =
                baseline::drive(&field, baseline, *size, &loads.baseline, pace).await
        {
            #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
            let rate = driven.executed as f64 / driven.elapsed.as_secs_f64();
            if rate > best.0 {
                best = (rate, *size);
            }
            bench.report.trials.push(Trial { workload, contender, size: *size, per_s: rate });
        }
        field.finish().await;
    }
    say(format!("{} on {}: best with {}", contender.name(), workload.name(), best.1));
    best.1
}

async fn one(
    bench: &mut Bench,
    workload: Workload,
    contender: Contender,
    repeat: usize,
    size: usize,
    loads: &Loads,
) {
    match measure(bench, workload, contender, repeat, size, loads).await {
        Ok(run) => {
            say(line(&run));
            bench.report.runs.push(run);
        }
        Err(problem) => {
            bench.failed(format!("{} on {}: {problem}", contender.name(), workload.name()));
        }
    }
}

async fn measure(
    bench: &Bench,
    workload: Workload,
    contender: Contender,
    repeat: usize,
    size: usize,
    loads: &Loads,
) -> Result<Run, String> {
    let limit = bench.args.scale().baseline_limit;
    let task = Task { workload, contender, repeat, size, limit, crew: &bench.crew };
    let field = bench.field(contender).await;
    let ran = task.run(&field, loads.of(contender)).await;
    field.finish().await;
    ran
}

fn line(run: &Run) -> String {
    let (workload, contender) = (run.workload.name(), run.contender.name());
    let cpu = run.cpu_per_1000;
    if !run.counts() {
        return format!("{workload:<9} {contender:<12} NO FIGURE: {}", run.problems.join("; "));
    }
    format!(
        "{workload:<9} {contender:<12} {:>8.0}/s  {:>5.2} documents  {:>6.4} commands  CPU s/1000: \
         mongod {:.3}, rabbitmq {:.3}, worker {:.3}, producer {:.3}, client {:.3}",
        run.per_s,
        run.documents_per_transfer,
        run.commands_per_transfer,
        cpu.mongod,
        cpu.rabbitmq,
        cpu.worker,
        cpu.producer,
        cpu.client
    )
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_contender_has_its_own_name() {
        let mut names: Vec<_> = Contender::value_variants().iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Contender::value_variants().len());
        for contender in Contender::value_variants() {
            let value = contender.to_possible_value().expect("all are values");
            assert_eq!(value.get_name(), contender.name());
        }
    }
}
