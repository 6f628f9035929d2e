//! What the ledger keeps of the past: whether it has the indexes, that queries use them, and what
//! the command line tells. [`lists`] and [`statements`] are about the pages, [`ends`] about what is
//! looked for, [`exports`] about files, [`lines`] about what stands in the journal, [`sums`] about
//! what was booked before a moment.

mod ends;
mod exports;
mod lines;
mod lists;
mod statements;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use client::{Error, Period, StatementOrder, TransactionFilter};
use futures_util::TryStreamExt;
use harness::wait::s;
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::transaction::{Body, State, TransactionId};
use mongo::{Choice, JOURNAL, ParkedFilter, SUMS};
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc};

use super::ownership::{change, empty_world, init, missing};

/// The indexes of a ledger with history, and their collections.
const INDEXES: [(&str, &str); 3] =
    [(JOURNAL, "by_account"), (JOURNAL, "by_time"), (SUMS, "by_account")];

pub(crate) async fn world_with_history() -> World {
    let world = World::new().await;
    let on = Choice { history: Some(true), ..Choice::default() };
    world.store.apply_schema(on).await.expect("MongoDB is there");
    world
}

fn by_account(account: &str) -> TransactionFilter {
    TransactionFilter { account: Some(account.to_owned()), ..TransactionFilter::default() }
}

fn in_states(states: &[State]) -> TransactionFilter {
    TransactionFilter { states: states.to_vec(), ..TransactionFilter::default() }
}

/// So many milliseconds from now, by the clock of this machine, which is the servers', too.
fn from_now(milliseconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + milliseconds)
}

/// A transaction in a state, as workers leave it, of this moment.
fn stored((id, body): &(TransactionId, Body), state: State, at: DateTime) -> Document {
    let mut document = body.to_document(id, at);
    document.insert("state", state);
    if State::IN_FLIGHT.contains(&state) {
        document.insert("takeoverAt", from_now(3_600_000));
    }
    if state.is_resting() {
        document.insert("dueAt", from_now(3_600_000));
    }
    document
}

/// A transfer from `a` to `c` that was refused at this moment.
fn refused(id: &str, at: DateTime) -> Document {
    let mut document = stored(&transfer(id, "a", "c", 1), State::Canceled, at);
    document.insert("reason", doc! { "code": "insufficient_funds", "message": "too little" });
    document
}

/// Inserts transactions, and for those that have ended the lines that workers write with them: one
/// for each moment.
async fn insert(world: &World, documents: Vec<Document>) {
    let mut ended = BTreeMap::<DateTime, Vec<&Document>>::new();
    let is_final = |state: &str| State::parse(state).is_some_and(State::is_final);
    for one in documents.iter().filter(|one| one.get_str("state").is_ok_and(is_final)) {
        ended.entry(*one.get_datetime("lastModified").expect("a date")).or_default().push(one);
    }
    let name = || uuid::Uuid::new_v4().to_string();
    let lines: Vec<Document> =
        ended.iter().map(|(at, ended)| line(&name(), *at, ended.iter().copied())).collect();
    let inserted = world.store.transactions().insert_many(&documents).await;
    inserted.expect("transactions can be inserted");
    if !lines.is_empty() {
        insert_lines(world, &lines).await;
    }
}

async fn insert_lines(world: &World, lines: &[Document]) {
    let journal = world.store.database().collection::<Document>(JOURNAL);
    journal.insert_many(lines).await.expect("lines can be inserted");
}

/// The line of transactions that have ended together.
fn line<'a>(id: &str, at: DateTime, ended: impl Iterator<Item = &'a Document>) -> Document {
    let ended: Vec<(&Document, Body)> =
        ended.map(|one| (one, Body::from_document(one).expect("it is valid"))).collect();
    let is_in = |one: &Document, state: &str| one.get_str("state").is_ok_and(|is| is == state);
    let mut nets = BTreeMap::<&str, i128>::new();
    for (one, body) in &ended {
        let is_done = is_in(one, "done");
        for leg in body.effect() {
            let booked = if is_done { leg.amount.nanos() } else { 0 };
            *nets.entry(&leg.account).or_default() += booked;
        }
    }
    let place = |account: &str| nets.keys().position(|name| *name == account).expect("named");
    let entry = |(one, body): &(&Document, Body), state: &str| -> Option<Bson> {
        let id = is_in(one, state).then(|| one.get_str("_id").expect("an id"))?;
        let mut entry = vec![Bson::from(id)];
        for leg in body.effect() {
            entry.push(i32::try_from(place(&leg.account)).expect("few").into());
            entry.extend((state == "done").then(|| Bson::from(leg.amount)));
        }
        Some(entry.into())
    };
    let entries =
        |state| -> Vec<Bson> { ended.iter().filter_map(|ended| entry(ended, state)).collect() };
    let net = |nanos: &i128| match Amount::from_nanos(*nanos, true) {
        Some(net) => Bson::from(net),
        None => {
            let whole = (nanos / 1_000_000_000).to_string();
            Bson::from(whole.parse::<Decimal128>().expect("a number"))
        }
    };
    doc! {
        "_id": id, "kind": "tandem-line", "at": at, "application": "w",
        "accounts": nets.keys().copied().collect::<Vec<&str>>(),
        "nets": nets.values().map(net).collect::<Vec<Bson>>(),
        "done": entries("done"), "canceled": entries("canceled"),
    }
}

