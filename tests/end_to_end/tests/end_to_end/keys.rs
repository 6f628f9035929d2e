//! Exclusive keys: at most one undecided transaction has one, whatever happens to those who submit.

use std::time::{Duration, SystemTime};

use client::{Capture, Client, Error, Outcome, Submission};
use harness::proxy::Part;
use harness::wait::{ms, promised, s, wait_until};
use harness::world::World;
use ledger::transaction::State;
use mongo::Store;
use mongodb::bson::doc;
use serde_json::json;
use settings::MongoSettings;

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    world
}

/// A client that is behind a proxy, and soon takes what is not answered for lost.
async fn impatient(world: &World, mongodb_uri: &str) -> Client {
    let mut config = world.client_config();
    config.mongodb_uri = mongodb_uri.to_owned();
    let args = MongoSettings {
        mongodb_uri: mongodb_uri.to_owned(),
        database: Some(world.name.clone()),
        one_document_statements: false,
        accept_index: vec![],
    };
    let store = Store::connect(&args, "impatient", ms(500)).await.expect("the uri is good");
    Client::over(store, &config)
}

/// A transfer of 1 from a to b with the key.
fn keyed(id: &str) -> Submission {
    Submission::transfer("a", "b", 1).with_id(id).with_exclusive_key("a-for-b")
}

/// Who has the key that this submission was refused for.
fn holder<T: std::fmt::Debug>(refused: Result<T, Error>) -> String {
    match refused {
        Err(Error::KeyInUse { holder, key, .. }) if key == "a-for-b" => holder,
        other => panic!("not refused because of the key: {other:?}"),
    }
}

async fn set_state(world: &World, id: &str, state: State) {
    let transactions = world.store.transactions();
    // What is scheduled has a moment at which it is due.
    let update = doc! { "$set": { "state": state, "dueAt": mongodb::bson::DateTime::MAX } };
    transactions.update_one(doc! { "_id": id }, update).await.expect("the server is there");
}

async fn is_there(world: &World, id: &str) -> bool {
    let found = world.store.transactions().find_one(doc! { "_id": id }).await;
    found.expect("the server is there").is_some()
}

#[tokio::test]
async fn a_key_belongs_to_one_transaction_until_that_is_decided() {
    let world = world().await;
    let client = world.client().await;
    client.submit(keyed("t")).await.expect("nobody has the key");
    let again = client.submit(keyed("t")).await.expect("the same");
    assert_eq!(again.known, Some(State::Initial));
    let other_content =
        Submission::transfer("a", "b", 2).with_id("t").with_exclusive_key("a-for-b");
    let conflict = client.submit(other_content).await;
    assert!(matches!(conflict, Err(Error::Conflict { .. })), "{conflict:?}");
    let other_key = keyed("v").with_exclusive_key("b-for-a");
    client.submit(other_key).await.expect("nobody has this key");
    for (at, state) in State::UNDECIDED.into_iter().enumerate() {
        set_state(&world, "t", state).await;
        let submitted = client.submit(keyed(&format!("u{at}"))).await;
        assert_eq!(holder(submitted), "t", "{state}");
    }
    set_state(&world, "t", State::Initial).await;
    client.cancel("t").await.expect("nobody has claimed it");
    client.submit(keyed("u")).await.expect("the key is free");
    let known = client.submit(keyed("t")).await.expect("it keeps its key for ever");
    assert_eq!(known.known, Some(State::Canceling));
    let other = client.submit(keyed("t").with_exclusive_key("c")).await;
    assert!(matches!(other, Err(Error::Conflict { .. })), "{other:?}");
    world.finish().await;
}

