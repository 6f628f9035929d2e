//! The overview, as a console reads it: once and as a stream.

use std::time::Duration;

use harness::api::Api;
use harness::process::Signal;
use harness::wait::{eventually, s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{DateTime, doc};
use queue::DEAD;
use serde_json::Value;

use super::listener::Listener;

const STREAM: &str = "/v1/overview/stream";

async fn overview(api: &Api) -> Value {
    api.get("/v1/overview").await.expect(200).json()
}

/// Waits until the overview says something, and returns it.
async fn told(api: &Api, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(what, s(60), async || Some(overview(api).await).filter(&holds)).await
}

fn problems(overview: &Value) -> Vec<&str> {
    let problems = overview["problems"].as_array().expect("a list");
    problems.iter().filter_map(|problem| problem["code"].as_str()).collect()
}

async fn watch(api: &Api) -> Listener {
    Listener::open(api.address, STREAM, None, "event: overview").await
}

#[tokio::test]
async fn an_overview_says_what_was_settled_how_long_it_took_and_who_did_it() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let worker = world.worker("one").flag("--engine", "auto").start().await;
    let api = world.api(&[]).await;
    told(&api, "the worker is seen", |seen| seen["workers"][0]["activity"] == "working").await;
    let mut transfers: Vec<_> = (0..300).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    transfers.extend((0..7).map(|n| transfer(&format!("too-much-{n}"), "b", "a", 1_000_000)));
    // Somebody looks all the time: what ends while nobody does is in no rate.
    let _viewer = watch(&api).await;
    world.submit(&transfers, 10).await;
    world.wait_final(s(60)).await;
    // The worker counts them before it has acknowledged the last batch.
    let seen = told(&api, "all is counted, and nothing held any more", |seen| {
        let one = &seen["workers"][0];
        seen["refusals"]["insufficient_funds"] == 7
            && (&one["done"], &one["canceled"], &one["holds"])
                == (&300.into(), &7.into(), &0.into())
    })
    .await;
    let rates: Vec<f64> = seen["points"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|p| p["settled"].as_f64())
        .collect();
    assert!(rates.iter().all(|rate| *rate >= 0.0), "{rates:?}");
    assert!(rates.iter().any(|rate| *rate > 10.0), "307 within some seconds: {rates:?}");
    let latency = |which: &str| seen["latencyMs"][which].as_f64().expect("some have ended");
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p99"), "{seen}");
    let one = &seen["workers"][0];
    assert_eq!((&one["name"], &one["engine"]), (&"one".into(), &"auto".into()));
    assert!(["transaction", "two-phase"].contains(&one["engineNow"].as_str().unwrap_or_default()));
    assert_eq!(one["lanes"], 2);
    let metrics = worker.metrics().await;
    assert_eq!(metrics.sum("tandem_transitions_total", &[("state", "done")]), 300.0);
    told(&api, "nothing waits", |seen| seen["backlog"]["transactions"] == 0).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_waits_is_counted_by_state_with_the_oldest_and_what_is_set_apart() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.insert(&[transfer("old", "a", "b", 1), transfer("young", "a", "b", 1)]).await;
    let ago =
        |minutes: i64| DateTime::from_millis(DateTime::now().timestamp_millis() - minutes * 60_000);
    let parked = doc! { "code": "kills_worker", "message": "m", "at": ago(1) };
    for (id, change) in [
        ("old", doc! { "createdAt": ago(5) }),
        ("young", doc! { "createdAt": ago(9), "parked": parked }),
    ] {
        let transactions = world.store.transactions();
        let changed = transactions.update_one(doc! { "_id": id }, doc! { "$set": change });
        changed.await.expect("MongoDB is there");
    }
    world.queues.publish_raw("work", b"no message").await;
    let api = world.api(&[]).await;
    let seen = overview(&api).await;
    assert_eq!(seen["states"]["initial"]["count"], 2, "{seen}");
    assert_eq!((&seen["oldest"]["id"], &seen["parked"]["count"]), (&"old".into(), &1.into()));
    assert!((290_000..400_000).contains(&seen["oldest"]["ageMs"].as_u64().expect("an age")));
    assert_eq!(seen["backlog"]["transactions"], 1, "what is parked does not wait: {seen}");
    let of_work = seen["queues"].as_array().expect("queues").iter().find(|q| q["key"] == "work");
    assert_eq!(of_work.map(|queue| &queue["messages"]), Some(&1.into()), "{seen}");
    let codes = problems(&seen);
    assert_eq!(codes[0], "no_worker", "the worst stands first: {codes:?}");
    assert!(codes.contains(&"parked") && codes.contains(&"oldest_is_old"), "{codes:?}");

    let worker = world.worker("one").start().await;
    world.queues.dead_letters(1, s(30)).await;
    world.queues.publish_raw(DEAD, b"another").await;
    let seen = told(&api, "a dead letter", |seen| seen["dead"]["messages"] == 1).await;
    assert!(problems(&seen).contains(&"dead_letters"), "{seen}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_rests_is_counted_and_what_is_due_and_nobody_moves_is_a_problem() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let from_now =
        |minutes: i64| DateTime::from_millis(DateTime::now().timestamp_millis() + minutes * 60_000);
    let scheduled = |minutes| {
        let moment = from_now(minutes);
        doc! { "state": "scheduled", "notBefore": moment, "dueAt": moment }
    };
    let held = |ends| doc! { "state": "held", "hold": true, "dueAt": ends };
    let mut parked = scheduled(-9);
    parked.insert("parked", doc! { "code": "kills_worker", "message": "m", "at": from_now(0) });
    for (id, change) in [
        ("later", scheduled(60)),
        ("due", scheduled(-3)),
        ("due-too", scheduled(-2)),
        ("parked", parked),
        ("noted", scheduled(-8)),
        ("held", held(from_now(60))),
        ("for-ever", held(DateTime::from_millis(ledger::transaction::MOMENT_MAX_MS))),
        ("goes-on", doc! { "createdAt": from_now(-500), "notBefore": from_now(-1) }),
    ] {
        world.insert(&[transfer(id, "a", "b", 1)]).await;
        let transactions = world.store.transactions();
        let changed = transactions.update_one(doc! { "_id": id }, doc! { "$set": change });
        changed.await.expect("MongoDB is there");
    }
    // As a sweeper notes it that can't write to the document.
    let noted = doc! {
        "_id": "noted", "kind": "tandem-parked-transaction",
        "code": "unwritable", "message": "m", "at": from_now(0),
    };
    let notes = world.store.database().collection(mongo::NOTES);
    notes.insert_one(noted).await.expect("MongoDB is there");

    let api = world.api(&[]).await;
    let seen = overview(&api).await;
    let count = |state: &str| seen["states"][state]["count"].as_u64();
    assert_eq!((count("scheduled"), count("held"), count("initial")), (Some(5), Some(2), Some(1)));
    assert_eq!(seen["parked"]["count"], 2, "{seen}");
    assert_eq!(seen["backlog"]["transactions"], 1, "what rests does not wait: {seen}");
    let due = &seen["due"];
    assert_eq!((due["capped"].as_bool(), due["count"].as_u64()), (Some(false), Some(3)), "{due}");
    let late = due["lateMs"].as_u64().expect("an age");
    assert!((180_000..300_000).contains(&late), "what is parked is not the first: {late}");
    assert_eq!(seen["oldest"]["id"], "goes-on");
    let age = seen["oldest"]["ageMs"].as_u64().expect("an age");
    assert!((60_000..180_000).contains(&age), "it has waited since it was due: {age}");
    let problem = seen["problems"].as_array().into_iter().flatten();
    let problem = problem.clone().find(|problem| problem["code"] == "due_not_moved");
    let problem = problem.unwrap_or_else(|| panic!("nobody moves them: {seen}"));
    assert_eq!(problem["title"], "3 transactions are due and nobody moves them");
    let page = api.get("/").await.expect(200).body;
    assert!(page.contains("3 transactions are due and nobody moves them"), "{page}");
    assert!(page.contains("List scheduled") && page.contains("the first for 3 min"), "{page}");
    let top = world.producer(&["top", "--once"]).await.expect_success().stdout;
    assert!(top.contains("resting    scheduled 5   held 2   due 3, the first for 3 min"), "{top}");

    let worker = world.worker("one").start().await;
    world.wait_state("due", State::Done, s(60)).await;
    let moved = |seen: &Value| {
        !problems(seen).contains(&"due_not_moved") && seen["states"]["scheduled"]["count"] == 3
    };
    told(&api, "they are moved", moved).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_dies_falls_silent_and_one_that_is_stopped_says_so() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let mut dies = world.worker("dies").start().await;
    let mut ends = world.worker("ends").start().await;
    let api = world.api(&[]).await;
    let does = |seen: &Value, name: &str| {
        let workers = seen["workers"].as_array().expect("a list").iter();
        let one = workers.clone().find(|worker| worker["name"] == name).cloned();
        one.map(|worker| worker["activity"].as_str().expect("a word").to_owned())
    };
    told(&api, "both work", |seen| {
        ["dies", "ends"].iter().all(|name| does(seen, name).as_deref() == Some("working"))
    })
    .await;
    dies.kill();
    ends.signal(Signal::Term);
    assert!(ends.exit(s(30)).await.success());
    let seen =
        told(&api, "it was told to stop", |seen| does(seen, "ends").as_deref() == Some("stopped"))
            .await;
    assert_eq!(does(&seen, "dies").as_deref(), Some("working"), "not for a slow moment");
    let seen =
        told(&api, "it is silent", |seen| does(seen, "dies").as_deref() == Some("silent")).await;
    let silent = seen["problems"].as_array().expect("a list").iter();
    let silent = silent.clone().find(|problem| problem["code"] == "worker_silent").expect("one");
    assert!(silent["cause"].as_str().is_some_and(|cause| cause.starts_with("dies ")), "{silent}");
    let again = world.worker("dies").start().await;
    told(&api, "its successor", |seen| !problems(seen).contains(&"worker_silent")).await;
    drop(again);
    world.finish().await;
}

#[tokio::test]
async fn while_a_server_is_away_the_overview_says_so_and_shows_what_was_known() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.insert(&[transfer("waits", "a", "b", 1)]).await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    let (amqp, url) = world.amqp_proxy().await;
    let servers = [("TANDEM_MONGODB_URI", uri.as_str()), ("TANDEM_AMQP_URL", url.as_str())];
    let api = world.api_with(&[], &servers).await;
    told(&api, "both are up", |seen| {
        let connections = &seen["connections"];
        connections["mongodb"]["up"] == true && connections["amqp"]["up"] == true
    })
    .await;
    mongodb.refuse();
    amqp.refuse();
    amqp.cut();
    let seen = told(&api, "both are away", |seen| {
        let codes = problems(seen);
        codes.contains(&"mongodb_away") && codes.contains(&"amqp_away")
    })
    .await;
    assert_eq!(seen["oldest"]["id"], "waits", "what was known: {seen}");
    assert!(seen["queues"].is_array() && seen["connections"]["mongodb"]["since"].is_string());
    told(&api, "the data grows old", |seen| {
        let age = |server: &str| seen["connections"][server]["dataAgeMs"].as_u64().unwrap_or(0);
        age("mongodb") > 5_000 && age("amqp") > 5_000
    })
    .await;
    mongodb.restore();
    amqp.restore();
    let seen = told(&api, "both are back", |seen| {
        let codes = problems(seen);
        !codes.contains(&"mongodb_away") && !codes.contains(&"amqp_away")
    })
    .await;
    let points = seen["points"].as_array().expect("points");
    let gaps = points.iter().filter(|point| point["settled"].is_null()).count();
    assert!(gaps >= 2 && gaps < points.len(), "gaps, and no zeros: {points:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_goes_on_with_what_is_new() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    told(&api, "there are some points", |seen| {
        seen["points"].as_array().is_some_and(|points| points.len() > 2)
    })
    .await;
    let mut viewer = watch(&api).await;
    let heard = viewer.heard(4).await;
    let names: Vec<&str> = heard.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names[..4], ["overview", "sample", "sample", "sample"]);
    let mut all = Vec::new();
    for event in heard {
        all.extend(event.data["points"].as_array().expect("points").iter().cloned());
    }
    assert!(heard[0].data["points"].as_array().is_some_and(|points| points.len() > 2));
    let kept = overview(&api).await["points"].clone();
    let kept = kept.as_array().expect("points");
    assert_eq!(all[..], kept[..all.len()], "each point once, in order");
    world.finish().await;
}

