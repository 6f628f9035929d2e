//! A transaction document that can't be read, claimed or written does not affect other
//! transactions.

use harness::odd::{self, bookkeeping_faults, large};
use harness::queues::DeadLetter;
use harness::wait::s;
use harness::world::World;
use ledger::transaction::State;
use mongo::NOTES;
use mongodb::bson::{Bson, DateTime, Document, doc};
use queue::DEAD;

use super::{
    SOON, good, is_parked, submit_beside, wait_done, wait_ended_or_parked, wait_for_a_sweep,
    worker_without_sweeper,
};

/// The most bytes of a reason's message, whatever it repeats.
const REASON_BYTES_MAX: usize = 1_024;

/// An id that no message may contain, because it has a control character.
const BAD_ID: &str = "bad\n";

#[tokio::test]
async fn an_id_that_no_message_can_carry_costs_only_itself() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    odd::insert(&world.store.transactions(), &[odd::transfer(BAD_ID, "a", "b", 1)]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(99);
    submit_beside(&world, &good, &[BAD_ID]).await;
    wait_done(&world, &good, SOON).await;
    if world.queues.depth(DEAD).await != Some(0) {
        let letters: Vec<DeadLetter> = world.queues.dead_letters(1, s(10)).await;
        let body = String::from_utf8_lossy(&letters[0].body);
        assert!(!body.contains("good-"), "a neighbour is in the dead letter: {body}");
    }
    drop(worker);
    super::remove(&world, "transactions", &[BAD_ID]).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_id_that_no_message_can_carry_is_not_published_again_and_again() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    odd::insert(&world.store.transactions(), &[odd::transfer(BAD_ID, "a", "b", 1)]).await;
    let sweeping = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100);
    let worker = sweeping.start().await;
    // The first sweep may still find it, and has to park it.
    wait_for_a_sweep(&world, "sweep-0").await;
    wait_for_a_sweep(&world, "sweep-1").await;
    let depth = world.queues.depth(DEAD).await;
    let transactions = world.store.transactions();
    for n in 2..6 {
        // Transactions that were stamped for 30 s are due again. Parked ones stay parked.
        let soon = DateTime::from_millis(DateTime::now().timestamp_millis() + 120_000);
        let stamped = doc! { "_id": BAD_ID, "sweepAfter": { "$lt": soon } };
        let due = transactions.update_one(stamped, doc! { "$unset": { "sweepAfter": "" } });
        due.bypass_document_validation(true).await.expect("MongoDB is there");
        wait_for_a_sweep(&world, &format!("sweep-{n}")).await;
    }
    assert_eq!(world.queues.depth(DEAD).await, depth, "it was published again");
    drop(worker);
    super::remove(&world, "transactions", &[BAD_ID]).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_validator_refuses_an_id_that_no_message_can_carry() {
    let world = World::new().await;
    let long = "x".repeat(201);
    for id in [BAD_ID, "\u{1}", "tab\tin it", "\u{7f}", &long] {
        let inserted = world.store.transactions().insert_one(odd::transfer(id, "a", "b", 1)).await;
        assert!(inserted.is_err(), "{id:?} was taken");
    }
    let longest = "y".repeat(200);
    for id in ["plain", "with space", "ünïcode", "$dollar.and.dot", &longest] {
        let inserted = world.store.transactions().insert_one(odd::transfer(id, "a", "b", 1)).await;
        inserted.unwrap_or_else(|error| panic!("{id:?} was refused: {error}"));
    }
    world.finish().await;
}

#[tokio::test]
async fn a_currency_of_many_megabytes_costs_only_its_own_transaction() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let mut document = odd::transfer("odd", "a", "b", 1);
    document.insert("currency", large());
    odd::insert(&world.store.transactions(), &[document]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &["odd"]).await;
    wait_done(&world, &good, SOON).await;
    world.wait_state("odd", State::Canceled, s(60)).await;
    assert_eq!(reason(&world, "odd").await.0, "invalid");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Code and message of a cancelation.
