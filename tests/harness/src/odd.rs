//! Odd documents: what a careless neighbour leaves in the collections, past all validators.
//!
//! Owns the ways in which an account or a transaction can be wrong, each with a name for messages,
//! and writing them with `bypassDocumentValidation`: a collection may have been filled before it
//! had a validator. Panics when the database is away, except in [`try_insert`].

use ledger::account::Account;
use ledger::amount::Amount;
use mongo::Store;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, RawDocumentBuf, doc, rawdoc};
use mongodb::error::Error;

/// The least size of a string that counts as large: more than half of a command or a reply.
pub const LARGE_BYTES: usize = 9 * 1024 * 1024;

/// The field that fills a document up.
pub const FILLING: &str = "padding";

/// The most bytes that the server lets a document have.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Inserts documents as they are.
///
/// # Errors
/// When the server refuses, or is away.
pub async fn try_insert(
    collection: &Collection<Document>,
    documents: &[Document],
) -> Result<(), Error> {
    collection.insert_many(documents).bypass_document_validation(true).await.map(|_| ())
}

/// Inserts documents as they are.
///
/// # Panics
/// When the server refuses, or is away.
pub async fn insert(collection: &Collection<Document>, documents: &[Document]) {
    try_insert(collection, documents).await.expect("nothing but a validator would refuse them");
}

/// Inserts a document that a [`Document`] can't hold: with a key twice, or with bytes that are not
/// UTF-8.
///
/// # Panics
/// When the server refuses, or is away.
pub async fn insert_raw(collection: &Collection<Document>, document: &RawDocumentBuf) {
    let inserted = collection
        .clone_with_type::<RawDocumentBuf>()
        .insert_one(document)
        .bypass_document_validation(true)
        .await;
    inserted.expect("nothing but a validator would refuse it");
}

/// Changes one document by hand.
///
/// # Panics
/// When it is not there, or the server is away.
pub async fn edit(collection: &Collection<Document>, id: &str, update: Document) {
    let edited = collection
        .update_one(doc! { "_id": id }, update)
        .bypass_document_validation(true)
        .await
        .expect("nothing but a validator would refuse it");
    assert_eq!(edited.matched_count, 1, "{id} is there");
}

/// A transfer as a document that may then be spoiled.
#[must_use]
pub fn transfer(id: &str, source: &str, destination: &str, value: i64) -> Document {
    let now = DateTime::now();
    doc! {
        "_id": id, "source": source, "destination": destination, "value": value,
        "state": "initial", "createdAt": now, "lastModified": now,
    }
}

/// A string of [`LARGE_BYTES`].
#[must_use]
pub fn large() -> String {
    "x".repeat(LARGE_BYTES)
}

/// The same document, filled up until it has room for `spare` more bytes.
///
/// # Panics
/// When it is larger than that already.
#[must_use]
pub fn filled_up(mut document: Document, spare: usize) -> Document {
    let size = |document: &Document| {
        RawDocumentBuf::try_from(document).expect("a document has bytes").as_bytes().len()
    };
    document.insert(FILLING, "");
    let room = DOCUMENT_BYTES_MAX.checked_sub(size(&document) + spare).expect("it has room");
    document.insert(FILLING, "x".repeat(room));
    document
}

/// The same document, with a currency of bytes that are not UTF-8.
///
/// # Panics
/// When it stands in no document's bytes.
#[must_use]
pub fn with_bytes_that_are_no_text(mut document: Document) -> RawDocumentBuf {
    document.insert("currency", PLACE_OF_NO_TEXT);
    without_text_there(&document)
}

/// The same document, with one more field, whose name is not UTF-8.
///
/// # Panics
/// When it stands in no document's bytes.
#[must_use]
pub fn with_a_name_that_is_no_text(mut document: Document) -> RawDocumentBuf {
    document.insert(PLACE_OF_NO_TEXT, 1);
    without_text_there(&document)
}

/// Four bytes that no document has otherwise.
const PLACE_OF_NO_TEXT: &str = "@@@@";

/// Four bytes that are not UTF-8.
const NO_TEXT: &[u8] = &[0xff; 4];

fn without_text_there(document: &Document) -> RawDocumentBuf {
    let raw = RawDocumentBuf::try_from(document).expect("a document has bytes");
    replaced(raw, PLACE_OF_NO_TEXT.as_bytes(), NO_TEXT)
}

/// The same document, with these bytes for those.
fn replaced(document: RawDocumentBuf, these: &[u8], those: &[u8]) -> RawDocumentBuf {
    let mut bytes = document.into_bytes();
    let at = bytes.windows(these.len()).position(|some| some == these).expect("they are there");
    bytes[at..at + these.len()].copy_from_slice(those);
    RawDocumentBuf::from_bytes(bytes).expect("its frame is whole")
}

/// An odd document as its owner stores it, with everything in it that is odd.
///
/// # Panics
/// When it is no document at all.
#[must_use]
pub fn stored(store: &Store, collection: &str, own: &RawDocumentBuf) -> RawDocumentBuf {
    let Some(owner) = store.layout().and_then(|layout| layout.of(collection)) else {
        return own.clone();
    };
    match owner.store(own) {
        Ok(stored) => stored,
        // What is no text can't be read on its way, either.
        Err(_) => {
            let text = replaced(own.clone(), NO_TEXT, PLACE_OF_NO_TEXT.as_bytes());
            let stored = owner.store(&text).expect("all else of it is BSON");
            replaced(stored, PLACE_OF_NO_TEXT.as_bytes(), NO_TEXT)
        }
    }
}

