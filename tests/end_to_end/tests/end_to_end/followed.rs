//! Each command that a message tells, run as it stands there: it helps.

use std::path::Path;

use client::Amount;
use harness::odd;
use harness::producer::Answer;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::remedy::{KINDS, Remedy, RemedyKind};
use ledger::transaction::State;
use mongo::Choice;
use mongodb::bson::{DateTime, Document, doc};

use super::numbers::pays;
use super::ownership::{change, empty_world};
use super::remedies::parked;

/// An id that is no plain word of a shell, and looks like a flag.
const ODD_ID: &str = "-t 'o`ne'";

/// The test that follows a command.
fn followed_in(kind: RemedyKind) -> (&'static str, &'static str) {
    use RemedyKind as K;
    match kind {
        K::Init | K::Apply | K::ApplyWithoutValidator => {
            ("followed.rs", "what_a_database_lacks_is_made_by_the_command_that_is_told")
        }
        K::Events | K::History | K::ExclusiveKeys => {
            ("followed.rs", "what_a_ledger_does_without_is_added_by_the_command_that_is_told")
        }
        K::AcceptIndex => ("followed.rs", "an_index_is_accepted_by_the_command_that_is_told"),
        K::Currency => (
            "notation.rs",
            "a_currency_of_its_owner_has_the_places_that_it_was_told_before_it_was_used",
        ),
        K::Roles => ("roles.rs", "roles_are_applied_again_and_printed_without_being_applied"),
        K::Unpark | K::UnparkNamed | K::ListParked => {
            ("followed.rs", "what_was_set_apart_goes_on_by_the_command_that_is_told")
        }
        K::Status | K::ListRefused => {
            ("followed.rs", "what_waits_and_what_was_refused_is_shown_by_the_command_that_is_told")
        }
        K::Cancel | K::Reverse => {
            ("followed.rs", "a_transaction_is_taken_back_by_the_command_that_is_told")
        }
        K::ShowAccount | K::SetFloor => {
            ("followed.rs", "the_floor_of_an_account_is_changed_by_the_command_that_is_told")
        }
        K::DeadLetters | K::Replay => {
            ("followed.rs", "what_was_given_up_comes_back_by_the_command_that_is_told")
        }
        K::Resume => ("followed.rs", "settlement_goes_on_by_the_command_that_is_told"),
        K::ResumeWorker => ("followed.rs", "a_worker_settles_again_by_the_command_that_is_told"),
        K::Token => ("followed.rs", "a_file_of_tokens_is_begun_by_the_command_that_is_told"),
        K::Audit | K::Absorb => {
            ("absorb.rs", "nothing_is_absorbed_while_a_rule_is_broken_or_where_nobody_else_writes")
        }
        K::InitSchema | K::LookAtAdoption => {
            ("followed.rs", "a_ledger_is_adopted_by_the_commands_that_are_told")
        }
        K::TopOnce | K::TopJson | K::StatsJson => (
            "followed.rs",
            "an_overview_without_a_terminal_is_printed_by_the_commands_that_are_told",
        ),
    }
}

#[test]
fn every_command_that_a_message_may_tell_is_followed_by_a_test() {
    for kind in KINDS {
        let (file, test) = followed_in(*kind);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end").join(file);
        let text = std::fs::read_to_string(&path).expect("the file of the test");
        let (_, body) = text.split_once(&format!("fn {test}()")).expect("the test");
        let body = body.split_once("\n}\n").map_or(body, |(body, _)| body);
        let name = format!("Remedy::{kind:?}");
        let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        let is_there = body.match_indices(&name).any(|(at, _)| is_whole(&body[at + name.len()..]));
        assert!(is_there, "{test} does not follow {kind:?}");
    }
}

/// Runs the command that a message tells, as it stands there.
pub(super) async fn follow(world: &World, said: &str, remedy: Remedy<'_>) -> Answer {
    follow_with(world, said, remedy, ("", "")).await
}

/// The same with what the reader puts in place of a word.
pub(super) async fn follow_with(
    world: &World,
    said: &str,
    remedy: Remedy<'_>,
    (word, value): (&str, &str),
) -> Answer {
    let command = remedy.command();
    assert!(said.contains(&command), "{command} is not told: {said}");
    let typed = if word.is_empty() { command } else { command.replace(word, value) };
    harness::producer::typed(&world.env(), &typed).await
}

async fn add_odd_payment(world: &World, id: &str) {
    odd::insert(&world.store.transactions(), &[pays(id, "a", "b", "2")]).await;
}

