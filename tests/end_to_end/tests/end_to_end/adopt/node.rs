//! A collection is adopted, settled on by both engines, given back and adopted again, while an old
//! program in Node adds to random balances all the time.
//!
//! With `TANDEM_ADOPT_ACCOUNTS=1000000` it is the measurement of `deploy/adopting.md`: run it alone.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::TryStreamExt;
use harness::process::Process;
use harness::wait::{ms, s, wait_until};
use harness::world::World;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};
use serde_json::{Value, json};

use super::beside::pay;
use super::{adopt, fill, openings, score_of};
use crate::articles::mongosh;
use crate::layouts::{SCHEMA, collection, world_of};

const ACCOUNTS: usize = 2_000;
/// From so many accounts on it is a measurement, and nothing is slowed down to be killed in time.
const MANY: usize = 100_000;
const KILLED: u64 = 5;

fn count() -> usize {
    let named = std::env::var("TANDEM_ADOPT_ACCOUNTS");
    named.map_or(ACCOUNTS, |count| count.parse().expect("TANDEM_ADOPT_ACCOUNTS is a number"))
}

/// What the old program says at its end.
struct Told {
    /// What it has added, by the number of the account.
    added: HashMap<usize, i64>,
    /// When it had updated, in milliseconds since 1970, and how many microseconds that took.
    took: Vec<(u128, u64)>,
}

impl Told {
    /// The slowest hundredth of the updates between two moments, and how many there were.
    fn slowest(&self, from: u128, to: u128) -> (Duration, usize) {
        let within = self.took.iter().filter(|(at, _)| (from..to).contains(at));
        let mut took: Vec<u64> = within.map(|(_, took)| *took).collect();
        took.sort_unstable();
        let slowest = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
        (Duration::from_micros(slowest), took.len())
    }
}

/// An old program in Node.
struct OldProgram {
    process: Process,
    stop: PathBuf,
    told: PathBuf,
}

impl OldProgram {
    fn start(world: &World, count: usize) -> OldProgram {
        let [stop, told, log] =
            ["stop", "told", "old_writer.log"].map(|name| world.directory().join(name));
        let said = format!("count = {count}; stop = {stop:?}; told = {told:?}");
        let mut command = mongosh(world, &said, "adopt/old_writer.js");
        OldProgram { process: Process::start(&mut command, log), stop, told }
    }

    async fn stopped(mut self) -> Told {
        std::fs::write(&self.stop, "").expect("a file");
        let ended = self.process.exit(s(60)).await;
        assert!(ended.success(), "the old program: {ended}");
        let told = std::fs::read(&self.told).expect("it has written its sums");
        let told: Value = serde_json::from_slice(&told).expect("they are JSON");
        let added = |(at, amount): (&String, &Value)| {
            (at.parse().expect("a number"), amount.as_i64().expect("minor units"))
        };
        let took = |took: &Value| {
            let [at, took] = [0, 1].map(|item| took[item].as_u64().expect("a number"));
            (u128::from(at), took)
        };
        Told {
            added: told["added"].as_object().expect("sums").iter().map(added).collect(),
            took: told["took"].as_array().expect("a list").iter().map(took).collect(),
        }
    }
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

fn id_of(at: usize) -> ObjectId {
    let number = u64::try_from(at + 1).expect("small").to_be_bytes();
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number);
    ObjectId::from_bytes(bytes)
}

/// Accounts of Int32, of doubles, and of none; returns what each holds.
async fn accounts(world: &World, count: usize) -> Vec<i64> {
    let holds =
        |at: usize| if at % 3 == 2 { 0 } else { 1_000_000 + i64::try_from(at).expect("small") };
    let user = |at: usize| {
        let wallet = match at % 3 {
            0 => doc! { "score": i32::try_from(holds(at)).expect("small") },
            1 => doc! { "score": holds(at) as f64, "color": "red" },
            _ => doc! { "color": "blue" },
        };
        // Nobody may pay from nothing, and the old program may take from it.
        doc! { "_id": id_of(at), "wallet": wallet, "tandem": { "floor": Bson::Null } }
    };
    for from in (0..count).step_by(10_000) {
        fill(world, "user", (from..count.min(from + 10_000)).map(user).collect()).await;
    }
    (0..count).map(holds).collect()
}

