//! The broker may restart, cut connections, fall silent or lose a queue: workers consume again
//! without help.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use harness::proxy::ByteProxy;
use harness::servers::{OwnBroker, Servers};
use harness::wait::{ms, promised, s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::message::Message;
use ledger::transaction::State;
use queue::{Outgoing, Publisher, SOLO, WORK};
use settings::AmqpSettings;

/// The promise: this long after the broker is back, messages are consumed.
const AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// Submits one transfer and waits until it is done.
async fn settles_one(world: &World, id: &str, within: Duration) -> Duration {
    world.submit(&[transfer(id, "a", "b", 1)], 1).await;
    world.wait_state(id, State::Done, within).await
}

/// Submits one transfer, which has to be done in time; `what` happened to the broker just before.
async fn is_consumed_from_again(world: &World, what: &str) {
    let took = settles_one(world, "after", AGAIN_WITHIN).await;
    eprintln!("{what}: consuming again after {took:.1?}");
    assert!(took < promised(AGAIN_WITHIN), "it took {took:?}");
}

async fn world_with_money() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    world
}

/// A worker that reaches the broker through a proxy and has settled a transaction.
async fn worker_behind_proxy(world: &World) -> (Worker, ByteProxy) {
    let (proxy, url) = world.amqp_proxy().await;
    // No sweeper, which would publish late transactions: here the message itself has to arrive.
    let worker = world.worker("one").amqp(&url).flag("--orphan-ms", 600_000).start().await;
    settles_one(world, "before", s(30)).await;
    (worker, proxy)
}

