//! Schedules and expiry: nothing happens before its moment, and nothing after it.

use std::time::Duration;

use client::{Client, Error, Submission};
use harness::proxy::Part;
use harness::queues::Queues;
use harness::wait::{s, wait_until};
use harness::worker::wait_swept;
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::journal::Heading;
use ledger::transaction::{Body, State, Terms};
use ledger::{LeaseMs, Ledger, Transacted};
use mongo::{MongoLedger, MongoOutbox, TRANSACTIONS, raw};
use mongodb::bson::{DateTime, Document, doc};

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

async fn now(world: &World) -> i64 {
    world.store.server_now().await.expect("MongoDB is there")
}

fn at(ms: i64) -> Option<DateTime> {
    Some(DateTime::from_millis(ms))
}

/// A transfer of 1 from a to b, as a producer writes it.
fn document(id: &str, terms: Terms, now: i64) -> Document {
    let body = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
    let body = body.with_terms(terms).expect("they fit each other");
    body.to_document(id, DateTime::from_millis(now))
}

async fn insert(world: &World, documents: &[Document]) {
    for documents in documents.chunks(5_000) {
        let inserted = world.store.insert(TRANSACTIONS, documents.iter().map(raw)).await;
        let inserted = inserted.expect("MongoDB is there");
        assert!(inserted.refused.is_empty() && inserted.existing.is_empty(), "{inserted:?}");
    }
}

async fn insert_one(world: &World, id: &str, terms: Terms) {
    insert(world, &[document(id, terms, now(world).await)]).await;
}

async fn moment(world: &World, id: &str, field: &str) -> i64 {
    let found = world.transaction(id).await;
    found.get_datetime(field).unwrap_or_else(|_| panic!("{field} of {found}")).timestamp_millis()
}

