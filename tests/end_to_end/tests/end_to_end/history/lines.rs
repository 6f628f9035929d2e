//! What stands in the journal: pages that begin and end within a line, lines of megabytes, and
//! lines that somebody has damaged.

use client::{Error, Period, TransactionFilter};
use harness::wait::s;
use harness::world::transfer;
use ledger::amount::Amount;
use ledger::transaction::State;
use mongo::JOURNAL;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};

use super::lists::walk;
use super::statements::walk_statement;
use super::{by_account, from_now, ids, insert, insert_lines, line, stored, world_with_history};

/// Payments from `a` to `b` that have ended, and their ids.
fn ended(names: &str, count: i64, state: State, at: DateTime) -> (Vec<Document>, Vec<String>) {
    let name = |n| format!("{names}{n}");
    let one = |n| stored(&transfer(&name(n), "a", "b", n + 1), state, at);
    ((0..count).map(one).collect(), (0..count).map(name).collect())
}

fn reversed(ids: &[String]) -> Vec<String> {
    ids.iter().rev().cloned().collect()
}

#[tokio::test]
async fn pages_end_and_go_on_within_a_line() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let at = from_now(-60_000);
    let (mut documents, done) = ended("t", 10, State::Done, at);
    let (refused, canceled) = ended("x", 4, State::Canceled, at);
    documents.extend(refused);
    let other = stored(&transfer("other", "b", "c", 1), State::Done, at);
    // One line has all of them, and at the same moment there are lines before it and behind it.
    let own = line("m", at, documents.iter().chain([&other]));
    let of_one = |id: &str| (id.to_owned(), stored(&transfer(id, "b", "a", 7), State::Done, at));
    let (before, behind) = (of_one("before"), of_one("behind"));
    let lines =
        [line("l", at, [&before.1].into_iter()), own, line("n", at, [&behind.1].into_iter())];
    insert_lines(&world, &lines).await;
    let all: Vec<&Document> = documents.iter().chain([&before.1, &behind.1, &other]).collect();
    world.store.transactions().insert_many(all).await.expect("they can be inserted");

    let booked = [vec![before.0.clone()], done.clone(), vec![behind.0.clone()]].concat();
    for limit in [1, 3, 10, 12, 1_000] {
        let whole = walk_statement(&client, "a", limit).await;
        let told: Vec<&str> = whole.entries.iter().map(|entry| &*entry.id).collect();
        assert_eq!(told, booked, "by {limit}");
        assert_eq!(whole.closing, Amount::Int(1_000 + 14 - 55), "by {limit}");
        let newest = [vec![behind.0.clone()], reversed(&canceled), reversed(&done)].concat();
        let newest = [newest, vec![before.0.clone()]].concat();
        assert_eq!(walk(&client, &by_account("a"), limit).await, newest, "by {limit}");
        let only = |state| TransactionFilter { states: vec![state], ..by_account("a") };
        let refused = walk(&client, &only(State::Canceled), limit).await;
        assert_eq!(refused, reversed(&canceled), "by {limit}");
        let paid = walk(&client, &only(State::Done), limit).await;
        assert_eq!(paid, reversed(&booked), "by {limit}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_page_that_is_cut_by_the_bytes_of_its_lines_goes_on_behind_them() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let begun = from_now(-60_000).timestamp_millis();
    let (mut documents, mut lines) = (Vec::new(), Vec::new());
    for n in 0..10_i64 {
        // The first that a statement reads, and the first that a list reads, have nothing for it.
        let state = if n < 5 { State::Canceled } else { State::Done };
        let at = DateTime::from_millis(begun + n);
        let document = stored(&transfer(&format!("t{n}"), "a", "b", 1), state, at);
        let mut line = line(&format!("l{n}"), at, [&document].into_iter());
        let bytes = vec![0; 9 << 20];
        line.insert("filler", Binary { subtype: BinarySubtype::Generic, bytes });
        documents.push(document);
        lines.push(line);
    }
    world.store.transactions().insert_many(documents).await.expect("they can be inserted");
    for line in &lines {
        insert_lines(&world, std::slice::from_ref(line)).await;
    }
    let first = client.statement("a", &Period::default(), 100, None).await.expect("a page");
    assert_eq!((first.entries.len(), first.closing), (0, Amount::Int(1_000)));
    let next = first.next.expect("there is more");
    let second = client.statement("a", &Period::default(), 100, Some(&next)).await.expect("a page");
    assert!((1..5).contains(&second.entries.len()), "{} entries", second.entries.len());
    assert_ne!(second.next.expect("there is more"), next);
    let whole = walk_statement(&client, "a", 100).await;
    let told: Vec<&str> = whole.entries.iter().map(|entry| &*entry.id).collect();
    assert_eq!((told, whole.closing), (vec!["t5", "t6", "t7", "t8", "t9"], Amount::Int(995)));

    let canceled = TransactionFilter { states: vec![State::Canceled], ..by_account("a") };
    let first = client.transactions(&canceled, 100, None).await.expect("a page");
    assert_eq!((ids(&first.items), first.next.is_some()), (vec![], true));
    assert_eq!(walk(&client, &canceled, 100).await, ["t4", "t3", "t2", "t1", "t0"]);
    assert_eq!(walk(&client, &by_account("a"), 100).await.len(), 10);
    let listed = world.producer(&["list", "--account", "a", "--state", "canceled"]).await;
    assert_eq!(listed.expect_success().stdout.lines().count(), 5);
    let told = world.producer(&["accounts", "statement", "a"]).await.expect_success();
    assert_eq!(told.stdout.lines().count(), 2 + 5);
    world.finish().await;
}

/// What one damage does, and whether a sum over the line shows it, too.
fn damages() -> Vec<(&'static str, Document, bool)> {
    let set = |field: &str, value: Bson| doc! { "$set": { field: value } };
    let many = |first: &str| Bson::from(vec![Bson::from(first), 0.into()]);
    vec![
        ("a moment that is a text", set("at", "today".into()), true),
        ("a moment that is none", doc! { "$unset": { "at": "" } }, true),
        ("a moment that sorts behind all dates", set("at", Bson::MaxKey), true),
        ("a net that is a text", set("nets.0", "7".into()), true),
        ("a net that is a float", set("nets.0", 1.5.into()), true),
        ("a net that is no number", set("nets.0", Bson::from(nan())), true),
        ("no nets", doc! { "$unset": { "nets": "" } }, true),
        ("accounts that are a text", set("accounts", "a".into()), true),
        ("another net", set("nets.0", 7_i64.into()), false),
        ("another amount", set("done.0.2", 7_i64.into()), false),
        ("an amount that is a float", set("done.0.2", 7.0.into()), false),
        ("an entry that is a number", set("done.0", 7.into()), false),
        ("an entry of half a leg", set("done.0", many("t0")), false),
        ("a place that is none", set("done.0.1", 9.into()), false),
        ("an account twice", set("accounts.1", "a".into()), false),
        ("no entries", doc! { "$unset": { "done": "" } }, false),
    ]
}

fn nan() -> mongodb::bson::Decimal128 {
    "NaN".parse().expect("a decimal")
}

#[tokio::test]
async fn a_damaged_line_is_named_and_hides_in_no_statement() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let at = from_now(-60_000);
    let (documents, _) = ended("t", 3, State::Done, at);
    let mut sound = line("damaged", at, documents.iter());
    insert_lines(&world, std::slice::from_ref(&sound)).await;
    world.store.transactions().insert_many(&documents).await.expect("they can be inserted");
    let other = stored(&transfer("other", "b", "c", 1), State::Done, at);
    insert(&world, vec![other]).await;
    let later = Period { from: Some(from_now(0).to_system_time()), to: None };
    let is_named = |answer: Result<(), Error>, what: &str| match answer {
        Err(Error::Refused { id, .. }) => assert_eq!(id, "tandem.journal/damaged", "{what}"),
        other => panic!("{what}: {other:?}"),
    };
    let journal = world.store.database().collection::<Document>(JOURNAL);
    let named = doc! { "_id": "damaged" };
    for (what, damage, shows_in_sums) in damages() {
        journal.update_one(named.clone(), damage).await.expect("it is damaged");
        let statement = client.statement("a", &Period::default(), 10, None).await;
        is_named(statement.map(drop), what);
        let sum = client.statement("a", &later, 10, None).await;
        match shows_in_sums {
            true => is_named(sum.map(drop), what),
            false => assert!(sum.is_ok(), "{what}"),
        }
        // A list tells no amounts.
        if !what.contains("net") && what != "another amount" {
            let list = client.transactions(&by_account("a"), 10, None).await;
            is_named(list.map(drop), what);
        }
        // Another account's statement goes on.
        let spared = client.statement("c", &Period::default(), 10, None).await.expect("a page");
        assert_eq!(spared.entries.len(), 1, "{what}");
        journal.replace_one(named.clone(), &sound).await.expect("it is repaired");
    }
    let told = client.statement("a", &Period::default(), 10, None).await.expect("a page");
    assert_eq!((told.entries.len(), told.closing), (3, Amount::Int(94)));
    // What has another `kind` is nobody's line.
    sound.insert("_id", "foreign");
    sound.insert("kind", "mine");
    insert_lines(&world, &[sound]).await;
    assert_eq!(client.statement("a", &Period::default(), 10, None).await, Ok(told));
    world.finish().await;
}

