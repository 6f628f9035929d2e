//! Lists in pages: each item once, in order, and a cursor for one list only.

use std::collections::BTreeSet;
use std::time::SystemTime;

use client::{Client, Error, Kind, Period, TransactionFilter};
use harness::wait::ms;
use harness::world::{legs, transfer};
use ledger::transaction::State;
use mongodb::bson::{DateTime, doc};

use super::{by_account, from_now, ids, in_states, insert, stored, world_with_history};

/// All of a list, in pages of so many; the way back has the same ones.
pub(super) async fn walk(client: &Client, filter: &TransactionFilter, limit: u32) -> Vec<String> {
    let page = async |cursor: Option<&str>| {
        client.transactions(filter, limit, cursor).await.expect("a page")
    };
    let (mut all, mut last) = (Vec::new(), page(None).await);
    assert_eq!(last.prev, None, "nothing comes before the first page");
    loop {
        all.extend(ids(&last.items));
        let Some(next) = &last.next else { break };
        last = page(Some(next)).await;
    }
    // From the end back to the beginning, page by page from its last item to its first.
    let mut back: Vec<String> = ids(&last.items);
    back.reverse();
    while let Some(prev) = &last.prev {
        last = page(Some(prev)).await;
        let mut before = ids(&last.items);
        before.reverse();
        back.extend(before);
    }
    back.reverse();
    assert_eq!(back, all, "the way back by {limit}");
    all
}

#[tokio::test]
async fn paging_by_account_visits_each_exactly_once_while_others_are_inserted() {
    let world = world_with_history().await;
    let client = world.client().await;
    let begun = from_now(-60_000).timestamp_millis();
    // Many have the same moment, as those of one group of submissions do.
    let moment = |n: i64| DateTime::from_millis(begun + n / 70);
    let of_a = |n: i64| match n % 3 {
        0 => transfer(&format!("t{n}"), "a", "b", 1),
        1 => transfer(&format!("t{n}"), "b", "a", 1),
        _ => legs(&format!("t{n}"), &[("b", -2), ("a", 1), ("c", 1)]),
    };
    let mut documents: Vec<_> =
        (0..3_000).map(|n| stored(&of_a(n), State::Done, moment(n))).collect();
    documents.extend(
        (0..500)
            .map(|n| stored(&transfer(&format!("other{n}"), "b", "c", 1), State::Done, moment(n))),
    );
    insert(&world, documents).await;
    let (mut all, mut cursor, mut more) = (Vec::new(), None, 0);
    loop {
        let page = client.transactions(&by_account("a"), 130, cursor.as_deref()).await;
        let page = page.expect("a page");
        all.extend(ids(&page.items));
        let new: Vec<_> = (0..20)
            .map(|n| {
                let new = transfer(&format!("new{}", more + n), "a", "c", 1);
                stored(&new, State::Done, DateTime::now())
            })
            .collect();
        insert(&world, new).await;
        more += 20;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (3_000, 3_000));
    assert!(distinct.iter().all(|id| id.starts_with('t')));
    // Newest first, and those of one line from the last to the first.
    let expected: Vec<_> = (0..3_000).rev().map(|n| format!("t{n}")).collect();
    assert_eq!(all, expected);
    world.finish().await;
}

#[tokio::test]
async fn a_list_of_an_account_begins_with_what_is_in_flight_on_it() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let mut documents = Vec::new();
    for n in 0..10_i64 {
        let state = if n < 6 { State::Pending } else { State::Done };
        // Those in flight are the oldest.
        documents.push(stored(
            &transfer(&format!("t{n}"), "a", "b", 1),
            state,
            from_now(n - 60_000),
        ));
    }
    documents.push(stored(&transfer("waits", "a", "b", 1), State::Initial, from_now(0)));
    insert(&world, documents).await;
    let marks = doc! { "$set": { "pendingTransactions": ["t0", "t1", "t2", "t3", "t4", "t5"] } };
    world.store.accounts().update_one(doc! { "_id": "a" }, marks).await.expect("it is there");
    let expected = ["t5", "t4", "t3", "t2", "t1", "t0", "t9", "t8", "t7", "t6"];
    for limit in [1, 4, 6, 100] {
        assert_eq!(walk(&client, &by_account("a"), limit).await, expected, "by {limit}");
    }
    let pending = TransactionFilter { states: vec![State::Pending], ..by_account("a") };
    assert_eq!(walk(&client, &pending, 4).await, expected[..6]);
    let since = Some(from_now(3 - 60_000).to_system_time());
    let newer = TransactionFilter { since, states: vec![State::Pending], ..by_account("a") };
    assert!(walk(&client, &newer, 4).await.len() <= 3);
    // Dates that a careless neighbour writes cost nobody else his place.
    let odd = [("far", DateTime::MAX), ("old", DateTime::from_millis(-1))]
        .map(|(id, at)| stored(&transfer(id, "a", "b", 1), State::Pending, at));
    insert(&world, odd.to_vec()).await;
    let marks = doc! { "$set": { "pendingTransactions": ["t0", "far", "old"] } };
    world.store.accounts().update_one(doc! { "_id": "a" }, marks).await.expect("it is there");
    for limit in [1, 2, 100] {
        let all = walk(&client, &by_account("a"), limit).await;
        assert_eq!(all, ["far", "t0", "old", "t9", "t8", "t7", "t6"], "by {limit}");
    }
    let waiting = TransactionFilter { states: vec![State::Initial], ..by_account("a") };
    let refused = client.transactions(&waiting, 10, None).await;
    assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "state"));
    world.finish().await;
}

