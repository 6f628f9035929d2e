//! Statements: what was booked on an account, exact while money moves.

use std::time::SystemTime;

use client::{Client, Config, Entry, Period, Statement, StatementOrder, TransactionFilter};
use harness::proxy::Part;
use harness::wait::{ms, s, wait_until};
use harness::world::{legs, transfer};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, TransactionId};
use mongodb::bson::DateTime;

use super::lists::walk;
use super::{by_account, from_now, insert, stored, world_with_history};

/// All of a statement, in pages of so many; each balance is checked against the one before.
pub(super) async fn walk_statement(client: &Client, account: &str, limit: u32) -> Statement {
    let mut whole: Option<Statement> = None;
    loop {
        let cursor = whole.as_ref().and_then(|whole| whole.next.clone());
        let page = client.statement(account, &Period::default(), limit, cursor.as_deref()).await;
        let page = page.expect("a page");
        let mut balance = page.opening;
        for entry in &page.entries {
            balance = balance.checked_add(entry.amount).expect("an amount");
            assert_eq!(entry.balance, balance, "{account}: {}", entry.id);
        }
        assert_eq!(page.closing, balance);
        if page.entries.is_empty() {
            tokio::time::sleep(ms(50)).await;
        }
        whole = Some(match whole {
            None => page,
            Some(whole) => {
                assert_eq!(page.opening, whole.closing, "{account}");
                let entries = [whole.entries, page.entries].concat();
                Statement { entries, closing: page.closing, next: page.next, ..whole }
            }
        });
        if let Some(whole) = whole.take_if(|whole| whole.next.is_none()) {
            return whole;
        }
    }
}

/// All entries of a statement, from the newest back; each page is right in itself, fits the one before
/// it, and is found again on the way back.
async fn walk_newest(client: &Client, account: &str, limit: u32) -> Vec<Entry> {
    let newest = StatementOrder::Newest;
    let page = async |cursor: Option<&str>| {
        let page =
            client.statement_ordered(account, &Period::default(), newest, limit, cursor).await;
        let page = page.expect("a page");
        let mut balance = page.opening;
        for entry in page.entries.iter().rev() {
            balance = balance.checked_add(entry.amount).expect("an amount");
            assert_eq!(entry.balance, balance, "{account}: {}", entry.id);
        }
        assert_eq!(page.closing, balance, "{account}");
        page
    };
    let mut pages = vec![page(None).await];
    assert_eq!(pages[0].prev, None, "{account}");
    while let Some(next) = pages.last().and_then(|last| last.next.clone()) {
        let next = page(Some(&next)).await;
        assert_eq!(pages.last().map(|last| last.opening), Some(next.closing), "{account}");
        pages.push(next);
    }
    let mut back = pages.last().and_then(|last| last.prev.clone());
    for before in pages.iter().rev().skip(1) {
        let again = page(back.as_deref()).await;
        assert_eq!(again.entries, before.entries, "{account}");
        assert_eq!((again.opening, again.closing), (before.opening, before.closing), "{account}");
        back = again.prev;
    }
    assert_eq!(back, None, "{account}: the first page has none before it");
    pages.into_iter().flat_map(|page| page.entries).collect()
}

