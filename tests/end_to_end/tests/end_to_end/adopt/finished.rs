//! `producer adopt --finish`: what an old processor has left in flight comes to its end.

use futures_util::TryStreamExt;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::Value;

use super::{adopt, everything, fill, score_of, user};
use crate::layouts::{SCHEMA, collection, one, world_of};

/// How much each transaction moves.
const VALUE: i64 = 7;
/// What each account holds before, unless it is said to be poor.
const HOLDS: i64 = 1_000;
/// After how many of its steps the old processor has died at most: one for the state, two postings,
/// one for the state, two marks.
const STEPS: usize = 6;

/// What is wrong with an account, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Sound,
    PayeeLocked,
    PayeeMissing,
    PayerPoor,
}

const CASES: [Case; 4] = [Case::Sound, Case::PayeeLocked, Case::PayeeMissing, Case::PayerPoor];

/// A transaction that the old processor has left after so many steps, and so many of its way back.
#[derive(Clone, Copy, Debug)]
struct Left {
    number: usize,
    case: Case,
    steps: usize,
    back: Option<usize>,
}

impl Left {
    /// Every point at which the old processor may have died.
    fn all() -> Vec<Left> {
        let mut all = Vec::new();
        for case in CASES {
            for steps in 1..=STEPS {
                let backs: &[_] = if (1..=3).contains(&steps) {
                    &[None, Some(1), Some(2), Some(3)]
                } else {
                    &[None]
                };
                for back in backs.iter().copied() {
                    all.push(Left { number: all.len(), case, steps, back });
                }
            }
        }
        all
    }

    fn ends(self) -> [ObjectId; 2] {
        [0, 1].map(|end| {
            let number = u64::try_from(2 * self.number + end + 1).expect("small").to_be_bytes();
            let mut bytes = [1; 12];
            bytes[4..].copy_from_slice(&number);
            ObjectId::from_bytes(bytes)
        })
    }

    fn held(self) -> [i64; 2] {
        [if self.case == Case::PayerPoor { VALUE - 1 } else { HOLDS }, HOLDS]
    }

    /// Numbers of each type: whole ones of a shell, of a driver, and doubles.
    fn typed(self, number: i64) -> Bson {
        match self.number % 3 {
            0 => Bson::Int32(i32::try_from(number).expect("small")),
            1 => Bson::Int64(number),
            _ => Bson::Double(number as f64),
        }
    }

    fn documents(self) -> (Vec<Document>, Document) {
        let (ends, held) = (self.ends(), self.held());
        let mut users: Vec<_> = [0, 1]
            .map(|end| {
                doc! {
                    "_id": ends[end], "state": "active",
                    "wallet": { "score": self.typed(held[end]), "color": "red" },
                }
            })
            .into();
        match self.case {
            Case::PayeeMissing => drop(users.pop()),
            Case::PayeeLocked => drop(users[1].insert("state", "locked")),
            Case::Sound | Case::PayerPoor => {}
        }
        let number = i32::try_from(self.number).expect("small");
        let payment = doc! {
            "_id": number, "from": ends[0], "to": ends[1], "score": self.typed(VALUE),
            "status": "initial", "lastModified": DateTime::from_millis(5),
        };
        (users, payment)
    }

    /// Runs the old processor until it dies. It looks at no floor and at no status.
    async fn old_processor(self, world: &World) {
        let number = Bson::Int32(i32::try_from(self.number).expect("small"));
        let (users, payments) = (collection(world, "user"), collection(world, "transaction"));
        let state = async |word: &str| {
            let set = doc! { "$set": { "status": word }, "$currentDate": { "lastModified": true } };
            payments.update_one(doc! { "_id": &number }, set).await.expect("MongoDB is there");
        };
        let post = async |end: usize, gives: i64| {
            let filter = doc! { "_id": self.ends()[end], "wallet.open": { "$ne": &number } };
            let update = doc! {
                "$inc": { "wallet.score": self.typed(gives) }, "$push": { "wallet.open": &number },
            };
            users.update_one(filter, update).await.expect("MongoDB is there");
        };
        let pull = async |end: usize, gives: i64| {
            let filter = doc! { "_id": self.ends()[end], "wallet.open": &number };
            let update = doc! {
                "$inc": { "wallet.score": self.typed(gives) }, "$pull": { "wallet.open": &number },
            };
            users.update_one(filter, update).await.expect("MongoDB is there");
        };
        for step in 0..self.steps {
            match step {
                0 => state("pending").await,
                1 => post(0, -VALUE).await,
                2 => post(1, VALUE).await,
                3 => state("committed").await,
                4 => pull(0, 0).await,
                _ => pull(1, 0).await,
            }
        }
        for step in 0..self.back.unwrap_or(0) {
            match step {
                0 => state("canceling").await,
                1 => pull(1, -VALUE).await,
                _ => pull(0, VALUE).await,
            }
        }
    }