async fn reason(world: &World, id: &str) -> (String, String) {
    let fields = doc! { "reason": 1 };
    let found = world.store.transactions().find_one(doc! { "_id": id }).projection(fields).await;
    let found = found.expect("MongoDB is there").expect("the transaction is there");
    let reason = found.get_document("reason").expect("a reason");
    let text = |field: &str| reason.get_str(field).expect("text").to_owned();
    let (code, message) = (text("code"), text("message"));
    assert!(message.len() < REASON_BYTES_MAX, "{id}: a reason of {} bytes", message.len());
    (code, message)
}

/// Documents that are far too large in one place, and the state in which each must end; `None` for
/// one that the validator refuses to change: it can only be parked.
fn oversized() -> Vec<(Document, Option<State>)> {
    let with = |id: &str, field: &str, value: Bson| {
        let mut document = odd::transfer(id, "a", "b", 1);
        document.insert(field, value);
        document
    };
    let with_legs = |id: &str, legs: Vec<Document>| {
        let mut document = odd::transfer(id, "a", "b", 1);
        for field in ["source", "destination", "value"] {
            document.remove(field);
        }
        document.insert("legs", legs);
        document
    };
    let leg = |account: &str, amount: i64| doc! { "account": account, "amount": amount };
    let many = (0..100_000).map(|n| leg(&format!("account-{n}"), 1)).collect();
    vec![
        (with("large-value", "value", large().into()), None),
        (with("large-source", "source", large().into()), Some(State::Canceled)),
        (with("large-currency", "currency", large().into()), Some(State::Canceled)),
        (with_legs("large-leg", vec![leg(&large(), -1), leg("b", 1)]), Some(State::Canceled)),
        (with_legs("many-legs", many), Some(State::Canceled)),
        // No worker reads either of them.
        (with("large-metadata", "metadata", doc! { "note": large() }.into()), Some(State::Done)),
        (with("large-foreign-field", "attachment", large().into()), Some(State::Done)),
    ]
}