/// Payments within a small ledger of minor units and one of decimals, also of many legs.
fn payments() -> Vec<(TransactionId, Body)> {
    let decimal = |text: &str| Amount::parse(text).expect("a decimal");
    let payment = |n: usize| match n % 6 {
        0 | 1 => transfer(&format!("t{n}"), "a", "b", 3),
        2 => transfer(&format!("t{n}"), "b", "a", 2),
        3 => legs(&format!("t{n}"), &[("a", -5), ("b", 2), ("c", 3)]),
        4 => {
            let body = Body::transfer("d", "e", decimal("0.10"));
            (format!("t{n}").into(), body.expect("a valid transfer"))
        }
        _ => {
            let leg = |account: &str, amount: &str| Leg {
                account: account.into(),
                amount: decimal(amount),
            };
            let split =
                vec![leg("e", "-0.000000003"), leg("d", "0.000000001"), leg("f", "0.000000002")];
            (format!("t{n}").into(), Body::new(split).expect("valid legs"))
        }
    };
    (0..1_800).map(payment).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_adds_up_on_every_page_while_transfers_are_in_flight() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 100_000), ("b", 50), ("c", 0)]).await;
    let decimals = [("d", "100.00"), ("e", "1.000000000"), ("f", "0.0")];
    let decimals =
        decimals.map(|(id, sum)| Account::new(id, Amount::parse(sum).expect("a decimal")));
    world.open(&decimals).await;
    let workers = [world.worker("one").flag("--batch-size", 50), world.worker("two")];
    let [one, two] = workers.map(|plan| plan.start());
    let workers = (one.await, two.await);
    let walks = ["a", "b", "c", "d", "e"].map(|account| {
        let client = client.clone();
        tokio::spawn(async move { walk_statement(&client, account, 7).await })
    });
    for some in payments().chunks(200) {
        world.submit(some, 10).await;
        // Between two looks money moves.
        let now = client.statement("a", &Period::default(), 1_000, None).await.expect("a page");
        let sum = now.entries.iter().map(|entry| entry.amount.nanos()).sum::<i128>();
        assert_eq!(now.closing.nanos(), now.opening.nanos() + sum);
    }
    world.wait_final(s(90)).await;
    for walking in walks {
        // It has followed its cursors since before the first transfer, so it may end too soon.
        let early = walking.await.expect("no panic");
        let account = early.account.to_string();
        let whole = walk_statement(&client, &account, 7).await;
        assert_eq!(whole.closing, world.balance(&account).await, "{account}");
        assert_eq!(early.entries, whole.entries[..early.entries.len()], "{account}");
        let done = TransactionFilter { states: vec![State::Done], ..by_account(&account) };
        let mut booked: Vec<String> = whole.entries.iter().map(|e| e.id.to_string()).collect();
        let mut listed = walk(&client, &done, 1_000).await;
        booked.sort_unstable();
        listed.sort_unstable();
        assert_eq!(booked, listed, "{account}");
        let mut newest = walk_newest(&client, &account, 7).await;
        newest.reverse();
        assert_eq!(newest, whole.entries, "{account}");
        // A period begins with the balance at its beginning.
        let middle = whole.entries[whole.entries.len() / 2].booked_at.to_system_time();
        let to = Period { to: Some(middle), ..Period::default() };
        let from = Period { from: Some(middle), ..Period::default() };
        let mut before = client.statement(&account, &to, 1_000, None).await.expect("a page");
        while let Some(next) = before.next {
            before = client.statement(&account, &to, 1_000, Some(&next)).await.expect("a page");
        }
        let after = client.statement(&account, &from, 1_000, None).await.expect("a page");
        assert_eq!(before.closing, after.opening, "{account}");
        assert!(after.entries[0].booked_at.to_system_time() >= middle);
    }
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn what_becomes_visible_late_is_in_the_statement_all_the_same() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 0), ("b", 100)]).await;
    let to_a = |id: &str, at: DateTime| stored(&transfer(id, "b", "a", 1), State::Done, at);
    // Nothing is certain for 15 s, so a machine that stands still meanwhile decides nothing.
    let ended = from_now(5_000);
    let before = DateTime::from_millis(ended.timestamp_millis() - 500);
    insert(&world, (0..5).map(|n| to_a(&format!("t{n}"), ended)).collect()).await;
    let first = client.statement("a", &Period::default(), 3, None).await.expect("a page");
    assert!(first.next.is_some(), "there is more than a page");
    // It has ended before them and was not visible.
    insert(&world, vec![to_a("late", before)]).await;
    let (mut told, mut page) = (first.entries.clone(), first);
    let mut balance = Amount::Int(0);
    wait_until("the statement has ended", s(60), async || {
        if let Some(next) = &page.next {
            page = client.statement("a", &Period::default(), 3, Some(next)).await.expect("a page");
            told.extend(page.entries.clone());
        }
        page.next.is_none()
    })
    .await;
    let ids: Vec<&str> = told.iter().map(|entry| &*entry.id).collect();
    assert_eq!(ids, ["late", "t0", "t1", "t2", "t3", "t4"], "in the order of the lines");
    for entry in &told {
        balance = balance.checked_add(entry.amount).expect("an amount");
        assert_eq!(entry.balance, balance);
    }
    world.finish().await;
}