    /// Whether it comes to `done`: what is applied does, and what is pending if both accounts take
    /// it that were not posted to yet.
    fn is_done(self) -> bool {
        let takes = match self.case {
            Case::Sound => true,
            Case::PayerPoor => self.steps > 1,
            Case::PayeeMissing => false,
            Case::PayeeLocked => self.steps > 2,
        };
        self.steps > 3 || (self.back.is_none() && takes)
    }

    async fn assert_ended(self, world: &World) {
        let number = i32::try_from(self.number).expect("small");
        let payment = one(world, "transaction", doc! { "_id": number }).await;
        let expected = if self.is_done() { "done" } else { "canceled" };
        assert_eq!(payment.get_str("status").ok(), Some(expected), "{self:?}: {payment}");
        let own = payment.get_document("tandem").expect("it is dated");
        assert_eq!(own.get_bool("endedByOthers").ok(), Some(true), "{self:?}: {payment}");
        let moved = if self.is_done() { VALUE } else { 0 };
        let (ends, held) = (self.ends(), self.held());
        for (end, expected) in [(0, held[0] - moved), (1, held[1] + moved)] {
            if (end, self.case) == (1, Case::PayeeMissing) {
                continue;
            }
            let user = one(world, "user", doc! { "_id": ends[end] }).await;
            assert_eq!(score_of(&user), expected, "{self:?}: {user}");
            let wallet = user.get_document("wallet").expect("an object");
            let marks = wallet.get_array("open").map(Vec::len).unwrap_or_default();
            assert_eq!(marks, 0, "{self:?}: {user}");
        }
    }
}

/// A collection as an old processor has left it, at every point at which it may have died.
async fn left_behind(world: &World) -> Vec<Left> {
    let all = Left::all();
    let (users, payments): (Vec<_>, Vec<_>) = all.iter().map(|left| left.documents()).unzip();
    fill(world, "user", users.into_iter().flatten().collect()).await;
    fill(world, "transaction", payments).await;
    for left in &all {
        left.old_processor(world).await;
    }
    all
}

async fn in_flight(world: &World) -> u64 {
    let words = ["pending", "committed", "canceling"];
    let filter = doc! { "status": { "$in": words.to_vec() } };
    collection(world, "transaction").count_documents(filter).await.expect("MongoDB is there")
}

/// Ends all of it while it is killed again and again.
async fn finish_though_killed(world: &World, all: &[Left]) {
    let count = all.len() as u64;
    for killed in 1..=5 {
        let flags = ["adopt", "--watch", "0", "--finish", "--piece", "3"];
        let mut finishing = world.spawn_producer(&flags, &[]);
        let enough = count - killed * count / 8;
        wait_until("some have ended", s(60), async || in_flight(world).await <= enough).await;
        finishing.kill();
    }
    assert!(in_flight(world).await > 0, "it was killed before its end");
}

/// The old processor has let the poor pay, too: these accounts are left until they may have so
/// little.
async fn lower_floors(world: &World, all: &[Left], report: &Value) {
    let is_below = |left: &&Left| left.case == Case::PayerPoor && left.is_done();
    let below: Vec<_> = all.iter().filter(is_below).map(|left| left.ends()[0]).collect();
    assert_eq!(report["accounts"]["left"], below.len(), "{report}");
    assert_eq!(report["accounts"]["reasons"][0]["code"], "below_floor", "{report}");
    let none = doc! { "$set": { "tandem.floor": Bson::Null } };
    let of_these = doc! { "_id": { "$in": below } };
    collection(world, "user").update_many(of_these, none).await.expect("MongoDB is there");
    adopt(world, &[]).await.expect_success();
}

