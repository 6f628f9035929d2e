//! Holds: what clients and operators do with them, and what comes of it.
//!
//! - `deciding`: confirming and releasing, on documents as workers leave them; no worker runs.
//! - `many`: confirming many at once. `arrays`: deciding many by HTTP.
//! - `telling`: the HTTP API, lists, accounts and pages.
//! - `life`: from the submission to the end, with workers.
//! - `engine`: what workers make of them.
//! - `late`: what arrives when the hold has moved on.

mod arrays;
mod deciding;
mod engine;
mod late;
mod life;
mod many;
mod telling;

use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, Terms, TransactionId};
use mongodb::bson::{DateTime, Document, doc};

/// A card with 100 and a shop without anything.
async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("card", 100), ("shop", 0), ("fee", 0)]).await;
    world
}

fn leg(account: &str, amount: i64) -> Leg {
    Leg { account: account.into(), amount: Amount::Int(amount) }
}

/// A hold to submit.
fn on_hold((id, body): (TransactionId, Body), expires: Option<DateTime>) -> (TransactionId, Body) {
    let terms = Terms { hold: true, hold_expires_at: expires, ..Terms::default() };
    (id, body.with_terms(terms).expect("terms that fit"))
}

/// A hold as a worker leaves it: so much of the card is reserved for the shop.
async fn held(world: &World, id: &str, value: i64, expires: Option<DateTime>) {
    let (id, body) = on_hold(transfer(id, "card", "shop", value), expires);
    let mut document = body.to_document(&id, DateTime::now());
    document.insert("state", State::Held.as_str());
    document.insert("attempts", 1);
    document.insert("takeoverAt", DateTime::now());
    if let Some(expires) = expires {
        document.insert("dueAt", expires);
    }
    world.store.transactions().insert_one(document).await.expect("MongoDB is there");
    let update = doc! {
        "$inc": { "balance": -value, "pendingDebits": value, "pendingHolds": 1 },
        "$push": { "pendingTransactions": id.as_ref() },
    };
    let card = doc! { "_id": "card" };
    world.store.accounts().update_one(card, update).await.expect("MongoDB is there");
}

async fn account(world: &World, id: &str) -> Document {
    let found = world.store.accounts().find_one(doc! { "_id": id }).await;
    found.expect("MongoDB is there").expect("the account is there")
}

/// So many milliseconds from now.
fn from_now(ms: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + ms)
}
