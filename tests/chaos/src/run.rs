//! One run: start, calm, faults, rest, verdict.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use layout::Layout;
use mongodb::bson::{Bson, doc};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::books::Books;
use super::clerk::Clerks;
use super::faults::{Happened, now_ms};
use super::judge::{Judged, Said, judge};
use super::keys;
use super::links::Link;
use super::neighbour::Neighbour;
use super::numbers::Numbers;
use super::orders;
use super::outsider::{self, Outsider};
use super::progress::{Progress, look};
use super::recovery::of_fault;
use super::replicas;
use super::report::{Beside, Report};
use super::resting::{come_to_rest, drain};
use super::schedule::{Fault, Kind, PRODUCERS, Target, WORKERS, schedule};
use super::servers::Servers;
use super::site::Site;
use harness::process::program;
use harness::queues::Queues;
use harness::rest;

/// Between two chunks of one producer.
const PACE: Duration = Duration::from_secs(1);
/// From the first submission to the moment when calm is measured.
const WARM_UP: Duration = Duration::from_secs(4);
/// Between two deaths while nothing else fails: more than lease, grace and five seconds.
const DEATH_EVERY: Duration = Duration::from_secs(20);
/// How many of the slowest recoveries are told in detail.
const SLOWEST: usize = 10;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long to submit, calm and faults together.
    pub length: Duration,
    /// What decides everything.
    pub seed: u64,
    /// Rows a second, of all producers together.
    pub rate: u32,
    /// Where logs and files go.
    pub home: PathBuf,
    /// Whether a careless neighbour is at work all the time.
    pub neighbour: bool,
    /// Whether a program of the owner's adds to balances all the time.
    pub outsider: bool,
    /// Whether workers share the work and stand by for one another by turns.
    pub change_replicas: bool,
    /// The engines of the workers, by turns.
    pub engines: Vec<String>,
    /// The layout of the ledger, if it is not Tandem's own.
    pub layout: Option<Layout>,
}

/// When the parts of a run began, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// The measured calm.
    pub calm_ms: i64,
    /// Workers die, and nothing else fails.
    pub deaths_ms: i64,
    /// The first moment of the faults.
    pub faults_ms: i64,
    /// The end of submitting; what is begun is finished.
    pub rest_ms: i64,
    /// Everything is final, all faults are over.
    pub end_ms: i64,
}

/// How much of a run is calm.
fn calm(length: Duration) -> Duration {
    (length / 10).clamp(Duration::from_secs(15), Duration::from_secs(120))
}

/// How many workers die while nothing else fails.
fn deaths(length: Duration) -> usize {
    if length < Duration::from_secs(600) { 1 } else { 2 * WORKERS }
}

