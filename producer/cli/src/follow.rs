//! Waiting until transactions are final or held.
//!
//! Asks the database for the oldest ids first, and for later ids only while earlier ones become
//! final, so that a long queue costs few queries: at most every 200 ms, or every 20 ms while events
//! say that something ends. Memory is the ids themselves and one byte each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Listening, Standing, State};

use crate::context::Context;
use crate::exit::{Error, Exit};

/// Whether and how long to wait.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct WaitArgs {
    /// Wait until it is held, done or canceled
    #[arg(long)]
    pub wait: bool,
    /// Wait at most so many seconds, then exit with 3
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    pub wait_limit: Option<u32>,
}

impl WaitArgs {
    /// How long, if there is a limit.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.wait_limit.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Until when, if there is a limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.limit().map(|limit| Instant::now() + limit)
    }
}

/// How transactions ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Done.
    pub done: u64,
    /// On hold: that is as far as they come by themselves.
    pub held: u64,
    /// Canceled, by reason.
    pub canceled: BTreeMap<String, u64>,
    /// Not in the database any more.
    pub missing: u64,
    /// Not final when the limit was reached.
    pub unfinished: u64,
}

impl Ends {
    /// How many were canceled.
    #[must_use]
    pub fn canceled_total(&self) -> u64 {
        self.canceled.values().sum()
    }
}

/// What a summary of a file tells of the ends of its rows; nothing where they were not followed.
pub struct Followed<'a> {
    /// Done.
    pub done: Option<u64>,
    /// On hold.
    pub held: Option<u64>,
    /// Canceled, by reason.
    pub canceled: Option<&'a BTreeMap<String, u64>>,
    /// Not final when the limit was reached.
    pub unfinished: Option<u64>,
    /// Not in the database any more.
    pub missing: Option<u64>,
}

impl Followed<'_> {
    /// The exit code of a command with a file, of which so many rows failed. What was canceled is a
    /// result.
    #[must_use]
    pub fn exit(&self, failed: u64) -> Exit {
        if failed > 0 || self.missing.is_some_and(|count| count > 0) {
            Exit::Failed
        } else if self.unfinished.is_some_and(|count| count > 0) {
            Exit::WaitLimit
        } else {
            Exit::Ok
        }
    }
}

/// Lines of their own, each after a line feed.
impl fmt::Display for Followed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(done), Some(canceled)) = (self.done, self.canceled) {
            write!(f, "\n{done} done, {} canceled", canceled.values().sum::<u64>())?;
            if let Some(held) = self.held.filter(|held| *held > 0) {
                write!(f, ", {held} held")?;
            }
            for (reason, count) in canceled {
                write!(f, "\n  {reason}: {count}")?;
            }
        }
        for (count, what) in [(self.unfinished, "not finished"), (self.missing, "gone")] {
            if let Some(count) = count.filter(|count| *count > 0) {
                write!(f, "\n{count} {what}")?;
            }
        }
        Ok(())
    }
}

/// The most ids of one query.
const BATCH: usize = 1_000;
/// The most queries in a row.
const QUESTIONS_MAX: usize = 20;
/// After so many queries without progress a batch goes behind the others: its owner may be dead,
/// and the owners of the others may be alive.
const PATIENCE: u32 = 10;

/// Ids that are not known to be final, in the order of submission.
#[derive(Debug, Default)]
pub struct Pending {
    batches: VecDeque<Batch>,
}

/// Ids joined by line feeds, which no id can hold: an `Arc` each would take three times the memory.
#[derive(Debug, Default)]
struct Batch {
    joined: String,
    count: usize,
    fruitless: u32,
}

impl Batch {
    fn ids(&self) -> Vec<&str> {
        self.joined.split_terminator('\n').collect()
    }

    fn push(&mut self, id: &str) {
        self.joined.push_str(id);
        self.joined.push('\n');
        self.count += 1;
    }
}

