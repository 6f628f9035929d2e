//! The guarded updates of accounts: one statement for many accounts, and what each of them gets.
//!
//! A statement selects its accounts by `_id`, and its pipeline finds the update that belongs to
//! the current account. Check and write are one atomic step for each account; between accounts
//! nothing is atomic. The server parses the pipeline once for each statement, which costs as much
//! as running it on one account: with 64 accounts in a statement an update costs half as much as
//! alone. Strings from outside always stand in `$literal`: a `$` in an id must never become a field
//! path. The statements are written as BSON bytes directly: built as trees of `Document` they would
//! cost a worker more than all its other work.
//!
//! The guards are total: whatever an account's fields hold, the pipeline never fails. The guard of
//! a post takes exactly those accounts that
//! [`Account::from_raw`](ledger::account::Account::from_raw) can read: `$$read` is the account as
//! it is read, or null ([`super::numbers`]). Others may have added a double to a number since the
//! last update, so every update writes whole numbers as Int64 anew. The first one writes the
//! opening balance, too. The server may refuse an account all the same (a validator, say); see
//! [`super::write`].

use std::collections::HashMap;

use ledger::amount::Amount;
use ledger::limits::HOLDS_MAX;
use ledger::transaction::{AccountId, TransactionId};
use ledger::{Posting, Removal, RemovalKind, ServerMs};
use mongodb::bson::raw::cstr;
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::numbers::{Yields, decimal_account, holdings, whole_account};

/// The most accounts of one statement. More accounts save nothing: searching an account's posting
/// among them then costs as much as parsing the pipeline less often saves.
pub(super) const ACCOUNTS_MAX: usize = 64;

/// The marks of the account as it is read.
const MARKS: &str = "$$read.pendingTransactions";

/// A guarded update of one account.
pub(super) trait OnAccount {
    /// The account.
    fn account(&self) -> &AccountId;
}

impl OnAccount for Posting {
    fn account(&self) -> &AccountId {
        &self.account
    }
}

impl OnAccount for Removal {
    fn account(&self) -> &AccountId {
        &self.account
    }
}

/// Puts updates together, by their places, for statements of at most `most` accounts. No account is
/// twice in one of them, and the updates of an account stay in their order.
pub(super) fn groups<T: OnAccount>(updates: &[T], most: usize) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut met: HashMap<&str, usize> = HashMap::with_capacity(updates.len());
    for (place, update) in updates.iter().enumerate() {
        let round = met.entry(update.account()).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
        *round += 1;
    }
    rounds.iter().flat_map(|round| round.chunks(most)).map(<[_]>::to_vec).collect()
}

/// Posts all legs of a batch on each account, or none on that account. The conditions are: open,
/// same currency and kind, enough money, no mark there yet, and the server's clock before the
/// fence. A ride is applied in the same update: the changes of settlement and post are added up for
/// each field. What concerns holds is only in statements that have some, so that others don't pay
/// for it.
pub(super) fn post(postings: &[&Posting], before: ServerMs) -> RawDocumentBuf {
    let ride_has_holds =
        |posting: &&&Posting| posting.ride.as_ref().is_some_and(|ride| ride.holds > 0);
    let any_settled = postings.iter().any(|posting| ride_has_holds(&posting));
    let any_holds = any_settled || postings.iter().any(|posting| posting.holds > 0);
    let mut balance = sum("$$read.balance", "$$my.settledCredits", "$$my.debits");
    if any_settled {
        balance = rawdoc! { "$add": [balance, "$$my.released"] };
    }
    let debits = sum("$$read.pendingDebits", "$$my.debits", "$$my.settledDebits");
    let credits = sum("$$read.pendingCredits", "$$my.credits", "$$my.settledCredits");
    let there = rawdoc! { "$setIntersection": [MARKS, "$$my.marks"] };
    let kept = rawdoc! { "$setDifference": [MARKS, "$$my.leaving"] };
    let (read, right_kind) = read(postings);
    let mut guard: RawArrayBuf = [
        // First: of an account that can't be read there is nothing to compute with.
        rawdoc! { "$eq": ["$$read._id", "$$my.account"] },
        rawdoc! { "$eq": [{ "$ifNull": ["$status", "open"] }, "open"] },
        rawdoc! { "$lt": ["$$NOW", DateTime::from_millis(before)] },
        rawdoc! { "$eq": [{ "$ifNull": ["$currency", null] }, "$$my.currency"] },
        rawdoc! { "$eq": [there, []] },
        rawdoc! { "$setIsSubset": ["$$my.leaving", MARKS] },
        rawdoc! { "$or": [{ "$eq": ["$$my.debits", 0] }, can_spend(&balance, &debits)] },
        rawdoc! { "$or": [{ "$eq": ["$$my.credits", 0] }, can_receive(&credits, any_settled)] },
    ]
    .into_iter()
    .chain(right_kind)
    .collect();
    let mut changed = rawdoc! {
        "balance": balance,
        "pendingDebits": debits,
        "pendingCredits": credits,
        "pendingTransactions": { "$concatArrays": [kept, "$$my.marks"] },
        "openingBalance": "$$read.openingBalance",
    };
    if any_holds {
        let change = rawdoc! { "$subtract": ["$$my.holds", "$$my.settledHolds"] };
        let after = rawdoc! { "$add": [holds(), change.clone()] };
        let fits = rawdoc! { "$lte": [after, i64::from(HOLDS_MAX)] };
        guard.push(rawdoc! { "$or": [{ "$eq": ["$$my.holds", 0] }, fits] });
        changed.append(cstr!("pendingHolds"), counted(change));
    }
    let wanted = |posting: &Posting| wanted(posting, any_holds);
    statement(postings, wanted, read, rawdoc! { "$and": guard }, changed)
}