#[tokio::test]
async fn ten_viewers_cost_the_database_as_much_as_one_and_none_nothing() {
    const COMMANDS: [&str; 2] = ["workers", "unfinished"];
    const OVER: Duration = Duration::from_secs(12);
    const MOST: f64 = 2.5;
    // One look in ten seconds: somebody has asked.
    const LEAST: f64 = 0.2;
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let api = world.api_with(&[], &[("TANDEM_MONGODB_URI", &uri)]).await;
    let asked = || COMMANDS.iter().map(|command| proxy.requested(command)).sum::<usize>();
    assert_eq!(asked(), 0, "nobody has asked");
    let during = async |viewers: &mut [Listener]| {
        let before = asked();
        let begun = std::time::Instant::now();
        while begun.elapsed() < OVER {
            for viewer in &mut *viewers {
                let heard = viewer.events().len();
                viewer.heard(heard + 1).await;
            }
        }
        (asked() - before) as f64 / begun.elapsed().as_secs_f64()
    };
    let mut viewers = vec![watch(&api).await];
    let one = during(&mut viewers).await;
    for _ in 0..9 {
        viewers.push(watch(&api).await);
    }
    let ten = during(&mut viewers).await;
    eprintln!("{one:.2} commands a second with one viewer, {ten:.2} with ten");
    // On a busy machine there are fewer looks, and not as few in both halves of the test. So
    // neither is compared with the other, but both with the most that one viewer costs.
    assert!((LEAST..=MOST).contains(&one), "at most three commands in two seconds: {one}");
    assert!((LEAST..=MOST).contains(&ten), "ten viewers: {ten}, one: {one}");
    world.finish().await;
}

