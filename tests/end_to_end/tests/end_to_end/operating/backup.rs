//! A backup that is put back: the files of a locked member, taken while transfers are settled.
//!
//! The broker is not put back, so its messages are those of the time after the backup.

use std::fmt::Write;

use harness::replica_set::OwnSet;
use harness::wait::{ms, s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::{Body, State, TransactionId};
use mongodb::bson::doc;
use queue::DEAD;

const BEFORE: usize = 1_500;
const AFTER: usize = 200;
const LATE: usize = 20;

fn transfers(name: &str, count: usize) -> Vec<(TransactionId, Body)> {
    let one = |n: usize| transfer(&format!("{name}-{n}"), &account(n), &account(n + 1), 3);
    (0..count).map(one).collect()
}

fn account(n: usize) -> String {
    format!("a{}", n % 10)
}

/// Everything that was ever submitted, as a file of the one who submits.
fn file() -> String {
    let mut file = "id,source,destination,value\n".to_owned();
    for (name, count) in [("before", BEFORE), ("after", AFTER), ("late", LATE)] {
        for n in 0..count {
            let (source, destination) = (account(n), account(n + 1));
            writeln!(file, "{name}-{n},{source},{destination},3").expect("a string takes all");
        }
    }
    file
}

/// Takes a backup that surely has transactions in flight: workers stand still meanwhile.
async fn back_up_in_the_middle(world: &World, set: &OwnSet, workers: &[Worker]) {
    let all =
        || async { (world.count(&[State::Done]).await, world.count(&State::IN_FLIGHT).await) };
    wait_until("they are in the middle of it", s(60), async || all().await.0 > 50).await;
    loop {
        for worker in workers {
            worker.freeze().await;
        }
        // What they have sent may still be on its way.
        tokio::time::sleep(ms(100)).await;
        if all().await.1 > 0 {
            break;
        }
        workers.iter().for_each(Worker::thaw);
        tokio::time::sleep(ms(20)).await;
    }
    set.back_up(&world.directory().join("backup")).await;
    workers.iter().for_each(Worker::thaw);
}

#[tokio::test]
async fn a_restored_backup_comes_to_rest_and_what_came_after_it_is_submitted_again() {
    let mut set = OwnSet::start("backup").await;
    let world = World::on(set.servers()).await;
    let accounts: Vec<String> = (0..10).map(account).collect();
    let accounts: Vec<(&str, i64)> = accounts.iter().map(|id| (id.as_str(), 10_000)).collect();
    world.accounts(&accounts).await;
    let mut workers = Vec::new();
    for name in ["one", "two"] {
        workers.push(world.worker(name).flag("--batch-size", 20).start().await);
    }
    world.submit(&transfers("before", BEFORE), 10).await;
    back_up_in_the_middle(&world, &set, &workers).await;

    // Life goes on after the backup, and the last messages stay with the broker.
    world.submit(&transfers("after", AFTER), 10).await;
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, (BEFORE + AFTER) as u64);
    for worker in &mut workers {
        worker.drain(s(30)).await;
    }
    world.submit(&transfers("late", LATE), 10).await;

    set.restore(&world.directory().join("backup")).await;
    let all = world.store.transactions().count_documents(doc! {}).await.expect("it is back");
    assert_eq!(all, BEFORE as u64, "the time after the backup is gone");
    for states in [&[State::Initial][..], &State::IN_FLIGHT, &[State::Done]] {
        assert!(world.count(states).await > 0, "the backup has none in {states:?}");
    }

    // No message stands for those that had not ended: the sweeper finds them. Messages stand for
    // transactions that are gone: they become dead letters, and hold nobody up.
    let worker = world.worker("three").start().await;
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, BEFORE as u64);
    wait_until("the late ones are dead letters", s(60), async || {
        let list = ["dead-letters", "list", "--each", "--json"];
        let letters = world.producer(&list).await.expect_success().stdout;
        assert!(!letters.contains("before-"), "one of the backup is a dead letter: {letters}");
        (0..LATE).all(|n| letters.contains(&format!("late-{n}\\\"")))
    })
    .await;
    world.assert_at_rest().await;

    submit_everything_again(&world).await;
    drop(worker);
    world.finish().await;
}

/// What is known changes nothing, what was lost is paid once.
async fn submit_everything_again(world: &World) {
    let path = world.directory().join("all.csv");
    std::fs::write(&path, file()).expect("it can be written");
    let path = path.to_str().expect("UTF-8");
    world.producer(&["submit", path, "--wait"]).await.expect_success();
    assert_eq!(world.count(&[State::Done]).await, (BEFORE + AFTER + LATE) as u64);
    let discard = ["dead-letters", "discard", "--reason", "unknown_transaction"];
    world.producer(&discard).await.expect_success();
    world.queues.wait_depth(DEAD, 0, s(30)).await;
    world.assert_at_rest().await;
}
