//! The rules on documents of every state, right and wrong.

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Leg, legs_to_bson};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc, rawdoc};

use super::*;
use crate::keys::key_of;
use crate::raw::EACH_FIELD_ONCE;
use crate::shared::SHARED;

/// An account that opened with 100: its balance, pending sums and marks.
fn account(id: &str, balance: i64, debits: i64, credits: i64, marks: &[&str]) -> Document {
    let account = Account {
        balance: Amount::Int(balance),
        pending_debits: Amount::Int(debits),
        pending_credits: Amount::Int(credits),
        pending_transactions: marks.iter().map(|mark| (*mark).into()).collect(),
        ..Account::new(id, Amount::Int(100))
    };
    account.to_document(DateTime::from_millis(0))
}

/// A transfer of 10 from a to b.
fn transfer(id: &str, state: State) -> Document {
    let body = Body::transfer("a", "b", Amount::Int(10)).expect("valid");
    let mut document = body.to_document(id, DateTime::from_millis(0));
    document.insert("state", Bson::from(state));
    document
}

fn findings(at_rest: bool, accounts: &[Document], transactions: &[Document]) -> Vec<String> {
    closed(at_rest, accounts, transactions)
        .findings
        .into_kept()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document is BSON")
}

fn closed(at_rest: bool, accounts: &[Document], transactions: &[Document]) -> Closed {
    let mut books = Books::new(Collections::default(), at_rest, 100);
    accounts.iter().for_each(|document| books.account(&raw(document)));
    transactions.iter().for_each(|document| books.transaction(&raw(document), Over::All, true));
    let contests = books.take_contests();
    books.compare_keys(&contests, &transactions.iter().filter_map(keyed).collect());
    books.close()
}

#[test]
fn every_lawful_moment_of_a_transfer_balances() {
    let (fresh_a, fresh_b) = (account("a", 100, 0, 0, &[]), account("b", 100, 0, 0, &[]));
    let (posted_a, posted_b) = (account("a", 90, 10, 0, &["t"]), account("b", 100, 0, 10, &["t"]));
    let (settled_a, settled_b) = (account("a", 90, 0, 0, &[]), account("b", 110, 0, 0, &[]));
    for (state, a, b) in [
        (State::Initial, &fresh_a, &fresh_b),
        (State::Pending, &fresh_a, &fresh_b),
        (State::Pending, &posted_a, &fresh_b),
        (State::Pending, &fresh_a, &posted_b),
        (State::Pending, &posted_a, &posted_b),
        (State::Applied, &posted_a, &posted_b),
        (State::Applied, &settled_a, &posted_b),
        (State::Applied, &posted_a, &settled_b),
        (State::Applied, &settled_a, &settled_b),
        (State::Done, &settled_a, &settled_b),
        (State::Canceling, &posted_a, &posted_b),
        (State::Canceling, &fresh_a, &posted_b),
        (State::Canceling, &posted_a, &fresh_b),
        (State::Canceled, &fresh_a, &fresh_b),
    ] {
        let found = findings(false, &[a.clone(), b.clone()], &[transfer("t", state)]);
        assert!(found.is_empty(), "{state}, {a}, {b}: {found:?}");
        let at_rest = findings(true, &[a.clone(), b.clone()], &[transfer("t", state)]);
        assert_eq!(at_rest.is_empty(), state.is_final(), "{state}: {at_rest:?}");
    }
}

#[test]
fn each_violation_names_its_document_and_rule() {
    let (a, b) = (account("a", 100, 0, 0, &[]), account("b", 100, 0, 0, &[]));
    let marked = account("a", 90, 10, 0, &["t"]);
    for (accounts, transactions, expected) in [
        // Credited twice.
        (
            vec![account("a", 90, 0, 0, &[]), account("b", 120, 0, 0, &[])],
            vec![transfer("t", State::Done)],
            vec!["accounts/b: balance is 120, and should be 110 (rule 5)", "sum to 210 "],
        ),
        // A canceled one that kept its debit.
        (
            vec![account("a", 90, 0, 0, &[]), b.clone()],
            vec![transfer("t", State::Canceled)],
            vec!["accounts/a: balance is 90, and should be 100 (rule 5)", "(rule 1)"],
        ),
        (vec![marked.clone(), b.clone()], vec![], vec!["t, which does not exist (rule 4)"]),
        (
            vec![marked.clone(), b.clone()],
            vec![transfer("t", State::Canceled)],
            vec!["accounts/a: has the mark of transactions/t, which is canceled (rule 4)"],
        ),
        (
            vec![a.clone(), b.clone(), account("c", 100, 0, 0, &["t"])],
            vec![transfer("t", State::Pending)],
            vec!["accounts/c: has the mark of transactions/t, which has no leg here (rule 4)"],
        ),
        (
            vec![account("a", 90, 11, 0, &["t"]), b.clone()],
            vec![transfer("t", State::Pending)],
            vec!["accounts/a: pendingDebits is 11, and should be 10 (rule 4)"],
        ),
        (
            vec![account("a", -10, 0, 0, &[]), b.clone()],
            vec![],
            vec!["accounts/a: balance -10 is below the floor 0 (rule 3)"],
        ),
        (
            vec![account("a", 90, 0, 0, &[])],
            vec![transfer("t", State::Done)],
            vec!["transactions/t: is done, and account \"b\" is missing (rule 2)"],
        ),
    ] {
        let found = findings(false, &accounts, &transactions);
        for expected in expected {
            assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
        }
    }
}