/// How many of an account's marks are debits of holds. Most accounts have no such field; whatever
/// is no whole number counts as none, so that the expression never fails.
fn holds() -> RawDocumentBuf {
    let is_whole = rawdoc! { "$in": [{ "$type": "$pendingHolds" }, ["int", "long"]] };
    rawdoc! { "$cond": [is_whole, "$pendingHolds", 0] }
}

/// The number of holds after this change. An account that has nothing to do with holds gets no such
/// field.
fn counted(change: RawDocumentBuf) -> RawDocumentBuf {
    let after = rawdoc! { "$max": [0_i64, { "$add": [holds(), change.clone()] }] };
    rawdoc! { "$cond": [{ "$eq": [change, 0] }, "$pendingHolds", after] }
}

/// What a post demands of its account.
fn wanted(posting: &Posting, with_holds: bool) -> RawDocumentBuf {
    let (settled_debits, settled_credits, leaving) =
        posting.ride.as_ref().map_or((Amount::ZERO, Amount::ZERO, &[][..]), |ride| {
            (ride.debits, ride.credits, &ride.transactions[..])
        });
    let mut wanted = rawdoc! {
        "account": posting.account.as_ref(),
        "debits": posting.debits,
        "credits": posting.credits,
        "settledDebits": settled_debits,
        "settledCredits": settled_credits,
        "marks": marks(&posting.transactions),
        "leaving": marks(leaving),
        "currency": posting.currency.as_deref().map_or(RawBson::Null, RawBson::from),
        "whole": posting.is_int(),
    };
    if with_holds {
        let ride = posting.ride.as_ref();
        let (released, settled) =
            ride.map_or((Amount::ZERO, 0), |ride| (ride.released, i64::from(ride.holds)));
        wanted.append(cstr!("released"), RawBson::from(released));
        wanted.append(cstr!("settledHolds"), settled);
        wanted.append(cstr!("holds"), i64::from(posting.holds));
    }
    wanted
}

/// How each account is read, and whether it is of the kind of its posting. How decimal accounts are
/// read is only in statements that post decimals, so others do not pay for it.
fn read(postings: &[&Posting]) -> (RawDocumentBuf, Option<RawDocumentBuf>) {
    let any_whole = postings.iter().any(|posting| posting.is_int());
    let any_decimal = postings.iter().any(|posting| !posting.is_int());
    let (whole, decimal) = (|| whole_account(Yields::Account), || decimal_account(Yields::Account));
    match (any_whole, any_decimal) {
        (_, false) => (whole(), None),
        (false, true) => (decimal(), None),
        (true, true) => {
            let is_decimal = rawdoc! { "$eq": [{ "$type": "$balance" }, "decimal"] };
            let right_kind = rawdoc! { "$ne": ["$$my.whole", is_decimal.clone()] };
            (rawdoc! { "$cond": [is_decimal, decimal(), whole()] }, Some(right_kind))
        }
    }
}

/// The debits break neither the floor nor the limits of an amount.
fn can_spend(balance: &RawDocumentBuf, debits: &RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! { "$and": [
        // A floor of null means only the limit of amounts; no floor is lower than that.
        { "$gte": [balance.clone(), { "$ifNull": ["$$read.floor", -Amount::MAX] }] },
        // With a negative balance the sum of debits could exceed the limit of an amount, and an
        // account with such a sum could not be read.
        { "$lte": [debits.clone(), Amount::MAX] },
    ] }
}

