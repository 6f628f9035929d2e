//! While an alarm of the broker blocks all publishers, everything that needs no publication goes
//! on: fresh messages, messages that were delivered before, valid ids beside others. What has to be
//! published waits, and a worker still ends quickly.

use std::time::Instant;

use harness::servers::OwnBroker;
use harness::wait::{s, wait_until};
use harness::worker::Plan;
use harness::world::{World, transfer};
use ledger::transaction::{Body, State, TransactionId};
use queue::{DEAD, SOLO, WORK};

/// As many as the broker delivers ahead to a new worker.
const AHEAD: usize = 200;

/// So many odd messages wait for their dead letters; the broker takes the others back at once.
const WAIT: usize = 2_000;

/// So many more come.
const BEYOND: u32 = 300;

/// A worker that waits for the broker at its stop ends after so long, with an error.
const DRAIN_MS: u32 = 60_000;

/// So much time that a slow database needs no second attempt: it would have to be published. No
/// sweeper.
fn patient(plan: Plan) -> Plan {
    let plan = plan.flag("--lease-ms", 40_000).flag("--op-limit-ms", 10_000);
    let plan = plan.flag("--grace-ms", 12_000).flag("--orphan-ms", 600_000);
    plan.flag("--drain-ms", DRAIN_MS)
}

fn transfers(name: &str, count: usize) -> Vec<(TransactionId, Body)> {
    (0..count).map(|n| transfer(&format!("{name}{n}"), "a", "b", 1)).collect()
}

fn odd_body(number: usize) -> Vec<u8> {
    format!("not a message, {number}").into_bytes()
}

#[derive(Clone, Copy, PartialEq)]
enum Alarm {
    Memory,
    Disk,
}

async fn sound(broker: &OwnBroker, alarm: Alarm, on: bool) {
    match alarm {
        Alarm::Memory => broker.alarm(on).await,
        Alarm::Disk => broker.disk_alarm(on).await,
    }
}

/// Messages that were delivered before, more odd ones than may wait, valid ids beside one that no
/// transaction can have, and fresh ones; then the alarm, and then a worker.
async fn goes_on_through(alarm: Alarm) {
    let broker = OwnBroker::start(&format!("alarm-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    world.submit(&transfers("before", AHEAD), 1).await;
    world.queues.deliver_and_die(WORK, AHEAD).await;
    world.insert(&transfers("solo", 2)).await;
    world.queues.publish_raw(SOLO, br#"{"ids":["solo0","solo1"]}"#).await;
    world.queues.deliver_and_die(SOLO, 1).await;
    let odd: Vec<_> = (0..WAIT + BEYOND as usize).map(odd_body).collect();
    world.queues.publish_all_raw(WORK, &odd).await;
    world.insert(&transfers("beside", 1)).await;
    world.queues.publish_raw(WORK, br#"{"ids":["beside0","bad\n"]}"#).await;
    world.submit(&transfers("fresh", 50), 1).await;
    sound(&broker, alarm, true).await;

    let begun = Instant::now();
    let mut worker = patient(world.worker("one")).start().await;
    world.wait_final(s(30)).await;
    let took = begun.elapsed();
    assert_eq!(world.count(&[State::Done]).await, (AHEAD + 53) as u64);
    // Nothing can be published, but the broker moves by itself what finds no room: more than that
    // when a slow broker has made the worker consume anew, while it still keeps the room of before.
    wait_until("what finds no room is among the dead letters", s(10), async || {
        world.queues.depth(DEAD).await.is_some_and(|letters| letters >= BEYOND)
    })
    .await;
    let stopping = Instant::now();
    // Its success says that it did not wait until its drain limit.
    worker.drain(s(20)).await;
    let stopped = stopping.elapsed();
    eprintln!("alarm: all were done after {took:.1?}; SIGTERM took {stopped:.1?}");

    let second = patient(world.worker("two")).start().await;
    sound(&broker, alarm, false).await;
    // A worker that stops during an alarm may have sent letters already, which then come twice.
    let mut expected: Vec<_> = odd;
    expected.push(br#"{"ids":["bad\n"]}"#.to_vec());
    wait_until("the odd ones are dead letters", s(60), async || {
        let count = world.queues.depth(DEAD).await.unwrap_or_default();
        for letter in world.queues.dead_letters(count as usize, s(10)).await {
            // What the broker has moved says so in a header of the broker's.
            assert!(letter.reason.is_none_or(|reason| reason == "malformed"));
            expected.retain(|body| *body != letter.body);
        }
        expected.is_empty()
    })
    .await;
    for queue in [WORK, SOLO] {
        world.queues.wait_depth(queue, 0, s(30)).await;
    }
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn what_needs_no_publication_goes_on_while_the_memory_alarm_lasts() {
    goes_on_through(Alarm::Memory).await;
}

#[tokio::test]
async fn what_needs_no_publication_goes_on_while_the_disk_alarm_lasts() {
    goes_on_through(Alarm::Disk).await;
}

#[tokio::test]
async fn another_attempt_waits_for_the_end_of_an_alarm_and_nothing_else_waits_for_it() {
    let broker = OwnBroker::start(&format!("alarm-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    // Nobody has inserted these: they are looked up again a second later, which needs a
    // publication.
    let missing: Vec<_> = (0..AHEAD + 50).map(|n| format!("missing{n}").into()).collect();
    world.publish(&missing, 1).await;
    world.submit(&transfers("fresh", 50), 1).await;
    broker.alarm(true).await;
    let worker = patient(world.worker("one")).start().await;
    world.wait_final(s(30)).await;
    world.insert(&transfers("missing", AHEAD + 50)).await;
    assert_eq!(world.count(&[State::Done]).await, 50);
    broker.alarm(false).await;
    world.wait_final(s(30)).await;
    world.assert_at_rest().await;
    assert_eq!(world.queues.depth(DEAD).await, Some(0));
    drop(worker);
    world.finish().await;
}
