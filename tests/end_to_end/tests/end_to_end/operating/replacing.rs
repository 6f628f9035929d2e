//! Workers are replaced one by one, by such with other settings, while transfers come in.
//!
//! If `TANDEM_TEST_OLD_WORKER` names a worker of another version, the old ones are such: two
//! versions then work side by side.

use std::cell::Cell;
use std::time::Duration;

use harness::wait::{ms, s, wait_until};
use harness::worker::{Plan, Worker};
use harness::world::{World, transfer};
use ledger::transaction::State;

/// Far longer than the test: a transaction that a worker left behind would wait so long, and be
/// seen.
const LEASE: Duration = Duration::from_secs(600);
const WORKERS: usize = 3;

/// On a busy machine an operation that is given up too early would leave a lease behind.
fn patient(plan: Plan) -> Plan {
    plan.flag("--lease-ms", LEASE.as_millis())
        .flag("--op-limit-ms", 10_000)
        .flag("--grace-ms", 11_000)
}

fn old(world: &World, n: usize) -> Plan {
    let worker = patient(world.worker(&format!("old-{n}")));
    let worker = worker.flag("--engine", "two-phase").flag("--batch-size", 20);
    match std::env::var("TANDEM_TEST_OLD_WORKER") {
        Ok(path) if !path.is_empty() => worker.program(path),
        _ => worker,
    }
}

fn new(world: &World, n: usize) -> Plan {
    patient(world.worker(&format!("new-{n}")))
        .flag("--engine", "auto")
        .flag("--batch-size", 500)
        .flag("--lanes", 1)
        .flag("--ride-ms", 0)
}

/// Submits until it is told to stop; how many there were.
async fn load(world: &World, stop: &Cell<bool>) -> u64 {
    let mut count = 0;
    while !stop.get() {
        let (source, destination) = (format!("a{}", count % 7), format!("a{}", count % 5 + 7));
        let some: Vec<_> = (0..20)
            .map(|n| transfer(&format!("t{}", count + n), &source, &destination, 1))
            .collect();
        count += some.len() as u64;
        world.submit(&some, 5).await;
        tokio::time::sleep(ms(20)).await;
    }
    count
}

/// Starts each new one, waits until it is ready, then drains an old one.
async fn replace(world: &World, mut workers: Vec<Worker>, stop: &Cell<bool>) -> Vec<Worker> {
    let mut replaced = Vec::new();
    for (n, worker) in workers.iter_mut().enumerate() {
        let done = world.count(&[State::Done]).await;
        replaced.push(new(world, n).start().await);
        // It hands back what it holds.
        worker.drain(s(30)).await;
        wait_until("more is settled", s(30), async || world.count(&[State::Done]).await > done)
            .await;
    }
    stop.set(true);
    replaced
}

#[tokio::test]
async fn workers_are_replaced_one_by_one_under_load_and_nothing_waits_for_a_lease() {
    let world = World::new().await;
    let accounts: Vec<String> = (0..12).map(|n| format!("a{n}")).collect();
    let accounts: Vec<(&str, i64)> = accounts.iter().map(|id| (id.as_str(), 1_000_000)).collect();
    world.accounts(&accounts).await;
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        workers.push(old(&world, n).start().await);
    }
    let stop = Cell::new(false);
    let (submitted, workers) = tokio::join!(load(&world, &stop), replace(&world, workers, &stop));
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, submitted);
    for worker in &workers {
        let taken_over = worker.metrics().await.sum("tandem_takeovers_total", &[]);
        assert!(taken_over < 0.5, "{taken_over} were taken over");
    }
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}
