//! What one request may see and touch, beside which operation it is for.
//!
//! Owns two bounds: what was submitted under a name, and accounts by how their names begin. Promises
//! that whoever is bound to accounts debits no other one, and that what it may not see is to it as
//! if it were not there; so a transaction whose legs can't be read is not there, either. Pure. Fails
//! with a problem that names only what the caller has named.

use std::sync::Arc;

use bson::Document;
use client::{Error, Kind};
use ledger::account::Account;
use ledger::limits::echo;
use ledger::transaction::{Body, Leg};

use super::problem::Problem;
use super::scope::Scope;

/// What one request may see and touch.
#[derive(Clone, Debug)]
pub struct Access {
    submitter: Option<Arc<str>>,
    only_own: bool,
    scopes: Arc<[Scope]>,
    accounts: Arc<[String]>,
}

/// Which accounts an operation on a stored transaction debits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debited {
    /// Those that the transaction does: who confirms it pays with their money, and who releases or
    /// cancels it decides about that.
    ByIt,
    /// Those that it credits: its reversal debits them, and would be refused if it were submitted as
    /// a transaction of its own.
    ByItsReversal,
}

impl Access {
    /// With `only_own`, only what `submitter` has submitted is seen. `accounts` are the beginnings of
    /// names that it is bound to; none for all accounts.
    pub fn new(
        submitter: Option<Arc<str>>,
        only_own: bool,
        scopes: Arc<[Scope]>,
        accounts: Arc<[String]>,
    ) -> Access {
        Access { submitter, only_own, scopes, accounts }
    }

    /// To everything, in nobody's name.
    pub fn full() -> Access {
        Access::new(None, false, Arc::new(Scope::ALL), Arc::default())
    }

    /// The name under which it submits.
    pub fn submitter(&self) -> Option<&Arc<str>> {
        self.submitter.as_ref()
    }

    /// Whether it does not see everything.
    pub fn is_limited(&self) -> bool {
        self.only_own || self.is_bound()
    }

