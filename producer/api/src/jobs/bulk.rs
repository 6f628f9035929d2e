//! A bulk job: one act on many items.
//!
//! Promises that each item goes through the API's own operation, with the scopes that the token has
//! at that moment, and is noted as an act of its own, with the job's reason; that a pause takes
//! effect after the few items that are under way; and that a server that is away pauses the job, so
//! that what is left is not lost as failed. An item that was done and could not be noted is tried
//! again by the next server, and found gone.

use std::sync::Arc;
use std::time::Duration;

use client::Error;
use futures_util::{StreamExt, stream};
use mongo::{JobEnd, JobProgress, JobRest, JobState, SeenJob};

use super::actor;
use super::decide::{Next, Tried, count, judged, next};
use super::holding::Holding;
use crate::dispatch::ask;
use crate::operation::Operation;
use crate::problem::Problem;
use crate::received::Received;
use crate::routes;

/// How many items are under way at once.
const AT_ONCE: usize = 4;
/// After so many items, what has become of them is noted.
const CHUNK: usize = 16;
/// How long to wait before the next look where nothing could be begun.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a bulk job may do with its items. A document that says something else is not carried out.
const OPERATIONS: [&str; 4] =
    ["replayParked", "discardParked", "replayDeadLetter", "discardDeadLetter"];

/// The operation of a job, if a bulk job may do it.
pub fn operation(job: &SeenJob) -> Option<&'static Operation> {
    let name = OPERATIONS.into_iter().find(|name| *name == job.operation)?;
    Some(routes::named(name))
}

/// Some items that are to be tried.
struct Chunk {
    ids: Vec<String>,
    /// How many of them are tried for the first time.
    fresh: usize,
}

/// The items that were read last, and the position of the first of them.
#[derive(Default)]
struct Items {
    from: usize,
    ids: Vec<String>,
}

/// Works through the items, until the job is over or given back.
pub async fn run(holding: &Arc<Holding>) {
    let Some(operation) = operation(&holding.job) else {
        return holding.end(broken("this server does not know what it is to do")).await;
    };
    let mut items = Items::default();
    while !holding.is_over() {
        let progress = holding.progress();
        let is_over = progress.position >= holding.job.total && progress.again.is_empty();
        match next(holding.wish(), is_over, holding.api.stop.is_cancelled()) {
            Next::Work if holding.may_go_on() => {}
            // The lease may have run out: who has the job is asked first.
            Next::Work => {
                holding.beat().await;
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            Next::Pause => {
                holding.rest(JobRest::Paused).await;
                continue;
            }
            Next::Leave => {
                holding.rest(JobRest::Released).await;
                continue;
            }
            Next::Stop => return holding.end(over(JobState::Stopped)).await,
            Next::End => return holding.end(over(JobState::Ended)).await,
        }
        let chunk = match items.chunk(holding, &progress).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return holding.end(broken("its items are not there")).await,
            Err(error) => {
                holding.rest(JobRest::PausedItself(error.to_string())).await;
                continue;
            }
        };
        match tried(holding, operation, chunk).await {
            Some(why) => holding.rest(JobRest::PausedItself(why)).await,
            None => holding.beat().await,
        }
    }
}

fn over(state: JobState) -> JobEnd {
    JobEnd { state, why: None, found: None }
}

fn broken(why: &str) -> JobEnd {
    JobEnd { state: JobState::Broken, why: Some(why.to_owned()), found: None }
}

impl Items {
    /// Those that come next: none if they are not there.
    async fn chunk(
        &mut self,
        holding: &Holding,
        progress: &JobProgress,
    ) -> Result<Option<Chunk>, Error> {
        if !progress.again.is_empty() {
            return Ok(Some(Chunk { ids: progress.again.clone(), fresh: 0 }));
        }
        let position = usize::try_from(progress.position).unwrap_or(usize::MAX);
        if !(self.from..self.from + self.ids.len()).contains(&position) {
            let (client, id) = (&holding.api.client, &holding.job.id);
            let read = client.insist(|| client.store().job_items(id, position)).await?;
            (self.from, self.ids) = (position, read.unwrap_or_default());
        }
        let left = self.ids.get(position - self.from..).unwrap_or_default();
        let ids: Vec<String> = left.iter().take(CHUNK).cloned().collect();
        let fresh = ids.len();
        Ok((fresh > 0).then_some(Chunk { ids, fresh }))
    }
}

/// Tries some items and counts what became of them; returns why the job can't go on, if so.
async fn tried(
    holding: &Arc<Holding>,
    operation: &'static Operation,
    chunk: Chunk,
) -> Option<String> {
    let tried: Vec<(String, Tried)> = stream::iter(chunk.ids)
        .map(|id| attempt(holding, operation, id))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    holding.note(|progress| count(progress, chunk.fresh, tried))
}

/// Tries an item, if it may be begun.
async fn attempt(holding: &Holding, operation: &'static Operation, id: String) -> (String, Tried) {
    let tried = match holding.may_go_on() {
        true => judged(one(holding, operation, id.clone()).await),
        false => Tried::Not,
    };
    (id, tried)
}

async fn one(holding: &Holding, operation: &'static Operation, id: String) -> Result<(), Problem> {
    let api = &holding.api;
    let (caller, person) = actor::again(api, &holding.job, &holding.actor())?;
    let received = Received { id, ..Received::default() };
    ask(api, (&caller, &person), operation, received).await.map(drop)
}
