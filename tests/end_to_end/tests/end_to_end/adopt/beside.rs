//! `producer adopt` beside programs that write: those that may go on, and those that may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use rand::Rng;
use tokio::task::JoinHandle;

use super::{adopt, everything, fill, openings, score_of, user};
use crate::layouts::{SCHEMA, collection, world_of};

/// How many accounts there are.
const COUNT: usize = 400;

/// A program that adds to balances, and knows what it has added to each account.
struct OldWriter {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<i64>>,
}

impl OldWriter {
    fn start(users: Collection<Document>, ids: Vec<ObjectId>) -> OldWriter {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut added = vec![0; ids.len()];
            while !stopped.load(Ordering::Relaxed) {
                let (at, amount) = {
                    let mut random = rand::rng();
                    (random.random_range(0..ids.len()), random.random_range(-3..=9_i32))
                };
                // Nobody can add to a text.
                if at % 4 == 2 {
                    continue;
                }
                let typed = match amount.rem_euclid(3) {
                    0 => Bson::from(amount),
                    1 => Bson::from(i64::from(amount)),
                    _ => Bson::from(f64::from(amount)),
                };
                let paid = doc! { "$inc": { "wallet.score": typed } };
                let paid = users.update_one(doc! { "_id": ids[at] }, paid).await;
                assert_eq!(paid.expect("MongoDB is there").matched_count, 1);
                added[at] += i64::from(amount);
            }
            added
        });
        OldWriter { stop, task }
    }

    async fn stopped(self) -> Vec<i64> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("it never panics")
    }
}

/// Accounts of numbers of each kind, and what each of them holds.
async fn accounts(world: &World) -> (Vec<ObjectId>, Vec<i64>) {
    let ids: Vec<ObjectId> = (0..COUNT).map(|_| ObjectId::new()).collect();
    let holds: Vec<i64> =
        (0..COUNT).map(|at| if at % 4 == 3 { 0 } else { 1_000_000 + at as i64 }).collect();
    let user = |at: usize| {
        let wallet = match at % 4 {
            0 => doc! { "score": holds[at] as i32, "color": "red" },
            1 => doc! { "score": holds[at] as f64 },
            2 => doc! { "score": holds[at].to_string() },
            _ => doc! { "color": "blue" },
        };
        doc! { "_id": ids[at], "wallet": wallet, "tandem": { "floor": Bson::Null } }
    };
    fill(world, "user", (0..COUNT).map(user).collect()).await;
    (ids, holds)
}

/// What each account holds now, by its order.
async fn balances(world: &World, ids: &[ObjectId]) -> Vec<i64> {
    let found = collection(world, "user").find(doc! {}).await.expect("MongoDB is there");
    let found: Vec<Document> = found.try_collect().await.expect("MongoDB is there");
    let holds = |id: &ObjectId| {
        let user = found.iter().find(|user| user.get_object_id("_id").ok() == Some(*id));
        score_of(user.expect("it is there"))
    };
    ids.iter().map(holds).collect()
}

