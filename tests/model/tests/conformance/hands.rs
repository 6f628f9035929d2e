//! Edits by hand in MongoDB: they make documents that the server refuses to write, or that can't be
//! read.
//!
//! Owns how a document is made odd and repaired. Edits bypass the validators, as in a database that
//! was filled before it had any. The document keeps what an edit has replaced, so that repairing
//! brings it back.

use futures_util::TryStreamExt;
use harness::laid_out;
use model::sim::odd::Oddity;
use mongo::{ACCOUNTS, Store, TRANSACTIONS};
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
    let names = [ACCOUNTS, TRANSACTIONS].map(|name| store.stored_name(name));
    let mut collections = database.list_collections().await.expect("MongoDB is there");
    while let Some(found) = collections.try_next().await.expect("MongoDB is there") {
        if !names.contains(&found.name.as_str()) {
            continue;
        }
        // Where others write there is none of Tandem's.
        let own = found.options.validator.unwrap_or_default();
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

fn collection(store: &Store, of: &str) -> Collection<Document> {
    store.database().collection(store.stored_name(of))
}

/// Makes a document odd, if it exists.
pub async fn spoil(store: &Store, of: &str, id: &str, oddity: Oddity) {
    let mut filter = laid_out::filter(store, of, doc! { "_id": id });
    let change = match broken_field(oddity) {
        None => vec![doc! { "$set": { REFUSES: true } }],
        Some(field) => {
            let kept = format!("{KEPT}.{field}");
            // A missing field has nothing to keep; the name alone says that it was broken.
            let path = laid_out::path(store, of, field);
            let keep = doc! { KEPT: { field: { "was": format!("${path}") } } };
            filter.insert(kept, doc! { "$exists": false });
            vec![doc! { "$set": keep }, doc! { "$set": { path: "broken" } }]
        }
    };
    let collection = collection(store, of);
    let edited = collection.update_one(filter, change).bypass_document_validation(true).await;
    edited.expect("the document can be edited");
}

/// Makes all documents what they were.
pub async fn mend(store: &Store, of: &str) {
    let mut restored = Document::new();
    for field in ["legs", "floor", "balance", "pendingTransactions"] {
        let broken = doc! { "$eq": [{ "$type": format!("${KEPT}.{field}") }, "object"] };
        let was = format!("${KEPT}.{field}.was");
        let path = laid_out::path(store, of, field);
        let now = format!("${path}");
        restored.insert(path, doc! { "$cond": [broken, was, now] });
    }
    let change = vec![doc! { "$set": restored }, doc! { "$unset": [KEPT, REFUSES] }];
    let collection = collection(store, of);
    let mended = collection.update_many(doc! {}, change).bypass_document_validation(true).await;
    mended.expect("the documents can be edited");
}

/// The document as it will be once it is mended.
pub fn undone(store: &Store, of: &str, mut document: Document) -> Document {
    document.remove(REFUSES);
    if let Some(Bson::Document(kept)) = document.remove(KEPT) {
        for (field, kept) in kept {
            let was = kept.as_document().and_then(|kept| kept.get("was"));
            put(&mut document, &laid_out::path(store, of, &field), was);
        }
    }
    document
}

/// Puts a value at a path, or removes what is there.
fn put(document: &mut Document, path: &str, value: Option<&Bson>) {
    match (path.split_once('.'), value) {
        (Some((name, rest)), value) => {
            if let Ok(inner) = document.get_document_mut(name) {
                put(inner, rest, value);
            }
        }
        (None, Some(value)) => drop(document.insert(path, value.clone())),
        (None, None) => drop(document.remove(path)),
    }
}
