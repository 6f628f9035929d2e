//! `producer workers drain`: one worker stops within seconds, others settle on, nothing is lost, and
//! what nobody settles is told.

use harness::producer::Answer;
use harness::wait::{eventually, s, wait_until};
use harness::worker::{Worker, active};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::{Choice, SeenWorker};
use serde_json::Value;

/// More than one worker settles until it is drained.
const TRANSFERS: u64 = 20_000;

async fn drain(world: &World, name: &str) -> Answer {
    let why = ["--reason", "its machine is to be replaced", "--by", "ada", "--wait-limit", "60"];
    let arguments = [&["workers", "drain", name][..], &why].concat();
    world.producer(&arguments).await.expect_success()
}

async fn resume(world: &World, name: &str) -> Answer {
    let arguments = ["workers", "resume", name, "--by", "bob", "--wait-limit", "60"];
    world.producer(&arguments).await.expect_success()
}

/// Waits until each of so many workers has said how it is.
async fn seen(world: &World, count: usize) -> Vec<SeenWorker> {
    eventually("the workers have said how they are", s(60), async || {
        let seen = world.store.workers().await.expect("MongoDB is there");
        Some(seen).filter(|seen| seen.len() >= count)
    })
    .await
}

async fn shared(standby: bool) -> (World, Vec<Worker>) {
    let world = World::new().await;
    world.choose(Choice { standby: Some(standby), ..Choice::default() }).await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let start = |name| world.worker(name).flag("--batch-size", 200).flag("--lanes", 1).start();
    let (one, two) = tokio::join!(start("one"), start("two"));
    seen(&world, 2).await;
    (world, vec![one, two])
}

async fn submit(world: &World) {
    let transfers: Vec<_> =
        (0..TRANSFERS).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 10).await;
    wait_until("some are done", s(60), async || world.count(&[State::Done]).await > 0).await;
}

/// How many transactions a worker has brought to their end, as its own metrics say.
async fn ended_by(worker: &Worker) -> f64 {
    worker.metrics().await.sum("tandem_transitions_total", &[("state", "done")])
}

/// It is as ready as ever, holds nothing, and says on its pages who has drained it and why.
async fn assert_drained(worker: &Worker) {
    let metrics = worker.metrics().await;
    assert_eq!(metrics.sum("tandem_drained", &[]), 1.0);
    assert_eq!(metrics.sum("tandem_paused", &[]), 0.0);
    let ready = worker.get("/readyz").await.expect("it answers");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(ready.body.contains("worker: drained since"), "{}", ready.body);
    assert!(ready.body.contains("by ada: its machine is to be replaced"), "{}", ready.body);
}

/// Waits until a worker has said again that it is drained, so that it has had the time to begin
/// something, and asserts that it has not.
async fn stays_idle(world: &World, worker: &Worker, name: &str) {
    let before = ended_by(worker).await;
    let begun = world.store.server_now().await.expect("MongoDB is there");
    wait_until("it has been drained for a while", s(60), async || {
        let seen = world.store.workers().await.expect("MongoDB is there");
        let mut of_it = seen.iter().filter(|seen| seen.report.name == name);
        of_it.any(|seen| seen.report.drained && seen.seen_at > begun + 4_000)
    })
    .await;
    assert_eq!(ended_by(worker).await, before, "it has settled something");
}

