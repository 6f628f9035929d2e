//! The invariants of `ARCHITECTURE.md`, checked on the model's documents.

use std::collections::BTreeMap;

use ledger::account::Account;
use ledger::event::{End, Ended};
use ledger::transaction::{AccountId, Body, Leg, State};

use super::model::{Books, Transaction};
use super::moments::has_expired;

/// Whether an account is below its floor, which must never happen.
#[must_use]
pub fn below_floor(account: &Account) -> Option<String> {
    let floor = account.floor.filter(|floor| account.balance < *floor)?;
    Some(format!("rule 3: {} has {}, below its floor {floor}", account.id, account.balance))
}

/// The violations after everything has come to rest.
#[must_use]
pub fn at_rest(books: &Books) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expected: BTreeMap<&AccountId, i128> = BTreeMap::new();
    for (id, doc) in &books.transactions {
        match doc.state {
            State::Done => {}
            State::Canceled => continue,
            state => {
                wrong.push(format!("rule 2: {id} is {state}"));
                continue;
            }
        }
        for leg in doc.body.iter().flat_map(|body| body.effect()) {
            *expected.entry(&leg.account).or_default() += leg.amount.nanos();
        }
    }
    let (mut opening, mut closing) = (0, 0);
    for (id, account) in &books.accounts {
        let should = account.opening_balance.nanos() + expected.get(id).copied().unwrap_or(0);
        if account.balance.nanos() != should {
            wrong.push(format!("rule 5: {id} has {}, not {}", account.balance, units(should)));
        }
        let pending = !account.pending_debits.is_zero() || !account.pending_credits.is_zero();
        if pending || !account.pending_transactions.is_empty() || account.pending_holds > 0 {
            wrong.push(format!(
                "rule 4: {id} still holds {}/{} for {:?}",
                account.pending_debits, account.pending_credits, account.pending_transactions
            ));
        }
        opening += account.opening_balance.nanos();
        closing += account.balance.nanos();
    }
    if opening != closing {
        let (opening, closing) = (units(opening), units(closing));
        wrong.push(format!("rule 1: the sum was {opening}, now it is {closing}"));
    }
    wrong
}

/// Transactions that were applied when they had expired, at any moment.
#[must_use]
pub fn untimely(books: &Books) -> Vec<String> {
    let late = |doc: &&Transaction| doc.applied_at.is_some_and(|at| has_expired(doc, at));
    let late = books.transactions.values().filter(late);
    let told = |doc: &Transaction| {
        format!("rule 9: {} was applied at {:?}, and had expired", doc.id, doc.applied_at)
    };
    late.map(told).collect()
}

/// Final transactions whose event was neither sent nor is noted as due, at any moment.
#[must_use]
pub fn unannounced(books: &Books) -> Vec<String> {
    let event = |doc: &Transaction| Some(Ended { id: doc.id.clone(), end: End::of(doc.state)? });
    let ended = books.transactions.values().filter_map(event);
    let unannounced = ended.filter(|event| !books.is_announced(event));
    unannounced.map(|event| format!("rule 8: nobody is told that {event:?}")).collect()
}

/// Events that were sent and say something else than what is durable, at any moment: an event comes
/// after the final state. Who hears that a transaction is done can spend the money, and what is
/// canceled holds none.
#[must_use]
pub fn untrue_events(books: &Books) -> Vec<String> {
    let mut untrue = Vec::new();
    for Ended { id, end } in &books.sent {
        let Some(doc) = books.transactions.get(id) else { continue };
        if doc.state != end.state() {
            untrue.push(format!("rule 8: an event says that {id} is {end:?}; it is {}", doc.state));
        }
        let has_mark = |account: &&Account| account.pending_transactions.contains(id);
        if let Some(account) = books.accounts.values().find(has_mark) {
            untrue.push(format!(
                "rule 8: an event says that {id} is {end:?}; its mark is on {}",
                account.id
            ));
        }
    }
    untrue
}

/// An amount in nanos, for people.
fn units(nanos: i128) -> String {
    let (units, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 { units.to_string() } else { format!("{nanos} nanos") }
}

fn sum_on<'a>(account: &AccountId, legs: impl Iterator<Item = &'a Leg>) -> i128 {
    legs.filter(|leg| leg.account == *account).map(|leg| leg.amount.nanos()).sum()
}

/// Whether a transaction may have a mark on an account: in flight on all, on hold where it is
/// debited.
fn may_have_marks(doc: &Transaction, account: &AccountId) -> bool {
    match doc.state {
        State::Pending | State::Applied | State::Canceling => true,
        State::Held => doc.body.iter().flat_map(Body::marked).any(|m| m.leg.account == *account),
        State::Scheduled | State::Initial | State::Done | State::Canceled => false,
    }
}

/// Holds that rest although they have an owner, or were confirmed, at any moment.
#[must_use]
pub fn wrongly_at_rest(books: &Books) -> Vec<String> {
    let rests = |doc: &&Transaction| doc.state == State::Held;
    let wrong = |doc: &Transaction| match doc.claim.as_ref() {
        Some(owner) => Some(format!("{} is held and has the owner {owner}", doc.id)),
        None => doc.is_confirmed().then(|| format!("{} is held, and was confirmed", doc.id)),
    };
    books.transactions.values().filter(rests).filter_map(wrong).collect()
}

/// Balances and pending sums that do not fit states and marks, at any moment: a mark holds its leg;
/// without its mark, a leg has had its effect from `applied` on, and none before.
#[must_use]
pub fn off_the_books(books: &Books) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, account) in &books.accounts {
        let mut balance = account.opening_balance.nanos();
        let (mut debits, mut credits, mut holds) = (0, 0, 0);
        for (id, doc) in &books.transactions {
            let marked = account.pending_transactions.contains(id);
            if marked && !may_have_marks(doc, name) {
                wrong.push(format!("rule 4: {name} has a mark of {id}, which is {}", doc.state));
            }
            if marked {
                let amount = sum_on(name, doc.body.iter().flat_map(Body::marked).map(|m| m.leg));
                debits += (-amount).max(0);
                credits += amount.max(0);
                balance += amount.min(0);
                let is_hold = doc.body.as_ref().is_ok_and(|body| body.terms().hold);
                holds += u32::from(is_hold && amount < 0);
            } else if matches!(doc.state, State::Applied | State::Done) {
                balance += sum_on(name, doc.body.iter().flat_map(|body| body.effect()));
            }
        }
        let is = [account.balance, account.pending_debits, account.pending_credits];
        let is = is.map(|amount| amount.nanos());
        if account.pending_holds != holds {
            let counted = account.pending_holds;
            wrong.push(format!("rule 4: {name} counts {counted} holds, and has {holds}"));
        }
        if is != [balance, debits, credits] {
            wrong.push(format!(
                "rule 5: {name} has {}, held −{} +{}; by its marks and states it should be {}, \
                 held −{} +{}",
                account.balance,
                account.pending_debits,
                account.pending_credits,
                units(balance),
                units(debits),
                units(credits)
            ));
        }
    }
    wrong
}
