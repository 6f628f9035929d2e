//! What the API says and what it takes: the types of its schemas.
//!
//! - `taken`: what requests ask for. `transaction`, `account`, `event`: what answers say.
//!
//! Promises that every stored document can be shown: what can't be read is left out, and `invalid`
//! says why. Amounts are texts, so that no reader of JSON rounds them.
//!
//! A decimal amount always has a point, so it reads back as what it is.

mod account;
mod event;
mod taken;
mod transaction;

use bson::{Bson, Document};
use ledger::amount::Amount;
use ledger::json;
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::param::{any_object, string};

pub use account::{Account, MARKS_MAX, OpeningTransfer};
pub use event::Outcome;
pub use taken::{
    HoldToConfirm, NamedTransaction, NewAccount, NewCapture, NewFloor, NewTransaction,
};
pub use transaction::{Reason, Stands, Transaction};

/// An amount that is told.
///
/// A whole number of minor units, or a decimal number, which always has a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Money(String);

impl From<Amount> for Money {
    fn from(amount: Amount) -> Money {
        Money(json::amount(amount))
    }
}

impl PartialSchema for Money {
    fn schema() -> RefOr<Schema> {
        let about = "An amount in the form of its account: a whole number of minor units like \
                     \"1250\", or a decimal number, which always has a point, like \"12.50\"";
        let schema = string().pattern(Some(r"^-?[0-9]+(\.[0-9]+)?$")).description(Some(about));
        RefOr::T(schema.into())
    }
}

impl ToSchema for Money {}

/// What a client keeps with a transaction: an object with any fields.
pub struct Metadata;

impl PartialSchema for Metadata {
    fn schema() -> RefOr<Schema> {
        RefOr::T(any_object().into())
    }
}

impl ToSchema for Metadata {}

fn id(document: &Document) -> String {
    match document.get("_id") {
        Some(Bson::String(id)) => id.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn text(document: &Document, field: &str) -> Option<String> {
    document.get_str(field).ok().map(str::to_owned)
}

fn whole(document: &Document, field: &str) -> Option<i64> {
    match document.get(field) {
        Some(Bson::Int64(number)) => Some(*number),
        Some(Bson::Int32(number)) => Some((*number).into()),
        Some(_) | None => None,
    }
}

/// Moments beyond the year 9999 are left out: no format has them.
fn moment(document: &Document, field: &str) -> Option<String> {
    document.get_datetime(field).ok()?.try_to_rfc3339_string().ok()
}