#[tokio::test]
async fn all_reads_of_a_page_see_one_moment() {
    let world = world_with_history().await;
    world.accounts(&[("a", 10), ("b", 10)]).await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    let config = Config { mongodb_uri: uri, ..world.client_config() };
    let client = Client::open(&config).await.expect("two URLs");
    let now = async || client.statement("a", &Period::default(), 10, None).await.expect("a page");
    assert_eq!(now().await.closing, Amount::Int(10));
    // The account is read, and the entries not yet.
    let held = mongodb.hold_about("statement", "by_account", Part::Request);
    let (statement, ()) = tokio::join!(now(), async {
        held.caught(s(20)).await;
        for (id, from, to) in [("debit", "a", "b"), ("credit", "b", "a")] {
            insert(&world, vec![stored(&transfer(id, from, to, 1), State::Done, from_now(0))])
                .await;
        }
        held.release();
    });
    assert_eq!(statement.entries, [], "they were booked after the account was read");
    assert_eq!(now().await.entries.len(), 2);
    world.finish().await;
}

#[tokio::test]
async fn what_was_booked_before_a_period_is_its_opening_however_recent_it_is() {
    let world = world_with_history().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let client = world.client().await;
    let begun = DateTime::now().timestamp_millis();
    let at = |ms: i64| DateTime::from_millis(begun + ms);
    // The sums of what is older than 10 s and of what is not are read apart.
    for (id, value, ms) in [("old", 10, -60_000), ("recent", 3, -1_000), ("now", 1, 0)] {
        let document = stored(&transfer(id, "a", "b", value), State::Done, at(ms));
        insert(&world, vec![document]).await;
    }
    for (from_ms, opening) in [(-90_000, 100), (-30_000, 90), (-500, 87), (1, 86)] {
        let from = Some(at(from_ms).to_system_time());
        let period = Period { from, to: None };
        let told = client.statement("a", &period, 10, None).await.expect("a page");
        assert_eq!((told.opening, told.closing), (opening.into(), 86.into()), "{from_ms}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_sum_beyond_int64_is_exact() {
    let world = world_with_history().await;
    let client = world.client().await;
    world.accounts(&[("a", 5), ("b", 0)]).await;
    let now = from_now(0).timestamp_millis();
    let at = |n: i64| DateTime::from_millis(now - 60_000 + n);
    let huge = |n: i64| match n % 4 {
        0 | 1 => transfer(&format!("t{n}"), "a", "b", Amount::MAX - n),
        2 => transfer(&format!("t{n}"), "b", "a", Amount::MAX),
        _ => legs(&format!("t{n}"), &[("a", Amount::MAX - 1), ("b", 1 - Amount::MAX)]),
    };
    insert(&world, (0..80).map(|n| stored(&huge(n), State::Done, at(n / 16))).collect()).await;
    let debits: i64 = (0..80).filter(|n| n % 4 < 2).sum();
    let from = Period { from: Some(SystemTime::now()), ..Period::default() };
    let statement = client.statement("a", &from, 10, None).await.expect("a page");
    assert_eq!(statement.opening, Amount::Int(5 + debits - 20));
    let whole = walk_statement_sum(&client).await;
    assert_eq!(whole, statement.opening);
    // Here each of two lines has booked more than an Int64 holds.
    world.accounts(&[("c", 5), ("d", 0)]).await;
    let one_way = |n: i64| match n < 16 {
        true => transfer(&format!("u{n}"), "c", "d", Amount::MAX),
        false => transfer(&format!("u{n}"), "d", "c", Amount::MAX - 1),
    };
    insert(&world, (0..32).map(|n| stored(&one_way(n), State::Done, at(n / 16))).collect()).await;
    for (account, sum) in [("c", 5 - 16), ("d", 16)] {
        let statement = client.statement(account, &from, 10, None).await.expect("a page");
        assert_eq!(statement.opening, Amount::Int(sum));
    }
    world.finish().await;
}

/// The closing balance after all pages; balances on the way may be beyond an amount's limit.
async fn walk_statement_sum(client: &Client) -> Amount {
    let mut cursor = None;
    loop {
        let page = client.statement("a", &Period::default(), 9, cursor.as_deref()).await;
        let page = page.expect("a page");
        cursor = page.next;
        if cursor.is_none() {
            return page.closing;
        }
    }
}

#[tokio::test]
async fn newest_first_the_balances_are_right_however_recent_a_page_ends_and_old_pages_lead_back() {
    let world = world_with_history().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let client = world.client().await;
    let begun = DateTime::now().timestamp_millis();
    let at = |ms: i64| DateTime::from_millis(begun + ms);
    // Several in one line, of the last 10 s and from before that.
    for (line, ms) in [(0, -90_000), (1, -60_000), (2, -5_000), (3, -1)] {
        let id = |n: i64| format!("t{line}{n}");
        let transfers = (0..3).map(|n| transfer(&id(n), "a", "b", 1 + line));
        let stored = transfers.map(|one| stored(&one, State::Done, at(ms)));
        insert(&world, stored.collect()).await;
    }
    for limit in [1, 2, 5, 12, 100] {
        let entries = walk_newest(&client, "a", limit).await;
        let ids: Vec<&str> = entries.iter().map(|entry| &*entry.id).collect();
        let expected =
            ["t32", "t31", "t30", "t22", "t21", "t20", "t12", "t11", "t10", "t02", "t01", "t00"];
        assert_eq!(ids, expected, "{limit}");
        assert_eq!((entries[0].balance, entries[11].balance), (70.into(), 99.into()));
    }
    // A period ends with the balance at its end.
    let (from, to) = (Some(at(-60_000).to_system_time()), Some(at(-1).to_system_time()));
    let (period, newest) = (Period { from, to }, StatementOrder::Newest);
    let first = client.statement_ordered("a", &period, newest, 4, None).await.expect("a page");
    assert_eq!((first.opening, first.closing), (93.into(), 82.into()));
    let next = first.next.as_deref();
    let second = client.statement_ordered("a", &period, newest, 4, next).await.expect("a page");
    assert_eq!((second.entries.len(), second.opening), (2, 97.into()));
    assert_eq!(second.next, None);
    // Where the oldest come first, there is a way back, too.
    let oldest = async |cursor: Option<&str>| {
        client.statement("a", &Period::default(), 2, cursor).await.expect("a page")
    };
    let first = oldest(None).await;
    let second = oldest(first.next.as_deref()).await;
    let again = oldest(second.prev.as_deref()).await;
    assert_eq!((&again.entries, &again.prev), (&first.entries, &None));
    assert_eq!((again.opening, again.closing), (first.opening, first.closing));
    assert_eq!(oldest(again.next.as_deref()).await.entries, second.entries);
    let (whole, next) = (Period::default(), first.next.as_deref());
    let refused = client.statement_ordered("a", &whole, newest, 2, next).await;
    assert!(refused.is_err(), "a cursor is of one order");
    world.finish().await;
}
