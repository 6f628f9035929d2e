//! Whose the collections of accounts and transactions are: Tandem's alone, or shared with programs
//! that have other documents there.
//!
//! Owns what a document has to be to count as the ledger's. In collections of Tandem's own, every
//! document does, and one that is no account or no transaction is a violation. In those that a
//! layout names, it is nobody's trouble, and neither is what others had ended before Tandem came.
//! Promises that a document that Tandem has written is never passed over, whatever was made of it
//! since. What it is passed over for is missing all the same where somebody names it. Pure.

use std::cmp::Ordering;

use layout::IdKind;
use ledger::transaction::{State, check_name};
use mongo::{ENDED_BY_OTHERS, Store, WRITTEN_FIELDS};
use mongodb::bson::{Document, RawBsonRef, RawDocument, doc};

use super::raw::{self, state_of};

/// Whose the collections are, and what the ids of accounts are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collections {
    is_shared: bool,
    /// Whether accounts are known by their `_id`, which every document has.
    has_key: bool,
    ids: IdKind,
}

impl Collections {
    pub fn of(store: &Store) -> Collections {
        let accounts = store.layout().map(|layout| &layout.accounts);
        Collections {
            is_shared: accounts.is_some(),
            has_key: accounts.is_some_and(|accounts| accounts.path("_id") != "_id"),
            ids: accounts.map(layout::Collection::id_kind).unwrap_or_default(),
        }
    }

    /// Whether programs of the owner's may write there, too.
    pub fn is_shared(self) -> bool {
        self.is_shared
    }

    /// The read of the accounts behind this one, in the order of their ids.
    pub fn accounts_behind(self, after: Option<&str>) -> Document {
        let mut asked = doc! { "projection": raw::account_fields(), "sort": { "_id": 1 } };
        if !self.has_key {
            asked.insert("hint", doc! { "_id": 1 });
        }
        match (self.is_shared, after) {
            // Only ids of the right kind match, and no other document is an account.
            (true, after) => {
                asked.insert("filter", doc! { "_id": { "$gt": after.unwrap_or_default() } });
            }
            // A condition on `_id` would find texts only.
            (false, Some(after)) => {
                asked.insert("min", doc! { "_id": after });
            }
            (false, None) => {}
        }
        asked
    }

    /// What is read of a transaction.
    pub fn transaction_fields(self) -> Document {
        let mut fields = raw::transaction_fields();
        if self.is_shared {
            let written = WRITTEN_FIELDS.iter().chain([&ENDED_BY_OTHERS]);
            let written = written.filter(|field| !matches!(**field, "reason" | "parked"));
            fields.extend(written.map(|field| ((*field).to_owned(), 1.into())));
        }
        fields
    }

    /// The order of two accounts.
    pub fn order(self, one: &str, other: &str) -> Ordering {
        self.ids.order(one, other)
    }

    /// Whether a document is to be an account: it has an id of the right kind, and a balance that
    /// is a number or not there yet.
    pub fn has_account(self, document: &RawDocument) -> bool {
        if !self.is_shared {
            return true;
        }
        let may_be_number = match document.get("balance") {
            Ok(None | Some(RawBsonRef::Null)) => true,
            Ok(Some(balance)) => matches!(
                balance,
                RawBsonRef::Int32(_)
                    | RawBsonRef::Int64(_)
                    | RawBsonRef::Double(_)
                    | RawBsonRef::Decimal128(_)
            ),
            Err(_) => false,
        };
        let has_marks = || {
            let marks = document.get_array("pendingTransactions");
            marks.is_ok_and(|marks| marks.iter_elements().next().is_some())
        };
        has_name(document) && (may_be_number || is_there(document, "openingBalance") || has_marks())
    }

    /// Whether a document is to be a transaction: it has an id of the right kind and a state of
    /// ours, and has not been ended by others before Tandem has seen it. `producer adopt` dates
    /// those, and says so in the document.
    pub fn has_transaction(self, document: &RawDocument) -> bool {
        if !self.is_shared {
            return true;
        }
        let is_open = state_of(document).is_some_and(|state: State| !state.is_final());
        let is_only_dated = is_there(document, ENDED_BY_OTHERS);
        let says = |field: &&str| !(is_only_dated && **field == *"createdAt");
        let mut written = WRITTEN_FIELDS.iter().filter(|field| says(field));
        let mut is_written = || written.any(|field| is_there(document, field));
        has_name(document) && (is_open || is_written())
    }
}

fn has_name(document: &RawDocument) -> bool {
    document.get_str("_id").is_ok_and(|id| check_name("_id", id).is_ok())
}

fn is_there(document: &RawDocument, field: &str) -> bool {
    !matches!(document.get(field), Ok(None | Some(RawBsonRef::Null)))
}

#[cfg(test)]
pub(super) const SHARED: Collections =
    Collections { is_shared: true, has_key: false, ids: IdKind::Int64 };

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, RawDocumentBuf};

    use super::*;

    fn raw(document: Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(&document).expect("plain BSON")
    }

    #[test]
    fn what_is_no_account_is_nobodys_trouble_where_others_write_unless_tandem_has_written_it() {
        let cases = [
            (doc! { "_id": "1" }, true),
            (doc! { "_id": "1", "balance": Bson::Null }, true),
            (doc! { "_id": "1", "balance": 5 }, true),
            (doc! { "_id": "1", "balance": 12.5 }, true),
            (doc! { "_id": "1", "balance": "mine" }, false),
            (doc! { "_id": "1", "balance": "mine", "pendingTransactions": [] }, false),
            (doc! { "_id": "1", "balance": "mine", "pendingTransactions": ["t"] }, true),
            (doc! { "_id": "1", "balance": "mine", "openingBalance": 5_i64 }, true),
            (doc! { "_id": Bson::Null, "balance": 5 }, false),
            (doc! { "balance": 5, "openingBalance": 5_i64 }, false),
        ];
        for (document, is_account) in cases {
            assert_eq!(SHARED.has_account(&raw(document.clone())), is_account, "{document}");
            assert!(Collections::default().has_account(&raw(document)));
        }
    }

    #[test]
    fn what_is_no_transaction_or_was_ended_by_others_is_nobodys_trouble_where_others_write() {
        let cases = [
            (doc! { "_id": "1", "state": "initial" }, true),
            (doc! { "_id": Bson::Null, "state": "initial" }, false),
            (doc! { "_id": "1", "state": Bson::Null }, false),
            (doc! { "_id": "1", "state": Bson::Null, "line": "l" }, true),
            (doc! { "_id": "1", "state": "done" }, false),
            (doc! { "_id": "1", "state": "canceled", "attempts": 1 }, true),
            (doc! { "_id": "1", "state": "done", "line": "l" }, true),
            (doc! { "_id": "1", "state": "done", "createdAt": 5 }, true),
            (doc! { "_id": "1", "state": "done", "createdAt": 5, "endedByOthers": true }, false),
            (doc! { "_id": "1", "state": "done", "line": "l", "endedByOthers": true }, true),
            (doc! { "_id": "1", "state": "initial", "endedByOthers": true }, true),
            (doc! { "_id": "1" }, false),
        ];
        for (document, is_transaction) in cases {
            let is_it = SHARED.has_transaction(&raw(document.clone()));
            assert_eq!(is_it, is_transaction, "{document}");
            assert!(Collections::default().has_transaction(&raw(document)));
        }
    }
}