#[tokio::test]
async fn a_drained_worker_begins_nothing_more_and_another_one_settles_all_of_it() {
    let (world, workers) = shared(false).await;
    submit(&world).await;
    let told = drain(&world, "one").await;
    assert!(told.stdout.contains("worker one is drained since"), "{told:?}");
    assert!(told.stdout.contains("by ada: its machine is to be replaced"), "{told:?}");
    assert!(told.stdout.contains("\n  producer workers resume one\n"), "{told:?}");
    assert!(world.count(&[State::Done]).await < TRANSFERS, "all was done before");
    assert_drained(&workers[0]).await;
    stays_idle(&world, &workers[0], "one").await;
    world.wait_final(s(240)).await;
    assert_eq!(world.count(&[State::Done]).await, TRANSFERS);
    assert_eq!(workers[1].metrics().await.sum("tandem_drained", &[]), 0.0);
    let log = workers[0].log();
    assert_eq!(log.matches("this worker is drained: it begins nothing").count(), 1, "{log}");
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn a_drained_worker_hands_its_turn_on_and_does_not_take_it_back() {
    let (world, mut workers) = shared(true).await;
    submit(&world).await;
    let both: Vec<&Worker> = workers.iter().collect();
    let at = active(&both, s(60)).await;
    let (name, other) = if at == 0 { ("one", "two") } else { ("two", "one") };
    drain(&world, name).await;
    assert_drained(&workers[at]).await;
    let drained = workers.remove(at);
    wait_until("the other one has the turn", s(60), async || !workers[0].stands_by().await).await;
    world.wait_final(s(240)).await;
    // Nobody else is there to take it.
    drop(workers.remove(0));
    world.submit(&[transfer("late", "a", "b", 1)], 1).await;
    stays_idle(&world, &drained, name).await;
    assert_eq!(world.state("late").await, State::Initial);
    resume(&world, name).await;
    world.wait_state("late", State::Done, s(60)).await;
    let unknown = world.producer(&["workers", "resume", other]).await;
    assert!(unknown.is_success(), "it was seen within a day: {unknown:?}");
    world.assert_at_rest().await;
    drop(drained);
    world.finish().await;
}

/// What the overview says of the first problem, when it is this one.
async fn problem(world: &World, code: &str) -> Value {
    eventually("the overview tells it", s(60), async || {
        let seen = world.producer(&["top", "--once", "--json"]).await.expect_success().json();
        Some(seen).filter(|seen| seen["problems"][0]["code"] == code)
    })
    .await
}

#[tokio::test]
async fn a_worker_that_is_started_again_stays_drained_and_all_drained_is_told_as_such() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let mut worker = world.worker("one").start().await;
    seen(&world, 1).await;
    let never = resume(&world, "one").await;
    assert!(never.stdout.contains("worker one was never drained"), "{never:?}");
    drain(&world, "one").await;
    let again = ["workers", "drain", "one", "--reason", "another", "--by", "bob", "--json"];
    let again = world.producer(&again).await.expect_success().json();
    assert_eq!((&again["drained"], &again["changed"]), (&true.into(), &false.into()), "{again}");
    assert_eq!((&again["by"], &again["worker"]), (&"ada".into(), &"one".into()), "{again}");
    worker.drain(s(60)).await;
    let worker = world.worker("one").start().await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    assert_drained(&worker).await;
    stays_idle(&world, &worker, "one").await;
    let seen = problem(&world, "all_workers_drained").await;
    assert_eq!(seen["problems"][0]["severity"], "critical", "{seen}");
    let of_it = seen["workers"].as_array().expect("a list").iter();
    let of_it = of_it.filter(|worker| worker["activity"] == "drained").collect::<Vec<_>>();
    assert_eq!(of_it.len(), 1, "{seen}");
    assert_eq!(of_it[0]["drain"]["by"], "ada", "{seen}");
    // Under another name, as that of another pod, it settles.
    let other = world.worker("two").start().await;
    world.wait_state("t", State::Done, s(60)).await;
    problem(&world, "worker_drained").await;
    drop(other);
    resume(&world, "one").await;
    world.submit(&[transfer("u", "a", "b", 1)], 1).await;
    world.wait_state("u", State::Done, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_nobody_has_seen_is_refused_with_those_that_there_are() {
    let world = World::new().await;
    let drain = ["workers", "drain", "three", "--reason", "a drill"];
    let none = world.producer(&drain).await;
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("no such worker; none was seen"), "{none:?}");
    let worker = world.worker("one").start().await;
    seen(&world, 1).await;
    for command in [&drain[..], &["workers", "resume", "three"]] {
        let refused = world.producer(command).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let told = "three: no such worker; within a day there were one";
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let drained = world.store.drained().await.expect("MongoDB is there");
    assert_eq!(drained, [], "nothing was said");
    let acts = world.producer(&["acts", "--what", "worker.drain", "--json"]).await;
    let acts = acts.expect_success().stdout;
    let refused = acts.lines().filter(|line| line.contains("\"code\":\"not-found\""));
    assert_eq!(refused.count(), 2, "{acts}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_drained_worker_stays_drained_when_settlement_goes_on() {
    let (world, workers) = shared(false).await;
    drain(&world, "one").await;
    let pause = ["pause", "--reason", "a drill", "--wait-limit", "60"];
    world.producer(&pause).await.expect_success();
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.producer(&["resume", "--wait-limit", "60"]).await.expect_success();
    world.wait_state("t", State::Done, s(60)).await;
    assert_drained(&workers[0]).await;
    assert_eq!(ended_by(&workers[0]).await, 0.0);
    resume(&world, "one").await;
    assert_eq!(workers[0].metrics().await.sum("tandem_drained", &[]), 0.0);
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}
