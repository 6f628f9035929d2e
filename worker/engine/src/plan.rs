//! Pure decisions of the engine: how legs become postings, and what a look at the accounts says.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::transaction::{AccountId, Body, Leg, Marked, Reason, ReasonCode, TransactionId};
use ledger::{AccountRead, Posting, Removal, account};

use super::owned::Left;

/// Single legs that the server refuses to post, and what it says.
pub(super) type Refusals = BTreeMap<(AccountId, TransactionId), String>;

/// Accounts as they were looked at, with the marks that were asked about. An account that is not in
/// it does not exist.
#[derive(Debug, Default)]
pub(super) struct Accounts(HashMap<AccountId, Looked>);

#[derive(Debug)]
enum Looked {
    Read(Box<AccountRead>),
    /// The look failed.
    Unread(Left),
}

/// What a look says about one mark.
#[derive(Debug, PartialEq)]
pub(super) enum Mark {
    /// It is not there, nor is anything that it held.
    Gone,
    /// It is there, and the account could lose it.
    There,
    /// It is there, or may be, and can't be removed; why.
    Stuck(String),
    /// The look failed.
    Unknown(Left),
}

impl Accounts {
    /// Takes in what was read.
    pub fn read(&mut self, accounts: Vec<AccountRead>) {
        let read = |account: AccountRead| (account.id.clone(), Looked::Read(Box::new(account)));
        self.0.extend(accounts.into_iter().map(read));
    }

    /// Notes which accounts could not be looked at.
    pub fn unread<'a>(&mut self, ids: impl IntoIterator<Item = &'a AccountId>, left: Left) {
        self.0.extend(ids.into_iter().map(|id| (id.clone(), Looked::Unread(left))));
    }

    /// The account of a leg, or what follows from its absence.
    fn of(&self, leg: &Leg) -> Result<&AccountRead, Judged> {
        match self.0.get(&leg.account) {
            None => Err(Judged::Refused(account::missing(&leg.account))),
            Some(Looked::Unread(left)) => Err(Judged::Unknown(*left)),
            Some(Looked::Read(read)) => Ok(read),
        }
    }

    /// A later look counts more.
    pub fn extend(&mut self, later: Accounts) {
        self.0.extend(later.0);
    }

    /// Whether a mark is on an account; `refusal` is what the server said to its removal.
    pub fn mark(&self, account: &str, id: &TransactionId, refusal: Option<&String>) -> Mark {
        let account = match self.0.get(account) {
            // Deleted by somebody: there is nothing left to hold.
            None => return Mark::Gone,
            Some(Looked::Unread(left)) => return Mark::Unknown(*left),
            Some(Looked::Read(account)) => account,
        };
        // What is wrong with the account says more than that the server refuses it.
        let problem = account.account.as_ref().err().or(refusal);
        match (&account.marks, problem) {
            (Some(marks), _) if !marks.contains(id) => Mark::Gone,
            (_, Some(problem)) => Mark::Stuck(problem.clone()),
            (Some(_), None) => Mark::There,
            (None, None) => Mark::Stuck("its marks can't be read".to_owned()),
        }
    }
}

/// The legs of one transaction.
pub(super) type Legs<'a> = (&'a TransactionId, &'a Body);

/// A leg that is to have a mark, or has one.
struct MarkedLeg<'a> {
    id: &'a TransactionId,
    currency: &'a Option<String>,
    /// Whether it is a debit of a hold.
    holds: bool,
    marked: Marked<'a>,
}

fn marked_legs<'a>((id, body): Legs<'a>) -> impl Iterator<Item = MarkedLeg<'a>> {
    body.marked().map(move |marked| {
        let holds = body.terms().hold && marked.leg.amount.is_negative();
        MarkedLeg { id, currency: &body.currency, holds, marked }
    })
}

