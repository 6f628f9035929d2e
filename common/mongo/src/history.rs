//! The indexes that lists and statements read through. A ledger has them or does without.
//!
//! By account there are those that have ended, by `lastModified`, which is the moment of the end, so that a statement is in the order in which
//! money was booked. Their entries are written once, with the end: an index entry for an account is
//! expensive, because it is somewhere in the index and not at its end, and submissions would pay
//! for it. The end copies the accounts into a field of their own, so that there is one such index,
//! and not one for each place in which a transaction names accounts. The transactions in flight on
//! an account are its marks.
//!
//! With one index for each place of an account, the end of a native transaction cost MongoDB 6.0
//! nearly half as much again, because within a native transaction the server reads the collection's
//! whole catalog entry for each index. A transaction that was `done` before it came into the ledger
//! has no `endedOn`, and is in no list by account.

use mongodb::bson::{Bson, Document, doc};

use super::index::Index;
use super::names::ENDED_BY_ACCOUNT;

/// Whether a fresh ledger has these indexes, where its owner does not choose.
pub(super) const BY_DEFAULT: bool = true;

/// The field in which a transaction that has ended names its accounts. Workers write it with the
/// end.
pub const ENDED_ON: &str = "endedOn";

/// All of them.
pub(super) fn indexes() -> Vec<Index> {
    vec![Index::new(
        ENDED_BY_ACCOUNT,
        key(ENDED_ON, "lastModified"),
        doc! { ENDED_ON: { "$exists": true } },
    )]
}

fn key(first: &str, moment: &str) -> Document {
    [first, moment, "_id"].into_iter().map(|field| (field.to_owned(), Bson::from(1))).collect()
}
