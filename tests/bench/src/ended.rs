//! The list of what ended, beside workers at full work and when it is long.
//!
//! A follower reads it by its numbers while workers settle one part of an endless load after the
//! other. What is measured: how long after the moment of its line an end is told; then, when all is
//! at rest, pages at the beginning, in random places and at the end of the list, pages of a filter
//! that nothing passes, how fast the list is read from one end to the other, and statements of
//! accounts with so many entries. Half of the load is to one account. The books are audited.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use client::{Client, EndFilter, EndPage, NumberedEnd};
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::endurance::{self, Watched};
use super::field::Field;
use super::inserted::{Took, timed, took};
use super::source::Source;
use super::statements::{self, Statements};
use super::workload::Workload;
use super::{Bench, say, tandem, undated};

/// Items of a page: the most that a caller may ask for.
const PAGE: u32 = 1_000;
/// Pages of each kind.
const PAGES: usize = 200;
/// So many ends are read to see how fast a list is read.
const READ_MAX: u64 = 1_000_000;
/// How long a follower pauses where nothing is new.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time until the last end has its number.
const LIMIT: Duration = Duration::from_secs(60);

/// What the list cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Whose workers.
    pub contender: Contender,
    /// How many ends the list has.
    pub ends: u64,
    /// How many were settled a second while somebody followed.
    pub settled_per_s: f64,
    /// From the moment of its line until an end was told, beside workers at full work.
    pub told: Took,
    /// A page at the beginning.
    pub first: Took,
    /// A page in a random place.
    pub random: Took,
    /// A page at the end.
    pub last: Took,
    /// A page of a filter that nothing passes.
    pub without: Took,
    /// Ends a second that are read from the beginning on.
    pub read_per_s: f64,
    /// What statements cost.
    pub statements: Statements,
    /// What the audit found, and what the follower missed. If there is anything here, none of the
    /// figures count.
    pub problems: Vec<String>,
}

/// One contender after the other.
pub async fn run(bench: &mut Bench) {
    for contender in undated::contenders(bench) {
        let field = bench.field_of(&bench.setup(contender)).await;
        let ran = measure(bench, &field, contender).await;
        field.finish().await;
        match ran {
            Ok(ended) => {
                say(line(&ended));
                bench.report.ended.push(ended);
            }
            Err(problem) => bench.failed(format!("ended {}: {problem}", contender.name())),
        }
    }
}

async fn measure(bench: &Bench, field: &Field, contender: Contender) -> Result<Ended, String> {
    let scale = bench.args.scale();
    let source = Source::new(Workload::HalfHot, bench.args.accounts, scale.part, bench.args.seed);
    let client = field.world.client().await;
    let since = SystemTime::now();
    let (crew, over) = (contender.crew(&bench.crew), OnceLock::new());
    let working = async {
        let worked = endurance::work(field, &crew, source, scale.sustained).await;
        let ends = worked.as_ref().map_or(0, |watched| watched.books.total());
        over.get_or_init(|| (ends, Instant::now()));
        worked
    };
    let (watched, told) = tokio::join!(working, follow(&client, &over));
    let (Watched { books, samples, ran_empty, .. }, told) = (watched?, told?);
    let (begin, end) = samples.first().zip(samples.last()).ok_or("no sample was taken")?;
    let ends = books.total() as u64;
    let begun = Instant::now();
    let (read, read_elapsed) = (read(&client, READ_MAX.min(ends)).await?, begun.elapsed());
    let mut problems = field.problems(&books).await;
    problems.extend(tandem::audit(field, books.total()).await.err());
    if told.len() as u64 != ends {
        problems.push(format!("the follower was told of {} of {ends}", told.len()));
    }
    if ran_empty {
        problems.push("the queue ran empty".to_owned());
    }
    problems.truncate(10);
    let everything = EndFilter::default();
    let nothing = EndFilter { account: Some("nobody".into()), ..EndFilter::default() };
    let last = ends.saturating_sub(PAGE.into());
    let anywhere = || rand::random_range(0..last.max(1));
    Ok(Ended {
        contender,
        ends,
        settled_per_s: per_s(
            end.settled - begin.settled,
            Duration::from_secs_f64(end.at - begin.at),
        ),
        told: took(told),
        first: pages(&client, || 0, &everything).await?,
        random: pages(&client, anywhere, &everything).await?,
        last: pages(&client, || last, &everything).await?,
        without: pages(&client, anywhere, &nothing).await?,
        read_per_s: per_s(read, read_elapsed),
        statements: statements::measure(field, &client, bench.args.accounts, since).await?,
        problems,
    })
}

/// Follows the list from its beginning; returns how long after its moment each end was told. `over`
/// says how many ends there are, and since when that is known.
async fn follow(
    client: &Client,
    over: &OnceLock<(usize, Instant)>,
) -> Result<Vec<Duration>, String> {
    let (mut told, mut after) = (Vec::new(), 0);
    loop {
        let page = page(client, after, &EndFilter::default()).await?;
        // The database runs on this machine, so both have one clock.
        let now = SystemTime::now();
        let since = |item: &NumberedEnd| now.duration_since(item.at.to_system_time());
        told.extend(page.items.iter().map(|item| since(item).unwrap_or_default()));
        after = page.next;
        if over.get().is_some_and(|(ends, since)| told.len() >= *ends || since.elapsed() > LIMIT) {
            return Ok(told);
        }
        if page.is_last {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn page(client: &Client, after: u64, filter: &EndFilter) -> Result<EndPage, String> {
    client.ended_after(after, PAGE, filter).await.map_err(|error| error.to_string())
}

/// How long pages after these numbers take.
async fn pages(
    client: &Client,
    after: impl Fn() -> u64,
    filter: &EndFilter,
) -> Result<Took, String> {
    timed(PAGES, async || page(client, after(), filter).await).await
}

/// Reads so many from the beginning on; returns how many it has read.
async fn read(client: &Client, count: u64) -> Result<u64, String> {
    let mut after = 0;
    while after < count {
        let page = page(client, after, &EndFilter::default()).await?;
        if page.next == after {
            return Err(format!("the list ends after {after}"));
        }
        after = page.next;
    }
    Ok(after)
}

#[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
fn per_s(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

fn line(one: &Ended) -> String {
    let pages = |took: &Took| format!("{:.1} ms (p99 {:.1})", took.p50_ms, took.p99_ms);
    format!(
        "{:<12} list of {} ends, settled {:.0}/s: told after {}; pages of {PAGE}: first {}, random {}, \
         last {}, without a hit {}; read {:.0}/s; statements: hot {}, cold {}, of the last minutes {}; {} \
         pieces summed up in {:.1} s {}",
        one.contender.name(),
        one.ends,
        one.settled_per_s,
        pages(&one.told),
        pages(&one.first),
        pages(&one.random),
        pages(&one.last),
        pages(&one.without),
        one.read_per_s,
        pages(&one.statements.hot),
        pages(&one.statements.cold),
        pages(&one.statements.fresh),
        one.statements.summed_up.0,
        one.statements.summed_up.1,
        one.problems.join("; ")
    )
}