#[test]
fn documents_that_make_no_sense_are_named() {
    let a = account("a", 100, 0, 0, &[]);
    let found = findings(false, std::slice::from_ref(&a), &[doc! { "_id": "t", "state": "lost" }]);
    assert!(found[0].starts_with("transactions/t: state \"lost\""), "{found:?}");
    let found = findings(false, &[a], &[doc! { "_id": "t", "state": "done" }]);
    assert!(found[0].starts_with("transactions/t: is done and invalid"), "{found:?}");
    let found = findings(false, &[doc! { "_id": "x", "balance": 1.5 }], &[]);
    let told = "accounts/x: balance: 1.5 is a double with a fraction; write NumberDecimal(\"1.5\")";
    assert!(found[0].starts_with(told), "{found:?}");
}

#[test]
fn accounts_as_others_make_them_balance_before_and_after_their_first_posting() {
    let (a, b) = (doc! { "_id": "a", "balance": 100.0 }, doc! { "_id": "b" });
    assert!(findings(true, &[a, b.clone()], &[transfer("t", State::Initial)]).len() == 1);
    let posted = doc! {
        "_id": "a", "balance": 90_i64, "pendingDebits": 10_i64, "openingBalance": 100_i64,
        "pendingTransactions": ["t"],
    };
    assert_eq!(findings(false, &[posted, b], &[transfer("t", State::Pending)]), [""; 0]);
    let settled = |id: &str, balance: i64, opening: i64| {
        doc! {
            "_id": id, "balance": balance, "openingBalance": opening, "pendingTransactions": [],
        }
    };
    let both = [settled("a", 90, 100), settled("b", 10, 0)];
    assert_eq!(findings(true, &both, &[transfer("t", State::Done)]), [""; 0]);
    // A balance that has an effect of a transaction, and no opening.
    let unstamped = [doc! { "_id": "a", "balance": 90_i64 }, settled("b", 10, 0)];
    let found = findings(true, &unstamped, &[transfer("t", State::Done)]);
    assert!(found.iter().any(|line| line.contains("accounts/a: balance is 90")), "{found:?}");
}

#[test]
fn an_invalid_transaction_that_is_canceled_breaks_no_rule() {
    let invalid = doc! { "_id": "t", "state": "canceled", "source": "a" };
    assert!(findings(true, &[account("a", 100, 0, 0, &[])], &[invalid]).is_empty());
}

#[test]
fn money_that_changes_its_currency_is_found() {
    let mut euros = account("b", 110, 0, 0, &[]);
    euros.insert("currency", "EUR");
    let found =
        findings(true, &[account("a", 90, 0, 0, &[]), euros], &[transfer("t", State::Done)]);
    assert_eq!(found.iter().filter(|line| line.contains("(rule 1)")).count(), 2, "{found:?}");
}

#[test]
fn violations_beyond_the_limit_are_counted() {
    let mut books = Books::new(Collections::default(), false, 1);
    for id in ["a", "b", "c"] {
        books.account(&raw(&account(id, -1, 0, 0, &[])));
    }
    let findings = books.close().findings;
    // Balance and floor of each, and the sum.
    assert_eq!(findings.count(), 7);
    assert_eq!(findings.into_kept().len(), 1);
}

