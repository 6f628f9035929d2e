//! What an event says, as a schema. The event itself is made once, for messages as well; see
//! `ledger::event`, and `common/schemas/outcome.json` for all of its rules.

use utoipa::ToSchema;

use super::transaction::Leg;
use super::{Metadata, Money, Reason};
use crate::words::EndState;

/// What a transaction asked for, and how it ended. Fields may be added.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Outcome {
    /// The transaction's id.
    id: String,
    /// How it has ended.
    #[schema(value_type = EndState)]
    state: (),
    /// The account that is debited, of a transfer.
    #[schema(required = false, nullable = false)]
    source: Option<String>,
    /// The account that is credited, of a transfer.
    #[schema(required = false, nullable = false)]
    destination: Option<String>,
    /// How much is transferred.
    #[schema(required = false, nullable = false)]
    value: Option<Money>,
    /// Of a transaction of any other form: its changes.
    #[schema(required = false, nullable = false)]
    legs: Option<Vec<Leg>>,
    /// Of a hold that is done: what was captured of each of its accounts.
    #[schema(required = false, nullable = false)]
    captured: Option<Vec<Leg>>,
    /// The currency of all accounts; missing where they have none.
    #[schema(required = false, nullable = false)]
    currency: Option<String>,
    /// The transaction whose effect this one takes back.
    #[schema(required = false, nullable = false)]
    reverses: Option<String>,
    /// The key that no other undecided transaction had.
    #[schema(required = false, nullable = false)]
    exclusive_key: Option<String>,
    /// What the client has submitted with it.
    #[schema(required = false, nullable = false, value_type = Metadata)]
    metadata: Option<()>,
    /// That there is metadata, and that it is too large for a message, or not readable.
    #[schema(required = false, nullable = false)]
    metadata_omitted: Option<bool>,
    /// Why it was canceled.
    #[schema(required = false, nullable = false)]
    reason: Option<Reason>,
    /// When it was submitted.
    #[schema(required = false, nullable = false, value_type = String, format = DateTime)]
    created_at: Option<()>,
}
