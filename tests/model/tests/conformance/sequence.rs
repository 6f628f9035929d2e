//! What is run against both sides: accounts, transactions, and operations on them.
//!
//! Owns the ranges. Few accounts, transactions and claimants, so that they collide; amounts small,
//! or at the edges of what an amount may be. Times lie hours in the past or in the future, so that
//! neither side can be a moment late. The names are such that an unquoted one would be taken for a
//! field path.

use std::collections::BTreeSet;
use std::fmt;

use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::event::End;
use ledger::transaction::{Body, Leg, ReasonCode, Terms};
use ledger::{Commit, RemovalKind};
use mongodb::bson::{DateTime, rawdoc};
use proptest::array::uniform6;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::chance::{claimant, entitled, grouping, guard, ids, operation};
use crate::operation::{
    Claimant, Entitled, Grouping, KEYS, LARGE, Lease, Operation, TRANSACTIONS, When,
};
use crate::schemas::Names;
use crate::written::{Others, Ways, others};

/// The documents and operations of one sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The accounts at the start.
    pub accounts: Vec<Account>,
    /// How each of them is stored.
    pub stored: Vec<Others>,
    /// What the transactions ask for, by index.
    pub bodies: Vec<Body>,
    /// What is done, in this order.
    pub operations: Vec<Operation>,
    /// What accounts and transactions are called.
    pub names: &'static Names,
}

/// All sequences of up to so many operations.
pub fn sequences(operations_max: usize, names: &'static Names) -> impl Strategy<Value = Sequence> {
    let [a, b, c, d, _] = names.accounts;
    let accounts = [a, b, c, d].map(|name| (account(name), ways()));
    let key = prop::option::weighted(0.4, select(&KEYS[..]));
    let bodies = vec((body(names), terms(), key).prop_map(on_terms), TRANSACTIONS.len());
    let parts = vec(part(), 1..=operations_max);
    (accounts, bodies, parts).prop_map(move |(accounts, mut bodies, parts)| {
        bodies[LARGE] = large(names);
        let operations = parts.into_iter().flatten().take(operations_max).collect();
        let stored = accounts.iter().map(|(account, ways)| others(account, ways)).collect();
        let accounts = accounts.into_iter().map(|(account, _)| account).collect();
        Sequence { accounts, stored, bodies, operations, names }
    })
}

/// What may be scheduled is put forward, and becomes due.
fn becomes_due(at: usize) -> Vec<Operation> {
    vec![
        Operation::Insert { transaction: at, content: at },
        Operation::Reschedule(at, When::Past),
        Operation::MakeDue(vec![at]),
    ]
}

/// A moment long before every sequence, and two long after.
const MOMENTS: [i64; 3] = [946_684_800_000, 4_102_444_800_000, 4_102_444_900_000];

/// When a transaction is due, and when it expires.
fn terms() -> impl Strategy<Value = Terms> {
    let [past, future, later] = MOMENTS.map(|moment| Some(DateTime::from_millis(moment)));
    let terms = |not_before, expires_at| Terms { not_before, expires_at, ..Terms::default() };
    prop_oneof![
        4 => Just(Terms::default()),
        1 => Just(terms(None, past)),
        1 => Just(terms(None, future)),
        1 => Just(terms(future, None)),
        1 => Just(terms(future, later)),
    ]
}

fn on_terms((body, moments, key): (Body, Terms, Option<&str>)) -> Body {
    let Terms { hold, hold_expires_at, .. } = body.terms().clone();
    let fits = |end: &DateTime| moments.not_before.is_none_or(|not_before| not_before < *end);
    let hold_expires_at = hold_expires_at.filter(fits);
    let exclusive_key = key.map(str::to_owned);
    let terms = Terms { hold, hold_expires_at, exclusive_key, ..moments };
    body.with_terms(terms).expect("they fit each other")
}

