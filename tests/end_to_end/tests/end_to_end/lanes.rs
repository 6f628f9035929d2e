//! Which way a batch goes, and what lanes do about each other: `--engine auto`, and native batches
//! of one worker that keep apart.

use std::time::Instant;

use harness::wait::{eventually, s};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::doc;
use tokio::task::JoinSet;

/// How many batches of a worker went each way: as native transactions, and in two phases. Waits
/// until none is under way, because a batch is counted a moment after its transactions are final.
async fn ways(worker: &Worker) -> (f64, f64) {
    let metrics = eventually("no batch is under way", s(30), async || {
        let metrics = worker.metrics().await;
        (metrics.sum("tandem_ids_in_batches", &[]) == 0.0).then_some(metrics)
    })
    .await;
    let count = |phase| metrics.sum("tandem_phase_seconds_count", &[("phase", phase)]);
    (count("transaction"), count("claim"))
}

#[tokio::test]
async fn a_worker_that_chooses_goes_the_native_way_until_others_are_in_its_way() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = world.worker("one").flag("--engine", "auto").flag("--lanes", 2).start().await;
    let transfers = |name: &str| -> Vec<_> {
        (0..50).map(|n| transfer(&format!("{name}-{n}"), "a", "b", 1)).collect()
    };
    world.submit(&transfers("alone"), 5).await;
    world.wait_final(s(60)).await;
    let (native, in_phases) = ways(&worker).await;
    assert!(native > 0.0 && in_phases == 0.0, "{native} native, {in_phases} in phases");
    // Others write to the account without a pause, so no snapshot of it lasts until a commit. Each
    // waits for the disk, so it takes several of them.
    let mut disturbers = JoinSet::new();
    for _ in 0..8 {
        let accounts = world.store.accounts();
        disturbers.spawn(async move {
            loop {
                let note = doc! { "$inc": { "foreign": 1 } };
                accounts.update_one(doc! { "_id": "a" }, note).await.expect("MongoDB is there");
            }
        });
    }
    let deadline = Instant::now() + s(60);
    for round in 0.. {
        let begun = Instant::now();
        world.submit(&transfers(&format!("beside-{round}")), 5).await;
        world.wait_final(s(60)).await;
        let (native, in_phases) = ways(&worker).await;
        if in_phases > 0.0 {
            world.submit(&transfers("after-retreat"), 5).await;
            world.wait_final(s(60)).await;
            let tried = ways(&worker).await.0 - native;
            // Its next trial is 3 s after its retreat at the soonest.
            assert!(tried == 0.0 || begun.elapsed() > s(3), "{tried} attempts after its retreat");
            break;
        }
        assert!(Instant::now() < deadline, "it never goes in two phases");
    }
    disturbers.shutdown().await;
    let (before, _) = ways(&worker).await;
    let deadline = Instant::now() + s(60);
    for round in 0.. {
        world.submit(&transfers(&format!("after-{round}")), 5).await;
        world.wait_final(s(60)).await;
        if ways(&worker).await.0 > before {
            break;
        }
        assert!(Instant::now() < deadline, "it never comes back");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn lanes_on_the_same_and_on_other_accounts_settle_without_conflicts() {
    let world = World::new().await;
    let names: Vec<String> = (0..40).map(|n| format!("account-{n:02}")).collect();
    let accounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1_000)).collect();
    world.accounts(&accounts).await;
    let transfers: Vec<_> = (0..1_000_usize)
        .map(|n| {
            // Every fifth pays the first account, all others go from one account to the next.
            let from = 1 + n * 7 % 39;
            let to = if n % 5 == 0 { 0 } else { from % 39 + 1 };
            transfer(&format!("t{n:04}"), &names[from], &names[to], 1)
        })
        .collect();
    world.submit(&transfers, 10).await;
    let busy = world
        .worker("one")
        .flag("--engine", "transaction")
        .flag("--lanes", 4)
        .flag("--batch-size", 30);
    let worker = busy.start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 1_000);
    let metrics = worker.metrics().await;
    let conflicts = metrics.sum("tandem_retries_total", &[("operation", "transact")]);
    // The server has them itself, while collections are new.
    assert!(conflicts <= 8.0, "{conflicts} conflicts of a worker with itself");
    let in_phases = metrics.sum("tandem_phase_seconds_count", &[("phase", "claim")]);
    assert!(in_phases == 0.0, "{in_phases} batches in two phases");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
