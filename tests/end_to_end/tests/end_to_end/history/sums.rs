//! Sums: a statement says the same with and without them, and an audit names those that are wrong.

use std::collections::BTreeMap;

use audit::Options;
use client::{Client, Period};
use futures_util::TryStreamExt;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::ServerMs;
use ledger::amount::Amount;
use mongo::{JOURNAL, SETTLED_MS, SUMS};
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::super::ownership::change;
use super::{insert_lines, world_with_history};

const YEAR_MS: i64 = 365 * 86_400_000;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 16) % below
    }
}

/// A line that books amounts on accounts, as it is stored.
fn line(id: &str, at: ServerMs, booked: &BTreeMap<String, i64>) -> Document {
    let entry: Vec<Bson> = std::iter::once(Bson::from(id))
        .chain(
            (0..)
                .zip(booked.values())
                .flat_map(|(place, amount): (i32, _)| [Bson::from(place), Bson::from(*amount)]),
        )
        .collect();
    doc! {
        "_id": id, "kind": "tandem-line", "at": DateTime::from_millis(at), "application": "w",
        "accounts": booked.keys().collect::<Vec<_>>(),
        "nets": booked.values().copied().collect::<Vec<_>>(),
        "done": [entry], "canceled": [],
    }
}

/// The names of 700 accounts: more than one document of sums has.
fn account(n: u64) -> String {
    format!("a{n:03}")
}

/// Lines of a year, most of them close to others, the last ones of this moment; by their moments.
fn lines(now: ServerMs) -> Vec<(ServerMs, BTreeMap<String, i64>)> {
    let (mut numbers, mut all) = (Numbers(7), Vec::new());
    for group in 0..20 {
        let at = match group {
            0 => now - 60_000,
            _ => now - numbers.next(YEAR_MS.cast_unsigned()).cast_signed(),
        };
        for _ in 0..20 {
            let count = if numbers.next(9) == 0 { 400 } else { 5 };
            let booked = (0..count)
                .map(|_| (account(numbers.next(700)), numbers.next(2_000).cast_signed() - 1_000));
            let booked = booked.collect();
            all.push((at - numbers.next(300_000).cast_signed(), booked));
        }
    }
    all
}

async fn opening(client: &Client, account: &str, from: ServerMs) -> Amount {
    let from = Some(DateTime::from_millis(from).to_system_time());
    let period = Period { from, to: None };
    client.statement(account, &period, 1, None).await.expect("a page").opening
}

/// Sums up until nothing is left; three at once, as workers do.
async fn sum_up(world: &World) {
    loop {
        let [one, two, three] = [(); 3].map(|()| world.store.sum_up(SETTLED_MS));
        let (one, two, three) = tokio::join!(one, two, three);
        let all = [one, two, three].map(|summed| summed.expect("MongoDB is there"));
        if all.iter().all(|summed| summed.pieces == 0) {
            return;
        }
    }
}

async fn sums(world: &World, filter: Document) -> Vec<Document> {
    let sums = world.store.database().collection::<Document>(SUMS);
    let found = sums.find(filter).sort(doc! { "_id": 1 }).await.expect("MongoDB is there");
    found.try_collect().await.expect("MongoDB is there")
}

/// What an audit says of sums. Nobody has moved the balances of these tests.
async fn named(world: &World) -> Vec<String> {
    let options = Options { violations_max: 1_000_000, ..Options::default() };
    let report = audit::run(&world.client().await, options, |_, _| {}).await;
    let report = report.expect("it comes to its end");
    let of_sums = report.violations.iter().filter(|one| one.document.starts_with("tandem.sums/"));
    of_sums.map(ToString::to_string).collect()
}

/// A ledger with lines of a year, and moments to ask for.
struct Year {
    world: World,
    client: Client,
    lines: Vec<(ServerMs, BTreeMap<String, i64>)>,
    /// Accounts, each with a moment.
    asked: Vec<(String, ServerMs)>,
}

impl Year {
    async fn new() -> Year {
        let world = world_with_history().await;
        let names: Vec<String> = (0..700).map(account).collect();
        world.accounts(&names.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>()).await;
        let now = world.store.server_now().await.expect("MongoDB is there");
        let lines = lines(now);
        let numbered = (0..).zip(&lines);
        let documents: Vec<Document> =
            numbered.map(|(n, (at, booked))| line(&format!("l{n}"), *at, booked)).collect();
        insert_lines(&world, &documents).await;
        let mut numbers = Numbers(11);
        let mut asked: Vec<(String, ServerMs)> = (0..15)
            .map(|_| {
                let at = now - numbers.next(YEAR_MS.cast_unsigned()).cast_signed();
                (account(numbers.next(700)), at)
            })
            .collect();
        // Moments of lines, and those beside them.
        let moments = lines.iter().step_by(100).flat_map(|(at, _)| [at - 1, *at, at + 1]);
        asked.extend(moments.map(|at| (account(numbers.next(700)), at)));
        Year { client: world.client().await, world, lines, asked }
    }