/// With the credits the limits of an amount hold. The debit does not change the account's total, it
/// only moves an amount from one field to another, so the total before the debit is used.
fn can_receive(credits: &RawDocumentBuf, any_released: bool) -> RawDocumentBuf {
    let mut pending = sum("$$read.pendingCredits", "$$my.credits", "$$my.settledDebits");
    if any_released {
        pending = rawdoc! { "$add": [pending, "$$my.released"] };
    }
    let holdings = rawdoc! { "$add": ["$$read.balance", "$$read.pendingDebits", pending] };
    rawdoc! { "$and": [
        { "$lte": [holdings, Amount::MAX] },
        { "$lte": [credits.clone(), Amount::MAX] },
    ] }
}

/// Removes the marks of a batch from each account where all of them are there, with what they held.
pub(super) fn remove(kind: RemovalKind, removals: &[&Removal]) -> RawDocumentBuf {
    let any_holds = removals.iter().any(|removal| removal.holds > 0);
    let held = |removal: &Removal| {
        let mut held = rawdoc! {
            "account": removal.account.as_ref(),
            "debits": removal.debits,
            "credits": removal.credits,
            "comesBack": match kind {
                RemovalKind::Settle => removal.credits,
                RemovalKind::Undo => removal.debits,
            },
            "marks": marks(&removal.transactions),
        };
        if any_holds {
            let released = match kind {
                RemovalKind::Settle => removal.released,
                // The whole debit comes back.
                RemovalKind::Undo => Amount::ZERO,
            };
            held.append(cstr!("released"), RawBson::from(released));
            held.append(cstr!("holds"), i64::from(removal.holds));
        }
        held
    };
    // Held amounts are returned whatever the status, the floor and the opening balance are.
    let guard = rawdoc! { "$and": [
        { "$eq": ["$$read._id", "$$my.account"] },
        { "$setIsSubset": ["$$my.marks", MARKS] },
    ] };
    let mut balance = rawdoc! { "$add": ["$$read.balance", "$$my.comesBack"] };
    if any_holds {
        balance = rawdoc! { "$add": [balance, "$$my.released"] };
    }
    let mut changed = rawdoc! {
        "balance": balance,
        "pendingDebits": { "$subtract": ["$$read.pendingDebits", "$$my.debits"] },
        "pendingCredits": { "$subtract": ["$$read.pendingCredits", "$$my.credits"] },
        "pendingTransactions": { "$setDifference": [MARKS, "$$my.marks"] },
    };
    if any_holds {
        let change = rawdoc! { "$subtract": [0, "$$my.holds"] };
        changed.append(cstr!("pendingHolds"), counted(change));
    }
    statement(removals, held, holdings(), guard, changed)
}

/// Sets the fields of each account where the guard holds; `$$my` is what `mine` makes of the update
/// of the account, and `$$read` the account as it is read.
fn statement<T: OnAccount>(
    updates: &[&T],
    mine: impl Fn(&T) -> RawDocumentBuf,
    read: RawDocumentBuf,
    guard: RawDocumentBuf,
    changed: RawDocumentBuf,
) -> RawDocumentBuf {
    let accounts: RawArrayBuf = updates.iter().map(|update| update.account().as_ref()).collect();
    let place = rawdoc! { "$indexOfArray": [{ "$literal": accounts.clone() }, "$_id"] };
    let mine: RawArrayBuf = updates.iter().map(|update| mine(update)).collect();
    let mine = rawdoc! { "$arrayElemAt": [{ "$literal": mine }, place] };
    let changed = rawdoc! { "$mergeObjects": ["$$ROOT", changed] };
    rawdoc! {
        "q": { "_id": { "$in": accounts } },
        "u": [{ "$replaceWith": { "$let": {
            "vars": { "my": mine, "read": read },
            "in": { "$cond": [guard, changed, "$$ROOT"] },
        } } }],
        "multi": true,
    }
}

/// `field + comes - goes`.
fn sum(field: &str, comes: &str, goes: &str) -> RawDocumentBuf {
    rawdoc! { "$add": [field, { "$subtract": [comes, goes] }] }
}

fn marks(transactions: &[TransactionId]) -> RawArrayBuf {
    transactions.iter().map(AsRef::as_ref).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posting(account: &str, transaction: &str) -> Posting {
        Posting {
            account: account.into(),
            currency: None,
            debits: Amount::ZERO,
            credits: Amount::Int(1),
            transactions: vec![transaction.into()],
            holds: 0,
            ride: None,
        }
    }

    #[test]
    fn no_account_is_twice_in_a_statement_and_its_postings_stay_in_order() {
        let postings = [posting("a", "1"), posting("a", "2"), posting("b", "3"), posting("c", "4")];
        assert_eq!(groups(&postings, 64), [vec![0, 2, 3], vec![1]]);
        assert_eq!(groups(&postings, 2), [vec![0, 2], vec![3], vec![1]]);
        assert_eq!(groups(&postings, 1).len(), 4);
    }
}
