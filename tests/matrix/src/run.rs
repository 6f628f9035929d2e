//! A whole run: records every row, chooses cells, runs them side by side, and audits the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use harness::console::say;
use harness::failing::FailingMongo;
use tokio::sync::Mutex;
use worker::engine::EngineKind;

use crate::cell::{Cell, Outcome, Position, cells};
use crate::clients::{self, Ran};
use crate::cover::cover;
use crate::ground::{Ground, stop};
use crate::operation::Operation;
use crate::told::Reading;
use crate::workers;

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
    /// Every cell, and not a cover of all pairs.
    pub full: bool,
    /// The rows.
    pub rows: Vec<Row>,
    /// How many calls of clients run at the same time.
    pub calls: usize,
    /// How many workers do, each with a database of its own.
    pub lanes: usize,
    /// How callers understand errors.
    pub reading: Reading,
}

/// What a run has found.
pub struct Report {
    /// The rows, with what each sends.
    pub rows: Vec<(Row, Vec<Position>)>,
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

    /// Whether all is well.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.books.is_empty() && self.red().next().is_none() && !self.outcomes.is_empty()
    }
}

/// Runs the matrix on these servers.
///
/// # Panics
/// When a server is away, or something fails that no cell has spoiled.
pub async fn run(mongo: FailingMongo, amqp_url: &str, options: &Options) -> Report {
    let mongo = Arc::new(mongo);
    let lanes = stream::iter(0..options.lanes.max(1));
    let lane = |_| Ground::new(mongo.clone(), amqp_url);
    let (ground, lanes): (Ground, Vec<Ground>) = futures_util::join!(
        Ground::new(mongo.clone(), amqp_url),
        lanes.then(lane).collect::<Vec<_>>()
    );
    let healthy = ground.healthy_worker();
    let mut rows = Vec::new();
    for row in &options.rows {
        let positions = match *row {
            Row::Client(operation) => clients::record(&ground, operation).await,
            Row::Worker(engine) => workers::record(&lanes[0], engine).await,
        };
        rows.push((*row, positions));
    }
    let all: Vec<Cell> =
        rows.iter().enumerate().flat_map(|(at, (_, positions))| cells(at, positions)).collect();
    let chosen = if options.full { all.clone() } else { cover(&all) };
    say(format!("{} of {} cells in {} rows", chosen.len(), all.len(), rows.len()));
    let progress = Progress::of(chosen.len());
    let (mut called, worked) = futures_util::join!(
        calls(&ground, &options.rows, &chosen, options, &progress),
        works(&lanes, &options.rows, &chosen, &progress)
    );
    called.extend(worked);
    let mut books = Vec::new();
    stop(healthy).await;
    for ground in std::iter::once(ground).chain(lanes) {
        books.extend(ground.problems().await);
        ground.finish().await;
    }
    Report { rows, outcomes: called, books }
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
    ground.come_to_rest().await;
    let mut outcomes = Vec::new();
    for ran in ran {
        outcomes.push(ran.close(ground).await);
    }
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
    futures_util::future::join_all(lanes.iter().map(lane)).await.concat()
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

/// How long the short form may take on a machine that does nothing else.
pub const SHORT_LIMIT: Duration = Duration::from_secs(240);
