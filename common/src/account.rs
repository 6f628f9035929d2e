//! An account as the protocol sees it, and the rule by which it refuses a posting.
//!
//! Owns [`Account`] and [`Account::refusal`]: the same rule that the server applies inside the
//! guarded update (`mongo::statements`). There it only *explains* a refusal and never decides a
//! write; in a native transaction, whose reads can't grow stale unnoticed, it decides ([`netting`]).
//!
//! [`netting`]: crate::netting

use std::collections::BTreeSet;

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::amount::Amount;
use crate::transaction::{AccountId, Reason, ReasonCode, TransactionId};

/// Whether an account takes new postings. Undo and settle ignore it: held money must go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Takes postings.
    Open,
    /// Refuses postings until it is unfrozen.
    Frozen,
    /// Refuses postings for good.
    Closed,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 3] = [Status::Open, Status::Frozen, Status::Closed];

    /// The name in the document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Frozen => "frozen",
            Status::Closed => "closed",
        }
    }

    /// Reads the name in the document.
    #[must_use]
    pub fn parse(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// One account document.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its `_id`.
    pub id: AccountId,
    /// Posted, spendable money.
    pub balance: Amount,
    /// Debits posted by transactions in flight; already taken from `balance`.
    pub pending_debits: Amount,
    /// Credits posted by transactions in flight; not yet in `balance`.
    pub pending_credits: Amount,
    /// The marks: which transactions in flight have posted here.
    pub pending_transactions: BTreeSet<TransactionId>,
    /// The lowest allowed balance; `None` is unlimited.
    pub floor: Option<Amount>,
    /// Whether it takes postings.
    pub status: Status,
    /// The currency that a posting must match; none matches only transactions without one.
    pub currency: Option<String>,
    /// What the auditor starts from.
    pub opening_balance: Amount,
}

impl Account {
    /// A fresh account with nothing pending.
    #[must_use]
    pub fn new(id: &str, balance: Amount) -> Account {
        let zero = balance.checked_add(balance.negated()).unwrap_or(Amount::ZERO);
        Account {
            id: id.into(),
            balance,
            pending_debits: zero,
            pending_credits: zero,
            pending_transactions: BTreeSet::new(),
            floor: Some(zero),
            status: Status::Open,
            currency: None,
            opening_balance: balance,
        }
    }

    /// The document to insert.
    #[must_use]
    pub fn to_document(&self, now: DateTime) -> Document {
        let marks: Vec<_> = self.pending_transactions.iter().map(AsRef::as_ref).collect();
        let mut document = doc! {
            "_id": self.id.as_ref(),
            "balance": self.balance,
            "pendingDebits": self.pending_debits,
            "pendingCredits": self.pending_credits,
            "pendingTransactions": marks,
            "floor": self.floor.map_or(Bson::Null, Bson::from),
            "status": self.status.as_str(),
            "openingBalance": self.opening_balance,
            "createdAt": now,
        };
        if let Some(currency) = &self.currency {
            document.insert("currency", currency);
        }
        document
    }

    /// Reads a stored document.
    ///
    /// # Errors
    /// Says which field is missing or of the wrong type.
    pub fn from_document(document: &Document) -> Result<Account, String> {
        let amount = |field: &str| {
            let value = document.get(field).ok_or_else(|| format!("{field} is missing"))?;
            Amount::from_bson(value).map_err(|error| format!("{field}: {error}"))
        };
        let marks = document
            .get_array("pendingTransactions")
            .map_err(|_| "pendingTransactions is missing or not a list".to_owned())?;
        let status = document.get_str("status").unwrap_or_default();
        Ok(Account {
            id: document.get_str("_id").map_err(|_| "_id is not a string".to_owned())?.into(),
            balance: amount("balance")?,
            pending_debits: amount("pendingDebits")?,
            pending_credits: amount("pendingCredits")?,
            pending_transactions: marks.iter().filter_map(Bson::as_str).map(Into::into).collect(),
            floor: match document.get("floor") {
                Some(Bson::Null) => None,
                _ => Some(amount("floor")?),
            },
            status: Status::parse(status)
                .ok_or_else(|| format!("status {status:?} is not open, frozen or closed"))?,
            currency: document.get_str("currency").ok().map(str::to_owned),
            opening_balance: amount("openingBalance")?,
        })
    }

    /// Why this account would refuse a posting now, or `None` if it would take it.
    #[must_use]
    pub fn refusal(&self, amount: Amount, currency: Option<&str>) -> Option<Reason> {
        let refuse = |code, message: String| {
            Some(Reason::new(code, format!("account {:?} {message}", self.id)))
        };
        match self.status {
            Status::Open => {}
            Status::Frozen => return refuse(ReasonCode::AccountFrozen, "is frozen".into()),
            Status::Closed => return refuse(ReasonCode::AccountClosed, "is closed".into()),
        }
        if self.currency.as_deref() != currency {
            let own = self.currency.as_deref().unwrap_or("no currency");
            let asked = currency.unwrap_or("no currency");
            let message = format!("has {own}, the transaction {asked}");
            return refuse(ReasonCode::CurrencyMismatch, message);
        }
        if self.balance.is_int() != amount.is_int() {
            let message = format!("holds {}, which is of another kind than {amount}", self.balance);
            return refuse(ReasonCode::AmountTypeMismatch, message);
        }
        if amount.is_negative() { self.debit_refusal(amount) } else { self.credit_refusal(amount) }
    }

