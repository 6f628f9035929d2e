//! A worker is not ready any more when one of its parts ends; it drains and fails, and never stays
//! up doing nothing. Each part is ended while a batch is in flight.

use std::time::Instant;

use harness::http;
use harness::proxy::Part as Side;
use harness::wait::{ms, promised, s, wait_until};
use harness::worker::free_address;
use harness::world::{World, transfer};
use ledger::transaction::State;
use queue::{SOLO, WORK};
use settings::TimingSettings;
use tokio::sync::mpsc;
use worker::components::Component;
use worker::{Config, Failure, Worker};

/// A batch needs a moment; with a disk that others kept busy it was not done after 20 s.
const DRAIN_MS: u32 = 60_000;

fn config(world: &World, mongodb: &str, http: &str) -> Config {
    let mut config = Config::new(mongodb, &world.servers.amqp_url);
    config.mongo.database = Some(world.name.clone());
    config.amqp.queue_prefix = world.name.clone();
    config.name = Some("one".to_owned());
    config.http = http.to_owned();
    config.drain_ms = DRAIN_MS;
    config.sweep_ms = 500;
    config.timing =
        TimingSettings { op_limit_ms: 8_000, grace_ms: 9_000, lease_ms: 16_000, ..config.timing };
    config
}

/// Ends a part while a batch is held, looks at the pages, lets the batch go on, and checks how the
/// worker ends.
async fn ends_with(part: Component) {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let address = free_address();
    let (tell, mut told) = mpsc::unbounded_channel();
    let started = move |part, handle| drop(tell.send((part, handle)));
    let config = config(&world, &uri, &address.to_string());
    let running = Worker::new(config).observed(started).start();
    let ready = async || http::get(address, "/readyz").await;
    wait_until("the worker is ready", s(60), async || {
        ready().await.is_some_and(|answer| answer.status == 200)
    })
    .await;

    let held = proxy.hold("settle", 1, Side::Request);
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    // The batch is in the other lane, so that the end of this one does not end it.
    let key = if part == Component::Batches { SOLO } else { WORK };
    world.queues.publish_raw(key, br#"{"ids":["t"]}"#).await;
    held.caught(s(20)).await;
    loop {
        let (started, handle) = told.recv().await.expect("every part is started");
        if started == part {
            handle.abort();
            break;
        }
    }
    let ended = Instant::now();
    let name = part.to_string();
    wait_until("the pages say so, or are gone", s(5), async || match ready().await {
        Some(answer) => answer.status == 503 && answer.body.contains(&name),
        None => part == Component::Pages,
    })
    .await;
    assert!(!running.is_finished(), "it waits for the batch");
    held.release();
    let failure = running.wait().await.expect_err("a failure");
    let took = ended.elapsed();
    assert!(
        took < promised(ms(DRAIN_MS.into())),
        "it takes no longer than the drain limit: {took:?}"
    );
    assert!(matches!(&failure, Failure::Ended(named, _) if *named == part), "{failure}");
    // The batch was drained, not left to its lease.
    assert_eq!(world.state("t").await, State::Done);
    let second = world.worker("two").start().await;
    world.submit(&[transfer("u", "a", "b", 1)], 1).await;
    world.wait_final(s(60)).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn a_consumer_that_ends_ends_the_worker() {
    ends_with(Component::Consumer).await;
}

#[tokio::test]
async fn lanes_that_end_end_the_worker() {
    ends_with(Component::Batches).await;
}

#[tokio::test]
async fn lanes_of_what_was_delivered_before_that_end_end_the_worker() {
    ends_with(Component::SuspectBatches).await;
}

#[tokio::test]
async fn a_solo_lane_that_ends_ends_the_worker() {
    ends_with(Component::SoloBatches).await;
}

#[tokio::test]
async fn a_sweeper_that_ends_ends_the_worker() {
    ends_with(Component::Sweeper).await;
}

#[tokio::test]
async fn a_database_watcher_that_ends_ends_the_worker() {
    ends_with(Component::DatabaseWatcher).await;
}

#[tokio::test]
async fn a_settings_watcher_that_ends_ends_the_worker() {
    ends_with(Component::SettingsWatcher).await;
}

#[tokio::test]
async fn pages_that_end_end_the_worker() {
    ends_with(Component::Pages).await;
}
