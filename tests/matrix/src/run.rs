//! A whole run: records every row, chooses cells, runs them side by side, and audits the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use engine::EngineKind;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use harness::console::say;
use harness::failing::FailingMongo;
use tokio::sync::Mutex;

use crate::cell::{Cell, Outcome, Position, cells};
use crate::class::Class;
use crate::clients::{self, Ran};
use crate::cover::{Extent, choose};
use crate::ground::{Ground, stop};
use crate::operation::Operation;
use crate::told::Reading;
use crate::workers;

/// As many as there are engines, so that each is recorded in a lane of its own.
const LANES_MIN: usize = 2;

/// How often progress is told.
const SAY_EVERY: usize = 50;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// An operation of the client.
    Client(Operation),
    /// A worker with an engine.
    Worker(EngineKind),
}

impl Row {
    /// All rows.
    #[must_use]
    pub fn all() -> Vec<Row> {
        let engines = [EngineKind::TwoPhase, EngineKind::Transaction].map(Row::Worker);
        Operation::ALL.map(Row::Client).into_iter().chain(engines).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Row::Client(operation) => operation.name().to_owned(),
            Row::Worker(engine) => format!("worker {}", engine.as_str()),
        }
    }
}

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of it runs.
    pub extent: Extent,
    /// The rows.
    pub rows: Vec<Row>,
    /// How many calls of clients run at the same time.
    pub calls: usize,
    /// How many workers do, each with a database of its own.
    pub lanes: usize,
    /// In which ways commands fail.
    pub classes: Vec<Class>,
    /// Which cells may be chosen.
    pub wanted: fn(&Cell) -> bool,
    /// How callers understand errors.
    pub reading: Reading,
}

/// What a run has found.
pub struct Report {
    /// The rows, with what each sends.
    pub rows: Vec<(Row, Vec<Position>)>,
    /// The ways to fail.
    pub classes: Vec<Class>,
    /// Every cell that was run.
    pub outcomes: Vec<Outcome>,
    /// What is wrong with the books.
    pub books: Vec<String>,
}

impl Report {
    /// The cells in which somebody was told what is not so, or something did not come to its end.
    pub fn red(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.problems.is_empty())
    }

    /// Whether all is well. A run in which more than one cell in ten has never met its command says
    /// too little.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let met = self.outcomes.iter().filter(|outcome| outcome.was_met).count();
        let says_enough = met > 0 && met * 10 >= self.outcomes.len() * 9;
        says_enough && self.books.is_empty() && self.red().next().is_none()
    }
}

/// Runs the matrix on these servers.
///
/// # Panics
/// When a server is away, or something fails that no cell has spoiled.
pub async fn run(mongo: Arc<FailingMongo>, amqp_url: &str, options: &Options) -> Report {
    let begun = Instant::now();
    let has_workers = options.rows.iter().any(|row| matches!(row, Row::Worker(_)));
    let lanes = if has_workers { options.lanes.max(LANES_MIN) } else { 0 };
    let grounds = (0..=lanes).map(|_| Ground::new(mongo.clone(), amqp_url));
    let mut lanes = join_all(grounds).await;
    let ground = lanes.pop().expect("there is one more than lanes");
    say(format!("databases and queues after {:.1} s", begun.elapsed().as_secs_f64()));
    let healthy = ground.healthy_worker();
    let rows = record(&ground, &lanes, &options.rows).await;
    let all: Vec<Cell> = rows
        .iter()
        .enumerate()
        .flat_map(|(at, (_, positions))| cells(at, positions, &options.classes))
        .collect();
    let all: Vec<Cell> = all.into_iter().filter(|cell| (options.wanted)(cell)).collect();
    let chosen = choose(&all, options.extent);
    let (recorded, all, in_rows) = (begun.elapsed().as_secs_f64(), all.len(), rows.len());
    say(format!(
        "recorded after {recorded:.1} s: {} of {all} cells in {in_rows} rows",
        chosen.len()
    ));
    let progress = Progress::of(chosen.len());
    let (mut outcomes, worked) = futures_util::join!(
        calls(&ground, &options.rows, &chosen, options, &progress),
        works(&lanes, &options.rows, &chosen, &progress)
    );
    outcomes.extend(worked);
    say(format!("all cells ran after {:.1} s", begun.elapsed().as_secs_f64()));
    stop(healthy).await;
    let audited = std::iter::once(ground).chain(lanes).map(async |ground| {
        let problems = ground.problems().await;
        ground.finish().await;
        problems
    });
    let classes = options.classes.clone();
    Report { rows, classes, outcomes, books: join_all(audited).await.concat() }
}

/// Runs every row once without fault; what each has sent.
async fn record(ground: &Ground, lanes: &[Ground], rows: &[Row]) -> Vec<(Row, Vec<Position>)> {
    let recording = rows.iter().enumerate().map(async |(at, row)| {
        let positions = match *row {
            Row::Client(operation) => clients::record(ground, operation).await,
            // Two workers in one lane would settle each other's transactions.
            Row::Worker(engine) => workers::record(&lanes[at % lanes.len()], engine).await,
        };
        (*row, positions)
    });
    join_all(recording).await
}

/// Runs the cells of clients.
async fn calls(
    ground: &Ground,
    rows: &[Row],
    chosen: &[Cell],
    options: &Options,
    progress: &Progress,
) -> Vec<Outcome> {
    let mut prepared = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Row::Client(operation) = *row else { continue };
        let cells: Vec<&Cell> = chosen.iter().filter(|cell| cell.row == at).collect();
        let subjects: Vec<String> =
            (0..cells.len()).map(|number| format!("{}-{number}", operation.name())).collect();
        operation.prepare(ground, &subjects).await;
        prepared.extend(cells.into_iter().zip(subjects).map(|(cell, of)| (operation, cell, of)));
    }
    let run = async |(operation, cell, subject): (Operation, &Cell, String)| {
        let ran = clients::run(ground, operation, cell.clone(), subject, options.reading).await;
        progress.ran();
        ran
    };
    let ran: Vec<Ran> = stream::iter(prepared).map(run).buffered(options.calls).collect().await;
    let mut outcomes = Vec::new();
    for ran in ran {
        outcomes.push(ran.close(ground).await);
    }
    ground.come_to_rest().await;
    outcomes
}

/// Runs the cells of workers, in each lane one after the other.
async fn works(
    lanes: &[Ground],
    rows: &[Row],
    chosen: &[Cell],
    progress: &Progress,
) -> Vec<Outcome> {
    let engine = |cell: &Cell| match rows[cell.row] {
        Row::Worker(engine) => Some(engine),
        Row::Client(_) => None,
    };
    let cells = chosen.iter().filter_map(|cell| Some((engine(cell)?, cell)));
    let left = Mutex::new(cells.enumerate());
    let lane = async |ground: &Ground| {
        let mut outcomes = Vec::new();
        loop {
            let next = left.lock().await.next();
            let Some((number, (engine, cell))) = next else { return outcomes };
            let subject = format!("{}-{number}", engine.as_str());
            outcomes.push(workers::run(ground, engine, cell.clone(), subject).await);
            progress.ran();
        }
    };
    join_all(lanes.iter().map(lane)).await.concat()
}

/// How far a run is.
struct Progress {
    all: usize,
    ran: AtomicUsize,
}

impl Progress {
    fn of(all: usize) -> Progress {
        Progress { all, ran: AtomicUsize::new(0) }
    }

    fn ran(&self) {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed) + 1;
        if ran.is_multiple_of(SAY_EVERY) || ran == self.all {
            say(format!("{ran} of {} cells", self.all));
        }
    }
}
