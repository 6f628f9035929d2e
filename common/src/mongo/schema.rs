//! Collections, validators and indexes.
//!
//! Promises that repeating it changes nothing and that several processes may do it at once.
//! What the validators admit is in [`validators`].

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, ErrorKind};

use super::{Store, validators};
use crate::ledger::LedgerError;
use crate::transaction::State;

const NAMESPACE_EXISTS: i32 = 48;

pub(super) async fn ensure(store: &Store) -> Result<(), LedgerError> {
    collection(store, "accounts", validators::accounts()).await?;
    collection(store, "transactions", validators::transactions()).await?;
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
