//! Documents that are not Tandem's, in collections of the user's own and in Tandem's: they stay as
//! they are, and no number of them holds up what is Tandem's.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::{
    ACCOUNTS, EVENTS, JOBS, JOURNAL, MongoOutbox, NOTES, Numberer, ORDER, PROGRESS, Place,
    SETTINGS, SETTLEMENT, Stranded, TRANSACTIONS, WORKERS,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::ownership::init;

/// How many strangers are in each collection.
const STRANGERS: i64 = 10_000;

/// How often each sweep is made.
const ROUNDS: usize = 200;

/// The field that a test knows strangers by.
const STRANGER: &str = "stranger";

fn past() -> DateTime {
    DateTime::from_millis(1_000_000)
}

/// Ids as users have them.
fn id(n: i64) -> Bson {
    match n % 4 {
        0 => ObjectId::new().into(),
        1 => n.into(),
        2 => doc! { "order": n }.into(),
        _ => format!("order-{n}").into(),
    }
}

/// A stranger in a collection of Tandem's own: it has the fields of Tandem's documents, and another
/// kind or none.
fn beside_ours(n: i64) -> Document {
    let mut document = doc! {
        "_id": id(n), "title": "summer party", "dueAt": past(), "seenAt": past(), "at": past(),
        "done": ["a"], "canceled": [], "lines": ["l"], "ends": [1], "refusals": 0, "code": "x", "message": "y", "protocol": 99,
    };
    match n % 3 {
        0 => document.insert("kind", "party"),
        1 => document.insert("kind", 7),
        _ => None,
    };
    document
}

/// A stranger among the transactions: it says one of the words of a state, and nothing that a
/// submission says.
fn among_transactions(n: i64) -> Document {
    let words = ["initial", "pending", "scheduled", "held", "applied", "canceling"];
    let mut document = doc! {
        "_id": id(n), "createdAt": past(), "takeoverAt": past(), "dueAt": past(),
        "expiresAt": past(), "notBefore": past(), "amount": 5, "lastModified": "today",
    };
    match n % 8 {
        at @ 0..6 => document.insert("state", words[at as usize]),
        6 => document.insert("state", 7),
        _ => None,
    };
    // A whole transfer, but nobody can name it in a message.
    if n % 16 == 0 {
        let whole = odd::transfer("x", "a", "b", 1);
        document.extend(whole.into_iter().filter(|(field, _)| field != "_id"));
    }
    if n % 32 == 1 {
        document.insert("takeoverAt", "soon");
        document.insert("createdAt", Bson::Null);
    }
    document
}

fn stranger(collection: &str, n: i64) -> Document {
    let mut document = match collection {
        TRANSACTIONS => among_transactions(n),
        ACCOUNTS => doc! { "_id": id(n), "balance": "a lot", "email": "x@y" },
        _ => beside_ours(n),
    };
    document.insert(STRANGER, n);
    document
}

const COLLECTIONS: [&str; 10] =
    [ACCOUNTS, TRANSACTIONS, ORDER, EVENTS, JOBS, NOTES, WORKERS, PROGRESS, SETTINGS, SETTLEMENT];

type Strangers = BTreeMap<&'static str, Vec<Document>>;

/// Puts strangers into each collection.
async fn invade(world: &World) -> Strangers {
    let mut all = Strangers::new();
    for name in COLLECTIONS {
        let strangers: Vec<Document> = (0..STRANGERS).map(|n| stranger(name, n)).collect();
        odd::insert(&world.store.database().collection(name), &strangers).await;
        all.insert(name, strangers);
    }
    all
}

async fn assert_unchanged(world: &World, strangers: &Strangers) {
    for (name, inserted) in strangers {
        let collection = world.store.database().collection::<Document>(name);
        let found = collection.find(doc! { STRANGER: { "$exists": true } });
        let found = found.sort(doc! { STRANGER: 1 }).await.expect("MongoDB is there");
        let found: Vec<Document> = found.try_collect().await.expect("MongoDB is there");
        assert_eq!(found.len(), inserted.len(), "{name}");
        let changed = inserted.iter().zip(&found).find(|(before, after)| before != after);
        assert_eq!(changed, None, "{name}");
    }
}

/// One transfer for each sweep, in a state in which nobody but a sweeper comes to it.
async fn strand(world: &World) {
    world
        .insert(&["orphan", "due", "expired", "abandoned"].map(|id| transfer(id, "a", "b", 1)))
        .await;
    let transactions = world.store.transactions();
    for (id, change) in [
        ("orphan", doc! { "createdAt": past() }),
        ("due", doc! { "state": "scheduled", "notBefore": past(), "dueAt": past() }),
        ("expired", doc! { "expiresAt": past(), "dueAt": past() }),
        (
            "abandoned",
            doc! { "state": "pending", "claim": "of-the-dead", "attempts": 1, "takeoverAt": past() },
        ),
    ] {
        odd::edit(&transactions, id, doc! { "$set": change }).await;
    }
}

/// A line of a transaction that is done and whose event is due.
async fn owe(world: &World, line: &str, id: &str) {
    let database = world.store.database();
    let done = doc! {
        "_id": line, "kind": "tandem-line", "at": past(), "application": "one",
        "accounts": [], "nets": [], "done": [[id]], "canceled": [],
    };
    let note = doc! {
        "_id": line, "kind": "tandem-due-events", "dueAt": past(), "events": 1_i64, "refusals": 0,
    };
    odd::insert(&database.collection(JOURNAL), &[done]).await;
    odd::insert(&database.collection(EVENTS), &[note]).await;
}

