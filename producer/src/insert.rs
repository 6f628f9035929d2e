//! Inserting many documents, with an answer for each of them.
//!
//! Promises that `Ok` means: each document is durable, was there before, or is refused for good.
//! After an `Err` any of them may be there; insert all of them again.

use common::ledger::{Fault, LedgerError};
use common::mongo::{Store, fault_of_code};
use mongodb::Collection;
use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, InsertManyError};

const DUPLICATE_KEY: i32 = 11_000;

/// The documents that were not inserted, by their position.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Left {
    /// Their `_id` exists.
    pub existing: Vec<usize>,
    /// The server will never take them, with its reason.
    pub refused: Vec<(usize, String)>,
}

/// Inserts documents, all that can be.
pub(crate) async fn insert_many(
    store: &Store,
    collection: Collection<Document>,
    documents: Vec<Document>,
) -> Result<Left, LedgerError> {
    let inserting = async move {
        match collection.insert_many(documents).ordered(false).await {
            Ok(_) => Ok(InsertManyReply::default()),
            Err(error) => partial(error),
        }
    };
    sort_out(store.limited("insert", inserting).await?)
}

type InsertManyReply = Option<InsertManyError>;

/// An error that speaks for single documents is an answer.
fn partial(error: Error) -> Result<InsertManyReply, Error> {
    match error.kind.as_ref() {
        ErrorKind::InsertMany(partial) => Ok(Some(partial.clone())),
        _ => Err(error),
    }
}

fn sort_out(reply: InsertManyReply) -> Result<Left, LedgerError> {
    let mut left = Left::default();
    let Some(reply) = reply else {
        return Ok(left);
    };
    // Written, but not known to survive a fail-over.
    if let Some(concern) = reply.write_concern_error {
        return Err(LedgerError::passing("insert", concern.message));
    }
    for error in reply.write_errors.unwrap_or_default() {
        if error.code == DUPLICATE_KEY {
            left.existing.push(error.index);
            continue;
        }
        match fault_of_code(error.code) {
            // Of one document that is its size.
            Fault::Refused | Fault::TooMuch => left.refused.push((error.index, error.message)),
            fault @ (Fault::Passing | Fault::Denied) => {
                return Err(LedgerError { operation: "insert", message: error.message, fault });
            }
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, deserialize_from_bson, doc};

    use super::*;

    fn reply(document: Document) -> InsertManyReply {
        Some(deserialize_from_bson(Bson::Document(document)).expect("the driver's own form"))
    }

    #[test]
    fn each_document_has_its_answer() {
        let left = sort_out(reply(doc! { "writeErrors": [
            { "index": 1, "code": DUPLICATE_KEY, "errmsg": "E11000" },
            { "index": 3, "code": 121, "errmsg": "failed validation" },
        ] }));
        let expected = Left { existing: vec![1], refused: vec![(3, "failed validation".into())] };
        assert_eq!(left.expect("an answer"), expected);
        assert_eq!(sort_out(None).expect("an answer"), Left::default());
    }

    #[test]
    fn what_is_not_durable_or_passes_is_an_error_to_try_again() {
        let undurable = doc! { "writeConcernError": {
            "code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out",
        } };
        assert!(sort_out(reply(undurable)).expect_err("not durable").passes());
        let conflict =
            doc! { "writeErrors": [{ "index": 0, "code": 112, "errmsg": "WriteConflict" }] };
        assert!(sort_out(reply(conflict)).expect_err("a conflict").passes());
    }
}
