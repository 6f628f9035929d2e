//! A worker lives within the memory of its manifest, whatever lies in its queue.

use harness::process::memory_max;
use harness::servers::OwnBroker;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use queue::{DEAD, WORK};

/// What `deploy/kubernetes` grants.
const MEMORY: u64 = 512 << 20;

/// More than fit into the memory.
const FOREIGN: usize = 550;

#[tokio::test]
async fn a_worker_lives_within_its_memory_while_large_foreign_messages_fill_its_queue() {
    // These messages take so much of a broker's memory that others might find it short of it.
    let broker = OwnBroker::start(&format!("large-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let transfers: Vec<_> = (0..201).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    // Small ones at first: the worker takes in advance many of what it takes to be as small.
    world.submit(&transfers[..200], 1).await;
    let large = vec![vec![0xff; 1 << 20]; 10];
    for _ in 0..FOREIGN / large.len() {
        world.queues.publish_all_raw(WORK, &large).await;
    }
    world.submit(&transfers[200..], 1).await;
    let worker = world.worker("one").start().await;
    wait_until("the foreign ones are dead letters", s(60), async || {
        world.queues.depth(DEAD).await == Some(u32::try_from(FOREIGN).expect("few"))
    })
    .await;
    world.wait_final(s(30)).await;
    assert_eq!(world.count(&[State::Done]).await, 201);
    let used = memory_max(worker.pid()).expect("it runs");
    eprintln!("large messages: {} MiB at most", used >> 20);
    assert!(used < MEMORY, "{} MiB", used >> 20);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
