//! How long each read of the API takes where the ledger is long.
//!
//! A ledger is filled with transactions that have ended (`filled`), and what rests, is parked or
//! was done by people is added by the programs (`present`). Then `producer serve` is asked
//! (`asked`), one request after the other, each with a connection of its own, while one worker
//! has nothing to do. Promises that the audit has read every document and found nothing; otherwise
//! there are no figures. That an answer takes longer than it may is a figure, and no failure.

mod asked;
mod filled;
mod present;

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use harness::figures::percentile;
use harness::http;
use mongodb::bson::DateTime;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use self::asked::{Asked, Found, Question, Until};
use self::filled::Shape;
use self::present::{ANSWER_LIMIT, Amounts, get, good};
use super::contender::Contender;
use super::field::Field;
use super::{Bench, say, tandem};

/// What each answer may take at the 99th percentile, in milliseconds.
pub const LIMIT_MS: f64 = 200.0;
/// How many there are if nobody says so.
const TRANSACTIONS: usize = 10_000_000;
const TRANSACTIONS_QUICK: usize = 20_000;
/// So many accounts and transactions a ledger needs in which every question finds something.
const ACCOUNTS_MIN: usize = 100;
const TRANSACTIONS_MIN: usize = 10_000;
/// Requests of each kind, after one that is not counted.
const REQUESTS: usize = 200;
const REQUESTS_QUICK: usize = 10;
/// The status where too many run at once, and how long to wait then.
const TOO_MANY: u16 = 429;
const PAUSE: Duration = Duration::from_millis(20);
/// How long ago the last of them ended: longer than the audit holds to be uncertain.
const ENDED_BEFORE: Duration = Duration::from_secs(120);
/// How long the audit of all documents may take.
const AUDIT_LIMIT: Duration = Duration::from_secs(3_600);

/// How long reads took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reads {
    /// Transactions in the ledger.
    pub transactions: usize,
    /// Accounts.
    pub accounts: usize,
    /// How long filling it took, in seconds.
    pub filled_s: f64,
    /// How long its audit took, in seconds.
    pub audited_s: f64,
    /// Each question.
    pub each: Vec<Read>,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// One question, asked again and again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Read {
    /// The operation's name in the description of the API, or `console`.
    pub operation: String,
    /// What is asked for.
    pub what: String,
    /// How many answers were counted.
    pub requests: usize,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
}

impl Read {
    /// Whether it takes longer than it may.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.p99_ms > LIMIT_MS
    }
}

/// Fills a ledger, and measures.
pub async fn run(bench: &mut Bench) {
    let mut field = bench.field(Contender::Tandem).await;
    field.world.call_limit = AUDIT_LIMIT;
    let ran = measure(bench, &field).await;
    field.finish().await;
    match ran {
        Ok(reads) => bench.report.reads.push(reads),
        Err(problem) => bench.failed(format!("reads: {problem}")),
    }
}

async fn measure(bench: &Bench, field: &Field) -> Result<Reads, String> {
    let shape = shape(bench, field)?;
    let begun = Instant::now();
    filled::fill(field, shape).await?;
    field.settle_down().await;
    let filled_s = begun.elapsed().as_secs_f64();
    say(format!("reads: {} transactions are there after {filled_s:.0} s", shape.transactions));
    let mut workers = bench.crew.start(field).await;
    let api = field.world.api(&[]).await;
    let amounts = amounts(bench.args.quick);
    let more = present::make(field, api.address, &shape, amounts).await?;
    let found = find(api.address, &shape).await?;
    let each = ask_all(api.address, asked::all(shape, &found), bench).await?;
    workers.check()?;
    drop(api);
    workers.stop().await;
    let begun = Instant::now();
    let transactions = shape.transactions + more;
    let audited = tandem::audit_live(field, transactions).await;
    Ok(Reads {
        transactions,
        accounts: shape.accounts,
        filled_s,
        audited_s: begun.elapsed().as_secs_f64(),
        each,
        problems: audited.err().into_iter().collect(),
    })
}

fn shape(bench: &Bench, field: &Field) -> Result<Shape, String> {
    let args = &bench.args;
    let default = if args.quick { TRANSACTIONS_QUICK } else { TRANSACTIONS };
    let (accounts, transactions) = (args.accounts, args.transactions.unwrap_or(default));
    for (flag, number, least) in
        [("--accounts", accounts, ACCOUNTS_MIN), ("--transactions", transactions, TRANSACTIONS_MIN)]
    {
        if number < least {
            return Err(format!("{flag} is {number}; this part needs {least} at least"));
        }
    }
    let end = DateTime::from_system_time(SystemTime::now() - ENDED_BEFORE).timestamp_millis();
    Ok(Shape { accounts, transactions, seed: args.seed, end, names: field.names })
}

fn amounts(quick: bool) -> Amounts {
    match quick {
        true => Amounts { resting: 50, parked: 10, letters: 5, acts: 10 },
        false => Amounts { resting: 1_000, parked: 200, letters: 100, acts: 500 },
    }
}

