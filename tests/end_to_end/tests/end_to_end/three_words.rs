//! Refused means without effect, accepted means there, and everything else is told as unknown: on a
//! server that fails on demand (`failCommand`), for each carrier of an error.

use client::{Client, Effect, Error, Submission};
use harness::failing::{FailingMongo, Failure, Plan, Times};
use harness::producer::{self, Answer};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::ServerMs;
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::doc;

/// An interrupted command: no label says anything about it.
const INTERRUPTED: i32 = 11_601;
/// The server knows no such error: nothing can be concluded from it.
const UNKNOWN_ERROR: i32 = 8;

async fn world(failing: &FailingMongo) -> World {
    let world = World::on(failing.servers()).await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world
}

/// Runs a command that gives up at the first failure after so many seconds.
async fn told(world: &World, arguments: &[&str], give_up_after: &str) -> Answer {
    let mut env = world.env();
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), give_up_after.to_owned());
    producer::run(&env, arguments).await
}

fn keyed(id: &str) -> [&str; 8] {
    ["transfer", "a", "b", "1", "--id", id, "--exclusive-key", id]
}

async fn is_there(world: &World, id: &str) -> bool {
    let found = world.store.transactions().count_documents(doc! { "_id": id }).await;
    found.expect("MongoDB is there") == 1
}

/// Nobody may be told that it was refused: it is there, or it is not known.
fn assert_not_refused(answer: &Answer) {
    assert!(!answer.stderr.contains("refuses it"), "{answer:?}");
    assert!(matches!(answer.code, Some(0 | 5)), "{answer:?}");
}

async fn commits(failing: &FailingMongo, world: &World) {
    let concern = |code| Failure::WriteConcern { code, labels: None };
    let error = |code| Failure::Error { code, labels: None };
    let failures = [
        (concern(INTERRUPTED), Times::Always),
        (concern(64), Times::First(1)),
        (error(INTERRUPTED), Times::First(1)),
        (error(UNKNOWN_ERROR), Times::First(2)),
        (Failure::Close, Times::First(1)),
    ];
    for (number, (failure, times)) in failures.into_iter().enumerate() {
        let (id, plan) = (format!("k{number}"), Plan::once("commitTransaction", failure.clone()));
        failing.fail(&Plan { times, ..plan }).await;
        let answer = told(world, &keyed(&id), "10").await;
        failing.heal().await;
        let answer = answer.expect_success();
        assert!(is_there(world, &id).await, "{failure:?}: {answer:?}");
    }
    // It never gets through: nobody knows, until somebody asks again.
    let never = Plan::once("commitTransaction", error(INTERRUPTED));
    failing.fail(&Plan { times: Times::Always, ..never }).await;
    let answer = told(world, &keyed("k9"), "0").await;
    failing.heal().await;
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert_not_refused(&answer);
    assert!(answer.stderr.contains("perhaps") && answer.stderr.contains("--id k9"), "{answer:?}");
    // The server itself says that it has failed.
    failing.fail(&Plan::once("commitTransaction", error(112))).await;
    told(world, &keyed("k10"), "20").await.expect_success();
    failing.heal().await;
    told(world, &keyed("k9"), "20").await.expect_success();
}

async fn inserts(failing: &FailingMongo, world: &World) {
    let mut next = 0;
    let mut transfer = async |failure: Failure, times: Times| {
        next += 1;
        let id = format!("t{next}");
        failing.fail(&Plan { times, ..Plan::once("insert", failure.clone()) }).await;
        let answer = told(world, &["transfer", "a", "b", "1", "--id", &id], "0").await;
        failing.heal().await;
        // What comes after the effect comes before it is on a majority.
        let there = match failure {
            Failure::WriteConcern { .. } => {
                wait_until("it is there", s(30), async || is_there(world, &id).await).await;
                true
            }
            Failure::Error { .. } | Failure::Close | Failure::Block(_) => {
                is_there(world, &id).await
            }
        };
        told(world, &["transfer", "a", "b", "1", "--id", &id], "20").await.expect_success();
        (answer, there)
    };
    let error = |code| Failure::Error { code, labels: None };
    let concern = |code| Failure::WriteConcern { code, labels: None };
    for failure in [error(INTERRUPTED), error(UNKNOWN_ERROR), error(50), error(91), Failure::Close]
    {
        let (answer, there) = transfer(failure.clone(), Times::Always).await;
        assert_eq!((answer.code, there), (Some(5), false), "{failure:?}: {answer:?}");
        assert_not_refused(&answer);
    }
    for code in [INTERRUPTED, 64, 100] {
        let (answer, _) = transfer(concern(code), Times::Always).await;
        assert_eq!(answer.code, Some(5), "{code}: {answer:?}");
        assert_not_refused(&answer);
    }
    for (code, word) in [(2, "refuses it"), (13, "code 13")] {
        let (answer, there) = transfer(error(code), Times::Always).await;
        assert_eq!((answer.code, there), (Some(1), false), "{code}: {answer:?}");
        assert!(answer.stderr.contains(word), "{answer:?}");
    }
}