/// The legs of many transactions by account, currency and kind, with the debits of holds apart from
/// others: the limit of holds must refuse nobody else.
fn per_account<'a, T>(
    legs: impl Iterator<Item = MarkedLeg<'a>>,
    single: impl Fn(&MarkedLeg<'a>) -> T,
    joined: impl Fn(&mut T, &MarkedLeg<'a>) -> bool,
) -> Vec<T> {
    let mut groups: BTreeMap<(&AccountId, &Option<String>, bool, bool), Vec<T>> = BTreeMap::new();
    for leg in legs {
        let Leg { account, amount } = leg.marked.leg;
        match groups.entry((account, leg.currency, amount.is_int(), leg.holds)) {
            // Nearly always the only one; an empty `Vec` would make room for four.
            Entry::Vacant(group) => {
                group.insert(vec![single(&leg)]);
            }
            Entry::Occupied(group) => {
                let group = group.into_mut();
                // A sum beyond the limits of an amount starts one of its own.
                if !group.last_mut().is_some_and(|last| joined(last, &leg)) {
                    group.push(single(&leg));
                }
            }
        }
    }
    groups.into_values().flatten().collect()
}

/// One posting per account (and currency and kind), however many transactions touch it. The debits
/// of confirmed holds are not among them: a look finds that they have their marks.
pub(super) fn postings_per_account<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<Posting> {
    let is_new = |leg: &MarkedLeg<'a>, body: &Body| !leg.holds || body.awaits_confirmation();
    let legs = bodies
        .into_iter()
        .flat_map(|(id, body)| marked_legs((id, body)).filter(move |leg| is_new(leg, body)));
    per_account(legs, posting, |posting, leg| {
        let amount = leg.marked.leg.amount;
        let side = if amount.is_negative() { &mut posting.debits } else { &mut posting.credits };
        let Some(sum) = side.checked_add(magnitude(amount)) else { return false };
        *side = sum;
        posting.transactions.push(leg.id.clone());
        posting.holds += u32::from(leg.holds);
        true
    })
}

/// One removal per account (and currency and kind), however many transactions touch it.
pub(super) fn removals_per_account<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<Removal> {
    per_account(bodies.into_iter().flat_map(marked_legs), removal, |removal, leg| {
        let amount = leg.marked.leg.amount;
        let side = if amount.is_negative() { &mut removal.debits } else { &mut removal.credits };
        let sum = side.checked_add(magnitude(amount));
        let released = removal.released.checked_add(leg.marked.released);
        let (Some(sum), Some(released)) = (sum, released) else { return false };
        (*side, removal.released) = (sum, released);
        removal.transactions.push(leg.id.clone());
        removal.holds += u32::from(leg.holds);
        true
    })
}

/// One removal per leg, in the order of the transactions.
pub(super) fn removals_per_leg<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Vec<Removal> {
    bodies.into_iter().flat_map(marked_legs).map(|leg| removal(&leg)).collect()
}

fn magnitude(amount: Amount) -> Amount {
    if amount.is_negative() { amount.negated() } else { amount }
}

/// The debit and the credit of a leg, one of them zero.
fn sides(amount: Amount) -> (Amount, Amount) {
    if amount.is_negative() { (amount.negated(), Amount::ZERO) } else { (Amount::ZERO, amount) }
}

fn posting(leg: &MarkedLeg<'_>) -> Posting {
    let (debits, credits) = sides(leg.marked.leg.amount);
    Posting {
        account: leg.marked.leg.account.clone(),
        currency: leg.currency.clone(),
        debits,
        credits,
        transactions: vec![leg.id.clone()],
        holds: u32::from(leg.holds),
        ride: None,
    }
}

fn removal(leg: &MarkedLeg<'_>) -> Removal {
    let (debits, credits) = sides(leg.marked.leg.amount);
    Removal {
        account: leg.marked.leg.account.clone(),
        debits,
        credits,
        released: leg.marked.released,
        transactions: vec![leg.id.clone()],
        holds: u32::from(leg.holds),
    }
}

/// Accounts to look at, each once, and the transactions whose marks are asked about.
pub(super) type Looks = BTreeMap<AccountId, BTreeSet<TransactionId>>;

/// A look at the accounts that they touch, each for the marks of its own.
pub(super) fn looks<'a>(bodies: impl IntoIterator<Item = Legs<'a>>) -> Looks {
    let mut looks = Looks::new();
    for (id, body) in bodies {
        for leg in body.legs() {
            looks.entry(leg.account.clone()).or_default().insert(id.clone());
        }
    }
    looks
}

