//! The model speaks for MongoDB: random sequences of ledger operations run against the model of the
//! simulator and a real MongoDB, and every answer and every document has to agree.
//!
//! A quarter of the sequences runs on ledgers whose documents others have designed ([`schemas`]).
//! A failing sequence shrinks to a short one, is printed, and is replayed by its number:
//!
//! ```sh
//! TANDEM_CONFORMANCE_SEQUENCES=10000 deploy/test model_and_mongodb
//! TANDEM_CONFORMANCE_FIRST=4711 TANDEM_CONFORMANCE_SEQUENCES=1 deploy/test model_and_mongodb
//! ```
//!
//! Left out: `sweepAfter`, which the model does not have, what producers and operators do to
//! documents that are odd at that moment, and clocks that stand exactly on a deadline.

mod chance;
mod fields;
mod hands;
mod model;
mod operation;
mod real;
mod schemas;
mod sequence;
mod terms;
mod written;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use client::{Client, Config as ClientConfig};
use harness::servers::Servers;
use harness::world::World;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use model::Model;
use operation::HOUR;
use real::Real;
use schemas::{SCHEMAS, Schema};
use sequence::Sequence;
use terms::Terms;

/// How many sequences are run when nobody says otherwise: about 25 s.
const SEQUENCES: u64 = 300;
const OPERATIONS_MAX: usize = 30;

/// Sequences wait for the server's disk, so more of them run at once than there are cores.
const RUNNERS: usize = 4;

/// With so many sequences, every operation must have taken effect at least once, and must have had
/// no effect at least once.
const COVERING: u64 = 300;

/// How often which operation took effect, and how often it did not.
type Coverage = BTreeMap<&'static str, (u64, u64)>;

#[test]
fn model_and_mongodb_give_the_same_answers_and_documents() {
    let first = number("TANDEM_CONFORMANCE_FIRST", 0);
    let sequences = number("TANDEM_CONFORMANCE_SEQUENCES", SEQUENCES);
    let next = AtomicU64::new(first);
    let failed = AtomicBool::new(false);
    let begun = Instant::now();
    let runner = || {
        let mut runner = Runner::new();
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + sequences {
                return Ok(runner.finish());
            }
            if let Err(failure) = runner.run(number) {
                failed.store(true, Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(Coverage::new())
    };
    let coverages: Vec<Result<Coverage, String>> = std::thread::scope(|scope| {
        let named = |_| std::thread::Builder::new().name("conformance".to_owned());
        let spawn = |thread: std::thread::Builder| thread.spawn_scoped(scope, runner);
        let running: Vec<_> = (0..RUNNERS).map(named).map(spawn).collect();
        let end = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
            thread.expect("a thread can be started").join().expect("a runner broke down")
        };
        running.into_iter().map(end).collect()
    });
    let mut total = Coverage::new();
    for coverage in coverages {
        add(&mut total, &coverage.unwrap_or_else(|failure| panic!("{failure}")));
    }
    report(&total, sequences, begun.elapsed().as_secs_f64());
}

fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a whole number"))
}

fn add(total: &mut Coverage, part: &Coverage) {
    for (operation, (did, did_not)) in part {
        let sum = total.entry(operation).or_default();
        *sum = (sum.0 + did, sum.1 + did_not);
    }
}

fn report(total: &Coverage, sequences: u64, seconds: f64) {
    let operations: u64 = total.values().map(|(did, did_not)| did + did_not).sum();
    println!("{sequences} sequences, {operations} operations, {seconds:.1} s");
    println!("{:<16}{:>12}{:>12}", "operation", "did", "did not");
    for (operation, (did, did_not)) in total {
        println!("{operation:<16}{did:>12}{did_not:>12}");
    }
    let answers_nothing = [
        "release",
        "unclaim",
        "park by id",
        "spoil account",
        "spoil transaction",
        "mend",
        "forget",
    ];
    for (operation, (did, did_not)) in total.iter().filter(|_| sequences >= COVERING) {
        assert!(*did > 0, "{operation} has never done anything");
        assert!(*did_not > 0 || answers_nothing.contains(operation), "{operation} has always done");
    }
}