/// Runs it.
///
/// # Errors
/// When the servers can't be used, or did not come back: then nothing can be said of the programs.
pub async fn run(options: &Options, servers: Servers) -> Result<Report, String> {
    let site = Arc::new(Site::new(options, servers).await?);
    let progress = Arc::new(Progress::default());
    let watching = tokio::spawn(look(site.clone(), progress.clone(), WARM_UP + options.length));
    let (stop, stopped) = watch::channel(false);
    let (asks, asked) = mpsc::unbounded_channel();
    let logs = options.home.join("logs");
    let books = Books::open(&site.servers.brokers[0].url, &site.name, &logs).await?;
    let numbers = Numbers::follow(&site.env()).await?;
    let clerk_link = Link::start(&site.servers, WORKERS + PRODUCERS).await;
    let clerk_env = clerk_link.env(&site.name);
    let clerks = Arc::new(Clerks::new(&clerk_env).await?);
    let clerks_at_work = tokio::spawn(clerks.clone().run(asked));
    let ordered = tokio::spawn(orders::place(clerk_env.clone(), options.seed, stopped.clone()));
    let keyed = tokio::spawn(keys::submit(clerk_env, options.seed, stopped.clone()));
    // A set, because its tasks end with it: an interrupted run starts no producer any more.
    let mut producing: JoinSet<()> = site
        .producers
        .iter()
        .map(|producer| producer.clone().run(PACE, stopped.clone(), asks.clone()))
        .collect();
    drop(asks);
    let neighbour = neighbour(&site, options).await?;
    let neighbour = neighbour.map(|neighbour| tokio::spawn(neighbour.run(stopped.clone())));
    let outsider = options.outsider.then(|| {
        let outsider = Outsider::new(site.observer.store.clone(), options.seed);
        tokio::spawn(outsider.run(stopped.clone()))
    });
    let replicas = options
        .change_replicas
        .then(|| tokio::spawn(replicas::change(site.observer.store.clone(), stopped)));
    tokio::time::sleep(WARM_UP).await;
    let calm_ms = now_ms();
    tokio::time::sleep(calm(options.length)).await;
    let deaths_ms = now_ms();
    let mut happened = die_alone(&site, &progress, deaths(options.length)).await;
    let faults_ms = now_ms();
    let before = u64::try_from(faults_ms - calm_ms).map_or(Duration::ZERO, Duration::from_millis);
    let length = options.length.saturating_sub(before);
    let (afflicted, skipped) = afflict(&site, &progress, options.seed, length).await?;
    happened.extend(afflicted);
    stop.send_replace(true);
    let rest_ms = now_ms();
    progress.say(format!("{} faults; coming to rest", happened.len()));
    while let Some(producer) = producing.join_next().await {
        producer.map_err(|panic| panic.to_string())?;
    }
    let keyed = keyed.await.map_err(|panic| panic.to_string())??;
    let ordered = ordered.await.map_err(|panic| panic.to_string())??;
    let answers = clerks_at_work.await.map_err(|panic| panic.to_string())?;
    let mut neighbour = match neighbour {
        Some(neighbour) => Some(neighbour.await.map_err(|panic| panic.to_string())?),
        None => None,
    };
    let mut swept = HashSet::new();
    let mut violations = come_to_rest(&site, neighbour.as_mut(), &clerks, &mut swept).await;
    clerks.close().await;
    if !swept.is_empty() {
        progress.say(format!("{} holds still rested and were released", swept.len()));
    }
    if let Some(outsider) = outsider {
        let updates = outsider.await.map_err(|panic| panic.to_string())?;
        progress.say(format!("an old program has added to balances {updates} times"));
    }
    if let Some(replicas) = replicas {
        let changes = replicas.await.map_err(|panic| panic.to_string())?;
        progress.say(format!("workers were told {changes} times to share or to stand by"));
    }
    let store = &site.observer.store;
    let others = outsider::sums(store).await.map_err(|error| error.to_string())?;
    let (events, wrong) = books.close(store, neighbour.is_none(), &others).await?;
    eprintln!("chaos: a subscriber's books are made of {events} events");
    violations.extend(wrong);
    let (ends, wrong) = numbers.close(store, &others).await?;
    eprintln!("chaos: a follower was told of {ends} ends by their numbers");
    violations.extend(wrong);
    let phases = Phases { calm_ms, deaths_ms, faults_ms, rest_ms, end_ms: now_ms() };
    // From here on the workers may end.
    watching.abort();
    violations.extend(progress.violations.lock().await.drain(..));
    violations.extend(drain(&site).await);
    let said = Said {
        producers: &site.producers,
        answers: &answers,
        swept: &swept,
        keyed: &keyed,
        ordered: &ordered,
        neighbour: neighbour.as_ref(),
        others: &others,
    };
    if options.outsider {
        violations.extend(outsider::absorb(&site.env(), &others).err());
    }
    let mut judged = judged(&site, said, &happened).await?;
    judged.violations.append(&mut violations);
    let slowest = slowest(&site, &happened, &judged).await;
    let samples = std::mem::take(&mut *progress.samples.lock().await);
    let dead_letters = Queues::new(&site.servers.brokers[0].url, &site.name).depth("dead").await;
    let beside = Beside { skipped, samples, dead_letters, slowest };
    Ok(Report::new(options, phases, happened, judged, beside))
}

/// The careless neighbour, if there is to be one.
async fn neighbour(site: &Site, options: &Options) -> Result<Option<Neighbour>, String> {
    if !options.neighbour {
        return Ok(None);
    }
    let store = site.observer.store.clone();
    let queues = Queues::new(&site.servers.brokers[0].url, &site.name);
    Neighbour::new(store, queues, site.env(), options.seed).await.map(Some)
}

/// Lets one worker after the other die while nothing else fails.
async fn die_alone(site: &Site, progress: &Progress, deaths: usize) -> Vec<Happened> {
    let mut happened = Vec::new();
    for number in (0..WORKERS).cycle().take(deaths) {
        let begun = Instant::now();
        let (at, lasts) = (Duration::ZERO, Duration::from_secs(1));
        let fault = Fault { at, kind: Kind::WorkerKilled, target: Target::Worker(number), lasts };
        happened.extend(site.kill_holder(fault, number).await);
        progress.faults.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(DEATH_EVERY.saturating_sub(begun.elapsed())).await;
    }
    happened
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

/// Judges by three judges: the words of the producers, the harness's rules of rest, and the audit.
async fn judged(site: &Site, said: Said<'_>, happened: &[Happened]) -> Result<Judged, String> {
    let store = &site.observer.store;
    let asked: HashSet<&str> =
        happened.iter().flat_map(|one| one.met.iter().flatten()).map(String::as_str).collect();
    let judged = judge(store, said, &asked).await;
    let mut judged = judged.map_err(|error| error.to_string())?;
    judged.violations.extend(rest::problems(store).await);
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

/// Those that took longest to recover from, each with the transaction that was final last.
async fn slowest(site: &Site, happened: &[Happened], judged: &Judged) -> Vec<Value> {
    let mut slowest: Vec<(f64, &Happened)> =
        happened.iter().filter_map(|one| Some((of_fault(one, &judged.finals)?, one))).collect();
    slowest.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut told = Vec::new();
    for (seconds, one) in slowest.into_iter().take(SLOWEST) {
        let met = one.met.iter().flatten();
        let Some(id) = met.max_by_key(|id| judged.finals.get(*id)) else { continue };
        let found = site.observer.store.transactions().find_one(doc! { "_id": id }).await;
        let document = found.ok().flatten().map(|document| Bson::from(document).to_string());
        told.push(json!({
            "fault": one.fault.kind.name(),
            "target": format!("{:?}", one.fault.target),
            "began_ms": one.began_ms,
            "over_ms": one.over_ms,
            "met": one.met.as_ref().map(Vec::len),
            "recovery_s": seconds,
            "last": document,
        }));
    }
    told
}
