//! A model of the ledger: what each statement does to one document.
//!
//! Owns the semantics of `common::mongo::statements`, in plain code over plain maps. Promises to
//! answer and to change exactly what MongoDB would; a conformance test holds it to that.
//! [`Planted`] faults bend single rules, so that the checks can be seen to fail.

use std::collections::BTreeMap;

use common::account::{Account, Status};
use common::amount::Amount;
use common::ledger::{Advance, Claim, Posting, Removal, Ride, Seen, ServerMs};
use common::mongo::LeaseMs;
use common::transaction::{AccountId, Body, Reason, ReasonCode, State, TransactionId};

use super::planted::Planted;

/// A transaction document.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// Its `_id`.
    pub id: TransactionId,
    /// What it asks for, or why that makes no sense.
    pub body: Result<Body, String>,
    /// Its state.
    pub state: State,
    /// The owner's token.
    pub claim: Option<String>,
    /// Until when the owner may post.
    pub lease_until: ServerMs,
    /// When others may claim.
    pub takeover_at: ServerMs,
    /// Who claimed it last.
    pub application: Option<String>,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it was inserted.
    pub created_at: ServerMs,
    /// Why it was canceled.
    pub reason: Option<Reason>,
}

impl Transaction {
    /// A fresh submission.
    #[must_use]
    pub fn initial(id: TransactionId, body: Body, now: ServerMs) -> Transaction {
        Transaction {
            id,
            body: Ok(body),
            state: State::Initial,
            claim: None,
            lease_until: 0,
            takeover_at: 0,
            application: None,
            attempts: 0,
            created_at: now,
            reason: None,
        }
    }

    /// The document as a read returns it: with what the engine asks for, and no more.
    #[must_use]
    pub fn seen(&self, server_now: ServerMs) -> Seen {
        let mut body = self.body.clone();
        if let Ok(body) = &mut body {
            (body.metadata, body.reverses) = (None, None);
        }
        Seen {
            id: self.id.clone(),
            state: self.state,
            claim: self.claim.clone(),
            lease_until: self.lease_until,
            takeover_at: self.takeover_at,
            attempts: self.attempts,
            created_at: self.created_at,
            server_now,
            body,
        }
    }
}

/// Claims a document; true when it matched.
pub fn claim(doc: &mut Transaction, claim: &Claim, lease: LeaseMs, now: ServerMs) -> bool {
    let free = match doc.state {
        State::Initial => true,
        State::Pending | State::Applied | State::Canceling => now > doc.takeover_at,
        State::Done | State::Canceled => false,
    };
    if free {
        if doc.state == State::Initial {
            doc.state = State::Pending;
        }
        doc.claim = Some(claim.token.clone());
        doc.application = Some(claim.application.clone());
        doc.attempts += 1;
        doc.lease_until = now + lease.lease;
        doc.takeover_at = now + lease.lease + lease.grace;
    }
    free
}

/// Posts to an account, after its ride has been settled; true when both took effect.
pub fn post(
    account: &mut Account,
    posting: &Posting,
    before: ServerMs,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    // As they are before anybody leaves.
    let marked = posting.transactions.iter().any(|id| account.pending_transactions.contains(id));
    if marked && planted != Some(Planted::MarkNotCheckedOnPost) {
        return false;
    }
    let mut after = account.clone();
    let settled = posting.ride.as_ref().is_none_or(|ride| settle_ride(&mut after, ride, planted));
    let posted = settled && post_alone(&mut after, posting, before, now, planted);
    if posted {
        *account = after;
    }
    posted
}

fn settle_ride(account: &mut Account, ride: &Ride, planted: Option<Planted>) -> bool {
    let settlement = Posting {
        account: account.id.clone(),
        currency: account.currency.clone(),
        debits: ride.debits,
        credits: ride.credits,
        transactions: ride.transactions.clone(),
        ride: None,
    };
    remove(account, Removal::Settle, &settlement, planted)
}

fn post_alone(
    account: &mut Account,
    posting: &Posting,
    before: ServerMs,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    let fenced = now >= before && planted != Some(Planted::NoFence);
    let right_currency = account.currency == posting.currency;
    let right_kind = account.balance.is_int() == posting.is_int();
    if fenced || account.status != Status::Open || !right_currency || !right_kind {
        return false;
    }
    let Some((balance, debits, credits)) = posted(account, posting, planted) else {
        return false;
    };
    account.balance = balance;
    account.pending_debits = debits;
    account.pending_credits = credits;
    account.pending_transactions.extend(posting.transactions.iter().cloned());
    true
}