    fn expected(&self, account: &str, from: ServerMs) -> i64 {
        let before = self.lines.iter().filter(|(at, _)| *at < from);
        before.filter_map(|(_, booked)| booked.get(account)).sum()
    }

    /// Asserts that statements say what the lines say.
    async fn agrees(&self) {
        for (account, from) in &self.asked {
            let expected = Amount::Int(self.expected(account, *from));
            assert_eq!(opening(&self.client, account, *from).await, expected, "{account} {from}");
        }
    }
}

#[tokio::test]
async fn the_sum_before_a_moment_is_the_same_from_sums_as_from_lines() {
    let year = Year::new().await;
    let world = &year.world;
    // Before, in between and after.
    let (mut rounds, mut is_behind) = (0, true);
    while is_behind {
        if rounds % 4 == 0 {
            year.agrees().await;
        }
        is_behind = world.store.sum_up(SETTLED_MS).await.expect("MongoDB is there").pieces > 0;
        rounds += 1;
    }
    year.agrees().await;
    assert!(rounds > 3, "{rounds} rounds");
    let highest = sums(world, doc! { "level": 5_i64 }).await;
    assert!(highest.len() > 7, "{} sums of the highest level", highest.len());
    let of = |sum: &Document| sum.get_datetime("from").expect("a date").timestamp_millis();
    assert!(highest.windows(2).any(|pair| of(&pair[0]) == of(&pair[1])), "all accounts in one");
    // Nothing that may still change is summed up.
    let lowest = sums(world, doc! { "level": 1_i64 }).await;
    let later = world.store.server_now().await.expect("MongoDB is there");
    assert!(lowest.iter().all(|sum| of(sum) + 8_000 <= later - SETTLED_MS));
    assert_eq!(named(world).await, [""; 0]);
    year.world.finish().await;
}

#[tokio::test]
async fn a_statement_reads_few_documents_by_the_indexes_however_many_lines_there_are() {
    let year = Year::new().await;
    let world = &year.world;
    sum_up(world).await;
    change(world, doc! { "profile": 2, "slowms": 0 }).await;
    for (account, from) in year.asked.iter().take(5) {
        opening(&year.client, account, *from).await;
    }
    change(world, doc! { "profile": 0 }).await;
    let reads = world.store.database().collection::<Document>("system.profile");
    let reads = reads.find(doc! { "command.comment": "tandem statement sum" }).await;
    let reads: Vec<Document> =
        reads.expect("MongoDB is there").try_collect().await.expect("MongoDB is there");
    assert!(reads.len() >= 20, "{} reads", reads.len());
    for read in reads {
        let (plan, examined) = (read.get_str("planSummary"), read.get_i32("docsExamined"));
        let is_by_index =
            plan.is_ok_and(|plan| ["IDHACK", "IXSCAN"].iter().any(|by| plan.starts_with(by)));
        let is_small = examined.is_ok_and(|examined| examined < 150);
        let keys = read.get_i32("keysExamined").expect("a count");
        assert!(is_by_index && is_small && keys < 300, "{read}");
    }
    year.world.finish().await;
}

/// The sums of each life, without what only says whose they are.
async fn of_lives(world: &World) -> BTreeMap<String, Vec<Document>> {
    let mut lives: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for mut sum in sums(world, doc! { "level": { "$exists": true } }).await {
        let life = sum.get_str("life").expect("a text").to_owned();
        assert!(sum.remove("_id").is_some() && sum.remove("life").is_some());
        lives.entry(life).or_default().push(sum);
    }
    lives
}

#[tokio::test]
async fn sums_of_an_earlier_life_are_never_read_again_whatever_they_say() {
    let year = Year::new().await;
    let world = &year.world;
    sum_up(world).await;
    let before = sums(world, doc! { "level": { "$exists": true } }).await;
    let collection = world.store.database().collection::<Document>(SUMS);
    let first = of_lives(world).await;
    collection.delete_one(doc! { "_id": "reach" }).await.expect("MongoDB is there");
    year.agrees().await;
    let wrong = vec![doc! { "$set": { "nets": { "$map": { "input": "$nets", "in": 7_i64 } } } }];
    collection.update_many(doc! { "level": 1_i64 }, wrong).await.expect("MongoDB is there");
    // Several at once write the same.
    sum_up(world).await;
    year.agrees().await;
    assert_eq!(named(world).await, [""; 0]);
    let (was, lives) = (first.into_values().next().expect("a life"), of_lives(world).await);
    assert_eq!((lives.len(), before.len()), (2, was.len()));
    // Meanwhile more lines have settled.
    let has_all = |sums: &Vec<Document>| was.iter().all(|sum| sums.contains(sum));
    assert!(lives.values().any(has_all), "the same lines, the same sums");
    year.world.finish().await;
}