/// Adopts while it is killed again and again; returns how long all of it took, and the last report.
async fn adopt_though_killed(world: &World, count: usize) -> (Duration, Value) {
    let (begun, of) = (Instant::now(), u64::try_from(count).expect("a count"));
    let slowly = (of / 5).to_string();
    let mut flags = vec!["adopt", "--watch", "0", "--piece", "1000"];
    if count < MANY {
        flags.extend(["--rate", &slowly]);
    }
    for killed in 1..=KILLED {
        let mut adopting = world.spawn_producer(&flags, &[]);
        let enough = of * killed / (KILLED + 3);
        wait_until("some are adopted", s(300), async || openings(world).await >= enough).await;
        adopting.kill();
    }
    assert!(openings(world).await < of, "it was killed before its end");
    let report = adopt(world, &["--json"]).await.expect_success().json();
    assert_eq!(openings(world).await, of, "{report}");
    (begun.elapsed(), report)
}

async fn assert_no_rule_is_broken(world: &World) {
    let audit = world.producer(&["audit", "--others-write", "--json"]).await;
    let report = audit.json();
    assert_eq!((audit.code, &report["violations"]), (Some(0), &json!([])), "{report}");
}

async fn absorb(world: &World) -> Value {
    let flags =
        ["accounts", "absorb", "--reason", "the old shop", "--by", "ada", "--yes", "--json"];
    world.producer(&flags).await.expect_success().json()
}

async fn assert_balances(world: &World, holds: &[i64]) {
    let mut found = collection(world, "user").find(doc! {}).await.expect("MongoDB is there");
    let mut read = 0;
    while let Some(user) = found.try_next().await.expect("MongoDB is there") {
        let bytes = user.get_object_id("_id").expect("an id").bytes();
        let number = u64::from_be_bytes(bytes[4..].try_into().expect("eight bytes"));
        let at = usize::try_from(number - 1).expect("small");
        assert_eq!(score_of(&user), holds[at], "account {at}: {user}");
        read += 1;
    }
    assert_eq!(read, holds.len());
}

#[tokio::test]
async fn every_balance_is_exact_though_an_old_program_in_node_never_stops_and_adopting_is_killed() {
    let count = count();
    let mut world = world_of(SCHEMA).await;
    world.call_limit += ms(count as u64);
    let mut holds = accounts(&world, count).await;
    let ids: Vec<ObjectId> = (0..count).map(id_of).collect();
    let program = OldProgram::start(&world, count);
    wait_until("the old program is at work", s(60), async || {
        let moved = doc! { "_id": { "$in": &ids[2..ids.len().min(3_000)] }, "wallet.score": { "$lt": 1_000 } };
        collection(&world, "user").count_documents(moved).await.expect("MongoDB is there") > 0
    })
    .await;
    let alone = now_ms();
    let quiet = if count < MANY { ms(500) } else { s(20) };
    tokio::time::sleep(quiet).await;
    let begun = now_ms();
    let (elapsed, report) = adopt_though_killed(&world, count).await;
    let adopted = now_ms();

    pay(&world, &ids, &mut holds, 1_000, "two-phase").await;
    pay(&world, &ids, &mut holds, 2_000, "transaction").await;
    assert_no_rule_is_broken(&world).await;
    let absorbed = absorb(&world).await;
    assert!(absorbed["booked"]["accounts"].as_u64() > Some(0), "{absorbed}");
    assert_no_rule_is_broken(&world).await;

    let undone = adopt(&world, &["--undo", "--yes", "--json"]).await.expect_success().json();
    assert_eq!(undone["accounts"]["written"], count, "{undone}");
    let again = adopt(&world, &["--json"]).await.expect_success().json();
    assert_eq!(again["accounts"]["written"], count, "{again}");
    pay(&world, &ids, &mut holds, 3_000, "two-phase").await;

    let told = program.stopped().await;
    told.added.iter().for_each(|(at, amount)| holds[*at] += amount);
    absorb(&world).await;
    let audit = world.producer(&["audit", "--at-rest"]).await;
    assert_eq!(audit.code, Some(0), "{}\n{}", audit.stdout, audit.stderr);
    assert_balances(&world, &holds).await;
    let (before, updates) = told.slowest(alone, begun);
    let (beside, _) = told.slowest(begun, adopted);
    eprintln!(
        "{count} accounts in {elapsed:.1?} though killed {KILLED} times, the last run {} s; again {} s; \
         undone {} s; the old program's slowest hundredth {before:.1?} without ({updates} updates), \
         {beside:.1?} beside",
        report["seconds"], again["seconds"], undone["seconds"]
    );
    world.finish().await;
}
