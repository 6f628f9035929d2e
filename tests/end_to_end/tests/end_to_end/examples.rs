//! The examples of the libraries do what they say, on real servers.

use std::process::Stdio;

use harness::deployment::root;
use harness::process::{Process, program};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::{Body, State};
use mongodb::bson::{Decimal128, Document, doc};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs an example to its end; returns what it has printed.
async fn example(world: &World, name: &str, arguments: &[&str], input: &str) -> String {
    let mut running = Command::new(program(&format!("examples/{name}")))
        .args(arguments)
        .envs(world.env())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the example can be started");
    let mut stdin = running.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = running.wait_with_output().await.expect("it ends");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}, {printed}", output.status);
    printed
}

#[tokio::test]
async fn the_example_that_submits_awaits_the_outcome() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let printed = example(&world, "submit", &["alice", "bob", "1250"], "").await;
    assert!(printed.contains("paid\n") && printed.contains("bob has 1250\n"), "{printed}");
    let refused = example(&world, "submit", &["alice", "bob", "999999"], "").await;
    assert!(refused.contains("not paid") && refused.contains("insufficient_funds"), "{refused}");
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_of_a_card_reserves_what_was_ordered_and_pays_what_was_delivered() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let printed = example(&world, "card", &["alice", "shop", "5000", "3000"], "").await;
    let authorised = "authorised 5000; alice may spend 5000\n";
    assert!(printed.contains(authorised), "{printed}");
    assert!(printed.contains("captured 3000; alice has 7000, shop has 3000\n"), "{printed}");
    let refused = example(&world, "card", &["bob", "shop", "50000", "1"], "").await;
    assert!(refused.contains("not authorised") && refused.contains("insufficient"), "{refused}");
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_in_which_one_pays_at_a_time_pays_for_each_once() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let printed = example(&world, "one_at_a_time", &["alice", "bob", "5"], "").await;
    assert_eq!(printed.matches(": paid\n").count(), 5, "{printed}");
    assert!(printed.contains("bob has 5\n"), "{printed}");
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

/// Starts what listens, waits until it does, and lets some transactions end.
async fn listened(world: &World, command: &mut std::process::Command, log: &str) -> String {
    let log = world.directory().join(log);
    let mut listener = Process::start(command.envs(world.env()), log);
    wait_until("it listens", s(60), async || {
        assert!(listener.exited().is_none(), "{}", listener.log());
        listener.log().contains("listening")
    })
    .await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let worker = world.worker("one").start().await;
    let split = harness::world::legs("split", &[("a", -3), ("b", 2), ("c", 1)]);
    let (paid, refused) = (transfer("paid", "a", "b", 40), transfer("refused", "b", "a", 99));
    world.submit(&[paid, split, refused], 3).await;
    assert!(listener.exit(s(60)).await.success(), "{}", listener.log());
    drop(worker);
    listener.log()
}

#[tokio::test]
async fn the_example_that_follows_outcomes_counts_what_an_account_receives() {
    let world = World::new().await;
    let mut follow = std::process::Command::new(program("examples/follow"));
    let printed = listened(&world, follow.args(["b", "3"]), "follow.log").await;
    for line in ["paid: done\n", "refused: canceled: ", "b has received 40\n"] {
        assert!(printed.contains(line), "{printed}");
    }
    world.finish().await;
}

#[tokio::test]
async fn the_example_in_python_keeps_balances_from_events_alone() {
    let world = World::new().await;
    let pika = std::env::var("TANDEM_PIKA").expect("deploy/test sets it");
    let example = root().join("producer/client/examples/follow.py");
    let mut python = std::process::Command::new("python3");
    python.env("PYTHONPATH", pika).arg(example).args(["15", "a=100"]);
    let printed = listened(&world, &mut python, "python.log").await;
    let kept = r#"{"balances": {"a": 57, "b": 42, "c": 1}, "events": 3}"#;
    assert!(printed.contains(kept), "{printed}");
    world.queues.delete_named("balances").await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_that_embeds_a_worker_settles_and_shows_its_metrics_in_its_own_registry() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    let printed = example(&world, "embed", &["5"], "").await;
    assert!(printed.contains("tandem_transitions_total{state=\"done\"} 1"), "{printed}");
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_service_answers_each_line() {
    let world = World::new().await;
    let printed = example(&world, "service", &[], "alice bob 1250\nbob carl 99999\nx\n").await;
    for answer in ["alice bob 1250: paid", "bob carl 99999: not paid", "x: is not FROM TO AMOUNT"] {
        assert!(printed.contains(answer), "{printed}");
    }
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn accounts_that_were_there_are_settled_as_they_are() {
    let world = World::new().await;
    let database = world.store.database();
    database.drop().await.expect("MongoDB is there");
    let exact: Decimal128 = "12.50".parse().expect("a number");
    let theirs = [
        doc! { "_id": "a", "balance": 1_000_i64, "owner": "Ann" },
        doc! { "_id": "b" },
        doc! { "_id": "e", "balance": 5 },
        doc! { "_id": "c", "balance": exact },
        doc! { "_id": "d", "balance": "0".parse::<Decimal128>().expect("a number") },
    ];
    let accounts = database.collection::<Document>("accounts");
    accounts.insert_many(theirs).await.expect("they are inserted");
    let applied = world.producer(&["init", "--apply"]).await;
    assert!(applied.is_success(), "{applied:?}");
    let worker = world.worker("one").start().await;
    let paid = world.producer(&["transfer", "a", "b", "250", "--wait"]).await;
    assert!(paid.is_success(), "{paid:?}");
    // Most of them are whole, so what the program itself takes is, too; others insert what fits.
    let value = Amount::parse("2.25").expect("a decimal");
    let body = Body::transfer("c", "d", value).expect("valid");
    world.submit(&[("t".into(), body)], 1).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 2);
    let left: Vec<String> = [world.balance("a").await, world.balance("c").await]
        .map(|balance| balance.to_string())
        .into();
    assert_eq!(left, ["750", "10.25"]);
    let kept = accounts.find_one(doc! { "_id": "a" }).await.expect("MongoDB is there");
    assert_eq!(kept.expect("it is there").get_str("owner").ok(), Some("Ann"));
    let audit = world.audit().await;
    assert!(audit.is_success(), "{audit:?}");
    drop(worker);
    world.finish().await;
}
