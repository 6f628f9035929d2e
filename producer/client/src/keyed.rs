//! Inserting an order that has an exclusive key, until it is known what became of it.
//!
//! Owns telling apart what stands in the way of such an insert: its own `_id` (it is known, or the
//! answer of an earlier attempt was lost), another transaction with the key, or neither (then that
//! was decided a moment ago). Promises that whoever is refused because of a key is not paid later:
//! see [`Store::insert_together`]. Fails when MongoDB is away, or when the key's fate stays open
//! for seconds.

use std::time::Duration;

use ledger::LedgerError;
use ledger::retry::{Policy, jitter};
use mongo::{KeyedInsert, Store};
use mongodb::bson::DateTime;
use tokio::sync::Semaphore;

use crate::known::{Answer, find_one};
use crate::submission::Order;

/// How often an order is tried in one go: for longer than it takes until a client that is gone may
/// be told from one that is slow.
const TRIES_MAX: u32 = 20;

/// After so many tries in vain it is looked whether a client that is gone holds the key.
const TRIES_BEFORE_LOOKING: u32 = 5;

/// The pauses between tries: whoever stands in the way is through within milliseconds.
const PAUSES: Policy = Policy { first: Duration::from_millis(5), max: Duration::from_millis(500) };

/// Inserts an order with a key. It was looked for its `_id` before, and the ledger keeps keys.
///
/// # Errors
/// When the outcome is unknown, or MongoDB is away.
pub(crate) async fn insert(
    store: &Store,
    order: &Order,
    created_at: DateTime,
    keys: &Semaphore,
) -> Result<Answer, LedgerError> {
    let (document, array) = (order.to_raw(created_at), order.array());
    let (under, turn) = (array.map(|it| &it.under), array.map_or(keys, |it| &it.turn));
    for tries in 1..=TRIES_MAX {
        // Not held while it waits: whoever keeps a key open would keep the permits from all others.
        let permit = turn.acquire().await.expect("it is never closed");
        match store.insert_together(vec![document.clone()], under).await? {
            KeyedInsert::Inserted => return Ok(Answer::Submitted),
            KeyedInsert::Refused(refused) => return Ok(Answer::Refused(refused.problem)),
            KeyedInsert::Taken(refused) => {
                let known = find_one(store, order, created_at).await?;
                return Ok(known.unwrap_or(Answer::Refused(refused.problem)));
            }
            KeyedInsert::Superseded => {
                let known = find_one(store, order, created_at).await?;
                return Ok(known.unwrap_or(Answer::Superseded));
            }
            KeyedInsert::Duplicate => {
                if let Some(answer) = in_the_way(store, order, created_at).await? {
                    return Ok(answer);
                }
            }
            KeyedInsert::Conflict if tries > TRIES_BEFORE_LOOKING => end_abandoned(store).await,
            KeyedInsert::Conflict => {}
        }
        drop(permit);
        tokio::time::sleep(PAUSES.delay(tries, jitter())).await;
    }
    let message = format!("exclusiveKey {:?} is being written by another client", key(order));
    // None of the tries was committed.
    Err(LedgerError::passing("insert with key", message).without_effect())
}

fn key(order: &Order) -> &str {
    order.body.terms().exclusive_key.as_deref().unwrap_or_default()
}

/// Where this fails, the server ends the transaction after a minute.
async fn end_abandoned(store: &Store) {
    match store.end_abandoned().await {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "a client that is gone held an exclusive key"),
        Err(error) => tracing::debug!(%error, "an abandoned transaction has to run out"),
    }
}

/// What stands in the way. The `_id` first: it may be this order, whose answer was lost, and which
/// has the key.
async fn in_the_way(
    store: &Store,
    order: &Order,
    created_at: DateTime,
) -> Result<Option<Answer>, LedgerError> {
    if let Some(known) = find_one(store, order, created_at).await? {
        return Ok(Some(known));
    }
    let holder = store.holder_of_key(key(order)).await?;
    // It may have become durable between the two looks.
    let other = holder.filter(|holder| **holder != *order.id);
    let key = key(order).to_owned();
    Ok(other.map(|holder| Answer::KeyInUse { key, holder }))
}
