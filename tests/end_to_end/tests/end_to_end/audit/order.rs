//! The order against the journal: what would keep a reader from reading on by the numbers is named.

use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::ORDER;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::{audited, journal};

/// What an audit says of the order.
async fn of_order(world: &World) -> Vec<String> {
    let found = audited(world).await.violations;
    let found = found.iter().filter(|one| one.document.starts_with("tandem.order/"));
    found.map(ToString::to_string).collect()
}

/// Three pages of one line each, in their order.
async fn three_pages(world: &World) -> Vec<Document> {
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    for (number, id) in (1..).zip(["t", "u", "v"]) {
        world.submit(&[transfer(id, "a", "b", 1)], 1).await;
        world.wait_state(id, State::Done, s(30)).await;
        wait_until("it has its number", s(30), async || {
            world.store.last_number().await.expect("MongoDB is there") == number
        })
        .await;
    }
    drop(worker);
    let pages: Collection<Document> = world.store.database().collection(ORDER);
    let mut cursor = pages.find(doc! {}).sort(doc! { "_id": 1 }).await.expect("MongoDB is there");
    let mut all = Vec::new();
    while cursor.advance().await.expect("MongoDB is there") {
        all.push(cursor.deserialize_current().expect("a document"));
    }
    assert_eq!(all.len(), 3, "{all:?}");
    all
}

#[tokio::test]
async fn each_fault_of_the_order_is_named_and_a_missing_number_is_none() {
    let world = World::new().await;
    let all = three_pages(&world).await;
    assert_eq!(audited(&world).await.violations, []);
    let pages: Collection<Document> = world.store.database().collection(ORDER);
    let id = |at: usize| all[at].get_str("_id").expect("a text").to_owned();
    let back = async |page: &Document| {
        pages.delete_one(doc! { "_id": page.get("_id") }).await.expect("MongoDB is there");
        odd::insert(&pages, std::slice::from_ref(page)).await;
    };

    pages.delete_one(doc! { "_id": id(1) }).await.expect("MongoDB is there");
    let expected =
        format!("tandem.order/{}: begins with 3, and should begin with 2 (rule 8)", id(2));
    assert_eq!(of_order(&world).await, [expected]);
    back(&all[1]).await;

    odd::edit(&pages, &id(1), doc! { "$set": { "ends.0": 2_i64 } }).await;
    let found = of_order(&world).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains(" ends 2, and it ends 1 (rule 8)"), "{found:?}");
    assert!(found[1].ends_with("begins with 3, and should begin with 4 (rule 8)"), "{found:?}");
    odd::edit(&pages, &id(1), doc! { "$set": { "lines": "none" } }).await;
    let found = of_order(&world).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("can't be read: it has not both of its lists"), "{found:?}");
    back(&all[1]).await;

    let line = all[0].get_array("lines").expect("a list")[0].as_str().expect("a text").to_owned();
    let itself = doc! { "_id": &line };
    let removed = journal(&world).find_one_and_delete(itself).await;
    let removed = removed.expect("MongoDB is there").expect("it is there");
    let expected = format!("tandem.order/{}: has the line {line}, which is not there", id(0));
    let found = of_order(&world).await;
    assert!(matches!(&found[..], [one] if one.starts_with(&expected)), "{found:?}");
    odd::insert(&journal(&world), &[removed]).await;

    // A line may have no number: of a ledger without events, or just before it gets one.
    pages.delete_one(doc! { "_id": id(2) }).await.expect("MongoDB is there");
    assert_eq!(audited(&world).await.violations, []);
    world.finish().await;
}