fn ids(documents: &[Document]) -> Vec<String> {
    documents.iter().map(|d| d.get_str("_id").expect("an id").to_owned()).collect()
}

async fn index_names(world: &World) -> BTreeSet<(&'static str, &'static str)> {
    let mut there = BTreeSet::new();
    for (collection, index) in INDEXES {
        let collection_of = world.store.database().collection::<Document>(collection);
        // There may be no such collection.
        let names = collection_of.list_index_names().await.unwrap_or_default();
        there.extend(names.iter().any(|name| name == index).then_some((collection, index)));
    }
    there
}

#[tokio::test]
async fn history_is_a_choice_that_init_applies_and_nothing_else_needs() {
    let world = empty_world().await;
    init(&world, &["--apply", "--history", "off"]).await.expect_success();
    assert_eq!(index_names(&world).await, BTreeSet::new());
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    // The first has no message: only the sweeper finds it.
    world.insert(&[transfer("t", "a", "b", 7)]).await;
    world.wait_state("t", State::Done, s(30)).await;
    let client = world.client().await;
    let whole = Period::default();
    let filter = by_account("a");
    assert_eq!(client.transactions(&filter, 10, None).await, Err(Error::WithoutHistory));
    let all = TransactionFilter::default();
    assert_eq!(client.transactions(&all, 10, None).await.expect("it needs none").items.len(), 1);
    assert_eq!(client.statement("a", &whole, 10, None).await, Err(Error::WithoutHistory));
    assert_eq!(client.accounts(10, None).await.expect("it needs none").items.len(), 2);
    world.producer(&["list"]).await.expect_success();
    let refused = world.producer(&["list", "--account", "a"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("init --apply --history on"), "{}", refused.stderr);

    let told = init(&world, &["--history", "on"]).await;
    assert_eq!((told.code, missing(&told).len()), (Some(1), 5));
    assert_eq!(index_names(&world).await, BTreeSet::new());
    init(&world, &["--history", "on", "--apply"]).await.expect_success();
    assert_eq!(index_names(&world).await, INDEXES.into());
    assert_eq!(client.transactions(&filter, 10, None).await.expect("a page").items.len(), 1);
    let statement = client.statement("a", &whole, 10, None).await.expect("a page");
    assert_eq!((statement.closing, statement.entries.len()), (Amount::Int(93), 1));
    assert_eq!(*statement.entries[0].counterparties[0], *"b");

    let off = world.producer(&["init", "--history", "off", "--apply"]).await.expect_success();
    assert!(off.stdout.contains("dropIndex(\"by_account\")"), "{}", off.stdout);
    assert_eq!(index_names(&world).await.len(), INDEXES.len(), "they stay");
    for (collection, index) in INDEXES {
        change(&world, doc! { "dropIndexes": collection, "index": index }).await;
    }
    // Sweeping needs none of them.
    world.insert(&[transfer("later", "a", "b", 1)]).await;
    world.wait_state("later", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn every_list_and_statement_is_read_through_its_index() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let begun = from_now(-100_000).timestamp_millis();
    let mut documents = Vec::new();
    for n in 0..1_200 {
        let (from, to) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let body = match n % 3 {
            0 => legs(&format!("t{n}"), &[(from, -1), (to, 1)].map(|(id, v)| (id, v * 3))),
            _ => transfer(&format!("t{n}"), from, to, 1),
        };
        let split = legs(&format!("t{n}"), &[(from, -3), (to, 1), ("c", 2)]);
        let state = match n % 100 {
            0 => State::Initial,
            1 => State::Pending,
            2 => State::Canceling,
            3..10 => State::Canceled,
            _ => State::Done,
        };
        let at = DateTime::from_millis(begun + n);
        documents.push(stored(if n % 5 == 0 { &split } else { &body }, state, at));
    }
    insert(&world, documents).await;
    change(&world, doc! { "profile": 2, "slowms": 0 }).await;
    let since = Some(DateTime::from_millis(begun + 400).to_system_time());
    for filter in [
        TransactionFilter::default(),
        TransactionFilter { since, ..TransactionFilter::default() },
        in_states(&[State::Done]),
        in_states(&State::ALL),
        by_account("a"),
        TransactionFilter { since, states: vec![State::Done], ..by_account("a") },
        TransactionFilter { ended_since: since, ..TransactionFilter::default() },
    ] {
        let first = client.transactions(&filter, 10, None).await.expect("a page");
        assert_eq!(first.items.len(), 10, "{filter:?}");
        let second = client.transactions(&filter, 10, first.next.as_deref()).await;
        assert_eq!(second.expect("a page").items.len(), 10, "{filter:?}");
    }
    for period in [Period::default(), Period { from: since, to: Some(SystemTime::now()) }] {
        let first = client.statement("a", &period, 10, None).await.expect("a page");
        let second = client.statement("a", &period, 10, first.next.as_deref()).await;
        assert_eq!((first.entries.len(), second.expect("a page").entries.len()), (10, 10));
        let newest = async |cursor: Option<&str>| {
            let order = StatementOrder::Newest;
            client.statement_ordered("a", &period, order, 10, cursor).await.expect("a page")
        };
        let first = newest(None).await;
        let second = newest(first.next.as_deref()).await;
        let again = newest(second.prev.as_deref()).await;
        assert_eq!((second.entries.len(), again.entries), (10, first.entries));
    }
    client.accounts(2, None).await.expect("a page");
    let nothing = client.parked_transactions(&ParkedFilter::default(), 10).await;
    assert!(nothing.expect("an answer").is_empty());
    change(&world, doc! { "profile": 0 }).await;

    let ours = doc! { "command.comment": { "$regex": "^tandem (transactions|statement|accounts|parked)" } };
    let profile = world.store.database().collection::<Document>("system.profile");
    let profile = profile.find(ours).await.expect("MongoDB is there");
    let profile: Vec<Document> = profile.try_collect().await.expect("MongoDB is there");
    assert!(profile.len() > 20, "{} commands", profile.len());
    let mut used = BTreeMap::new();
    for entry in &profile {
        let plan = entry.get_str("planSummary").expect("a plan");
        *used.entry(plan.to_owned()).or_insert(0) += 1;
        let by_id = ["IDHACK", "IXSCAN { _id: 1 }"].contains(&plan);
        assert!(by_id || plan.starts_with("IXSCAN"), "{entry}");
        assert!(!entry.get_bool("hasSortStage").unwrap_or(false), "{entry}");
        let command = entry.get_document("command").expect("a command");
        let sums = command.get_str("comment").is_ok_and(|c| c == "tandem statement sum");
        // How far a page of some states looks at most.
        let skips = command.contains_key("skip");
        let examined = entry.get_i32("docsExamined").expect("a count");
        assert!(sums || skips || examined < 60, "{examined} documents: {entry}");
    }
    assert!(used.len() >= 4, "{used:?}");
    world.finish().await;
}

#[tokio::test]
async fn the_command_line_lists_by_account_and_age_and_tells_what_was_booked() {
    let world = world_with_history().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let (old, new) = (from_now(-7_200_000), from_now(-60_000));
    let documents = vec![
        stored(&transfer("old", "a", "b", 10), State::Done, old),
        stored(&transfer("new", "b", "a", 4), State::Done, new),
        stored(&transfer("other", "b", "c", 1), State::Done, new),
        refused("refused", new),
    ];
    insert(&world, documents).await;
    let listed = async |arguments: &[&str]| -> Vec<String> {
        let told = world.producer(&[&["list"], arguments].concat()).await.expect_success();
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        told.stdout.lines().map(first).collect()
    };
    assert_eq!(listed(&["--account", "a"]).await, ["refused", "new", "old"]);
    assert_eq!(listed(&["--account", "a", "--since", "1h"]).await, ["refused", "new"]);
    assert_eq!(listed(&["--since", "1h", "--state", "done"]).await, ["other", "new"]);
    assert_eq!(listed(&["--account", "a", "--limit", "1"]).await, ["refused"]);
    assert_eq!(listed(&["--until", "1h"]).await, ["old"]);
    assert_eq!(listed(&["--reason", "insufficient_funds"]).await, ["refused"]);
    assert_eq!(listed(&["--ended-since", "1h", "--state", "canceled"]).await, ["refused"]);
    assert_eq!(listed(&["--ended-until", "1h"]).await, ["old"]);
    assert_eq!(listed(&[]).await.last().map(String::as_str), Some("old"), "the newest come first");

    let statement = ["accounts", "statement", "a"];
    let told = world.producer(&statement).await.expect_success().stdout;
    let words: Vec<Vec<&str>> =
        told.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
    assert_eq!(words[0], ["balance", "100"]);
    assert_eq!(words[1], ["old", "-10", "90", "b"]);
    assert_eq!(words[2], ["new", "4", "94", "b"]);
    assert_eq!(words[3], ["balance", "94"]);
    let arguments = [&statement[..], &["--from", "1h", "--json"]].concat();
    let entry = world.producer(&arguments).await.expect_success().json();
    assert_eq!((entry["amount"].as_i64(), entry["balance"].as_i64()), (Some(4), Some(94)));
    assert_eq!((&entry["id"], &entry["counterparties"][0]), (&"new".into(), &"b".into()));
    let nobody = world.producer(&["accounts", "statement", "nobody"]).await;
    assert_eq!(nobody.code, Some(1), "{}", nobody.stderr);
    world.finish().await;
}