#[tokio::test]
async fn odd_documents_in_the_collection_of_workers_hide_nobody() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let workers = world.store.database().collection(mongo::WORKERS);
    let kind = "tandem-worker";
    let mut odd = vec![
        doc! { "_id": 7, "kind": kind, "seenAt": DateTime::now() },
        doc! { "_id": "future", "kind": kind, "seenAt": DateTime::from_millis(i64::MAX) },
        doc! { "_id": "no-date", "kind": kind, "seenAt": "now" },
        doc! { "_id": "staff", "name": "somebody who works here" },
        doc! { "_id": "huge", "kind": kind, "seenAt": DateTime::now(), "x": "x".repeat(1 << 20) },
        doc! {
            "_id": "odd", "kind": kind, "seenAt": DateTime::now(), "name": "\u{1b}[31m", "done": -5_i64,
            "refusals": [1], "latency": { "ms": "x" }, "lanes": i64::MIN,
        },
    ];
    odd.extend((0..300).map(|n| {
        doc! { "_id": format!("f{n}"), "kind": kind, "seenAt": DateTime::from_millis(1 << 50) }
    }));
    harness::odd::insert(&workers, &odd).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let seen = told(&api, "the worker is seen", |seen| {
        seen["workers"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "one"))
    })
    .await;
    let all = seen["workers"].as_array().expect("a list");
    let ids: Vec<&str> = all.iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.contains(&"odd") && ids.len() == 2, "{ids:?}");
    let odd = all.iter().find(|one| one["id"] == "odd").expect("it is there");
    assert_eq!((&odd["done"], &odd["name"]), (&0.into(), &"?[31m".into()));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_can_not_say_how_it_is_settles_all_the_same() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let database = world.store.database();
    let workers = database.collection::<mongodb::bson::Document>(mongo::WORKERS);
    workers.drop().await.expect("MongoDB is there");
    let view = doc! { "create": mongo::WORKERS, "viewOn": "accounts", "pipeline": [] };
    database.run_command(view).await.expect("somebody uses the name for a view");
    let worker = world.worker("one").start().await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.wait_state("t", State::Done, s(60)).await;
    let api = world.api(&[]).await;
    let seen =
        told(&api, "its consumer is seen", |seen| problems(seen).contains(&"workers_unseen")).await;
    assert_eq!(seen["connections"]["mongodb"]["up"], true, "{seen}");
    wait_until("it is still ready", s(10), async || worker.is_ready().await).await;
    drop(worker);
    world.finish().await;
}
