//! The sweepers' mark: it moves on past what is stuck, and passes nothing that would be lost.

use std::time::Instant;

use futures_util::TryStreamExt;
use harness::odd;
use harness::wait::{s, wait_until};
use harness::worker::Plan;
use harness::world::{World, transfer};
use ledger::transaction::{Leg, ParkCode, Parked, Reason, ReasonCode, State};
use ledger::{Claim, LeaseMs, Ledger, ServerMs};
use mongo::{MongoLedger, raw_id};
use mongodb::bson::{Bson, DateTime, Document, doc};

const HOUR_MS: i64 = 3_600_000;

async fn now(world: &World) -> ServerMs {
    world.store.server_now().await.expect("MongoDB is there")
}

/// The date of the mark; the beginning of time while there is none.
async fn mark(world: &World) -> ServerMs {
    let mark = world.store.progress().await.expect("MongoDB is there").mark;
    mark.and_then(|mark| mark.date()).unwrap_or(i64::MIN)
}

/// Waits until the mark has passed this moment.
async fn wait_mark(world: &World, at: ServerMs) {
    wait_until("the mark has passed", s(60), async || mark(world).await > at).await;
}

fn eager(world: &World) -> Plan {
    world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100)
}

/// A transfer of 1 from a to b, as it was created at a moment.
fn created(id: &str, at: ServerMs, fields: Document) -> Document {
    let mut document = odd::transfer(id, "a", "b", 1);
    document.insert("createdAt", DateTime::from_millis(at));
    document.extend(fields);
    document
}

async fn insert(world: &World, documents: &[Document]) {
    odd::insert(&world.store.transactions(), documents).await;
}

#[tokio::test]
async fn one_stuck_transaction_does_not_make_rounds_read_all_that_came_since() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let begun = now(&world).await - HOUR_MS;
    let takeover = DateTime::from_millis(begun + 2 * HOUR_MS);
    let stuck = doc! { "state": "pending", "claim": "of one that is slow", "takeoverAt": takeover };
    let mut documents = vec![created("stuck", begun, stuck)];
    let done = |n: i64| created(&format!("t{n}"), begun + n, doc! { "state": "done" });
    documents.extend((1..3_000).map(done));
    insert(&world, &documents).await;
    let worker = eager(&world).start().await;
    wait_mark(&world, begun + HOUR_MS / 2).await;
    let stuck = world.transaction("stuck").await;
    assert_eq!(stuck.get_datetime("sweepAfter").ok(), Some(&takeover), "it is found by its stamp");
    let since = doc! { "createdAt": { "$gte": DateTime::from_millis(mark(&world).await) } };
    let read = world.store.transactions().count_documents(since).await.expect("MongoDB is there");
    assert_eq!(read, 0, "a round reads what came since the mark");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_appears_below_the_mark_is_found() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = eager(&world).start().await;
    let begun = now(&world).await;
    wait_mark(&world, begun - 20_000).await;
    let dead = doc! {
        "state": "pending", "claim": "of one that died", "attempts": 1,
        "takeoverAt": DateTime::from_millis(begun - 60_000),
    };
    insert(
        &world,
        &[
            created("late", begun - 60_000, doc! {}),
            created("imported", begun - 10_000 * HOUR_MS, doc! {}),
            created("taken", begun - 90_000, dead),
        ],
    )
    .await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 3);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Nobody publishes what this brings back: it is as if each client had died at once.
