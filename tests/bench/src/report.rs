//! Everything that was measured, in the form of the JSON file, and files of earlier measurements.

use std::path::Path;

use procfs::{CpuInfo, Current};
use serde::{Deserialize, Serialize};

use super::contender::{Contender, Run};
use super::ended::Ended;
use super::growth::{Backlog, Step};
use super::inserted::Inserted;
use super::latency::Latency;
use super::limited::Limited;
use super::reads::Reads;
use super::scale::Replicas;
use super::standby::Standby;
use super::summary::Summary;
use super::sustained::Sustained;
use super::table::{self, Row};
use super::undated::Undated;
use super::workload::Workload;

/// Everything that one benchmark has measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The figures that have targets.
    #[serde(skip_deserializing)]
    pub summary: Summary,
    /// The machine and the servers.
    pub machine: Machine,
    /// A row for each contender and workload.
    #[serde(skip_deserializing)]
    pub table: Vec<Row>,
    /// Every run.
    pub runs: Vec<Run>,
    /// How the baselines' concurrency, or batch, was chosen.
    pub trials: Vec<Trial>,
    /// Every latency.
    pub latencies: Vec<Latency>,
    /// Every backlog.
    pub backlogs: Vec<Backlog>,
    /// Every step of growth.
    pub steps: Vec<Step>,
    /// Every number of workers.
    pub replicas: Vec<Replicas>,
    /// Every number of workers that may use little of a core.
    #[serde(default)]
    pub limited: Vec<Limited>,
    /// What comes of standing by.
    #[serde(default)]
    pub standby: Vec<Standby>,
    /// What others inserted without a date.
    #[serde(default)]
    pub undated: Vec<Undated>,
    /// What a program only inserts.
    pub inserted: Vec<Inserted>,
    /// The list of what ended.
    #[serde(default)]
    pub ended: Vec<Ended>,
    /// Every filled ledger of which reads were measured.
    #[serde(default)]
    pub reads: Vec<Reads>,
    /// Every long run.
    pub sustained: Vec<Sustained>,
    /// Failures: runs without figures, and why.
    pub failures: Vec<String>,
    /// How long each part took.
    pub seconds: Vec<(String, f64)>,
}

/// A short measurement of a baseline's rate with this concurrency or batch size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// The workload.
    pub workload: Workload,
    /// The contender.
    pub contender: Contender,
    /// Transfers at once, or in a batch.
    pub size: usize,
    /// Transfers a second.
    pub per_s: f64,
}

/// The machine and the servers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, as the kernel gives it.
    pub processor: String,
    /// How many cores programs may use.
    pub cores: usize,
    /// The database's version.
    pub mongodb: String,
    /// The arguments of this run.
    pub arguments: Vec<String>,
}

/// Reads what was measured earlier, in the order of the files.
///
/// # Errors
/// When a file can't be read or is of no benchmark.
pub fn read_all(paths: &[impl AsRef<Path>]) -> Result<Vec<Report>, String> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| format!("is no file of --json: {error}"))
    };
    let named =
        |path: &Path| read(path).map_err(|error| format!("--with {}: {error}", path.display()));
    paths.iter().map(|path| named(path.as_ref())).collect()
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here(mongodb: &str) -> Machine {
        let model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        Machine {
            processor: model.unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            mongodb: mongodb.to_owned(),
            arguments: std::env::args().skip(1).collect(),
        }
    }
}

impl Report {
    /// Writes the JSON file.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Adds what was measured earlier. Rates of throughput are medians of all; of everything else,
    /// what was measured again counts as it was measured last.
    ///
    /// # Errors
    /// When that was another machine or server: nothing of it can be compared.
    pub fn add(&mut self, mut earlier: Report) -> Result<(), String> {
        let of =
            |machine: &Machine| (machine.processor.clone(), machine.cores, machine.mongodb.clone());
        if of(&self.machine) != of(&earlier.machine) {
            let (one, other) = (of(&earlier.machine), of(&self.machine));
            return Err(format!("was measured on another machine: {one:?}, this one is {other:?}"));
        }
        earlier.runs.append(&mut self.runs);
        earlier.trials.append(&mut self.trials);
        earlier.failures.append(&mut self.failures);
        earlier.seconds.append(&mut self.seconds);
        replace(&mut earlier.latencies, &mut self.latencies, Latency::is_again);
        replace(&mut earlier.replicas, &mut self.replicas, Replicas::is_again);
        replace(&mut earlier.limited, &mut self.limited, Limited::is_again);
        replace(&mut earlier.standby, &mut self.standby, |one, other| {
            one.contender == other.contender
        });
        replace(&mut earlier.undated, &mut self.undated, |one, other| {
            one.contender == other.contender
        });
        replace(&mut earlier.inserted, &mut self.inserted, |one, other| {
            one.contender == other.contender
        });
        replace(&mut earlier.ended, &mut self.ended, |one, other| one.contender == other.contender);
        replace(&mut earlier.reads, &mut self.reads, |one, other| {
            one.transactions == other.transactions
        });
        replace(&mut earlier.sustained, &mut self.sustained, |one, other| {
            one.contender == other.contender
        });
        replace(&mut earlier.steps, &mut self.steps, |_, _| true);
        replace(&mut earlier.backlogs, &mut self.backlogs, |_, _| true);
        earlier.machine = std::mem::take(&mut self.machine);
        *self = earlier;
        Ok(())
    }