/// Payments between accounts, as the owner's own producer inserts them; what they move is added to
/// `holds`.
pub(super) async fn pay(
    world: &World,
    ids: &[ObjectId],
    holds: &mut [i64],
    from: i64,
    engine: &str,
) {
    let mut payments = Vec::new();
    for at in 0..60_usize {
        let (source, destination) = (at % ids.len(), (at * 7 + 1) % ids.len());
        let value = at as i64 + 1;
        holds[source] -= value;
        holds[destination] += value;
        payments.push(doc! {
            "_id": from + at as i64, "from": ids[source], "to": ids[destination],
            "score": value, "status": "initial",
        });
    }
    fill(world, "transaction", payments).await;
    let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
    let mut worker = worker.flag("--orphan-ms", 500).start().await;
    wait_until("all are paid", s(60), async || {
        let paid = doc! { "_id": { "$gte": from }, "status": "done" };
        collection(world, "transaction").count_documents(paid).await.expect("there") == 60
    })
    .await;
    let refused = adopt(world, &["--undo", "--yes"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("a worker of Tandem is at work"), "{}", refused.stderr);
    let refused = adopt(world, &["--places", "2"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    worker.drain(s(30)).await;
    // Its last word may be lost on a busy machine; then it counts as there for ten seconds.
    wait_until("no worker is seen", s(20), async || {
        let since = DateTime::from_millis(DateTime::now().timestamp_millis() - mongo::SILENT_MS);
        let here = doc! { "activity": { "$ne": "stopped" }, "seenAt": { "$gt": since } };
        let workers = collection(world, "tandem.workers").count_documents(here).await;
        workers.expect("MongoDB is there") == 0
    })
    .await;
}

async fn assert_sound(world: &World) {
    let audit = world.producer(&["audit", "--at-rest"]).await;
    assert_eq!(audit.code, Some(0), "{}\n{}", audit.stdout, audit.stderr);
}

/// Goes back, and sees that balances and what the schema names are as they were.
async fn go_back(world: &World, ids: &[ObjectId], holds: &[i64]) {
    let report = adopt(world, &["--undo", "--yes", "--json"]).await.expect_success().json();
    assert_eq!(report["accounts"]["written"], COUNT, "{report}");
    assert_eq!(balances(world, ids).await, holds);
    let kept = doc! { "tandem": { "floor": null } };
    let users = collection(world, "user");
    let own = ["openingBalance", "pendingHolds"]
        .map(|name| doc! { format!("tandem.{name}"): { "$exists": true } });
    let own = users.count_documents(doc! { "$or": own.to_vec() }).await.expect("MongoDB is there");
    let floors = users.count_documents(doc! { "tandem.floor": { "$type": "null" } }).await;
    assert_eq!((own, floors.expect("there")), (0, COUNT as u64), "{kept}");
    let own = doc! { "tandem": { "$exists": true } };
    let own = collection(world, "transaction").count_documents(own).await;
    assert_eq!(own.expect("MongoDB is there"), 0);
    for own in ["tandem.journal", "tandem.order"] {
        let left = collection(world, own).count_documents(doc! {}).await;
        assert_eq!(left.expect("MongoDB is there"), 0, "{own}");
    }
}

#[tokio::test]
async fn balances_stay_exact_while_an_old_writer_adds_to_them_and_through_the_way_back() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(SCHEMA).await;
        let (ids, mut holds) = accounts(&world).await;
        let writer = OldWriter::start(collection(&world, "user"), ids.clone());
        for killed in 1..=3_u64 {
            let flags = ["adopt", "--watch", "0", "--piece", "50", "--rate", "60"];
            let mut adopting = world.spawn_producer(&flags, &[]);
            let enough = killed * 60;
            wait_until("some are adopted", s(30), async || openings(&world).await >= enough).await;
            adopting.kill();
        }
        assert!(openings(&world).await < COUNT as u64);
        let report = adopt(&world, &["--watch", "1", "--json"]).await.expect_success().json();
        assert_eq!(openings(&world).await, COUNT as u64, "{report}");
        assert!(report["moved"]["balances"].as_u64() > Some(0), "the writer is at work: {report}");
        let added = writer.stopped().await;
        holds.iter_mut().zip(&added).for_each(|(holds, added)| *holds += added);
        assert_eq!(balances(&world, &ids).await, holds, "{engine}");

        // What the writer has added since the openings is not in them: go back, and adopt anew.
        go_back(&world, &ids, &holds).await;
        let report = adopt(&world, &["--json"]).await.expect_success().json();
        assert_eq!(report["accounts"]["written"], COUNT, "{report}");
        assert_sound(&world).await;
        pay(&world, &ids, &mut holds, 1_000, engine).await;
        assert_eq!(balances(&world, &ids).await, holds, "{engine}");
        assert_sound(&world).await;

        go_back(&world, &ids, &holds).await;
        assert_sound(&world).await;
        let report = adopt(&world, &["--json"]).await.expect_success().json();
        assert_eq!(report["transactions"]["written"], 60, "{report}");
        assert_sound(&world).await;
        pay(&world, &ids, &mut holds, 2_000, engine).await;
        assert_eq!(balances(&world, &ids).await, holds, "{engine}");
        assert_sound(&world).await;
        world.finish().await;
    }
}

#[tokio::test]
async fn an_old_processor_at_work_is_a_refusal_before_anything_is_written() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5)]).await;
    let from = ObjectId::from_bytes([1; 12]);
    fill(&world, "transaction", vec![doc! { "_id": 1, "from": from, "status": "initial" }]).await;
    let moves = [
        (
            "transaction",
            doc! { "$set": { "status": "pending" } },
            doc! { "$set": { "status": "initial" } },
        ),
        ("user", doc! { "$push": { "wallet.open": 1 } }, doc! { "$set": { "wallet.open": [] } }),
    ];
    for (name, there, back) in moves {
        let moved = collection(&world, name);
        let old = tokio::spawn(async move {
            for at in 0.. {
                let update = if at % 2 == 0 { there.clone() } else { back.clone() };
                moved.update_one(doc! {}, update).await.expect("MongoDB is there");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let refused = adopt(&world, &["--watch", "6"]).await;
        old.abort();
        assert_eq!(refused.code, Some(1), "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains("an old processor is at work"), "{}", refused.stderr);
        assert_eq!(openings(&world).await, 0, "{name}");
    }
    let users = collection(&world, "user");
    let replacing = tokio::spawn(async move {
        for at in 0.. {
            let whole = doc! { "wallet": { "score": at }, "state": "active" };
            users.replace_one(doc! {}, whole).await.expect("MongoDB is there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let refused = adopt(&world, &["--watch", "6"]).await;
    replacing.abort();
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("were replaced whole"), "{}", refused.stderr);
    assert_eq!(openings(&world).await, 0);
    world.finish().await;
}

#[tokio::test]
async fn a_look_after_the_watch_says_what_it_could_not_see() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5)]).await;
    adopt(&world, &["--watch", "1"]).await.expect_success();
    let all = everything(&world).await;
    adopt(&world, &["--watch", "1"]).await.expect_success();
    assert_eq!(everything(&world).await, all);
    world.finish().await;
}