    /// Whether it is bound to some accounts.
    pub fn is_bound(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// The beginnings of names that it is bound to; none for all accounts.
    pub fn accounts(&self) -> &[String] {
        &self.accounts
    }

    /// Whether it sees the account of this name.
    pub fn has(&self, account: &str) -> bool {
        !self.is_bound() || self.accounts.iter().any(|prefix| account.starts_with(&**prefix))
    }

    /// Whether it sees this transaction.
    pub fn sees(&self, transaction: &Document) -> bool {
        let by = transaction.get_str("submittedBy").ok();
        let is_own = by.is_some() && by == self.submitter.as_deref();
        if self.only_own && !is_own {
            return false;
        }
        let touches = |body: Body| body.legs().iter().any(|leg| self.has(&leg.account));
        !self.is_bound() || Body::from_document(transaction).is_ok_and(touches)
    }

    /// An account that it does not see is not there.
    ///
    /// # Errors
    /// As of an account that there is not.
    pub fn require_seen(&self, account: &str) -> Result<(), Error> {
        if self.has(account) {
            return Ok(());
        }
        Err(Error::NotFound { kind: Kind::Account, id: account.to_owned() })
    }

    /// Refuses to submit what debits other accounts. `as_legs`: it was sent as legs, in this order.
    ///
    /// # Errors
    /// Names the field, and the first such account.
    pub fn require_debits(&self, legs: &[Leg], as_legs: bool) -> Result<(), Problem> {
        let others = |(_, leg): &(usize, &Leg)| leg.amount.is_negative() && !self.has(&leg.account);
        let Some((at, leg)) = legs.iter().enumerate().find(others) else { return Ok(()) };
        let field = if as_legs { format!("legs[{at}].account") } else { "source".to_owned() };
        Err(Problem::field(&field, self.elsewhere("debits", &leg.account)).forbidden())
    }

    /// Refuses an operation on a stored transaction that debits other accounts. Returns the
    /// transaction.
    ///
    /// # Errors
    /// When it does not see the transaction, as if there were none. Names `id`, and no account:
    /// the caller has named none.
    pub fn require_moves<'a>(
        &self,
        id: &str,
        transaction: Option<&'a Document>,
        debited: Debited,
    ) -> Result<&'a Document, Problem> {
        let missing = || Error::NotFound { kind: Kind::Transaction, id: id.to_owned() };
        let transaction = transaction.filter(|it| self.sees(it)).ok_or_else(missing)?;
        let Ok(body) = Body::from_document(transaction) else {
            // Bound callers do not see it, and of others only the submitter counts.
            return Ok(transaction);
        };
        let takes = |leg: &&Leg| match debited {
            Debited::ByIt => leg.amount.is_negative(),
            Debited::ByItsReversal => !leg.amount.is_negative(),
        };
        match body.legs().iter().filter(takes).all(|leg| self.has(&leg.account)) {
            true => Ok(transaction),
            false => {
                let whose = match debited {
                    Debited::ByIt => "debits",
                    Debited::ByItsReversal => "would be taken back from",
                };
                let problem = format!("{} {whose} {}", echo(id), self.others());
                Err(Problem::invalid("id", problem).forbidden())
            }
        }
    }

    /// Refuses to cancel what is a hold, where only its own is seen: that would release it.
    ///
    /// # Errors
    /// Names `id`, and the scope that is lacking.
    pub fn require_cancels(&self, id: &str, transaction: &Document) -> Result<(), Problem> {
        match self.only_own && transaction.get_bool("hold").unwrap_or_default() {
            true => {
                let problem = format!("{} is a hold; to release it needs the scope hold", echo(id));
                Err(Problem::invalid("id", problem).forbidden())
            }
            false => Ok(()),
        }
    }

    /// Refuses to create an account that it would not see, or one with money on it that no other
    /// account pays; and to have it paid by an account that it does not debit.
    ///
    /// # Errors
    /// Names the field.
    pub fn require_creates(&self, account: &Account, from: Option<&str>) -> Result<(), Problem> {
        let refused = |field, problem| Err(Problem::field(field, problem).forbidden());
        if !self.has(&account.id) {
            return refused("account", self.elsewhere("names", &account.id));
        }
        match from {
            None if account.balance.is_zero() || self.may(Scope::Operate) => Ok(()),
            None => {
                let problem = "an opening balance makes money, so it needs the scope operate, too; \
                               name the account that pays it as `from`";
                refused("balance", problem.to_owned())
            }
            Some(_) if !self.may(Scope::Submit) => {
                let problem =
                    "to take the opening balance from an account needs the scope submit, too";
                refused("from", problem.to_owned())
            }
            Some(from) if !self.has(from) => refused("from", self.elsewhere("debits", from)),
            Some(_) => Ok(()),
        }
    }

    fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    fn elsewhere(&self, does: &str, account: &str) -> String {
        format!("{does} {:?}, {}", echo(account), self.others())
    }

    /// Its own bounds, in words.
    fn others(&self) -> String {
        let own = self.accounts.join(", ");
        format!(
            "an account that the token is not for; it is bound to accounts that begin with: {own}"
        )
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};
    use ledger::amount::Amount;

    use super::*;
    use crate::problem::Code;

    fn bound(accounts: &[&str]) -> Access {
        let accounts = accounts.iter().map(|&it| it.to_owned()).collect();
        Access::new(Some("till".into()), false, Arc::default(), accounts)
    }

    fn own() -> Access {
        Access::new(Some("till".into()), true, Arc::default(), Arc::default())
    }

    fn stored(source: &str, destination: &str, by: Option<&str>) -> Document {
        let mut document = doc! {
            "_id": "t", "state": "done", "source": source, "destination": destination, "value": 5_i64,
        };
        document.extend(by.map(|by| ("submittedBy".to_owned(), Bson::from(by))));
        document
    }

    fn legs(of: &[(&str, i64)]) -> Vec<Leg> {
        of.iter().map(|&(id, n)| Leg { account: id.into(), amount: Amount::Int(n) }).collect()
    }

    #[test]
    fn what_was_submitted_under_another_name_is_not_there_for_who_sees_only_its_own() {
        assert!(own().sees(&stored("a", "b", Some("till"))));
        for by in [None, Some("till2"), Some("")] {
            assert!(!own().sees(&stored("a", "b", by)), "{by:?}");
        }
        let nobody = Access { submitter: None, ..own() };
        assert!(!nobody.sees(&stored("a", "b", None)), "who has no name has submitted nothing");
        assert!(Access::full().sees(&stored("a", "b", None)));
    }

    #[test]
    fn who_may_only_submit_cancels_its_own_transaction_and_releases_no_hold() {
        let mut hold = stored("a", "b", Some("till"));
        assert_eq!(own().require_cancels("t", &hold), Ok(()));
        hold.insert("hold", true);
        let problem = own().require_cancels("t", &hold).expect_err("it would be released");
        assert_eq!((problem.code, &*problem.errors[0].pointer), (Code::Forbidden, "id"));
        assert_eq!(Access::full().require_cancels("t", &hold), Ok(()), "who has operate may");
    }

    #[test]
    fn a_bound_token_sees_what_touches_an_account_of_its_own() {
        let shop = bound(&["shop/", "till-"]);
        assert!(shop.has("shop/1") && shop.has("till-") && !shop.has("shop") && !shop.has("x"));
        assert!(
            shop.sees(&stored("shop/1", "bob", None)) && shop.sees(&stored("bob", "till-2", None))
        );
        assert!(!shop.sees(&stored("bob", "alice", Some("till"))));
        let unreadable = doc! { "_id": "t", "source": "shop/1", "value": "much" };
        assert!(!shop.sees(&unreadable) && own().is_limited() && !Access::full().is_limited());
        let hidden = shop.require_seen("alice").expect_err("it is not there");
        assert_eq!(hidden.to_string(), "alice: no such account");
    }

    #[test]
    fn a_bound_token_debits_its_own_accounts_only_and_the_field_is_named() {
        let shop = bound(&["shop/"]);
        assert_eq!(shop.require_debits(&legs(&[("shop/1", -5), ("bob", 5)]), false), Ok(()));
        for (sent, as_legs, pointer, named) in [
            (legs(&[("bob", -5), ("shop/1", 5)]), false, "#/source", "bob"),
            (legs(&[("shop/1", -5), ("al", -1), ("bo", 6)]), true, "#/legs/1/account", "al"),
        ] {
            let problem = shop.require_debits(&sent, as_legs).expect_err(named);
            assert_eq!((problem.code, &*problem.errors[0].pointer), (Code::Forbidden, pointer));
            assert!(problem.detail.contains(&format!("debits {named:?}")), "{}", problem.detail);
        }
    }

    #[test]
    fn who_confirms_needs_the_payer_and_who_reverses_needs_the_payee() {
        let shop = bound(&["shop/"]);
        for (source, destination, by_it, by_its_reversal) in [
            ("shop/1", "bob", Ok(()), Err(Code::Forbidden)),
            ("bob", "shop/1", Err(Code::Forbidden), Ok(())),
            ("bob", "alice", Err(Code::NotFound), Err(Code::NotFound)),
        ] {
            let stored = stored(source, destination, None);
            let may = |debited| {
                let may = shop.require_moves("t", Some(&stored), debited);
                may.map(drop).map_err(|problem| {
                    assert!(!problem.detail.contains("bob"), "{}", problem.detail);
                    problem.code
                })
            };
            assert_eq!(may(Debited::ByIt), by_it, "{source} {destination}");
            assert_eq!(may(Debited::ByItsReversal), by_its_reversal, "{source} {destination}");
        }
        let theirs = stored("bob", "alice", None);
        let hidden = shop.require_moves("t", Some(&theirs), Debited::ByIt);
        let missing = shop.require_moves("t", None, Debited::ByIt);
        assert_eq!(hidden, missing, "as one that is not there");
    }

    #[test]
    fn an_opening_balance_needs_operate_or_an_account_of_its_own_that_pays_it() {
        let account = |id: &str, balance| Account::new(id, Amount::Int(balance));
        let creates = |access: &Access, id, balance, from| {
            let made = access.require_creates(&account(id, balance), from);
            made.map_err(|problem| (problem.code, problem.errors[0].pointer.clone()))
        };
        let with = |scopes: &[Scope], accounts: &[&str]| Access {
            scopes: scopes.into(),
            ..bound(accounts)
        };
        let refused = |pointer: &str| Err((Code::Forbidden, pointer.to_owned()));
        let clerk = with(&[Scope::Accounts], &[]);
        assert_eq!(creates(&clerk, "a", 0, None), Ok(()));
        assert_eq!(creates(&clerk, "a", 1, None), refused("#/balance"));
        assert_eq!(creates(&clerk, "a", -1, None), refused("#/balance"));
        assert_eq!(creates(&clerk, "a", 1, Some("b")), refused("#/from"));
        let operator = with(&[Scope::Accounts, Scope::Operate], &[]);
        assert_eq!(creates(&operator, "a", 1, None), Ok(()));
        assert_eq!(creates(&operator, "a", 1, Some("b")), refused("#/from"), "it is a transfer");
        let payer = with(&[Scope::Accounts, Scope::Submit], &[]);
        assert_eq!(creates(&payer, "a", 1, Some("b")), Ok(()));
        assert_eq!(creates(&payer, "a", 1, None), refused("#/balance"));
        let shop = with(&[Scope::Accounts, Scope::Submit], &["shop/"]);
        assert_eq!(creates(&shop, "a", 0, None), refused("#/account"));
        assert_eq!(creates(&shop, "shop/1", 0, None), Ok(()));
        assert_eq!(creates(&shop, "shop/1", 5, Some("shop/2")), Ok(()));
        assert_eq!(creates(&shop, "shop/1", 5, Some("capital")), refused("#/from"));
        assert_eq!(creates(&shop, "a", 5, Some("shop/2")), refused("#/account"));
    }
}