/// A ledger with two accounts, and lines of these moments before now that each pay 7 from one to
/// the other; with the moment of now.
async fn two_accounts(before_ms: impl Iterator<Item = i64>) -> (World, ServerMs) {
    let world = world_with_history().await;
    world.accounts(&[("a", 0), ("b", 0)]).await;
    let now = world.store.server_now().await.expect("MongoDB is there");
    let booked = BTreeMap::from([("a".to_owned(), -7), ("b".to_owned(), 7)]);
    let lines: Vec<Document> =
        (0..).zip(before_ms).map(|(n, ms)| line(&format!("l{n}"), now - ms, &booked)).collect();
    insert_lines(&world, &lines).await;
    (world, now)
}

#[tokio::test]
async fn a_worker_sums_up_and_an_audit_names_each_sum_that_is_wrong() {
    let (world, now) = two_accounts((0..50).map(|n| 3_600_000 + n * 60_000)).await;
    let worker = world.worker("one").start().await;
    let is_summed = async || !sums(&world, doc! { "level": 3_i64 }).await.is_empty();
    wait_until("a worker has summed up", s(60), is_summed).await;
    drop(worker);
    sum_up(&world).await;
    let client = world.client().await;
    assert_eq!(opening(&client, "a", now - 60_000).await, Amount::Int(-350));
    assert_eq!(named(&world).await, [""; 0]);

    let all = world.store.database().collection::<Document>(SUMS);
    for level in 1..=3_i64 {
        let wrong = sums(&world, doc! { "level": level }).await.swap_remove(0);
        let id = wrong.get("_id").expect("an _id");
        let changes =
            [doc! { "$set": { "nets.0": -6_i64 } }, doc! { "$set": { "accounts.0": "0" } }];
        for changed in changes {
            all.update_one(doc! { "_id": id }, changed).await.expect("MongoDB is there");
            let named = named(&world).await;
            let place = format!("tandem.sums/level {level} from ");
            assert_eq!(named.len(), 1, "{named:?}");
            assert!(named[0].starts_with(&place) && named[0].ends_with("(rule 11)"), "{named:?}");
        }
        all.delete_one(doc! { "_id": id }).await.expect("MongoDB is there");
        assert_eq!(named(&world).await.len(), 1, "it is missing");
        all.insert_one(&wrong).await.expect("MongoDB is there");
        assert_eq!(named(&world).await, [""; 0]);
    }
    // A statement reads them: it says what the highest one says.
    let mut highest = Vec::new();
    for level in 1..=5_i64 {
        let of_level = sums(&world, doc! { "level": level }).await;
        highest = if of_level.is_empty() { highest } else { of_level };
    }
    let highest = highest.swap_remove(0);
    let id = highest.get("_id").expect("an _id");
    let was = highest.get_array("nets").expect("a list")[0].as_i64().expect("a number");
    let wrong = doc! { "$set": { "nets.0": -6_i64 } };
    all.update_one(doc! { "_id": id }, wrong).await.expect("MongoDB is there");
    assert_eq!(opening(&client, "a", now - 60_000).await, Amount::Int(-350 - was - 6));

    // What the finding says to do helps.
    let said = named(&world).await.pop().expect("a finding");
    assert!(said.contains("deleteOne({_id: \"reach\"})"), "{said}");
    all.delete_one(doc! { "_id": "reach" }).await.expect("MongoDB is there");
    let worker = world.worker("two").start().await;
    let life = highest.get_str("life").expect("a text");
    wait_until("a worker has summed up anew", s(60), async || {
        !sums(&world, doc! { "level": 3_i64, "life": { "$ne": life } }).await.is_empty()
    })
    .await;
    drop(worker);
    assert_eq!(opening(&client, "a", now - 60_000).await, Amount::Int(-350));
    assert_eq!(named(&world).await, [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_line_that_makes_no_sense_ends_the_summing_before_it_and_a_statement_names_it() {
    let before_ms = |n: i64| 7_200_000 - n * 60_000;
    let (world, now) = two_accounts((0..10).map(before_ms)).await;
    let at = |n| now - before_ms(n);
    change(
        &world,
        doc! { "update": JOURNAL, "updates": [
            { "q": { "_id": "l5" }, "u": { "$set": { "nets": ["-7", 7_i64] } } },
        ] },
    )
    .await;
    let error = world.store.sum_up(SETTLED_MS).await.expect_err("it can't be summed up");
    assert!(error.to_string().contains("the line l5 of the journal"), "{error}");
    let reach = sums(&world, doc! { "_id": "reach" }).await.pop().expect("it reaches so far");
    let reach = reach.get_datetime("level1").expect("a date").timestamp_millis();
    assert!((at(4)..=at(5)).contains(&reach), "{reach}");
    let client = world.client().await;
    assert_eq!(opening(&client, "a", at(3)).await, Amount::Int(-21));
    let from = Some(DateTime::from_millis(now - 60_000).to_system_time());
    let refused = client.statement("a", &Period { from, to: None }, 1, None).await;
    let refused = refused.expect_err("a line makes no sense").to_string();
    assert!(refused.contains("tandem.journal/l5"), "{refused}");
    assert_eq!(named(&world).await, [""; 0]);
    world.finish().await;
}