#[tokio::test]
async fn what_a_database_lacks_is_made_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let pay = async || world.producer(&["transfer", "a", "b", "1"]).await;
    change(&world, doc! { "dropIndexes": "transactions", "index": "by_creation" }).await;
    let said = pay().await.stderr;
    let listed = follow(&world, &said, Remedy::Init).await;
    assert_eq!(listed.code, Some(1), "{listed:?}");
    follow(&world, &listed.stdout, Remedy::Apply).await.expect_success();
    pay().await.expect_success();

    let theirs = doc! { "collMod": "accounts", "validator": { "note": { "$ne": "bad" } } };
    change(&world, theirs).await;
    let said = pay().await.stderr;
    follow(&world, &said, Remedy::ApplyWithoutValidator).await.expect_success();
    pay().await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn settlement_goes_on_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.producer(&["pause", "--reason", "a drill"]).await.expect_success();
    let waits = ["transfer", "a", "b", "1", "--id", "t", "--wait", "--wait-limit", "1"];
    let waited = world.producer(&waits).await;
    assert_eq!(waited.code, Some(3), "{waited:?}");
    follow(&world, &waited.stderr, Remedy::Resume).await.expect_success();
    world.wait_state("t", State::Done, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_settles_again_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("it's one").start().await;
    wait_until("it has said how it is", s(60), async || {
        !world.store.workers().await.expect("MongoDB is there").is_empty()
    })
    .await;
    let drain = ["workers", "drain", "it's one", "--reason", "a drill", "--wait-limit", "60"];
    let drained = world.producer(&drain).await.expect_success();
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    follow(&world, &drained.stdout, Remedy::ResumeWorker("it's one")).await.expect_success();
    world.wait_state("t", State::Done, s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_a_ledger_does_without_is_added_by_the_command_that_is_told() {
    let world = World::new().await;
    let off = Some(false);
    let without = Choice { events: off, history: off, exclusive_keys: off, ..Choice::default() };
    world.choose(without).await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    for (arguments, remedy) in [
        (&["accounts", "statement", "a"][..], Remedy::History),
        (&["transfer", "a", "b", "1", "--exclusive-key", "k"], Remedy::ExclusiveKeys),
        (&["events", "--after", "0"], Remedy::Events(true)),
    ] {
        let refused = world.producer(arguments).await;
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
        follow(&world, &refused.stderr, remedy).await.expect_success();
        world.producer(arguments).await.expect_success();
    }
    let mut worker = world.worker("one").env("TANDEM_EVENTS", "off").launch();
    assert_eq!(worker.exit(s(30)).await.code(), Some(1), "{}", worker.log());
    follow(&world, &worker.log(), Remedy::Events(false)).await.expect_success();
    let worker = world.worker("two").env("TANDEM_EVENTS", "off").start().await;
    world.wait_final(s(30)).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_index_is_accepted_by_the_command_that_is_told() {
    let world = World::new().await;
    let name = "-by 'reference'";
    let index = doc! { "name": name, "key": { "reference": 1 }, "unique": true, "sparse": true };
    change(&world, doc! { "createIndexes": "accounts", "indexes": [index] }).await;
    let refused = world.producer(&["list"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    follow(&world, &refused.stderr, Remedy::AcceptIndex(name)).await.expect_success();
    world.producer(&["list"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn what_was_set_apart_goes_on_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    add_odd_payment(&world, ODD_ID).await;
    let worker = world.worker("one").start().await;
    world.publish(&[ODD_ID.into()], 1).await;
    let why = parked(&world, ODD_ID).await;
    let overview = async || world.producer(&["top", "--once"]).await.expect_success().stdout;
    wait_until("it is told", s(30), async || overview().await.contains("parked")).await;
    let said = overview().await;
    let listed = follow(&world, &said, Remedy::ListParked).await.expect_success().stdout;
    assert!(listed.contains(ODD_ID), "{listed}");
    let repaired = doc! { "$set": { "value": 2_i64 } };
    odd::edit(&world.store.transactions(), ODD_ID, repaired).await;
    follow(&world, &why, Remedy::Unpark(ODD_ID)).await.expect_success();
    world.wait_state(ODD_ID, State::Done, s(60)).await;
    let once_more =
        follow_with(&world, &said, Remedy::UnparkNamed, ("ID", "no-longer-parked")).await;
    assert_eq!(once_more.code, Some(1), "it is not parked any more: {once_more:?}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_waits_and_what_was_refused_is_shown_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let refused: Vec<_> = (0..30).map(|n| transfer(&format!("r{n}"), "b", "a", 1_000)).collect();
    let worker = world.worker("one").start().await;
    // It tells what it has seen itself.
    let overview = async || api.get("/v1/overview").await.expect(200).body;
    wait_until("it sees the worker", s(60), async || overview().await.contains("\"one\"")).await;
    world.submit(&refused, 30).await;
    world.wait_final(s(30)).await;
    let command = Remedy::ListRefused.command();
    wait_until("it is told", s(60), async || overview().await.contains(&command)).await;
    let said = overview().await;
    let shown = follow(&world, &said, Remedy::ListRefused).await.expect_success().stdout;
    assert!(shown.contains("insufficient_funds"), "{shown}");
    drop((worker, api));
    world.finish().await;

    let world = World::new().await;
    let (id, body) = transfer(ODD_ID, "a", "b", 1);
    let long_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 3_600_000);
    let old = body.to_document(&id, long_ago);
    world.store.transactions().insert_one(old).await.expect("MongoDB is there");
    let said = world.producer(&["top", "--once"]).await.expect_success().stdout;
    let shown = follow(&world, &said, Remedy::Status(ODD_ID)).await.expect_success().stdout;
    assert!(shown.contains("initial"), "{shown}");
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_is_taken_back_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.insert(&[transfer(ODD_ID, "a", "b", 1)]).await;
    let refused = world.producer(&["reverse", "--", ODD_ID]).await;
    let worker = world.worker("one").start().await;
    follow(&world, &refused.stderr, Remedy::Cancel(ODD_ID)).await.expect_success();
    world.wait_state(ODD_ID, State::Canceled, s(30)).await;

    let id = "--paid for";
    world.insert(&[transfer(id, "a", "b", 1)]).await;
    world.publish(&[id.into()], 1).await;
    world.wait_final(s(30)).await;
    let refused = world.producer(&["cancel", "--", id]).await;
    follow(&world, &refused.stderr, Remedy::Reverse(id)).await.expect_success();
    world.wait_final(s(30)).await;
    assert_eq!(world.balance("a").await, Amount::Int(100));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_floor_of_an_account_is_changed_by_the_command_that_is_told() {
    let world = World::new().await;
    for (id, floor) in [("alice", "0"), (ODD_ID, "-5")] {
        let opened = async |floor: &str| {
            let floor = format!("--floor={floor}");
            world.producer(&["accounts", "create", &floor, "--", id]).await
        };
        opened("-70").await.expect_success();
        let refused = opened(floor).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        follow(&world, &refused.stderr, Remedy::SetFloor(id, floor)).await.expect_success();
        opened(floor).await.expect_success();
    }
    // The answer is lost: what became of it is shown.
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold("floor", 1, Part::Reply);
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    let command = ["accounts", "set-floor", "alice", "-30"];
    let (unknown, ()) = tokio::join!(harness::producer::run(&env, &command), async {
        held.caught(s(60)).await;
        database.refuse();
        held.discard();
    });
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
    let shown = follow(&world, &unknown.stderr, Remedy::ShowAccount("alice")).await;
    assert!(shown.expect_success().stdout.contains("floor -30"), "it has arrived");
    world.finish().await;
}

#[tokio::test]
async fn what_was_given_up_comes_back_by_the_command_that_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.publish(&["late".into()], 1).await;
    let overview = async || world.producer(&["top", "--once"]).await.expect_success().stdout;
    let is_told = async || overview().await.contains("given up");
    wait_until("the letter is told", s(60), is_told).await;
    let said = overview().await;
    let listed = follow(&world, &said, Remedy::DeadLetters).await.expect_success().stdout;
    assert!(listed.contains("not in the database"), "{listed}");
    world.insert(&[transfer("late", "a", "b", 1)]).await;
    follow(&world, &said, Remedy::Replay).await.expect_success();
    world.wait_state("late", State::Done, s(30)).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_ledger_is_adopted_by_the_commands_that_are_told() {
    let world = empty_world().await;
    let users = world.store.database().collection::<Document>("users");
    let user = doc! { "_id": "u", "wallet": 5_i64 };
    users.insert_one(user).await.expect("MongoDB is there");
    let refused = world.producer(&["adopt"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let schema = "[accounts]\ncollection = \"users\"\nfields = { balance = \"wallet\" }\n";
    let schema = world.write("ledger.toml", schema);
    follow_with(&world, &refused.stderr, Remedy::InitSchema, ("FILE", &schema))
        .await
        .expect_success();
    follow(&world, &refused.stderr, Remedy::LookAtAdoption).await.expect_success();
    world.producer(&["adopt"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn a_file_of_tokens_is_begun_by_the_command_that_is_told() {
    let world = World::new().await;
    let tokens = world.write("tokens", "");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tokens", &tokens];
    let refused = world.producer(&serve).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let made = follow_with(&world, &refused.stderr, Remedy::Token, ("NAME", "shop")).await;
    let line = made.expect_success().stdout;
    assert_eq!(world.write("tokens", line), tokens);
    let serving = world.spawn_producer(&serve, &[]);
    wait_until("it serves", s(30), async || serving.log().contains("listening on")).await;
    drop(serving);
    world.finish().await;
}

#[tokio::test]
async fn an_overview_without_a_terminal_is_printed_by_the_commands_that_are_told() {
    let world = World::new().await;
    let refused = world.producer(&["top"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for remedy in [Remedy::TopOnce, Remedy::StatsJson] {
        let printed = follow(&world, &refused.stderr, remedy).await.expect_success().stdout;
        assert!(!printed.is_empty(), "{remedy}");
    }
    // It goes on until nobody reads any more.
    let once = ("--json", "--json | head -n 1");
    let printed = follow_with(&world, &refused.stderr, Remedy::TopJson, once).await;
    assert!(printed.expect_success().stdout.starts_with('{'));
    world.finish().await;
}
