//! Transactions as answers say them.

use bson::Document;
use client::Standing;
use ledger::json;
use ledger::transaction::{Body, Leg as StoredLeg, ParkCode, ReasonCode, Terms, UNKNOWN};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Metadata, Money, id, moment, text, whole};
use crate::words::{CancelCode, ParkedCode, State};

/// Why a transaction is canceled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reason {
    /// As a word for programs.
    #[schema(value_type = CancelCode)]
    pub code: &'static str,
    /// As a sentence.
    pub message: String,
}

/// How a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TransactionState)]
pub struct Stands {
    /// Its id.
    pub id: String,
    /// Its state.
    #[schema(value_type = State)]
    pub state: &'static str,
    /// Why it is canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub reason: Option<Reason>,
    /// Why it has not come to its end while it was waited for, if that is because settlement is
    /// paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub note: Option<String>,
}

impl Stands {
    /// A transaction in this state.
    pub fn new(id: &str, standing: &Standing) -> Stands {
        let state = standing.state.map_or(UNKNOWN, |state| state.as_str());
        let reason = |(code, message): &(String, String)| Reason {
            code: ReasonCode::told(code),
            message: message.clone(),
        };
        let reason = standing.reason.as_ref().map(reason);
        Stands { id: id.to_owned(), state, reason, note: None }
    }
}

/// The change of one account.
#[derive(Debug, Serialize, ToSchema)]
pub struct Leg {
    account: String,
    amount: Money,
}

/// Why and since when a transaction is set apart.
#[derive(Debug, Serialize, ToSchema)]
pub struct Parked {
    #[schema(value_type = ParkedCode)]
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    at: Option<String>,
}

/// A transaction.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    /// Its id. An `_id` that is no text is shown as text.
    id: String,
    /// Its state.
    #[schema(value_type = State)]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    value: Option<Money>,
    /// In place of source, destination and value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    legs: Option<Vec<Leg>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    currency: Option<String>,
    /// The transaction whose effect this one takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reverses: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = Metadata, nullable = false)]
    metadata: Option<Value>,
    /// Whether its debits are only reserved until it is confirmed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    hold: bool,
    /// A hold that is not confirmed before this moment is released.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    hold_expires_at: Option<String>,
    /// What was captured of a hold that was confirmed: the change of each of its accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    captured: Option<Vec<Leg>>,
    /// Nobody settles it before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    not_before: Option<String>,
    /// What notBefore was when it was submitted, if it was changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    submitted_not_before: Option<String>,
    /// It is canceled if it is not applied before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    expires_at: Option<String>,
    /// While it is not decided, no other transaction can have this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    exclusive_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    parked: Option<Parked>,
    /// The name of the token that has submitted it by the HTTP API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    submitted_by: Option<String>,
    /// The worker that has claimed it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    application: Option<String>,
    /// How often it was claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    created_at: Option<String>,
    /// When a worker claimed it first. Nothing is kept of this where it is settled in one native
    /// transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    claimed_at: Option<String>,
    /// When it became applied or canceling: from then on, its end is certain. As `claimedAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    decided_at: Option<String>,
    /// When a hold was confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    confirmed_at: Option<String>,
    /// When it changed last; of what is done or canceled, the moment of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    last_modified: Option<String>,
    /// Why its content can't be shown, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    invalid: Option<String>,
}

impl Transaction {
    /// What a document says.
    pub fn of(document: &Document) -> Transaction {
        let Stands { state, reason, .. } = Stands::new("", &Standing::of(document));
        let parked = document.get_document("parked").ok().map(|parked| Parked {
            code: ParkCode::told(parked.get_str("code").unwrap_or_default()),
            message: text(parked, "message").unwrap_or_default(),
            at: moment(parked, "at"),
        });
        let mut transaction = Transaction {
            id: id(document),
            state,
            reason,
            parked,
            submitted_by: text(document, "submittedBy"),
            application: text(document, "application"),
            attempts: whole(document, "attempts"),
            created_at: moment(document, "createdAt"),
            claimed_at: moment(document, "claimedAt"),
            decided_at: moment(document, "decidedAt"),
            confirmed_at: moment(document, "confirmedAt"),
            last_modified: moment(document, "lastModified"),
            ..Transaction::default()
        };
        match Body::from_document(document) {
            Ok(body) => transaction.asked(body, document.contains_key("legs")),
            Err(problem) => transaction.invalid = Some(problem.to_string()),
        }
        transaction
    }

    fn asked(&mut self, body: Body, as_legs: bool) {
        match body.legs() {
            [debit, credit] if !as_legs => {
                self.source = Some(debit.account.to_string());
                self.destination = Some(credit.account.to_string());
                self.value = Some(credit.amount.into());
            }
            legs => self.legs = Some(told(legs)),
        }
        self.on(body.terms());
        self.currency = body.currency;
        self.reverses = body.reverses;
        self.metadata = body.metadata.as_deref().and_then(json::from_raw);
    }

    fn on(&mut self, terms: &Terms) {
        self.hold = terms.hold;
        self.hold_expires_at = terms.hold_expires_at.map(json::timestamp);
        self.captured = terms.captured.as_deref().map(told);
        self.not_before = terms.not_before.map(json::timestamp);
        self.submitted_not_before = terms.submitted_not_before.map(json::timestamp);
        self.expires_at = terms.expires_at.map(json::timestamp);
        self.exclusive_key.clone_from(&terms.exclusive_key);
    }
}

fn told(legs: &[StoredLeg]) -> Vec<Leg> {
    let leg = |leg: &StoredLeg| Leg { account: leg.account.to_string(), amount: leg.amount.into() };
    legs.iter().map(leg).collect()
}