fn posted(
    account: &Account,
    posting: &Posting,
    planted: Option<Planted>,
) -> Option<(Amount, Amount, Amount)> {
    let mut after = account.balance;
    let (mut debits, mut credits) = (account.pending_debits, account.pending_credits);
    if !posting.debits.is_zero() {
        let net = if planted == Some(Planted::CoalescedPostDecidesOnTheSumOnly) {
            after.checked_add(posting.credits)?.checked_add(posting.debits.negated())?
        } else {
            after.checked_add(posting.debits.negated())?
        };
        if account.floor.is_some_and(|floor| net < floor) {
            return None;
        }
        after = after.checked_add(posting.debits.negated())?;
        debits = debits.checked_add(posting.debits)?;
    }
    if !posting.credits.is_zero() {
        // The holdings as they were: a debit of the same posting only moves them about.
        account
            .balance
            .checked_add(account.pending_debits)?
            .checked_add(account.pending_credits)?
            .checked_add(posting.credits)?;
        credits = credits.checked_add(posting.credits)?;
        if planted == Some(Planted::CreditSpendableAtOnce) {
            after = after.checked_add(posting.credits)?;
        }
    }
    Some((after, debits, credits))
}

/// Removes marks with what they held; true when it took effect.
pub fn remove(
    account: &mut Account,
    removal: Removal,
    posting: &Posting,
    planted: Option<Planted>,
) -> bool {
    let all_there = posting.transactions.iter().all(|id| account.pending_transactions.contains(id));
    let unguarded = match removal {
        Removal::Undo => planted == Some(Planted::UndoWithoutTheMark),
        Removal::Settle => planted == Some(Planted::SettleWithoutTheMark),
    };
    if !all_there && !unguarded {
        return false;
    }
    let spent_already = planted == Some(Planted::CreditSpendableAtOnce);
    let comes_back = match removal {
        Removal::Settle if spent_already => None,
        Removal::Settle => Some(posting.credits),
        Removal::Undo if spent_already => posting.debits.checked_add(posting.credits.negated()),
        Removal::Undo => Some(posting.debits),
    };
    let sum = |amount: Amount, change: Amount| amount.checked_add(change).unwrap_or(amount);
    if let Some(change) = comes_back.filter(|change| !change.is_zero()) {
        account.balance = sum(account.balance, change);
    }
    account.pending_debits = sum(account.pending_debits, posting.debits.negated());
    account.pending_credits = sum(account.pending_credits, posting.credits.negated());
    for id in &posting.transactions {
        account.pending_transactions.remove(id);
    }
    true
}

/// Moves a transaction a step on; true when it matched.
pub fn advance(doc: &mut Transaction, step: Advance, claim: &Claim) -> bool {
    let (from, to) = step.states();
    let ours = doc.claim.as_deref() == Some(&claim.token);
    if doc.state != from || !ours {
        return false;
    }
    doc.state = to;
    if to.is_final() {
        end_ownership(doc);
    }
    true
}

fn end_ownership(doc: &mut Transaction) {
    doc.claim = None;
    doc.lease_until = 0;
    doc.takeover_at = 0;
}

/// Turns a pending transaction towards its undoing; true when it matched.
pub fn cancel(doc: &mut Transaction, reason: &Reason, claim: &Claim) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    if doc.state != State::Pending || !ours {
        return false;
    }
    doc.state = State::Canceling;
    doc.reason = Some(reason.clone());
    true
}

/// Gives a claim up; true when it matched.
pub fn release(
    doc: &mut Transaction,
    claim: &Claim,
    after_ms: i64,
    not_before: ServerMs,
    now: ServerMs,
) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    if ours {
        doc.claim = None;
        doc.takeover_at = (now + after_ms).max(not_before);
    }
    ours
}

/// A client's wish to cancel, as the producer's command does it; true when it matched.
pub fn request_cancel(doc: &mut Transaction) -> bool {
    match doc.state {
        State::Initial => {
            doc.state = State::Canceled;
            end_ownership(doc);
        }
        State::Pending => doc.state = State::Canceling,
        State::Applied | State::Done | State::Canceling | State::Canceled => return false,
    }
    doc.reason = Some(Reason::new(ReasonCode::Requested, "canceled on request"));
    true
}

/// An operator's change of status, as the producer's commands do it; true when it matched.
pub fn set_status(account: &mut Account, to: Status) -> bool {
    let nothing_left = account.balance.is_zero()
        && account.pending_debits.is_zero()
        && account.pending_credits.is_zero()
        && account.pending_transactions.is_empty();
    let may = match to {
        Status::Frozen => account.status == Status::Open,
        Status::Open => account.status == Status::Frozen,
        Status::Closed => account.status != Status::Closed && nothing_left,
    };
    if may {
        account.status = to;
    }
    may
}

/// All documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Books {
    /// The accounts by id.
    pub accounts: BTreeMap<AccountId, Account>,
    /// The transactions by id.
    pub transactions: BTreeMap<TransactionId, Transaction>,
}
