//! Workers that stand by for one another: one is at work, and the next takes its place at once.

use std::time::Instant;

use harness::servers::{OwnBroker, Servers};
use harness::wait::{promised, s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::Choice;
use queue::TURN;

async fn world_of_standby(servers: Servers) -> World {
    let world = World::on(servers).await;
    world.choose(Choice { standby: Some(true), ..Choice::default() }).await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

/// The same on a broker of its own.
async fn world_with_a_broker() -> (OwnBroker, World) {
    let name = format!("standby-{}", uuid::Uuid::new_v4().simple());
    let broker = OwnBroker::start(&name).await;
    let world = world_of_standby(broker.servers()).await;
    (broker, world)
}

/// The end of a test: everything is at rest.
async fn end(world: World, workers: impl Sized) {
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

/// Three workers; nothing that is asked of them is found by a sweep.
async fn three(world: &World, url: &str) -> [Worker; 3] {
    let start = |name| world.worker(name).amqp(url).flag("--orphan-ms", 600_000).start();
    let (one, two, three) = tokio::join!(start("one"), start("two"), start("three"));
    [one, two, three]
}

fn url(world: &World) -> String {
    world.env()["TANDEM_AMQP_URL"].clone()
}

/// Waits until one of them is at work, the only one that takes messages, and all others stand by;
/// returns its place.
async fn active(world: &World, workers: &[Worker]) -> usize {
    let workers: Vec<&Worker> = workers.iter().collect();
    loop {
        let at = harness::worker::active(&workers, s(60)).await;
        wait_until("one takes messages", s(60), async || world.queues.consumers().await == Some(1))
            .await;
        if !workers[at].stands_by().await {
            return at;
        }
    }
}

async fn settles_one(world: &World, id: &str) {
    world.submit(&[transfer(id, "a", "b", 1)], 1).await;
    world.wait_state(id, State::Done, s(60)).await;
}

#[tokio::test]
async fn one_worker_settles_and_another_takes_its_place_at_once_when_it_dies() {
    let world = world_of_standby(Servers::from_env()).await;
    let mut workers = Vec::from(three(&world, &url(&world)).await);
    let mut longest = s(0);
    for death in 0..2 {
        let at = active(&world, &workers).await;
        settles_one(&world, &format!("before-{death}")).await;
        let dead = workers.remove(at);
        let died = Instant::now();
        drop(dead);
        settles_one(&world, &format!("after-{death}")).await;
        longest = longest.max(died.elapsed());
    }
    eprintln!("settled again after {longest:.1?}");
    assert!(longest < promised(s(10)), "{longest:?}");
    assert_eq!(active(&world, &workers).await, 0, "the last one is at work");
    end(world, workers).await;
}

#[tokio::test]
async fn the_place_of_a_worker_that_hangs_is_taken_when_the_broker_has_not_heard_of_it() {
    let world = world_of_standby(Servers::from_env()).await;
    let workers = three(&world, &url(&world)).await;
    let at = active(&world, &workers).await;
    let ahead: Vec<_> = (0..500).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&ahead, 1).await;
    wait_until("some are settled", s(60), async || world.count(&[State::Done]).await > 0).await;
    workers[at].freeze().await;
    let frozen = Instant::now();
    settles_one(&world, "after").await;
    let took = frozen.elapsed();
    eprintln!("settled again after {took:.1?}");
    // A broker that waits for two or three usual heartbeats takes up to 24 s.
    assert!(took < promised(s(20)), "{took:?}");
    // It learns that it is not its turn any more, and stands by.
    workers[at].thaw();
    assert_ne!(active(&world, &workers).await, at);
    settles_one(&world, "last").await;
    world.wait_final(s(60)).await;
    end(world, workers).await;
}

#[tokio::test]
async fn the_way_of_a_ledger_changes_while_everything_runs() {
    let world = world_of_standby(Servers::from_env()).await;
    let workers = three(&world, &url(&world)).await;
    active(&world, &workers).await;
    let all: Vec<_> = (0..3_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    let mut parts = all.chunks(500);
    for _ in 0..3 {
        for (way, consumers) in [("share", 3), ("standby", 1)] {
            world.submit(parts.next().expect("six parts"), 5).await;
            let init = ["init", "--replicas", way, "--apply"];
            world.producer(&init).await.expect_success();
            wait_until("the workers do as they are told", s(60), async || {
                world.queues.consumers().await == Some(consumers)
            })
            .await;
        }
    }
    active(&world, &workers).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 3_000);
    end(world, workers).await;
}

#[tokio::test]
async fn one_is_at_work_again_after_the_queue_of_the_turn_was_deleted() {
    let world = world_of_standby(Servers::from_env()).await;
    let workers = three(&world, &url(&world)).await;
    for n in 0..2 {
        active(&world, &workers).await;
        settles_one(&world, &format!("before-{n}")).await;
        world.queues.delete(TURN).await;
        // What workers do about it is not done at once; then the queue is there again.
        wait_until("the queue is declared again", s(60), async || {
            world.queues.depth(TURN).await.is_some()
        })
        .await;
        settles_one(&world, &format!("after-{n}")).await;
    }
    active(&world, &workers).await;
    end(world, workers).await;
}

#[tokio::test]
async fn a_binding_of_the_queue_of_the_turn_that_somebody_has_removed_is_made_again() {
    let world = world_of_standby(Servers::from_env()).await;
    let workers = three(&world, &url(&world)).await;
    active(&world, &workers).await;
    world.queues.unbind(TURN).await;
    assert!(!world.queues.takes(TURN).await);
    wait_until("it is bound again", s(120), async || world.queues.takes(TURN).await).await;
    active(&world, &workers).await;
    settles_one(&world, "after").await;
    end(world, workers).await;
}

#[tokio::test]
async fn one_is_at_work_again_after_the_broker_was_restarted() {
    let (mut broker, world) = world_with_a_broker().await;
    let workers = three(&world, &url(&world)).await;
    active(&world, &workers).await;
    settles_one(&world, "before").await;
    broker.kill();
    broker.up().await;
    let fresh = world.with_fresh_publisher().await;
    settles_one(&fresh, "after").await;
    active(&fresh, &workers).await;
    end(fresh, workers).await;
}

#[tokio::test]
async fn a_worker_that_stops_hands_its_turn_on_and_ends_what_it_has_begun() {
    let world = world_of_standby(Servers::from_env()).await;
    let mut workers = Vec::from(three(&world, &url(&world)).await);
    let transfers: Vec<_> = (0..2_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    for some in transfers.chunks(1_000) {
        let at = active(&world, &workers).await;
        world.submit(some, 1).await;
        workers.remove(at).drain(s(60)).await;
    }
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 2_000);
    assert_eq!(active(&world, &workers).await, 0);
    end(world, workers).await;
}

#[tokio::test]
async fn a_worker_without_the_database_hands_its_turn_on_and_stands_by_when_it_is_back() {
    let world = world_of_standby(Servers::from_env()).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let cut_off = world.worker("cut-off").mongodb(&uri).flag("--orphan-ms", 600_000).start().await;
    settles_one(&world, "before").await;
    let other = world.worker("other").flag("--orphan-ms", 600_000).start().await;
    let workers = [cut_off, other];
    assert_eq!(active(&world, &workers).await, 0);
    proxy.refuse();
    wait_until("the other one has the turn", s(60), async || !workers[1].stands_by().await).await;
    settles_one(&world, "after").await;
    proxy.restore();
    wait_until("it reaches the database", s(60), async || workers[0].is_ready().await).await;
    assert_eq!(active(&world, &workers).await, 1);
    settles_one(&world, "last").await;
    end(world, workers).await;
}

#[tokio::test]
async fn workers_that_start_during_an_alarm_of_the_broker_settle_what_waits() {
    let (broker, world) = world_with_a_broker().await;
    world.submit(&[transfer("waits", "a", "b", 1)], 1).await;
    broker.alarm(true).await;
    let workers = three(&world, &url(&world)).await;
    world.wait_state("waits", State::Done, s(60)).await;
    broker.alarm(false).await;
    active(&world, &workers).await;
    settles_one(&world, "after").await;
    end(world, workers).await;
}

#[tokio::test]
async fn a_worker_that_may_not_ask_whose_turn_it_is_stays_at_work() {
    let (broker, world) = world_with_a_broker().await;
    world.queues.declare().await;
    // As a version before has made them.
    let read = format!(r"^{}\.(work|solo)\.v1$", world.name);
    let url = broker.user("before", ["^$", ".*", &read]).await;
    let worker = world.worker("before").amqp(&url).env("TANDEM_LOG", "worker=debug").start().await;
    settles_one(&world, "one").await;
    wait_until("it has asked some times", s(60), async || {
        worker.log().matches("whose turn it is will be asked again").count() >= 4
    })
    .await;
    assert!(!worker.log().contains("taking no more messages"), "{}", worker.log());
    // Once for what lasts, and perhaps once for a broker that was slow before.
    assert!(worker.log().matches("whose turn it is can't be asked").count() <= 2);
    settles_one(&world, "two").await;
    drop(worker);
    world.finish().await;
}
