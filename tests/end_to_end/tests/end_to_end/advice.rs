//! The tests follow every advice that the producer gives after a failure or a signal, exactly as it
//! is written; the transfer must then be paid once.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::process::{Process, Signal, signal};
use harness::producer::{self, Answer};
use harness::proxy::Part;
use harness::wait::{eventually, promised, s, wait_until};
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::{ParkCode, Parked, State};
use mongo::raw_id;
use mongodb::bson::doc;
use queue::WORK;

/// The exit codes of an interrupted producer.
const SIGNALS: [(Signal, i32); 2] = [(Signal::Int, 130), (Signal::Term, 143)];

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

/// Runs a command that gives up at the first failure, with one variable of the environment changed.
async fn gives_up(world: &World, arguments: &[&str], (name, value): (&str, &str)) -> Answer {
    let mut env: BTreeMap<String, String> = world.env();
    env.insert(name.to_owned(), value.to_owned());
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    producer::run(&env, arguments).await
}

/// The same, where it is not known what became of the command.
async fn fails(world: &World, arguments: &[&str], variable: (&str, &str)) -> Answer {
    let answer = gives_up(world, arguments, variable).await;
    assert_eq!(answer.code, Some(5), "{arguments:?}: {answer:?}");
    answer
}

/// Runs a command whose database is cut off when it has done an operation, before it has answered.
async fn cut_off(world: &World, arguments: &[&str], operation: &str) -> Answer {
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold(operation, 1, Part::Reply);
    let failing = fails(world, arguments, ("TANDEM_MONGODB_URI", &uri));
    let cutting = async {
        held.caught(s(60)).await;
        database.refuse();
        held.discard();
    };
    tokio::join!(failing, cutting).0
}

/// The value of a flag in an advice: all that stands behind the flag on the line below the
/// sentence.
fn advised(flag: &str, advice: &str) -> String {
    let mut lines = advice.lines();
    let sentence = lines.find(|line| line.contains("run the same command with the following"));
    let line = sentence.and_then(|_| lines.next());
    let value = line.and_then(|line| line.strip_prefix(&format!("  {flag} ")));
    value.unwrap_or_else(|| panic!("no {flag} below a sentence in {advice:?}")).to_owned()
}

async fn settled_once(world: &World, transfers: u64) {
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&State::ALL).await, transfers);
    assert_eq!(world.count(&[State::Done]).await, transfers);
    let moved = i64::try_from(transfers).expect("small");
    assert_eq!(world.balance("b").await, Amount::Int(moved));
    world.assert_at_rest().await;
    drop(worker);
}

#[tokio::test]
async fn a_transfer_that_failed_is_paid_once_by_the_command_that_it_advises() {
    let world = world().await;
    let failed = cut_off(&world, &["transfer", "a", "b", "1"], "insert").await;
    assert_eq!(world.count(&[State::Initial]).await, 1, "it was inserted before it failed");
    let id = advised("--id", &failed.stderr);
    let before = format!("run it again with\n  --id {id}\n");
    assert!(failed.stderr.contains(&before), "{}", failed.stderr);
    assert_eq!(failed.stdout, "", "a script reads results there");
    let repeated = world.producer(&["transfer", "a", "b", "1", "--id", &id]).await;
    assert_eq!(repeated.expect_success().stdout.trim(), id);
    settled_once(&world, 1).await;
    world.finish().await;
}

/// Runs a command while no broker can be reached; it gives up publishing at once.
async fn without_a_broker(world: &World, arguments: &[&str]) -> Answer {
    let mut env = world.env();
    env.insert("TANDEM_AMQP_URL".to_owned(), "amqp://127.0.0.1:1".to_owned());
    producer::run(&env, arguments).await.expect_success()
}

#[tokio::test]
async fn what_takes_effect_while_the_broker_is_away_is_told_as_done() {
    let world = world().await;
    without_a_broker(&world, &["transfer", "a", "b", "1", "--id", "t"]).await;
    assert_eq!(world.state("t").await, State::Initial);
    world.insert(&[transfer("u", "a", "b", 1), transfer("v", "a", "b", 1)]).await;
    let why = Parked::new(ParkCode::TransactionUnwritable, "a test");
    world.store.park_by_id(&[raw_id("u")], &why).await.expect("MongoDB is there");
    for (command, id, word) in [("cancel", "v", "canceling"), ("unpark", "u", "unparked")] {
        let begun = Instant::now();
        let told = without_a_broker(&world, &[command, id]).await;
        assert!(told.stdout.starts_with(&format!("{id}: {word}")), "{told:?}");
        assert!(told.stderr.contains("it counts all the same"), "{told:?}");
        assert!(begun.elapsed() < promised(s(40)), "it insisted for {:?}", begun.elapsed());
    }
    assert_eq!(world.state("v").await, State::Canceling);
    let worker = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 2);
    assert_eq!(world.balance("b").await, Amount::Int(2));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_transfer_whose_wait_limit_is_reached_says_how_to_wait_on() {
    let world = world().await;
    let arguments = ["transfer", "a", "b", "1", "--wait", "--wait-limit", "1"];
    let waited = world.producer(&arguments).await;
    assert_eq!(waited.code, Some(3), "{waited:?}");
    let id = advised("--id", &waited.stderr);
    let again = world.producer(&[&arguments[..], &["--id", &id]].concat()).await;
    assert_eq!(again.code, Some(3), "{again:?}");
    settled_once(&world, 1).await;
    world.finish().await;
}