/// Adds a look for the marks that removals are to remove.
pub(super) fn look_for<'a>(removals: impl IntoIterator<Item = &'a Removal>, looks: &mut Looks) {
    for Removal { account, transactions, .. } in removals {
        looks.entry(account.clone()).or_default().extend(transactions.iter().cloned());
    }
}

/// What the accounts say about a transaction that should be posted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    /// Every leg that is to have a mark has it.
    Posted,
    /// An account refuses a leg for good.
    Refused(Reason),
    /// An account could not be looked at.
    Unknown(Left),
    /// These legs have no mark, and nothing speaks against them: try them one by one.
    Open(Vec<Posting>),
}

/// Looks at every leg of a transaction. The reason named is that of the first leg that has one;
/// `refusals` are legs that the server refuses to post. A hold posts its debits only; an account
/// that would refuse its credit refuses it now, and not when somebody has confirmed it.
pub(super) fn judge(
    id: &TransactionId,
    body: &Body,
    accounts: &Accounts,
    refusals: &Refusals,
) -> Judged {
    let mut open = Vec::new();
    for marked in marked_legs((id, body)) {
        let leg = marked.marked.leg;
        let read = match accounts.of(leg) {
            Ok(read) => read,
            Err(judged) => return judged,
        };
        if read.marks.as_ref().is_some_and(|marks| marks.contains(id)) {
            continue;
        }
        let refusal = refusal(read, leg, body).or_else(|| match &read.account {
            Ok(account) if marked.holds => account.hold_refusal(),
            Ok(_) | Err(_) => None,
        });
        let unwritable = || {
            let problem = refusals.get(&(leg.account.clone(), id.clone()))?;
            let message =
                format!("account {:?}: the database refuses to change it: {problem}", leg.account);
            Some(Reason::new(ReasonCode::AccountInvalid, message))
        };
        if let Some(reason) = refusal.or_else(unwritable) {
            return Judged::Refused(reason);
        }
        open.push(posting(&marked));
    }
    let later = body.legs().iter().filter(|leg| !leg.amount.is_negative());
    for leg in later.filter(|_| body.awaits_confirmation()) {
        match accounts.of(leg).map(|read| refusal(read, leg, body)) {
            Ok(None) => {}
            Ok(Some(reason)) => return Judged::Refused(reason),
            Err(judged) => return judged,
        }
    }
    if open.is_empty() { Judged::Posted } else { Judged::Open(open) }
}

/// Why an account refuses a leg, if it does.
fn refusal(read: &AccountRead, leg: &Leg, body: &Body) -> Option<Reason> {
    match &read.account {
        Err(problem) => Some(account::unreadable(&leg.account, &echo(problem))),
        Ok(account) => account.refusal(leg.amount, body.currency.as_deref()),
    }
}

/// Whether any mark of this removal is still on its account, as far as is known.
pub(super) fn any_mark_left(removal: &Removal, accounts: &Accounts) -> bool {
    let mark = |id| accounts.mark(&removal.account, id, None);
    removal.transactions.iter().any(|id| mark(id) != Mark::Gone)
}

#[cfg(test)]
mod tests {
    use ledger::account::Account;
    use ledger::transaction::ReasonCode;

    use super::*;

    fn id(text: &str) -> TransactionId {
        text.into()
    }

    fn transfer(source: &str, destination: &str, value: i64) -> Body {
        Body::transfer(source, destination, Amount::Int(value)).expect("valid")
    }

    fn accounts(list: Vec<Account>) -> Accounts {
        let read = |account: Account| AccountRead {
            id: account.id.clone(),
            marks: Some(account.pending_transactions.clone()),
            account: Ok(account),
            as_written: true,
        };
        let mut accounts = Accounts::default();
        accounts.read(list.into_iter().map(read).collect());
        accounts
    }

