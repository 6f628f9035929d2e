//! Expressions on fields that should hold a date: others write these documents, too, and a text or
//! a number would compare with a date without an error.

use mongodb::bson::{RawDocumentBuf, rawdoc};

/// Whether a field, given as its path, holds a date.
pub(super) fn is_date(field: &str) -> RawDocumentBuf {
    rawdoc! { "$eq": [{ "$type": field }, "date"] }
}

/// Its date; null where it holds none, which `$min` and `$max` leave out.
pub(super) fn date_or_null(field: &str) -> RawDocumentBuf {
    rawdoc! { "$cond": [is_date(field), field, null] }
}
