//! Messages that can't be processed go to the dead-letter queue, unchanged and with their reason;
//! other messages are not affected.

use harness::proxy::Part;
use harness::queues::DeadLetter;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::message::MESSAGE_IDS_MAX;
use ledger::transaction::State;
use queue::{DEAD, SOLO, WORK};

#[tokio::test]
async fn what_is_no_message_is_dead_lettered_as_it_came_and_neighbours_are_settled() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let many = format!("{{\"ids\":[{}]}}", vec!["\"x\""; MESSAGE_IDS_MAX + 1].join(","));
    let bodies: Vec<Vec<u8>> = vec![
        b"not JSON".to_vec(),
        b"".to_vec(),
        vec![0, 159, 146, 150],
        br#"{"ids":[]}"#.to_vec(),
        br#"{"ids":[""]}"#.to_vec(),
        br#"{"ids":[1,2]}"#.to_vec(),
        br#"["t0"]"#.to_vec(),
        many.into_bytes(),
    ];
    for (n, body) in bodies.iter().enumerate() {
        world.submit(&[transfer(&format!("t{n}"), "a", "b", 5)], 1).await;
        world.queues.publish_raw(WORK, body).await;
    }
    let worker = world.worker("one").start().await;
    let mut letters = world.queues.dead_letters(bodies.len(), s(30)).await;
    let reason = Some("malformed".to_owned());
    let mut expected: Vec<_> =
        bodies.into_iter().map(|body| DeadLetter { reason: reason.clone(), body }).collect();
    letters.sort_by(|one, other| one.body.cmp(&other.body));
    expected.sort_by(|one, other| one.body.cmp(&other.body));
    assert_eq!(letters, expected);
    world.wait_final(s(30)).await;
    assert_eq!(world.count(&[State::Done]).await, expected.len() as u64);
    let metrics = worker.metrics().await;
    let counted = metrics.sum("tandem_dead_letters_total", &[("reason", "malformed")]);
    assert!((counted - expected.len() as f64).abs() < f64::EPSILON, "{counted}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn ids_that_nobody_inserted_are_dead_lettered_without_those_beside_them() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.insert(&[transfer("known", "a", "b", 5)]).await;
    let worker = world.worker("one").start().await;
    let ids = ["unknown-1".into(), "known".into(), "unknown-2".into()];
    world.publish(&ids, 10).await;
    world.wait_state("known", State::Done, s(30)).await;
    let letters = world.queues.dead_letters(1, s(60)).await;
    assert_eq!(letters[0].reason.as_deref(), Some("unknown_transaction"));
    let body: serde_json::Value = serde_json::from_slice(&letters[0].body).expect("JSON");
    assert_eq!(body["ids"], serde_json::json!(["unknown-1", "unknown-2"]));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_id_published_before_its_document_is_inserted_is_settled() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    // No sweeper, which would help.
    let worker = world.worker("one").flag("--orphan-ms", 600_000).start().await;
    world.publish(&["early".into()], 1).await;
    wait_until("the worker has looked for it", s(30), async || {
        let metrics = worker.metrics().await;
        metrics.sum("tandem_requeues_total", &[("cause", "missing")]) >= 1.0
    })
    .await;
    world.insert(&[transfer("early", "a", "b", 5)]).await;
    world.wait_state("early", State::Done, s(30)).await;
    assert_eq!(world.queues.depth(DEAD).await, Some(0));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_message_that_kills_its_workers_is_dead_lettered_alone() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let mut transfers: Vec<_> = (0..6).map(|n| transfer(&format!("t{n}"), "a", "b", 5)).collect();
    transfers.insert(3, transfer("poison", "a", "b", 7));
    world.submit(&transfers, 1).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut deaths = 0;
    while world.queues.depth(DEAD).await == Some(0) {
        assert!(deaths < 10, "the poison is still not a dead letter after {deaths} deaths");
        // A worker that processes the poisoned transaction dies. No sweeper, which would publish it
        // twice.
        let held = proxy.hold_about("claim", "poison", Part::Request);
        let name = format!("n{deaths}");
        let plan = world.worker(&name).mongodb(&uri).flag("--orphan-ms", 600_000);
        let mut worker = plan.start().await;
        wait_until("the worker meets the poison, or buries it", s(60), async || {
            held.is_caught() || world.queues.depth(DEAD).await != Some(0)
        })
        .await;
        if held.is_caught() {
            worker.kill();
            held.discard();
            deaths += 1;
        } else {
            // It acknowledges after the letter's confirm; killed in between, it would leave a
            // second letter.
            worker.drain(s(30)).await;
        }
    }
    let letter = &world.queues.dead_letters(1, s(10)).await[0];
    assert_eq!(letter.reason.as_deref(), Some("kills_worker"));
    assert!(String::from_utf8_lossy(&letter.body).contains("poison"), "{letter:?}");
    let worker = world.worker("survivor").flag("--orphan-ms", 500).start().await;
    // It is newer than the poisoned one, and never published: when the sweeper has published it,
    // the sweeper has left the poisoned one out.
    world.insert(&[transfer("forgotten", "a", "b", 5)]).await;
    wait_until("the neighbours are settled", s(60), async || {
        world.count(&[State::Done]).await == 7
    })
    .await;
    for queue in [WORK, SOLO, DEAD] {
        world.queues.wait_depth(queue, 0, s(10)).await;
    }
    assert_eq!(world.state("poison").await, State::Initial);
    eprintln!("poison: dead letter after {deaths} deaths");
    // A stray message does not start it again; a person brings it back.
    world.publish(&["poison".into()], 1).await;
    let unparked = world.producer(&["unpark", "poison"]).await;
    assert_eq!(unparked.code, Some(0), "{unparked:?}");
    world.wait_state("poison", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