#[tokio::test]
async fn ten_thousand_strangers_in_each_collection_stay_as_they_are_and_hold_up_no_sweep() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let strangers = invade(&world).await;
    strand(&world).await;
    world.insert(&[transfer("told", "a", "b", 1)]).await;
    owe(&world, "ours", "told").await;

    let outbox = MongoOutbox::new(world.store.clone());
    let now = world.store.server_now().await.expect("MongoDB is there");
    let sweeps: [(Stranded, &[&str]); 3] = [
        (Stranded::Scheduled { now }, &["due"]),
        (Stranded::Expired { now }, &["expired"]),
        (Stranded::HoldExpired { now }, &[]),
    ];
    let numberer = Numberer::new(world.store.clone());
    for round in 0..ROUNDS {
        for (which, expected) in &sweeps {
            let found = outbox.stranded(*which, 10).await.expect("MongoDB is there");
            let ids: Vec<&str> = found.ids.iter().map(AsRef::as_ref).collect();
            assert_eq!((&ids[..], found.parked), (*expected, None), "{which:?}");
        }
        let mut open = BTreeSet::new();
        let mut from = Some(Place::first());
        while let Some(place) = from {
            let piece = outbox.piece(&place, &Place::last(), 5_000).await;
            let piece = piece.expect("MongoDB is there");
            open.extend(
                piece.open.iter().filter_map(|one| Some(one.id.get_str("_id").ok()?.to_owned())),
            );
            from = piece.next;
        }
        let ours = ["abandoned", "expired", "orphan", "told"].map(str::to_owned);
        assert_eq!(open, ours.into());
        // None has its number yet, and none of the strangers gets one.
        assert_eq!(numberer.sweep().await.expect("MongoDB is there"), usize::from(round == 0));
        assert_eq!(world.store.due_notes(10).await.expect("MongoDB is there").len(), 1);
    }

    let worker = world.worker("one").flag("--sweep-ms", 50).flag("--orphan-ms", 500).start().await;
    for id in ["orphan", "due", "abandoned"] {
        world.wait_state(id, State::Done, s(30)).await;
    }
    world.wait_state("expired", State::Canceled, s(30)).await;
    let notes = world.store.database().collection::<Document>(EVENTS);
    wait_until("our own event is sent", s(30), async || {
        notes.count_documents(doc! { "_id": "ours" }).await.expect("MongoDB is there") == 0
    })
    .await;
    assert_unchanged(&world, &strangers).await;

    let told = init(&world, &[]).await.expect_success().json();
    let foreign = told["foreign"].as_array().expect("a list");
    let counts = foreign.iter().map(|one| (one["collection"].as_str(), one["count"].as_i64()));
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        [EVENTS, JOBS, NOTES, PROGRESS, SETTINGS, SETTLEMENT, WORKERS]
            .map(|name| (Some(name), Some(STRANGERS)))
    );
    drop(worker);
    for name in COLLECTIONS {
        let collection = world.store.database().collection::<Document>(name);
        let all = doc! { STRANGER: { "$exists": true } };
        collection.delete_many(all).await.expect("MongoDB is there");
    }
    world.wait_final(s(30)).await;
    // A worker has written another line of the same transaction. So that one goes, with the numbers.
    let journal = world.store.database().collection::<Document>(JOURNAL);
    journal.delete_one(doc! { "_id": "ours" }).await.expect("MongoDB is there");
    let order = world.store.database().collection::<Document>(ORDER);
    order.delete_many(doc! {}).await.expect("MongoDB is there");
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_collection_of_the_users_own_is_never_touched_whatever_its_name_is() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let database = world.store.database();
    let mine = doc! {
        "_id": "mine", "title": "summer party", "dueAt": past(), "done": [], "canceled": [],
        "seenAt": past(), "kind": ["tandem-due-events"],
    };
    let names = ["events", "workers", "parked", "tandem", EVENTS, NOTES];
    for name in names {
        odd::insert(&database.collection(name), std::slice::from_ref(&mine)).await;
        let many: Vec<Document> = (0..20).map(beside_ours).collect();
        odd::insert(&database.collection(name), &many).await;
    }
    let worker = world.worker("one").flag("--sweep-ms", 50).start().await;
    for round in ["first", "second", "third"] {
        owe(&world, round, "t").await;
        let notes = database.collection::<Document>(EVENTS);
        wait_until("the sweep of events has come by", s(30), async || {
            notes.count_documents(doc! { "_id": round }).await.expect("MongoDB is there") == 0
        })
        .await;
    }
    for name in names {
        let collection = database.collection::<Document>(name);
        let found = collection.find_one(doc! { "_id": "mine" }).await.expect("MongoDB is there");
        assert_eq!(found, Some(mine.clone()), "{name}");
        let count = collection.count_documents(doc! {}).await.expect("MongoDB is there");
        assert_eq!(count, 21, "{name}");
    }
    let api = world.api(&[]).await;
    let seen = api.get("/v1/overview").await.expect(200).json();
    let foreign = seen["foreign"].as_array().expect("a list");
    let named =
        foreign.iter().any(|one| one["collection"] == EVENTS && one["documents"]["count"] == 21);
    assert!(named, "{seen}");
    let problems = seen["problems"].as_array().expect("a list");
    assert!(problems.iter().any(|one| one["code"] == "foreign_documents"), "{seen}");
    drop(worker);
    world.finish().await;
}
