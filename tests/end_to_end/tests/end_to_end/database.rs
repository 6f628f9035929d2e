//! MongoDB may be away for a while: workers wait, say so, and finish. A server that can't do what a
//! ledger needs is refused.

use std::process::Command;

use harness::deployment::{ports, programs};
use harness::process::{Process, exit_code};
use harness::producer;
use harness::proxy::MongoProxy;
use harness::wait::{s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::State;

async fn behind_proxy(world: &World) -> (Worker, MongoProxy) {
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = world.worker("one").mongodb(&uri).flag("--batch-size", 5).start().await;
    (worker, proxy)
}

async fn not_ready(worker: &Worker) {
    wait_until("the worker is not ready", s(30), async || !worker.is_ready().await).await;
}

#[tokio::test]
async fn a_database_that_is_away_in_the_middle_of_the_load_delays_and_loses_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let (worker, proxy) = behind_proxy(&world).await;
    let transfers: Vec<_> = (0..400).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 2).await;
    wait_until("some of them are done", s(60), async || world.count(&[State::Done]).await > 20)
        .await;
    proxy.refuse();
    let before = world.count(&[State::Done]).await;
    not_ready(&worker).await;
    assert!(before < 400, "the load was over before the database was away");
    proxy.restore();
    wait_until("the worker is ready again", s(30), async || worker.is_ready().await).await;
    world.wait_final(s(90)).await;
    assert_eq!(world.count(&[State::Done]).await, 400);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_is_submitted_while_the_database_is_away_from_the_worker_is_settled_later() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (worker, proxy) = behind_proxy(&world).await;
    proxy.refuse();
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    not_ready(&worker).await;
    assert_eq!(worker.get("/healthz").await.map(|answer| answer.status), Some(200));
    assert_eq!(world.state("t").await, State::Initial);
    proxy.restore();
    world.wait_state("t", State::Done, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_starts_before_its_database_waits_for_it() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    proxy.refuse();
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    let mut worker = world.worker("one").mongodb(&uri).launch();
    wait_until("it says that it waits", s(30), async || {
        worker.log().contains("waiting for the database")
    })
    .await;
    assert!(worker.exited().is_none());
    proxy.restore();
    world.wait_state("t", State::Done, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_server_without_a_replica_set_is_refused_at_every_start_with_what_to_do() {
    let world = World::new().await;
    let reserved = ports::choose(1).expect("a port is free");
    let port = reserved[0].port;
    let data = world.directory().join("alone");
    std::fs::create_dir_all(&data).expect("a directory");
    let mut mongod = Command::new(programs::mongod().expect("it is named"));
    mongod.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &port.to_string()]);
    mongod.arg("--dbpath").arg(&data);
    let alone = Process::start(&mut mongod, world.directory().join("logs/alone.log"));
    let uri = format!("mongodb://127.0.0.1:{port}/tandem");
    let mut worker = world.worker("one").mongodb(&uri).launch();
    assert_eq!(exit_code(worker.exit(s(60)).await), 1, "{}", worker.log());
    assert!(worker.log().contains("start mongod with --replSet"), "{}", worker.log());
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    let told = producer::run(&env, &["init"]).await;
    assert!(!told.is_success() && told.stderr.contains("rs.initiate()"), "{told:?}");
    drop((alone, reserved));
    world.finish().await;
}