    fn debit_refusal(&self, amount: Amount) -> Option<Reason> {
        let Some(after) = self.balance.checked_add(amount) else {
            let message = format!("account {:?} would fall below -10^18", self.id);
            return Some(Reason::new(ReasonCode::BalanceLimit, message));
        };
        if self.pending_debits.checked_add(amount.negated()).is_none() {
            let message = format!("account {:?} would have debits beyond 10^18 in flight", self.id);
            return Some(Reason::new(ReasonCode::BalanceLimit, message));
        }
        let floor = self.floor.filter(|floor| after < *floor)?;
        let message = format!(
            "account {:?}: balance {} less {} would be below its floor {floor}",
            self.id,
            self.balance,
            amount.negated()
        );
        Some(Reason::new(ReasonCode::InsufficientFunds, message))
    }

    fn credit_refusal(&self, amount: Amount) -> Option<Reason> {
        let fits = self
            .balance
            .checked_add(self.pending_debits)
            .and_then(|sum| sum.checked_add(self.pending_credits))
            .and_then(|sum| sum.checked_add(amount))
            .and_then(|_| self.pending_credits.checked_add(amount))
            .is_some();
        (!fits).then(|| self.too_much())
    }

    pub(crate) fn too_much(&self) -> Reason {
        let message = format!("account {:?} would hold more than 10^18", self.id);
        Reason::new(ReasonCode::BalanceLimit, message)
    }
}

/// The refusal of an account that is not there.
#[must_use]
pub fn missing(id: &str) -> Reason {
    Reason::new(ReasonCode::AccountNotFound, format!("account {id:?} does not exist"))
}

/// The refusal of an account whose document breaks the schema.
#[must_use]
pub fn unreadable(id: &str, problem: &str) -> Reason {
    Reason::new(ReasonCode::AccountInvalid, format!("account {id:?}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(account: &Account, amount: i64, currency: Option<&str>) -> Option<ReasonCode> {
        account.refusal(Amount::Int(amount), currency).map(|reason| reason.code)
    }

    #[test]
    fn every_refusal_has_its_code() {
        let open = Account::new("a", Amount::Int(100));
        assert_eq!(code(&open, -100, None), None);
        assert_eq!(code(&open, -101, None), Some(ReasonCode::InsufficientFunds));
        assert_eq!(code(&open, Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        assert_eq!(code(&open, 1, Some("EUR")), Some(ReasonCode::CurrencyMismatch));
        let unlimited = Account { floor: None, ..open.clone() };
        assert_eq!(code(&unlimited, -1_000, None), None);
        assert_eq!(code(&unlimited, -Amount::MAX, None), None);
        let busy = Account { pending_debits: Amount::Int(1), ..unlimited.clone() };
        assert_eq!(code(&busy, -Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        let owing = Account {
            balance: Amount::Int(-Amount::MAX),
            pending_credits: Amount::Int(1),
            ..unlimited.clone()
        };
        assert_eq!(code(&owing, Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        let frozen = Account { status: Status::Frozen, ..open.clone() };
        assert_eq!(code(&frozen, 1, None), Some(ReasonCode::AccountFrozen));
        let closed = Account { status: Status::Closed, ..open.clone() };
        assert_eq!(code(&closed, 1, None), Some(ReasonCode::AccountClosed));
        let euros = Account { currency: Some("EUR".into()), ..open.clone() };
        assert_eq!(code(&euros, 1, None), Some(ReasonCode::CurrencyMismatch));
        assert_eq!(code(&euros, 1, Some("EUR")), None);
        let decimal = Account::new("d", Amount::parse("1.00").expect("a decimal"));
        assert_eq!(code(&decimal, 1, None), Some(ReasonCode::AmountTypeMismatch));
    }

    #[test]
    fn documents_read_back_as_what_was_written() {
        let mut account = Account::new("a", Amount::parse("12.50").expect("a decimal"));
        account.pending_transactions.insert("t".into());
        account.currency = Some("EUR".into());
        let document = account.to_document(DateTime::from_millis(0));
        assert_eq!(Account::from_document(&document), Ok(account));
    }

    #[test]
    fn a_float_balance_is_named() {
        let mut document = Account::new("a", Amount::ZERO).to_document(DateTime::from_millis(0));
        document.insert("balance", 1.5);
        let error = Account::from_document(&document).expect_err("a float");
        assert!(error.contains("balance") && error.contains("floating-point"), "{error}");
    }
}
