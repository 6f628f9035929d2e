//! What a transaction asks for beside its legs: how it is submitted, compared, refused and shown.

use std::time::{Duration, SystemTime};

use client::{Error, Outcome, Submission};
use harness::wait::s;
use harness::world::World;
use ledger::transaction::State;
use mongodb::bson::doc;
use queue::WORK;
use serde_json::json;

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    world
}

fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3_600)
}

/// The engine's step to this state, of a transaction that nobody works on.
async fn set_state(world: &World, id: &str, state: State) {
    let transactions = world.store.transactions();
    let update = doc! { "$set": { "state": state } };
    transactions.update_one(doc! { "_id": id }, update).await.expect("the server is there");
}

#[tokio::test]
async fn the_same_terms_change_nothing_and_other_terms_are_refused_by_name() {
    let world = world().await;
    let client = world.client().await;
    let moment = in_an_hour();
    let one = || Submission::transfer("a", "b", 1).with_id("t");
    let on_hold = || one().held().hold_expires_at(moment).expires_at(moment);
    let first = client.submit(on_hold()).await.expect("submitted");
    assert_eq!((first.known, first.state), (None, State::Initial));
    let again = client.submit(on_hold()).await.expect("the same");
    assert_eq!((again.known, again.state), (Some(State::Initial), State::Initial));
    for (other, expected) in [
        (one(), vec!["hold", "holdExpiresAt", "expiresAt"]),
        (on_hold().hold_expires_at(moment - s(1)), vec!["holdExpiresAt"]),
        (on_hold().with_exclusive_key("k"), vec!["exclusiveKey"]),
    ] {
        let refused = client.submit(other).await.expect_err("other terms");
        assert!(
            matches!(&refused, Error::Conflict { differs, .. } if *differs == expected),
            "{refused:?}"
        );
    }
    world.finish().await;
}

#[tokio::test]
async fn what_is_for_later_is_scheduled_and_not_published() {
    let world = world().await;
    let client = world.client().await;
    client.ensure_queue().await.expect("the broker is there");
    let later = || Submission::transfer("a", "b", 1).with_id("later").not_before(in_an_hour());
    let submission = later();
    let first = client.submit(submission.clone()).await.expect("submitted");
    assert_eq!((first.known, first.state), (None, State::Scheduled));
    let again = client.submit(submission).await.expect("the same");
    assert_eq!(again.known, Some(State::Scheduled));
    set_state(&world, "later", State::Held).await;
    let known = client.standings(&["later"]).await.expect("it is there");
    assert_eq!(known["later"].state, Some(State::Held));
    // Confirms come in order, so nothing of the earlier ones is still on its way.
    client.submit(Submission::transfer("a", "b", 1).with_id("now")).await.expect("submitted");
    assert_eq!(world.queues.depth(WORK).await, Some(1), "only what is to be settled now");
    let past = Submission::transfer("a", "b", 1).not_before(SystemTime::now() - s(60));
    let past = client.submit(past).await.expect("submitted");
    assert_eq!(past.state, State::Initial, "its moment has come");
    world.finish().await;
}

