//! Submitting an array of transactions: a status for each.
//!
//! Promises 200 when each was looked at, whatever became of it, so that the whole array may be sent
//! again. Fails as a whole only if nothing was taken and a server was away, or if it breaks what
//! its key stands for: see `requests`.

use std::sync::Arc;

use axum::http::StatusCode;
use client::{Origin, Receipt, Rules, Standing, Submission};
use futures_util::future::join_all;
use input::Transfer;
use input::content::ContentDigest;
use ledger::hex::hex;
use ledger::transaction::State;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::access::Access;
use super::answer::Answer;
use super::call::Call;
use super::keys::{Form, ItemIds, Key};
use super::problem::{Code, Problem, ProblemDetails};
use super::received::{Received, Wait};
use super::requests::Array;
use super::submissions::{refusal, status_of, transfer, without_id};
use super::view::{Reason, Stands};
use super::{Api, requests, words};

/// What became of an array.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchResult)]
pub struct Submitted {
    /// How many came to what.
    summary: Summary,
    /// What became of each, in the order of the array.
    items: Vec<Item>,
}

/// How many items of an array came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BatchSummary)]
pub struct Summary {
    /// New ones.
    submitted: usize,
    /// Those that were there already, with the same content.
    known: usize,
    /// Those that break a rule, or whose id has other content: correct them.
    refused: usize,
    /// Those of which it is not known whether they are there: send them again.
    failed: usize,
}

/// What became of one item of an array.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchItem)]
pub struct Item {
    /// Its place in the array, from 0.
    index: usize,
    /// Its id, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    id: Option<String>,
    /// The status that it would have been answered with alone.
    status: u16,
    /// Whether it was there already.
    replayed: bool,
    /// Its state, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = words::State)]
    state: Option<&'static str>,
    /// Why it is canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<ProblemDetails>,
}

/// `POST /v1/batch`
pub async fn submit(call: Call) -> Result<Answer, Problem> {
    let wait = call.wait()?;
    let (received, access) = (call.received.clone(), call.access.clone());
    let most = call.api.settings.items_max;
    let ids = call.api.client.rules();
    let read = move || many(&received, most, &access, &ids);
    let reading = tokio::task::spawn_blocking(read);
    let read = reading.await.map_err(|_| Problem::new(Code::Internal, "reading it broke down"))?;
    let mut array = read?;
    call.count_items(array.items.len())?;
    call.api.take(array.items.len())?;
    if let Some(key) = &array.key
        && let Some(keyed) = requests::open(&call.api.client, key, &array).await?
    {
        array.items.iter_mut().flatten().for_each(|item| item.come_in(&keyed));
    }
    answer(&call, array.items, wait).await
}

/// Reads an array. A large one takes a while, and other requests are not to wait for that.
pub(super) async fn read<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let reading = tokio::task::spawn_blocking(read);
    reading.await.map_err(|_| Problem::new(Code::Internal, "reading it broke down"))?
}

/// Reads the transactions of a request.
pub fn many(
    received: &Received,
    most: usize,
    access: &Access,
    of_ledger: &Rules,
) -> Result<Array, Problem> {
    let submitter = access.submitter();
    let key = received.key()?.map(|key| Key::new(Form::Array, submitter, key));
    let request = key.as_ref().map(Key::request);
    let origin = |id_from_key| {
        let (submitted_by, request) = (submitter.cloned(), request.clone());
        Arc::new(Origin { submitted_by, request, id_from_key, array: None })
    };
    let (own, made) = (origin(false), origin(true));
    let mut ids = key.as_ref().map(ItemIds::new);
    let mut contents = Vec::new();
    let mut item = |value: Value| {
        let Transfer { id, body } = transfer(value, access, of_ledger)?;
        let Some(ids) = &mut ids else {
            let origin = submitter.map(|_| own.clone());
            let id = id.ok_or_else(without_id)?;
            return Ok(Submission::of(body).with_id(id).with_origin(origin));
        };
        let content =
            ContentDigest::of(&body).map_err(|problem| Problem::field("metadata", problem))?;
        let origin = if id.is_some() { &own } else { &made };
        let id = match id {
            Some(id) => id,
            None => of_ledger.made(ids.next(content))?,
        };
        contents.push((id.clone(), content));
        Ok(Submission::of(body).with_id(id).with_origin(Some(origin.clone())))
    };
    let items = received.items(most, "/v1/transactions", |value| item(value?))?;
    drop(ids);
    Ok(Array { items, key, content: digest(contents) })
}

/// The digest of ids and contents.
fn digest(mut contents: Vec<(String, ContentDigest)>) -> String {
    contents.sort_unstable();
    let mut digest = Sha256::new();
    for (id, content) in contents {
        // No id has a zero byte in it.
        digest.update(id);
        digest.update([0]);
        digest.update(content.0);
    }
    hex(&digest.finalize()[..16])
}

