//! Every submitted transaction is settled, once.

use harness::wait::s;
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::{State, TransactionId};
use mongodb::bson::{Document, doc};

#[tokio::test]
async fn every_transfer_is_settled_by_whichever_worker_gets_it() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 1_000), ("c", 1_000)]).await;
    let workers = tokio::join!(world.worker("one").start(), world.worker("two").start());
    let names = ["a", "b", "c"];
    let transfers: Vec<_> =
        (0..600).map(|n| transfer(&format!("t{n}"), names[n % 3], names[(n + 1) % 3], 1)).collect();
    world.submit(&transfers, 5).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 600);
    // Every account sent as much as it received.
    for name in names {
        assert_eq!(world.balance(name).await, Amount::Int(1_000));
    }
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn messages_of_one_id_each_are_settled_in_large_batches() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let transfers: Vec<_> =
        (0..2_000).map(|n| transfer(&format!("t{n:04}"), "a", "b", 1)).collect();
    world.submit(&transfers, 1).await;
    // Large batches take longer than the leases of other tests, while those keep the servers busy.
    let worker = world.worker("one").flag("--op-limit-ms", 5_000).flag("--grace-ms", 6_000);
    let worker = worker.flag("--lease-ms", 20_000).start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.balance("b").await, Amount::Int(2_000));
    let metrics = worker.metrics().await;
    let all = metrics.sum("tandem_batch_size_count", &[]);
    let small = metrics.sum("tandem_batch_size_bucket", &[("le", "250")]);
    // Of the 200 messages with which it begins, no batch has more.
    assert!(small < all, "all {all} batches have at most 250 ids");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// An answer that is full does not say that nothing follows, so the server would be asked once
/// more: a round trip of each read of each batch.
#[tokio::test]
async fn what_a_batch_reads_comes_with_one_answer() {
    for engine in ["two-phase", "transaction"] {
        let world = World::new().await;
        world.accounts(&[("a", 100), ("b", 100), ("c", 100), ("poor", 0)]).await;
        let database = world.store.database();
        database.run_command(doc! { "profile": 2 }).await.expect("profiling can be switched on");
        let worker = world.worker("one").flag("--engine", engine).start().await;
        // One is refused, so that the accounts are looked at.
        let transfers = [("a", "b"), ("b", "c"), ("c", "a"), ("poor", "a")].into_iter().enumerate();
        let transfers: Vec<_> =
            transfers.map(|(n, (from, to))| transfer(&format!("t{n}"), from, to, 1)).collect();
        world.submit(&transfers, 4).await;
        world.wait_final(s(60)).await;
        drop(worker);
        database.run_command(doc! { "profile": 0 }).await.expect("profiling can be switched off");
        let profile = database.collection::<Document>("system.profile");
        let of_batches =
            doc! { "command.comment": { "$regex": "^tandem (read|accounts|.* read)$" } };
        let reads = profile.count_documents(of_batches).await.expect("MongoDB is there");
        assert!(reads >= 2, "{engine}: {reads} reads");
        let more = profile.find_one(doc! { "op": "getmore" }).await.expect("MongoDB is there");
        assert_eq!(more, None, "{engine}");
        world.assert_at_rest().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn a_chain_of_transfers_moves_money_all_the_way() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let worker = world.worker("one").start().await;
    for (n, (from, to)) in [("a", "b"), ("b", "c"), ("c", "a")].into_iter().enumerate() {
        let id = format!("t{n}");
        world.submit(&[transfer(&id, from, to, 100)], 1).await;
        world.wait_state(&id, State::Done, s(30)).await;
        assert_eq!(world.balance(to).await, Amount::Int(100), "credits are spendable when done");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_hot_account_takes_transfers_of_all_sizes_in_both_directions() {
    let world = World::new().await;
    world.accounts(&[("hub", 10_000), ("x", 10_000), ("y", 10_000)]).await;
    let worker = world.worker("one").flag("--lanes", 4).flag("--batch-size", 50).start().await;
    let transfers: Vec<_> = (0..400_i64)
        .map(|n| {
            let other = if n % 2 == 0 { "x" } else { "y" };
            let (from, to) = if n % 3 == 0 { ("hub", other) } else { (other, "hub") };
            transfer(&format!("t{n}"), from, to, n % 17 + 1)
        })
        .collect();
    world.submit(&transfers, 7).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 400);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_published_many_times_is_settled_once() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let workers = tokio::join!(
        world.worker("one").flag("--batch-size", 3).flag("--lanes", 4).start(),
        world.worker("two").flag("--batch-size", 2).flag("--lanes", 4).start(),
    );
    let transfers: Vec<_> = (0..20).map(|n| transfer(&format!("t{n}"), "a", "b", 7)).collect();
    world.insert(&transfers).await;
    let ids: Vec<TransactionId> = transfers.iter().map(|(id, _)| id.clone()).collect();
    let often: Vec<TransactionId> = (0..15).flat_map(|_| ids.iter().cloned()).collect();
    world.publish(&often, 4).await;
    world.wait_final(s(60)).await;
    // Messages that are still in the queue find everything done.
    world.publish(&ids, 1).await;
    world.queues.wait_depth("work", 0, s(60)).await;
    assert_eq!(world.balance("b").await, Amount::Int(140));
    assert_eq!(world.balance("a").await, Amount::Int(860));
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn settlements_ride_on_the_posts_of_later_batches() {
    let world = World::new().await;
    world.accounts(&[("a", 9_000), ("b", 9_000), ("c", 9_000), ("poor", 0)]).await;
    let names = ["a", "b", "c"];
    let transfers: Vec<_> = (0..1_500)
        .map(|n| match n % 50 {
            // Refusals make posts incomplete, and the rides of these posts have to be looked at
            // again.
            49 => transfer(&format!("t{n}"), "poor", names[n % 3], 1),
            _ => transfer(&format!("t{n}"), names[n % 3], names[(n + 1) % 3], 1),
        })
        .collect();
    world.submit(&transfers, 20).await;
    let worker =
        world.worker("one").flag("--batch-size", 40).flag("--ride-ms", 2_000).start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 1_470);
    assert_eq!(world.count(&[State::Canceled]).await, 30);
    let rides = worker.metrics().await.sum("tandem_rides_total", &[]);
    assert!(rides >= 10.0, "{rides} settlements rode on later posts");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_refused_for_want_of_money_that_waits_for_a_ride() {
    let world = World::new().await;
    world.accounts(&[("a", 800), ("b", 0), ("c", 0)]).await;
    let hop = |from: &str, to: &str| -> Vec<_> {
        (0..8).map(|n| transfer(&format!("{from}-{n}"), from, to, 100)).collect()
    };
    world.submit(&hop("a", "b"), 8).await;
    world.submit(&hop("b", "c"), 8).await;
    let worker = world
        .worker("one")
        .flag("--batch-size", 8)
        .flag("--lanes", 1)
        // Longer than the second batch may take to come, on a machine that is busy.
        .flag("--lease-ms", 60_000)
        .flag("--ride-ms", 15_000)
        .start()
        .await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 16);
    assert_eq!(world.balance("c").await, Amount::Int(800));
    let rides = worker.metrics().await.sum("tandem_rides_total", &[]);
    assert!(rides >= 1.0, "the credits of b were spent by the post that settled them");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
