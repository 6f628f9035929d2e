//! Collections, validators and indexes.
//!
//! Promises that repeating it changes nothing and that several processes may do it at once.
//! The validators keep floats and half-written documents out, whoever writes; all finer rules are
//! the producer's (`Body`) and the worker's, who cancel what breaks them. The validators are plain
//! queries: each of the five writes of a transfer would pay 2 µs more for a `$jsonSchema`.
//! `{$gt: ""}` is a string that is not empty: comparisons never cross types.

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, ErrorKind};

use super::Store;
use crate::account::Status;
use crate::ledger::LedgerError;
use crate::transaction::State;

const NAMESPACE_EXISTS: i32 = 48;

pub(super) async fn ensure(store: &Store) -> Result<(), LedgerError> {
    collection(store, "accounts", accounts_validator()).await?;
    collection(store, "transactions", transactions_validator()).await?;
    let database = store.database().clone();
    store
        .limited("indexes", async move { database.run_command(transaction_indexes()).await })
        .await
        .map(|_| ())
}

async fn collection(
    store: &Store,
    name: &'static str,
    validator: Document,
) -> Result<(), LedgerError> {
    let database = store.database().clone();
    store
        .limited("schema", async move {
            let mut found = database.list_collections().filter(doc! { "name": name }).await?;
            let existing = found.try_next().await?;
            match existing {
                None => {
                    let create = doc! { "create": name, "validator": &validator };
                    match database.run_command(create).await {
                        Err(error) if code(&error) == Some(NAMESPACE_EXISTS) => {}
                        created => return created.map(|_| ()),
                    }
                }
                Some(existing) if existing.options.validator.as_ref() == Some(&validator) => {
                    return Ok(());
                }
                Some(_) => {}
            }
            let change = doc! { "collMod": name, "validator": validator };
            database.run_command(change).await.map(|_| ())
        })
        .await
}

fn code(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        _ => None,
    }
}

/// Only the indexes that a query needs; `_id` serves all others.
fn transaction_indexes() -> Document {
    let in_flight = State::IN_FLIGHT.map(Bson::from).to_vec();
    doc! {
        "createIndexes": "transactions",
        "indexes": [
            // The sweeper: `initial` documents whose message got lost, oldest first.
            {
                "name": "unclaimed",
                "key": { "createdAt": 1 },
                "partialFilterExpression": { "state": State::Initial },
            },
            // The sweeper: transactions in flight whose owner is gone. The key does not change
            // from claim to the end, so a state change costs no index write.
            {
                "name": "in_flight",
                "key": { "takeoverAt": 1 },
                "partialFilterExpression": { "state": { "$in": in_flight } },
            },
        ],
    }
}

/// What BSON numbers an amount may be.
const AMOUNT: [&str; 3] = ["long", "int", "decimal"];

fn accounts_validator() -> Document {
    let amount = doc! { "$type": &AMOUNT[..] };
    doc! {
        "_id": { "$gt": "" },
        "balance": &amount,
        "pendingDebits": &amount,
        "pendingCredits": &amount,
        "openingBalance": &amount,
        "pendingTransactions": { "$type": "array" },
        "floor": { "$type": ["long", "int", "decimal", "null"] },
        "status": { "$in": Status::ALL.map(|s| Bson::from(s.as_str())).to_vec() },
    }
}

fn transactions_validator() -> Document {
    let text = doc! { "$gt": "" };
    doc! {
        "_id": &text,
        "state": { "$in": State::ALL.map(Bson::from).to_vec() },
        "createdAt": { "$type": "date" },
        "lastModified": { "$type": "date" },
        "$or": [
            { "value": { "$type": &AMOUNT[..] }, "source": &text, "destination": &text, "legs": null },
            { "legs": { "$type": "array" }, "value": null },
        ],
        // A claim counts the attempts, which what is no whole number would make fail. A list matches
        // when one of its elements does.
        "$nor": [
            { "attempts": { "$exists": true, "$not": { "$type": ["int", "long"] } } },
            { "attempts": { "$type": "array" } },
            { "state": { "$type": "array" } },
        ],
    }
}
