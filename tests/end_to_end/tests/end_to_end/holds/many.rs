//! Confirming many holds at once, by the library and from a file.

use client::{Capture, Client, Error, TransactionId};
use harness::proxy::Part;
use harness::wait::{promised, s};
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongo::{TRANSACTIONS, raw};
use mongodb::bson::{DateTime, Document, doc};

use super::{from_now, held, leg, on_hold, world};

/// Holds of 2 each, as workers leave them, on an account for each hundred. All of them expire then.
pub(super) async fn many(count: usize, expires: Option<DateTime>) -> (World, Vec<String>) {
    let world = World::new().await;
    let ids: Vec<String> = (0..count).map(|n| format!("t{n}")).collect();
    world.accounts(&[("shop", 0)]).await;
    let mut documents: Vec<Document> = Vec::new();
    for (payer, ids) in ids.chunks(100).enumerate() {
        let payer = format!("p{payer}");
        world.accounts(&[(&payer, 1_000)]).await;
        for id in ids {
            let (id, body) = on_hold(transfer(id, &payer, "shop", 2), expires);
            let mut document = body.to_document(&id, DateTime::now());
            document.insert("state", State::Held.as_str());
            document.insert("attempts", 1);
            document.insert("takeoverAt", DateTime::now());
            documents.push(document);
        }
        let (held, count) = (2 * ids.len() as i64, ids.len() as i32);
        let marked = doc! { "$set": {
            "balance": 1_000 - held, "pendingDebits": held, "pendingTransactions": ids,
            "pendingHolds": count,
        } };
        let account = doc! { "_id": payer };
        world.store.accounts().update_one(account, marked).await.expect("MongoDB is there");
    }
    let inserted = world.store.insert(TRANSACTIONS, documents.iter().map(raw)).await;
    let inserted = inserted.expect("MongoDB is there");
    assert!(inserted.refused.is_empty(), "{inserted:?}");
    (world, ids)
}

fn wish(id: &str, value: i64) -> (TransactionId, Capture) {
    (id.into(), Capture::Value(Amount::Int(value)))
}

async fn through(world: &World, uri: String) -> Client {
    let config = world.client_config().give_up_after(s(60));
    let config = client::Config { mongodb_uri: uri, ..config };
    Client::connect(&config).await.expect("the proxy is there")
}

#[tokio::test]
async fn a_confirmation_that_has_counted_is_not_read_again() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let client = through(&world, uri).await;
    let confirmed = client.confirm("t", &wish("t", 30).1).await.expect("it is held");
    assert_eq!(confirmed.standing.state, Some(State::Pending));
    assert_eq!(confirmed.captured, [leg("card", -30), leg("shop", 30)]);
    assert!(!confirmed.known && confirmed.unpublished.is_none());
    assert_eq!((proxy.requested("find"), proxy.requested("confirm")), (1, 1));
    let again = client.confirm("t", &wish("t", 30).1).await.expect("it is the same");
    assert!(again.known);
    assert_eq!((proxy.requested("find"), proxy.requested("confirm")), (2, 1));
    world.finish().await;
}

