//! Confirming, releasing and canceling many transactions in one request: a status for each.
//!
//! Promises that each item is read once and decided by itself, by what decides it alone, whatever
//! is wrong with its neighbours; and 200 when each was looked at. The same array again changes
//! nothing. The broker may be away. Within its time a request decides some hundred at a time: what
//! it has sent and heard nothing of is told as unknown, and what it has not sent as not tried.
//! Fails as a whole only if nothing was decided and a server was away.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use client::{ActEnd, ActResult, Canceled, Capture, Decided, Error, Standing, TransactionId};
use input::{HOLD, NAMED, Record, parse_hold, parse_named};
use ledger::notation::Notation;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::Api;
use super::answer::Answer;
use super::bulk::{Standings, all_or_some, read, standings_after};
use super::call::Call;
use super::problem::{Code, Problem, ProblemDetails};
use super::received::Received;
use super::submissions::status_of;
use super::view::{Reason, Stands};
use super::words;

/// How many are decided together.
const TOGETHER: usize = 500;

/// What a request has for its decisions beside the time in which a server that is away is tried
/// again. With that, and with the wish to wait, it stays within the time limit of a request.
const DECIDING: Duration = Duration::from_secs(5);

/// What became of an array of decisions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecisionsResult)]
pub struct Decisions {
    /// How many came to what.
    summary: Summary,
    /// What became of each, in the order of the array.
    items: Vec<Item>,
}

/// How many items of an array of decisions came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DecisionsSummary)]
pub struct Summary {
    /// Those that are as was asked for, now or before.
    decided: usize,
    /// Those that break a rule, are not there, or whose state does not allow it.
    refused: usize,
    /// Those of which it is not known whether they are decided, and those that were not tried: send
    /// them again.
    failed: usize,
}

/// What became of one item of an array of decisions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecisionsItem)]
pub struct Item {
    /// Its place in the array, from 0.
    index: usize,
    /// The transaction, if the item names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    id: Option<String>,
    /// The status that it would have been answered with alone.
    status: u16,
    /// Whether it was confirmed or released so before. Missing of a cancelation, where that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    replayed: Option<bool>,
    /// Its state, if it is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = words::State)]
    state: Option<&'static str>,
    /// Why it is canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    /// Why it is not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<ProblemDetails>,
}

/// What is decided of each item of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Holds are confirmed.
    Confirm,
    /// Holds are released.
    Release,
    /// Transactions are canceled.
    Cancel,
}

/// A transaction, and what is captured of it if it is confirmed.
pub type Wish = (TransactionId, Capture);

/// How a transaction stands after its decision.
struct Done {
    standing: Standing,
    /// Whether it was so before, if that is known.
    known: Option<bool>,
    unpublished: Option<Error>,
}

/// The transaction that an item names, if it does, and what became of it.
type Outcome = (Option<String>, Result<(String, Done), Problem>);

impl From<Decided> for Done {
    fn from(decided: Decided) -> Done {
        let Decided { standing, known, unpublished, .. } = decided;
        Done { standing, known: Some(known), unpublished }
    }
}

impl From<Canceled> for Done {
    fn from(canceled: Canceled) -> Done {
        let Canceled { standing, unpublished } = canceled;
        Done { standing, known: None, unpublished }
    }
}

impl Decision {
    /// Where one of them goes alone.
    fn alone(self) -> &'static str {
        match self {
            Decision::Confirm => "/v1/transactions/{id}/confirm",
            Decision::Release => "/v1/transactions/{id}/release",
            Decision::Cancel => "/v1/transactions/{id}/cancel",
        }
    }

    fn wish(self, value: Value, notation: &Notation) -> Result<Wish, Problem> {
        match self {
            Decision::Confirm => Ok(parse_hold(Record::from_value(value, HOLD)?, false, notation)?),
            Decision::Release | Decision::Cancel => {
                Ok((parse_named(Record::from_value(value, NAMED)?)?, Capture::All))
            }
        }
    }

    /// A result for each, in their order.
    async fn decide(self, api: &Api, wishes: &[Wish]) -> Vec<Result<Done, Error>> {
        let ids: Vec<&str> = wishes.iter().map(|(id, _)| id.as_ref()).collect();
        match self {
            Decision::Confirm => done(api.client.confirm_all(wishes.iter().cloned()).await),
            Decision::Release => done(api.client.release_all(&ids).await),
            Decision::Cancel => done(api.client.cancel_all(&ids).await),
        }
    }
}

fn done<T: Into<Done>>(results: Vec<Result<T, Error>>) -> Vec<Result<Done, Error>> {
    results.into_iter().map(|result| result.map(T::into)).collect()
}

/// `POST /v1/batch/confirm`
pub async fn confirm(call: Call) -> Result<Answer, Problem> {
    answer(&call, Decision::Confirm).await
}

