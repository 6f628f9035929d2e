//! Edits by hand in MongoDB: they make documents that the server refuses to write, or that can't be
//! read.
//!
//! Owns how a document is made odd and repaired. Edits bypass the validators, as in a database that
//! was filled before it had any. The document keeps what an edit has replaced, so that repairing
//! brings it back.

use futures_util::TryStreamExt;
use model::sim::odd::Oddity;
use mongo::Store;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

/// The field that the validator refuses.
const REFUSES: &str = "refuses";

/// The field that keeps what an edit has replaced.
const KEPT: &str = "kept";

/// Changes the validators: beside Tandem's rules they refuse documents that are marked as refused,
/// and they accept documents that are odd in other ways.
pub async fn let_hands_in(store: &Store) {
    let database = store.database();
    let mut collections = database.list_collections().await.expect("MongoDB is there");
    while let Some(found) = collections.try_next().await.expect("MongoDB is there") {
        let Some(own) = found.options.validator else { continue };
        let lets = doc! { "$or": [{ KEPT: { "$exists": true } }, own] };
        let validator = doc! { "$and": [{ REFUSES: { "$ne": true } }, lets] };
        let change = doc! { "collMod": found.name, "validator": validator };
        database.run_command(change).await.expect("the validator can be changed");
    }
}

/// The field that is broken if the content is to be odd. A transaction has either a value or legs;
/// broken legs beside a value are invalid, too.
fn broken_field(oddity: Oddity) -> Option<&'static str> {
    match oddity {
        Oddity::Refuses | Oddity::Large | Oddity::Slow => None,
        Oddity::Unreadable => Some("legs"),
        Oddity::BrokenFloor => Some("floor"),
        Oddity::BrokenBalance => Some("balance"),
        Oddity::BrokenMarks => Some("pendingTransactions"),
    }
}

/// Makes a document odd, if it exists.
pub async fn spoil(collection: &Collection<Document>, id: &str, oddity: Oddity) {
    let (filter, change) = match broken_field(oddity) {
        None => (doc! { "_id": id }, vec![doc! { "$set": { REFUSES: true } }]),
        Some(field) => {
            let kept = format!("{KEPT}.{field}");
            // A missing field has nothing to keep; the name alone says that it was broken.
            let keep = doc! { KEPT: { field: { "was": format!("${field}") } } };
            let filter = doc! { "_id": id, kept: { "$exists": false } };
            (filter, vec![doc! { "$set": keep }, doc! { "$set": { field: "broken" } }])
        }
    };
    let edited = collection.update_one(filter, change).bypass_document_validation(true).await;
    edited.expect("the document can be edited");
}

/// Makes all documents what they were.
pub async fn mend(collection: &Collection<Document>) {
    let mut restored = Document::new();
    for field in ["legs", "floor", "balance", "pendingTransactions"] {
        let broken = doc! { "$eq": [{ "$type": format!("${KEPT}.{field}") }, "object"] };
        let was = format!("${KEPT}.{field}.was");
        restored.insert(field, doc! { "$cond": [broken, was, format!("${field}")] });
    }
    let change = vec![doc! { "$set": restored }, doc! { "$unset": [KEPT, REFUSES] }];
    let mended = collection.update_many(doc! {}, change).bypass_document_validation(true).await;
    mended.expect("the documents can be edited");
}

/// The document as it will be once it is mended.
pub fn undone(document: &Document) -> Document {
    let mut document = document.clone();
    document.remove(REFUSES);
    if let Some(Bson::Document(kept)) = document.remove(KEPT) {
        for (field, kept) in kept {
            document.remove(&field);
            let was = kept.as_document().and_then(|kept| kept.get("was"));
            was.map(|was| document.insert(field, was.clone()));
        }
    }
    document
}
