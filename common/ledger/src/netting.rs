//! What a native transaction does with a batch: one verdict a transaction, one change an account.
//!
//! Owns the decision of the second engine, as a pure function of what was read in one snapshot.
//! Each transaction is decided singly, in the order given, on balances that hold the effect of
//! those before it, by the rules of [`Account::refusal`]. A credit may so fund a debit that comes
//! after it: nobody sees the batch half done, and nothing of it can be undone later. No balance is
//! below its floor after any of the transactions, so none is after all of them.

use std::collections::HashMap;

use crate::account::{self, Account};
use crate::amount::Amount;
use crate::transaction::{AccountId, Body, Leg, Reason, ReasonCode};
use crate::{AccountRead, Content, ServerMs, Verdict};

/// The effect of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Netting {
    /// One for each transaction, in the order given.
    pub verdicts: Vec<Verdict>,
    /// How balances change, those first that most transactions touch: a hot account is what others
    /// want, too, so the wait between reading and writing it should be the shortest. An account is
    /// named again where a sum to be added would leave the limits of an amount.
    pub changes: Vec<(AccountId, Change)>,
}

/// How a balance changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// This is added to it.
    Add(Amount),
    /// Both are written, as computed from the snapshot: the account is not stored as Tandem writes
    /// it. Adding to a double would make a double again, which loses units beyond 2^53, and an
    /// opening that is missing has to be written before there is an effect.
    Set {
        /// The balance after the batch.
        balance: Amount,
        /// What the account opened with.
        opening: Amount,
    },
}

/// An account on its way through the batch.
struct Running {
    account: Account,
    /// What was added, in parts that are amounts.
    parts: Vec<Amount>,
    legs: usize,
    before: Amount,
    as_written: bool,
}

impl Running {
    fn add(&mut self, amount: Amount, after: Amount) {
        self.account.balance = after;
        self.legs += 1;
        match self.parts.last_mut().and_then(|part| Some((part.checked_add(amount)?, part))) {
            Some((sum, part)) => *part = sum,
            None => self.parts.push(amount),
        }
    }

    /// What is to be written. What came and went in equal parts needs no write.
    fn changes(self) -> Vec<Change> {
        let Account { balance, opening_balance: opening, .. } = self.account;
        match self.as_written {
            true => {
                let parts = self.parts.into_iter().filter(|part| !part.is_zero());
                parts.map(Change::Add).collect()
            }
            false if balance == self.before => vec![],
            false => vec![Change::Set { balance, opening }],
        }
    }
}

type Books = HashMap<AccountId, Result<Running, String>>;

/// Decides every transaction at this moment of the server's clock, and nets what those that are
/// accepted change.
#[must_use]
pub fn net(contents: &[Content], accounts: Vec<AccountRead>, now: ServerMs) -> Netting {
    let running = |AccountRead { id, account, as_written, .. }| {
        let running = |account: Account| {
            let before = account.balance;
            Running { account, parts: Vec::new(), legs: 0, before, as_written }
        };
        (id, account.map(running))
    };
    let mut books: Books = accounts.into_iter().map(running).collect();
    let verdicts = contents
        .iter()
        .map(|(id, body)| Verdict { id: id.clone(), refused: decide(body, &mut books, now).err() })
        .collect();
    Netting { verdicts, changes: changes(books) }
}

/// Adds the effect of a transaction, or says why it is refused: all of its legs or none.
fn decide(body: &Result<Body, String>, books: &mut Books, now: ServerMs) -> Result<(), Reason> {
    let invalid = |problem: &String| Reason::new(ReasonCode::Invalid, problem.clone());
    let body = body.as_ref().map_err(invalid)?;
    if let Some(reason) = body.expiry(now) {
        return Err(reason);
    }
    let mut balances = Vec::with_capacity(body.legs().len());
    for leg in body.legs() {
        balances.push(after(body, leg, books)?);
    }
    for (leg, balance) in body.legs().iter().zip(balances) {
        if let Some(Ok(running)) = books.get_mut(&leg.account) {
            running.add(leg.amount, balance);
        }
    }
    Ok(())
}

/// The balance of a leg's account after it. The accounts of a transaction are distinct, so its legs
/// can be looked at one by one.
fn after(body: &Body, leg: &Leg, books: &Books) -> Result<Amount, Reason> {
    let account = match books.get(&leg.account) {
        None => return Err(account::missing(&leg.account)),
        Some(Err(problem)) => return Err(account::unreadable(&leg.account, problem)),
        Some(Ok(running)) => &running.account,
    };
    match account.refusal(leg.amount, body.currency.as_deref()) {
        Some(reason) => Err(reason),
        None => account.balance.checked_add(leg.amount).ok_or_else(|| account.too_much()),
    }
}