/// `POST /v1/batch/release`
pub async fn release(call: Call) -> Result<Answer, Problem> {
    answer(&call, Decision::Release).await
}

/// `POST /v1/batch/cancel`
pub async fn cancel(call: Call) -> Result<Answer, Problem> {
    answer(&call, Decision::Cancel).await
}

/// Reads the wishes of a request.
pub fn wishes(
    received: &Received,
    decision: Decision,
    most: usize,
    notation: &Notation,
) -> Result<Vec<Result<Wish, Problem>>, Problem> {
    received.items(most, decision.alone(), |value| decision.wish(value?, notation))
}

async fn answer(call: &Call, decision: Decision) -> Result<Answer, Problem> {
    let wait = call.wait()?;
    let (received, most) = (call.received.clone(), call.api.settings.items_max);
    let notation = call.api.client.store().notation();
    let items = read(move || wishes(&received, decision, most, &notation)).await?;
    call.count_items(items.len())?;
    let results = decided(&call.api, decision, items).await;
    all_or_some(&results)?;
    let standings = match wait {
        None => Standings::new(),
        Some(wait) => {
            let decided = results.iter().filter(|(_, result)| result.is_ok());
            let ids: Vec<&str> = decided.filter_map(|(id, _)| id.as_deref()).collect();
            // They are decided; if how they stand can't be read, they stand as they did.
            standings_after(&call.api, &ids, wait).await.unwrap_or_default()
        }
    };
    let items = results.into_iter().enumerate();
    let items: Vec<Item> = items.map(|(at, outcome)| item(at, outcome, &standings)).collect();
    let summary = summary(&items);
    let ended = Some(summary.ended());
    Ok(Answer { ended, ..Answer::json(StatusCode::OK, &Decisions { summary, items }) })
}

/// Decides what could be read; the id and the result of each item.
async fn decided(api: &Api, decision: Decision, items: Vec<Result<Wish, Problem>>) -> Vec<Outcome> {
    let mut wishes = Vec::with_capacity(items.len());
    let checked: Vec<Result<String, Problem>> = items
        .into_iter()
        .map(|item| {
            let wish = item?;
            let id = wish.0.to_string();
            wishes.push(wish);
            Ok(id)
        })
        .collect();
    let mut results = in_parts(api, decision, &wishes).await.into_iter();
    let result = |checked: Result<String, Problem>| match checked {
        Ok(id) => {
            let result = results.next().expect("there is one for each wish");
            (Some(id.clone()), result.map(|done| (id, done)))
        }
        Err(problem) => (None, Err(problem)),
    };
    checked.into_iter().map(result).collect()
}

/// Decides some hundred at a time, within the time of the request.
async fn in_parts(api: &Api, decision: Decision, wishes: &[Wish]) -> Vec<Result<Done, Problem>> {
    let until = Instant::now() + 2 * api.settings.give_up_after + DECIDING;
    let (mut results, mut why_not) = (Vec::with_capacity(wishes.len()), None);
    for part in wishes.chunks(TOGETHER) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            why_not.get_or_insert_with(|| "the time of this request is over".to_owned());
        }
        if let Some(why_not) = &why_not {
            results.extend(part.iter().map(|_| Err(not_tried(why_not))));
            continue;
        }
        match timeout(left, decision.decide(api, part)).await {
            Ok(decided) => {
                why_not = away(&decided);
                let unpublished = decided.iter().flatten().find_map(|one| one.unpublished.as_ref());
                api.note_unpublished(unpublished);
                results.extend(decided.into_iter().map(|result| result.map_err(Problem::from)));
            }
            Err(_) => results.extend(part.iter().map(|_| Err(unheard()))),
        }
    }
    results
}

/// Why those behind a part are not tried, if a server was away for all of it: each part would wait
/// for it as long again.
fn away(decided: &[Result<Done, Error>]) -> Option<String> {
    let is_away = |result: &Result<Done, Error>| {
        matches!(result, Err(Error::Unavailable { .. } | Error::Denied { .. }))
    };
    decided.iter().all(is_away).then(|| "a server is away, or refuses".to_owned())
}

fn not_tried(why: &str) -> Problem {
    Problem::new(Code::Unavailable, format!("was not tried: {why}"))
}

/// Of what was sent.
fn unheard() -> Problem {
    Problem::new(Code::Unknown, "a server takes too long to answer")
}

fn item(index: usize, (id, result): Outcome, standings: &Standings) -> Item {
    let (id, Done { standing, known, .. }) = match result {
        Ok(decided) => decided,
        Err(problem) => {
            let (status, problem) = (problem.code.status().as_u16(), Some(problem.told()));
            return Item { index, id, status, replayed: None, state: None, reason: None, problem };
        }
    };
    let standing = standings.get(&id).cloned().unwrap_or(standing);
    let Stands { id, state, reason, .. } = Stands::new(&id, &standing);
    Item {
        index,
        id: Some(id),
        status: status_of(standing.state).as_u16(),
        replayed: known,
        state: Some(state),
        reason,
        problem: None,
    }
}