#[tokio::test]
async fn a_restarted_broker_loses_nothing_and_is_consumed_from_within_ten_seconds() {
    let shared = Servers::from_env();
    let mut broker = OwnBroker::start(&format!("restart-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(Servers { amqp_url: broker.amqp_url.clone(), ..shared }).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let workers = tokio::join!(
        world.worker("one").flag("--batch-size", 10).start(),
        world.worker("two").flag("--batch-size", 10).start(),
    );
    let transfers: Vec<_> = (0..1_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 5).await;
    wait_until("some of them are done, not all", s(60), async || {
        world.count(&[State::Done]).await > 100
    })
    .await;
    broker.kill();
    let left = world.count(&State::UNFINISHED).await;
    broker.up().await;
    let back = Instant::now();
    wait_until("both consume from the queue again", AGAIN_WITHIN, async || {
        world.queues.consumers().await == Some(2)
    })
    .await;
    let again = back.elapsed();
    assert!(again < promised(AGAIN_WITHIN), "consuming again took {again:?}");
    // The tests' own publisher notices the restart only when it publishes; it connects anew.
    let fresh = world.with_fresh_publisher().await;
    settles_one(&fresh, "after", s(60)).await;
    world.wait_final(s(90)).await;
    eprintln!("restart: {left} were unfinished, consuming again after {again:.1?}");
    assert_eq!(world.count(&[State::Done]).await, 1_001);
    world.assert_at_rest().await;
    drop(workers);
    fresh.finish().await;
}

/// What the tests' servers are started with against an error of RabbitMQ, by which one test's
/// queues can break those of all others (`deploy/operating.md`, "given up dead lettering").
#[tokio::test]
async fn a_broker_of_the_tests_goes_on_dead_lettering_though_its_workers_crash() {
    const CRASH: &str = "[begin [exit(Worker, kill) || {_, Worker, _, _} <- \
        supervisor:which_children(rabbit_fifo_dlx_sup)], timer:sleep(200) end \
        || _ <- lists:seq(1, 10)].";
    let shared = Servers::from_env();
    let broker = OwnBroker::start(&format!("crashes-{}", uuid::Uuid::new_v4().simple())).await;
    let servers = Servers { amqp_url: broker.amqp_url.clone(), ..shared };
    let before = World::on(servers.clone()).await;
    broker.control(&["eval", CRASH]).await;
    // Queues that are there go on even where it has given up; new ones are refused.
    let after = World::on(servers).await;
    after.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = after.worker("one").start().await;
    settles_one(&after, "after", s(60)).await;
    drop(worker);
    before.finish().await;
    after.finish().await;
}

#[tokio::test]
async fn a_deleted_work_queue_is_declared_again_and_consumed_from_within_ten_seconds() {
    let world = world_with_money().await;
    let worker = world.worker("one").flag("--orphan-ms", 600_000).start().await;
    settles_one(&world, "before", s(30)).await;
    world.queues.delete(WORK).await;
    let deleted = Instant::now();
    wait_until("somebody consumes from the queue again", AGAIN_WITHIN, async || {
        world.queues.consumers().await.is_some_and(|consumers| consumers > 0)
    })
    .await;
    settles_one(&world, "after", AGAIN_WITHIN).await;
    eprintln!("deleted queue: consuming again after {:.1?}", deleted.elapsed());
    assert!(deleted.elapsed() < promised(AGAIN_WITHIN), "it took {:?}", deleted.elapsed());
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_queue_deleted_and_declared_again_at_once_is_consumed_from_within_ten_seconds() {
    let world = world_with_money().await;
    let worker = world.worker("one").flag("--orphan-ms", 600_000).start().await;
    for n in 0..5 {
        settles_one(&world, &format!("before-{n}"), s(30)).await;
    }
    world.queues.replace(WORK).await;
    is_consumed_from_again(&world, "replaced queue").await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_queue_declared_again_is_consumed_from_while_the_solo_queue_is_busy() {
    let world = world_with_money().await;
    let worker = world.worker("one").flag("--orphan-ms", 600_000).start().await;
    for n in 0..5 {
        settles_one(&world, &format!("before-{n}"), s(30)).await;
    }
    world.queues.replace(WORK).await;
    let busy = async {
        loop {
            // The transaction was settled long ago: only the delivery of its message counts.
            world.queues.publish_raw(SOLO, br#"{"ids":["before-0"]}"#).await;
            tokio::time::sleep(s(1)).await;
        }
    };
    tokio::select! {
        () = busy => {}
        () = is_consumed_from_again(&world, "replaced queue") => {}
    }
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_was_in_a_deleted_queue_is_settled_by_the_sweeper() {
    let world = world_with_money().await;
    let transfers: Vec<_> = (0..50).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 1).await;
    world.queues.replace(WORK).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 50);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_cut_connection_is_made_anew_within_ten_seconds() {
    let world = world_with_money().await;
    let (worker, proxy) = worker_behind_proxy(&world).await;
    proxy.cut();
    is_consumed_from_again(&world, "cut connection").await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_connection_cut_again_and_again_under_load_settles_everything_once() {
    let world = world_with_money().await;
    let (proxy, url) = world.amqp_proxy().await;
    // One lane: if a lost connection still occupies it, nothing else can begin.
    let plan = world.worker("one").amqp(&url).flag("--orphan-ms", 600_000);
    let worker = plan.flag("--lanes", 1).start().await;
    let transfers: Vec<_> = (0..1_200).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 2).await;
    for so_far in [40, 120, 200, 280, 360, 440] {
        wait_until("the next part is done", s(60), async || {
            world.count(&[State::Done]).await >= so_far
        })
        .await;
        proxy.cut();
    }
    // What was delivered before a cut comes again, and is processed one by one: seconds, or minutes
    // on a busy machine.
    world.wait_final(s(240)).await;
    assert_eq!(world.count(&[State::Done]).await, 1_200);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_silent_connection_is_given_up_and_made_anew() {
    /// The worker notices after some seconds and connects again. The broker still takes the old
    /// consumer for alive and gives it messages, until its heartbeats stay away.
    const WITHIN: Duration = Duration::from_secs(45);
    let world = world_with_money().await;
    let (worker, proxy) = worker_behind_proxy(&world).await;
    proxy.abandon();
    let took = settles_one(&world, "after", WITHIN).await;
    assert!(took < promised(WITHIN), "it took {took:?}");
    let reconnects = worker.metrics().await.sum("tandem_reconnects_total", &[]);
    assert!(reconnects >= 1.0, "it should have connected anew");
    eprintln!("silent connection: settled after {took:.1?}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_starts_before_its_broker_waits_for_it() {
    let world = world_with_money().await;
    let (proxy, url) = world.amqp_proxy().await;
    proxy.refuse();
    let mut worker = world.worker("one").amqp(&url).launch();
    wait_until("the worker says that the broker is away", s(30), async || {
        worker.get("/readyz").await.is_some_and(|answer| answer.status == 503)
    })
    .await;
    assert!(worker.exited().is_none());
    proxy.restore();
    wait_until("the worker is ready", AGAIN_WITHIN, async || worker.is_ready().await).await;
    settles_one(&world, "after", s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn readiness_follows_the_broker() {
    let world = world_with_money().await;
    let (worker, proxy) = worker_behind_proxy(&world).await;
    proxy.refuse();
    wait_until("it is not ready", s(20), async || !worker.is_ready().await).await;
    let alive = worker.get("/healthz").await.expect("it answers");
    assert_eq!(alive.status, 200, "a broker that is away is no reason to be restarted");
    proxy.restore();
    wait_until("it is ready again", AGAIN_WITHIN, async || worker.is_ready().await).await;
    settles_one(&world, "after", s(30)).await;
    world.finish().await;
}

#[tokio::test]
async fn who_publishes_does_not_wait_for_the_confirms_of_others() {
    let world = World::new().await;
    let (proxy, url) = world.amqp_proxy().await;
    let amqp = AmqpSettings { amqp_url: url, queue_prefix: world.name.clone() };
    let publisher = Publisher::new(&amqp, "tests");
    let message = [Outgoing::work(&Message::new(vec!["t".into()]))];
    let publish = async |calls: usize| {
        let begun = Instant::now();
        let calls = (0..calls).map(|_| publisher.publish(&message));
        try_join_all(calls).await.expect("the broker takes them");
        begun.elapsed()
    };
    publish(8).await;
    proxy.slow(ms(200));
    // The best of some: a busy machine makes single ones slow.
    let best = async |calls: usize| {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(publish(calls).await);
        }
        all.into_iter().min().expect("some")
    };
    let (one, eight) = (best(1).await, best(8).await);
    assert!(eight < one * 4, "{one:?} for one, {eight:?} for eight");
    publisher.close().await;
    world.finish().await;
}

#[tokio::test]
async fn nothing_that_is_delivered_is_lost_while_the_worker_asks_for_more_or_fewer_messages_ahead()
{
    const ROUNDS: usize = 6;
    const SINGLE: usize = 2_000;
    const IN_TENS: usize = 3_000;
    let world = World::new().await;
    let names: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
    let accounts: Vec<_> = names.iter().map(|name| (name.as_str(), 1_000_000)).collect();
    world.accounts(&accounts).await;
    let each = |n: usize| transfer(&format!("t{n}"), &names[n % 100], &names[(7 * n + 1) % 100], 1);
    let transfers: Vec<_> = (0..ROUNDS * (SINGLE + IN_TENS)).map(each).collect();
    for round in transfers.chunks(SINGLE + IN_TENS) {
        world.submit(&round[..SINGLE], 1).await;
        world.submit(&round[SINGLE..], 10).await;
    }
    // No sweeper, which would bring back what is lost.
    let worker = world.worker("one").flag("--orphan-ms", 600_000).start().await;
    world.wait_final(s(180)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
