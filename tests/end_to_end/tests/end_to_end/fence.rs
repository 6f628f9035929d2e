//! The fence: a post that arrives when its transaction is over makes no money.
//!
//! The mark alone does not help: it has been removed by then. Every schedule here also runs without
//! the fence (a proxy removes it), and must then make or lose money: otherwise the test would prove
//! nothing.

use std::time::Instant;

use harness::proxy::{Held, MongoProxy, Part};
use harness::wait::{s, wait_until};
use harness::worker::{Plan, Worker};
use harness::world::{World, transfer};
use ledger::transaction::State;

/// How the transaction ends while its first owner is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Settled,
    RolledBack,
}

impl End {
    fn state(self) -> State {
        match self {
            End::Settled => State::Done,
            End::RolledBack => State::Canceled,
        }
    }

    /// The next owner, which brings the transaction to this end.
    fn successor(self, world: &World) -> Plan {
        let attempts_max = if self == End::Settled { 10 } else { 1 };
        world.worker("successor").flag("--attempts-max", attempts_max)
    }
}

/// Lease and grace so short that the next owner is done before the first owner's own time-outs,
/// which started before its stall, make it drop its next operation.
fn hasty(plan: Plan) -> Plan {
    plan.flag("--lease-ms", 300)
        .flag("--grace-ms", 200)
        .flag("--op-limit-ms", 150)
        .flag("--clock-skew-ms", 50)
        .flag("--sweep-ms", 3_600_000)
        // It holds its one message, so the broker gives later messages to the next owner.
        .flag("--prefetch", 1)
}

struct Stall {
    world: World,
    proxy: MongoProxy,
    first: Worker,
}

impl Stall {
    /// The first owner is stopped with a reply in its socket; the next owner brings the transaction
    /// to its end; then the first owner goes on.
    async fn run(reply_of: &str, end: End, fenced: bool) -> Stall {
        let world = World::new().await;
        world.accounts(&[("a", 100), ("b", 0)]).await;
        let (proxy, uri) = world.mongodb_proxy().await;
        if !fenced {
            proxy.take_fence_out();
        }
        let first = hasty(world.worker("first").mongodb(&uri)).start().await;
        let held = proxy.hold(reply_of, 1, Part::Reply);
        world.submit(&[transfer("t", "a", "b", 10)], 1).await;
        held.caught(s(20)).await;
        first.freeze().await;
        held.release();
        held.passed(s(20)).await;
        let successor = end.successor(&world).launch();
        // The stopped worker still holds the message.
        world.publish(&["t".into()], 1).await;
        world.wait_state("t", end.state(), s(30)).await;
        drop(successor);
        first.thaw();
        Stall { world, proxy, first }
    }

    /// Lets the first owner finish whatever it was about to do.
    async fn settle_down(mut self) -> World {
        self.first.drain(s(30)).await;
        self.world
    }
}

/// Runs the schedule until the late post has really been sent: on a machine that is stopped for a
/// moment, the worker's own time-outs come first, or it knows before it posts that its lease has
/// ended.
async fn late_post(end: End, fenced: bool) -> World {
    let fenced_posts = "tandem_fenced_posts_total";
    for _ in 0..20 {
        let stall = Stall::run("read", end, fenced).await;
        let over = async || {
            let metrics = stall.first.metrics().await;
            let given_up = ["tandem_retries_total", fenced_posts];
            stall.proxy.answered("post") > 0
                || given_up.iter().any(|name| metrics.sum(name, &[]) > 0.0)
        };
        wait_until("the late post is answered, or given up", s(20), over).await;
        if stall.proxy.answered("post") > 0 {
            wait_until("the late post is counted", s(20), async || {
                !fenced || stall.first.metrics().await.sum(fenced_posts, &[]) > 0.0
            })
            .await;
            return stall.settle_down().await;
        }
        stall.settle_down().await.finish().await;
    }
    panic!("the late post was never sent");
}

#[tokio::test]
async fn a_stalled_workers_late_post_of_a_settled_transaction_does_nothing() {
    let world = late_post(End::Settled, true).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_stalled_workers_late_post_of_an_undone_transaction_does_nothing() {
    let world = late_post(End::RolledBack, true).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn without_the_fence_a_late_post_of_a_settled_transaction_makes_money_wrong() {
    let world = late_post(End::Settled, false).await;
    world.assert_money_is_wrong().await;
    world.finish().await;
}

#[tokio::test]
async fn without_the_fence_a_late_post_of_an_undone_transaction_makes_money_wrong() {
    let world = late_post(End::RolledBack, false).await;
    world.assert_money_is_wrong().await;
    world.finish().await;
}

async fn stalled_after(reply_of: &str, end: End) {
    let world = Stall::run(reply_of, end, true).await.settle_down().await;
    world.assert_at_rest().await;
    assert_eq!(world.state("t").await, end.state());
    world.finish().await;
}

#[tokio::test]
async fn a_worker_stalled_before_its_commit_does_not_commit_what_others_settled() {
    stalled_after("post", End::Settled).await;
}

#[tokio::test]
async fn a_worker_stalled_before_its_commit_does_not_commit_what_others_undid() {
    stalled_after("post", End::RolledBack).await;
}

#[tokio::test]
async fn a_worker_stalled_before_it_settles_does_not_settle_twice() {
    stalled_after("applied", End::Settled).await;
}

#[tokio::test]
async fn a_worker_stalled_before_its_last_step_finds_it_done() {
    stalled_after("settle", End::Settled).await;
}

/// A worker whose first post is on its way for so long that everything else is finished before it
/// arrives, and which is its own next owner.
async fn delayed_post(lease_ms: u32, fenced: bool) -> World {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    if !fenced {
        proxy.take_fence_out();
    }
    let worker = world
        .worker("one")
        .mongodb(&uri)
        .flag("--lease-ms", lease_ms)
        .flag("--op-limit-ms", 300)
        .flag("--grace-ms", 500)
        .start()
        .await;
    let held: Held = proxy.hold("post", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    world.wait_state("t", State::Done, s(60)).await;
    held.release();
    held.passed(s(20)).await;
    drop(worker);
    world
}

#[tokio::test]
async fn a_post_that_outlives_its_lease_on_the_wire_does_nothing() {
    let world = delayed_post(1_000, true).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_post_that_arrives_within_the_lease_but_after_its_repetition_was_settled_does_nothing() {
    let world = delayed_post(60_000, true).await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn without_the_fence_a_delayed_post_makes_money_wrong() {
    let world = delayed_post(60_000, false).await;
    world.assert_money_is_wrong().await;
    world.finish().await;
}

#[tokio::test]
async fn no_mark_goes_while_a_post_of_unknown_fate_may_still_arrive() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    // A post may wait for the operation limit, and may run for the grace after that.
    let worker = world
        .worker("one")
        .mongodb(&uri)
        .flag("--lease-ms", 20_000)
        .flag("--op-limit-ms", 2_000)
        .flag("--grace-ms", 2_500)
        .start()
        .await;
    let held = proxy.hold("post", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    let sent = Instant::now();
    // The connection breaks: the worker tries again at once, while the first try may still arrive.
    held.hang_up();
    wait_until("it has committed, and gone on", s(20), async || {
        proxy.answered("applied") > 0 && proxy.requested("release") + proxy.requested("settle") > 0
    })
    .await;
    held.release();
    held.passed(s(20)).await;
    wait_until("it settles", s(30), async || proxy.requested("settle") > 0).await;
    let settled = sent.elapsed();
    assert!(settled > s(4), "a mark went {settled:?} after a post that may live for 4.5 s");
    world.wait_state("t", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
