//! Answers and documents in words that both sides share.
//!
//! Owns what counts as the same: numbers of the same type and value, marks in any order, and times
//! that are the same whole number of hours away from the sequence's beginning. A sequence takes
//! far less than half an hour, so no two classes of time can be confused.

use std::collections::{BTreeMap, BTreeSet};

use common::account::{Account, Status};
use common::amount::Amount;
use common::ledger::{AccountRead, Seen, ServerMs, Transacted};
use common::transaction::{Body, State, format_nanos};
use mongodb::bson::{Bson, DateTime, Document};

use crate::operation::HOUR;

/// A document's fields in words.
pub type Fields = BTreeMap<String, String>;

/// All documents by id.
pub type Shown = BTreeMap<String, Fields>;

/// What an operation answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// So many matched, or changed, as the ledger counts.
    Count(usize),
    /// A release says nothing.
    Released,
    /// Documents as read.
    Documents(Shown),
    /// A submission is in the database by this insert.
    Submitted,
    /// It was there before with the same content.
    Unchanged(State),
    /// What was to be canceled is in this state.
    Is(State),
    /// The account has the status that was asked for.
    Has(Status),
    /// A native transaction was committed, with these verdicts, or had a conflict.
    Transacted(Transacted),
    /// There is no such document, or it is in the way.
    Refused,
}

impl Answer {
    /// Transactions as read.
    pub fn seen(seen: Vec<Seen>, begun: ServerMs) -> Answer {
        let count = seen.len();
        let shown: Shown =
            seen.into_iter().map(|seen| (seen.id.to_string(), of_seen(seen, begun))).collect();
        assert_eq!(shown.len(), count, "a transaction was read twice");
        Answer::Documents(shown)
    }

    /// Accounts as read.
    pub fn accounts(accounts: Vec<AccountRead>) -> Answer {
        let one = |(id, account): AccountRead| {
            let fields = match account {
                Ok(account) => of_account(&account),
                Err(problem) => Fields::from([("problem".to_owned(), problem)]),
            };
            (id.to_string(), fields)
        };
        Answer::Documents(accounts.into_iter().map(one).collect())
    }

    /// Whether it did what it was asked for, at least in part.
    pub fn took_effect(&self) -> bool {
        match self {
            Answer::Count(count) => *count > 0,
            Answer::Documents(shown) => !shown.is_empty(),
            Answer::Submitted | Answer::Has(_) | Answer::Released => true,
            Answer::Is(state) => matches!(state, State::Canceling | State::Canceled),
            Answer::Transacted(Transacted::Committed(_)) => true,
            Answer::Unchanged(_) | Answer::Transacted(Transacted::Conflict) | Answer::Refused => {
                false
            }
        }
    }
}

fn of_seen(seen: Seen, begun: ServerMs) -> Fields {
    let body = match &seen.body {
        Ok(body) => fields_of_body(body),
        Err(problem) => problem.clone(),
    };
    let time = |at: ServerMs| if at == 0 { "none".to_owned() } else { hours(at, begun) };
    [
        ("state", seen.state.to_string()),
        ("claim", format!("{:?}", seen.claim)),
        ("leaseUntil", time(seen.lease_until)),
        ("takeoverAt", time(seen.takeover_at)),
        ("attempts", seen.attempts.to_string()),
        ("createdAt", seen.created_at.to_string()),
        ("serverNow", time(seen.server_now)),
        ("body", body),
    ]
    .map(|(field, text)| (field.to_owned(), text))
    .into()
}

fn fields_of_body(body: &Body) -> String {
    // The amounts in one notation: 1.50 and 1.5 are the same.
    let document = body.to_document("", DateTime::from_millis(0));
    let mut fields = of(&document, 0);
    fields.remove("state");
    format!("{fields:?}")
}

fn of_account(account: &Account) -> Fields {
    of(&account.to_document(DateTime::from_millis(0)), 0)
}

/// A document in words.
pub fn of(document: &Document, begun: ServerMs) -> Fields {
    document.iter().map(|(field, value)| (field.clone(), in_words(field, value, begun))).collect()
}

fn in_words(field: &str, value: &Bson, begun: ServerMs) -> String {
    match value {
        Bson::Int64(_) | Bson::Int32(_) | Bson::Decimal128(_) => number(value),
        Bson::Array(marks) if field == "pendingTransactions" => {
            let mut marks: Vec<String> = marks.iter().map(ToString::to_string).collect();
            marks.sort();
            format!("{marks:?}")
        }
        Bson::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| in_words(field, item, begun)).collect();
            items.join(", ")
        }
        Bson::Document(document) => format!("{:?}", of(document, begun)),
        // The client's own clock, which both sides are told.
        Bson::DateTime(time) if field == "createdAt" => time.timestamp_millis().to_string(),
        Bson::DateTime(time) => hours(time.timestamp_millis(), begun),
        other => other.to_string(),
    }
}

fn number(value: &Bson) -> String {
    let kind = format!("{:?}", value.element_type());
    match Amount::from_bson(value) {
        Ok(amount) => format!("{} ({kind})", format_nanos(amount.nanos())),
        Err(_) => format!("{value} ({kind})"),
    }
}

fn hours(at: ServerMs, begun: ServerMs) -> String {
    let hours = (at - begun + HOUR / 2).div_euclid(HOUR);
    format!("{hours:+} h")
}

/// What differs, one sentence a field.
pub fn differences(real: &Shown, model: &Shown) -> Vec<String> {
    let mut found = Vec::new();
    let ids: BTreeSet<_> = real.keys().chain(model.keys()).collect();
    let none = Fields::new();
    for id in ids {
        let (real, model) = (real.get(id).unwrap_or(&none), model.get(id).unwrap_or(&none));
        let fields: BTreeSet<_> = real.keys().chain(model.keys()).collect();
        for field in fields.into_iter().filter(|field| real.get(*field) != model.get(*field)) {
            let word = |side: &Fields| side.get(field).cloned().unwrap_or("nothing".to_owned());
            found.push(format!(
                "{id}: {field} is {} in MongoDB, {} in the model",
                word(real),
                word(model)
            ));
        }
    }
    found
}

/// How two answers differ, if they do.
pub fn answers_differ(real: &Answer, model: &Answer) -> Option<String> {
    match (real, model) {
        (real, model) if real == model => None,
        (Answer::Documents(real), Answer::Documents(model)) => {
            Some(format!("the answers differ: {}", differences(real, model).join("; ")))
        }
        (real, model) => Some(format!("MongoDB answers {real:?}, the model {model:?}")),
    }
}