/// What only the server can name.
async fn find(api: SocketAddr, shape: &Shape) -> Result<Found, String> {
    let text = async |path: &str, pointer: &str| {
        let answer = get(api, path).await?;
        let found =
            answer.json().pointer(pointer).and_then(|value| value.as_str().map(str::to_owned));
        found.ok_or_else(|| format!("GET {path} names no {pointer}: {}", answer.body))
    };
    let hot = format!("/v1/accounts/{}/statement", shape.names.account(0));
    Ok(Found {
        letter: text("/v1/dead-letters", "/items/0/id").await?,
        transactions: text("/v1/transactions", "/next").await?,
        accounts: text("/v1/accounts?limit=50", "/next").await?,
        statement: text(&hot, "/next").await?,
    })
}

async fn ask_all(api: SocketAddr, all: Vec<Asked>, bench: &Bench) -> Result<Vec<Read>, String> {
    let requests = if bench.args.quick { REQUESTS_QUICK } else { REQUESTS };
    let mut random = StdRng::seed_from_u64(bench.args.seed);
    let mut each = Vec::new();
    for asked in all {
        // The first one is not counted.
        answered(api, &asked, &mut random).await?;
        let mut took = Vec::new();
        for _ in 0..requests {
            took.push(answered(api, &asked, &mut random).await?);
        }
        let read = read(&asked, took);
        say(line(&read));
        each.push(read);
    }
    Ok(each)
}

/// How long it took until an answer had come. Streams and exports that were given up count as
/// running for a moment, and no more than a few run at once: what is refused for that is asked
/// again.
async fn answered(api: SocketAddr, asked: &Asked, random: &mut StdRng) -> Result<Duration, String> {
    let begun = Instant::now();
    loop {
        if let Some(took) = ask(api, asked, asked.question(random)).await? {
            return Ok(took);
        }
        if begun.elapsed() > ANSWER_LIMIT {
            let Asked { operation, what, .. } = asked;
            return Err(format!("{operation}, {what}: refused with 429 for {ANSWER_LIMIT:?}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks once; how long it took until the answer had come, or `None` where too many run at once.
async fn ask(
    api: SocketAddr,
    asked: &Asked,
    Question { path, after }: Question,
) -> Result<Option<Duration>, String> {
    let begun = Instant::now();
    let after = after.as_deref().map(|number| ("Last-Event-ID", number));
    let headers: Vec<(&str, &str)> = after.into_iter().collect();
    let is_enough = |body: &str| match asked.until {
        Until::End => false,
        Until::Lines(count) => body.matches('\n').count() >= count,
        Until::Event => body.lines().any(|line| line.starts_with("data:")),
    };
    let answer = http::get_until(api, &path, &headers, ANSWER_LIMIT, is_enough).await;
    let took = begun.elapsed();
    let is_given_up = asked.until != Until::End;
    if is_given_up && answer.as_ref().is_some_and(|answer| answer.status == TOO_MANY) {
        return Ok(None);
    }
    let answer = good("GET", &path, answer)?;
    match !is_given_up || is_enough(&answer.body) {
        true => Ok(Some(took)),
        false => Err(format!("GET {path} ended without {:?}: {}", asked.until, answer.body)),
    }
}

fn read(asked: &Asked, mut took: Vec<Duration>) -> Read {
    took.sort_unstable();
    let at = |percent| percentile(&took, percent).map_or(0.0, |took| took.as_secs_f64() * 1_000.0);
    Read {
        operation: asked.operation.to_owned(),
        what: asked.what.to_owned(),
        requests: took.len(),
        p50_ms: at(50),
        p99_ms: at(99),
        max_ms: at(100),
    }
}

fn line(read: &Read) -> String {
    let late = if read.is_late() { format!("  ABOVE {LIMIT_MS:.0} ms") } else { String::new() };
    format!(
        "reads: {:<16} {:<48} p50 {:>7.1} ms, p99 {:>7.1}, max {:>7.1}{late}",
        read.operation, read.what, read.p50_ms, read.p99_ms, read.max_ms
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An operation with this 99th percentile.
    pub fn took(operation: &str, p99_ms: f64) -> Read {
        let (operation, what) = (operation.to_owned(), "any".to_owned());
        Read { operation, what, requests: 200, p50_ms: 1.5, p99_ms, max_ms: p99_ms + 1.0 }
    }

    #[test]
    fn percentiles_are_of_the_answers_and_what_is_above_the_limit_is_said() {
        let asked = asked::all(
            Shape {
                accounts: 1_000,
                transactions: 1_000,
                seed: 1,
                end: 1_800_000_000_000,
                names: crate::names::Names::default(),
            },
            &Found::default(),
        );
        let all = read(&asked[0], (1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!((all.p50_ms, all.p99_ms, all.max_ms), (100.0, 198.0, 200.0));
        assert!(!line(&all).contains("ABOVE"));
        assert!(line(&took("stats", 200.1)).contains("ABOVE 200 ms"));
    }
}