#[tokio::test]
async fn documents_of_many_megabytes_cost_only_themselves() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let oversized = oversized();
    for (document, _) in &oversized {
        odd::insert(&world.store.transactions(), std::slice::from_ref(document)).await;
    }
    let id = |document: &Document| document.get_str("_id").expect("an id").to_owned();
    let odd_ids: Vec<String> = oversized.iter().map(|(document, _)| id(document)).collect();
    // A busy server takes seconds to write one of these. A worker that gives it less parks it, after
    // so many attempts.
    let worker = worker_without_sweeper(&world).flag("--lease-ms", 20_000);
    let worker = worker.flag("--op-limit-ms", 8_000).flag("--grace-ms", 9_000).start().await;
    let good = good(9);
    let names: Vec<&str> = odd_ids.iter().map(String::as_str).collect();
    submit_beside(&world, &good, &names).await;
    wait_done(&world, &good, SOON).await;
    for ((_, end), id) in oversized.iter().zip(&odd_ids) {
        wait_ended_or_parked(&world, id, s(60)).await;
        let Some(end) = end else {
            assert!(is_parked(&world, id).await, "{id} is not parked");
            continue;
        };
        assert_eq!(world.state(id).await, *end, "{id}");
        if *end == State::Canceled {
            let reason = reason(&world, id).await;
            assert_eq!(reason.0, "invalid", "{id}: {}", reason.1);
        }
    }
    drop(worker);
    super::remove(&world, "transactions", &["large-value"]).await;
    super::remove(&world, NOTES, &["large-value"]).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_senseless_transaction_whose_worker_died_between_canceling_and_canceled_is_canceled() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    // As the first worker leaves it, and then as a second one.
    let left_behind = [("once", 1, true), ("again", 7, true), ("perhaps-posted", 1, false)];
    for (id, attempts, never_posted) in left_behind {
        // The validator lets it pass, and no worker takes it for a name.
        let mut document = odd::transfer(id, &"x".repeat(1_000), "b", 1);
        document.insert("state", State::Canceling);
        let mut reason = doc! { "code": "invalid", "message": "it makes no sense" };
        if never_posted {
            reason.insert("neverPosted", true);
        }
        let bookkeeping = doc! {
            "reason": reason, "attempts": attempts, "claim": "of-the-dead",
            "takeoverAt": DateTime::from_millis(0),
        };
        document.extend(bookkeeping);
        odd::insert(&world.store.transactions(), &[document]).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    submit_beside(&world, &good(9), &left_behind.map(|(id, ..)| id)).await;
    wait_done(&world, &good(9), SOON).await;
    for (id, _, never_posted) in left_behind {
        wait_ended_or_parked(&world, id, s(60)).await;
        assert_eq!(is_parked(&world, id).await, !never_posted, "{id}");
    }
    drop(worker);
    super::remove(&world, "transactions", &["perhaps-posted"]).await;
    super::remove(&world, NOTES, &["perhaps-posted"]).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_that_cannot_be_claimed_costs_only_itself() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let mut odd_ids: Vec<String> = Vec::new();
    let mut documents = Vec::new();
    for (name, fields) in bookkeeping_faults() {
        let mut document = odd::transfer(name, "a", "b", 1);
        document.extend(fields);
        odd_ids.push(name.to_owned());
        documents.push(document);
    }
    // The server lets no document grow beyond its limit, so a claim can't be written into this one.
    documents.push(odd::filled_up(odd::transfer("no-room", "a", "b", 1), 60));
    odd_ids.push("no-room".to_owned());
    odd::insert(&world.store.transactions(), &documents).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    let names: Vec<&str> = odd_ids.iter().map(String::as_str).collect();
    submit_beside(&world, &good, &names).await;
    wait_done(&world, &good, SOON).await;
    for id in &names {
        wait_ended_or_parked(&world, id, s(60)).await;
    }
    drop(worker);
    let mut unfinished = Vec::new();
    for id in &names {
        if is_parked(&world, id).await {
            unfinished.push(*id);
        }
    }
    // These parked transactions were never posted, so they can be deleted without a trace.
    super::remove(&world, "transactions", &unfinished).await;
    super::remove(&world, NOTES, &unfinished).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn text_that_is_not_utf8_and_keys_that_repeat_are_canceled_alone() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let odd = [
        ("not-utf8", odd::with_bytes_that_are_no_text(odd::transfer("not-utf8", "a", "b", 1))),
        ("repeated", odd::with_repeated_keys("repeated", "a", "b")),
    ];
    for (_, document) in &odd {
        odd::insert_raw(&world.store.transactions(), document).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &odd.each_ref().map(|(id, _)| *id)).await;
    wait_done(&world, &good, SOON).await;
    world.wait_final(s(60)).await;
    for (id, _) in &odd {
        assert_eq!(reason(&world, id).await.0, "invalid", "{id}");
    }
    assert_eq!(world.balance("b").await, ledger::amount::Amount::Int(9));
    drop(worker);
    let names: Vec<&str> = odd.iter().map(|(id, _)| *id).collect();
    super::remove(&world, "transactions", &names).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn ids_that_are_no_text_hold_no_sweep_up() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let strange = |id: Bson| {
        let mut document = odd::transfer("x", "a", "b", 1);
        document.insert("_id", id);
        document
    };
    let documents = [
        strange(7.into()),
        strange(doc! { "a": 1 }.into()),
        strange("".into()),
        strange(1.5.into()),
    ];
    odd::insert(&world.store.transactions(), &documents).await;
    let worker = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    wait_for_a_sweep(&world, "sweep-0").await;
    wait_for_a_sweep(&world, "sweep-1").await;
    let others = doc! { "_id": { "$nin": ["sweep-0", "sweep-1"] } };
    world.store.transactions().delete_many(others).await.expect("MongoDB is there");
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
