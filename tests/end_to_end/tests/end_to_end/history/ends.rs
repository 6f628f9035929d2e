//! Lists of what is looked for: by the time of the end, by reason, and where few of many are meant.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use client::{Client, Error, Page, ReasonCode, Told, TransactionFilter};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{DateTime, Document, doc};

use super::lists::walk;
use super::{by_account, from_now, ids, insert, refused, stored, world_with_history};

#[tokio::test]
async fn a_list_by_the_time_of_the_end_is_newest_ended_first_and_has_each_once() {
    let world = world_with_history().await;
    let client = world.client().await;
    let begun = from_now(-600_000).timestamp_millis();
    // What was created first has ended last. Two at a time have ended in one line.
    let at = |n: i64| DateTime::from_millis(begun + n / 2 * 1_000);
    let one = |n: i64| {
        let mut document = match n % 5 {
            0 => refused(&format!("t{n:02}"), at(n)),
            _ => stored(&transfer(&format!("t{n:02}"), "a", "b", 1), State::Done, at(n)),
        };
        document.insert("createdAt", DateTime::from_millis(begun - n * 1_000));
        document
    };
    insert(&world, (0..60).map(one).collect()).await;
    world.accounts(&[("a", 100)]).await;
    insert(&world, vec![stored(&transfer("open", "a", "b", 1), State::Pending, at(20))]).await;
    let mark = doc! { "$set": { "pendingTransactions": ["open"] } };
    world.store.accounts().update_one(doc! { "_id": "a" }, mark).await.expect("it is there");
    let moment = |n: i64| Some(at(n).to_system_time());
    let within = TransactionFilter {
        ended_since: moment(10),
        ended_until: moment(40),
        ..TransactionFilter::default()
    };
    let canceled = |n: &i64| n % 5 == 0;
    // Of one line, those that are done stand before those that are canceled, and are told after them.
    let newest_first = |meant: fn(&i64) -> bool| -> Vec<String> {
        let mut meant: Vec<i64> = (10..40).filter(meant).collect();
        meant.sort_by_key(|n| (-n / 2, !canceled(n), -n));
        meant.iter().map(|n| format!("t{n:02}")).collect()
    };
    let reason = Some(ReasonCode::InsufficientFunds);
    for limit in [1, 7, 1_000] {
        assert_eq!(walk(&client, &within, limit).await, newest_first(|_| true), "by {limit}");
        let states = vec![State::Canceled, State::Pending];
        for filter in [
            TransactionFilter { states, ..within.clone() },
            TransactionFilter { reason, ..within.clone() },
            TransactionFilter { account: Some("c".to_owned()), ..within.clone() },
        ] {
            let told = walk(&client, &filter, limit).await;
            assert_eq!(told, newest_first(|n| n % 5 == 0), "{filter:?} by {limit}");
        }
    }
    let created = Some(DateTime::from_millis(begun - 20_000).to_system_time());
    let young = TransactionFilter { since: created, ..within.clone() };
    assert_eq!(walk(&client, &young, 7).await, newest_first(|n| *n <= 20));
    let of_a = TransactionFilter { account: Some("a".to_owned()), ..within };
    assert_eq!(walk(&client, &of_a, 7).await, newest_first(|_| true), "and not what is in flight");
    let backwards = TransactionFilter { ended_until: moment(1), ended_since: moment(5), ..of_a };
    let told = client.transactions(&backwards, 7, None).await;
    assert!(matches!(told, Err(Error::Invalid { field, .. }) if field == "endedUntil"));
    world.finish().await;
}

/// How many are to be looked through.
const MANY: i64 = 12_000;

/// Many that are done, and among the oldest of them three that were refused.
async fn few_of_many(world: &World, begun: i64) {
    let one = |n: i64| {
        let at = DateTime::from_millis(begun + n);
        match [3, 5, 7].contains(&n) {
            true => refused(&format!("t{n}"), at),
            false => doc! { "_id": format!("t{n}"), "state": "done", "createdAt": at },
        }
    };
    let all: Vec<Document> = (0..MANY).map(one).collect();
    let transactions = world.store.transactions();
    transactions.insert_many(all).bypass_document_validation(true).await.expect("there is room");
}

async fn look(
    client: &Client,
    filter: &TransactionFilter,
    look_for: Duration,
    cursor: Option<&str>,
) -> Page<Document> {
    let page = client.transactions_told(filter, 10, cursor, look_for, Told::whole).await;
    page.expect("a page")
}