/// One operation, the same twice as a client would send it again, or all that a worker does with a
/// batch except for a few steps: random operations alone would rarely bring a transaction to its
/// end.
fn part() -> impl Strategy<Value = Vec<Operation>> {
    let kept = || uniform6(prop::bool::weighted(0.85));
    let batch = || (ids(), claimant(), grouping(), kept());
    let ending = || (batch(), entitled());
    prop_oneof![
        14 => operation().prop_map(|operation| vec![operation]),
        2 => (0..TRANSACTIONS.len()).prop_map(becomes_due),
        2 => operation().prop_map(|operation| vec![operation; 2]),
        3 => (ending(), guard()).prop_map(|(((ids, by, g, kept), l), guard)| {
            some_of(settled((&ids, guard), by, g, l), kept)
        }),
        2 => (ids(), ids(), claimant(), kept(), entitled())
            .prop_map(|(first, second, by, kept, l)| some_of(riding(&first, &second, by, l), kept)),
        2 => ending().prop_map(|((ids, by, g, kept), l)| some_of(undone(&ids, by, g, l), kept)),
        2 => batch().prop_map(|(ids, by, g, kept)| some_of(held(&ids, by, g), kept)),
        2 => (0..TRANSACTIONS.len(), claimant(), entitled())
            .prop_map(|(at, by, under)| captured(at, by, under)),
        2 => ids().prop_map(|ids| submitted_and_expired(&ids)),
        1 => ids().prop_map(|ids| parked_and_brought_back(&ids)),
        2 => (0..TRANSACTIONS.len(), 0..TRANSACTIONS.len())
            .prop_map(|(first, second)| one_after_the_other(first, second)),
    ]
}

fn some_of(operations: [Operation; 6], kept: [bool; 6]) -> Vec<Operation> {
    operations.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(each, _)| each).collect()
}

fn post(ids: &[usize], grouping: Grouping) -> Operation {
    Operation::Post { ids: ids.into(), grouping, before: When::Future, settled: Vec::new() }
}

/// A submission, and a sweeper that looks whether it has expired.
fn submitted_and_expired(ids: &[usize]) -> Vec<Operation> {
    vec![
        Operation::Insert { transaction: ids[0], content: ids[0] },
        Operation::Expire(ids.to_vec()),
    ]
}

/// Two submissions. If they have one key, the second is refused until the first is decided.
fn one_after_the_other(first: usize, second: usize) -> Vec<Operation> {
    let insert = |at: usize| Operation::Insert { transaction: at, content: at };
    vec![insert(first), insert(second), Operation::RequestCancel(first), insert(second)]
}

/// A submission that is set apart, and an operator who brings it back.
fn parked_and_brought_back(ids: &[usize]) -> Vec<Operation> {
    vec![
        Operation::Insert { transaction: ids[0], content: ids[0] },
        Operation::ParkById(ids.to_vec()),
        Operation::Unpark(ids[0]),
    ]
}

/// A batch of holds that rest, are confirmed, and are settled.
fn held(ids: &[usize], by: Claimant, grouping: Grouping) -> [Operation; 6] {
    [
        Operation::Insert { transaction: ids[0], content: ids[0] },
        Operation::Claim(ids.into(), by, Lease::Over),
        post(ids, grouping),
        Operation::Rest(ids.into(), by, When::Past),
        Operation::Confirm(ids[0]),
        Operation::Remove(RemovalKind::Settle, ids.into(), grouping),
    ]
}

/// One transaction that is confirmed if it is a hold, and ends: then its line says what was
/// captured.
fn captured(at: usize, by: Claimant, under: Entitled) -> Vec<Operation> {
    let ids = || vec![at];
    vec![
        Operation::Insert { transaction: at, content: at },
        Operation::Claim(ids(), by, Lease::Over),
        post(&ids(), Grouping::PerAccount),
        Operation::Rest(ids(), by, When::Past),
        Operation::Confirm(at),
        Operation::Claim(ids(), by, Lease::Over),
        Operation::Commit(Commit::AnyTime, ids(), by),
        Operation::Remove(RemovalKind::Settle, ids(), Grouping::PerAccount),
        ended(&ids(), End::Done, by, under),
    ]
}

