//! How long after a broker's return are its consumers back? Measured again and again.
//!
//! Owns the story of one return: the broker is killed under a steady load, started on its port, and
//! from the first login that it accepts the clock runs until every worker consumes again and a
//! transfer submitted since is done. The sweeper is kept out of it: the message itself has to come.

use std::cell::Cell;
use std::time::{Duration, Instant};

use harness::servers::OwnBroker;
use harness::wait::{ms, s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::message::Message;
use ledger::transaction::{State, TransactionId};
use queue::{DEAD, Outgoing, Publisher};
use settings::AmqpSettings;

/// The promise.
pub const LIMIT: Duration = Duration::from_secs(10);

/// When waiting ends, so that a broken promise is measured and not only noticed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A quorum queue whose node is killed sooner after its declaration may come back without a leader
/// (RabbitMQ 3.10); this is also how long the load runs between two deaths.
const BETWEEN: Duration = Duration::from_millis(2_000);

const WORKERS: u32 = 2;
const LOAD_EVERY: Duration = Duration::from_millis(50);

/// One return of the broker; both times count from the first login that it accepted.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Until every worker was ready and had its consumer on the work queue.
    pub consuming: Duration,
    /// Until the transfer that was submitted after the return was done as well.
    pub settled: Duration,
}

/// What came of all of them.
#[derive(Debug)]
pub struct Returns {
    /// In order.
    pub each: Vec<Return>,
    /// How many transfers there were, those of the load included.
    pub transfers: u64,
    /// What was wrong at rest: rules that are broken, dead letters.
    pub problems: Vec<String>,
}

/// Kills and restarts a broker of its own so many times.
///
/// # Panics
/// When a server does not start, or a worker does not recover at all.
pub async fn measure(times: usize, mut said: impl FnMut(usize, Return)) -> Returns {
    let name = format!("returns-{}", uuid::Uuid::new_v4().simple());
    let mut broker = OwnBroker::start(&name).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let worker = |name: &str| world.worker(name).flag("--orphan-ms", 600_000).start();
    let (one, two) = tokio::join!(worker("one"), worker("two"));
    let workers = [one, two];
    let over = Cell::new(false);
    let story = async {
        let mut each = Vec::new();
        for number in 0..times {
            tokio::time::sleep(BETWEEN).await;
            let measured = one_return(&world, &mut broker, &workers, number).await;
            said(number, measured);
            each.push(measured);
        }
        over.set(true);
        each
    };
    let (each, ()) = tokio::join!(story, load(&world, &over));
    world.wait_final(PATIENCE).await;
    let problems = at_rest(&world).await;
    let transfers = world.count(&State::ALL).await;
    drop(workers);
    if problems.is_empty() {
        // With connections of its own, since the world's were made before the first death.
        world.with_fresh_publisher().await.finish().await;
    }
    Returns { each, transfers, problems }
}

async fn one_return(
    world: &World,
    broker: &mut OwnBroker,
    workers: &[Worker],
    number: usize,
) -> Return {
    broker.kill();
    let returned = async {
        // By the same login that a client makes; `up` waits for more than that.
        wait_until("the broker accepts logins", s(180), async || world.queues.answers().await)
            .await;
        let back = Instant::now();
        let id: TransactionId = format!("after-{number}").into();
        let (consuming, settled) = tokio::join!(
            async {
                wait_until("all consume again", PATIENCE, async || {
                    all_consume(world, workers).await
                })
                .await;
                back.elapsed()
            },
            async {
                submit(world, &publisher(world), &id).await;
                world.wait_state(&id, State::Done, PATIENCE).await;
                back.elapsed()
            }
        );
        Return { consuming, settled: settled.max(consuming) }
    };
    tokio::join!(broker.up(), returned).1
}

async fn all_consume(world: &World, workers: &[Worker]) -> bool {
    for worker in workers {
        if !worker.is_ready().await {
            return false;
        }
    }
    world.queues.consumers().await == Some(WORKERS)
}

async fn at_rest(world: &World) -> Vec<String> {
    let mut problems = world.problems().await;
    let audit = world.audit().await;
    if !audit.is_success() {
        problems.push(format!("the audit: {}", audit.stdout));
    }
    match world.queues.depth(DEAD).await {
        Some(0) => {}
        letters => problems.push(format!("dead letters: {letters:?}")),
    }
    problems
}

/// One transfer after the other, also while the broker is away, as a steady client's.
async fn load(world: &World, over: &Cell<bool>) {
    let publisher = publisher(world);
    for number in 0.. {
        if over.get() {
            return;
        }
        submit(world, &publisher, &format!("load-{number}").as_str().into()).await;
        tokio::time::sleep(LOAD_EVERY).await;
    }
}

fn publisher(world: &World) -> Publisher {
    let amqp =
        AmqpSettings { amqp_url: world.servers.amqp_url.clone(), queue_prefix: world.name.clone() };
    Publisher::new(&amqp, "returns")
}

/// Inserts, and publishes until the broker has confirmed.
async fn submit(world: &World, publisher: &Publisher, id: &TransactionId) {
    world.insert(&[transfer(id, "a", "b", 1)]).await;
    let message = [Outgoing::work(&Message::new(vec![id.clone()]))];
    while publisher.publish(&message).await.is_err() {
        tokio::time::sleep(ms(100)).await;
    }
}