#[test]
fn a_document_that_can_not_be_read_is_a_finding_of_its_own() {
    // 0xff is in no valid text.
    let mut bytes = rawdoc! { "_id": "?", "state": "done" }.into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'?').expect("it is there");
    bytes[at] = 0xff;
    let spoiled = RawDocumentBuf::from_bytes(bytes).expect("the lengths are right");
    let long = "x".repeat(9_000_000);
    let mut books = Books::new(Collections::default(), false, 100);
    books.account(&spoiled);
    books.account(&raw(&doc! { "_id": { "n": 7 }, "status": &long }));
    books.transaction(&spoiled, Over::All, true);
    for document in [
        doc! { "_id": 7, "state": &long },
        doc! { "_id": &long, "state": "done" },
        doc! { "_id": "t", "state": "canceled", EACH_FIELD_ONCE: false },
    ] {
        books.transaction(&raw(&document), Over::All, true);
    }
    let found = books.close().findings.into_kept();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "accounts/\u{fffd} (not valid text): _id is not valid text",
        "accounts/{ \"n\": 7 } (no text): _id is of the type EmbeddedDocument, and no text",
        "transactions/\u{fffd} (not valid text): is done and invalid",
        "transactions/7 (no text): state \"xxx",
        "transactions/xxx",
        "transactions/t: has a field twice",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected) && found.len() < 1_500, "{expected}: {found}");
    }
}

#[test]
fn parked_transactions_are_counted_and_named_and_what_they_hold_is_explained() {
    let accounts = [account("a", 90, 10, 0, &["t"]), account("b", 100, 0, 10, &["t"])];
    let mut parked = transfer("t", State::Pending);
    parked.insert("parked", doc! { "code": "account_unreadable", "message": "why" });
    let live = closed(false, &accounts, std::slice::from_ref(&parked));
    assert_eq!((live.parked.count, live.parked.ids), (1, vec!["t".to_owned()]));
    assert_eq!(live.findings.count(), 0);
    let at_rest = findings(true, &accounts, &[parked]);
    let still = "transactions/t: is still pending and parked (rule 2)";
    assert!(at_rest.iter().any(|line| line == still), "{at_rest:?}");
}

/// A hold of 10 from a to b; if it is confirmed, so much of it is captured.
fn hold(state: State, captured: Option<i64>) -> Document {
    let mut document = transfer("t", state);
    document.insert("hold", true);
    if let Some(captured) = captured {
        let leg = |account: &str, amount| Leg { account: account.into(), amount };
        let legs = [leg("a", Amount::Int(-captured)), leg("b", Amount::Int(captured))];
        document.insert("captured", legs_to_bson(&legs));
    }
    document
}

/// Account a with the mark of a hold of 10.
fn held() -> Document {
    let mut account = account("a", 90, 10, 0, &["t"]);
    account.insert("pendingHolds", 1);
    account
}

#[test]
fn every_lawful_moment_of_a_hold_balances() {
    let (fresh_a, fresh_b) = (account("a", 100, 0, 0, &[]), account("b", 100, 0, 0, &[]));
    let (home, spent) = (account("a", 97, 0, 0, &[]), account("a", 90, 0, 0, &[]));
    let (posted, paid) = (account("b", 100, 0, 3, &["t"]), account("b", 103, 0, 0, &[]));
    let (posted_all, paid_all) = (account("b", 100, 0, 10, &["t"]), account("b", 110, 0, 0, &[]));
    let (part, all) = (Some(3), Some(10));
    for (state, captured, a, b) in [
        (State::Scheduled, None, &fresh_a, &fresh_b),
        (State::Initial, None, &fresh_a, &fresh_b),
        (State::Pending, None, &fresh_a, &fresh_b),
        (State::Pending, None, &held(), &fresh_b),
        (State::Held, None, &held(), &fresh_b),
        (State::Pending, part, &held(), &fresh_b),
        (State::Pending, part, &held(), &posted),
        (State::Applied, part, &held(), &posted),
        (State::Applied, part, &home, &posted),
        (State::Applied, part, &held(), &paid),
        (State::Applied, part, &home, &paid),
        (State::Done, part, &home, &paid),
        (State::Applied, all, &held(), &posted_all),
        (State::Applied, all, &spent, &posted_all),
        (State::Done, all, &spent, &paid_all),
        // Released or expired, or canceled after it was confirmed.
        (State::Canceling, None, &held(), &fresh_b),
        (State::Canceling, None, &fresh_a, &fresh_b),
        (State::Canceling, part, &held(), &posted),
        (State::Canceling, part, &fresh_a, &posted),
        (State::Canceling, part, &held(), &fresh_b),
        (State::Canceled, None, &fresh_a, &fresh_b),
        (State::Canceled, part, &fresh_a, &fresh_b),
    ] {
        let (accounts, hold) = ([a.clone(), b.clone()], [hold(state, captured)]);
        let found = findings(false, &accounts, &hold);
        assert!(found.is_empty(), "{state}, {captured:?}, {a}, {b}: {found:?}");
        let at_rest = findings(true, &accounts, &hold);
        let rests = state.is_final() || state.is_resting();
        assert_eq!(at_rest.is_empty(), rests, "{state}: {at_rest:?}");
    }
}

