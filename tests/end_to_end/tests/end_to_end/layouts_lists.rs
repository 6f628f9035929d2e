//! Counts, lists, statements, events and roles of a ledger in collections and fields of its owner's
//! own.

use std::collections::BTreeMap;

use client::{Page, Period, TransactionFilter};
use futures_util::TryStreamExt;
use ledger::amount::Amount;
use ledger::event::End;
use ledger::transaction::{ParkCode, Parked};
use mongo::{NOTES, Source};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::layouts::{SCHEMA, collection, world_of};
use crate::layouts_audit::{BY_NAME, PAYMENTS, settled};
use crate::paging::{Seen, there_and_back};

#[tokio::test(flavor = "multi_thread")]
async fn counts_lists_and_statements_are_of_the_ledgers_own_documents() {
    let (world, client, users) = settled("two-phase").await;
    let stats = client.stats().await.expect("MongoDB is there");
    let all = u64::try_from(PAYMENTS).expect("not negative");
    assert_eq!((stats.states["done"], stats.states["initial"]), (all, 0), "{stats:?}");
    assert_eq!(stats.states.values().sum::<u64>(), all, "{stats:?}");
    let others = BTreeMap::from([("done".to_owned(), 1), ("canceled".to_owned(), 0)]);
    assert_eq!(stats.ended_by_others, Some(others), "one was done before Tandem came");

    let id = users[3].to_hex();
    let statement = client.statement(&id, &Period::default(), 1_000, None).await;
    let statement = statement.expect("it is an account with history");
    assert_eq!((statement.opening, statement.closing), (Amount::Int(1_000), Amount::Int(980)));
    assert_eq!(statement.entries.len() as u64, 2 * all / 10);

    let filter = TransactionFilter::default();
    let own = there_and_back(async |cursor: Option<&str>| {
        seen(client.transactions(&filter, 7, cursor).await.expect("MongoDB is there"))
    })
    .await;
    let mut expected: Vec<String> = (1..=PAYMENTS).map(|id| id.to_string()).collect();
    let mut listed = own.clone();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected, "each is listed once");
    let names = there_and_back(async |cursor: Option<&str>| {
        let page = client.accounts(3, cursor).await.expect("MongoDB is there");
        assert!(page.items.iter().all(|one| one.get_i32("marks").ok() == Some(0)), "{page:?}");
        seen(page)
    })
    .await;
    for user in &users {
        assert!(names.contains(&user.to_hex()), "{names:?}");
    }
    assert!(names.is_sorted() && !names.contains(&"a text".to_owned()), "{names:?}");
    let of_one = TransactionFilter { account: Some(id), ..TransactionFilter::default() };
    let page = client.transactions(&of_one, 1_000, None).await.expect("MongoDB is there");
    assert_eq!(page.items.len() as u64, 2 * all / 10);

    let large = doc! { "$set": { "attachment": "x".repeat(1 << 20) } };
    collection(&world, "transaction").update_one(doc! { "_id": 7 }, large).await.expect("it is");
    let of = ["7".into(), "8".into()];
    let sources = client.store().event_sources(&of, End::Done).await.expect("MongoDB is there");
    let is_large = |source: &Source| matches!(source, Source::Large(id, _) if &**id == "7");
    assert_eq!((sources.len(), sources.iter().any(is_large)), (2, true), "{sources:?}");
    let events = client.store().events(&of, End::Done).await.expect("MongoDB is there");
    assert_eq!(events.len(), 2, "{events:?}");

    let since = std::time::SystemTime::UNIX_EPOCH;
    let ended: Vec<_> =
        client.ended_since(since).await.expect("it is").try_collect().await.expect("it is");
    assert_eq!(ended.len() as u64, all);
    world.finish().await;
}

/// A page of the client, whose items may have the same moment.
fn seen(page: Page<Document>) -> Seen {
    let id = |item: &Document| item.get_str("_id").expect("a text").to_owned();
    Seen { ids: page.items.iter().map(id).collect(), next: page.next, prev: page.prev }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_parked_is_listed_by_its_document_and_by_the_note_beside_it() {
    for (schema, ids) in [
        (SCHEMA, [Bson::Double(300.0), Bson::Int32(301)]),
        (BY_NAME, [ObjectId::new().into(), ObjectId::new().into()]),
    ] {
        let world = world_of(schema).await;
        let client = world.client().await;
        let stored = client.store().transactions();
        let state = if schema == SCHEMA { "status" } else { "state" };
        let waiting = ids.iter().map(|id| doc! { "_id": id, state: "initial" });
        stored.insert_many(waiting).await.expect("MongoDB is there");
        let text = |id: &Bson| match id {
            Bson::ObjectId(id) => id.to_hex(),
            other => other.to_string(),
        };
        let why = Parked::new(ParkCode::KillsWorker, "by a test".to_owned());
        let first = mongo::raw_id(&text(&ids[0]));
        client.store().park_by_id(&[first], &why).await.expect("MongoDB is there");
        let notes = [text(&ids[1]), "9".to_owned()].map(|id| {
            doc! {
                "_id": id, "kind": "tandem-parked-transaction", "code": "kills_worker",
                "message": "by a test", "at": DateTime::now(),
            }
        });
        collection(&world, NOTES).insert_many(notes).await.expect("MongoDB is there");
        let parked = client.parked(10).await.expect("MongoDB is there");
        let found: Vec<String> = parked.iter().map(|one| one.id.to_string()).collect();
        let expected = ids.each_ref().map(|id| format!("{:?}", text(id)));
        assert_eq!(found, expected, "{parked:?}");
        let noted = client.store().noted_as_parked().await.expect("MongoDB is there");
        assert_eq!(noted, 1);
        let ids: Vec<_> = ids.iter().map(|id| text(id).as_str().into()).collect();
        let back = client.unpark(&ids).await.expect("MongoDB is there");
        assert_eq!(back.back, ids);
        assert!(client.parked(10).await.expect("MongoDB is there").is_empty());
        world.finish().await;
    }
}

#[tokio::test]
async fn roles_are_of_the_collections_that_the_ledger_has() {
    let world = world_of(SCHEMA).await;
    let said = world.producer(&["roles"]).await.expect_success();
    let role = said.stdout.lines().find(|line| line.contains("\"tandem-auditor\""));
    let role = role.expect("a command for each role");
    for (collection, actions) in
        [("user", "[\"find\"]"), ("transaction", "[\"find\", \"changeStream\"]")]
    {
        let privilege = format!("\"collection\": \"{collection}\"}}, \"actions\": {actions}");
        assert!(role.contains(&privilege), "{privilege}: {role}");
    }
    let listed = world.producer(&["roles", "--json"]).await.expect_success().json();
    assert_eq!(listed["roles"][0]["privileges"][0]["collection"], "user", "{listed}");
    world.finish().await;
}
