//! What a worker's death costs those whose messages it had: little more than its lease, however
//! many.

use std::time::{Duration, Instant};

use harness::wait::{promised, s, wait_until};
use harness::worker::{GRACE, LEASE};
use harness::world::{World, transfer};
use ledger::transaction::{Body, State, TransactionId};

/// The time beyond lease and grace: noticing, waiting in a retry queue, starting the next worker.
const SLACK: Duration = Duration::from_secs(5);

#[tokio::test]
async fn thousands_that_a_dead_worker_had_delay_a_fresh_transfer_by_no_more_than_their_work() {
    dies_at_a_tenth_of(8_000).await;
}

#[tokio::test]
#[ignore = "the same in full size"]
async fn twenty_thousand_that_a_dead_worker_had_delay_a_fresh_transfer_no_more() {
    dies_at_a_tenth_of(20_000).await;
}

/// Kills a worker when it has settled a tenth of so many single ids.
///
/// What the others may take is measured in the same run, over as many transfers: on a busy machine,
/// the rate of the first second says little about the next ten.
async fn dies_at_a_tenth_of(count: usize) {
    let world = World::new().await;
    let names: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
    let accounts: Vec<_> = names.iter().map(|name| (name.as_str(), 1_000_000)).collect();
    world.accounts(&accounts).await;
    world.submit(&some(count, "t", &names), 1).await;
    let mut first = world.worker("first").start().await;
    let done = async |least: usize| world.count(&[State::Done]).await >= least as u64;
    wait_until("a tenth is done", s(60), async || done(count / 10).await).await;
    first.kill();
    let killed = Instant::now();
    let second = world.worker("second").start().await;
    let started = killed.elapsed();
    let submitted = Instant::now();
    world.submit(&[transfer("fresh", "a0", "a1", 1)], 1).await;
    world.wait_state("fresh", State::Done, s(60)).await;
    let fresh = submitted.elapsed();
    world.wait_final(s(60)).await;
    let all = killed.elapsed();
    let undisturbed = Instant::now();
    world.submit(&some(count, "u", &names), 1).await;
    world.wait_final(s(60)).await;
    let needed = undisturbed.elapsed();
    world.assert_at_rest().await;
    eprintln!(
        "death: the fresh one took {fresh:.1?}, all {all:.1?}; as many without one {needed:.1?}"
    );
    // Other tests run meanwhile, and not as many all the time. The fault that this guards against
    // took seven times as long.
    assert!(
        fresh < promised(needed * 3 + s(2)),
        "the fresh one took {fresh:?}, all others {needed:?}"
    );
    let limit = LEASE + GRACE + SLACK + started + needed * 3;
    assert!(all < promised(limit), "all took {all:?}, not {limit:?}");
    drop(second);
    world.finish().await;
}

fn some(count: usize, prefix: &str, names: &[String]) -> Vec<(TransactionId, Body)> {
    let each =
        |n: usize| transfer(&format!("{prefix}{n}"), &names[n % 100], &names[(7 * n + 1) % 100], 1);
    (0..count).map(each).collect()
}
