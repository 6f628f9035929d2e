//! The contenders, and one run of one of them: prepare, settle, count, audit.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::baseline::{self, Baseline};
use super::counters::Counters;
use super::feed::Pace;
use super::field::Field;
use super::tandem::{self, Crew};
use super::usage::Cpu;
use super::workload::{Load, Workload};

/// A contender.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// The articles' two-phase commit, one operation at a time
    Articles,
    /// One native MongoDB transaction per transfer, as the driver's manual writes it
    Native,
    /// The same, all accounts in one command
    NativeLean,
    /// One native transaction per batch, netted, one writer
    NativeBatch,
    /// Producer and workers through the queue, submission included
    Tandem,
    /// The same, with the queue filled beforehand
    TandemFull,
    /// Producer and workers with `--engine transaction`, submission included
    Transaction,
    /// Producer and workers with `--engine auto`, submission included
    Auto,
    /// The same, with the queue filled beforehand
    AutoFull,
}

/// How a contender is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By this program.
    Baseline(Baseline),
    /// By producer and workers; `filled` says whether the queue is full before the workers start.
    Tandem {
        /// The worker's `--engine`, where it is not the default.
        engine: Option<&'static str>,
        /// Whether everything is submitted before the workers start.
        filled: bool,
    },
}

impl Contender {
    /// How it is run.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Contender::Articles => Kind::Baseline(Baseline::Articles),
            Contender::Native => Kind::Baseline(Baseline::Native),
            Contender::NativeLean => Kind::Baseline(Baseline::NativeLean),
            Contender::NativeBatch => Kind::Baseline(Baseline::NativeBatch),
            Contender::Tandem => Kind::Tandem { engine: None, filled: false },
            Contender::TandemFull => Kind::Tandem { engine: None, filled: true },
            Contender::Transaction => Kind::Tandem { engine: Some("transaction"), filled: false },
            Contender::Auto => Kind::Tandem { engine: Some("auto"), filled: false },
            Contender::AutoFull => Kind::Tandem { engine: Some("auto"), filled: true },
        }
    }

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Contender::Articles => "articles",
            Contender::Native => "native",
            Contender::NativeLean => "native-lean",
            Contender::NativeBatch => "native-batch",
            Contender::Tandem => "tandem",
            Contender::TandemFull => "tandem-full",
            Contender::Transaction => "transaction",
            Contender::Auto => "auto",
            Contender::AutoFull => "auto-full",
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Contender::Articles => "articles' protocol",
            Contender::Native => "native transaction each",
            Contender::NativeLean => "the same, both accounts in one command",
            Contender::NativeBatch => "native, batched by one writer",
            Contender::Tandem => "**Tandem**",
            Contender::TandemFull => "Tandem, queue full",
            Contender::Transaction => "Tandem, `--engine transaction`",
            Contender::Auto => "**Tandem, `--engine auto`**",
            Contender::AutoFull => "Tandem, `--engine auto`, queue full",
        }
    }

    /// Its workers, if it has any.
    #[must_use]
    pub fn crew(self, given: &Crew) -> Crew {
        let mut crew = given.clone();
        if let Kind::Tandem { engine: Some(engine), .. } = self.kind() {
            crew.flags.insert("--engine".to_owned(), engine.to_owned());
        }
        crew
    }
}

/// One run, with everything that was counted in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The workload's name.
    pub workload: Workload,
    /// The contender's.
    pub contender: Contender,
    /// Which repetition it was, from 0.
    pub repeat: usize,
    /// Transfers that came to their end.
    pub transfers: usize,
    /// Transfers at once, or in a batch, of a baseline; workers of Tandem.
    pub size: usize,
    /// How long that took.
    pub seconds: f64,
    /// Transfers by seconds.
    pub per_s: f64,
    /// Documents that the server has updated, per transfer.
    pub documents_per_transfer: f64,
    /// Commands that the server has run, per transfer.
    pub commands_per_transfer: f64,
    /// CPU seconds per 1,000 transfers.
    pub cpu_per_1000: Cpu,
    /// What the server counted.
    pub counters: Counters,
    /// CPU seconds.
    pub cpu: Cpu,
    /// The highest memory of a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_peak_mib: Option<f64>,
    /// The highest memory of the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_peak_mib: Option<f64>,
    /// How long the producer ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_seconds: Option<f64>,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