    /// Computes table and summary from the measurements.
    pub fn reckon(&mut self) {
        self.table = table::rows(&self.runs);
        self.summary = Summary::of(self);
    }

    /// Whether every run has its figures.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let problems = self.latencies.iter().map(|latency| &latency.problems);
        let problems = problems.chain(self.backlogs.iter().map(|backlog| &backlog.problems));
        let problems = problems.chain(self.steps.iter().map(|step| &step.run.problems));
        let problems = problems.chain(self.replicas.iter().map(|replicas| &replicas.problems));
        let problems = problems.chain(self.limited.iter().map(|limited| &limited.problems));
        let problems = problems.chain(self.standby.iter().map(|standby| &standby.problems));
        let problems = problems.chain(self.undated.iter().map(|run| &run.problems));
        let problems = problems.chain(self.inserted.iter().map(|run| &run.problems));
        let problems = problems.chain(self.ended.iter().map(|run| &run.problems));
        let problems = problems.chain(self.reads.iter().map(|run| &run.problems));
        let problems = problems.chain(self.sustained.iter().map(|run| &run.problems));
        let mut problems = problems.chain(self.runs.iter().map(|run| &run.problems));
        self.failures.is_empty() && problems.all(Vec::is_empty)
    }
}

fn replace<T>(earlier: &mut Vec<T>, later: &mut Vec<T>, is_again: impl Fn(&T, &T) -> bool) {
    earlier.retain(|one| !later.iter().any(|other| is_again(other, one)));
    earlier.append(later);
}

#[cfg(test)]
mod tests {
    use super::super::latency::tests::at_rate;
    use super::super::table::tests::run;
    use super::*;

    fn report(per_s: f64, p50_ms: f64) -> Report {
        let (workload, contender) = (Workload::Uniform, Contender::Auto);
        let mut report = Report {
            runs: vec![run(workload, contender, per_s)],
            latencies: vec![at_rate(contender, workload, (1_500.0, 1), p50_ms)],
            ..Report::default()
        };
        report.reckon();
        report
    }

    #[test]
    fn what_was_measured_in_another_hour_is_read_and_added() {
        let path = std::env::temp_dir().join(format!("bench-{}.json", uuid::Uuid::new_v4()));
        let mut earlier = report(9_000.0, 20.0);
        earlier.latencies.push(at_rate(Contender::Auto, Workload::Uniform, (750.0, 1), 5.0));
        earlier.write(&path).expect("a file");
        let mut both = report(11_000.0, 8.0);
        let earlier = read_all(&[&path]).expect("it is one of ours");
        std::fs::remove_file(&path).expect("it is there");
        for earlier in earlier {
            both.add(earlier).expect("the same machine");
        }
        both.reckon();
        assert_eq!((both.table[0].runs, both.table[0].per_s), (2, 10_000.0));
        assert_eq!(both.summary.latency_1500_p50_ms, Some(8.0), "as it was measured last");
        assert_eq!(both.latencies.len(), 2);
    }

    #[test]
    fn what_was_measured_elsewhere_is_refused_and_a_wrong_file_is_named() {
        let machine = Machine { cores: 64, ..Machine::default() };
        let elsewhere = Report { machine, ..report(9_000.0, 20.0) };
        let error = report(9_000.0, 20.0).add(elsewhere).expect_err("it has more cores");
        assert!(error.contains("another machine"), "{error}");
        let error = read_all(&["/nowhere/bench.json"]).expect_err("it is not there");
        assert!(error.contains("/nowhere/bench.json"), "{error}");
    }
}
