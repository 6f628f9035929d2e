//! One run: start, calm, faults, rest, verdict.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::account::{Account, Status};
use common::amount::Amount;
use common::config::AmqpArgs;
use common::queue::Publisher;
use mongodb::bson::DateTime;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::clerk::{Answered, Clerk};
use super::faults::{Happened, Site, now_ms};
use super::judge::{Judged, judge};
use super::links::Link;
use super::load::{CURRENCY, FROZEN, Load, OPENING, accounts};
use super::observe::Observer;
use super::produce::Producer;
use super::programs::Place;
use super::report::Report;
use super::schedule::{PRODUCERS, WORKERS, schedule};
use super::servers::Servers;
use crate::process::program;
use crate::queues::Queues;
use crate::rest;

/// Between two chunks of one producer.
const PACE: Duration = Duration::from_secs(1);
/// From the first submission to the moment when calm is measured.
const WARM_UP: Duration = Duration::from_secs(4);
/// How long everything may take to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(240);
/// How long a worker may take to end when it is told to; its own limit for that is 20 s.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Between two looks at what is unfinished.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two lines of progress.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The description of the servers, see [`Servers::read`].
    pub servers: PathBuf,
    /// How long to submit, calm and faults together.
    pub length: Duration,
    /// What decides everything.
    pub seed: u64,
    /// Rows a second, of all producers together.
    pub rate: u32,
    /// Where logs and files go.
    pub home: PathBuf,
}

/// When the parts of a run began, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// The measured calm.
    pub calm_ms: i64,
    /// The first moment of the faults.
    pub faults_ms: i64,
    /// The end of submitting; what is begun is finished.
    pub rest_ms: i64,
    /// Everything is final, all faults are over.
    pub end_ms: i64,
}

/// How much was unfinished at a moment.
pub type Sample = (i64, usize);

/// How much of a run is calm.
fn calm(length: Duration) -> Duration {
    (length / 10).clamp(Duration::from_secs(15), Duration::from_secs(120))
}

/// Runs it.
///
/// # Errors
/// When the servers can't be used, or did not come back: then nothing can be said of the programs.
pub async fn run(options: &Options) -> Result<Report, String> {
    let site = Arc::new(Site::new(options).await?);
    let progress = Arc::new(Progress::default());
    let watching = tokio::spawn(look(site.clone(), progress.clone(), options.length));
    let (stop, stopped) = watch::channel(false);
    let (asks, asked) = mpsc::channel(16);
    let clerk_link = Link::start(&site.servers, WORKERS + PRODUCERS).await;
    let clerk = tokio::spawn(Clerk::new(&clerk_link.env(&site.name)).await?.run(asked));
    let producing: Vec<JoinHandle<()>> = site
        .producers
        .iter()
        .map(|producer| tokio::spawn(producer.clone().run(PACE, stopped.clone(), asks.clone())))
        .collect();
    drop(asks);
    tokio::time::sleep(WARM_UP).await;
    let calm_ms = now_ms();
    tokio::time::sleep(calm(options.length)).await;
    let faults_ms = now_ms();
    let length = options.length.saturating_sub(calm(options.length));
    let (happened, skipped) = afflict(&site, &progress, options.seed, length).await?;
    stop.send_replace(true);
    let rest_ms = now_ms();
    progress.say(format!("{} faults; coming to rest", happened.len()));
    for producer in producing {
        producer.await.map_err(|panic| panic.to_string())?;
    }
    let answers = clerk.await.map_err(|panic| panic.to_string())?;
    let mut violations = come_to_rest(&site).await;
    let phases = Phases { calm_ms, faults_ms, rest_ms, end_ms: now_ms() };
    // From here on the workers may end.
    watching.abort();
    violations.extend(progress.violations.lock().await.drain(..));
    violations.extend(drain(&site).await);
    let mut judged = judged(&site, &answers, &happened).await?;
    judged.violations.append(&mut violations);
    let samples = std::mem::take(&mut *progress.samples.lock().await);
    let dead_letters = Queues::new(&site.servers.brokers[0].url, &site.name).depth("dead").await;
    Ok(Report::new(options, phases, &happened, skipped, judged, samples, dead_letters))
}

