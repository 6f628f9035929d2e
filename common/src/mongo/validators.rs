//! What the server refuses, whoever writes.
//!
//! The validators keep floats and half-written documents out, whoever writes; all finer rules are
//! the producer's (`Body`) and the worker's, who cancel what breaks them. The validators are plain
//! queries: each of the five writes of a transfer would pay 2 µs more for a `$jsonSchema`.
//! `{$gt: ""}` is a string that is not empty: comparisons never cross types.

use mongodb::bson::{Bson, Document, doc};

use crate::account::Status;
use crate::transaction::State;

/// What BSON numbers an amount may be.
const AMOUNT: [&str; 3] = ["long", "int", "decimal"];

pub(super) fn accounts() -> Document {
    let amount = doc! { "$type": &AMOUNT[..] };
    doc! {
        "_id": { "$gt": "" },
        "balance": &amount,
        "pendingDebits": &amount,
        "pendingCredits": &amount,
        "openingBalance": &amount,
        "pendingTransactions": { "$type": "array" },
        "floor": { "$type": ["long", "int", "decimal", "null"] },
        "status": { "$in": Status::ALL.map(|s| Bson::from(s.as_str())).to_vec() },
    }
}

pub(super) fn transactions() -> Document {
    let text = doc! { "$gt": "" };
    doc! {
        "_id": &text,
        "state": { "$in": State::ALL.map(Bson::from).to_vec() },
        "createdAt": { "$type": "date" },
        "lastModified": { "$type": "date" },
        "$or": [
            { "value": { "$type": &AMOUNT[..] }, "source": &text, "destination": &text, "legs": null },
            { "legs": { "$type": "array" }, "value": null },
        ],
        // A claim counts the attempts, which what is no whole number would make fail. A list matches
        // when one of its elements does.
        "$nor": [
            { "attempts": { "$exists": true, "$not": { "$type": ["int", "long"] } } },
            { "attempts": { "$type": "array" } },
            { "state": { "$type": "array" } },
        ],
    }
}
