//! Pure decisions of the engine: how legs become postings, and what a look at the accounts says.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use common::account::{self, Account};
use common::amount::Amount;
use common::ledger::Posting;
use common::transaction::{AccountId, Body, Leg, Reason, TransactionId};

/// Accounts as read; one that breaks the schema is an `Err`.
pub(super) type Accounts = HashMap<AccountId, Result<Account, String>>;

/// The legs of one transaction.
pub(super) type Legs<'a> = (&'a TransactionId, &'a Body);

/// One posting per account (and currency and kind), however many transactions touch it.
pub(super) fn per_account<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<Posting> {
    let mut groups: BTreeMap<(&AccountId, &Option<String>, bool), Vec<Posting>> = BTreeMap::new();
    for (id, body) in bodies {
        for leg in body.legs() {
            match groups.entry((&leg.account, &body.currency, leg.amount.is_int())) {
                // Nearly always the only one; an empty `Vec` would make room for four.
                Entry::Vacant(group) => {
                    group.insert(vec![single(id, body, leg)]);
                }
                Entry::Occupied(group) => {
                    let group = group.into_mut();
                    // A sum beyond the limits of an amount starts a posting of its own.
                    if !group.last_mut().is_some_and(|posting| joined(posting, id, leg.amount)) {
                        group.push(single(id, body, leg));
                    }
                }
            }
        }
    }
    groups.into_values().flatten().collect()
}

/// One posting per leg, in the order of the transactions.
pub(super) fn per_leg<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<Posting> {
    bodies
        .into_iter()
        .flat_map(|(id, body)| body.legs().iter().map(move |leg| single(id, body, leg)))
        .collect()
}

/// The accounts that they touch.
pub(super) fn accounts<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<AccountId> {
    let legs = bodies.into_iter().flat_map(|(_, body)| body.legs());
    let accounts: BTreeSet<_> = legs.map(|leg| &leg.account).collect();
    accounts.into_iter().cloned().collect()
}

pub(super) fn single(id: &TransactionId, body: &Body, leg: &Leg) -> Posting {
    let (debits, credits) = if leg.amount.is_negative() {
        (leg.amount.negated(), Amount::ZERO)
    } else {
        (Amount::ZERO, leg.amount)
    };
    Posting {
        account: leg.account.clone(),
        currency: body.currency.clone(),
        debits,
        credits,
        transactions: vec![id.clone()],
        ride: None,
    }
}

fn joined(posting: &mut Posting, id: &TransactionId, amount: Amount) -> bool {
    let side = if amount.is_negative() { &mut posting.debits } else { &mut posting.credits };
    let magnitude = if amount.is_negative() { amount.negated() } else { amount };
    let Some(sum) = side.checked_add(magnitude) else { return false };
    *side = sum;
    posting.transactions.push(id.clone());
    true
}

/// What the accounts say about a transaction that should be posted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    /// Every leg has its mark.
    Posted,
    /// An account refuses a leg for good.
    Refused(Reason),
    /// These legs have no mark, and nothing speaks against them: try them one by one.
    Open(Vec<Posting>),
}

/// Looks at every leg of a transaction. The reason named is that of the first leg that has one.
pub(super) fn judge(id: &TransactionId, body: &Body, accounts: &Accounts) -> Judged {
    let mut open = Vec::new();
    for leg in body.legs() {
        let account = match accounts.get(&leg.account) {
            None => return Judged::Refused(account::missing(&leg.account)),
            Some(Err(problem)) => {
                return Judged::Refused(account::unreadable(&leg.account, problem));
            }
            Some(Ok(account)) => account,
        };
        if account.pending_transactions.contains(id) {
            continue;
        }
        if let Some(reason) = account.refusal(leg.amount, body.currency.as_deref()) {
            return Judged::Refused(reason);
        }
        open.push(single(id, body, leg));
    }
    if open.is_empty() { Judged::Posted } else { Judged::Open(open) }
}

/// Whether any mark of these postings is still on its account.
pub(super) fn any_mark_left(postings: &[Posting], accounts: &Accounts) -> bool {
    postings.iter().any(|posting| match accounts.get(&posting.account) {
        // Deleted by somebody: there is nothing left to hold.
        None => false,
        Some(Err(_)) => true,
        Some(Ok(account)) => {
            posting.transactions.iter().any(|id| account.pending_transactions.contains(id))
        }
    })
}

#[cfg(test)]
mod tests {
    use common::transaction::ReasonCode;

    use super::*;

    fn id(text: &str) -> TransactionId {
        text.into()
    }

    fn transfer(source: &str, destination: &str, value: i64) -> Body {
        Body::transfer(source, destination, Amount::Int(value)).expect("valid")
    }

    fn accounts(list: Vec<Account>) -> Accounts {
        list.into_iter().map(|account| (account.id.clone(), Ok(account))).collect()
    }

    #[test]
    fn many_transfers_on_one_account_are_one_posting() {
        let bodies = [transfer("a", "m", 3), transfer("b", "m", 4), transfer("m", "a", 5)];
        let ids = [id("1"), id("2"), id("3")];
        let postings = per_account(ids.iter().zip(&bodies));
        assert_eq!(postings.len(), 3);
        let merchant = postings.iter().find(|p| &*p.account == "m").expect("m");
        assert_eq!(merchant.credits, Amount::Int(7));
        assert_eq!(merchant.debits, Amount::Int(5));
        assert_eq!(merchant.transactions, ids.to_vec());
    }

    #[test]
    fn currencies_and_sums_beyond_the_limit_stay_apart() {
        let euros = transfer("a", "b", 1).in_currency(Some("EUR".into()));
        let large = transfer("a", "b", Amount::MAX);
        let ids = [id("1"), id("2"), id("3"), id("4")];
        let bodies = [euros, transfer("a", "b", 1), large.clone(), large];
        let postings = per_account(ids.iter().zip(&bodies));
        let on_a: Vec<_> = postings.iter().filter(|p| &*p.account == "a").collect();
        assert_eq!(on_a.iter().map(|p| p.transactions.len()).sum::<usize>(), 4);
        assert_eq!(on_a.len(), 4, "one in euros, and no sum beyond the limit");
    }

    #[test]
    fn a_look_at_the_accounts_tells_posted_refused_and_open_apart() {
        let mut rich = Account::new("a", Amount::Int(10));
        let poor = Account::new("b", Amount::Int(0));
        let body = transfer("a", "b", 10);
        let (one, two) = (id("1"), id("2"));
        let before = accounts(vec![rich.clone(), poor.clone()]);
        assert!(matches!(judge(&one, &body, &before), Judged::Open(legs) if legs.len() == 2));

        rich.pending_transactions.insert(one.clone());
        rich.balance = Amount::Int(0);
        let half = accounts(vec![rich.clone(), poor.clone()]);
        assert!(matches!(judge(&one, &body, &half), Judged::Open(legs) if legs.len() == 1));
        let Judged::Refused(reason) = judge(&two, &body, &half) else { panic!("no money left") };
        assert_eq!(reason.code, ReasonCode::InsufficientFunds);

        let mut credited = poor.clone();
        credited.pending_transactions.insert(one.clone());
        let both = accounts(vec![rich, credited]);
        assert_eq!(judge(&one, &body, &both), Judged::Posted);

        let Judged::Refused(reason) = judge(&one, &body, &accounts(vec![poor])) else {
            panic!("no account a")
        };
        assert_eq!(reason.code, ReasonCode::AccountNotFound);
    }
}