impl Site {
    async fn new(options: &Options) -> Result<Site, String> {
        let servers = Servers::read(&options.servers).await?;
        let name = format!("chaos_{}", now_ms());
        let observer = Observer::new(&servers.database.uri, &name).await?;
        open(&observer).await?;
        let amqp =
            AmqpArgs { amqp_url: servers.brokers[0].url.clone(), queue_prefix: name.clone() };
        let publisher = Publisher::new(&amqp, "chaos");
        publisher.ensure().await.map_err(|error| error.to_string())?;
        publisher.close().await;
        let (logs, files) = (options.home.join("logs"), options.home.join("files"));
        std::fs::create_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
        let mut links = Vec::new();
        for process in 0..WORKERS + PRODUCERS {
            links.push(Link::start(&servers, process).await);
        }
        let worker = |number: usize| format!("chaos-worker-{}", number + 1);
        let workers = (0..WORKERS)
            .map(|number| Place::new(&worker(number), "worker", links[number].env(&name), &logs));
        let arguments = (0..WORKERS).map(|number| {
            let fixed = ["--http", "off", "--log-format", "json", "--name"];
            fixed.map(str::to_owned).into_iter().chain([worker(number)]).collect()
        });
        let chunk_rows = (options.rate / PRODUCERS as u32).max(100);
        let producers = (0..PRODUCERS).map(|number| {
            let of = format!("chaos-producer-{}", number + 1);
            Arc::new(Producer {
                place: Place::new(&of, "producer", links[WORKERS + number].env(&name), &logs),
                number,
                load: Load { seed: options.seed, chunk_rows },
                // One hears how each of its transactions ends, the other goes on at once.
                waits: number == 0,
                files: files.clone(),
                told: Mutex::default(),
                problems: Mutex::default(),
            })
        });
        let (workers, producers) = (workers.collect(), producers.collect());
        let worker_arguments = arguments.collect();
        let site = Site { servers, workers, worker_arguments, producers, links, name, observer };
        for number in 0..WORKERS {
            site.start_worker(number).await;
        }
        site.wait_for_workers().await?;
        Ok(site)
    }

