//! Accounts and transactions as other programs write them: whole numbers as Int32 and as doubles,
//! and fields left out. Both engines settle them, and write Int64.

use harness::odd;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{State, TransactionId};
use mongo::Choice;
use mongodb::bson::spec::ElementType;
use mongodb::bson::{Bson, Document, doc};

use crate::history::world_with_history;

pub const ENGINES: [&str; 2] = ["two-phase", "transaction"];

/// Takes the validators away, as in a database that never had any.
pub async fn drop_validators(world: &World) {
    world.choose(Choice { validators: Some(false), ..Choice::default() }).await;
    for collection in ["accounts", "transactions"] {
        let off = doc! { "collMod": collection, "validator": {}, "validationLevel": "off" };
        world.store.database().run_command(off).await.expect("the validator can be taken away");
    }
}

pub async fn account(world: &World, id: &str) -> Document {
    let found = world.store.accounts().find_one(doc! { "_id": id }).await;
    found.expect("MongoDB is there").expect("the account is there")
}

/// Inserts documents of transactions as others do, and publishes their ids.
pub async fn submit(world: &World, transactions: &[Document]) {
    let inserted = world.store.transactions().insert_many(transactions).await;
    inserted.expect("the validator takes them");
    let id = |document: &Document| TransactionId::from(document.get_str("_id").expect("an id"));
    let ids: Vec<TransactionId> = transactions.iter().map(id).collect();
    world.publish(&ids, ids.len()).await;
}

/// A transfer with this value.
pub fn pays(id: &str, from: &str, to: &str, value: impl Into<Bson>) -> Document {
    let mut document = odd::transfer(id, from, to, 0);
    document.insert("value", value);
    document
}

/// The balance is this, as Int64, and the account has its opening.
async fn assert_has(world: &World, id: &str, balance: i64) {
    let account = account(world, id).await;
    assert_eq!(account.get("balance"), Some(&Bson::Int64(balance)), "{account}");
    let opening = account.get("openingBalance").map(Bson::element_type);
    assert!(opening.is_some_and(|kind| kind != ElementType::Null), "{account}");
}

fn accounts() -> Vec<Document> {
    let nothing = Bson::Null;
    vec![
        doc! { "_id": "int32", "balance": 1_000, "pendingTransactions": [] },
        doc! { "_id": "double", "balance": 1_000.0, "pendingTransactions": [], "note": 1.5 },
        doc! { "_id": "empty" },
        doc! {
            "_id": "null", "balance": &nothing, "pendingDebits": &nothing, "status": &nothing,
            "pendingCredits": &nothing, "pendingTransactions": &nothing,
            "openingBalance": &nothing, "floor": &nothing,
        },
    ]
}

fn transactions() -> Vec<Document> {
    let leg = |account: &str, amount: Bson| doc! { "account": account, "amount": amount };
    let mut split = odd::transfer("split", "", "", 0);
    ["source", "destination", "value"].iter().for_each(|field| drop(split.remove(field)));
    let legs = [("int32", (-30).into()), ("empty", 10.0.into()), ("null", 20_i64.into())];
    split.insert("legs", legs.map(|(account, amount)| leg(account, amount)).to_vec());
    vec![
        pays("int32-to-empty", "int32", "empty", 100),
        pays("double-to-empty", "double", "empty", 50.0),
        pays("unlimited", "null", "double", 7.0),
        pays("too-much", "empty", "double", 1_000_000),
        split,
    ]
}