fn ended(ids: &[usize], end: End, by: Claimant, under: Entitled) -> Operation {
    Operation::End(ids.iter().map(|at| (*at, end)).collect(), by, under)
}

/// Two batches, the settlements of the first riding on the posts of the second.
fn riding(first: &[usize], second: &[usize], by: Claimant, under: Entitled) -> [Operation; 6] {
    let both: BTreeSet<usize> = first.iter().chain(second).copied().collect();
    [
        Operation::Insert { transaction: first[0], content: first[0] },
        Operation::Claim(both.into_iter().collect(), by, Lease::Over),
        post(first, Grouping::PerAccount),
        Operation::Commit(Commit::AnyTime, first.into(), by),
        Operation::Post {
            ids: second.into(),
            grouping: Grouping::PerAccount,
            before: When::Future,
            settled: first.into(),
        },
        ended(&first[..1], End::Done, by, under),
    ]
}

fn settled(
    (ids, guard): (&[usize], Commit),
    by: Claimant,
    grouping: Grouping,
    under: Entitled,
) -> [Operation; 6] {
    [
        Operation::Insert { transaction: ids[0], content: ids[0] },
        Operation::Claim(ids.into(), by, Lease::Over),
        post(ids, grouping),
        Operation::Commit(guard, ids.into(), by),
        Operation::Remove(RemovalKind::Settle, ids.into(), grouping),
        ended(&ids[..ids.len().min(2)], End::Done, by, under),
    ]
}

fn undone(ids: &[usize], by: Claimant, grouping: Grouping, under: Entitled) -> [Operation; 6] {
    let refused = ids.iter().map(|at| (*at, ReasonCode::InsufficientFunds)).collect();
    [
        Operation::Insert { transaction: ids[0], content: ids[0] },
        Operation::Claim(ids.into(), by, Lease::Over),
        post(ids, Grouping::FirstLeg),
        Operation::Cancel(refused, by),
        Operation::Remove(RemovalKind::Undo, ids.into(), grouping),
        ended(&ids[..ids.len().min(2)], End::Canceled, by, under),
    ]
}

fn int(units: &'static [i64]) -> impl Strategy<Value = Amount> {
    select(units).prop_map(Amount::Int)
}

fn decimal(texts: &'static [&'static str]) -> impl Strategy<Value = Amount> {
    select(texts).prop_map(|text| Amount::parse_decimal(text).expect("an amount"))
}

const MAX: i64 = Amount::MAX;

fn account(name: &'static str) -> impl Strategy<Value = Account> {
    let balance = prop_oneof![
        6 => int(&[10, 0, 1, 5, 7, 15, 100, -5]),
        2 => int(&[MAX, MAX - 1, MAX - 10, MAX / 2, -MAX, 10 - MAX]),
        2 => decimal(&["10", "0", "0.000000001", "1.50", "99.99", "-0.01"]),
        1 => decimal(&["1000000000000000000", "999999999999999999.999999999"]),
    ];
    let floor = prop_oneof![
        3 => Just(Some(Amount::ZERO)),
        2 => Just(None),
        2 => int(&[5, -1, -10, 10, -MAX]).prop_map(Some),
        1 => decimal(&["0.0", "-0.5", "-0.000000001", "8.5"]).prop_map(Some),
    ];
    let status = prop_oneof![
        12 => Just(Status::Open),
        1 => Just(Status::Frozen),
        1 => Just(Status::Closed),
    ];
    (balance, floor, status, currency()).prop_map(move |(balance, floor, status, currency)| {
        // An account with a whole balance has whole numbers only.
        let mixed = |floor: Amount| balance.is_int() && !floor.is_int();
        let floor = floor.map(|floor| if mixed(floor) { Amount::ZERO } else { floor });
        Account { floor, status, currency, ..Account::new(name, balance) }
    })
}

/// How the fields of an account are stored: half of the accounts as Tandem writes them.
fn ways() -> impl Strategy<Value = Ways> {
    let own = u8::MAX;
    prop_oneof![1 => Just([own; 7]), 1 => any::<Ways>().prop_map(|ways| ways.map(|way| way % 6))]
}

