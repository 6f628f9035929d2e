//! Books whose accounts were read at different moments, over all pairs of moments of a
//! transaction's life.

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, legs_to_bson};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf};

use super::books::Books;
use super::chunks::Over;
use super::findings::Finding;

/// What the documents are at one moment.
#[derive(Clone)]
struct Scene {
    state: State,
    captured: Option<i64>,
    a: Account,
    b: Account,
}

fn account(id: &str) -> Account {
    Account::new(id, Amount::Int(100))
}

/// The life of a transfer of 10 from a to b, or of a hold, in scenes: each step changes one
/// document.
fn life(is_hold: bool, steps: &str) -> Vec<Scene> {
    let start = Scene { state: State::Initial, captured: None, a: account("a"), b: account("b") };
    let mut scenes = vec![start];
    for step in steps.split(' ') {
        let mut next = scenes.last().expect("there is the first").clone();
        let effect = if is_hold { next.captured.unwrap_or(0) } else { 10 };
        let (a, b) = (&mut next.a, &mut next.b);
        match step {
            "post-a" => {
                (a.balance, a.pending_debits) = (Amount::Int(90), Amount::Int(10));
                a.pending_transactions.insert("t".into());
            }
            "post-b" => {
                b.pending_credits = Amount::Int(effect);
                b.pending_transactions.insert("t".into());
            }
            "settle-a" => *a = Account { balance: Amount::Int(100 - effect), ..account("a") },
            "settle-b" => *b = Account { balance: Amount::Int(100 + effect), ..account("b") },
            "undo-a" => *a = account("a"),
            "undo-b" => *b = account("b"),
            "capture" => (next.state, next.captured) = (State::Pending, Some(4)),
            state => next.state = State::parse(state).expect("a step or a state"),
        }
        scenes.push(next);
    }
    scenes
}

fn lives() -> Vec<(bool, Vec<Scene>)> {
    [
        (false, "pending post-a post-b applied settle-a settle-b done"),
        (false, "pending post-b post-a applied settle-b settle-a done"),
        (false, "pending post-a canceling undo-a canceled"),
        (false, "pending post-b post-a canceling undo-b undo-a canceled"),
        (true, "pending post-a held"),
        (true, "pending post-a held capture post-b applied settle-a settle-b done"),
        (true, "pending post-a held capture post-b canceling undo-b undo-a canceled"),
        (true, "pending post-a held canceling undo-a canceled"),
    ]
    .into_iter()
    .map(|(is_hold, steps)| (is_hold, life(is_hold, steps)))
    .collect()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document is BSON")
}

fn raw_account(account: &Account, is_hold: bool, id: &str) -> RawDocumentBuf {
    let mut document = account.to_document(DateTime::from_millis(0));
    let holds = is_hold && id == "a" && !account.pending_transactions.is_empty();
    document.insert("pendingHolds", i64::from(holds));
    raw(&document)
}

fn raw_transaction(scene: &Scene, is_hold: bool) -> RawDocumentBuf {
    let body = Body::transfer("a", "b", Amount::Int(10)).expect("valid");
    let mut document = body.to_document("t", DateTime::from_millis(0));
    document.insert("state", Bson::from(scene.state));
    if is_hold {
        document.insert("hold", true);
    }
    if let Some(captured) = scene.captured {
        let leg = |account: &str, amount| Leg { account: account.into(), amount };
        let legs = [leg("a", Amount::Int(-captured)), leg("b", Amount::Int(captured))];
        document.insert("captured", legs_to_bson(&legs));
    }
    raw(&document)
}

/// Whether the audit reads the transaction with a piece.
fn is_read(scene: &Scene, account: &Account) -> bool {
    State::IN_FLIGHT.contains(&scene.state) || !account.pending_transactions.is_empty()
}

/// Audits a at one moment and b at a later one, and reads the transaction at its end, as an audit
/// does.
fn audit(is_hold: bool, scenes: &[Scene], moments: [usize; 2], excess: i64) -> Vec<Finding> {
    let mut books = Books::new(false, 100);
    let mut seen = Vec::new();
    for (piece, moment) in moments.into_iter().enumerate() {
        let scene = &scenes[moment];
        let mut account = if piece == 0 { scene.a.clone() } else { scene.b.clone() };
        let read = is_read(scene, &account);
        let Amount::Int(balance) = account.balance else { unreachable!("all are whole") };
        account.balance = Amount::Int(balance + excess * i64::try_from(piece).expect("small"));
        let (id, end) = [("a", Some("a".to_owned())), ("b", None)][piece].clone();
        books.account(&raw_account(&account, is_hold, id));
        books.accounts.end(end);
        if read {
            let transaction = raw_transaction(scene, is_hold);
            books.transaction(&transaction, Over::Only(&[piece]), seen.is_empty());
            seen.push(piece);
        }
        books.end_piece();
    }
    let (end, last) = (scenes.len() - 1, scenes.last().expect("it has an end"));
    // What is canceled had no effect at any moment at which it was not read; what is done or held
    // had none before.
    let stood = |piece: &usize| last.state == State::Canceled || moments[*piece] == end;
    let stood: Vec<usize> = (0..2).filter(|piece| !seen.contains(piece)).filter(stood).collect();
    let over = if stood.len() == 2 { Over::All } else { Over::Only(&stood) };
    books.transaction(&raw_transaction(last, is_hold), over, seen.is_empty());
    books.close().findings.into_kept()
}

#[test]
fn accounts_that_were_read_at_different_moments_balance_whatever_a_transaction_did_between() {
    let mut audits = 0;
    for (is_hold, scenes) in lives() {
        for first in 0..scenes.len() {
            for second in first..scenes.len() {
                let found = audit(is_hold, &scenes, [first, second], 0);
                assert_eq!(found, [], "{is_hold} {first} {second}");
                audits += 1;
            }
        }
    }
    assert!(audits > 150, "{audits}");
}

#[test]
fn one_unit_too_much_is_found_at_any_pair_of_moments() {
    for (is_hold, scenes) in lives() {
        for first in 0..scenes.len() {
            for second in first..scenes.len() {
                let found = audit(is_hold, &scenes, [first, second], 1);
                let found: Vec<&str> = found.iter().map(|one| one.document.as_str()).collect();
                let expected = ["accounts/b", "accounts (no currency)"];
                assert_eq!(found, expected, "{is_hold} {first} {second}");
            }
        }
    }
}

#[test]
fn accounts_that_are_forgotten_and_read_anew_are_counted_once() {
    let mut books = Books::new(false, 100);
    let (a, mut b) = (account("a"), account("b"));
    b.pending_transactions.insert("nobody".into());
    books.account(&raw_account(&a, false, "a"));
    books.accounts.end(Some("a".to_owned()));
    books.end_piece();
    for _ in 0..3 {
        books.account(&raw_account(&b, false, "b"));
        books.account(&raw(&mongodb::bson::doc! { "_id": "broken" }));
        books.forget_accounts();
    }
    books.account(&raw_account(&account("b"), false, "b"));
    books.accounts.end(None);
    let scenes = life(false, "pending post-a post-b applied settle-a settle-b done");
    let done = raw_transaction(scenes.last().expect("it has an end"), false);
    books.transaction(&done, Over::Only(&[]), true);
    let closed = books.close();
    assert_eq!(closed.accounts, 2);
    assert_eq!(closed.findings.into_kept(), []);
}