#[tokio::test]
async fn lists_by_state_have_each_exactly_once_also_of_one_moment() {
    let world = world_with_history().await;
    let client = world.client().await;
    let at = from_now(-60_000);
    let mut documents = Vec::new();
    for n in 0..600 {
        let state = State::ALL[n % State::ALL.len()];
        let at = if n < 400 { at } else { from_now(n as i64 - 30_000) };
        documents.push(stored(&transfer(&format!("t{n}"), "a", "b", 1), state, at));
    }
    let expected = |states: &[State]| -> BTreeSet<String> {
        let wanted = |n: &usize| states.contains(&State::ALL[n % State::ALL.len()]);
        (0..600).filter(wanted).map(|n| format!("t{n}")).collect()
    };
    insert(&world, documents).await;
    for states in [&State::ALL[..], &[State::Initial], &State::IN_FLIGHT, &[State::Canceled]] {
        for limit in [7, 64, 1_000] {
            let all = walk(&client, &in_states(states), limit).await;
            let distinct: BTreeSet<String> = all.iter().cloned().collect();
            assert_eq!(distinct, expected(states), "{states:?} by {limit}");
            assert_eq!(all.len(), distinct.len(), "{states:?} by {limit}");
        }
    }
    assert_eq!(walk(&client, &TransactionFilter::default(), 50).await.len(), 600);
    let since = Some(at.to_system_time() + ms(1));
    let newer = TransactionFilter { since, ..TransactionFilter::default() };
    assert_eq!(walk(&client, &newer, 50).await.len(), 200);
    world.finish().await;
}

#[tokio::test]
async fn a_cursor_continues_its_own_list_only_and_limits_have_bounds() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let ended = from_now(-60_000);
    let payment = |n: i64| transfer(&format!("t{n}"), "a", "b", 1);
    insert(&world, (0..30).map(|n| stored(&payment(n), State::Done, ended)).collect()).await;
    let (of_a, whole) = (by_account("a"), Period::default());
    let list = client.transactions(&of_a, 10, None).await.expect("a page").next;
    let statement = client.statement("a", &whole, 10, None).await.expect("a page").next;
    let accounts = client.accounts(2, None).await.expect("a page").next;
    let (list, statement) = (list.expect("it goes on"), statement.expect("it goes on"));
    let accounts = accounts.expect("it goes on");
    let is_refused = |error: Error, of: &str| {
        assert!(matches!(&error, Error::Invalid { field, .. } if field == of), "{error:?}");
    };
    for cursor in [&statement, &accounts, &format!("{list}A"), &list[1..].to_owned()] {
        is_refused(client.transactions(&of_a, 10, Some(cursor)).await.expect_err(cursor), "cursor");
    }
    for filter in [by_account("b"), TransactionFilter::default(), in_states(&[State::Done])] {
        let refused = client.transactions(&filter, 10, Some(&list)).await;
        is_refused(refused.expect_err("another filter"), "cursor");
    }
    let other = Period { to: Some(SystemTime::now()), ..whole };
    for (account, period, cursor) in
        [("b", &whole, &statement), ("a", &other, &statement), ("a", &whole, &list)]
    {
        let refused = client.statement(account, period, 10, Some(cursor)).await;
        is_refused(refused.expect_err("another statement"), "cursor");
    }
    is_refused(client.accounts(2, Some(&list)).await.expect_err("another list"), "cursor");
    for limit in [0, 1_001] {
        is_refused(client.transactions(&of_a, limit, None).await.expect_err("a limit"), "limit");
        is_refused(client.statement("a", &whole, limit, None).await.expect_err("a limit"), "limit");
        is_refused(client.accounts(limit, None).await.expect_err("a limit"), "limit");
    }
    let nobody = client.statement("nobody", &whole, 10, None).await;
    let not_found = Error::NotFound { kind: Kind::Account, id: "nobody".to_owned() };
    assert_eq!(nobody, Err(not_found));

    let mark = doc! { "$set": { "pendingTransactions": ["x", "y"] } };
    world.store.accounts().update_one(doc! { "_id": "c" }, mark).await.expect("it is changed");
    let rest = client.accounts(2, Some(&accounts)).await.expect("a page");
    assert_eq!((ids(&rest.items), rest.next), (vec!["c".to_owned()], None));
    assert_eq!(rest.items[0].get_i32("marks").ok(), Some(2));
    assert!(!rest.items[0].contains_key("pendingTransactions"));
    world.finish().await;
}
