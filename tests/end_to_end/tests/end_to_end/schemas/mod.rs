//! Ledgers that a schema file sets up, by the programs as an operator runs them.

mod drawn;
mod generated;
mod http;
mod ids;
mod keys;
mod odd;
mod setup;
mod told;
mod twice;
mod validators;

use harness::producer::Answer;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongodb::bson::Document;

use crate::layouts::{collection, one};

/// A world without a ledger.
pub(super) async fn empty_world() -> World {
    let world = World::new().await;
    world.store.database().drop().await.expect("MongoDB is there");
    world
}

/// The path of a file with this schema, which takes the place of the one before.
pub(super) fn schema_file(world: &World, schema: &str) -> String {
    let file = world.directory().join("ledger.toml");
    std::fs::write(&file, schema).expect("the directory is there");
    file.to_str().expect("it is text").to_owned()
}

/// Sets a ledger up as this schema says.
async fn init(world: &World, schema: &str) -> Answer {
    world.producer(&["init", "--schema", &schema_file(world, schema)]).await
}

async fn world_of(schema: &str) -> World {
    let world = empty_world().await;
    init(&world, schema).await.expect_success();
    world
}

/// Waits until so many documents match.
async fn wait_count(world: &World, name: &str, filter: Document, count: u64) {
    let what = format!("{count} documents of {name} match {filter}");
    wait_until(&what, s(60), async || {
        let found = collection(world, name).count_documents(filter.clone()).await;
        found.expect("MongoDB is there") == count
    })
    .await;
}

/// The audit finds nothing.
async fn assert_sound(world: &World) {
    let audit = world.producer(&["audit", "--at-rest"]).await;
    assert_eq!(audit.code, Some(0), "{}\n{}", audit.stdout, audit.stderr);
}