impl Summary {
    /// What is noted of an array.
    fn ended(&self) -> ActEnd {
        let Summary { decided, refused, failed } = self;
        let told = format!("{decided} decided, {refused} refused, {failed} not known");
        match (*decided, *refused, *failed) {
            (_, _, 1..) => ActEnd { result: ActResult::Unknown, ..ActEnd::ok(told) },
            (0, 1.., 0) => ActEnd::refused(told),
            _ => ActEnd::ok(told),
        }
    }
}

fn summary(items: &[Item]) -> Summary {
    let mut summary = Summary::default();
    for item in items {
        *match item {
            Item { problem: None, .. } => &mut summary.decided,
            Item { status: 500.., .. } => &mut summary.failed,
            Item { .. } => &mut summary.refused,
        } += 1;
    }
    summary
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::*;

    fn received(body: &str) -> Received {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, JSON)]);
        Received::new(String::new(), "", headers, body.to_owned().into())
    }

    fn read(decision: Decision, body: &str) -> Result<Vec<Result<Wish, String>>, Problem> {
        let read = wishes(&received(body), decision, 4, &Notation::default());
        let told = |item: Result<Wish, Problem>| item.map_err(|problem| problem.detail);
        read.map(|items| items.into_iter().map(told).collect())
    }

    #[test]
    fn an_item_that_makes_no_sense_costs_its_neighbours_nothing() {
        let array = r#"[{"id":"a","value":3},{"id":"b","value":null},{"value":1},{"id":"c"}]"#;
        let items = read(Decision::Confirm, array).expect("an array");
        assert_eq!(items[0], Ok(("a".into(), Capture::Value(ledger::amount::Amount::Int(3)))));
        assert_eq!(items[3], Ok(("c".into(), Capture::All)));
        for (at, expected) in [(1, "value: is empty"), (2, "id: is missing")] {
            let refused = items[at].as_ref().expect_err(expected);
            assert!(refused.starts_with(expected), "{refused}");
        }
        for decision in [Decision::Release, Decision::Cancel] {
            let items = read(decision, r#"[{"id":"a"},{"id":"b","value":1},{"id":""}]"#);
            let items = items.expect("an array");
            assert_eq!(items[0], Ok(("a".into(), Capture::All)));
            assert!(items[1].as_ref().is_err_and(|told| told.starts_with("value: unknown field")));
            assert!(items[2].as_ref().is_err_and(|told| told.starts_with("id: is empty")));
        }
        for (body, expected) in [
            (r#"{"id":"a"}"#, "POST /v1/transactions/{id}/cancel"),
            ("[1,2,3,4,5]", "the array has 5 items; the limit is 4"),
            ("[", "the body is not JSON"),
        ] {
            let problem = read(Decision::Cancel, body).expect_err(body);
            assert!(problem.detail.contains(expected), "{}", problem.detail);
        }
    }

    #[test]
    fn what_is_behind_a_part_is_tried_unless_a_server_was_away_for_all_of_it() {
        let unavailable = |effect| Error::Unavailable {
            server: client::Server::MongoDb,
            problem: "away".to_owned(),
            after: Duration::ZERO,
            effect,
        };
        let refused = Error::NotFound { kind: client::Kind::Transaction, id: "a".to_owned() };
        let unknown = || Err(unavailable(client::Effect::Unknown));
        assert!(away(&[unknown(), Err(unavailable(client::Effect::None))]).is_some());
        assert!(away(&[unknown(), Err(refused)]).is_none());
    }

    #[test]
    fn what_was_not_tried_is_surely_not_decided_and_counts_as_failed() {
        let standings = Standings::new();
        let standing = Standing::in_state(client::State::Pending);
        let done = Done { standing, known: Some(true), unpublished: None };
        let outcomes: [Outcome; 4] = [
            (Some("a".to_owned()), Ok(("a".to_owned(), done))),
            (Some("b".to_owned()), Err(unheard())),
            (Some("c".to_owned()), Err(not_tried("the time of this request is over"))),
            (None, Err(Problem::field("id", "is missing"))),
        ];
        let items = outcomes.into_iter().enumerate();
        let items: Vec<Item> = items.map(|(at, one)| item(at, one, &standings)).collect();
        let statuses: Vec<u16> = items.iter().map(|item| item.status).collect();
        assert_eq!(statuses, [202, 503, 503, 422]);
        assert_eq!(summary(&items), Summary { decided: 1, refused: 1, failed: 2 });
        let told = serde_json::to_value(&items[2]).expect("JSON");
        assert_eq!(told["problem"]["type"], "urn:tandem:problem:unavailable");
        assert_eq!((told["id"].as_str(), told.get("replayed")), (Some("c"), None));
    }
}