/// The databases, and the sequences that are run on them one after the other.
struct Runner {
    runtime: tokio::runtime::Runtime,
    /// A ledger of each schema, as far as one was needed.
    grounds: [Option<Ground>; SCHEMAS.len()],
    coverage: Coverage,
}

/// One database.
struct Ground {
    world: World,
    real: Real,
}

impl Ground {
    async fn new(schema: &Schema) -> Ground {
        let world = World::of_layout(Servers::from_env(), schema.layout()).await;
        let servers = &world.servers;
        let config = ClientConfig::new(&servers.mongodb_uri, &servers.amqp_url)
            .database(&world.name)
            .queue_prefix(&world.name)
            .name("conformance");
        hands::let_hands_in(&world.store).await;
        let client = Client::over(world.store.clone(), &config);
        Ground { world, real: Real::new(client) }
    }
}

impl Runner {
    fn new() -> Runner {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        Runner { runtime, grounds: Default::default(), coverage: Coverage::new() }
    }

    fn finish(self) -> Coverage {
        for ground in self.grounds.into_iter().flatten() {
            self.runtime.block_on(ground.world.finish());
        }
        self.coverage
    }

    /// Runs the sequence of this number. The error describes the shortest one that still fails.
    fn run(&mut self, number: u64) -> Result<(), String> {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        let config =
            Config { max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut shrinking = TestRunner::new_with_rng(config, rng);
        let at = schemas::of_sequence(number);
        let schema = &SCHEMAS[at];
        let ground = || self.runtime.block_on(Ground::new(schema));
        let Ground { real, .. } = self.grounds[at].get_or_insert_with(ground);
        let tree = sequence::sequences(OPERATIONS_MAX, &schema.names).new_tree(&mut shrinking);
        let tree = tree.expect("the strategy refuses nothing");
        let coverage = std::cell::RefCell::new(Coverage::new());
        let checked = shrinking.run_one(tree, |sequence| {
            let checked = self.runtime.block_on(check(real, &sequence));
            add(&mut coverage.borrow_mut(), &checked.map_err(TestCaseError::fail)?);
            Ok(())
        });
        add(&mut self.coverage, &coverage.into_inner());
        checked.map(|_| ()).map_err(|error| match error {
            TestError::Fail(reason, shortest) => format!(
                "model and MongoDB differ:\n{}\nin this sequence, the shortest found:\n{shortest}\
                 on schema {at}\n\
                 replay: TANDEM_CONFORMANCE_FIRST={number} TANDEM_CONFORMANCE_SEQUENCES=1 \
                 deploy/test model_and_mongodb",
                reason.message()
            ),
            TestError::Abort(reason) => format!("sequence {number}: {}", reason.message()),
        })
    }
}

/// Runs a sequence on both sides; the error says where they differ.
async fn check(real: &Real, sequence: &Sequence) -> Result<Coverage, String> {
    let begun = real.now().await;
    let clock = Instant::now();
    let terms = Terms::new(sequence, begun);
    real.reset(sequence).await;
    let mut model = Model::new(sequence);
    let mut coverage = Coverage::new();
    for (at, operation) in (1_i64..).zip(&sequence.operations) {
        if model.leaves_out(operation, &sequence.bodies) {
            continue;
        }
        // Long ago, so that a change of `lastModified` is visible.
        let created_at = begun - 5 * HOUR + at;
        let here = |what: String| format!("  at {at}. {operation}: {what}");
        let answer = real.run(&terms, operation, created_at).await;
        let answer = answer.map_err(|error| here(format!("MongoDB failed: {error}")))?;
        let elapsed = i64::try_from(clock.elapsed().as_millis()).expect("not that long");
        let expected = model.run(&terms, operation, created_at, begun + elapsed);
        if let Some(difference) = fields::answers_differ(&answer, &expected) {
            return Err(here(difference));
        }
        let differences = fields::differences(&real.shown(&terms).await, &model.shown(&terms));
        if !differences.is_empty() {
            return Err(here(differences.join("\n  and ")));
        }
        let (did, did_not) = coverage.entry(operation.name()).or_default();
        *(if answer.took_effect() { did } else { did_not }) += 1;
    }
    Ok(coverage)
}
