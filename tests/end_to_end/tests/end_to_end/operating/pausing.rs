//! `producer pause`: settlement stops within seconds on every worker, nothing is lost, and all that
//! needs no worker goes on.

use harness::producer::Answer;
use harness::wait::{s, wait_until};
use harness::worker::{Worker, active};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::{Choice, Settlement};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::FindOneOptions;
use queue::WORK;

/// More than workers settle until a pause is there.
const TRANSFERS: u64 = 40_000;

/// How long after a pause the last transaction may end, in milliseconds: a worker sees it within a
/// second, and ends its batches on a machine that is busy.
const ENDS_WITHIN_MS: i64 = 15_000;

/// So long a worker looks often, and reports often, in milliseconds: if it settled, it would show.
const WATCHED_MS: i64 = 4_000;

const PAUSE: [&str; 7] =
    ["pause", "--reason", "a wrong price list", "--by", "ada", "--wait-limit", "60"];
const RESUME: [&str; 5] = ["resume", "--by", "bob", "--wait-limit", "60"];

async fn pause(world: &World) -> Answer {
    world.producer(&PAUSE).await.expect_success()
}

async fn resume(world: &World) -> Answer {
    world.producer(&RESUME).await.expect_success()
}

/// What the settings say.
async fn said(world: &World) -> Settlement {
    let said = world.store.settlement().await.expect("MongoDB is there");
    said.expect("somebody has paused")
}

async fn server_now(world: &World) -> i64 {
    world.store.server_now().await.expect("MongoDB is there")
}

/// When the newest transaction became done, by the clock of the server.
async fn last_end(world: &World) -> i64 {
    let newest = FindOneOptions::builder().sort(doc! { "lastModified": -1 }).build();
    let done = doc! { "state": State::Done.as_str() };
    let found: Option<Document> =
        world.store.transactions().find_one(done).with_options(newest).await.expect("a find");
    let found = found.expect("some are done");
    found.get_datetime("lastModified").expect("a date").timestamp_millis()
}

/// Waits until every worker that is there has said for a while that it is paused.
async fn watched(world: &World, workers: usize) {
    let begun = server_now(world).await;
    wait_until("the workers have been paused for a while", s(60), async || {
        let now = server_now(world).await;
        let seen = world.store.workers().await.expect("MongoDB is there");
        let here = seen.iter().filter(|one| one.is_here(now));
        let paused = here.filter(|one| one.report.paused && one.seen_at >= begun + WATCHED_MS);
        paused.count() >= workers
    })
    .await;
}

async fn is_paused(worker: &Worker) -> bool {
    worker.metrics().await.sum("tandem_paused", &[]) == 1.0
}

/// It is as ready as ever, and says on its pages that settlement is paused.
async fn assert_shown(worker: &Worker) {
    assert!(is_paused(worker).await);
    let ready = worker.get("/readyz").await.expect("it answers");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(ready.body.contains("settlement: paused since"), "{}", ready.body);
    assert!(ready.body.contains("by ada: a wrong price list"), "{}", ready.body);
}

/// A world in which two workers settle many transfers.
async fn settling(standby: bool) -> (World, Vec<Worker>) {
    let world = World::new().await;
    world.choose(Choice { standby: Some(standby), ..Choice::default() }).await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let transfers: Vec<_> =
        (0..TRANSFERS).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 10).await;
    // So slow that it lasts for some time.
    let start = |name| world.worker(name).flag("--batch-size", 200).flag("--lanes", 1).start();
    let (one, two) = tokio::join!(start("one"), start("two"));
    wait_until("some are done", s(60), async || world.count(&[State::Done]).await > 0).await;
    (world, vec![one, two])
}

