//! Transactions that can't even be written are noted in a collection of their own, and can be
//! brought back.

use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::{
    SOON, good, is_parked, submit_beside, wait_done, wait_for_a_sweep, worker_without_sweeper,
};

#[tokio::test]
async fn a_document_without_room_is_parked_beside_and_settles_once_it_has_some() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let full = odd::filled_up(odd::transfer("full", "a", "b", 5), 60);
    odd::insert(&world.store.transactions(), &[full]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &["full"]).await;
    wait_done(&world, &good, SOON).await;
    wait_until("it is parked", s(60), async || is_parked(&world, "full").await).await;
    let beside = world.store.database().collection::<Document>(mongo::NOTES);
    let beside = beside.find_one(doc! { "_id": "full" }).await.expect("MongoDB is there");
    let beside = beside.expect("its document can't be written, so it stands beside");
    assert!(beside.get_str("code").is_ok() && beside.get_datetime("at").is_ok(), "{beside}");
    let message = beside.get_str("message").expect("a sentence");
    assert!(!message.is_empty() && message.len() < 1_024, "{message}");
    let listed = world.producer(&["list", "--parked", "--json"]).await.expect_success();
    assert!(listed.stdout.contains("\"full\""), "{}", listed.stdout);
    drop(worker);
    let worker = world.worker("two").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    for n in 0..3 {
        wait_for_a_sweep(&world, &format!("sweep-{n}")).await;
    }
    let swept = worker.metrics().await.sum("tandem_swept_total", &[("kind", "unclaimed")]);
    assert!(swept < 4.0, "three were forgotten, but the sweeper has published {swept}");
    odd::edit(&world.store.transactions(), "full", doc! { "$unset": { "padding": "" } }).await;
    world.producer(&["unpark", "full"]).await.expect_success();
    world.wait_state("full", State::Done, s(30)).await;
    assert!(!is_parked(&world, "full").await, "it is still listed as parked");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Its worker died, so the next one can't know how it looked before, and whether it was posted.
#[tokio::test]
async fn what_became_unreadable_in_flight_is_corrected_canceled_and_brought_back() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    for (id, state) in [("odd-1", State::Pending), ("odd-2", State::Canceling)] {
        let mut odd = odd::transfer(id, "a", "a", 5);
        let long_ago = DateTime::from_millis(0);
        odd.extend(doc! { "state": state, "attempts": 1, "claim": "of one that died" });
        odd.extend(doc! { "leaseUntil": long_ago, "takeoverAt": long_ago });
        if state == State::Canceling {
            odd.extend(doc! { "reason": { "code": "invalid", "message": "of one that died" } });
        }
        odd::insert(&world.store.transactions(), &[odd]).await;
    }
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(9);
    submit_beside(&world, &good, &["odd-1", "odd-2"]).await;
    wait_done(&world, &good, SOON).await;
    for id in ["odd-1", "odd-2"] {
        wait_until("it is parked", s(60), async || is_parked(&world, id).await).await;
        let readable = doc! { "$set": { "destination": "b" } };
        odd::edit(&world.store.transactions(), id, readable).await;
        world.producer(&["cancel", id]).await.expect_success();
        world.producer(&["unpark", id]).await.expect_success();
        world.wait_state(id, State::Canceled, s(30)).await;
    }
    assert_eq!(world.balance("b").await, Amount::Int(9), "nothing of them was posted");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn all_that_is_parked_is_listed_and_comes_back_but_for_what_can_not() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let transactions = world.store.transactions();
    let parked = |id: Bson, parked: Bson| {
        let mut document = odd::transfer("", "a", "b", 1);
        document.extend(doc! { "_id": id, "parked": parked });
        document
    };
    let note = doc! { "code": "invalid_id", "message": "by hand", "at": DateTime::from_millis(0) };
    // More than one step of `unpark --all` handles, and sorted before the others.
    let mut documents: Vec<_> =
        (0..1_100).map(|n: i64| parked(n.into(), note.clone().into())).collect();
    documents.push(parked("of-ours".into(), note.into()));
    documents.push(parked("of-others".into(), true.into()));
    documents.push(parked("of-\u{1b}[2J".into(), "their own field".into()));
    documents.push(parked("refused".into(), doc! { "code": "x" }.into()));
    odd::insert(&transactions, &documents).await;
    let rule = doc! { "$nor": [{ "_id": "refused", "parked": null }] };
    super::add_rule(&world, "transactions", rule).await;
    let listed = world.producer(&["list", "--parked", "--limit", "5000"]).await.expect_success();
    assert_eq!(listed.stdout.lines().count(), documents.len());
    assert!(listed.stdout.contains("of-others  initial  unknown"), "{}", listed.stdout);
    assert!(!listed.stdout.contains('\u{1b}'), "a control character reaches the terminal");
    let worker = worker_without_sweeper(&world).start().await;
    let unparked = world.producer(&["unpark", "--all"]).await;
    assert_eq!(unparked.code, Some(1), "one is refused: {}", unparked.stderr);
    assert!(unparked.stderr.contains("refused: "), "{}", unparked.stderr);
    for id in ["of-ours", "of-others"] {
        world.wait_state(id, State::Done, s(30)).await;
    }
    assert_eq!(world.state("refused").await, State::Initial);
    drop(worker);
    transactions.delete_many(doc! { "state": "initial" }).await.expect("MongoDB is there");
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_note_on_what_has_ended_or_is_gone_is_not_listed() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let mut ended = odd::transfer("ended", "a", "b", 1);
    ended.insert("state", "canceled");
    let documents = [ended, odd::transfer("waits", "a", "b", 1)];
    odd::insert(&world.store.transactions(), &documents).await;
    let notes = world.store.database().collection::<Document>(mongo::NOTES);
    for id in ["ended", "waits", "gone"] {
        let note = doc! {
            "_id": id, "kind": "tandem-parked-transaction",
            "code": "x", "message": "y", "at": DateTime::from_millis(0),
        };
        notes.insert_one(note).await.expect("MongoDB is there");
    }
    let listed = world.producer(&["list", "--parked"]).await.expect_success();
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    assert!(listed.stdout.starts_with("waits"), "{}", listed.stdout);
    world.finish().await;
}