#[tokio::test]
async fn rows_of_files_have_terms_and_a_bad_moment_is_named_by_line_and_field() {
    let world = world().await;
    let csv = world.write(
        "terms.csv",
        "id,source,destination,value,hold,holdExpiresAt,notBefore,exclusiveKey\n\
         c1,a,b,1,true,2099-01-01T00:00:00Z,,\n\
         c2,a,b,1,,,2099-01-01T00:00:00+01:00,\n\
         ,a,b,1,,,,\n,a,b,1,true,,,\n",
    );
    let summary = world.producer(&["submit", &csv, "--json"]).await.expect_success().json();
    assert_eq!(summary["submitted"], 4, "rows that differ in terms only are two: {summary}");
    assert_eq!(world.state("c1").await, State::Initial);
    assert_eq!(world.state("c2").await, State::Scheduled);
    let again = world.producer(&["submit", &csv, "--json"]).await.expect_success().json();
    assert_eq!(again["unchanged"], 4, "{again}");

    let bad_csv = world
        .write("bad.csv", "id,source,destination,value,notBefore\nb1,a,b,1,\nb2,a,b,1,tomorrow\n");
    let bad_jsonl = world.write(
        "bad.jsonl",
        "{\"id\":\"j1\",\"source\":\"a\",\"destination\":\"b\",\"value\":1,\"expiresAt\":7}\n\
         {\"id\":\"j2\",\"source\":\"a\",\"destination\":\"b\",\"value\":1,\"hold\":\"maybe\"}\n",
    );
    for (file, expected) in [
        (
            &bad_csv,
            vec!["bad.csv:3: notBefore: \"tomorrow\" is not a moment; write one like 2026-"],
        ),
        (
            &bad_jsonl,
            vec![
                "bad.jsonl:1: expiresAt: 7 is not a string; write it in quotes",
                "bad.jsonl:2: hold: \"maybe\" is not true or false",
            ],
        ),
    ] {
        let answer = world.producer(&["submit", file]).await;
        assert_eq!(answer.code, Some(2), "{answer:?}");
        for expected in expected {
            assert!(answer.stderr.contains(expected), "{expected:?} in {}", answer.stderr);
        }
    }
    assert_eq!(world.count(&State::ALL).await, 4, "nothing else was written");
    world.finish().await;
}