    #[test]
    fn many_transfers_on_one_account_are_one_posting() {
        let bodies = [transfer("a", "m", 3), transfer("b", "m", 4), transfer("m", "a", 5)];
        let ids = [id("1"), id("2"), id("3")];
        let postings = postings_per_account(ids.iter().zip(&bodies));
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
        let postings = postings_per_account(ids.iter().zip(&bodies));
        let on_a: Vec<_> = postings.iter().filter(|p| &*p.account == "a").collect();
        assert_eq!(on_a.iter().map(|p| p.transactions.len()).sum::<usize>(), 4);
        assert_eq!(on_a.len(), 4, "one in euros, and no sum beyond the limit");
    }

    #[test]
    fn a_look_at_the_accounts_tells_posted_refused_and_open_apart() {
        let mut rich = Account::new("a", Amount::Int(10));
        let poor = Account::new("b", Amount::Int(0));
        let body = transfer("a", "b", 10);
        let (one, two, none) = (id("1"), id("2"), Refusals::new());
        let before = accounts(vec![rich.clone(), poor.clone()]);
        assert!(
            matches!(judge(&one, &body, &before, &none), Judged::Open(legs) if legs.len() == 2)
        );

        rich.pending_transactions.insert(one.clone());
        rich.balance = Amount::Int(0);
        let half = accounts(vec![rich.clone(), poor.clone()]);
        assert!(matches!(judge(&one, &body, &half, &none), Judged::Open(legs) if legs.len() == 1));
        let Judged::Refused(reason) = judge(&two, &body, &half, &none) else {
            panic!("no money left")
        };
        assert_eq!(reason.code, ReasonCode::InsufficientFunds);

        let mut credited = poor.clone();
        credited.pending_transactions.insert(one.clone());
        let both = accounts(vec![rich, credited]);
        assert_eq!(judge(&one, &body, &both, &none), Judged::Posted);

        let Judged::Refused(reason) = judge(&one, &body, &accounts(vec![poor]), &none) else {
            panic!("no account a")
        };
        assert_eq!(reason.code, ReasonCode::AccountNotFound);
    }

    #[test]
    fn a_leg_that_the_server_refuses_refuses_its_transaction_and_no_other() {
        let there =
            accounts(vec![Account::new("a", Amount::Int(9)), Account::new("b", Amount::ZERO)]);
        let body = transfer("a", "b", 1);
        let refusals = Refusals::from([(("b".into(), id("1")), "no".to_owned())]);
        let Judged::Refused(reason) = judge(&id("1"), &body, &there, &refusals) else {
            panic!("b refuses it")
        };
        assert_eq!(reason.code, ReasonCode::AccountInvalid);
        assert!(matches!(judge(&id("2"), &body, &there, &refusals), Judged::Open(_)));
    }

    #[test]
    fn a_mark_is_stuck_where_its_account_cannot_lose_it_and_gone_where_it_is_not() {
        let unreadable = |marks: Option<&str>| {
            let marks = marks.map(|mark| [id(mark)].into());
            let account = Err("floor is missing".to_owned());
            let mut accounts = Accounts::default();
            let read = AccountRead { id: "a".into(), marks, account, as_written: true };
            accounts.read(vec![read]);
            accounts
        };
        let stuck = Mark::Stuck("floor is missing".to_owned());
        assert_eq!(unreadable(Some("1")).mark("a", &id("1"), None), stuck);
        assert_eq!(unreadable(None).mark("a", &id("1"), None), stuck);
        assert_eq!(unreadable(Some("2")).mark("a", &id("1"), None), Mark::Gone);
        assert_eq!(Accounts::default().mark("a", &id("1"), None), Mark::Gone);
        let mut unread = Accounts::default();
        unread.unread([&"a".into()], Left::Apart);
        assert_eq!(unread.mark("a", &id("1"), None), Mark::Unknown(Left::Apart));
    }
}