#[tokio::test]
async fn many_holds_are_confirmed_with_one_command_and_each_gets_its_own_answer() {
    let world = world().await;
    for id in ["part", "all", "same", "other", "misfit", "twice"] {
        held(&world, id, 5, None).await;
    }
    held(&world, "late", 5, Some(from_now(-1_000))).await;
    held(&world, "released", 5, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let client = through(&world, uri).await;
    client.release("released").await.expect("it is held");
    for id in ["same", "other"] {
        client.confirm(id, &wish(id, 3).1).await.expect("it is held");
    }
    let before = proxy.requested("confirm");
    let wishes = [
        wish("part", 2),
        ("all".into(), Capture::All),
        wish("same", 3),
        wish("other", 4),
        wish("misfit", 6),
        wish("late", 1),
        wish("released", 1),
        wish("nothing", 1),
        wish("twice", 1),
        wish("twice", 2),
    ];
    let results = client.confirm_all(wishes).await;
    assert_eq!(proxy.requested("confirm"), before + 1);
    let known: Vec<Option<bool>> =
        results.iter().map(|result| result.as_ref().ok().map(|decided| decided.known)).collect();
    let (ours, before) = (Some(false), Some(true));
    assert_eq!(known, [ours, ours, before, None, None, None, None, None, ours, None]);
    let part = results[0].as_ref().expect("it was held");
    assert_eq!(part.captured, [leg("card", -2), leg("shop", 2)]);
    for (at, expected) in [
        (3, "other: was confirmed before, with another capture: card -3, shop 3"),
        (4, "captured: has -6 for account \"card\""),
        (5, "late: is held and can't be confirmed: it has expired"),
        (6, "released: is canceling and can't be confirmed: it was released"),
        (7, "nothing: no such transaction"),
        (9, "twice: was confirmed before, with another capture: card -1, shop 1"),
    ] {
        let error = results[at].as_ref().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say {expected}");
    }
    assert_eq!(world.state("late").await, State::Held);
    assert_eq!(world.state("misfit").await, State::Held);
    world.producer(&["audit"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn a_command_whose_answer_was_lost_has_confirmed_what_the_documents_say() {
    let (world, ids) = many(300, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let client = through(&world, uri).await;
    let lost = proxy.hold("confirm", 1, Part::Reply);
    let confirming = client.confirm_all(ids.iter().map(|id| wish(id, 1)));
    let losing = async {
        lost.caught(s(30)).await;
        lost.hang_up();
    };
    let (results, ()) = tokio::join!(confirming, losing);
    for result in results {
        let decided = result.expect("the document says it");
        assert_eq!((decided.standing.state, decided.known), (Some(State::Pending), false));
    }
    assert_eq!(world.count(&[State::Pending]).await, 300);
    world.finish().await;
}

#[tokio::test]
async fn while_mongodb_stays_away_nobody_waits_for_each_batch_anew() {
    let (world, ids) = many(1, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let config = world.client_config().give_up_after(std::time::Duration::from_secs(1));
    let config = client::Config { mongodb_uri: uri, ..config };
    let client = Client::connect(&config).await.expect("the proxy is there");
    proxy.refuse();
    let begun = std::time::Instant::now();
    let results = client.confirm_all((0..50_000).map(|_| wish(&ids[0], 1))).await;
    assert_eq!(results.len(), 50_000);
    let is_away = |result: &Result<_, Error>| matches!(result, Err(Error::Unavailable { .. }));
    assert!(results.iter().all(is_away));
    assert!(begun.elapsed() < promised(s(60)), "a hundred batches took {:?}", begun.elapsed());
    proxy.restore();
    world.finish().await;
}

#[tokio::test]
async fn a_file_of_captures_is_confirmed_and_paid_and_a_repetition_changes_nothing() {
    const HOLDS: usize = 1_200;
    let (world, ids) = many(HOLDS, Some(from_now(3_600_000))).await;
    let rows: String = ids.iter().map(|id| format!("{id},1\n")).collect();
    let file = world.write("captures.csv", format!("id,value\n{rows}"));
    let worker = world.worker("one").start().await;
    let confirm = ["confirm", "--file", &file, "--wait", "--wait-limit", "120"];
    let said = world.producer(&confirm).await.expect_success().stdout;
    let expected = "1200 rows: 1200 confirmed, 0 unchanged, 0 refused, 0 invalid\n1200 done, 0";
    assert!(said.starts_with(expected), "{said}");
    let again = world.producer(&["confirm", "--file", &file, "--json"]).await;
    let again = again.expect_success().json();
    let count = |name: &str| again[name].as_u64();
    assert_eq!((count("confirmed"), count("unchanged")), (Some(0), Some(HOLDS as u64)));
    assert_eq!(world.balance("shop").await, Amount::Int(HOLDS as i64));
    assert_eq!(world.balance("p0").await, Amount::Int(900), "the rest is at home");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn rows_that_can_not_be_confirmed_are_named_and_the_others_go_on() {
    let world = world().await;
    held(&world, "good", 5, None).await;
    held(&world, "late", 5, Some(from_now(-1_000))).await;
    let split = legs("split", &[("card", -30), ("shop", 28), ("fee", 2)]);
    world.insert(&[on_hold(split, None)]).await;
    let file = world.write(
        "captures.jsonl",
        r#"{"id":"good","value":2}
{"id":"late"}

{"id":"split","captured":[{"account":"card","amount":-3},{"account":"shop","amount":3}]}
{"id":"nothing"}
"#,
    );
    let said = world.producer(&["confirm", "--file", &file]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.starts_with("4 rows: 1 confirmed, 0 unchanged, 3 refused, 0 invalid\n"));
    for expected in [
        ":2: late: is held and can't be confirmed: it has expired",
        ":4: split: is initial and not held yet",
        ":5: nothing: no such transaction",
    ] {
        assert!(said.stderr.contains(&format!("{file}{expected}")), "{expected}: {said:?}");
    }
    assert_eq!(world.state("good").await, State::Pending);

    // Nothing is confirmed of a file with a row that makes no sense, unless it is to be left out.
    held(&world, "second", 5, None).await;
    let bad = world.write("bad.csv", "id,value\nsecond,2\nsecond,3\nthird,\n");
    let refused = world.producer(&["confirm", "--file", &bad]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for expected in [":3: id: \"second\" stands on an earlier line", ":4: value: is empty"] {
        assert!(refused.stderr.contains(&format!("{bad}{expected}")), "{expected}: {refused:?}");
    }
    assert_eq!(world.state("second").await, State::Held);
    let skipped = world.producer(&["confirm", "--file", &bad, "--skip-invalid", "--json"]).await;
    let skipped = skipped.expect_success().json();
    assert_eq!((&skipped["confirmed"], &skipped["invalid"]), (&1.into(), &2.into()));
    let both = world.producer(&["confirm", "t", "--file", &bad]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    let neither = world.producer(&["confirm"]).await;
    assert_eq!(neither.code, Some(2), "{neither:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_broker_that_is_away_keeps_no_hold_of_a_file_from_being_confirmed() {
    let (world, ids) = many(3, None).await;
    let file = world.write("captures.csv", format!("id\n{}\n", ids.join("\n")));
    let away = ["--amqp-url", "amqp://127.0.0.1:1", "confirm", "--file", &file];
    let said = world.producer(&away).await.expect_success();
    assert!(said.stdout.starts_with("3 rows: 3 confirmed"), "{said:?}");
    assert!(said.stderr.contains("a sweeper finds it"), "{said:?}");
    assert_eq!(world.count(&[State::Pending]).await, 3);
    world.finish().await;
}