#[tokio::test]
async fn a_scheduled_transaction_is_settled_soon_after_its_moment_and_never_before() {
    let world = world().await;
    let not_before = now(&world).await + 3_000;
    let terms = Terms { not_before: at(not_before), ..Terms::default() };
    insert_one(&world, "t", terms).await;
    assert_eq!(world.state("t").await, State::Scheduled);
    // A message about it has no use, and is consumed.
    world.publish(&["t".into()], 1).await;
    let worker = world.worker("one").flag("--sweep-ms", 10_000).start().await;
    world.queues.wait_depth("work", 0, s(30)).await;
    world.wait_state("t", State::Done, s(30)).await;
    let claimed = moment(&world, "t", "claimedAt").await;
    assert!(claimed >= not_before, "claimed {} ms too early", not_before - claimed);
    // Long before the next round of the sweeper would be due.
    assert!(claimed < not_before + 2_000, "claimed {} ms late", claimed - not_before);
    assert!(world.transaction("t").await.get("dueAt").is_none());
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_scheduled_transaction_can_be_canceled() {
    let world = world().await;
    let terms = Terms { not_before: at(now(&world).await + 3_600_000), ..Terms::default() };
    insert_one(&world, "t", terms).await;
    let worker = world.worker("one").start().await;
    world.producer(&["cancel", "t", "--wait"]).await.expect_success();
    assert_eq!(world.state("t").await, State::Canceled);
    assert_eq!(world.reason("t").await.as_deref(), Some("requested"));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Its step was moved and stamped, and the worker died before it published the ids.
#[tokio::test]
async fn what_was_made_due_and_not_published_is_published_by_the_sweeper_after_its_stamp() {
    let world = world().await;
    let before = now(&world).await - 60_000;
    let terms = Terms { not_before: at(before + 1_000), ..Terms::default() };
    let mut old = document("t", terms, before);
    assert_eq!(old.get_str("state").ok(), Some("scheduled"));
    old.insert("createdAt", DateTime::from_millis(before));
    insert(&world, &[old]).await;
    let stamp = now(&world).await + 2_500;
    let outbox = MongoOutbox::new(world.store.clone());
    let moved = outbox.make_due(&["t".into()], stamp).await.expect("MongoDB is there");
    assert_eq!(moved, ["t".into()]);
    assert_eq!(outbox.make_due(&["t".into()], stamp + 1).await.expect("there"), []);
    let worker = world.worker("one").flag("--sweep-ms", 100).flag("--orphan-ms", 500).start().await;
    world.wait_final(s(30)).await;
    let claimed = moment(&world, "t", "claimedAt").await;
    assert!(claimed >= stamp, "published {} ms before its stamp", stamp - claimed);
    wait_swept(&[&worker], "unclaimed", 1.0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_expires_in_a_queue_that_nobody_consumes_is_canceled_all_the_same() {
    let world = world().await;
    let begun = now(&world).await;
    let expires = |ms| Terms { expires_at: at(begun + ms), ..Terms::default() };
    let later = Terms { not_before: at(begun + 1_000), ..expires(1_500) };
    insert(
        &world,
        &[
            document("soon", expires(1_000), begun),
            document("scheduled", later, begun),
            document("late", expires(3_600_000), begun),
        ],
    )
    .await;
    // The worker hears nothing of it: its queue has another name.
    let elsewhere = format!("{}x", world.name);
    let plan = world.worker("one").env("TANDEM_QUEUE_PREFIX", &elsewhere);
    // Nor does it take anything for forgotten.
    let worker = plan.flag("--orphan-ms", 3_600_000).start().await;
    world.wait_state("soon", State::Canceled, s(30)).await;
    let decided = moment(&world, "soon", "decidedAt").await;
    assert!(decided >= begun + 1_000, "{} ms too early", begun + 1_000 - decided);
    assert_eq!(world.reason("soon").await.as_deref(), Some("expired"));
    world.wait_state("late", State::Initial, s(5)).await;
    drop(worker);
    Queues::new(&world.servers.amqp_url, &elsewhere).delete_all().await;
    let worker = world.worker("two").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.state("late").await, State::Done);
    assert_ne!(world.state("scheduled").await, State::Scheduled);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// The commit is held up on its way until the transaction has expired.
async fn a_late_commit_takes_nothing(engine: &str, step: &str) {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let plan = world.worker("one").mongodb(&uri).flag("--engine", engine);
    // Longer than the commit is held up.
    let plan = plan.flag("--op-limit-ms", 10_000).flag("--grace-ms", 11_000);
    let worker = plan.flag("--lease-ms", 30_000).start().await;
    let held = proxy.hold(step, 1, Part::Request);
    let expires_at = now(&world).await + 3_000;
    insert_one(&world, "t", Terms { expires_at: at(expires_at), ..Terms::default() }).await;
    world.publish(&["t".into()], 1).await;
    held.caught(s(20)).await;
    wait_until("it has expired", s(20), async || now(&world).await > expires_at).await;
    held.release();
    world.wait_state("t", State::Canceled, s(30)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("expired"));
    assert_eq!(world.balance("a").await, Amount::Int(1_000_000));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_commit_that_arrives_after_the_expiry_takes_nothing() {
    a_late_commit_takes_nothing("two-phase", "applied").await;
}

#[tokio::test]
async fn a_native_end_that_arrives_after_the_expiry_takes_nothing() {
    a_late_commit_takes_nothing("transaction", "transact transactions").await;
}

/// No worker runs, so no sweeper ends it first: nothing but the statement's own look at the clock
/// is in the way of the late end.
#[tokio::test]
async fn a_native_end_compares_the_expiry_once_more_where_no_sweeper_looks() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let config = client::Config { mongodb_uri: uri, ..world.client_config() };
    let client = Client::connect(&config).await.expect("the proxy is there");
    let expires_at = now(&world).await + 2_000;
    let terms = Terms { expires_at: at(expires_at), ..Terms::default() };
    insert_one(&world, "t", terms.clone()).await;
    let body = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
    let contents = [("t".into(), Ok(body.with_terms(terms).expect("they fit each other")))];
    let lease = LeaseMs { lease: 30_000, grace: 10_000 };
    let ledger = MongoLedger::new(client.store().clone(), lease);
    let held = proxy.hold("transact transactions", 1, Part::Request);
    let holding = async {
        held.caught(s(20)).await;
        wait_until("it has expired", s(20), async || now(&world).await > expires_at).await;
        held.release();
    };
    let (id, application) = ("line".to_owned(), "one".to_owned());
    let heading = Heading { id, application, events_due_at: None };
    let (transacted, ()) = tokio::join!(ledger.transact(&contents, &heading), holding);
    assert_eq!(transacted.expect("MongoDB is there"), Transacted::Conflict);
    assert_eq!(world.state("t").await, State::Initial, "it is the sweeper's");
    assert_eq!(world.balance("a").await, Amount::Int(1_000_000));
    world.finish().await;
}

/// A sweeper asks only for what it takes for expired; its clock may be wrong.
#[tokio::test]
async fn whatever_a_sweeper_asks_for_no_hold_is_released_before_its_expiry() {
    let world = World::new().await;
    world.accounts(&[("p0", 1_000), ("b", 0)]).await;
    let begun = now(&world).await;
    hold(&world, 1, 2, begun + 3_600_000).await;
    let change = doc! { "$set": {
        "holdExpiresAt": DateTime::from_millis(begun - 1), "dueAt": DateTime::from_millis(begun - 1),
    } };
    let over = world.store.transactions().update_one(doc! { "_id": "h0-1" }, change).await;
    over.expect("MongoDB is there");
    let outbox = MongoOutbox::new(world.store.clone());
    let ids = ["h0-0".into(), "h0-1".into()];
    assert_eq!(outbox.expire_holds(&ids).await.expect("MongoDB is there"), [1, 0]);
    assert_eq!(world.state("h0-0").await, State::Held);
    assert_eq!(world.state("h0-1").await, State::Canceling);
    world.finish().await;
}

#[tokio::test]
async fn many_due_at_one_moment_do_not_starve_what_comes_meanwhile() {
    const SCHEDULED: usize = 10_000;
    let world = world().await;
    let begun = now(&world).await;
    let (due, an_hour_ago) = (begun + 6_000, begun - 3_600_000);
    let terms = Terms { not_before: at(due), ..Terms::default() };
    let scheduled: Vec<_> =
        (0..SCHEDULED).map(|n| document(&format!("s{n}"), terms.clone(), an_hour_ago)).collect();
    insert(&world, &scheduled).await;
    // What is published and waits for ten minutes, on a slow machine, has not been forgotten yet.
    let worker = |name| world.worker(name).flag("--orphan-ms", 600_000);
    let workers = tokio::join!(worker("one").start(), worker("two").start());
    wait_until("the moment has come", s(60), async || now(&world).await >= due).await;
    let mut others = Vec::new();
    // On a busy machine there is always one of the others that waits.
    let waiting = ["scheduled", "initial", "pending", "applied"];
    let is_waiting = doc! { "_id": { "$regex": "^s" }, "state": { "$in": waiting } };
    while world.store.transactions().count_documents(is_waiting.clone()).await.expect("there") > 0 {
        let id = format!("o{}", others.len());
        world.submit(&[transfer(&id, "a", "b", 1)], 1).await;
        others.push(id);
        // An arrival now and then; not a wait for something.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(now(&world).await < due + 480_000, "it takes too long");
    }
    world.wait_final(s(60)).await;
    let mut took = Vec::new();
    for id in &others {
        let ended = moment(&world, id, "lastModified").await;
        took.push(ended - moment(&world, id, "createdAt").await);
    }
    took.sort_unstable();
    let percentile = |percent: usize| took[(took.len() - 1) * percent / 100];
    let last = moment_of_the_last(&world, "^s").await - due;
    let (p50, p99) = (percentile(50), percentile(99));
    eprintln!("{SCHEDULED} in {last} ms; {} others: p50 {p50}, p99 {p99} ms", took.len());
    // In one queue behind all of them, they would wait about half of this time.
    assert!(p50 < last / 4 && p99 < last, "others waited: p50 {p50}, p99 {p99} of {last} ms");
    wait_swept(&[&workers.0, &workers.1], "due", SCHEDULED as f64).await;
    let (one, two) = (workers.0.metrics().await, workers.1.metrics().await);
    let kind = |kind| {
        let label = [("kind", kind)];
        one.sum("tandem_swept_total", &label) + two.sum("tandem_swept_total", &label)
    };
    assert_eq!(kind("due"), SCHEDULED as f64, "each was published once");
    assert_eq!(kind("unclaimed"), 0.0, "nobody took them for forgotten");
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

async fn moment_of_the_last(world: &World, ids: &str) -> i64 {
    let filter = doc! { "_id": { "$regex": ids } };
    let last = world.store.transactions().find_one(filter).sort(doc! { "lastModified": -1 }).await;
    let last = last.expect("MongoDB is there").expect("there are some");
    last.get_datetime("lastModified").expect("a date").timestamp_millis()
}

#[tokio::test]
async fn a_scheduled_transaction_can_be_rescheduled_before_it_is_due_and_only_then() {
    let world = world().await;
    let begun = now(&world).await;
    let in_an_hour = begun + 3_600_000;
    let terms = Terms {
        not_before: at(in_an_hour),
        expires_at: at(in_an_hour + 1_000),
        ..Terms::default()
    };
    insert_one(&world, "t", terms.clone()).await;
    insert_one(&world, "later", Terms { not_before: at(in_an_hour - 1), ..terms }).await;
    let worker = world.worker("one").start().await;
    let too_late = world.producer(&["reschedule", "t", "--not-before", "+2h"]).await;
    assert_eq!(too_late.code, Some(1), "{too_late:?}");
    assert!(too_late.stderr.contains("expiresAt"), "{too_late:?}");
    // The one that is due first stands first.
    let listed = world.producer(&["list", "--scheduled"]).await.expect_success();
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{listed:?}");
    assert!(lines[0].starts_with("later  scheduled  "), "{listed:?}");
    assert!(lines[0].contains("; not before "), "{listed:?}");
    let json = world.producer(&["list", "--scheduled", "--json", "--limit", "1"]).await;
    assert!(json.stdout.contains("\"notBefore\":"), "{json:?}");

    let moved = world.producer(&["reschedule", "t", "--not-before", "+1s"]).await;
    let moved = moved.expect_success();
    assert!(moved.stdout.contains("scheduled, not before"), "{moved:?}");
    let kept = moment(&world, "t", "submittedNotBefore").await;
    assert_eq!(kept, in_an_hour, "a resubmission has to compare equal");
    world.wait_state("t", State::Done, s(30)).await;
    let over = world.producer(&["reschedule", "t", "--not-before", "+1h"]).await;
    assert_eq!(over.code, Some(1), "{over:?}");
    assert!(over.stderr.contains("done"), "{over:?}");
    let unknown = world.producer(&["reschedule", "nothing", "--not-before", "+1h"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    world.producer(&["cancel", "later", "--wait"]).await.expect_success();
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_is_rescheduled_is_known_as_it_was_submitted_and_a_passed_moment_makes_it_due_now() {
    let world = world().await;
    let client = world.client().await;
    let moment = |ms: i64| DateTime::from_millis(ms).to_system_time();
    let in_an_hour = now(&world).await + 3_600_000;
    let later = |ms: i64| Submission::transfer("a", "b", 1).with_id("t").not_before(moment(ms));
    client.submit(later(in_an_hour)).await.expect("submitted");
    for ms in [in_an_hour + 1_000, in_an_hour + 2_000] {
        client.reschedule("t", moment(ms)).await.expect("it is scheduled");
        let again = client.submit(later(in_an_hour)).await.expect("the same");
        assert_eq!(again.known, Some(State::Scheduled));
        let other = client.submit(later(ms)).await.expect_err("it was not submitted so");
        let is_named = |differs: &[&str]| differs == ["notBefore"];
        assert!(
            matches!(&other, Error::Conflict { differs, .. } if is_named(differs)),
            "{other:?}"
        );
    }
    let worker = world.worker("one").start().await;
    client.reschedule("t", moment(1_000)).await.expect("it is scheduled");
    world.wait_state("t", State::Done, s(30)).await;
    let again = client.submit(later(in_an_hour)).await.expect("the same");
    assert_eq!(again.known, Some(State::Done));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Holds as a worker leaves them: their debits are posted and marked.
async fn hold(world: &World, payers: usize, each: usize, ends: i64) {
    let begun = now(world).await;
    let mut documents = Vec::new();
    for payer in 0..payers {
        let ids: Vec<String> = (0..each).map(|n| format!("h{payer}-{n}")).collect();
        for id in &ids {
            let body = Body::transfer(&format!("p{payer}"), "b", Amount::Int(1)).expect("valid");
            let terms = Terms { hold: true, hold_expires_at: at(ends), ..Terms::default() };
            let body = body.with_terms(terms).expect("they fit each other");
            let mut document = body.to_document(id, DateTime::from_millis(begun));
            document.insert("state", State::Held.as_str());
            document.insert("attempts", 1);
            document.insert("takeoverAt", DateTime::from_millis(begun));
            document.insert("dueAt", DateTime::from_millis(ends));
            documents.push(document);
        }
        let sum = i64::try_from(each).expect("few");
        let marked = doc! { "$set": {
            "balance": 1_000 - sum, "pendingDebits": sum, "pendingTransactions": ids,
        } };
        let account = doc! { "_id": format!("p{payer}") };
        world.store.accounts().update_one(account, marked).await.expect("MongoDB is there");
    }
    insert(world, &documents).await;
}

#[tokio::test]
async fn holds_that_expire_at_one_moment_are_released_and_their_money_goes_home() {
    const PAYERS: usize = 100;
    const EACH: usize = 100;
    let world = World::new().await;
    let names: Vec<String> = (0..PAYERS).map(|payer| format!("p{payer}")).collect();
    let accounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1_000)).collect();
    world.accounts(&accounts).await;
    world.accounts(&[("b", 0)]).await;
    let ends = now(&world).await + 6_000;
    hold(&world, PAYERS, EACH, ends).await;
    let worker = world.worker("one").flag("--sweep-ms", 10_000).start().await;
    let all = (PAYERS * EACH) as u64;
    wait_until("they are canceled", s(60), async || world.count(&[State::Canceled]).await == all)
        .await;
    assert_eq!(world.reason("h0-0").await.as_deref(), Some("hold_expired"));
    assert!(moment(&world, "h0-0", "decidedAt").await >= ends);
    let last = moment_of_the_last(&world, "^h").await - ends;
    eprintln!("{all} holds in {last} ms");
    assert_eq!(world.balance("p7").await, Amount::Int(1_000));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_was_scheduled_or_held_for_days_has_not_waited_for_workers() {
    let world = world().await;
    let (now, days) = (now(&world).await, 3 * 86_400_000);
    let terms = Terms { not_before: at(now - 2_000), ..Terms::default() };
    let mut due = document("due", terms, now - days);
    due.insert("state", "initial");
    let terms = Terms { hold: true, ..Terms::default() };
    let mut confirmed = document("confirmed", terms, now - days);
    confirmed.insert("state", "pending");
    confirmed.insert("takeoverAt", DateTime::from_millis(now));
    confirmed.insert("confirmedAt", DateTime::from_millis(now - 1_000));
    insert(&world, &[due, confirmed]).await;
    let backlog = MongoOutbox::new(world.store.clone()).backlog().await.expect("MongoDB is there");
    assert_eq!((backlog.initial, backlog.in_flight), (1, 1));
    assert_eq!(backlog.oldest_initial, Some(now - 2_000));
    assert_eq!(backlog.oldest_in_flight, Some(now - 1_000));
    world.finish().await;
}