    async fn wait_for_workers(&self) -> Result<(), String> {
        let queues = Queues::new(&self.servers.brokers[0].url, &self.name);
        let begun = Instant::now();
        while queues.consumers().await.is_none_or(|consumers| (consumers as usize) < WORKERS) {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("the workers do not consume".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

async fn open(observer: &Observer) -> Result<(), String> {
    observer.store.ensure_schema().await.map_err(|error| error.to_string())?;
    let documents = accounts().into_iter().map(|id| {
        let account = Account::new(&id, Amount::Int(OPENING));
        let status = if id == FROZEN { Status::Frozen } else { Status::Open };
        let currency = Some(CURRENCY.to_owned());
        Account { status, currency, ..account }.to_document(DateTime::now())
    });
    let inserted = observer.store.accounts().insert_many(documents).await;
    inserted.map(|_| ()).map_err(|error| error.to_string())
}

/// Lets every planned fault happen, and waits until all of them are over.
async fn afflict(
    site: &Arc<Site>,
    progress: &Arc<Progress>,
    seed: u64,
    length: Duration,
) -> Result<(Vec<Happened>, usize), String> {
    let planned = schedule(seed, length, site.servers.brokers.len());
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    let mut ended = Vec::new();
    for fault in planned {
        tokio::time::sleep(fault.at.saturating_sub(begun.elapsed())).await;
        let (site, progress) = (site.clone(), progress.clone());
        under_way.spawn(async move {
            progress.in_effect.fetch_add(1, Ordering::Relaxed);
            let happened = site.inflict(fault).await;
            progress.in_effect.fetch_sub(1, Ordering::Relaxed);
            progress.faults.fetch_add(1, Ordering::Relaxed);
            happened
        });
        while let Some(one) = under_way.try_join_next() {
            ended.push(one.map_err(|panic| panic.to_string())??);
        }
    }
    tokio::time::sleep(length.saturating_sub(begun.elapsed())).await;
    while let Some(one) = under_way.join_next().await {
        ended.push(one.map_err(|panic| panic.to_string())??);
    }
    let planned = ended.len();
    let mut happened: Vec<Happened> = ended.into_iter().flatten().collect();
    happened.sort_by_key(|one| one.began_ms);
    let skipped = planned - happened.len();
    Ok((happened, skipped))
}

/// Waits until nothing is unfinished.
async fn come_to_rest(site: &Site) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let unfinished = site.observer.unfinished().await;
        if unfinished.as_ref().is_some_and(Vec::is_empty) {
            return Vec::new();
        }
        if begun.elapsed() > REST_LIMIT {
            let left = unfinished.unwrap_or_default();
            let some: Vec<_> = left.iter().take(5).collect();
            return vec![format!(
                "{} are not final {REST_LIMIT:?} after the last fault, like {some:?}",
                left.len()
            )];
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Lets the workers end as they are told to.
async fn drain(site: &Site) -> Vec<String> {
    let mut violations = Vec::new();
    for worker in &site.workers {
        violations.extend(worker.ended_unasked().await);
        worker.signal("TERM", None).await;
    }
    let begun = Instant::now();
    for worker in &site.workers {
        let ended = loop {
            match worker.ended().await {
                Some(ended) => break Some(ended),
                None if begun.elapsed() > DRAIN_LIMIT => break None,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let well = ended.as_ref().is_some_and(|e| e.status.is_none_or(|status| status.success()));
        if !well {
            violations.push(format!("{} did not end as told: {ended:?}", worker.name));
        }
    }
    violations
}

/// Judges by three judges: the words of the producers, the harness's rules of rest, and the audit.
async fn judged(
    site: &Site,
    answers: &[Answered],
    happened: &[Happened],
) -> Result<Judged, String> {
    let store = &site.observer.store;
    let asked: HashSet<&str> =
        happened.iter().flat_map(|one| one.met.iter().flatten()).map(String::as_str).collect();
    let judged = judge(store, &site.producers, answers, &asked).await;
    let mut judged = judged.map_err(|error| error.to_string())?;
    judged.violations.extend(rest::problems(&store.accounts(), &store.transactions()).await);
    let mut audit = Command::new(program("producer"));
    audit.args(["audit", "--at-rest"]);
    audit.env("TANDEM_MONGODB_URI", &site.servers.database.uri).env("TANDEM_DATABASE", &site.name);
    let output = audit.output().map_err(|error| format!("the audit: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    eprintln!("chaos: audit: {said}");
    if !output.status.success() {
        judged.violations.push(format!("the audit found:\n{said}"));
    }
    Ok(judged)
}

/// What is known while it runs.
#[derive(Default)]
struct Progress {
    faults: AtomicUsize,
    in_effect: AtomicUsize,
    samples: Mutex<Vec<Sample>>,
    violations: Mutex<Vec<String>>,
}

impl Progress {
    fn say(&self, text: impl std::fmt::Display) {
        eprintln!("chaos: {text}");
    }
}

/// Looks at what is unfinished and whether all workers live, and says how far it is.
async fn look(site: Arc<Site>, progress: Arc<Progress>, length: Duration) {
    let begun = Instant::now();
    let mut said = Instant::now();
    let mut last = 0;
    loop {
        if let Some(unfinished) = site.observer.unfinished().await {
            last = unfinished.len();
            progress.samples.lock().await.push((now_ms(), last));
        }
        for worker in &site.workers {
            progress.violations.lock().await.extend(worker.ended_unasked().await);
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let submitted = site.observer.store.transactions().estimated_document_count().await;
            progress.say(format!(
                "{} s of {} s and rest: {} faults, {} in effect, about {} transactions, {last} \
                 unfinished",
                begun.elapsed().as_secs(),
                (length + WARM_UP).as_secs(),
                progress.faults.load(Ordering::Relaxed),
                progress.in_effect.load(Ordering::Relaxed),
                submitted.unwrap_or_default(),
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The path of a picture without its ending, in `home` unless one is chosen.
#[must_use]
pub fn figure_path(home: &Path, chosen: Option<PathBuf>) -> PathBuf {
    chosen.unwrap_or_else(|| home.join("chaos"))
}