#[tokio::test]
async fn each_transaction_comes_to_its_end_wherever_the_old_processor_died_and_finishing_is_killed()
{
    for is_adopted in [false, true] {
        let world = world_of(SCHEMA).await;
        let all = left_behind(&world).await;
        if is_adopted {
            let left = adopt(&world, &["--json"]).await;
            assert_eq!(left.code, Some(1), "{}", left.stderr);
            assert_eq!(in_flight(&world).await, all.len() as u64);
        }
        finish_though_killed(&world, &all).await;
        // Two at the same time: none of their steps is taken twice.
        let finish = async || adopt(&world, &["--finish", "--json"]).await.json();
        for report in <[Value; 2]>::from(tokio::join!(finish(), finish())) {
            assert_eq!(report["finished"]["left"], 0, "{report}");
        }
        let report = adopt(&world, &["--json"]).await.json();
        for left in &all {
            left.assert_ended(&world).await;
        }
        lower_floors(&world, &all, &report).await;
        let before = everything(&world).await;
        let again = adopt(&world, &["--finish"]).await.expect_success();
        assert!(again.stdout.contains("0 brought to done, 0 taken back, 0 left"), "{again:?}");
        assert_eq!(everything(&world).await, before);
        let audit = world.producer(&["audit", "--at-rest"]).await;
        assert_eq!(audit.code, Some(0), "{is_adopted}: {}\n{}", audit.stdout, audit.stderr);
        assert!(!audit.stdout.contains("unexplained"), "{is_adopted}: {}", audit.stdout);
        world.finish().await;
    }
}

#[tokio::test]
async fn what_cannot_be_ended_is_left_as_it_is_and_says_why() {
    let world = world_of(SCHEMA).await;
    let ids: Vec<_> = (1..=4).map(|at| ObjectId::from_bytes([at; 12])).collect();
    let mut users = vec![user(1, 1_000), user(2, 3), user(3, "12"), user(4, 1_000)];
    // It has spent what it was paid, so nothing can be taken back from it.
    users[1].get_document_mut("wallet").expect("an object").insert("open", vec![1]);
    fill(&world, "user", users).await;
    let gone = ObjectId::from_bytes([9; 12]);
    let payment = |id: i32, from: ObjectId, to: ObjectId, score: Bson| {
        doc! { "_id": id, "from": from, "to": to, "score": score, "status": "pending" }
    };
    let payments = vec![
        payment(1, gone, ids[1], 5.into()),
        payment(2, ids[0], ids[2], 5.into()),
        payment(3, ids[0], ids[3], Bson::Double(-5.0)),
        payment(4, ids[0], ids[0], 5.into()),
    ];
    fill(&world, "transaction", payments.clone()).await;
    let answer = adopt(&world, &["--finish", "--json"]).await;
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let report = answer.json();
    let reasons = report["finished"]["reasons"].as_array().expect("a list").clone();
    let told = |code: &str| {
        let reason = reasons.iter().find(|reason| reason["code"] == code).expect("it is named");
        let samples = reason["samples"].as_array().expect("a list").iter();
        samples.map(|sample| format!("{} {}", sample["id"], sample["path"])).collect::<Vec<_>>()
    };
    assert_eq!(told("below_floor"), [r#""1" "wallet.score""#], "{report}");
    assert_eq!(told("numeric_text"), [r#""2" "wallet.score""#], "{report}");
    assert_eq!(told("not_readable"), [r#""3" "score""#, r#""4" "to""#], "{report}");
    let found = collection(&world, "transaction").find(doc! {}).sort(doc! { "_id": 1 }).await;
    let found: Vec<_> = found.expect("there").try_collect().await.expect("MongoDB is there");
    assert_eq!(found, payments);
    let paid = one(&world, "user", doc! { "_id": ids[0] }).await;
    assert_eq!(score_of(&paid), 1_000, "{paid}");
    world.finish().await;
}

#[tokio::test]
async fn it_is_refused_while_a_worker_runs_and_changes_nothing() {
    let world = world_of(SCHEMA).await;
    let worker = world.worker("one").start().await;
    let workers = collection(&world, "tandem.workers");
    wait_until("it says that it is there", s(30), async || {
        workers.count_documents(doc! {}).await.expect("MongoDB is there") == 1
    })
    .await;
    // It stands still before there is anything to sweep, so whatever changes is the command's. What
    // it has said counts for long enough on a busy machine.
    worker.freeze().await;
    let seen = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
    let seen = workers.update_one(doc! {}, doc! { "$set": { "seenAt": seen } }).await;
    assert_eq!(seen.expect("MongoDB is there").modified_count, 1);
    left_behind(&world).await;
    let before = in_flight(&world).await;
    let refused = adopt(&world, &["--finish"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("a worker of Tandem is at work"), "{}", refused.stderr);
    assert_eq!(in_flight(&world).await, before);
    drop(worker);
    world.finish().await;
}
