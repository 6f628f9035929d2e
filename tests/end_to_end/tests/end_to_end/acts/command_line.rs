//! Acts by the command line.

use std::collections::BTreeMap;

use harness::producer;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use queue::DEAD;

use super::{acts, park, schedule, told};

/// The environment of a user of this name.
fn of_user(world: &World, name: &str) -> BTreeMap<String, String> {
    let mut env = world.env();
    env.insert("USER".to_owned(), name.to_owned());
    env
}

#[tokio::test]
async fn each_command_that_acts_is_noted_with_the_user_that_it_claims_and_why() {
    let world = World::new().await;
    let env = of_user(&world, "ada");
    let file = world.write("accounts.csv", "account,balance\na,100\nb,0\n");
    world.insert(&[transfer("t", "a", "b", 5)]).await;
    schedule(&world, "later").await;
    park(&world, "p").await;
    for (command, code) in [
        (&["accounts", "import", file.as_str()][..], 0),
        (&["accounts", "create", "c"], 0),
        (&["accounts", "create", "a"], 1),
        (&["accounts", "freeze", "b", "c"], 0),
        (&["accounts", "unfreeze", "b"], 0),
        (&["accounts", "close", "a"], 1),
        (&["cancel", "t"], 0),
        (&["reverse", "nothing"], 1),
        (&["confirm", "nothing"], 1),
        (&["release", "nothing"], 1),
        (&["reschedule", "later", "--not-before", "2100-01-01T00:00:00Z"], 0),
        (&["unpark", "p"], 0),
        (&["unpark", "p"], 1),
        (&["unpark", "--all"], 0),
        (&["init", "--apply", "--history", "off"], 0),
        (&["init", "--currency", "POINTS=0"], 0),
        (&["events", "--replay", "--since", "1h"], 0),
    ] {
        let answer = producer::run(&env, &[command, &["--reason", "a slip"]].concat()).await;
        assert_eq!(answer.code, Some(code), "{command:?}: {answer:?}");
    }
    let acts = acts(&world, &[]).await;
    let expected = [
        "account.import account ok",
        "account.open c ok",
        "account.open a refused conflict",
        "account.freeze b ok",
        "account.freeze c ok",
        "account.unfreeze b ok",
        "account.close a refused refused",
        "transaction.cancel t ok",
        "transaction.reverse nothing refused not-found",
        "hold.confirm nothing refused not-found",
        "hold.release nothing refused not-found",
        "transaction.reschedule later ok",
        "transaction.unpark p ok",
        "transaction.unpark p refused refused",
        "transaction.unpark transaction ok",
        "ledger.apply ledger ok",
        "ledger.currency ledger ok",
        "events.replay ledger ok",
    ];
    assert_eq!(acts.iter().map(told).collect::<Vec<_>>(), expected);
    for act in &acts {
        let who = &act["who"];
        assert_eq!((&who["name"], &who["via"]), (&"ada".into(), &"command-line".into()), "{act}");
        assert!(who["claimed"] == true && who["from"].is_string(), "{act}");
        assert_eq!(act["reason"], "a slip", "{act}");
    }
    let message = acts[0]["ended"]["message"].as_str().expect("a sentence");
    assert!(message.contains("2 created"), "{message}");
    let shown = world.producer(&["acts", "--account", "b"]).await.expect_success().stdout;
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.contains("by ada (as claimed)") && shown.contains("because: a slip"), "{shown}");
    world.finish().await;
}

#[tokio::test]
async fn letters_are_replayed_and_discarded_as_acts_and_looking_is_none() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    for body in [&b"no JSON"[..], b"no JSON either"] {
        world.queues.publish_raw(DEAD, body).await;
    }
    world.queues.wait_depth(DEAD, 2, s(60)).await;
    let all = ["--all", "--why", "of no use"];
    world.producer(&["dead-letters", "discard", "--all", "--dry-run"]).await.expect_success();
    let replayed = world.producer(&[&["dead-letters", "replay"], &all[..]].concat()).await;
    assert_eq!(replayed.code, Some(1), "they are no messages: {replayed:?}");
    world.producer(&[&["dead-letters", "discard"], &all[..]].concat()).await.expect_success();
    wait_until("they are gone", s(30), async || world.queues.depth(DEAD).await == Some(0)).await;
    for looking in [&["audit"][..], &["accounts", "show", "a"], &["dead-letters", "list"]] {
        world.producer(looking).await.expect_success();
    }
    world.producer(&["transfer", "a", "b", "1"]).await.expect_success();
    let acts = acts(&world, &[]).await;
    let told: Vec<String> = acts.iter().map(told).collect();
    assert_eq!(told, ["letters.replay letter refused refused", "letters.discard letter ok"]);
    assert!(acts.iter().all(|act| act["reason"] == "of no use"), "{acts:?}");
    assert_eq!(acts[1]["ended"]["message"], "2 of 2 discarded");
    world.finish().await;
}