#[tokio::test]
async fn what_may_have_taken_effect_is_never_called_refused() {
    let failing = FailingMongo::start("three_words").await;
    let world = world(&failing).await;
    commits(&failing, &world).await;
    inserts(&failing, &world).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    let paid = world.count(&[State::Done]).await;
    assert_eq!(world.count(&State::ALL).await, paid, "each is there once, and paid once");
    assert_eq!(world.balance("b").await, Amount::Int(i64::try_from(paid).expect("few")));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// A client that gives up at the first failure, and has seen the ledger.
async fn client(world: &World) -> Client {
    let config = world.client_config().give_up_after(s(0)).publish_within(s(0));
    let client = Client::connect(&config).await.expect("the servers are there");
    client.transaction("nothing").await.expect("MongoDB is there");
    client
}

fn is_open<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("it can't be known");
    assert!(matches!(error, Error::Unavailable { effect: Effect::Unknown, .. }), "{error:?}");
}

#[tokio::test]
async fn a_look_that_is_refused_after_a_write_leaves_the_write_open() {
    let failing = FailingMongo::start("look").await;
    let world = world(&failing).await;
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    let client = client(&world).await;
    let denied = Plan::once("find", Failure::Error { code: 13, labels: None });
    failing.fail(&denied).await;
    is_open(client.cancel("t").await);
    assert_eq!(world.state("t").await, State::Canceling);
    failing.fail(&denied).await;
    is_open(client.change_status(::client::Change::Freeze, "a").await);
    // A read by itself has no effect.
    failing.fail(&denied).await;
    let refused = client.transaction("t").await.expect_err("it is refused");
    assert!(matches!(refused, Error::Denied { .. }), "{refused:?}");
    // Away and back: a failure that says nothing is told as such, in the words of the server.
    let late: ServerMs = world.store.server_now().await.expect("MongoDB is there") + 3_600_000;
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_millis(late.unsigned_abs());
    let later = Submission::transfer("b", "a", 1).with_id("later").not_before(moment);
    client.submit(later).await.expect("it is accepted");
    let interrupted = Failure::Error { code: INTERRUPTED, labels: None };
    failing.fail(&Plan { times: Times::Always, ..Plan::once("update", interrupted) }).await;
    is_open(client.reschedule("later", moment).await);
    let error = client.cancel("later").await.expect_err("it fails");
    failing.heal().await;
    let words = error.to_string();
    assert!(words.contains("(code 11601, Interrupted)"), "{words}");
    world.finish().await;
}

#[tokio::test]
async fn an_error_of_the_driver_is_told_in_its_own_words() {
    let failing = FailingMongo::start("words").await;
    let world = world(&failing).await;
    let bad = Failure::Error { code: 2, labels: None };
    for command in
        [&["accounts", "show", "a"][..], &["status", "t"], &["list"], &["accounts", "list"]]
    {
        failing.fail(&Plan { times: Times::Always, ..Plan::once("find", bad.clone()) }).await;
        let answer = told(&world, command, "0").await;
        failing.heal().await;
        assert_eq!(answer.code, Some(1), "{command:?}: {answer:?}");
        assert!(answer.stderr.contains("code 2"), "{command:?}: {answer:?}");
        for form in ["RawDocumentBuf", "labels:", "server response", "Kind:"] {
            assert!(!answer.stderr.contains(form), "{command:?}: {answer:?}");
        }
    }
    world.finish().await;
}
