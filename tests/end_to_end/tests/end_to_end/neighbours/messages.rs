//! Whatever somebody publishes, the messages behind it are processed, and messages that make no
//! sense are in the dead-letter queue at once, with a short reason.

use std::time::Duration;

use harness::wait::s;
use harness::world::{World, transfer};
use ledger::transaction::State;
use queue::{SOLO, WORK};

use super::{SOON, good, ids, wait_done, worker_without_sweeper};

/// The most bytes of a dead letter's headers: far below a frame, which is 128 KiB.
const HEADER_BYTES_MAX: usize = 4_096;

/// A message that makes no sense is handled on delivery. If that took longer, the message would be
/// delivered again and again, each time after the connection was made anew.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_long_text_in_place_of_the_ids_is_a_dead_letter_at_once() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let body = format!("{{\"ids\": \"{}\"}}", "x".repeat(200_000));
    world.queues.publish_raw(WORK, body.as_bytes()).await;
    let letters = world.queues.dead_letters_and_headers(1, AT_ONCE).await;
    let (letter, header_bytes) = &letters[0];
    assert_eq!(letter.reason.as_deref(), Some("malformed"));
    assert!(*header_bytes < HEADER_BYTES_MAX, "headers of {header_bytes} bytes");
    let good = good(1);
    world.submit(&good, 1).await;
    wait_done(&world, &good, SOON).await;
    let reconnects = worker.metrics().await.sum("tandem_reconnects_total", &[]);
    assert!(reconnects < 1.0, "the connection was made anew {reconnects} times");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Messages that nobody can work on.
fn hostile() -> Vec<Vec<u8>> {
    let list = |ids: &[String]| format!("{{\"ids\":[{}]}}", ids.join(",")).into_bytes();
    let nested = |depth: usize| {
        format!("{{\"ids\":{}{}}}", "[".repeat(depth), "]".repeat(depth)).into_bytes()
    };
    let long = "x".repeat(200_000);
    vec![
        vec![b'#'; 10_000_000],
        vec![0xff; 10_000_000],
        nested(100_000),
        format!("{{\"{long}\":1}}").into_bytes(),
        format!("{{\"ids\":[\"t\"],\"tries\":\"{long}\"}}").into_bytes(),
        format!("{{\"ids\":{{\"{long}\":1}}}}").into_bytes(),
        list(&vec!["\"x\"".to_owned(); 1_001]),
        list(&["7".to_owned(), "null".to_owned()]),
        list(&[format!("\"{long}\"")]),
        list(&["\"line\\nbreak\"".to_owned()]),
        br#"{"ids":["t"],"tries":-1}"#.to_vec(),
        br#"{"ids":["t"],"tries":4294967296}"#.to_vec(),
        br#"{"ids":["t"],"strikes":1e400}"#.to_vec(),
        br#"{"ids":["t"],"ids":["u"]}"#.to_vec(),
        br#""ids""#.to_vec(),
        br#"[["t"],0,0]"#.to_vec(),
        list(&[r#""\ud800""#.to_owned()]),
    ]
}

#[tokio::test]
async fn hostile_messages_are_dead_letters_and_the_good_ones_between_them_are_settled() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let hostile = hostile();
    let good = good(2 * hostile.len());
    world.insert(&good).await;
    for (n, body) in hostile.iter().enumerate() {
        let key = if n % 3 == 0 { SOLO } else { WORK };
        world.queues.publish_raw(key, body).await;
        world.publish(&ids(&good[2 * n..2 * n + 2]), 1).await;
    }
    wait_done(&world, &good, SOON).await;
    for (letter, header_bytes) in
        world.queues.dead_letters_and_headers(hostile.len(), AT_ONCE).await
    {
        let start = String::from_utf8_lossy(&letter.body[..letter.body.len().min(60)]);
        assert_eq!(letter.reason.as_deref(), Some("malformed"), "{start}");
        assert!(header_bytes < HEADER_BYTES_MAX, "headers of {header_bytes} bytes: {start}");
    }
    let reconnects = worker.metrics().await.sum("tandem_reconnects_total", &[]);
    assert!(reconnects < 1.0, "the connection was made anew {reconnects} times");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_largest_counts_in_a_message_overflow_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let good = good(3);
    world.insert(&good).await;
    let worker = worker_without_sweeper(&world).start().await;
    let most = u32::MAX;
    let counted = |id: &str, count: &str| format!("{{\"ids\":[\"{id}\"],\"{count}\":{most}}}");
    for (key, body) in [
        (WORK, counted("good-000", "tries")),
        (WORK, counted("good-001", "strikes")),
        (SOLO, counted("good-002", "strikes")),
        (WORK, counted("nobody", "tries")),
    ] {
        world.queues.publish_raw(key, body.as_bytes()).await;
    }
    wait_done(&world, &good, SOON).await;
    let letters = world.queues.dead_letters(1, s(30)).await;
    assert_eq!(letters[0].reason.as_deref(), Some("unknown_transaction"));
    drop(worker);
    // The message has many strikes, so its worker dies once more: the next worker must handle it.
    world.insert(&[transfer("held", "a", "b", 1)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut doomed =
        world.worker("doomed").mongodb(&uri).flag("--orphan-ms", 600_000).start().await;
    let held = proxy.hold_about("claim", "held", harness::proxy::Part::Request);
    world.queues.publish_raw(SOLO, counted("held", "strikes").as_bytes()).await;
    held.caught(s(20)).await;
    doomed.kill();
    held.discard();
    let next = worker_without_sweeper(&world).start().await;
    // One death alone is not enough to blame it, whatever its message says.
    world.wait_state("held", State::Done, s(30)).await;
    assert_eq!(world.count(&[State::Done]).await, 4);
    drop(next);
    world.finish().await;
}

#[tokio::test]
async fn an_id_that_no_value_can_hold_costs_its_neighbours_in_the_message_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let good = good(5);
    world.insert(&good).await;
    let worker = worker_without_sweeper(&world).start().await;
    let nested = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let odd = [r#""\ud800""#, "1e999", "-0", "{\"a\":1,\"a\":2}", &nested];
    for ((id, _), odd) in good.iter().zip(odd) {
        let body = format!("{{\"ids\":[{odd},\"{id}\"],\"marker\":5}}");
        world.queues.publish_raw(WORK, body.as_bytes()).await;
    }
    wait_done(&world, &good, SOON).await;
    for letter in world.queues.dead_letters(odd.len(), AT_ONCE).await {
        assert_eq!(letter.reason.as_deref(), Some("malformed"));
        let body = String::from_utf8_lossy(&letter.body);
        assert!(!body.contains("good-"), "a neighbour is in the dead letter: {body}");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
