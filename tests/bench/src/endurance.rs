//! Keeps a contender at work for as long as it takes, and takes a sample of it each second.
//!
//! Promises that work never ends before the time is over: a baseline is given one part of the load
//! after the other, and of Tandem's transfers three parts always wait in the queue. What was
//! settled is in the books. Fails when a worker, the producer or the database does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::baseline::{self, Baseline};
use super::feed::{Feed, Pace};
use super::field::Field;
use super::source::Source;
use super::tandem::{self, Crew, Workers};
use super::workload::{Books, Workload};

/// So many parts of the load always wait.
const PARTS_WAITING: u64 = 3;
/// The workers have started when they have settled a tenth of a part.
const STARTED_ONE_IN: u64 = 10;
/// If fewer than a quarter of a part wait, the workers may have nothing to do.
const EMPTY_ONE_IN: u64 = 4;
/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How often whoever submits looks whether enough is waiting.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A moment of a run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Seconds since the start.
    pub at: f64,
    /// Transfers settled by then.
    pub settled: u64,
    /// CPU seconds of the database by then.
    pub mongod: f64,
}

/// What was seen of a run.
pub struct Watched {
    /// In order, the first one at the start.
    pub samples: Vec<Sample>,
    /// Whether the queue was ever close to empty.
    pub ran_empty: bool,
    /// The highest memory of a worker.
    pub worker_peak_mib: Option<f64>,
    /// What the books must say.
    pub books: Books,
}

/// What those who work and those who watch know of one another.
#[derive(Default)]
struct Progress {
    submitted: AtomicU64,
    settled: Arc<AtomicU64>,
    is_over: AtomicBool,
}

impl Progress {
    fn waiting(&self) -> u64 {
        let settled = self.settled.load(Ordering::Relaxed);
        self.submitted.load(Ordering::Relaxed).saturating_sub(settled)
    }
}

/// A baseline, for so long.
///
/// # Errors
/// What the driver says.
pub async fn drive(
    field: &Field,
    baseline: Baseline,
    size: usize,
    mut source: Source,
    limit: Duration,
) -> Result<Watched, String> {
    let driver = |error: mongodb::error::Error| error.to_string();
    baseline::prepare(field, baseline, source.books.balances.len()).await.map_err(driver)?;
    field.settle_down().await;
    let progress = Progress::default();
    let begun = Instant::now();
    let driving = async {
        while begun.elapsed() < limit {
            let part = source.next().await;
            let pace = Pace::Flood(limit.saturating_sub(begun.elapsed()));
            let start = |total| Feed::counting(total, pace, progress.settled.clone());
            let driven = baseline::drive_feed(field, baseline, size, &part, start).await;
            source.books.add(&part.transfers[..driven.map_err(driver)?.executed]);
        }
        Ok::<(), String>(())
    };
    let watching = watch(field, limit, async || Ok(progress.settled.load(Ordering::Relaxed)));
    let (driven, samples) = tokio::join!(driving, watching);
    driven?;
    let books = source.books;
    Ok(Watched { samples: samples?, ran_empty: false, worker_peak_mib: None, books })
}

/// Workers, for so long, while transfers are submitted; then until all of these are settled.
///
/// # Errors
/// When a worker or the producer fails.
pub async fn work(
    field: &Field,
    crew: &Crew,
    mut source: Source,
    limit: Duration,
) -> Result<Watched, String> {
    tandem::prepare(field, source.books.balances.len()).await;
    let progress = Progress::default();
    for _ in 0..PARTS_WAITING {
        submit_part(field, &mut source, &progress).await?;
    }
    field.settle_down().await;
    let mut workers = crew.start(field).await;
    let part = source.size() as u64;
    // The clock starts when they are in swing.
    workers.wait_settled(part / STARTED_ONE_IN).await?;
    let watching = watch_workers(field, &mut workers, limit, part, &progress);
    let submitting = submit_until_over(field, &mut source, &progress);
    let (watched, submitted) = tokio::join!(watching, submitting);
    let (samples, ran_empty) = watched?;
    submitted?;
    workers.wait_settled(source.books.total() as u64).await?;
    let worker_peak_mib = Some(workers.peak_mib());
    workers.stop().await;
    Ok(Watched { samples, ran_empty, worker_peak_mib, books: source.books })
}

/// Also says whether the queue was ever close to empty. At the end of this the time is over,
/// whatever happened.
async fn watch_workers(
    field: &Field,
    workers: &mut Workers,
    limit: Duration,
    part: u64,
    progress: &Progress,
) -> Result<(Vec<Sample>, bool), String> {
    let mut ran_empty = false;
    let samples = watch(field, limit, async || {
        workers.check()?;
        let settled = workers.settled().await;
        progress.settled.store(settled, Ordering::Relaxed);
        ran_empty |= progress.waiting() < part / EMPTY_ONE_IN;
        Ok(settled)
    })
    .await;
    progress.is_over.store(true, Ordering::Relaxed);
    Ok((samples?, ran_empty))
}

/// A sample now and after each second, until the time is over.
async fn watch(
    field: &Field,
    limit: Duration,
    mut settled: impl AsyncFnMut() -> Result<u64, String>,
) -> Result<Vec<Sample>, String> {
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    let mut samples = Vec::new();
    while begun.elapsed() <= limit {
        ticks.tick().await;
        let (at, settled) = (begun.elapsed().as_secs_f64(), settled().await?);
        samples.push(Sample { at, settled, mongod: field.pids.cpu(&[]).mongod });
    }
    Ok(samples)
}

async fn submit_until_over(
    field: &Field,
    source: &mut Source,
    progress: &Progress,
) -> Result<(), String> {
    let enough = PARTS_WAITING * source.size() as u64;
    while !progress.is_over.load(Ordering::Relaxed) {
        if progress.waiting() < enough {
            submit_part(field, source, progress).await?;
        } else {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

async fn submit_part(
    field: &Field,
    source: &mut Source,
    progress: &Progress,
) -> Result<(), String> {
    let part = source.next().await;
    let file = field.write(&part)?;
    tandem::submit(field, Workload::Uniform, &file).await?;
    source.books.add(&part.transfers);
    progress.submitted.fetch_add(part.transfers.len() as u64, Ordering::Relaxed);
    Ok(())
}
