//! Submitting an array of transactions: a status for each.
//!
//! Promises 200 when each was looked at, whatever became of it, so that the whole array may be sent
//! again. Fails as a whole only if nothing was taken and a server was away.

use axum::http::StatusCode;
use common::transaction::State;
use futures_util::future::join_all;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Answer;
use super::call::Call;
use super::problem::{Code, Problem, Told};
use super::received::Wait;
use super::submissions::{refusal, status_of};
use super::view::{Reason, Stands};
use crate::submission::{Receipt, Submission};
use crate::watch::Standing;

/// What became of an array.
#[derive(Debug, Serialize, ToSchema)]
pub struct Submitted {
    /// How many came to what.
    summary: Summary,
    /// What became of each, in the order of the array.
    items: Vec<Item>,
}

/// How many items of an array came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
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
    #[schema(required = false, nullable = false)]
    state: Option<String>,
    /// Why it is canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<Told>,
}

/// Submits an array.
pub async fn submit(
    call: &Call,
    items: Vec<Result<Submission, Problem>>,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    call.api.gate.check()?;
    let mut results = Vec::with_capacity(items.len());
    let mut submissions = Vec::with_capacity(items.len());
    for item in items {
        results.push(item.map(|submission| {
            let id = submission.id().to_owned();
            submissions.push(submission);
            id
        }));
    }
    let mut receipts = call.api.client.submit_all(submissions).await.into_iter();
    let results: Vec<(Option<String>, Result<Receipt, Problem>)> = results
        .into_iter()
        .map(|checked| match checked {
            Ok(id) => {
                let receipt = receipts.next().expect("there is one for each submission");
                let receipt = receipt.map_err(|error| refusal(&call.api, &id, error));
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

/// Fails as a whole if a server was away for all that could have been taken.
fn all_or_some(results: &[(Option<String>, Result<Receipt, Problem>)]) -> Result<(), Problem> {
    let mut away: Option<&Problem> = None;
    for (_, result) in results {
        match result {
            Ok(_) => return Ok(()),
            // One that may have been taken is told before those that were surely not.
            Err(problem) if problem.code == Code::Unknown => away = Some(problem),
            Err(problem) if problem.code.status().is_server_error() => {
                away.get_or_insert(problem);
            }
            Err(_) => {}
        }
    }
    away.map_or(Ok(()), |problem| Err(problem.clone()))
}

type Standings = std::collections::HashMap<String, Standing>;

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
    let outcomes = join_all(ids.iter().map(|id| api.client.outcome(id)));
    // Whether all have ended or not: how they stand is asked for below.
    drop(tokio::time::timeout(wait.limit, outcomes).await);
    Ok(api.client.standings(&ids).await?)
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
    let Stands { id, state, reason } = Stands::new(&receipt.id, &standing);
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