#[tokio::test]
async fn what_is_brought_back_below_the_mark_goes_on_without_its_message() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let at = now(&world).await - HOUR_MS;
    let later = DateTime::from_millis(at + 2 * HOUR_MS);
    let hold = || {
        doc! {
            "state": "held", "hold": true, "dueAt": later, "holdExpiresAt": later, "attempts": 1,
            "takeoverAt": DateTime::from_millis(at),
        }
    };
    let scheduled = doc! { "state": "scheduled", "notBefore": later, "dueAt": later };
    insert(
        &world,
        &[
            created("parked", at, doc! {}),
            created("noted", at, doc! {}),
            created("confirmed", at, hold()),
            created("released", at, hold()),
            created("canceled", at, scheduled),
            created("given-back", at, doc! {}),
        ],
    )
    .await;
    for id in ["confirmed", "released"] {
        let marked = doc! {
            "$push": { "pendingTransactions": id },
            "$inc": { "balance": -1_i64, "pendingDebits": 1_i64, "pendingHolds": 1 },
        };
        odd::edit(&world.store.accounts(), "a", marked).await;
    }
    let store = &world.store;
    let why = Parked::new(ParkCode::KillsWorker, "for the test");
    store.park_by_id(&[raw_id("parked")], &why).await.expect("MongoDB is there");
    let note =
        doc! { "_id": "noted", "kind": "tandem-parked-transaction", "code": "x", "message": "x" };
    let notes = store.database().collection::<Document>(mongo::NOTES);
    notes.insert_one(note).await.expect("MongoDB is there");
    let claim = Claim { token: "t".to_owned(), application: "one that gives back".to_owned() };
    let lease = LeaseMs { lease: HOUR_MS, grace: 1_000 };
    let ledger = MongoLedger::new(store.clone(), lease);
    let given_back = ["given-back".into()];
    ledger.claim(&given_back, &claim).await.expect("MongoDB is there");

    let worker = eager(&world).start().await;
    wait_mark(&world, at).await;
    let open = [&State::UNFINISHED[..], &State::RESTING].concat();
    assert_eq!(world.count(&open).await, 6, "nothing has moved");
    let legs = [("a", -1), ("b", 1)].map(|(account, value)| Leg {
        account: account.into(),
        amount: ledger::amount::Amount::Int(value),
    });
    let both = ["parked".into(), "noted".into()];
    assert_eq!(store.unpark(&both).await.expect("MongoDB is there").back.len(), 2);
    store.confirm_holds(&[("confirmed".into(), legs.to_vec())]).await.expect("MongoDB is there");
    let reason = |code| Reason::new(code, "for the test");
    store
        .release_holds(&["released"], &reason(ReasonCode::Released))
        .await
        .expect("MongoDB is there");
    let requested = reason(ReasonCode::Requested);
    store.request_cancel(&["canceled"], &requested).await.expect("MongoDB is there");
    ledger.unclaim(&given_back, &claim).await.expect("MongoDB is there");
    world.wait_final(s(60)).await;
    for id in ["parked", "noted", "confirmed", "given-back"] {
        assert_eq!(world.state(id).await, State::Done, "{id}");
    }
    assert_eq!(world.count(&[State::Canceled]).await, 2);
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_rests_without_a_moment_is_found_and_gets_one() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let at = now(&world).await - HOUR_MS;
    let later = DateTime::from_millis(at + 2 * HOUR_MS);
    insert(
        &world,
        &[
            created(
                "due",
                at,
                doc! { "state": "scheduled", "notBefore": DateTime::from_millis(at) },
            ),
            created("later", at, doc! { "state": "scheduled", "notBefore": later }),
            created("never", at, doc! { "state": "held", "hold": true, "dueAt": "soon" }),
        ],
    )
    .await;
    let worker = eager(&world).start().await;
    world.wait_state("due", State::Done, s(30)).await;
    wait_until("they have moments", s(30), async || {
        let later_at = world.transaction("later").await.get_datetime("dueAt").ok().copied();
        later_at == Some(later) && world.transaction("never").await.get_datetime("dueAt").is_ok()
    })
    .await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_has_no_date_is_swept_however_much_of_it_there_is() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let dates = [Bson::Null, Bson::from("today"), Bson::from(7), Bson::Array(vec![])];
    let undated = |n: usize| {
        let mut document = created(&format!("t{n}"), 0, doc! {});
        match dates.get(n % 5) {
            Some(date) => drop(document.insert("createdAt", date)),
            None => drop(document.remove("createdAt")),
        }
        document
    };
    let documents: Vec<_> = (0..10_000).map(undated).collect();
    insert(&world, &documents).await;
    let worker = eager(&world).start().await;
    let begun = Instant::now();
    let dated = doc! { "createdAt": { "$type": "date" } };
    wait_until("all have a date", s(60), async || {
        let dated = world.store.transactions().count_documents(dated.clone()).await;
        dated.expect("MongoDB is there") == 10_000
    })
    .await;
    eprintln!("10,000 without a date were swept within {:?}", begun.elapsed());
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, 10_000);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// What is open before the mark and that no index of its own shows.
async fn lost(world: &World) -> Vec<Document> {
    // Read first: what it has passed stays so.
    let mark = DateTime::from_millis(mark(world).await);
    let working = State::UNFINISHED.map(Bson::from).to_vec();
    let lost = doc! {
        "createdAt": { "$lt": mark },
        "state": { "$in": working },
        "sweepAfter": { "$not": { "$type": "date" } },
        "parked": null,
    };
    let lost = world.store.transactions().find(lost).await.expect("MongoDB is there");
    lost.try_collect().await.expect("MongoDB is there")
}

#[tokio::test]
async fn the_mark_never_passes_what_is_open_while_workers_come_and_go() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let slow = eager(&world).flag("--batch-size", 20).flag("--lanes", 1);
    let mut workers = vec![slow.start().await, eager(&world).start().await];
    for wave in 0..10 {
        let transfers: Vec<_> =
            (0..200).map(|n| transfer(&format!("t{wave}-{n}"), "a", "b", 1)).collect();
        let (told, forgotten) = transfers.split_at(150);
        world.submit(told, 10).await;
        world.insert(forgotten).await;
        if wave % 3 == 2 {
            workers.remove(0).kill();
            workers.push(eager(&world).start().await);
        }
        assert_eq!(lost(&world).await, [], "wave {wave}");
    }
    let last = now(&world).await;
    wait_until("the mark has passed all of them", s(90), async || {
        assert_eq!(lost(&world).await, []);
        mark(&world).await > last
    })
    .await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 2_000);
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}
