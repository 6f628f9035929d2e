//! Which documents of `transactions` are somebody's submission.
//!
//! The collection may have been the user's before it was a ledger's, and others write to it. Owns
//! the condition by which a document counts as a submission: its `_id` is a text, and it says from
//! whom and to whom, in legs or in names, or a worker has claimed it before. Whatever else is wrong
//! with such a document, it is judged: canceled, or parked. A document without that stays as it is,
//! whatever its `state` says: sweepers leave it out, nobody counts it as waiting, and no number of
//! them keeps a submission from being found. Pure.

use mongodb::bson::{RawArrayBuf, rawdoc};

/// Fields of a transaction that nobody but Tandem writes. One that is final and has none of them
/// was ended by others.
pub const WRITTEN_FIELDS: [&str; 7] =
    ["createdAt", "attempts", "decidedAt", "line", "reason", "parked", "captured"];

/// The field by which `producer adopt` says of a transaction that others had ended it: it has dated
/// it (`createdAt`), and Tandem has written nothing else of it.
pub const ENDED_BY_OTHERS: &str = "endedByOthers";

/// What is none, as the value of `$nor`: a filter can have that beside any other condition.
pub(super) fn foreign() -> RawArrayBuf {
    let no_text = rawdoc! { "$not": { "$type": "string" } };
    [
        rawdoc! { "_id": no_text.clone() },
        rawdoc! {
            "$or": [{ "source": no_text.clone() }, { "destination": no_text }],
            "legs": { "$not": { "$type": "array" } },
            "claimedAt": { "$not": { "$type": "date" } },
        },
    ]
    .into_iter()
    .collect()
}