/// All pages of a list, each of which looks through one stretch, because it has no time at all: what
/// was found, and how far back each has looked, in milliseconds since 1970.
async fn looked_without_time(
    client: &Client,
    filter: &TransactionFilter,
) -> (Vec<String>, Vec<i64>) {
    let (mut found, mut cursor, mut back_to) = (Vec::new(), None::<String>, Vec::new());
    loop {
        let page = look(client, filter, Duration::ZERO, cursor.as_deref()).await;
        found.extend(ids(&page.items));
        assert_eq!(page.looked_until.is_some(), page.next.is_some(), "{page:?}");
        back_to.extend(page.looked_until.map(DateTime::timestamp_millis));
        cursor = page.next;
        if cursor.is_none() {
            return (found, back_to);
        }
    }
}

#[tokio::test]
async fn a_page_whose_time_is_up_says_how_far_back_it_has_looked_and_the_next_goes_on_there() {
    let world = world_with_history().await;
    let client = world.client().await;
    let begun = from_now(-600_000).timestamp_millis();
    few_of_many(&world, begun).await;
    let reason = Some(ReasonCode::InsufficientFunds);
    let filter = TransactionFilter { reason, ..TransactionFilter::default() };
    let (found, back_to) = looked_without_time(&client, &filter).await;
    assert_eq!(found, ["t7", "t5", "t3"]);
    // A stretch has as many as its name says, and one more that the next one begins behind.
    let expected: Vec<i64> = (1..=2).map(|n| begun + MANY - 1 - n * 5_000 - (n - 1)).collect();
    assert_eq!(back_to, expected);
    let patient = look(&client, &filter, Duration::from_secs(60), None).await;
    assert_eq!((ids(&patient.items), patient.next, patient.looked_until), (found, None, None));

    // What an index serves is not cut, whatever its time is.
    let until = Some(DateTime::from_millis(begun + 2).to_system_time());
    let oldest = TransactionFilter { until, ..TransactionFilter::default() };
    let page = client.transactions_told(&oldest, 10, None, Duration::ZERO, Told::whole).await;
    assert_eq!(ids(&page.expect("a page").items), ["t1", "t0"]);
    let listed = ["list", "--reason", "insufficient_funds", "--json"];
    let listed = world.producer(&listed).await.expect_success().stdout;
    assert_eq!(listed.lines().count(), 3, "the command looks on by itself");
    world.finish().await;
}

#[tokio::test]
async fn by_the_time_of_the_end_too_a_page_says_how_far_back_it_has_looked_and_goes_on_there() {
    const ALL: i64 = 100;
    let world = world_with_history().await;
    let client = world.client().await;
    let begun = from_now(-600_000).timestamp_millis();
    let one = |n: i64| {
        let at = DateTime::from_millis(begun + n);
        let mut document = stored(&transfer(&format!("t{n}"), "a", "b", 1), State::Done, at);
        if [3, 5, 7].contains(&n) {
            document.insert("application", "another");
        }
        document
    };
    insert(&world, (0..ALL).map(one).collect()).await;
    let ended_until = Some(SystemTime::now());
    let application = Some("another".to_owned());
    let filter = TransactionFilter { ended_until, application, ..TransactionFilter::default() };
    let (found, back_to) = looked_without_time(&client, &filter).await;
    assert_eq!(found, ["t7", "t5", "t3"]);
    // A stretch is a page that would be full, and one more.
    let expected: Vec<i64> = (1..=9).map(|n| begun + ALL - n * 11).collect();
    assert_eq!(back_to, expected);
    let patient = look(&client, &filter, Duration::from_secs(60), None).await;
    assert_eq!((ids(&patient.items), patient.next, patient.looked_until), (found, None, None));
    world.finish().await;
}

#[tokio::test]
async fn what_ended_at_one_moment_in_many_lines_is_listed_once_and_in_order() {
    let world = world_with_history().await;
    let client = world.client().await;
    let at = from_now(-60_000);
    for n in 0..12 {
        let ended = stored(&transfer(&format!("t{n:02}"), "a", "b", 1), State::Done, at);
        insert(&world, vec![ended]).await;
    }
    let all =
        TransactionFilter { ended_until: Some(SystemTime::now()), ..TransactionFilter::default() };
    let whole = walk(&client, &all, 1_000).await;
    assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 12);
    for limit in [1, 5, 11] {
        assert_eq!(walk(&client, &all, limit).await, whole, "by {limit}");
    }
    assert_eq!(walk(&client, &by_account("a"), 5).await, whole, "the order is that of an account");
    world.finish().await;
}