#[tokio::test]
async fn an_interrupted_transfer_has_said_its_id_and_is_paid_once() {
    let world = world().await;
    for (signal, code) in SIGNALS {
        let (database, uri) = world.mongodb_proxy().await;
        let held = database.hold("insert", 1, Part::Reply);
        let env = [("TANDEM_MONGODB_URI", uri.as_str())];
        let mut interrupted = world.spawn_producer(&["transfer", "a", "b", "1"], &env);
        held.caught(s(60)).await;
        let said_before = interrupted.log();
        interrupted.signal(signal);
        assert_eq!(interrupted.exit(s(30)).await.code(), Some(code), "{}", interrupted.log());
        held.discard();
        assert!(interrupted.log().contains("interrupted; "), "{}", interrupted.log());
        let id = advised("--id", &interrupted.log());
        assert!(said_before.contains(&format!("\n  --id {id}\n")), "{said_before}");
        world.producer(&["transfer", "a", "b", "1", "--id", &id]).await.expect_success();
    }
    settled_once(&world, 2).await;
    world.finish().await;
}

/// Interrupts `submit` of a file, with or without ids, at its second insert.
async fn interrupted_submit(world: &World, file: &str, signal: Signal) -> (Process, Option<i32>) {
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold("insert", 2, Part::Request);
    let env = [("TANDEM_MONGODB_URI", uri.as_str())];
    let mut interrupted = world.spawn_producer(&["submit", file], &env);
    held.caught(s(60)).await;
    // The first insert may still be under way.
    wait_until("some rows are inserted", s(30), async || world.count(&State::ALL).await > 0).await;
    interrupted.signal(signal);
    let code = interrupted.exit(s(30)).await.code();
    held.discard();
    (interrupted, code)
}

#[tokio::test]
async fn an_interrupted_submission_is_completed_by_the_command_that_it_advises() {
    const ROWS: u64 = 2_500;
    for (signal, code) in SIGNALS {
        let world = world().await;
        let file = world.directory().join("rows.csv");
        let rows = "a,b,1\n".repeat(usize::try_from(ROWS).expect("small"));
        std::fs::write(&file, format!("source,destination,value\n{rows}")).expect("written");
        let file = file.to_str().expect("a plain path");
        let (interrupted, found) = interrupted_submit(&world, file, signal).await;
        let said = interrupted.log();
        assert_eq!(found, Some(code), "{said}");
        assert!(said.contains("interrupted; "), "{said}");
        let inserted = world.count(&State::ALL).await;
        assert!(0 < inserted && inserted < ROWS, "{inserted} rows were inserted");
        let batch = advised("--batch", &said);
        let repeated = world.producer(&["submit", file, "--batch", &batch, "--json"]).await;
        let summary = repeated.expect_success().json();
        // An insert that was on its way may have arrived after they were counted.
        let unchanged = summary["unchanged"].as_u64().expect("a number");
        assert!(inserted <= unchanged && unchanged < ROWS, "{inserted} rows: {summary}");
        settled_once(&world, ROWS).await;
        world.finish().await;
    }
}

#[tokio::test]
async fn a_submission_with_ids_is_completed_by_the_same_command() {
    let world = world().await;
    let file = world.directory().join("rows.csv");
    let rows: String = (0..2_500).map(|n| format!("t{n},a,b,1\n")).collect();
    std::fs::write(&file, format!("id,source,destination,value\n{rows}")).expect("written");
    let file = file.to_str().expect("a plain path");
    let (interrupted, code) = interrupted_submit(&world, file, Signal::Term).await;
    let said = interrupted.log();
    assert_eq!(code, Some(143), "{said}");
    assert!(said.contains("interrupted; run the same command on the same input"), "{said}");
    world.producer(&["submit", file]).await.expect_success();
    settled_once(&world, 2_500).await;
    world.finish().await;
}