#[tokio::test]
async fn a_transfer_has_the_terms_of_its_flags_and_its_status_says_them() {
    let world = world().await;
    let arguments = [
        "transfer",
        "a",
        "b",
        "5",
        "--id",
        "t",
        "--hold",
        "--hold-expires-at",
        "+15m",
        "--not-before",
        "2099-01-01T00:00:00Z",
    ];
    let refused = world.producer(&arguments).await;
    assert_eq!(refused.code, Some(2), "it would expire first: {refused:?}");
    assert!(refused.stderr.contains("holdExpiresAt: is not after notBefore"), "{refused:?}");
    let arguments = ["transfer", "a", "b", "5", "--hold-expires-at", "+15m"];
    assert_eq!(world.producer(&arguments).await.code, Some(2), "there is no hold");
    let arguments = ["transfer", "a", "b", "5", "--expires-at", "15m"];
    let refused = world.producer(&arguments).await;
    assert!(refused.stderr.contains("like +90s, +15m"), "{refused:?}");

    let arguments =
        ["transfer", "a", "b", "5", "--hold", "--expires-at", "2099-01-01T00:00:00Z", "--id", "t"];
    world.producer(&arguments).await.expect_success();
    let shown = world.producer(&["status", "t"]).await.expect_success().stdout;
    assert!(shown.contains("a -5, b 5; a hold; expires at 2099-01-01T00:00:00Z"), "{shown}");
    let shown = world.producer(&["status", "t", "--json"]).await.expect_success().json();
    assert_eq!(shown["hold"], true, "{shown}");
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_is_repeated_as_advised_names_the_same_moment() {
    let world = world().await;
    let advised = world.producer(&["transfer", "a", "b", "5", "--expires-at", "+2h"]).await;
    let advice = advised.expect_success().stderr;
    let flags = advice.split("run it again with\n").nth(1).unwrap_or_else(|| panic!("{advice}"));
    let mut arguments = vec!["transfer", "a", "b", "5"];
    arguments.extend(flags.split_whitespace());
    world.producer(&arguments).await.expect_success();
    assert_eq!(world.count(&State::ALL).await, 1, "{arguments:?}");
    world.finish().await;
}

#[tokio::test]
async fn whoever_waits_for_a_hold_is_answered_when_it_is_held() {
    let world = world().await;
    let client = world.client().await;
    let api = world.api(&[]).await;
    client.submit(Submission::transfer("a", "b", 5).with_id("t").held()).await.expect("submitted");
    let arguments = ["transfer", "a", "b", "5", "--hold", "--id", "t", "--wait"];
    let hold = json!({ "id": "t", "source": "a", "destination": "b", "value": 5, "hold": true });
    let (told, outcome, answer, ()) = tokio::join!(
        world.producer(&arguments),
        client.outcome("t"),
        api.post("/v1/transactions?wait=30", &hold),
        set_state(&world, "t", State::Held),
    );
    let told = told.expect_success();
    assert_eq!(told.stdout.trim(), "t: held");
    assert_eq!(outcome, Ok(Outcome::Held));
    assert_eq!(answer.expect(200).json(), json!({ "id": "t", "state": "held" }));

    let row = "{\"id\":\"t\",\"source\":\"a\",\"destination\":\"b\",\"value\":5,\"hold\":true}\n";
    let file = world.write("hold.jsonl", row);
    let results = world.directory().join("results.jsonl");
    let results_name = results.to_str().expect("a plain path");
    let arguments = ["submit", &file, "--wait", "--json", "--results", results_name];
    let summary = world.producer(&arguments).await.expect_success().json();
    assert_eq!((&summary["held"], &summary["unfinished"]), (&json!(1), &json!(0)), "{summary}");
    let results = std::fs::read_to_string(results).expect("the results are there");
    assert!(results.contains(r#""outcome":"held""#), "{results}");
    world.finish().await;
}

#[tokio::test]
async fn whoever_waits_for_what_is_scheduled_waits_for_its_end() {
    let world = world().await;
    let client = world.client().await;
    let submission = Submission::transfer("a", "b", 5).with_id("t").not_before(in_an_hour());
    client.submit(submission).await.expect("submitted");
    let waiting = tokio::time::timeout(s(1), client.outcome("t")).await;
    assert!(waiting.is_err(), "it is scheduled: {waiting:?}");
    let ending = async {
        set_state(&world, "t", State::Initial).await;
        client.publish(&["t".into()]).await.expect("the broker is there");
    };
    let worker = world.worker("one").start().await;
    let (outcome, ()) = tokio::join!(client.outcome("t"), ending);
    assert_eq!(outcome, Ok(Outcome::Done));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_api_takes_and_shows_terms_and_names_those_that_differ() {
    let world = world().await;
    let api = world.api(&[]).await;
    const PATH: &str = "/v1/transactions";
    let body = json!({
        "id": "t", "source": "a", "destination": "b", "value": 5, "hold": true,
        "notBefore": "2099-01-01T00:00:00Z", "holdExpiresAt": "2099-01-02T00:00:00Z",
        "expiresAt": "2099-01-03T01:00:00+01:00",
    });
    let first = api.post(PATH, &body).await.expect(202);
    assert_eq!(first.json(), json!({ "id": "t", "state": "scheduled" }));
    let again = api.post(PATH, &body).await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    let shown = api.get("/v1/transactions/t").await.expect(200).json();
    for (field, expected) in [
        ("hold", json!(true)),
        ("notBefore", json!("2099-01-01T00:00:00Z")),
        ("holdExpiresAt", json!("2099-01-02T00:00:00Z")),
        ("expiresAt", json!("2099-01-03T00:00:00Z")),
        ("captured", json!(null)),
        ("exclusiveKey", json!(null)),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    let plain = json!({ "id": "t", "source": "a", "destination": "b", "value": 5 });
    let refused = api.post(PATH, &plain).await.expect(409).json();
    let expected = json!(["/hold", "/holdExpiresAt", "/notBefore", "/expiresAt"]);
    assert_eq!(refused["differs"], expected);

    let mut bad = body.clone();
    bad["expiresAt"] = json!("soon");
    let refused = api.post(PATH, &bad).await.expect(422).json();
    assert_eq!(refused["errors"][0]["pointer"], "#/expiresAt");
    let array = json!([{ "id": "u", "source": "a", "destination": "b", "value": 5, "hold": 1 }, {
        "id": "v", "source": "a", "destination": "b", "value": 5,
        "notBefore": "2099-01-01T00:00:00Z",
    }]);
    let answer = api.post("/v1/batch", &array).await.expect(200).json();
    assert_eq!(answer["items"][0]["problem"]["errors"][0]["pointer"], "#/hold");
    assert_eq!(answer["items"][1]["state"], "scheduled");
    assert_eq!(world.queues.depth(WORK).await.unwrap_or_default(), 0, "nothing was published");
    world.finish().await;
}