#[tokio::test]
async fn a_list_leaves_out_what_is_gone_and_pages_are_full_all_the_same() {
    let world = world_with_history().await;
    let client = world.client().await;
    let at = from_now(-60_000);
    let (documents, all) = ended("t", 400, State::Done, at);
    insert(&world, documents).await;
    let transactions = world.store.transactions();
    let gone: Vec<&String> = all[20..390].iter().collect();
    transactions.delete_many(doc! { "_id": { "$in": gone } }).await.expect("they are deleted");
    // This one was submitted anew under the same id.
    let anew = doc! { "$set": { "state": "initial" } };
    transactions.update_one(doc! { "_id": "t395" }, anew).await.expect("it is changed");
    let left: Vec<String> = [&all[..20], &all[390..395], &all[396..]].concat();
    let page = client.transactions(&by_account("a"), 20, None).await.expect("a page");
    assert_eq!((page.items.len(), page.next.is_some()), (20, true));
    for limit in [1, 7, 29, 1_000] {
        assert_eq!(walk(&client, &by_account("a"), limit).await, reversed(&left), "by {limit}");
    }
    let since = Some(at.to_system_time() + s(1));
    let newer = TransactionFilter { since, ..by_account("a") };
    assert!(walk(&client, &newer, 10).await.is_empty());
    let old = doc! { "$set": { "createdAt": from_now(-90_000) } };
    transactions.update_many(doc! { "_id": { "$in": &all[..390] } }, old).await.expect("changed");
    let newer = TransactionFilter { since: Some(at.to_system_time()), ..by_account("a") };
    assert_eq!(walk(&client, &newer, 4).await, reversed(&left[20..]));
    world.finish().await;
}
