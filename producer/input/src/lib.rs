#![doc = include_str!("../README.md")]

mod account;
mod capture;
pub mod content;
pub mod crowd;
pub mod files;
mod record;
mod transfer;
mod unique;

use std::fmt;

use ledger::transaction::{BodyError, TransactionId, check_name};

pub use account::{parse as parse_account, parse_floor, parse_opening};
pub use capture::{parse as parse_capture, parse_hold};
pub use record::{Record, csv_row, json_row};
pub use transfer::{Defaults, Transfer, parse as parse_transfer};
pub use unique::Unique;

/// The fields of a transfer.
pub const TRANSFER: &[&str] = &[
    "id",
    "source",
    "destination",
    "value",
    "legs",
    "currency",
    "metadata",
    "hold",
    "holdExpiresAt",
    "notBefore",
    "expiresAt",
    "exclusiveKey",
];

/// The fields of a capture.
pub const CAPTURE: &[&str] = &["value", "captured"];

/// The fields of a hold to confirm.
pub const HOLD: &[&str] = &["id", "value", "captured"];

/// The fields of an account.
pub const ACCOUNT: &[&str] = &["account", "balance", "floor", "currency", "status"];

/// The fields of an account that is opened: the same, and who pays its opening balance.
pub const OPENING: &[&str] = &["account", "balance", "from", "floor", "currency", "status"];

/// The fields of a floor to be set.
pub const FLOOR: &[&str] = &["floor", "currency", "reason"];

/// The fields of a transaction that something is to be done with.
pub const NAMED: &[&str] = &["id"];

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The field, like `legs[0].amount`; none when the input as a whole makes no sense.
    pub field: Option<String>,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl Flaw {
    fn of(field: impl Into<String>, problem: impl Into<String>) -> Flaw {
        Flaw { field: Some(field.into()), problem: problem.into() }
    }

    fn whole(problem: impl Into<String>) -> Flaw {
        Flaw { field: None, problem: problem.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl From<Flaw> for String {
    fn from(flaw: Flaw) -> String {
        flaw.to_string()
    }
}

impl From<BodyError> for Flaw {
    fn from(error: BodyError) -> Flaw {
        let whole = error.to_string();
        match whole.split_once(": ") {
            Some((field, problem)) => Flaw::of(field, problem),
            None => Flaw::whole(whole),
        }
    }
}

/// Reads which transaction something is to be done with.
///
/// # Errors
/// Names the field.
pub fn parse_named(mut record: Record) -> Result<TransactionId, Flaw> {
    Ok(name("id", record.required("id")?)?.into())
}

/// The name, if it is one that an `_id`, an account or a currency can have.
fn name(field: &str, name: String) -> Result<String, Flaw> {
    check_name(field, &name)?;
    Ok(name)
}
