//! Dead letters and parked transactions by HTTP: a replay after a poison.

use harness::api::Api;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{ParkCode, Parked, State};
use mongo::raw_id;
use queue::DEAD;
use serde_json::Value;

async fn letters(api: &Api) -> Value {
    api.get("/v1/dead-letters").await.expect(200).json()
}

#[tokio::test]
async fn a_list_of_very_many_letters_looks_at_some_and_says_so() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let none = letters(&api).await;
    assert_eq!((&none["count"], &none["complete"]), (&0.into(), &true.into()), "{none}");
    let bodies = vec![b"no message of ours".to_vec(); 10_500];
    world.queues.publish_all_raw(DEAD, &bodies).await;
    let listed = api.get("/v1/dead-letters?limit=5").await.expect(200).json();
    let count = listed["count"].as_u64().expect("a count");
    assert!((5..=10_000).contains(&count) && listed["complete"] == false, "{listed}");
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(5), "{listed}");
    // Looking takes nothing out.
    world.queues.wait_depth(DEAD, 10_500, s(30)).await;
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_that_has_killed_its_workers_is_settled_after_a_replay() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.submit(&[transfer("poison", "a", "b", 5)], 1).await;
    let mut lives = 0;
    // No sweeper: a second message of it would be another death after the replay.
    let life = |lives: i32| {
        let plan = world.worker(&format!("life-{lives}")).flag("--orphan-ms", 600_000);
        plan.poisoned(&["poison"], "post").launch()
    };
    let mut worker = life(lives);
    wait_until("it is dead-lettered", s(120), async || {
        if worker.exited().is_some() {
            lives += 1;
            worker = life(lives);
        }
        world.queues.depth(DEAD).await == Some(1)
    })
    .await;
    // Drained: one that is killed may not have acknowledged yet what it has dead-lettered.
    worker.drain(s(30)).await;
    assert!(lives >= 3, "it has killed {lives} workers");

    let api = world.api(&[]).await;
    let listed = letters(&api).await;
    assert_eq!(listed["groups"][0]["reason"], "kills_worker", "{listed}");
    let id = listed["items"][0]["id"].as_str().expect("an id").to_owned();
    let parked = api.get("/v1/parked").await.expect(200).json();
    assert_eq!(parked["items"][0]["id"], "poison", "{parked}");
    let shown = api.get(&format!("/v1/dead-letters/{id}")).await.expect(200).json();
    assert_eq!(shown["transactions"][0]["is"], "parked", "{shown}");
    // Looking takes nothing out.
    world.queues.wait_depth(DEAD, 1, s(10)).await;

    let replayed = api.act(&format!("/v1/dead-letters/{id}/replay")).await.expect(200).json();
    assert_eq!(replayed["outcome"], "replayed", "{replayed}");
    let worker = world.worker("sound").start().await;
    world.wait_state("poison", State::Done, s(60)).await;
    assert_eq!(letters(&api).await["count"], 0);
    api.act(&format!("/v1/dead-letters/{id}/replay")).await.expect(404);
    assert_eq!(world.balance("b").await, 5.into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_letter_that_can_not_be_replayed_stays_and_is_discarded_by_hand() {
    let world = World::new().await;
    world.queues.publish_raw(DEAD, br#"{"ids":["nobody"]}"#).await;
    world.queues.publish_raw(DEAD, b"not JSON").await;
    let api = world.api(&[]).await;
    wait_until("both are there", s(30), async || letters(&api).await["count"] == 2).await;
    for letter in letters(&api).await["items"].as_array().expect("items") {
        let path = format!("/v1/dead-letters/{}", letter["id"].as_str().expect("an id"));
        let refused = api.act(&format!("{path}/replay")).await.expect(409).json();
        assert_eq!(refused["type"], "urn:tandem:problem:refused", "{refused}");
        api.act(&format!("{path}/discard")).await.expect(200);
        api.act(&format!("{path}/discard")).await.expect(404);
    }
    world.queues.wait_depth(DEAD, 0, s(10)).await;
    world.finish().await;
}

#[tokio::test]
async fn a_parked_transaction_is_brought_back_or_given_up() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.insert(&[transfer("back", "a", "b", 5), transfer("up", "a", "b", 7)]).await;
    let why = Parked::new(ParkCode::KillsWorker, "its workers died with it");
    let ids = [raw_id("back"), raw_id("up")];
    world.store.park_by_id(&ids, &why).await.expect("MongoDB is there");
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let done = api.act("/v1/parked/back/replay?wait=60").await.expect(200).json();
    assert_eq!(done["state"], "done");
    let canceled = api.act("/v1/parked/up/discard?wait=60").await.expect(200).json();
    assert_eq!(canceled["state"], "canceled", "{canceled}");
    for path in ["/v1/parked/back/replay", "/v1/parked/back/discard", "/v1/parked/nobody/replay"] {
        api.act(path).await.expect(404);
    }
    assert_eq!(world.balance("b").await, 5.into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
