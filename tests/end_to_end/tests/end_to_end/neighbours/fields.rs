//! No content of a document's fields, under whatever names, affects another document.

use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::transaction::State;
use mongo::NOTES;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

use super::{
    SOON, add_rule, good, is_parked, submit_beside, wait_done, wait_ended_or_parked,
    wait_for_a_sweep, worker_without_sweeper,
};

/// The document with each `?` replaced by a byte that no valid text contains.
fn no_text(document: &Document) -> RawDocumentBuf {
    let raw = RawDocumentBuf::try_from(document).expect("BSON");
    let bytes = raw.as_bytes().iter().map(|byte| if *byte == b'?' { 0xff } else { *byte });
    RawDocumentBuf::from_bytes(bytes.collect()).expect("the lengths are right")
}

fn with(id: &str, fields: Document) -> Document {
    let mut document = odd::transfer(id, "a", "b", 1);
    document.extend(fields);
    document
}

#[tokio::test]
async fn a_refusal_that_repeats_what_is_no_text_costs_only_its_own_document() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    // The server repeats the refused value in its answer, which the driver then can't read.
    add_rule(&world, "transactions", doc! { "note": { "$not": { "$type": "string" } } }).await;
    let transactions = world.store.transactions();
    let names = ["odd-0", "odd-1", "odd-2"];
    for id in names {
        odd::insert_raw(&transactions, &no_text(&with(id, doc! { "note": "??" }))).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(60);
    submit_beside(&world, &good, &names).await;
    wait_done(&world, &good, SOON).await;
    for id in names {
        wait_until(&format!("{id} is parked"), SOON, async || is_parked(&world, id).await).await;
    }
    drop(worker);
    super::remove(&world, "transactions", &names).await;
    super::remove(&world, NOTES, &names).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_name_that_is_no_text_costs_only_its_own_document_wherever_it_stands() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let transactions = world.store.transactions();
    let mut first = doc! { "_id": "first", "?": 1 };
    first.extend(odd::transfer("first", "a", "b", 1));
    let documents = [first, with("last", doc! { "?": 1 })];
    for document in &documents {
        odd::insert_raw(&transactions, &no_text(document)).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &["first", "last"]).await;
    wait_done(&world, &good, SOON).await;
    for id in ["first", "last"] {
        wait_ended_or_parked(&world, id, SOON).await;
    }
    drop(worker);
    super::remove(&world, "transactions", &["first", "last"]).await;
    super::remove(&world, NOTES, &["first", "last"]).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn no_field_of_the_users_own_is_mistaken_for_one_that_the_worker_makes() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let own = [
        doc! { "large": { "bytes": 600_000, "legs": 2_000_000_000 } },
        doc! { "large": { "bytes": -1, "legs": "many" } },
        doc! { "document": { "source": "b", "destination": "a", "value": 7_i64 } },
        doc! { "serverNow": DateTime::from_millis(0), "tooLarge": 1, "repeated": true },
        doc! { "attemptsAlone": 1_000_000, "not ours": Bson::Null },
    ];
    let names: Vec<String> = (0..own.len()).map(|n| format!("own-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let documents: Vec<Document> =
        names.iter().zip(own).map(|(id, fields)| with(id, fields)).collect();
    odd::insert(&world.store.transactions(), &documents).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &names).await;
    wait_done(&world, &good, SOON).await;
    for id in &names[..4] {
        world.wait_state(id, State::Done, SOON).await;
    }
    wait_ended_or_parked(&world, names[4], SOON).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_field_that_stands_twice_is_settled_by_neither_of_its_values() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let transactions = world.store.transactions();
    let padding = doc! { "padding": "x".repeat(5_000) };
    for (id, fields) in [("small", doc! {}), ("large", padding)] {
        let mut raw = RawDocumentBuf::try_from(&with(id, fields)).expect("BSON");
        raw.append(mongodb::bson::raw::cstr!("value"), 500_i64);
        odd::insert_raw(&transactions, &raw).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &["small", "large"]).await;
    wait_done(&world, &good, SOON).await;
    for id in ["small", "large"] {
        wait_ended_or_parked(&world, id, SOON).await;
        assert_ne!(world.state(id).await, State::Done, "{id} was settled");
    }
    assert_eq!(world.balance("b").await, ledger::amount::Amount::Int(9));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn null_beside_what_counts_is_as_good_as_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let legs =
        vec![doc! { "account": "a", "amount": -1_i64 }, doc! { "account": "b", "amount": 1_i64 }];
    let nothing = Bson::Null;
    let mut of_legs = with(
        "of-legs",
        doc! {
            "source": &nothing, "destination": &nothing, "value": &nothing,
            "currency": &nothing, "metadata": &nothing, "reverses": &nothing,
        },
    );
    of_legs.insert("legs", legs);
    let documents = [with("transfer", doc! { "legs": &nothing }), of_legs];
    let inserted = world.store.transactions().insert_many(&documents).await;
    inserted.expect("the validator takes null for nothing");
    let worker = worker_without_sweeper(&world).start().await;
    world.publish(&["transfer".into(), "of-legs".into()], 2).await;
    for id in ["transfer", "of-legs"] {
        world.wait_state(id, State::Done, SOON).await;
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn no_date_is_so_far_away_that_it_hides_a_transaction_or_ends_a_worker() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let (first, last) = (DateTime::MIN, DateTime::MAX);
    let year = DateTime::from_millis(DateTime::now().timestamp_millis() + 365 * 24 * 3_600_000);
    let initial = [
        with("created-first", doc! { "createdAt": first }),
        with("created-last", doc! { "createdAt": last }),
        with("stamped-last", doc! { "sweepAfter": last }),
        with("stamped-year", doc! { "sweepAfter": year }),
        with("stamped-text", doc! { "sweepAfter": "later" }),
        with("taken-over-first", doc! { "state": "pending", "takeoverAt": first }),
    ];
    let ahead = [
        with("ahead-last", doc! { "state": "pending", "takeoverAt": last, "leaseUntil": first }),
        with("ahead-year", doc! { "state": "pending", "takeoverAt": year }),
    ];
    odd::insert(&world.store.transactions(), &initial).await;
    odd::insert(&world.store.transactions(), &ahead).await;
    let sweeping = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100);
    let worker = sweeping.start().await;
    for id in initial.iter().filter_map(|document| document.get_str("_id").ok()) {
        world.wait_state(id, State::Done, s(60)).await;
    }
    for id in ["ahead-last", "ahead-year"] {
        wait_until(&format!("{id} is parked"), s(60), async || is_parked(&world, id).await).await;
    }
    wait_for_a_sweep(&world, "and-then").await;
    let takeover = doc! { "$set": { "takeoverAt": DateTime::now() } };
    for id in ["ahead-last", "ahead-year"] {
        odd::edit(&world.store.transactions(), id, takeover.clone()).await;
        world.producer(&["unpark", id]).await.expect_success();
        world.wait_state(id, State::Done, s(60)).await;
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
