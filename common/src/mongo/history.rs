//! The indexes that lists and statements read through. A ledger has them or does without.
//!
//! By `createdAt`, which never changes, a list stays in one order while transactions go through their
//! states. By account there are those that have ended, by `lastModified`, which is the moment of the
//! end, so that a statement is in the order in which money was booked. Their entries are written
//! once, with the end: an index entry for an account is expensive, because it is somewhere in the
//! index and not at its end, and submissions would pay for it. The end copies the accounts into a
//! field of their own, so that there is one such index, and not one for each place in which a
//! transaction names accounts. The transactions in flight on an account are its marks.

use mongodb::bson::{Bson, Document, doc};

use super::definitions::Index;
use crate::transaction::State;

/// Whether a fresh ledger has these indexes, where its owner does not choose.
pub(super) const BY_DEFAULT: bool = true;

/// The field in which a transaction that has ended names its accounts. Workers write it with the end.
pub const ENDED_ON: &str = "endedOn";

/// All of them.
pub(super) fn indexes() -> Vec<Index> {
    let final_states = State::ALL.into_iter().filter(|state| state.is_final());
    let final_states: Vec<Bson> = final_states.map(Bson::from).collect();
    vec![
        Index::new("by_created", key(None, "createdAt"), doc! {}),
        Index::new(
            "ended_by_created",
            key(Some("state"), "createdAt"),
            doc! { "state": { "$in": final_states } },
        ),
        Index::new(
            "ended_on",
            key(Some(ENDED_ON), "lastModified"),
            doc! { ENDED_ON: { "$exists": true } },
        ),
    ]
}

fn key(first: Option<&str>, moment: &str) -> Document {
    let fields = first.into_iter().chain([moment, "_id"]);
    fields.map(|field| (field.to_owned(), Bson::from(1))).collect()
}
