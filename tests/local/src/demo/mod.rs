//! `demo`: settles transfers, kills a worker in the middle, audits the result.
//!
//! Exit code 0 means: every transfer came to the end that its input calls for, and the audit found
//! nothing. Whatever the outcome, also when interrupted, no process is left (but see `--keep`).
//!
//! - [`args`]: the flags, and which of them make sense together.
//! - [`data`]: accounts and transfers, and what must become of them.
//! - [`programs`], [`producer`], [`workers`]: the project's programs as a user has them.
//! - [`kill`]: kills a worker in the middle, tells the recovery.
//! - [`verdict`]: compares, and makes the table.

pub mod args;
pub mod data;
pub mod kill;
mod leftovers;
pub mod producer;
pub mod programs;
pub mod verdict;
pub mod workers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use harness::console::{Failure, Timings, say};
use harness::deployment::directory::Lock;
use harness::deployment::{Addresses, Deployment};
use harness::figures::thousands;
use mongodb::Database;
use rand::SeedableRng;
use rand::rngs::StdRng;

pub use args::Args;

use data::Input;
use kill::Kill;
use leftovers::Leftovers;
use producer::Producer;
use programs::Programs;
use verdict::{Pace, problems, table};
use workers::Workers;

/// The exit code after bad usage.
const EXIT_USAGE: i32 = 2;
const SEED: u64 = 1;
const SUBMIT_LIMIT_MIN: Duration = Duration::from_secs(600);
const TRANSFERS_PER_S_MIN: u64 = 100;

/// Runs the demo; its exit code.
///
/// # Errors
/// When it can't be carried out to its verdict.
pub async fn demo(args: &Args) -> Result<i32, Failure> {
    if let Err(problem) = args.validate() {
        eprintln!("deploy/demo: {problem}");
        return Ok(EXIT_USAGE);
    }
    let home = args.home();
    let _lock = Lock::take(&home.join("demo.lock"))?;
    let found = {
        let mut leftovers = Leftovers::of_earlier_runs(&home)?;
        let mut timings = Timings::default();
        let found = run(args, &home, &mut timings).await?;
        leftovers.keep_servers = args.keep;
        found
    };
    for problem in &found {
        say(format!("FAILED: {problem}"));
    }
    if found.is_empty() {
        println!("demo: every transfer came to its end, the books balance");
        Ok(0)
    } else {
        println!("demo: FAILED");
        Ok(1)
    }
}

/// The demo from the servers to the audit; what is wrong with the result.
async fn run(args: &Args, home: &Path, timings: &mut Timings) -> Result<Vec<String>, Failure> {
    let transfers = args.transfers;
    let mut deployment = Deployment::new(home);
    let servers = timings.part("servers", deployment.up()).await?;
    let database = database(&servers.mongodb_uri).await?;
    let programs = Programs::new(leftovers::mark(home), environment(servers, SystemTime::now()))?;
    let producer = Producer::new(&programs);

    let generate = async {
        let input = Input::generate(&mut StdRng::seed_from_u64(SEED), transfers, args.accounts);
        input.write(home).map(|()| input.expected)
    };
    let expected = timings.part("generate", generate).await?;
    let import = async {
        producer.run(&["init"]).await?;
        producer.run(&["accounts", "import", &text(&home.join("accounts.csv"))]).await
    };
    timings.part("import accounts", import).await?;
    let logs = home.join("logs");
    let start = Workers::start(&programs, args.workers, &logs);
    let mut workers = timings.part("start workers", start).await?;

    say(format!("submitting {} transfers", thousands(transfers as f64)));
    let file = home.join("transfers.csv");
    let submit = submit_and_kill(&producer, &mut workers, &database, &file, transfers);
    let (submit_code, took, kill) = timings.part("submit and settle", submit).await?;
    let audit = async {
        let stats = producer.stats().await?;
        let recovery = kill.recovery(&producer.status(&kill.held).await?)?;
        println!("{}", table(&expected, &stats, &kill, &Pace { transfers, took, recovery }));
        Ok((stats, producer.audit().await?))
    };
    let (stats, audit_code) = timings.part("audit", audit).await?;
    let stop = async {
        workers.require_all()?;
        workers.stop().await
    };
    timings.part("stop workers", stop).await?;
    Ok(problems(&expected, &stats, submit_code, audit_code))
}

/// Submits and waits for the last transfer, while a worker is killed beside it. The exit code of
/// the submission, how long it took, and what was killed.
async fn submit_and_kill(
    producer: &Producer<'_>,
    workers: &mut Workers,
    database: &Database,
    file: &Path,
    transfers: usize,
) -> Result<(i32, Duration, Kill), Failure> {
    let limit = SUBMIT_LIMIT_MIN.max(Duration::from_secs(transfers as u64 / TRANSFERS_PER_S_MIN));
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let submit = async {
        let code = producer.show(&["submit", &text(file), "--wait"], limit).await?;
        over.store(true, Ordering::Relaxed);
        Ok((code, begun.elapsed()))
    };
    let kill = Kill::beside(&over, producer, workers, database, transfers);
    let ((code, took), kill) = tokio::try_join!(submit, kill)?;
    Ok((code, took, kill))
}

/// The database, to ask it for its time.
async fn database(uri: &str) -> Result<Database, Failure> {
    let client = mongodb::Client::with_uri_str(uri).await;
    let client = client.map_err(|error| Failure(format!("MongoDB: {error}")))?;
    Ok(client.database("admin"))
}

/// What tells the programs where the servers are, with a database and queues of the demo's own.
fn environment(servers: Addresses, now: SystemTime) -> BTreeMap<&'static str, String> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("demo_{}", since.as_millis());
    say(format!("database and queue prefix: {name}"));
    BTreeMap::from([
        ("TANDEM_MONGODB_URI", servers.mongodb_uri),
        ("TANDEM_AMQP_URL", servers.amqp_url),
        ("TANDEM_DATABASE", name.clone()),
        ("TANDEM_QUEUE_PREFIX", name),
    ])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
