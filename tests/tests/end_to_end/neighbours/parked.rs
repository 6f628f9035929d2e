//! What can't even be written is set apart in a collection of its own, and can be brought back.

use common::transaction::State;
use mongodb::bson::{Document, doc};
use tests::odd;
use tests::wait::{s, wait_until};
use tests::world::World;

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
    let beside = world.store.database().collection::<Document>("parked");
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
