//! Bulkheads: whatever is wrong with one transaction, account, id or message, the transactions of
//! others end as if it were not there.

mod accounts;
mod backlog;
mod documents;
mod fields;
mod in_flight;
mod journal;
mod messages;
mod parked;
mod payrolls;
mod strangers;

use std::time::Duration;

use futures_util::TryStreamExt;
use harness::odd;
use harness::wait::{s, wait_until};
use harness::worker::Plan;
use harness::world::{World, transfer};
use ledger::transaction::{Body, State, TransactionId};
use mongo::NOTES;
use mongodb::bson::{Document, doc};

/// Within this time a good transaction that is beside an odd one must be settled. It is far below
/// 30 s, the time after which sweepers publish an id again.
const SOON: Duration = Duration::from_secs(20);

/// A worker whose sweeper publishes no `initial` transaction while a test runs, so that the sweeper
/// can't be the reason why something is settled.
fn worker_without_sweeper(world: &World) -> Plan {
    world.worker("one").flag("--orphan-ms", 600_000)
}

/// So many good transfers of 1 from `a` to `b`.
fn good(count: usize) -> Vec<(TransactionId, Body)> {
    (0..count).map(|n| transfer(&format!("good-{n:03}"), "a", "b", 1)).collect()
}

fn ids(transactions: &[(TransactionId, Body)]) -> Vec<TransactionId> {
    transactions.iter().map(|(id, _)| id.clone()).collect()
}

/// Inserts good transfers, and publishes them in one message with the ids of odd documents, which
/// stand between them.
async fn submit_beside(world: &World, good: &[(TransactionId, Body)], odd: &[&str]) {
    world.insert(good).await;
    let mut all = ids(good);
    let middle = all.len() / 2;
    all.splice(middle..middle, odd.iter().map(|id| TransactionId::from(*id)));
    world.publish(&all, all.len()).await;
}

/// Waits until all of these are `done`.
async fn wait_done(world: &World, transactions: &[(TransactionId, Body)], limit: Duration) {
    let ids = ids(transactions);
    let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let settled = doc! { "_id": { "$in": &ids }, "state": State::Done };
    let what = format!("the {} good transactions are done", ids.len());
    wait_until(&what, limit, async || {
        let count = world.store.transactions().count_documents(settled.clone()).await;
        count.expect("MongoDB is there") == ids.len() as u64
    })
    .await;
}

/// Whether a transaction is parked: in its document, or, if that can't be written, in the notes.
async fn is_parked(world: &World, id: &str) -> bool {
    let parked = world.store.database().collection::<Document>(NOTES);
    let beside = parked.find_one(doc! { "_id": id }).await.expect("MongoDB is there");
    let there = doc! { "_id": id, "parked": { "$type": "object" } };
    let within = world.store.transactions().find_one(there).projection(doc! { "_id": 1 }).await;
    beside.is_some() || within.expect("MongoDB is there").is_some()
}

/// Waits until a transaction is final or parked, so that it holds up no other.
async fn wait_ended_or_parked(world: &World, id: &str, limit: Duration) {
    let what = format!("{id} is done, canceled or parked");
    wait_until(&what, limit, async || {
        let ended = doc! { "_id": id, "state": { "$in": [State::Done, State::Canceled] } };
        let found = world.store.transactions().find_one(ended).projection(doc! { "_id": 1 }).await;
        found.expect("MongoDB is there").is_some() || is_parked(world, id).await
    })
    .await;
}

/// Waits until sweepers have gone through all waiting transactions once more: until they have
/// published one that was inserted just now and never published.
async fn wait_for_a_sweep(world: &World, name: &str) {
    world.insert(&[transfer(name, "a", "b", 1)]).await;
    world.wait_state(name, State::Done, s(60)).await;
}

/// Removes odd documents, so that the rules of rest can be checked for all others. Of what was
/// canceled, the end stays, because its line names it.
async fn remove(world: &World, collection: &str, ids: &[&str]) {
    let collection = world.store.database().collection::<Document>(collection);
    let canceled =
        doc! { "_id": { "$in": ids }, "state": State::Canceled, "line": { "$exists": true } };
    let ends =
        collection.find(canceled).projection(doc! { "state": 1, "line": 1, "reason.code": 1 });
    let ends: Vec<Document> =
        ends.await.expect("MongoDB is there").try_collect().await.expect("these can be read");
    collection.delete_many(doc! { "_id": { "$in": ids } }).await.expect("MongoDB is there");
    if !ends.is_empty() {
        odd::insert(&collection, &ends).await;
    }
}

/// The validator of a collection.
async fn validator(world: &World, collection: &str) -> Document {
    let database = world.store.database();
    let mut found = database.list_collections().filter(doc! { "name": collection }).await;
    let found = found.as_mut().expect("MongoDB is there").try_next().await;
    let found = found.expect("MongoDB is there").expect("the collection is there");
    found.options.validator.unwrap_or_default()
}

/// Replaces the validator of a collection.
async fn set_validator(world: &World, collection: &str, validator: Document) {
    let change = doc! { "collMod": collection, "validator": validator };
    world.store.database().run_command(change).await.expect("the validator is changed");
}

/// Adds an unexpected rule to the validator of a collection; returns the validator as it was.
pub async fn add_rule(world: &World, collection: &str, rule: Document) -> Document {
    let before = validator(world, collection).await;
    set_validator(world, collection, doc! { "$and": [before.clone(), rule] }).await;
    before
}