/// Submits the items, and says what became of each.
async fn answer(
    call: &Call,
    items: Vec<Result<Submission, Problem>>,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    let mut results = Vec::with_capacity(items.len());
    let mut submissions = Vec::with_capacity(items.len());
    for item in items {
        results.push(item.map(|submission| {
            let id = (submission.id().to_owned(), submission.has_id_from_key());
            submissions.push(submission);
            id
        }));
    }
    let mut receipts = call.api.client.submit_all(submissions).await.into_iter();
    let results: Vec<(Option<String>, Result<Receipt, Problem>)> = results
        .into_iter()
        .map(|checked| match checked {
            Ok((id, id_from_key)) => {
                let receipt = receipts.next().expect("there is one for each submission");
                let refused = |error| refusal(call, &id, id_from_key, error);
                let receipt = receipt.map_err(refused);
                (Some(id), receipt)
            }
            Err(problem) => (None, Err(problem)),
        })
        .collect();
    all_or_some(&results)?;
    let taken = results.iter().filter_map(|(_, result)| result.as_ref().ok());
    let unpublished = taken.clone().find_map(|receipt| receipt.unpublished.as_ref());
    call.api.note_unpublished(unpublished);
    // They are taken; if how they stand can't be read, they stand as they were taken.
    let standings = standings(&call.api, taken.collect(), wait).await.unwrap_or_default();
    let items: Vec<Item> = results
        .into_iter()
        .enumerate()
        .map(|(index, (id, result))| item(index, id, result, &standings))
        .collect();
    let submitted = Submitted { summary: summary(&items), items };
    Ok(Answer::json(StatusCode::OK, &submitted))
}

/// Fails as a whole if a server was away for all that could have been done.
pub(super) fn all_or_some<T>(
    results: &[(Option<String>, Result<T, Problem>)],
) -> Result<(), Problem> {
    let mut away: Option<&Problem> = None;
    for (_, result) in results {
        match result {
            Ok(_) => return Ok(()),
            // One that may have been done is told before those that were surely not.
            Err(problem) if problem.code == Code::Unknown => away = Some(problem),
            Err(problem) if problem.code.status().is_server_error() => {
                away.get_or_insert(problem);
            }
            Err(_) => {}
        }
    }
    away.map_or(Ok(()), |problem| Err(problem.clone()))
}

/// How transactions stand, by their ids.
pub(super) type Standings = std::collections::HashMap<String, Standing>;

/// How those that are known stand; with a wish to wait, how all of them stand then.
async fn standings(
    api: &Api,
    taken: Vec<&Receipt>,
    wait: Option<Wait>,
) -> Result<Standings, Problem> {
    let Some(wait) = wait else {
        let canceled = taken.iter().filter(|receipt| receipt.known == Some(State::Canceled));
        let ids: Vec<&str> = canceled.map(|receipt| &*receipt.id).collect();
        return Ok(api.client.standings(&ids).await?);
    };
    let ids: Vec<&str> = taken.iter().map(|receipt| &*receipt.id).collect();
    standings_after(api, &ids, wait).await
}

/// How transactions stand when all of them have ended, or the time is over.
pub(super) async fn standings_after(
    api: &Api,
    ids: &[&str],
    wait: Wait,
) -> Result<Standings, Problem> {
    let outcomes = join_all(ids.iter().map(|id| api.client.outcome(id)));
    // Whether all have ended or not: how they stand is asked for below.
    drop(tokio::time::timeout(wait.limit, outcomes).await);
    Ok(api.client.standings(ids).await?)
}

fn item(
    index: usize,
    id: Option<String>,
    result: Result<Receipt, Problem>,
    standings: &Standings,
) -> Item {
    let receipt = match result {
        Ok(receipt) => receipt,
        Err(problem) => {
            return Item {
                index,
                id,
                status: problem.code.status().as_u16(),
                replayed: false,
                state: None,
                reason: None,
                problem: Some(problem.told()),
            };
        }
    };
    let found = standings.get(&*receipt.id).cloned();
    let standing = found.unwrap_or(Standing::in_state(receipt.state));
    let Stands { id, state, reason, .. } = Stands::new(&receipt.id, &standing);
    Item {
        index,
        id: Some(id),
        status: status_of(standing.state).as_u16(),
        replayed: receipt.known.is_some(),
        state: Some(state),
        reason,
        problem: None,
    }
}

fn summary(items: &[Item]) -> Summary {
    let mut summary = Summary::default();
    for item in items {
        *match item {
            Item { problem: None, replayed: false, .. } => &mut summary.submitted,
            Item { problem: None, replayed: true, .. } => &mut summary.known,
            Item { status: 500.., .. } => &mut summary.failed,
            Item { .. } => &mut summary.refused,
        } += 1;
    }
    summary
}
