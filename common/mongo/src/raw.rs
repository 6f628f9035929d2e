//! Values as the server sends them, whatever others have written.
//!
//! Owns an `_id` of any type, and how it and a count are read. Promises that no value fails: what
//! is no text is shown as what it is, and what is no count is 0.

use ledger::limits::echo;
use mongodb::bson::{Bson, RawBson, RawDocument, RawDocumentBuf, rawdoc};

/// A document `{_id: …}` as the server has sent it. It keeps an `_id` of any type, also text that
/// is not valid UTF-8, which no other type can hold.
pub type RawId = RawDocumentBuf;

/// The [`RawId`] of a text.
#[must_use]
pub fn raw_id(id: &str) -> RawId {
    rawdoc! { "_id": id }
}

/// An `_id` of whatever type, as text.
pub(super) fn shown(id: RawBson) -> String {
    match Bson::try_from(id) {
        Ok(Bson::String(id)) => echo(&id).into_owned(),
        Ok(other) => echo(&other.to_string()).into_owned(),
        Err(_) => "an id that is no text".to_owned(),
    }
}

/// A count in the answer to an aggregation.
pub(super) fn number(group: &RawDocument, field: &str) -> u64 {
    let number = group.get_i64(field).or_else(|_| group.get_i32(field).map(i64::from));
    number.ok().and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}