impl Pending {
    /// Adds an id.
    pub fn push(&mut self, id: &str) {
        match self.batches.back_mut() {
            Some(last) if last.count < BATCH => last.push(id),
            _ => {
                let mut batch = Batch::default();
                batch.push(id);
                self.batches.push_back(batch);
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.batches.iter().map(|batch| batch.count as u64).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes the oldest batch. If few of its ids are left, adds the next batches.
    fn take(&mut self) -> Option<Batch> {
        let mut batch = self.batches.pop_front()?;
        while let Some(next) = self.batches.front()
            && batch.count + next.count <= BATCH
        {
            batch.joined.push_str(&next.joined);
            batch.count += next.count;
            self.batches.pop_front();
        }
        Some(batch)
    }

    /// Puts back the ids of batches that are not final, the oldest first; batches without progress
    /// go to the end.
    fn put_back(&mut self, left: Vec<Batch>) {
        for mut batch in left.into_iter().rev() {
            if batch.count == 0 {
                continue;
            }
            if batch.fruitless >= PATIENCE {
                batch.fruitless = 0;
                self.batches.push_back(batch);
            } else {
                self.batches.push_front(batch);
            }
        }
    }
}

/// How long after an event the documents are looked at: others may end within the same moment.
const AFTER_AN_EVENT: Duration = Duration::from_millis(20);

/// With more ids than these, what counts is how many end in a second, and not the moment of the
/// last.
const LISTENING_MAX: u64 = 10_000;

/// How long to wait between looks: longer while nothing happens.
#[derive(Clone, Copy, Debug)]
struct Pace(Duration);

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(1);

    fn next(self, progress: bool) -> Pace {
        Pace(if progress { Pace::SHORTEST } else { (self.0 * 3 / 2).min(Pace::LONGEST) })
    }
}

/// Waits until all are final, or the deadline.
///
/// # Errors
/// When the server stays away.
pub async fn follow(
    context: &Context,
    pending: Pending,
    deadline: Option<Instant>,
) -> Result<Ends, Error> {
    context.waiting(follow_all(context, pending, deadline)).await
}

async fn follow_all(
    context: &Context,
    mut pending: Pending,
    deadline: Option<Instant>,
) -> Result<Ends, Error> {
    let total = pending.len();
    let progress = context.console.progress("settled", Some(total));
    let mut ends = Ends::default();
    let mut pace = Pace(Pace::SHORTEST);
    let mut listening = (total <= LISTENING_MAX).then(|| context.client.listening());
    loop {
        let before = pending.len();
        look(context, &mut pending, &mut ends).await?;
        let remaining = pending.len();
        let canceled = ends.canceled_total();
        let Ends { done, held, .. } = &ends;
        let held = if *held > 0 { format!("held {held}, ") } else { String::new() };
        let message = format!("done {done}, {held}canceled {canceled}, remaining {remaining}");
        progress.at(total - remaining, &message);
        if pending.is_empty() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            ends.unfinished = remaining;
            return Ok(ends);
        }
        pace = pace.next(remaining < before);
        let until_deadline =
            deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let pause = until_deadline.map_or(pace.0, |left| left.min(pace.0));
        // It fails when nothing was heard of.
        let _ = tokio::time::timeout(pause, something_ends(&mut listening)).await;
    }
}

/// Returns a moment after something was heard of; never, where nobody listens.
async fn something_ends(listening: &mut Option<Listening>) {
    let Some(listening) = listening else { return std::future::pending().await };
    listening.heard().await;
    let others = async {
        loop {
            listening.heard().await;
        }
    };
    let _ = tokio::time::timeout(AFTER_AN_EVENT, others).await;
}

/// Asks for the oldest ids, and for later ones while there is progress.
async fn look(context: &Context, pending: &mut Pending, ends: &mut Ends) -> Result<(), Error> {
    let mut left = Vec::new();
    for _ in 0..QUESTIONS_MAX {
        let Some(batch) = pending.take() else { break };
        let states = context.client.standings(&batch.ids()).await?;
        let rest = sort_out(&batch, &states, ends);
        let fruitless = rest.fruitless > 0;
        left.push(rest);
        if fruitless {
            break;
        }
    }
    pending.put_back(left);
    Ok(())
}

/// Counts the final ones; returns the others.
fn sort_out(batch: &Batch, states: &HashMap<String, Standing>, ends: &mut Ends) -> Batch {
    let mut rest = Batch::default();
    for id in batch.ids() {
        let Some(standing) = states.get(id) else {
            ends.missing += 1;
            continue;
        };
        match standing.state {
            Some(State::Done) => ends.done += 1,
            Some(State::Held) => ends.held += 1,
            Some(State::Canceled) => {
                let code = standing.reason.as_ref().map_or("unknown", |(code, _)| code);
                *ends.canceled.entry(code.to_owned()).or_default() += 1;
            }
            // Someone edited the state by hand and may correct it, so keep polling this id.
            Some(
                State::Scheduled
                | State::Initial
                | State::Pending
                | State::Applied
                | State::Canceling,
            )
            | None => {
                rest.push(id);
            }
        }
    }
    rest.fruitless = if rest.count == batch.count { batch.fruitless + 1 } else { 0 };
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(state: State, code: Option<&str>) -> Standing {
        let reason = code.map(|code| (code.to_owned(), String::new()));
        Standing { state: Some(state), reason }
    }

    fn pending(count: usize) -> Pending {
        let mut pending = Pending::default();
        (0..count).for_each(|n| pending.push(&format!("t{n}")));
        pending
    }

    #[test]
    fn every_id_is_counted_once_and_the_unfinished_stay() {
        let mut pending = pending(5);
        let batch = pending.take().expect("one batch");
        let states = HashMap::from([
            ("t0".to_owned(), standing(State::Done, None)),
            ("t1".to_owned(), standing(State::Canceled, Some("requested"))),
            ("t2".to_owned(), standing(State::Applied, None)),
            ("t3".to_owned(), standing(State::Held, None)),
        ]);
        let mut ends = Ends::default();
        let rest = sort_out(&batch, &states, &mut ends);
        assert_eq!((ends.done, ends.held, ends.canceled_total(), ends.missing), (1, 1, 1, 1));
        assert_eq!((rest.ids(), rest.fruitless), (vec!["t2"], 0));
    }

    #[test]
    fn stuck_ids_let_the_others_pass() {
        let mut pending = pending(2 * BATCH);
        let mut first = pending.take().expect("two batches");
        assert_eq!(first.count, BATCH);
        first.fruitless = PATIENCE;
        pending.put_back(vec![first]);
        assert_eq!(pending.take().expect("the other").ids()[0], format!("t{BATCH}"));
        assert_eq!(pending.take().expect("the stuck one").fruitless, 0);
        assert!(pending.is_empty());
    }

    #[test]
    fn what_is_left_of_small_batches_is_asked_for_together() {
        let mut pending = Pending::default();
        for n in 0..5 {
            let mut batch = Batch::default();
            batch.push(&format!("t{n}"));
            pending.batches.push_back(batch);
        }
        assert_eq!(pending.take().map(|batch| batch.count), Some(5));
    }

    #[test]
    fn looks_become_rarer_while_nothing_happens() {
        let mut pace = Pace(Pace::SHORTEST);
        for _ in 0..10 {
            pace = pace.next(false);
        }
        assert_eq!(pace.0, Pace::LONGEST);
        assert_eq!(pace.next(true).0, Pace::SHORTEST);
    }
}