impl Run {
    /// Whether its figures count.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The measurements before they are divided by the number of transfers.
struct Measured {
    executed: usize,
    elapsed: Duration,
    counters: Counters,
    cpu: Cpu,
    worker_peak_mib: Option<f64>,
    submitted: Option<tandem::Submitted>,
}

/// The task of a run.
pub struct Task<'a> {
    /// The workload.
    pub workload: Workload,
    /// The contender.
    pub contender: Contender,
    /// Which repetition.
    pub repeat: usize,
    /// Transfers at once, or in a batch, of a baseline.
    pub size: usize,
    /// The time limit of a baseline; a longer run would not change its rate.
    pub limit: Duration,
    /// The workers.
    pub crew: &'a Crew,
}

impl Task<'_> {
    /// Runs it on a fresh field, and audits it.
    ///
    /// # Errors
    /// Why there is no figure at all.
    pub async fn run(&self, field: &Field, load: &Arc<Load>) -> Result<Run, String> {
        let mut measured = match self.contender.kind() {
            Kind::Baseline(baseline) => self.baseline(field, baseline, load).await?,
            Kind::Tandem { filled, .. } => self.tandem(field, filled, load).await?,
        };
        let mut problems = field.problems(&load.books(measured.executed)).await;
        if let Kind::Tandem { .. } = self.contender.kind() {
            problems.extend(tandem::audit(field, measured.executed).await.err());
            // This program has only observed.
            measured.cpu.client = 0.0;
        } else {
            measured.cpu.rabbitmq = 0.0;
        }
        problems.truncate(10);
        Ok(self.put_together(&measured, problems))
    }

    async fn baseline(
        &self,
        field: &Field,
        baseline: Baseline,
        load: &Arc<Load>,
    ) -> Result<Measured, String> {
        let driver = |error: mongodb::error::Error| format!("{}: {error}", self.contender.name());
        baseline::prepare(field, baseline, load.accounts).await.map_err(driver)?;
        field.settle_down().await;
        let before = field.read(&[]).await;
        let pace = Pace::Flood(self.limit);
        let driven =
            baseline::drive(field, baseline, self.size, load, pace).await.map_err(driver)?;
        let (counters, cpu) = field.since(&before, &[]).await;
        Ok(Measured {
            executed: driven.executed,
            elapsed: driven.elapsed,
            counters,
            cpu,
            worker_peak_mib: None,
            submitted: None,
        })
    }

    async fn tandem(
        &self,
        field: &Field,
        filled: bool,
        load: &Arc<Load>,
    ) -> Result<Measured, String> {
        tandem::prepare(field, load.accounts).await;
        let file = field.write(load)?;
        let total = load.transfers.len();
        let crew = self.contender.crew(self.crew);
        let (mut workers, submitted, before, begun);
        if filled {
            submitted = tandem::submit(field, self.workload, &file).await?;
            field.settle_down().await;
            before = field.read(&[]).await;
            begun = std::time::Instant::now();
            workers = crew.launch(field);
        } else {
            workers = crew.start(field).await;
            field.settle_down().await;
            before = field.read(&workers.pids()).await;
            begun = std::time::Instant::now();
            submitted = tandem::submit(field, self.workload, &file).await?;
        }
        workers.wait_settled(total as u64).await?;
        let elapsed = begun.elapsed();
        let (counters, cpu) = field.since(&before, &workers.pids()).await;
        let worker_peak_mib = Some(workers.peak_mib());
        workers.stop().await;
        Ok(Measured {
            executed: total,
            elapsed,
            counters,
            cpu,
            worker_peak_mib,
            submitted: Some(submitted),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run are small")]
    fn put_together(&self, measured: &Measured, problems: Vec<String>) -> Run {
        let seconds = measured.elapsed.as_secs_f64();
        let transfers = measured.executed.max(1) as f64;
        let size = match self.contender.kind() {
            Kind::Baseline(_) => self.size,
            Kind::Tandem { .. } => self.crew.workers,
        };
        Run {
            workload: self.workload,
            contender: self.contender,
            repeat: self.repeat,
            transfers: measured.executed,
            size,
            seconds,
            per_s: measured.executed as f64 / seconds,
            documents_per_transfer: measured.counters.updated as f64 / transfers,
            commands_per_transfer: measured.counters.commands_total() as f64 / transfers,
            cpu_per_1000: measured.cpu.times(1_000.0 / transfers),
            counters: measured.counters.clone(),
            cpu: measured.cpu,
            worker_peak_mib: measured.worker_peak_mib,
            producer_peak_mib: measured.submitted.map(|submitted| submitted.peak_mib),
            submit_seconds: measured.submitted.map(|submitted| submitted.elapsed.as_secs_f64()),
            problems,
        }
    }
}
