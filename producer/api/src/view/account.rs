//! Accounts as answers say them.

use bson::{Bson, Document};
use client::{Reserved, holds};
use ledger::account::{Account as Stored, FLOOR_CHANGE, Status};
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::transaction::UNKNOWN;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Money, Reason, Stands, id, moment, text, whole};
use crate::problem::{Problem, ProblemDetails};
use crate::words::{AccountStatus, State};

/// The most marks of one account that are told.
pub const MARKS_MAX: usize = 1_000;

/// An account.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Its name.
    id: String,
    /// Whether it takes postings.
    #[schema(value_type = AccountStatus)]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    currency: Option<String>,
    /// Posted money. What transactions in flight take out is out of it already, what they bring is
    /// not yet in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    balance: Option<Money>,
    /// What may be spent now: the balance above the floor. Missing where there is no floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    available: Option<Money>,
    /// What transactions in flight and holds take out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pending_debits: Option<Money>,
    /// How many holds reserve something of it.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    holds: u64,
    /// What they reserve together, a part of pendingDebits. Missing in lists, and where there are
    /// too many marks to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    on_hold: Option<Money>,
    /// What transactions in flight bring.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pending_credits: Option<Money>,
    /// The lowest balance. Missing where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    floor: Option<Money>,
    /// When and why the floor was changed last, if it was. In lists it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    floor_change: Option<FloorChange>,
    /// What it started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    opening_balance: Option<Money>,
    /// How many transactions in flight or on hold have posted on it.
    marks: u64,
    /// Which ones, at most 1,000; in lists they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pending_transactions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    created_at: Option<String>,
    /// What became of the transfer that pays its opening balance; only as it is created with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    opening_transfer: Option<OpeningTransfer>,
    /// Why its numbers can't be shown, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    invalid: Option<String>,
}

/// What became of the transfer that pays the opening balance of an account.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpeningTransfer {
    /// Its id.
    id: String,
    /// Its state, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = State)]
    state: Option<&'static str>,
    /// Why it is canceled: then the account is open without the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    /// Why it has not come to its end while it was waited for, if that is because settlement is
    /// paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    note: Option<String>,
    /// Why it was not taken: then the account is open without the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<ProblemDetails>,
}

impl OpeningTransfer {
    /// It was taken, and stands so.
    pub fn taken(stands: Stands) -> OpeningTransfer {
        let Stands { id, state, reason, note } = stands;
        OpeningTransfer { id, state: Some(state), reason, note, problem: None }
    }

    /// It was refused.
    pub fn refused(id: &str, problem: &Problem) -> OpeningTransfer {
        let problem = Some(problem.told());
        OpeningTransfer { id: id.to_owned(), state: None, reason: None, note: None, problem }
    }

    /// The same as the list of acts has it.
    pub fn told(&self) -> String {
        let id = echo(&self.id);
        match self.state {
            Some(state) => {
                format!("it is open; the transfer of its opening balance, {id}, is {state}")
            }
            None => {
                format!("it is open with 0; the transfer of its opening balance, {id}, was refused")
            }
        }
    }
}

/// The last change of a floor.
#[derive(Debug, Serialize, ToSchema)]
pub struct FloorChange {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    at: Option<String>,
    /// The floor before it. Missing where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    from: Option<Money>,
    /// The reason that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<String>,
    /// Who has given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    by: Option<String>,
}

impl FloorChange {
    fn of(change: &Document) -> FloorChange {
        let from = change.get("from").and_then(|from| Amount::from_bson(from).ok());
        FloorChange {
            at: moment(change, "at"),
            from: from.map(Money::from),
            reason: text(change, "reason"),
            by: text(change, "by"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Account {
    /// What a document says, with its marks and what holds reserve.
    pub fn of(document: &Document, reserved: &Reserved) -> Account {
        let marks = document.get_array("pendingTransactions").map_or(&[][..], Vec::as_slice);
        let shown = marks.iter().filter_map(Bson::as_str).take(MARKS_MAX).map(str::to_owned);
        let count = marks.len() as u64;
        let on_hold = reserved.amount.filter(|_| reserved.holds > 0).map(Money::from);
        let pending_transactions = Some(shown.collect());
        let floor_change = document.get_document(FLOOR_CHANGE).ok().map(FloorChange::of);
        Account { pending_transactions, on_hold, floor_change, ..Account::new(document, count) }
    }

    /// What a document of a list says, which has only the number of its marks.
    pub fn listed(document: &Document) -> Account {
        let marks = whole(document, "marks").and_then(|marks| u64::try_from(marks).ok());
        let mut whole = document.clone();
        whole.insert("pendingTransactions", Vec::<Bson>::new());
        Account::new(&whole, marks.unwrap_or_default())
    }

    /// The same, as it is created with a transfer that pays its opening balance.
    pub fn opened_with(self, transfer: OpeningTransfer) -> Account {
        Account { opening_transfer: Some(transfer), ..self }
    }

    /// The same, with what is wrong with it told otherwise.
    pub fn told(self, told: impl Fn(String) -> String) -> Account {
        Account { invalid: self.invalid.map(told), ..self }
    }

    fn new(document: &Document, marks: u64) -> Account {
        let status = document.get_str("status").ok().and_then(Status::parse);
        let account = Account {
            id: id(document),
            status: status.map_or(UNKNOWN, Status::as_str),
            currency: text(document, "currency"),
            marks,
            holds: holds(document),
            created_at: moment(document, "createdAt"),
            ..Account::default()
        };
        match Stored::from_document(document) {
            Ok(stored) => account.with(&stored),
            Err(problem) => Account { invalid: Some(problem), ..account },
        }
    }

    fn with(self, stored: &Stored) -> Account {
        let above = |floor: Amount| stored.balance.checked_add(floor.negated());
        Account {
            status: stored.status.as_str(),
            balance: Some(stored.balance.into()),
            available: stored.floor.and_then(above).map(Money::from),
            pending_debits: Some(stored.pending_debits.into()),
            pending_credits: Some(stored.pending_credits.into()),
            floor: stored.floor.map(Money::from),
            opening_balance: Some(stored.opening_balance.into()),
            ..self
        }
    }
}