#[test]
fn what_is_wrong_with_a_hold_is_named() {
    let b = account("b", 100, 0, 0, &[]);
    let (home, spent) = (account("a", 97, 0, 0, &[]), account("a", 90, 0, 0, &[]));
    let (posted, paid) = (account("b", 100, 0, 3, &["t"]), account("b", 103, 0, 0, &[]));
    let mut uncounted = held();
    uncounted.remove("pendingHolds");
    let mut garbled = held();
    garbled.insert("pendingHolds", "one");
    let mut counted_on = home.clone();
    counted_on.insert("pendingHolds", 1_i64);
    for (a, b, hold, expected) in [
        // Settled without the remainder: 7 of the held 10 are nowhere.
        (&spent, &paid, hold(State::Done, Some(3)), "accounts/a: balance is 90, and should be 97"),
        (&spent, &paid, hold(State::Done, Some(3)), "balances sum to 193 with what is held"),
        (&spent, &posted, hold(State::Applied, Some(3)), "balance is 90, and should be 97"),
        // Paid in full, though only a part was captured.
        (
            &spent,
            &account("b", 110, 0, 0, &[]),
            hold(State::Done, Some(3)),
            "accounts/b: balance is 110, and should be 103",
        ),
        // Its credit was posted before it was confirmed.
        (
            &held(),
            &account("b", 100, 0, 10, &["t"]),
            hold(State::Held, None),
            "accounts/b: has the mark of transactions/t, which is a hold that has captured nothing",
        ),
        (
            &account("a", 100, 0, 0, &[]),
            &b,
            hold(State::Held, None),
            "transactions/t: is held, and account \"a\" lacks its mark (rule 4)",
        ),
        (&uncounted, &b, hold(State::Held, None), "pendingHolds is 0, and should be 1 (rule 4)"),
        (&garbled, &b, hold(State::Held, None), "pendingHolds is no whole number (rule 4)"),
        (&counted_on, &paid, hold(State::Done, Some(3)), "pendingHolds is 1, and should be 0"),
        (&held(), &b, transfer("t", State::Held), "is held and not submitted as a hold (rule 2)"),
        (&held(), &b, hold(State::Held, Some(3)), "is held and confirmed (rule 2)"),
        (&spent, &b, hold(State::Applied, None), "is applied and a hold that was never confirmed"),
    ] {
        let found = findings(false, &[a.clone(), b.clone()], std::slice::from_ref(&hold));
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn at_rest_only_the_marks_of_what_is_held_may_be_left() {
    let mut a = account("a", 80, 20, 0, &["t", "left"]);
    a.insert("pendingHolds", 1);
    let mut left = transfer("left", State::Pending);
    left.insert("destination", "a2");
    let accounts = [a, account("b", 100, 0, 0, &[])];
    let found = findings(true, &accounts, &[hold(State::Held, None), left]);
    let expected =
        ["transactions/left: is still pending (rule 2)", "accounts/a: 1 marks are left (rule 4)"];
    assert_eq!(found, expected);
    let closed = closed(true, &[held(), accounts[1].clone()], &[hold(State::Held, None)]);
    assert_eq!((closed.in_flight, closed.resting, closed.findings.count()), (0, 1, 0));
}

#[test]
fn a_key_that_two_undecided_transactions_have_is_found() {
    let accounts = [account("a", 100, 0, 0, &[]), account("b", 100, 0, 0, &[])];
    let keyed = |id: &str, state| {
        let mut document = transfer(id, state);
        document.insert("exclusiveKey", "a-for-b");
        document
    };
    for state in State::ALL {
        let found = findings(false, &accounts, &[keyed("t", State::Initial), keyed("u", state)]);
        let of_keys = found.iter().filter(|found| found.ends_with("(rule 9)")).count();
        assert_eq!(of_keys, usize::from(State::UNDECIDED.contains(&state)), "{state}: {found:?}");
    }
    let both = [keyed("t", State::Initial), keyed("u", State::Scheduled)];
    let found = findings(false, &accounts, &both);
    let expected = "transactions/u: has the exclusive key \"a-for-b\", as transactions/t (rule 9)";
    assert_eq!(found, [expected]);
}

fn keyed(document: &Document) -> Option<(String, String)> {
    let document = raw(document);
    key_of(&document).map(|key| (id_of(&document), key.to_owned()))
}

#[test]
fn a_key_that_passes_from_one_transaction_to_the_next_is_no_violation() {
    let mut books = Books::new(Collections::default(), false, 100);
    let keyed = |id: &str| {
        let mut document = transfer(id, State::Initial);
        document.insert("exclusiveKey", "a-for-b");
        raw(&document)
    };
    books.transaction(&keyed("t"), Over::All, true);
    books.changed_since(&keyed("u"));
    let contests = books.take_contests();
    assert_eq!(contests.len(), 1);
    books.compare_keys(&contests, &HashSet::from([("t".to_owned(), "another".to_owned())]));
    assert_eq!(books.close().findings.count(), 0);
}

#[test]
fn a_transaction_that_has_changed_since_the_moment_is_counted_and_has_no_effect() {
    let mut books = Books::new(Collections::default(), false, 100);
    for id in ["a", "b"] {
        books.account(&raw(&account(id, 100, 0, 0, &[])));
    }
    for state in State::ALL {
        books.changed_since(&raw(&transfer(&format!("t-{state}"), state)));
    }
    books.pass(3);
    let closed = books.close();
    assert_eq!(closed.findings.count(), 0, "{:?}", closed.findings.into_kept());
    assert_eq!((closed.transactions, closed.in_flight, closed.resting), (11, 4, 2));
}

/// What is unexplained of account "1", which opened with 100 and holds 450, and how much its rules
/// and sums are broken, once these adjustments were taken in: amounts, and seconds.
fn adjusted(adjustments: &[(i64, u32)]) -> (Vec<(i128, u64)>, u64) {
    let at = |time| Timestamp { time, increment: 1 };
    let mut books = Books::new(SHARED, false, 100);
    books.account(&raw(&account("1", 450, 0, 0, &[])));
    for (amount, seen_at) in adjustments {
        let (nanos, seen_at) = (Amount::Int(*amount).nanos(), at(*seen_at));
        books.adjust("l", Adjustment { account: "1", nanos, seen_at }, &[at(7)]);
    }
    let closed = books.close();
    let told = closed.differences.iter().map(|one| (one.nanos / 1_000_000_000, one.adjustments));
    (told.collect(), closed.findings.count())
}

#[test]
fn where_others_write_a_difference_is_no_violation_and_an_adjustment_explains_it() {
    assert_eq!(adjusted(&[]), (vec![(350, 0)], 0));
    assert_eq!(adjusted(&[(300, 6)]), (vec![(50, 1)], 0));
    assert_eq!(adjusted(&[(300, 6), (50, 7)]), (vec![], 0));
    assert_eq!(adjusted(&[(360, 7)]), (vec![(-10, 1)], 0));
}

#[test]
fn where_an_opening_is_gone_somebody_has_replaced_the_account_and_nothing_is_absorbed() {
    let at = Timestamp { time: 6, increment: 1 };
    for (is_opened, rules) in [(true, vec![]), (false, vec![Rule::Balance])] {
        let mut stored = account("1", 450, 0, 0, &[]);
        if !is_opened {
            stored.remove("openingBalance");
        }
        let mut books = Books::new(SHARED, false, 100);
        books.account(&raw(&stored));
        let nanos = Amount::Int(300).nanos();
        books.adjust("l", Adjustment { account: "1", nanos, seen_at: at }, &[at]);
        let closed = books.close();
        assert_eq!(closed.differences.len(), usize::from(is_opened));
        let found = closed.findings.into_kept();
        let of_account = found.iter().filter(|one| one.document == "accounts/1");
        assert_eq!(of_account.map(|one| one.rule).collect::<Vec<_>>(), rules, "{found:?}");
    }
}

#[test]
fn what_was_adjusted_after_the_account_was_read_says_nothing_about_it() {
    assert_eq!(adjusted(&[(350, 8)]), (vec![], 0));
    assert_eq!(adjusted(&[(300, 6), (1_000, 8)]), (vec![], 0));
}

#[test]
fn an_adjustment_of_an_account_that_is_not_there_is_named() {
    let at = |time| Timestamp { time, increment: 1 };
    let mut books = Books::new(SHARED, false, 100);
    books.adjust("l", Adjustment { account: "1", nanos: 1, seen_at: at(7) }, &[at(7)]);
    books.adjust("m", Adjustment { account: "2", nanos: 1, seen_at: at(8) }, &[at(7)]);
    let found = books.close().findings.into_kept();
    let named: Vec<_> = found.iter().map(|one| (one.rule, one.document.as_str())).collect();
    assert_eq!(named, [(Rule::Line, "tandem.journal/l")]);
}
