//! What events say of money: it can be spent, and balances that are kept from events are right.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use harness::subscriber::{Received, Subscriber};
use harness::wait::{promised, s, wait_until};
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;

use super::due;

/// Passes what an account has received on to the next one, as soon as the event says that it is
/// there.
async fn pass_on(world: &World, subscriber: &Subscriber, chains: usize, hops: usize) {
    let mut moved: BTreeSet<String> = BTreeSet::new();
    let begun = tokio::time::Instant::now();
    while moved.len() < chains * hops {
        assert!(begun.elapsed() < promised(s(240)), "{} of {} hops", moved.len(), chains * hops);
        let mut next = Vec::new();
        for event in subscriber.received().await {
            let id = event.body["id"].as_str().expect("an id").to_owned();
            assert_eq!(event.body["state"], "done", "{}", event.body);
            if !moved.insert(id.clone()) {
                continue;
            }
            let (chain, hop) = id.split_once('-').expect("an id of ours");
            let hop: usize = hop.parse().expect("a number");
            if hop < hops {
                let account = |hop: usize| format!("{chain}.{hop}");
                let id = format!("{chain}-{}", hop + 1);
                next.push(transfer(&id, &account(hop), &account(hop + 1), 100));
            }
        }
        if next.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            world.submit(&next, 10).await;
        }
    }
}

#[tokio::test]
async fn what_an_event_says_was_received_can_be_spent_at_once_on_any_worker() {
    const CHAINS: usize = 60;
    const HOPS: usize = 6;
    let world = World::new().await;
    let names: Vec<String> = (0..CHAINS)
        .flat_map(|chain| (0..=HOPS).map(move |hop| format!("c{chain}.{hop}")))
        .collect();
    let opening = |name: &String| if name.ends_with(".0") { 100 } else { 0 };
    let accounts: Vec<_> = names.iter().map(|name| (name.as_str(), opening(name))).collect();
    world.accounts(&accounts).await;
    let subscriber = Subscriber::new(&world).await;
    // Small batches, so that settlements wait for rides, as they do under load.
    let plan = |name| world.worker(name).flag("--batch-size", 8).flag("--ride-ms", 300);
    let (one, two) = (plan("one"), plan("two").flag("--engine", "transaction"));
    let workers = tokio::join!(one.start(), two.start(), plan("three").start());
    let first = |chain: usize| {
        transfer(&format!("c{chain}-1"), &format!("c{chain}.0"), &format!("c{chain}.1"), 100)
    };
    world.submit(&(0..CHAINS).map(first).collect::<Vec<_>>(), 10).await;
    pass_on(&world, &subscriber, CHAINS, HOPS).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Canceled]).await, 0, "nothing was refused");
    world.assert_at_rest().await;
    drop((workers, subscriber));
    world.finish().await;
}

/// The accounts as a subscriber keeps them who knows nothing but the opening balances and the
/// events.
fn books(opening: &[(&str, i64)], received: &[Received]) -> BTreeMap<String, i64> {
    let mut books: BTreeMap<String, i64> =
        opening.iter().map(|(account, balance)| ((*account).to_owned(), *balance)).collect();
    let mut known = BTreeSet::new();
    let done = received.iter().filter(|event| event.body["state"] == "done");
    for event in done.filter(|event| known.insert(event.message_id.clone())) {
        let text = |field: &str| event.body[field].as_str().expect("a transfer").to_owned();
        let value: i64 = text("value").parse().expect("minor units");
        *books.entry(text("source")).or_default() -= value;
        *books.entry(text("destination")).or_default() += value;
    }
    books
}

#[tokio::test]
async fn books_that_are_kept_from_events_alone_are_right_though_workers_are_killed() {
    let opening = [("a", 300), ("b", 300), ("c", 300), ("d", 0)];
    let names = ["a", "b", "c", "d"];
    let world = World::new().await;
    world.accounts(&opening).await;
    let subscriber = Subscriber::new(&world).await;
    let transfers: Vec<_> = (0..1_500_usize)
        .map(|n| {
            let (source, step) = (n % 4, 1 + n % 3);
            let value = i64::try_from(n % 40).expect("small") + 1;
            transfer(&format!("t{n}"), names[source], names[(source + step) % 4], value)
        })
        .collect();
    world.submit(&transfers, 10).await;
    for (round, engine) in ["two-phase", "transaction", "two-phase"].into_iter().enumerate() {
        let before = world.count(&State::UNFINISHED).await;
        let plan = world.worker(&format!("killed-{round}")).flag("--batch-size", 50);
        let mut worker = plan.flag("--engine", engine).start().await;
        wait_until("it has ended some", s(60), async || {
            world.count(&State::UNFINISHED).await + 60 < before
        })
        .await;
        worker.kill();
    }
    let worker = world.worker("last").start().await;
    world.wait_final(s(120)).await;
    wait_until("nothing is due any more", s(60), async || due(&world).await == 0).await;
    let received = subscriber.of(1_500, s(30)).await;
    let kept = books(&opening, &received);
    for name in names {
        assert_eq!(world.balance(name).await, Amount::Int(kept[name]), "{name}");
    }
    let canceled = received.iter().filter(|event| event.body["state"] == "canceled").count();
    assert!(canceled > 0, "some are refused, so that both ends are there");
    eprintln!("books: {} events of 1,500 transactions", received.len());
    world.assert_at_rest().await;
    drop((worker, subscriber));
    world.finish().await;
}