#[tokio::test]
async fn a_reversal_that_failed_is_made_once_by_the_command_that_it_advises() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    world.producer(&["transfer", "a", "b", "7", "--id", "t", "--wait"]).await.expect_success();
    let failed = cut_off(&world, &["reverse", "t"], "insert").await;
    assert!(failed.stderr.contains("run the same command again"), "{}", failed.stderr);
    world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    assert_eq!(world.count(&State::ALL).await, 2, "the transfer and its reversal");
    assert_eq!(world.balance("b").await, Amount::Int(0));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_canceling_that_failed_is_completed_by_the_command_that_it_advises() {
    let world = world().await;
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    let failed = cut_off(&world, &["cancel", "t"], "cancel").await;
    assert!(failed.stderr.contains("run the same command again"), "{}", failed.stderr);
    assert_eq!(world.queues.depth(WORK).await, Some(0), "its id was not published");
    world.producer(&["cancel", "t"]).await.expect_success();
    assert_eq!(world.queues.depth(WORK).await, Some(1), "its id is published");
    let worker = world.worker("one").start().await;
    world.wait_state("t", State::Canceled, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn accounts_whose_command_failed_are_there_once_after_the_command_that_it_advises() {
    let world = World::new().await;
    let file = world.directory().join("accounts.csv");
    std::fs::write(&file, "account,balance\nx,5\ny,6\n").expect("written");
    let file = file.to_str().expect("a plain path");
    for (command, reply_of) in [
        (&["accounts", "create", "c", "--balance", "7"][..], "insert"),
        (&["accounts", "import", file], "insert"),
        (&["accounts", "freeze", "c"], "status"),
    ] {
        let failed = cut_off(&world, command, reply_of).await;
        assert!(failed.stderr.contains("run the same command again"), "{}", failed.stderr);
        world.producer(command).await.expect_success();
    }
    let balances = [("c", 7), ("x", 5), ("y", 6)];
    for (account, balance) in balances {
        assert_eq!(world.balance(account).await, Amount::Int(balance), "{account}");
    }
    let accounts = world.store.accounts().count_documents(doc! {}).await;
    assert_eq!(accounts.expect("MongoDB is there"), 3);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_init_that_failed_is_completed_by_the_command_that_it_advises() {
    let world = World::new().await;
    let (broker, url) = world.amqp_proxy().await;
    broker.refuse();
    let failed = gives_up(&world, &["init"], ("TANDEM_AMQP_URL", &url)).await;
    assert_eq!(failed.code, Some(1), "the queues are not there: {failed:?}");
    assert!(failed.stderr.contains("run the same command again"), "{}", failed.stderr);
    world.producer(&["init"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn a_refused_command_gives_no_advice_to_repeat_it() {
    let world = world().await;
    world.producer(&["transfer", "a", "b", "1", "--id", "t"]).await.expect_success();
    for command in [
        &["transfer", "a", "b", "2", "--id", "t"][..],
        &["reverse", "t"],
        &["cancel", "nobody"],
        &["accounts", "create", "a"],
    ] {
        let refused = world.producer(command).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(!refused.stderr.contains("run the same command"), "{}", refused.stderr);
    }
    world.finish().await;
}

/// Starts a command whose output is larger than a pipe holds, and waits until it is blocked,
/// because nobody reads the pipe.
async fn blocked_list(world: &World) -> std::process::Child {
    let rows: Vec<_> = (0..2_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.insert(&rows).await;
    let mut command = producer::command(&world.env(), &["list", "--json", "--limit", "2000"]);
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started");
    // In which function of the kernel its main thread sleeps.
    let sleeps_in = format!("/proc/{}/wchan", child.id());
    wait_until("it is blocked by a full pipe", s(60), async || {
        std::fs::read_to_string(&sleeps_in).is_ok_and(|function| function.contains("pipe_write"))
    })
    .await;
    child
}

/// Waits for the end; returns the exit code.
async fn exit_code(child: &mut std::process::Child, limit: Duration) -> Option<i32> {
    let ended = eventually("the command ends", limit, async || {
        child.try_wait().expect("a child can be asked for")
    });
    ended.await.code()
}

#[tokio::test]
async fn a_command_whose_output_nobody_reads_ends_on_a_signal() {
    let world = world().await;
    let mut child = blocked_list(&world).await;
    assert!(signal(child.id(), Signal::Term), "it is there");
    assert_eq!(exit_code(&mut child, s(60)).await, Some(143));
    world.finish().await;
}

#[tokio::test]
async fn a_second_signal_ends_a_command_at_once() {
    let world = world().await;
    let mut child = blocked_list(&world).await;
    let begun = Instant::now();
    // If the second signal came before the first was handled, the two would count as one.
    wait_until("it has ended", s(60), async || {
        let _ = signal(child.id(), Signal::Term);
        child.try_wait().expect("a child can be asked for").is_some()
    })
    .await;
    assert_eq!(exit_code(&mut child, s(1)).await, Some(143));
    // A blocked command ends by itself five seconds after the first signal.
    assert!(begun.elapsed() < promised(s(5)), "it has ended after {:?}", begun.elapsed());
    world.finish().await;
}
