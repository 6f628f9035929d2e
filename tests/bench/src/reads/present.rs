//! What is in a ledger beside what has ended: holds, scheduled and parked transactions, dead
//! letters, and what people have done.
//!
//! Promises that the programs have made all of it: holds and moments come by the HTTP API and are
//! brought to rest by a worker, acts are done by the HTTP API. Only what is parked is parked as a
//! sweeper does it, and letters are put into the queue. Fails with a sentence that says which
//! request was answered how.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use harness::http::{self, Answer};
use harness::world::transfer;
use ledger::transaction::{ParkCode, Parked};
use mongo::raw_id;
use mongodb::bson::DateTime;
use queue::DEAD;
use serde_json::{Value, json};

use super::filled::Shape;
use crate::field::Field;

/// How long one answer may take.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(90);
/// How long a worker may need for all holds.
const HELD_LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When the scheduled ones are due, from now on.
const DUE_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
const VALUE: i64 = 5;
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// How many of each there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    /// Holds, and as many scheduled ones.
    pub(super) resting: usize,
    /// Parked ones.
    pub(super) parked: usize,
    /// Dead letters.
    pub(super) letters: usize,
    /// Acts on accounts: freezes, and as many that take them back.
    pub(super) acts: usize,
}

/// Makes them; the server of the API is at this address. Returns how many transactions there are
/// more.
pub(super) async fn make(
    field: &Field,
    api: SocketAddr,
    shape: &Shape,
    amounts: Amounts,
) -> Result<usize, String> {
    let due = DateTime::from_system_time(SystemTime::now() + DUE_AFTER);
    let due = due.try_to_rfc3339_string().map_err(|error| error.to_string())?;
    // Behind those that have ended.
    let numbers = shape.transactions..shape.transactions + amounts.resting;
    let holds: Vec<String> = numbers.clone().map(|number| shape.id(number)).collect();
    let scheduled: Vec<String> = numbers.map(|number| shape.id(number + amounts.resting)).collect();
    submit(api, shape, &holds, &json!({ "hold": true })).await?;
    submit(api, shape, &scheduled, &json!({ "notBefore": due })).await?;
    park(field, shape, amounts).await?;
    for number in 0..amounts.letters {
        let letter = json!({ "ids": [shape.id(number)] }).to_string();
        field.world.queues.publish_raw(DEAD, letter.as_bytes()).await;
    }
    act(api, shape, amounts.acts).await?;
    rest(api, &holds).await?;
    Ok(2 * amounts.resting + amounts.parked)
}

/// Submits transfers with one more field each.
async fn submit(
    api: SocketAddr,
    shape: &Shape,
    ids: &[String],
    more: &Value,
) -> Result<(), String> {
    let item = |(at, id): (usize, &String)| {
        let (source, destination) =
            (shape.names.account(at % 50), shape.names.account(at % 50 + 1));
        let mut item = json!({
            "id": id, "source": source, "destination": destination, "value": VALUE,
        });
        let fields = more.as_object().into_iter().flatten();
        fields.for_each(|(name, value)| item[name.as_str()] = value.clone());
        item
    };
    let items: Vec<Value> = ids.iter().enumerate().map(item).collect();
    let answer = post(api, "/v1/batch", &items.into()).await?;
    let taken = answer.json()["summary"]["submitted"].as_u64();
    match taken == Some(ids.len() as u64) {
        true => Ok(()),
        false => Err(format!("{} were to be submitted: {}", ids.len(), answer.body)),
    }
}

async fn park(field: &Field, shape: &Shape, amounts: Amounts) -> Result<(), String> {
    let first = shape.transactions + 2 * amounts.resting;
    let ids: Vec<String> = (first..first + amounts.parked).map(|n| shape.id(n)).collect();
    let [source, destination] = [0, 1].map(|account| shape.names.account(account));
    let transfers: Vec<_> =
        ids.iter().map(|id| transfer(id, &source, &destination, VALUE)).collect();
    field.world.insert(&transfers).await;
    let ids: Vec<_> = ids.iter().map(|id| raw_id(id)).collect();
    let why = Parked::new(ParkCode::KillsWorker, "its workers died with it");
    let parked = field.store.park_by_id(&ids, &why).await;
    parked.map_err(|error| format!("they can't be parked: {error}"))
}

/// Freezes accounts that have no transfers, and lets them go on.
async fn act(api: SocketAddr, shape: &Shape, count: usize) -> Result<(), String> {
    for number in 0..count {
        let silent = shape.accounts - shape.silent_from();
        let account = shape.names.account(shape.silent_from() + number % silent);
        for act in ["freeze", "unfreeze"] {
            let path = format!("/v1/accounts/{account}/{act}?reason=a+drill");
            post(api, &path, &Value::Null).await?;
        }
    }
    Ok(())
}

/// Waits until a worker has brought all of these on hold.
async fn rest(api: SocketAddr, ids: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    for id in ids {
        let path = format!("/v1/transactions/{id}");
        loop {
            let state = get(api, &path).await?.json()["state"].clone();
            if state == "held" {
                break;
            }
            if begun.elapsed() > HELD_LIMIT {
                return Err(format!("{id} is {state} and not held after {HELD_LIMIT:?}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// Reads; an answer that is not 200 is an error.
pub(super) async fn get(api: SocketAddr, path: &str) -> Result<Answer, String> {
    let answer = http::send(api, "GET", path, &[], "", ANSWER_LIMIT).await;
    good("GET", path, answer)
}

async fn post(api: SocketAddr, path: &str, body: &Value) -> Result<Answer, String> {
    let (headers, body) = match body {
        Value::Null => (&[][..], String::new()),
        body => (&[JSON][..], body.to_string()),
    };
    good("POST", path, http::send(api, "POST", path, headers, &body, ANSWER_LIMIT).await)
}

/// What an answer should be.
pub(super) fn good(method: &str, path: &str, answer: Option<Answer>) -> Result<Answer, String> {
    match answer {
        Some(answer) if answer.status == 200 => Ok(answer),
        Some(Answer { status, body, .. }) => {
            Err(format!("{method} {path} was answered {status}, not 200: {body}"))
        }
        None => Err(format!("{method} {path} had no answer within {ANSWER_LIMIT:?}")),
    }
}