fn changes(books: Books) -> Vec<(AccountId, Change)> {
    let read = books.into_iter().filter_map(|(id, read)| Some((id, read.ok()?)));
    let mut touched: Vec<_> = read.filter(|(_, running)| running.legs > 0).collect();
    // The order is the same in every process, so that two of them meet at the first account.
    touched.sort_by(|(a, x), (b, y)| y.legs.cmp(&x.legs).then_with(|| a.cmp(b)));
    let changes = |(id, running): (AccountId, Running)| {
        running.changes().into_iter().map(move |change| (id.clone(), change))
    };
    touched.into_iter().flat_map(changes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::DateTime;

    use crate::account::Status;
    use crate::transaction::Terms;

    const NOW: ServerMs = 1_000;

    fn account(id: &str, balance: i64) -> Account {
        Account::new(id, Amount::Int(balance))
    }

    fn read(accounts: &[Account]) -> Vec<AccountRead> {
        let read = |account: &Account| AccountRead {
            id: account.id.clone(),
            marks: None,
            account: Ok(account.clone()),
            as_written: true,
        };
        accounts.iter().map(read).collect()
    }

    fn transfer(id: &str, source: &str, destination: &str, value: i64) -> Content {
        let body = Body::transfer(source, destination, Amount::Int(value)).expect("valid");
        (id.into(), Ok(body))
    }

    fn codes(netting: &Netting) -> Vec<Option<ReasonCode>> {
        let code = |verdict: &Verdict| verdict.refused.as_ref().map(|reason| reason.code);
        netting.verdicts.iter().map(code).collect()
    }

    /// What is added.
    fn changes_of(netting: &Netting) -> Vec<(&str, Amount)> {
        let added = |(id, change): &'_ (AccountId, Change)| match change {
            Change::Add(amount) => *amount,
            Change::Set { .. } => panic!("{id} is as Tandem writes it"),
        };
        netting.changes.iter().map(|change| (&*change.0, added(change))).collect()
    }

    #[test]
    fn one_change_an_account_and_the_hottest_first() {
        let accounts = read(&[account("a", 10), account("b", 10), account("m", 0)]);
        let contents =
            [transfer("1", "a", "m", 3), transfer("2", "b", "m", 4), transfer("3", "a", "b", 4)];
        let netting = net(&contents, accounts, NOW);
        assert_eq!(codes(&netting), [None, None, None]);
        let expected = [("a", Amount::Int(-7)), ("m", Amount::Int(7))];
        assert_eq!(changes_of(&netting), expected, "b gave and got the same");
    }

    #[test]
    fn each_is_decided_singly_on_what_those_before_it_left() {
        let accounts = read(&[account("a", 10), account("b", 0)]);
        let contents = [
            transfer("too early", "b", "a", 1),
            transfer("first", "a", "b", 7),
            transfer("too much", "a", "b", 4),
            transfer("the rest", "a", "b", 3),
            transfer("funded by those before", "b", "a", 10),
        ];
        let netting = net(&contents, accounts, NOW);
        let poor = Some(ReasonCode::InsufficientFunds);
        assert_eq!(codes(&netting), [poor, None, poor, None, None]);
        assert_eq!(changes_of(&netting), [], "all came back");
    }

    #[test]
    fn a_refused_leg_leaves_nothing_of_its_transaction() {
        let accounts = read(&[account("a", 10), account("b", 0)]);
        let legs = [("a", -5), ("b", 4), ("nobody", 1)];
        let leg =
            |(id, amount): (&str, i64)| Leg { account: id.into(), amount: Amount::Int(amount) };
        let body = Body::new(legs.map(leg).to_vec()).expect("valid");
        let contents = [("split".into(), Ok(body)), transfer("all of it", "a", "b", 10)];
        let netting = net(&contents, accounts, NOW);
        assert_eq!(codes(&netting), [Some(ReasonCode::AccountNotFound), None]);
        assert_eq!(changes_of(&netting), [("a", Amount::Int(-10)), ("b", Amount::Int(10))]);
    }

    #[test]
    fn every_refusal_is_that_of_the_two_phase_engine() {
        let accounts = [
            account("a", 100),
            Account { status: Status::Frozen, ..account("frozen", 1) },
            Account { status: Status::Closed, ..account("closed", 1) },
            Account { currency: Some("EUR".into()), ..account("euros", 1) },
            Account { floor: None, ..account("full", Amount::MAX) },
            Account::new("decimal", Amount::parse("1.00").expect("a decimal")),
        ];
        let mut accounts = read(&accounts);
        let problem = Err("floor is missing".into());
        accounts.push(AccountRead {
            id: "broken".into(),
            marks: None,
            account: problem,
            as_written: true,
        });
        let cases = [
            ("nobody", ReasonCode::AccountNotFound),
            ("broken", ReasonCode::AccountInvalid),
            ("frozen", ReasonCode::AccountFrozen),
            ("closed", ReasonCode::AccountClosed),
            ("euros", ReasonCode::CurrencyMismatch),
            ("full", ReasonCode::BalanceLimit),
            ("decimal", ReasonCode::AmountTypeMismatch),
        ];
        let mut contents: Vec<_> =
            cases.iter().map(|(to, code)| transfer(code.as_str(), "a", to, 1)).collect();
        contents.push(("senseless".into(), Err("no legs".into())));
        let netting = net(&contents, accounts, NOW);
        let expected: Vec<_> =
            cases.iter().map(|(_, code)| *code).chain([ReasonCode::Invalid]).map(Some).collect();
        assert_eq!(codes(&netting), expected);
        assert_eq!(changes_of(&netting), []);
    }

    #[test]
    fn held_money_counts_towards_the_limit_and_is_not_spendable() {
        let full = Account {
            pending_debits: Amount::Int(Amount::MAX - 10),
            pending_credits: Amount::Int(5),
            ..account("a", 3)
        };
        let contents = [
            transfer("one too many", "b", "a", 3),
            transfer("fits", "b", "a", 2),
            transfer("held", "a", "b", 6),
        ];
        let netting = net(&contents, read(&[full, account("b", 100)]), NOW);
        let expected = [Some(ReasonCode::BalanceLimit), None, Some(ReasonCode::InsufficientFunds)];
        assert_eq!(codes(&netting), expected);
    }

    #[test]
    fn a_sum_beyond_the_limit_is_added_in_parts() {
        let deep = Account { floor: None, ..account("deep", -Amount::MAX) };
        let rich = Account { floor: None, ..account("rich", Amount::MAX) };
        let contents = [
            transfer("1", "rich", "deep", Amount::MAX),
            transfer("2", "rich", "deep", Amount::MAX),
        ];
        let netting = net(&contents, read(&[deep, rich]), NOW);
        assert_eq!(codes(&netting), [None, None]);
        assert_eq!(netting.changes.len(), 4);
        let sum = |name: &str| {
            let of = changes_of(&netting).into_iter().filter(|(id, _)| *id == name);
            of.map(|(_, change)| change.nanos()).sum::<i128>()
        };
        assert_eq!(sum("deep"), 2 * Amount::Int(Amount::MAX).nanos());
        assert_eq!(sum("rich"), -sum("deep"));
    }

    #[test]
    fn what_is_not_as_written_gets_the_balance_itself_and_its_opening_once() {
        let mut accounts = read(&[account("a", 10), account("b", 5), account("same", 7)]);
        accounts.iter_mut().for_each(|read| read.as_written = false);
        let contents = [
            transfer("1", "a", "b", 3),
            transfer("2", "a", "b", 4),
            transfer("there", "a", "same", 1),
            transfer("and back", "same", "a", 1),
        ];
        let netting = net(&contents, accounts, NOW);
        assert_eq!(codes(&netting), [None; 4]);
        let set = |balance, opening| Change::Set {
            balance: Amount::Int(balance),
            opening: Amount::Int(opening),
        };
        assert_eq!(netting.changes, [("a".into(), set(3, 10)), ("b".into(), set(12, 5))]);
    }

    #[test]
    fn what_has_expired_is_refused_and_leaves_its_money_to_those_after_it() {
        let expires = |id: &str, at: ServerMs| {
            let (id, body) = transfer(id, "a", "b", 10);
            let terms = Terms { expires_at: Some(DateTime::from_millis(at)), ..Terms::default() };
            (id, body.map(|body| body.with_terms(terms).expect("they fit each other")))
        };
        let contents = [expires("late", NOW), expires("in time", NOW + 1)];
        let netting = net(&contents, read(&[account("a", 10), account("b", 0)]), NOW);
        assert_eq!(codes(&netting), [Some(ReasonCode::Expired), None]);
    }
}
