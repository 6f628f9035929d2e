//! What the programs log: no line of level error where nothing failed, and one line for one
//! failure, whatever their libraries have to say.

use harness::producer;
use harness::wait::{s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};

/// With the lines of the broker's client, which are off otherwise.
const WITH_CLIENT: &str = "info,lapin=info";

#[tokio::test]
async fn a_setup_that_succeeds_logs_no_error() {
    let world = World::new().await;
    for (log, prefix) in [("info", "one"), (WITH_CLIENT, "two"), (WITH_CLIENT, "two")] {
        let mut env = world.env();
        env.insert("TANDEM_LOG".to_owned(), log.to_owned());
        env.insert("TANDEM_QUEUE_PREFIX".to_owned(), format!("{}-{prefix}", world.name));
        let set_up = producer::run(&env, &["init"]).await.expect_success();
        let said = set_up.stderr;
        assert!(log == WITH_CLIENT || !said.contains("lapin"), "with {log}: {said}");
        // A broker on a busy machine may answer too late; then something has failed.
        assert!(said.contains("trying again") || !said.contains("ERROR"), "with {log}: {said}");
    }
    for prefix in ["one", "two"] {
        let prefix = format!("{}-{prefix}", world.name);
        harness::queues::Queues::new(&world.servers.amqp_url, &prefix).delete_all().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_settles_and_stops_logs_no_error() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let mut worker = world.worker("one").env("TANDEM_LOG", "info").start().await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.wait_final(s(60)).await;
    worker.signal(harness::process::Signal::Term);
    assert_eq!(worker.exit(s(60)).await.code(), Some(0), "{}", worker.log());
    let log = worker.log();
    assert!(log.contains("nothing is left in flight"), "{log}");
    assert!(!log.contains("ERROR") && !log.contains("lapin"), "{log}");
    world.finish().await;
}

#[tokio::test]
async fn a_broker_that_is_away_for_a_while_is_one_line_of_a_workers_log() {
    let world = World::new().await;
    let (proxy, url) = world.amqp_proxy().await;
    let worker = world.worker("one").amqp(&url).env("TANDEM_LOG", "info").start().await;
    let is_of_broker = |line: &&str| {
        line.contains("RabbitMQ") && ["WARN", "ERROR"].iter().any(|level| line.contains(level))
    };
    let told = || worker.log().lines().filter(is_of_broker).count();
    let (before, tried) = (told(), reconnects(&worker).await);
    proxy.refuse();
    wait_until("it has tried three times", s(60), async || {
        reconnects(&worker).await >= tried + 3.0
    })
    .await;
    assert_eq!(told(), before + 1, "{}", worker.log());
    proxy.restore();
    wait_until("it consumes again", s(60), async || worker.is_ready().await).await;
    drop(worker);
    world.finish().await;
}

async fn reconnects(worker: &Worker) -> f64 {
    worker.metrics().await.sum("tandem_reconnects_total", &[])
}