#[tokio::test]
async fn what_others_write_is_settled_by_both_engines_and_becomes_int64() {
    for (engine, validated) in ENGINES.into_iter().flat_map(|e| [(e, true), (e, false)]) {
        let world = World::new().await;
        if !validated {
            drop_validators(&world).await;
        }
        let inserted = world.store.accounts().insert_many(accounts()).await;
        inserted.expect("the validator takes them");
        world.assert_at_rest().await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        submit(&world, &transactions()).await;
        world.wait_final(s(60)).await;
        let reason = world.reason("too-much").await;
        assert_eq!(reason.as_deref(), Some("insufficient_funds"), "a missing floor is 0");
        assert_eq!(world.count(&[State::Done]).await, 4, "{engine}, validators: {validated}");
        for (id, balance) in [("int32", 870), ("double", 957), ("empty", 160), ("null", 13)] {
            assert_has(&world, id, balance).await;
        }
        assert_eq!(account(&world, "double").await.get_f64("note").ok(), Some(1.5), "it is theirs");
        let opened = account(&world, "empty").await;
        assert_eq!(opened.get("openingBalance"), Some(&Bson::Int64(0)), "{opened}");
        world.assert_at_rest().await;
        world.producer(&["reverse", "double-to-empty", "--wait"]).await.expect_success();
        assert_has(&world, "double", 1_007).await;
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn holds_of_what_others_write_are_confirmed_released_and_canceled() {
    for engine in ENGINES {
        let world = World::new().await;
        let inserted = world.store.accounts().insert_many(accounts()).await;
        inserted.expect("the validator takes them");
        let worker = world.worker("one").flag("--engine", engine).start().await;
        let hold = |id: &str, value: Bson| {
            let mut document = pays(id, "double", "empty", value);
            document.insert("hold", true);
            document
        };
        submit(&world, &[hold("kept", 40.0.into()), hold("freed", 5.into())]).await;
        world.wait_state("kept", State::Held, s(30)).await;
        world.wait_state("freed", State::Held, s(30)).await;
        world.assert_at_rest().await;
        // Somebody adds nothing, and makes every number a double again.
        let nothing = doc! { "$inc": { "balance": 0.0, "pendingDebits": 0.0 } };
        odd::edit(&world.store.accounts(), "double", nothing).await;
        world.producer(&["confirm", "kept", "--value", "30", "--wait"]).await.expect_success();
        world.producer(&["release", "freed", "--wait"]).await.expect_success();
        assert_has(&world, "double", 970).await;
        assert_has(&world, "empty", 30).await;
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

/// An account of 50 and one of nothing. While a transfer of 5 between them is held at this
/// operation, `edit` changes the other account.
async fn edited_in_flight(
    transfers: &[Document],
    operation: &str,
    edits: &[(&str, Document)],
) -> World {
    let world = World::new().await;
    let accounts = [doc! { "_id": "a", "balance": 50.0 }, doc! { "_id": "b", "balance": 0.0 }];
    world.store.accounts().insert_many(accounts).await.expect("the validator takes them");
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = world.worker("one").mongodb(&uri).start().await;
    let held = proxy.hold(operation, 1, Part::Request);
    submit(&world, transfers).await;
    held.caught(s(30)).await;
    for (id, edit) in edits {
        odd::edit(&world.store.accounts(), id, edit.clone()).await;
        let edited = account(&world, id).await;
        let kind = edited.get("balance").map(Bson::element_type);
        assert_eq!(kind, Some(ElementType::Double), "it is a double again: {edited}");
    }
    held.release();
    wait_until("all have ended or are parked", s(60), async || {
        let parked = doc! { "parked": { "$ne": null } };
        let parked = world.store.transactions().count_documents(parked).await;
        world.count(&State::UNFINISHED).await == parked.expect("MongoDB is there")
    })
    .await;
    drop(worker);
    world
}

#[tokio::test]
async fn doubles_that_are_added_between_post_and_settlement_strand_nothing() {
    let added = doc! { "$inc": { "balance": 5.0, "openingBalance": 5.0, "pendingDebits": 0.0 } };
    let edits = [("a", added.clone()), ("b", added)];
    let world = edited_in_flight(&[pays("t", "a", "b", 5)], "applied", &edits).await;
    assert_eq!(world.state("t").await, State::Done);
    for (id, balance) in [("a", 50), ("b", 10)] {
        assert_has(&world, id, balance).await;
    }
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn doubles_that_are_added_before_an_undoing_strand_nothing() {
    let added = doc! { "$inc": { "balance": 5.0, "openingBalance": 5.0, "pendingDebits": 0.0 } };
    let refused = [pays("t", "a", "nobody", 5.0)];
    let world = edited_in_flight(&refused, "cancel", &[("a", added)]).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("account_not_found"));
    assert_has(&world, "a", 55).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_fraction_that_is_added_in_flight_is_told_and_strands_nothing_for_good() {
    let half = doc! { "$inc": { "balance": 0.5 } };
    let world = edited_in_flight(&[pays("t", "a", "b", 5)], "applied", &[("b", half)]).await;
    assert_eq!(world.state("t").await, State::Applied, "its state stays");
    let parked = world.transaction("t").await;
    let why = parked.get_document("parked").and_then(|why| why.get_str("message"));
    let why = why.expect("a sentence");
    for told in ["account \"b\"", "balance: 0.5 is a double with a fraction", "producer unpark t"] {
        assert!(why.contains(told), "{why}");
    }
    let marks = account(&world, "b").await.get_array("pendingTransactions").map(Vec::len);
    assert_eq!(marks.ok(), Some(1), "its mark stays");
    let audit = world.producer(&["audit"]).await;
    assert!(audit.stdout.contains("balance: 0.5 is a double with a fraction"), "{audit:?}");
    odd::edit(&world.store.accounts(), "b", doc! { "$inc": { "balance": -0.5 } }).await;
    world.producer(&["unpark", "t"]).await.expect_success();
    let worker = world.worker("two").start().await;
    world.wait_state("t", State::Done, s(60)).await;
    assert_has(&world, "b", 5).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_nothing_was_posted_to_is_shown_frozen_and_closed_like_others() {
    let world = world_with_history().await;
    let documents = [doc! { "_id": "empty" }, doc! { "_id": "double", "balance": 7.0 }];
    world.store.accounts().insert_many(documents).await.expect("the validator takes them");
    let shown = world.producer(&["accounts", "show", "empty", "double"]).await.expect_success();
    assert!(shown.stdout.contains("empty  balance 0  held 0  coming 0  floor 0"), "{shown:?}");
    assert!(shown.stdout.contains("double  balance 7  held 0"), "{shown:?}");
    let statement = world.producer(&["accounts", "statement", "double"]).await.expect_success();
    assert!(!statement.stdout.contains("null"), "{statement:?}");
    world.producer(&["accounts", "freeze", "empty"]).await.expect_success();
    world.producer(&["accounts", "unfreeze", "empty"]).await.expect_success();
    world.producer(&["accounts", "close", "empty"]).await.expect_success();
    let refused = world.producer(&["accounts", "close", "double"]).await;
    assert_eq!(refused.code, Some(1), "it has money: {refused:?}");
    let worker = world.worker("one").start().await;
    world.submit(&[transfer("t", "double", "empty", 1)], 1).await;
    world.wait_final(s(30)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("account_closed"));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