/// A transaction of 1 whose first leg names account and amount twice: a reader that takes the first
/// of each finds another transaction than a reader that takes the last.
#[must_use]
pub fn with_repeated_keys(id: &str, source: &str, destination: &str) -> RawDocumentBuf {
    let now = DateTime::now();
    rawdoc! {
        "_id": id,
        "legs": [
            { "account": source, "amount": -1_i64, "account": "nobody", "amount": -1_000_i64 },
            { "account": destination, "amount": 1_i64 },
        ],
        "state": "initial", "createdAt": now, "lastModified": now,
    }
}

/// One way in which an account can't be read.
#[derive(Clone, Debug)]
pub struct AccountFault {
    /// What is wrong, as part of an id.
    pub name: String,
    /// Whether the account holds decimals otherwise.
    pub decimal: bool,
    field: &'static str,
    value: Bson,
}

impl AccountFault {
    /// An account of 100 with this fault in it.
    #[must_use]
    pub fn account(&self, id: &str) -> Document {
        let mut document = Account::new(id, hundred(self.decimal)).to_document(DateTime::now());
        document.insert(self.field, self.value.clone());
        document
    }

    /// The field that is wrong.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The value in it.
    #[must_use]
    pub fn value(&self) -> &Bson {
        &self.value
    }
}

/// 100, of either kind.
fn hundred(decimal: bool) -> Amount {
    let text = if decimal { "100.00" } else { "100" };
    Amount::parse(text).expect("an amount")
}

/// Every known way in which an account can't be read.
#[must_use]
pub fn account_faults() -> Vec<AccountFault> {
    let fault = |decimal: bool, field: &'static str, what: &str, value: Bson| AccountFault {
        name: format!("{field}-{what}"),
        decimal,
        field,
        value,
    };
    let mut faults = Vec::new();
    for (field, number) in [
        ("balance", "NaN"),
        ("balance", "Infinity"),
        ("balance", "-Infinity"),
        ("balance", "1E+40"),
        ("balance", "-1E+6144"),
        ("balance", "0.000000000001"),
        ("floor", "NaN"),
        ("floor", "-Infinity"),
        ("floor", "-1E+40"),
        ("pendingDebits", "NaN"),
        ("pendingCredits", "NaN"),
        ("pendingCredits", "-1E+40"),
        ("openingBalance", "NaN"),
    ] {
        let value: Decimal128 = number.parse().expect("a Decimal128");
        faults.push(fault(true, field, number, value.into()));
    }
    for (field, number) in [
        ("balance", i64::MAX),
        ("balance", i64::MIN),
        ("floor", i64::MIN),
        ("floor", -Amount::MAX - 1),
        ("pendingDebits", i64::MIN),
        ("pendingCredits", i64::MIN),
        ("openingBalance", i64::MIN),
    ] {
        faults.push(fault(false, field, &number.to_string(), number.into()));
    }
    for field in ["balance", "floor", "pendingDebits", "pendingCredits", "openingBalance"] {
        faults.push(fault(false, field, "fraction", 50.5.into()));
        faults.push(fault(false, field, "large-double", 1e16.into()));
        faults.push(fault(false, field, "nan", f64::NAN.into()));
        faults.push(fault(false, field, "text", "50".into()));
    }
    faults.push(fault(true, "pendingDebits", "double", 50.0.into()));
    faults.push(fault(false, "pendingTransactions", "text", "t".into()));
    faults.push(fault(false, "status", "number", 1.into()));
    faults.push(fault(false, "status", "unknown", "thawed".into()));
    faults.push(fault(false, "currency", "number", 7.into()));
    faults
}

/// Ways in which the bookkeeping of a waiting transaction can be wrong, so that a claim would fail
/// or have no effect: each with a name and the fields to set.
#[must_use]
pub fn bookkeeping_faults() -> Vec<(&'static str, Document)> {
    vec![
        ("attempts-largest", doc! { "attempts": i64::MAX }),
        ("attempts-negative", doc! { "attempts": -5 }),
        ("attempts-text", doc! { "attempts": "one" }),
        ("attempts-list", doc! { "attempts": [1] }),
        ("attempts-double", doc! { "attempts": 1.5 }),
        ("created-text", doc! { "createdAt": "today" }),
        ("created-late", doc! { "createdAt": DateTime::MAX }),
        ("taken-over-at-text", doc! { "state": "pending", "takeoverAt": "soon" }),
        ("claim-number", doc! { "state": "pending", "claim": 7 }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fault_of_an_account_leaves_it_readable_but_for_a_currency_of_another_type() {
        for fault in account_faults().iter().filter(|fault| fault.field != "currency") {
            let read = Account::from_document(&fault.account("x"));
            assert!(read.is_err(), "{}: {read:?}", fault.name);
        }
    }

    #[test]
    fn a_document_is_filled_up_to_the_byte() {
        let full = filled_up(transfer("t", "a", "b", 1), 60);
        let bytes = RawDocumentBuf::try_from(&full).expect("a document").as_bytes().len();
        assert_eq!(bytes, DOCUMENT_BYTES_MAX - 60);
    }
}
