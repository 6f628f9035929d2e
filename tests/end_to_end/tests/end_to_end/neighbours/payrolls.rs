//! A queue full of payrolls: transactions of hundreds of legs, whose batches are limited to what
//! one command and one lease can hold.
//!
//! The short forms are among the tests. `TANDEM_PAYROLLS=full deploy/test payrolls` runs the full
//! sizes (several minutes, some gigabytes of disk) and prints what they took.

use std::time::{Duration, Instant};

use harness::process::memory_max;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, TransactionId};

/// The account that pays all of them.
const EMPLOYER: &str = "employer";

/// Documents of one insert.
const CHUNK: usize = 2_000;

/// Whether the environment asks for the full sizes.
fn is_full() -> bool {
    match std::env::var("TANDEM_PAYROLLS").as_deref() {
        Ok("full") => true,
        Ok(other) => panic!("TANDEM_PAYROLLS is {other:?}; leave it out, or write full"),
        Err(_) => false,
    }
}

/// A queue full of payrolls.
#[derive(Clone, Copy, Debug)]
struct Size {
    transactions: usize,
    /// Legs of each transaction, including the employer's.
    legs: usize,
    /// Payees of all transactions together.
    payees: usize,
    id_bytes: usize,
    limit: Duration,
}

impl Size {
    /// The short form, unless the environment asks for the full one.
    fn asked(short: Size, full: Size) -> Size {
        if is_full() { full } else { short }
    }

    fn payee(n: usize) -> String {
        format!("payee-{n:06}")
    }

    /// The `n`th pays 1 to each of its payees, who follow those of the one before it.
    fn transaction(self, n: usize) -> (TransactionId, Body) {
        let payees = self.legs - 1;
        let debit = -i64::try_from(payees).expect("few legs");
        let mut legs = vec![Leg { account: EMPLOYER.into(), amount: Amount::Int(debit) }];
        legs.extend((0..payees).map(|leg| Leg {
            account: Size::payee((n * payees + leg) % self.payees).into(),
            amount: Amount::Int(1),
        }));
        let id = format!("{n:0width$}", width = self.id_bytes);
        (id.into(), Body::new(legs).expect("valid legs"))
    }

    fn legs_together(self) -> usize {
        self.transactions * self.legs
    }
}

/// Opens the accounts, and inserts and publishes all payrolls before any worker runs.
async fn fill_the_queue(world: &World, size: Size) {
    let employer = Account { floor: None, ..Account::new(EMPLOYER, Amount::ZERO) };
    world.open(&[employer]).await;
    for first in (0..size.payees).step_by(CHUNK) {
        let some = first..(first + CHUNK).min(size.payees);
        let some: Vec<_> = some.map(|n| Account::new(&Size::payee(n), Amount::ZERO)).collect();
        world.open(&some).await;
    }
    let mut ids = Vec::with_capacity(size.transactions);
    for first in (0..size.transactions).step_by(CHUNK / 10) {
        let some = first..(first + CHUNK / 10).min(size.transactions);
        let some: Vec<_> = some.map(|n| size.transaction(n)).collect();
        world.insert(&some).await;
        ids.extend(some.into_iter().map(|(id, _)| id));
    }
    world.publish(&ids, 100).await;
}

/// Settles all of them with one worker with default timing, and prints time and memory.
async fn assert_settled(name: &str, size: Size) {
    let world = World::new().await;
    fill_the_queue(&world, size).await;
    let begun = Instant::now();
    let worker = world
        .worker("one")
        .flag("--lease-ms", 10_000)
        .flag("--grace-ms", 4_000)
        .flag("--op-limit-ms", 3_000)
        .flag("--clock-skew-ms", 500)
        .flag("--orphan-ms", 30_000)
        .start()
        .await;
    // Asking the worker costs the database nothing; counting thousands of large documents would be
    // slow.
    wait_until("the worker has settled all", size.limit, async || {
        let metrics = worker.metrics().await;
        metrics.sum("tandem_transitions_total", &[("state", "done")]) >= size.transactions as f64
    })
    .await;
    let seconds = begun.elapsed().as_secs_f64();
    let metrics = worker.metrics().await;
    let takeovers = metrics.sum("tandem_takeovers_total", &[]);
    let requeued = |cause: &str| metrics.sum("tandem_requeues_total", &[("cause", cause)]);
    // Transactions that did not fit into a batch are released at once and claimed again; no lease
    // is lost.
    let surplus = requeued("surplus");
    // A second message of the sweeper may find a transaction that is in progress: that is no
    // failure.
    let failed = requeued("failed") + requeued("apart");
    let memory = memory_max(worker.pid()).unwrap_or(0) / 1024 / 1024;
    println!(
        "{name}: {} transactions of {} legs on {} accounts, ids of {} bytes: {seconds:.1} s, \
         {:.0} legs a second, {takeovers} claimed again, of them {surplus} as too much for a batch, \
         {failed} ids failed in passing, the worker's peak memory {memory} MiB",
        size.transactions,
        size.legs,
        size.payees + 1,
        size.id_bytes,
        size.legs_together() as f64 / seconds,
    );
    // One that a successor has ended may be counted twice.
    wait_until("all are done", s(60), async || {
        world.count(&[State::Done]).await == size.transactions as u64
    })
    .await;
    // The short form runs beside other tests, which may delay the worker beyond a lease.
    if is_full() {
        assert!(takeovers <= surplus, "{} leases were lost on the way", takeovers - surplus);
        assert!(failed < 1.0, "{failed} ids failed on the way");
    }
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn payrolls_on_the_same_accounts_with_long_ids_settle() {
    let short = Size { transactions: 500, legs: 250, payees: 249, id_bytes: 150, limit: s(180) };
    let full = Size { transactions: 10_000, limit: s(1_200), ..short };
    assert_settled("same accounts", Size::asked(short, full)).await;
}

#[tokio::test]
async fn payrolls_on_many_accounts_settle() {
    let short = Size { transactions: 200, legs: 500, payees: 60_000, id_bytes: 36, limit: s(180) };
    let full = Size { transactions: 1_000, payees: 500_000, limit: s(1_200), ..short };
    assert_settled("many accounts", Size::asked(short, full)).await;
}
