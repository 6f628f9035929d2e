//! The model's accounts: what a posting, a removal of marks and an operator do to one of them.
//!
//! Owns the semantics of `mongo::postings`, in plain code. [`Planted`] faults change single
//! rules.

use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::limits::HOLDS_MAX;
use ledger::{Posting, Removal, RemovalKind, ServerMs};

use super::planted::Planted;

/// Posts to an account, after the ride has been settled; true if both took effect.
pub fn post(
    account: &mut Account,
    posting: &Posting,
    before: ServerMs,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    // The marks as they are before any is removed.
    let marked = posting.transactions.iter().any(|id| account.pending_transactions.contains(id));
    if marked && planted != Some(Planted::MarkNotCheckedOnPost) {
        return false;
    }
    let mut after = account.clone();
    let settled = posting
        .ride
        .as_ref()
        .is_none_or(|ride| remove(&mut after, RemovalKind::Settle, ride, planted));
    let posted = settled && post_alone(&mut after, posting, before, now, planted);
    if posted {
        *account = after;
    }
    posted
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
    let holds = account.pending_holds + posting.holds;
    if posting.holds > 0 && holds > HOLDS_MAX {
        return false;
    }
    if fenced || account.status != Status::Open || !right_currency || !right_kind {
        return false;
    }
    let Some((balance, debits, credits)) = posted(account, posting, planted) else {
        return false;
    };
    account.balance = balance;
    account.pending_debits = debits;
    account.pending_credits = credits;
    account.pending_holds = holds;
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
        // The account's total before the posting: a debit of the same posting does not change the
        // total.
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

/// Removes marks with the amounts that they hold; true if it took effect.
pub fn remove(
    account: &mut Account,
    kind: RemovalKind,
    removal: &Removal,
    planted: Option<Planted>,
) -> bool {
    let all_there = removal.transactions.iter().all(|id| account.pending_transactions.contains(id));
    let unguarded = match kind {
        RemovalKind::Undo => planted == Some(Planted::UndoWithoutTheMark),
        RemovalKind::Settle => planted == Some(Planted::SettleWithoutTheMark),
    };
    if !all_there && !unguarded {
        return false;
    }
    let spent_already = planted == Some(Planted::CreditSpendableAtOnce);
    let comes_back = match kind {
        RemovalKind::Settle if spent_already => None,
        RemovalKind::Settle => Some(removal.credits),
        RemovalKind::Undo if spent_already => removal.debits.checked_add(removal.credits.negated()),
        RemovalKind::Undo => Some(removal.debits),
    };
    let comes_back = match kind {
        RemovalKind::Settle if planted != Some(Planted::ConfirmLosesTheRemainder) => {
            comes_back.or(Some(Amount::ZERO)).and_then(|back| back.checked_add(removal.released))
        }
        RemovalKind::Settle | RemovalKind::Undo => comes_back,
    };
    let sum = |amount: Amount, change: Amount| amount.checked_add(change).unwrap_or(amount);
    if let Some(change) = comes_back.filter(|change| !change.is_zero()) {
        account.balance = sum(account.balance, change);
    }
    account.pending_debits = sum(account.pending_debits, removal.debits.negated());
    account.pending_credits = sum(account.pending_credits, removal.credits.negated());
    account.pending_holds = account.pending_holds.saturating_sub(removal.holds);
    for id in &removal.transactions {
        account.pending_transactions.remove(id);
    }
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