#[tokio::test]
async fn every_decision_frees_the_key_and_leaves_it_readable() {
    for engine in ["two-phase", "transaction"] {
        let world = world().await;
        let client = world.client().await;
        let with = |id: &str| Submission::transfer("a", "b", 1).with_id(id).with_exclusive_key(id);
        let later = |seconds: u64| SystemTime::now() + s(seconds);
        client.submit(with("canceled")).await.expect("it is free");
        client.cancel("canceled").await.expect("nobody has claimed it");
        client.submit(with("unscheduled").not_before(later(3_600))).await.expect("it is free");
        client.cancel("unscheduled").await.expect("it is scheduled");
        let worker = world.worker("one").flag("--engine", engine).start().await;
        let refused = Submission::transfer("b", "a", 1_000_000);
        for submission in [
            with("done"),
            with("in-time").expires_at(later(3_600)),
            refused.with_id("refused").with_exclusive_key("refused"),
            with("captured").held(),
            with("released").held(),
            with("expired").not_before(later(1)).held().hold_expires_at(later(3)),
        ] {
            client.submit(submission).await.expect("it is free");
        }
        for held in ["captured", "released"] {
            world.wait_state(held, State::Held, s(30)).await;
        }
        client.confirm("captured", &Capture::All).await.expect("it is held");
        client.release("released").await.expect("it is held");
        world.wait_final(s(60)).await;
        // A hold that rests is no work that is left.
        world.wait_state("expired", State::Canceled, s(30)).await;
        let mut ended = world.store.transactions().find(doc! {}).await.expect("it is there");
        let mut seen = 0;
        while ended.advance().await.expect("the server is there") {
            let document = ended.deserialize_current().expect("it is BSON");
            let id = document.get_str("_id").expect("a text");
            assert_eq!(document.get("exclusiveKey"), None, "{engine} {id}");
            assert_eq!(document.get_str("decidedKey").ok(), Some(id), "{engine}");
            let body = client::Body::from_document(&document).expect("it is valid");
            assert_eq!(body.terms().exclusive_key.as_deref(), Some(id), "{engine}");
            seen += 1;
        }
        assert_eq!(seen, 8);
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn whoever_is_refused_because_of_a_key_is_told_who_has_it() {
    let world = world().await;
    let api = world.api(&[]).await;
    let transfer =
        |id: &'static str| ["transfer", "a", "b", "1", "--id", id, "--exclusive-key", "a-for-b"];
    world.producer(&transfer("t")).await.expect_success();
    let refused = world.producer(&transfer("u")).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let sentence = "u: exclusiveKey \"a-for-b\" is in use by transaction t";
    assert!(refused.stderr.contains(sentence), "{refused:?}");

    let body = json!({
        "id": "u", "source": "a", "destination": "b", "value": 1, "exclusiveKey": "a-for-b",
    });
    let refused = api.post("/v1/transactions", &body).await.expect(409).json();
    assert_eq!(refused["type"], "urn:tandem:problem:key-in-use");
    assert_eq!((&refused["holder"], &refused["detail"]), (&json!("t"), &json!(sentence)));
    let array = api.post("/v1/batch", &json!([body])).await.expect(200).json();
    assert_eq!(array["items"][0]["status"], 409);
    assert_eq!(array["items"][0]["problem"]["holder"], "t");
    let page = api.get("/metrics").await.expect(200).body;
    assert!(page.contains("\ntandem_http_keys_in_use_total 2\n"), "{page}");

    let file = world.directory().join("keys.csv");
    let rows = "id,source,destination,value,exclusiveKey\nr1,a,b,1,a-for-b\nr2,a,b,1,new\n\
                r3,a,b,1,\nr4,a,b,1,new\n";
    std::fs::write(&file, rows).expect("the file can be written");
    let results = world.directory().join("results.csv");
    let [file, results_name] = [&file, &results].map(|path| path.to_str().expect("a plain path"));
    let told = world.producer(&["submit", file, "--json", "--results", results_name]).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    let summary = told.json();
    assert_eq!((&summary["submitted"], &summary["keys_in_use"]), (&json!(2), &json!(2)));
    for (line, holder) in [(2, "t"), (5, "r2")] {
        let sentence = format!("is in use by transaction {holder}; submit this row again");
        let line = format!("keys.csv:{line}: ");
        let is_named = |told: &&str| told.contains(&line) && told.contains(&sentence);
        assert!(told.stderr.lines().any(|told| is_named(&told)), "{line} {holder}: {told:?}");
    }
    let results = std::fs::read_to_string(results).expect("the results are there");
    assert_eq!(results.matches(",key_in_use,").count(), 2, "{results}");
    world.finish().await;
}

#[tokio::test]
async fn whoever_submits_on_the_event_gets_the_key() {
    for engine in ["two-phase", "transaction"] {
        let world = world().await;
        let client = world.client().await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        let mut outcomes = client.outcomes().await.expect("the broker is there");
        client.submit(keyed("t0")).await.expect("nobody has the key");
        for n in 1..=30 {
            let ended = tokio::time::timeout(s(30), outcomes.next()).await;
            let ended = ended.expect("in time").expect("the broker is there");
            assert_eq!(ended.event["exclusiveKey"], "a-for-b", "{}", ended.event);
            let next = client.submit(keyed(&format!("t{n}"))).await;
            next.unwrap_or_else(|error| panic!("{engine}: {error}"));
        }
        assert_eq!(client.outcome("t30").await, Ok(Outcome::Done));
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn what_is_scheduled_or_held_has_its_key_until_it_is_canceled_or_expires() {
    let world = world().await;
    let client = world.client().await;
    let worker = world.worker("one").start().await;
    let in_an_hour = SystemTime::now() + Duration::from_secs(3_600);
    client.submit(keyed("scheduled").not_before(in_an_hour)).await.expect("nobody has the key");
    client.reschedule("scheduled", in_an_hour + s(1)).await.expect("it is scheduled");
    assert_eq!(holder(client.submit(keyed("t")).await), "scheduled");
    client.cancel("scheduled").await.expect("it is scheduled");

    let held = keyed("held").held().hold_expires_at(SystemTime::now() + s(6));
    client.submit(held).await.expect("the key is free when the cancelation is certain");
    world.wait_state("held", State::Held, s(30)).await;
    assert_eq!(holder(client.submit(keyed("t")).await), "held");
    let mut outcomes = client.outcomes().await.expect("the broker is there");
    loop {
        let ended = tokio::time::timeout(s(60), outcomes.next()).await.expect("in time");
        if &*ended.expect("the broker is there").id == "held" {
            break;
        }
    }
    client.submit(keyed("t")).await.expect("whoever hears that it has expired gets the key");
    assert_eq!(client.outcome("t").await, Ok(Outcome::Done));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_reversal_needs_no_key() {
    let world = world().await;
    let client = world.client().await;
    let worker = world.worker("one").start().await;
    client.submit(keyed("t")).await.expect("nobody has the key");
    assert_eq!(client.outcome("t").await, Ok(Outcome::Done));
    drop(worker);
    client.submit(keyed("u")).await.expect("it is free");
    let reversal = client.reverse("t").await.expect("the key of u is not in its way");
    assert_eq!(world.transaction(&reversal.id).await.get("exclusiveKey"), None);
    world.finish().await;
}

#[tokio::test]
async fn of_many_who_want_a_key_at_once_one_gets_it() {
    let world = world().await;
    let clients = [world.client().await, world.client().await, world.client().await];
    let ids: Vec<String> = (0..60).map(|n| format!("t{n:02}")).collect();
    let submit = |(at, id): (usize, &String)| {
        let (client, submission) = (clients[at % 3].clone(), keyed(id));
        tokio::spawn(async move { client.submit(submission).await })
    };
    let submitting: Vec<_> = ids.iter().enumerate().map(submit).collect();
    let (mut taken, mut holders) = (Vec::new(), Vec::new());
    for (id, submitting) in ids.iter().zip(submitting) {
        match submitting.await.expect("no panic") {
            Ok(receipt) => {
                assert_eq!(&*receipt.id, id);
                taken.push(id.clone());
            }
            refused => holders.push(holder(refused)),
        }
    }
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(holders.iter().all(|holder| *holder == taken[0]), "{holders:?}");
    assert_eq!(world.count(&State::ALL).await, 1);
    world.finish().await;
}

#[tokio::test]
async fn a_submission_whose_commit_was_answered_with_silence_is_known_again() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let client = impatient(&world, &uri).await;
    for part in [Part::Reply, Part::Request] {
        let id = format!("{part:?}");
        let lost = proxy.hold("commit", 1, part);
        let submission = keyed(&id);
        let submitting = tokio::spawn({
            let client = client.clone();
            async move { client.submit(submission).await }
        });
        lost.caught(s(30)).await;
        let receipt = submitting.await.expect("no panic").expect("it is found, or inserted anew");
        assert_eq!((&*receipt.id, receipt.known), (id.as_str(), None));
        lost.release();
        assert_eq!(holder(client.submit(keyed("other")).await), id);
        client.cancel(&id).await.expect("nobody has claimed it");
    }
    assert_eq!(world.count(&State::ALL).await, 2);
    world.finish().await;
}

/// The trap: the statement of a refused submission reaches the server when the key is free again.
#[tokio::test]
async fn what_was_refused_because_of_its_key_is_never_paid() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let (slow, other) = (impatient(&world, &uri).await, world.client().await);
    let late = proxy.hold_about("insert with key", "late", Part::Request);
    let submitting = tokio::spawn(async move { slow.submit(keyed("late")).await });
    late.caught(s(30)).await;
    other.submit(keyed("first")).await.expect("nobody has the key");
    assert_eq!(holder(submitting.await.expect("no panic")), "first");
    other.cancel("first").await.expect("nobody has claimed it");

    let answered = proxy.answered("insert with key");
    late.release();
    wait_until("the late statement has run", s(30), async || {
        proxy.answered("insert with key") > answered
    })
    .await;
    assert!(!is_there(&world, "late").await);
    // It holds the key until its transaction is ended, and is never committed.
    other.submit(keyed("next")).await.expect("the key is free");
    assert!(!is_there(&world, "late").await);
    assert_eq!(holder(other.submit(keyed("late")).await), "next");
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.balance("b").await, 1.into());
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_insert_whose_answer_was_lost_is_not_committed_after_it_was_given_up() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let client = impatient(&world, &uri).await;
    let lost = proxy.hold_about("insert with key", "t", Part::Reply);
    let submitting = tokio::spawn({
        let client = client.clone();
        async move { client.submit(keyed("t")).await }
    });
    lost.caught(s(30)).await;
    let receipt = submitting.await.expect("no panic").expect("it is inserted by the next attempt");
    assert_eq!(receipt.known, None);
    let commits = proxy.requested("commit");
    lost.release();
    assert_eq!(holder(client.submit(keyed("u")).await), "t");
    assert_eq!(proxy.requested("commit"), commits, "only one attempt is committed");
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_dies_between_insert_and_commit_keeps_its_key_for_seconds_only() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let commit = proxy.hold("commit", 1, Part::Request);
    let env = [("TANDEM_MONGODB_URI", uri.as_str())];
    let arguments = ["transfer", "a", "b", "1", "--id", "dead", "--exclusive-key", "a-for-b"];
    let mut dying = world.spawn_producer(&arguments, &env);
    commit.caught(s(60)).await;
    dying.kill();
    commit.discard();
    let begun = std::time::Instant::now();
    world.client().await.submit(keyed("t")).await.expect("the key is freed");
    let took = begun.elapsed();
    assert!(
        took < promised(Duration::from_secs(30)),
        "{took:?}: the server needs a minute by itself"
    );
    assert!(!is_there(&world, "dead").await);
    world.finish().await;
}

#[tokio::test]
async fn a_ledger_may_do_without_keys_and_says_how_to_have_them() {
    let world = world().await;
    let keyed_one = ["transfer", "a", "b", "1", "--id", "t", "--exclusive-key", "a-for-b"];
    world.producer(&keyed_one).await.expect_success();
    let off = world.producer(&["init", "--exclusive-keys", "off", "--apply"]).await;
    let told = off.expect_success().stdout;
    assert!(told.contains("dropIndex(\"exclusive_key\")"), "{told}");
    let index = doc! { "dropIndexes": "transactions", "index": "exclusive_key" };
    world.store.database().run_command(index).await.expect("the index is there");
    world.producer(&keyed_one).await.expect_success();

    let another = ["transfer", "a", "b", "1", "--id", "u", "--exclusive-key", "b-for-a"];
    let refused = world.producer(&another).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let remedy = "  producer init --apply --exclusive-keys on";
    assert!(refused.stderr.lines().any(|line| line == remedy), "{refused:?}");
    let api = world.api(&[]).await;
    let body = json!({
        "id": "u", "source": "a", "destination": "b", "value": 1, "exclusiveKey": "b-for-a",
    });
    let lacking = api.post("/v1/transactions", &body).await.expect(409).json();
    assert_eq!(lacking["type"], "urn:tandem:problem:lacking");
    world.producer(&["transfer", "a", "b", "1"]).await.expect_success();

    world.producer(&["init", "--exclusive-keys", "on", "--apply"]).await.expect_success();
    world.producer(&another).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn the_audit_finds_a_key_that_two_undecided_transactions_have() {
    let world = world().await;
    let document = |id: &str| {
        let body = client::Body::transfer("a", "b", 1.into()).expect("valid");
        let mut document = body.to_document(id, mongodb::bson::DateTime::now());
        document.insert("exclusiveKey", "a-for-b");
        document
    };
    let transactions = world.store.transactions();
    transactions.insert_one(document("t")).await.expect("nobody has the key");
    transactions.insert_one(document("u")).await.expect_err("the index refuses it");
    let index = doc! { "dropIndexes": "transactions", "index": "exclusive_key" };
    world.store.database().run_command(index).await.expect("the index is there");
    transactions.insert_one(document("u")).await.expect("nothing refuses it");
    let audit = world.audit().await;
    assert!(audit.stdout.contains("\"rule\":9"), "{audit:?}");
    world.finish().await;
}