fn currency() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        8 => Just(None),
        2 => Just(Some("$currency".to_owned())),
        1 => Just(Some("EUR".to_owned())),
    ]
}

fn body(names: &'static Names) -> impl Strategy<Value = Body> {
    let small = int(&[1, 2, 5, 7, 10]);
    let large = int(&[MAX, MAX - 1, MAX / 2]);
    let fine = decimal(&["1", "0.000000001", "0.01", "1.50", "10", "1000000000000000000"]);
    // The third leg takes part of the second, which is larger.
    let values = prop_oneof![
        8 => (small, Just(Amount::Int(1))),
        1 => (large, Just(Amount::Int(3))),
        3 => (fine, decimal(&["0.000000001", "0.5"])),
    ];
    let accounts = subsequence(names.accounts.to_vec(), 2..=3).prop_shuffle();
    (accounts, values, currency(), prop::bool::weighted(0.2), holding()).prop_map(
        move |(accounts, (value, part), currency, tagged, terms)| {
            let body = legs(&accounts, value, part).in_currency(currency);
            let mut body = body.with_terms(terms).expect("a hold or none");
            if tagged {
                body.metadata = Some(rawdoc! { "path": "$balance" });
                body.reverses = Some(names.reversed.to_owned());
            }
            body
        },
    )
}

/// On hold or not; and if so, without an end, expired for long, or not for long.
fn holding() -> impl Strategy<Value = Terms> {
    let end = select(&[None, Some(1_000), Some(250_000_000_000_000)][..]);
    (prop::bool::weighted(0.3), end).prop_map(|(hold, end)| Terms {
        hold,
        hold_expires_at: end.filter(|_| hold).map(DateTime::from_millis),
        ..Terms::default()
    })
}

/// Money from many accounts to one that exists.
fn large(names: &Names) -> Body {
    let leg =
        |account: String, amount| Leg { account: account.into(), amount: Amount::Int(amount) };
    let mut legs: Vec<_> = names.many().map(|account| leg(account, -1)).collect();
    let sum = i64::try_from(legs.len()).expect("a few");
    legs.push(leg(names.accounts[0].to_owned(), sum));
    Body::new(legs).expect("the legs sum to zero")
}

fn legs(accounts: &[&str], value: Amount, part: Amount) -> Body {
    let rest = value.checked_add(part.negated()).filter(|rest| *rest > Amount::ZERO);
    let amounts = match (accounts.len(), rest) {
        (2, _) => vec![value.negated(), value],
        (_, Some(rest)) => vec![value.negated(), rest, part],
        (_, None) => {
            let sum = value.checked_add(part).expect("both are small");
            vec![value, sum.negated(), part]
        }
    };
    let leg = |(account, amount): (&&str, Amount)| Leg { account: (*account).into(), amount };
    Body::new(accounts.iter().zip(amounts).map(leg).collect()).expect("the legs sum to zero")
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (account, stored) in self.accounts.iter().zip(&self.stored) {
            let floor = account.floor.map_or("none".to_owned(), |floor| floor.to_string());
            let currency = account.currency.as_deref().unwrap_or("no currency");
            let status = account.status.as_str();
            let (id, balance) = (&account.id, account.balance);
            writeln!(f, "  account {id}: {balance}, floor {floor}, {currency}, {status}")?;
            for (field, value) in stored {
                writeln!(f, "    {field} stored as {value:?}")?;
            }
        }
        for (id, body) in TRANSACTIONS.iter().zip(&self.bodies) {
            let leg = |leg: &Leg| format!("{} {}", leg.account, leg.amount);
            let legs: Vec<_> = body.legs().iter().map(leg).collect();
            let currency = body.currency.as_deref().unwrap_or("no currency");
            let key = body.terms().exclusive_key.as_deref().unwrap_or("no key");
            writeln!(f, "  transaction {id}: {}, {currency}, {key}", legs.join(", "))?;
        }
        for (at, operation) in self.operations.iter().enumerate() {
            writeln!(f, "  {:>3}. {operation}", at + 1)?;
        }
        Ok(())
    }
}
