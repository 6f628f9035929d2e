//! Operations by chance: what clients do, what workers write, and what makes documents odd.
//!
//! Owns how likely each is.

use ledger::account::Status;
use ledger::event::End;
use ledger::transaction::{ParkCode, ReasonCode, State};
use ledger::{Commit, RemovalKind};
use model::sim::odd::Oddity;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::operation::{
    ACCOUNTS, Claimant, Entitled, Grouping, KEYS, LINES, Lease, Operation, TRANSACTIONS, When,
    account_names,
};

/// Any operation.
pub fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![15 => of_clients(), 28 => of_ledger(), 7 => of_neighbours()]
}

/// What producers, their commands and readers do.
fn of_clients() -> impl Strategy<Value = Operation> {
    let transaction = 0..TRANSACTIONS.len();
    let own = transaction.clone().prop_map(|at| Operation::Insert { transaction: at, content: at });
    let another = (transaction.clone(), transaction.clone())
        .prop_map(|(transaction, content)| Operation::Insert { transaction, content });
    let status = select(&[Status::Frozen, Status::Open, Status::Closed][..]);
    let beside = (transaction.clone(), transaction.clone(), any::<bool>())
        .prop_map(|(first, second, commits)| Operation::InsertBeside { first, second, commits });
    prop_oneof![
        5 => own,
        1 => another,
        4 => beside,
        1 => (0..KEYS.len()).prop_map(Operation::Holder),
        1 => transaction.clone().prop_map(Operation::RequestCancel),
        2 => transaction.clone().prop_map(Operation::Confirm),
        2 => (transaction, when()).prop_map(|(at, when)| Operation::Reschedule(at, when)),
        2 => ids().prop_map(Operation::MakeDue),
        2 => ids().prop_map(Operation::Expire),
        1 => (0..account_names().len(), status).prop_map(|(at, to)| Operation::SetStatus(at, to)),
        1 => ids().prop_map(Operation::Read),
        1 => ids().prop_map(Operation::Bodies),
        2 => (accounts(), ids()).prop_map(|(at, marks)| Operation::Accounts(at, marks)),
    ]
}

/// What workers write.
fn of_ledger() -> impl Strategy<Value = Operation> {
    let release = (ids(), claimant(), when(), when())
        .prop_map(|(ids, by, after, not_before)| Operation::Release { ids, by, after, not_before });
    let refused = vec(select(&ReasonCode::ALL[..]), TRANSACTIONS.len());
    let cancel = (ids(), refused, claimant()).prop_map(|(ids, reasons, by)| {
        Operation::Cancel(ids.into_iter().zip(reasons).collect(), by)
    });
    let removal = select(&[RemovalKind::Settle, RemovalKind::Undo][..]);
    prop_oneof![
        6 => (claimed(), claimant(), lease()).prop_map(|(ids, by, l)| Operation::Claim(ids, by, l)),
        8 => (ids(), grouping(), rarely_past(), settled()).prop_map(|(ids, grouping, before, settled)| {
            Operation::Post { ids, grouping, before, settled }
        }),
        6 => (removal, ids(), grouping()).prop_map(|(r, i, g)| Operation::Remove(r, i, g)),
        4 => (guard(), ids(), claimant()).prop_map(|(g, i, by)| Operation::Commit(g, i, by)),
        4 => (ends(), claimant(), entitled()).prop_map(|(e, by, u)| Operation::End(e, by, u)),
        2 => cancel,
        3 => (ids(), claimant(), when()).prop_map(|(ids, by, at)| Operation::Rest(ids, by, at)),
        4 => (few(), claimant(), entitled())
            .prop_map(|(ids, by, under)| Operation::Transact(ids, by, under)),
        1 => (0..LINES.len()).prop_map(Operation::Forget),
        2 => release,
        2 => (ids(), claimant()).prop_map(|(ids, by)| Operation::Unclaim(ids, by)),
        4 => parking(),
    ]
}

fn ends() -> impl Strategy<Value = Vec<(usize, End)>> {
    let ends = vec(select(&End::ALL[..]), TRANSACTIONS.len());
    (few(), ends).prop_map(|(ids, ends)| ids.into_iter().zip(ends).collect())
}

pub fn entitled() -> impl Strategy<Value = Entitled> {
    (0..LINES.len(), prop::option::of(when())).prop_map(|(line, due)| Entitled { line, due })
}

/// Parking and bringing back, and what makes parking necessary.
fn of_neighbours() -> impl Strategy<Value = Operation> {
    let transaction = 0..TRANSACTIONS.len();
    let of_account = select(&Oddity::OF_ACCOUNTS[..]);
    let of_transaction = select(&Oddity::OF_TRANSACTIONS[..]);
    prop_oneof![
        1 => few().prop_map(Operation::ParkById),
        2 => transaction.clone().prop_map(Operation::Unpark),
        2 => (0..ACCOUNTS.len(), of_account).prop_map(|(at, o)| Operation::SpoilAccount(at, o)),
        2 => (transaction, of_transaction).prop_map(|(at, o)| Operation::SpoilTransaction(at, o)),
        2 => Just(Operation::Mend),
    ]
}

fn parking() -> impl Strategy<Value = Operation> {
    let states = vec(select(&State::ALL[..]), TRANSACTIONS.len());
    let by = prop_oneof![3 => Just(Some(Claimant::One)), 1 => Just(None)];
    (ids(), states, by, select(&ParkCode::ALL[..])).prop_map(|(ids, states, by, code)| {
        Operation::Park(ids.into_iter().zip(states).collect(), by, code)
    })
}

/// Alone, too: such claims are counted.
fn claimed() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![2 => ids(), 1 => (0..TRANSACTIONS.len()).prop_map(|at| vec![at])]
}

fn accounts() -> impl Strategy<Value = Vec<usize>> {
    let all = (0..account_names().len()).collect::<Vec<_>>();
    subsequence(all, 1..=account_names().len())
}

/// Each at most once, as the engine sends them.
pub fn ids() -> impl Strategy<Value = Vec<usize>> {
    subsequence((0..TRANSACTIONS.len()).collect::<Vec<_>>(), 1..=TRANSACTIONS.len())
}

/// More at once would rarely all be `initial`.
fn few() -> impl Strategy<Value = Vec<usize>> {
    subsequence((0..TRANSACTIONS.len()).collect::<Vec<_>>(), 1..=2)
}

fn settled() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![2 => Just(Vec::new()), 1 => ids()]
}

pub fn claimant() -> impl Strategy<Value = Claimant> {
    prop_oneof![3 => Just(Claimant::One), 1 => Just(Claimant::Two)]
}

fn lease() -> impl Strategy<Value = Lease> {
    select(&[Lease::Holds, Lease::InGrace, Lease::Over][..])
}

fn when() -> impl Strategy<Value = When> {
    select(&[When::Past, When::Future][..])
}

fn rarely_past() -> impl Strategy<Value = When> {
    prop_oneof![9 => Just(When::Future), 1 => Just(When::Past)]
}

pub fn grouping() -> impl Strategy<Value = Grouping> {
    select(&[Grouping::PerLeg, Grouping::PerAccount, Grouping::FirstLeg][..])
}

fn guard() -> impl Strategy<Value = Commit> {
    select(&[Commit::AnyTime, Commit::InTime][..])
}
