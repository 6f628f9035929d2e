//! Everything that was measured, in the form of the JSON file.

use procfs::{CpuInfo, Current};
use serde::Serialize;

use super::contender::{Contender, Run};
use super::growth::{Backlog, Step};
use super::latency::Latency;
use super::scale::Replicas;
use super::summary::Summary;
use super::sustained::Sustained;
use super::table::{self, Row};
use super::workload::Workload;

/// Everything that one benchmark has measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The figures that have targets.
    pub summary: Summary,
    /// The machine and the servers.
    pub machine: Machine,
    /// A row for each contender and workload.
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
    /// Every long run.
    pub sustained: Vec<Sustained>,
    /// Failures: runs without figures, and why.
    pub failures: Vec<String>,
    /// How long each part took.
    pub seconds: Vec<(String, f64)>,
}

/// A short measurement of a baseline's rate with this concurrency or batch size.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Default, Serialize)]
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
        let problems = problems.chain(self.sustained.iter().map(|run| &run.problems));
        let mut problems = problems.chain(self.runs.iter().map(|run| &run.problems));
        self.failures.is_empty() && problems.all(Vec::is_empty)
    }
}