/// Pauses, and asserts that settlement stops in time; returns how many are done.
async fn stops(world: &World, workers: &[Worker]) -> u64 {
    let told = pause(world).await;
    assert!(told.stdout.contains("settlement is paused since"), "{told:?}");
    assert!(told.stdout.contains("by ada: a wrong price list"), "{told:?}");
    assert!(told.stdout.contains("\n  producer resume\n"), "{told:?}");
    let done = world.count(&[State::Done]).await;
    assert!(done < TRANSFERS, "all was done before: nothing is shown");
    let took = last_end(world).await - said(world).await.since;
    eprintln!("the last transaction ended {took} ms after the pause, as {done} were done");
    assert!(took < ENDS_WITHIN_MS, "{took} ms");
    for worker in workers {
        assert_shown(worker).await;
    }
    wait_until("nobody consumes", s(60), async || world.queues.consumers().await == Some(0)).await;
    assert!(world.queues.depth(WORK).await > Some(0), "what is left waits in the queue");
    watched(world, workers.len()).await;
    assert_eq!(world.count(&[State::Done]).await, done, "something more was settled");
    done
}

/// Resumes, and asserts that everything is settled.
async fn goes_on(world: World, workers: Vec<Worker>) {
    let told = resume(&world).await;
    assert!(told.stdout.contains("settlement goes on since"), "{told:?}");
    world.wait_final(s(240)).await;
    assert_eq!(world.count(&[State::Done]).await, TRANSFERS);
    for worker in &workers {
        wait_until("it goes on", s(60), async || !is_paused(worker).await).await;
        let log = worker.log();
        assert_eq!(log.matches("settlement is paused: nothing").count(), 1, "{log}");
        assert_eq!(log.matches("\"settlement goes on\"").count(), 1, "{log}");
        assert!(log.contains("by ada: a wrong price list") && log.contains("by bob"), "{log}");
    }
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn a_pause_stops_all_workers_within_seconds_and_nothing_is_lost() {
    let (world, mut workers) = settling(false).await;
    let done = stops(&world, &workers).await;
    // One that is started meanwhile is ready, and takes nothing.
    workers.push(world.worker("three").start().await);
    assert_shown(&workers[2]).await;
    watched(&world, 3).await;
    assert_eq!(world.queues.consumers().await, Some(0));
    assert_eq!(world.count(&[State::Done]).await, done);
    goes_on(world, workers).await;
}

#[tokio::test]
async fn a_pause_stops_the_worker_at_work_and_the_one_that_gets_its_turn() {
    let (world, mut workers) = settling(true).await;
    let both: Vec<&Worker> = workers.iter().collect();
    let at = active(&both, s(60)).await;
    let done = stops(&world, &workers).await;
    drop(workers.remove(at));
    wait_until("the other one has the turn", s(60), async || !workers[0].stands_by().await).await;
    watched(&world, 1).await;
    assert_eq!(world.queues.consumers().await, Some(0));
    assert_eq!(world.count(&[State::Done]).await, done);
    goes_on(world, workers).await;
}

#[tokio::test]
async fn a_pause_survives_the_restart_of_everything_and_the_second_one_changes_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let unsaid = world.producer(&["pause"]).await;
    assert_eq!(unsaid.code, Some(2), "{unsaid:?}");
    let empty = world.producer(&["pause", "--reason", " "]).await;
    assert_eq!(empty.code, Some(2), "{empty:?}");
    let never = world.producer(&RESUME).await.expect_success();
    assert!(never.stdout.contains("settlement was never paused"), "{never:?}");
    let mut worker = world.worker("one").start().await;
    pause(&world).await;
    let first = said(&world).await;
    let again =
        ["pause", "--reason", "another reason", "--by", "bob", "--wait-limit", "60", "--json"];
    let again = world.producer(&again).await.expect_success().json();
    assert_eq!((&again["paused"], &again["changed"]), (&true.into(), &false.into()), "{again}");
    assert_eq!((&again["by"], &again["workersDoSo"]), (&"ada".into(), &true.into()), "{again}");
    assert_eq!(said(&world).await, first);
    worker.drain(s(60)).await;
    // Another choice of the owner's leaves the pause as it is.
    world.producer(&["init", "--apply", "--replicas", "share"]).await.expect_success();
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    let worker = world.worker("one").start().await;
    assert_shown(&worker).await;
    watched(&world, 1).await;
    assert_eq!(world.state("t").await, State::Initial);
    resume(&world).await;
    world.wait_state("t", State::Done, s(60)).await;
    let again = resume(&world).await;
    assert!(again.stdout.contains("settlement was not paused"), "{again:?}");
    assert_eq!(said(&world).await.reason, None);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_pause_names_the_workers_that_have_not_seen_it() {
    let world = World::new().await;
    let worker = world.worker("frozen").start().await;
    wait_until("it has said how it is", s(60), async || {
        !world.store.workers().await.expect("MongoDB is there").is_empty()
    })
    .await;
    worker.freeze().await;
    let told = world.producer(&["pause", "--reason", "a drill", "--wait-limit", "1"]).await;
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(told.stderr.contains("frozen has not said that it has seen it"), "{told:?}");
    let told = world.producer(&["pause", "--reason", "a drill", "--no-wait"]).await;
    assert!(told.expect_success().stdout.contains("settlement was paused already"));
    worker.thaw();
    pause(&world).await;
    assert!(is_paused(&worker).await);
    drop(worker);
    world.finish().await;
}

async fn hold(world: &World, id: &str) {
    let hold = ["transfer", "a", "b", "10", "--hold", "--id", id, "--wait"];
    world.producer(&hold).await.expect_success();
}

#[tokio::test]
async fn holds_are_decided_and_all_is_read_while_settlement_is_paused() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    for id in ["confirmed", "released", "canceled"] {
        hold(&world, id).await;
    }
    pause(&world).await;
    for (command, id, state) in [
        ("confirm", "confirmed", State::Pending),
        ("release", "released", State::Canceling),
        ("cancel", "canceled", State::Canceling),
    ] {
        world.producer(&[command, id]).await.expect_success();
        assert_eq!(world.state(id).await, state, "{id}");
    }
    for reading in [
        &["accounts", "show", "a"][..],
        &["accounts", "statement", "a"],
        &["list"],
        &["stats"],
        &["audit"],
    ] {
        world.producer(reading).await.expect_success();
    }
    let due = DateTime::from_millis(server_now(&world).await);
    let due = due.try_to_rfc3339_string().expect("a moment");
    let later = ["transfer", "a", "b", "1", "--id", "due", "--not-before", &due];
    world.producer(&later).await.expect_success();
    let inserted = doc! {
        "_id": "inserted", "source": "a", "destination": "b", "value": 1_i64, "state": "initial",
        "createdAt": DateTime::now(), "lastModified": DateTime::now(), "unpublished": true,
    };
    world.store.transactions().insert_one(inserted).await.expect("MongoDB is there");
    let waits = ["transfer", "a", "b", "5", "--id", "waits", "--wait", "--wait-limit", "1"];
    let waited = world.producer(&waits).await;
    assert_eq!(waited.code, Some(3), "{waited:?}");
    assert!(waited.stderr.contains("settlement is paused since"), "{waited:?}");
    assert!(waited.stderr.contains("\n  producer resume\n"), "{waited:?}");
    let status = world.producer(&["status", "waits"]).await.expect_success();
    assert!(status.stderr.contains("settlement is paused since"), "{status:?}");
    watched(&world, 1).await;
    let waiting = ["waits", "inserted"];
    for id in waiting {
        assert_eq!(world.state(id).await, State::Initial, "{id}");
    }
    assert_eq!(world.state("confirmed").await, State::Pending);
    assert_eq!(world.state("released").await, State::Canceling);
    resume(&world).await;
    for (id, state) in [
        ("confirmed", State::Done),
        ("released", State::Canceled),
        ("canceled", State::Canceled),
        ("due", State::Done),
        ("inserted", State::Done),
        ("waits", State::Done),
    ] {
        world.wait_state(id, state, s(60)).await;
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
