//! The server refuses documents that nobody could settle, whoever writes them.

use harness::world::World;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};

const FAILED_VALIDATION: i32 = 121;

/// Whether the server has refused a write because of a validator.
pub(super) fn is_refused<T>(written: Result<T, Error>) -> bool {
    let kind = written.map_err(|error| error.kind);
    matches!(kind.map_err(|kind| *kind), Err(ErrorKind::Write(WriteFailure::WriteError(error)))
        if error.code == FAILED_VALIDATION)
}

/// Every wrong value is refused, in a document that is good otherwise.
async fn assert_wrong_refused(
    collection: &Collection<Document>,
    good: &Document,
    wrong: &[(&str, Bson)],
) {
    collection.insert_one(good).await.expect("a whole document");
    for (field, value) in wrong {
        let mut document = good.clone();
        document.insert("_id", "other");
        document.insert(*field, value);
        let written = collection.insert_one(&document).await;
        assert!(is_refused(written), "{field}: {value} was taken");
    }
}

/// The same, and none of its fields may be left out.
async fn assert_refused(
    collection: &Collection<Document>,
    good: &Document,
    wrong: &[(&str, Bson)],
) {
    assert_wrong_refused(collection, good, wrong).await;
    for field in good.keys().filter(|field| *field != "_id") {
        let mut document = good.clone();
        document.insert("_id", "other");
        document.remove(field);
        let written = collection.insert_one(&document).await;
        assert!(is_refused(written), "{field} may be left out");
        let written = collection.update_one(doc! {}, doc! { "$unset": { field: "" } }).await;
        assert!(is_refused(written), "{field} may be taken away");
    }
}

#[tokio::test]
async fn accounts_with_fractions_and_texts_are_kept_out_and_whatever_is_missing_is_not() {
    let world = World::new().await;
    let good = doc! {
        "_id": "a", "balance": 5_i64, "openingBalance": 5_i64, "pendingDebits": 0_i64,
        "pendingCredits": 0_i64, "pendingTransactions": [], "floor": 0_i64, "status": "open",
    };
    let accounts = world.store.accounts();
    let amounts = ["balance", "openingBalance", "pendingDebits", "pendingCredits", "floor"];
    let mut wrong: Vec<(&str, Bson)> =
        amounts.iter().flat_map(|f| [(*f, Bson::from(0.5)), (*f, Bson::from("5"))]).collect();
    wrong.extend([
        ("_id", 7.into()),
        ("_id", "".into()),
        ("pendingTransactions", "t".into()),
        ("status", "thawed".into()),
    ]);
    assert_wrong_refused(&accounts, &good, &wrong).await;
    for field in good.keys().filter(|field| *field != "_id") {
        let mut document = good.clone();
        document.insert("_id", format!("without {field}"));
        document.remove(field);
        accounts.insert_one(&document).await.expect(field);
    }
    world.finish().await;
}

#[tokio::test]
async fn half_written_transactions_and_floats_are_kept_out() {
    let world = World::new().await;
    let transactions = world.store.transactions();
    let head =
        doc! { "state": "initial", "createdAt": DateTime::now(), "lastModified": DateTime::now() };
    let mut transfer = doc! { "_id": "t", "source": "a", "destination": "b", "value": 5_i64 };
    transfer.extend(head.clone());
    let wrong: Vec<(&str, Bson)> = vec![
        ("_id", 7.into()),
        ("_id", "".into()),
        ("source", 7.into()),
        ("destination", "".into()),
        ("value", 0.5.into()),
        ("value", "5".into()),
        ("legs", Bson::Array(vec![])),
        ("state", "begun".into()),
        ("state", Bson::Array(vec!["initial".into()])),
        ("createdAt", "today".into()),
        ("lastModified", 0_i64.into()),
        ("attempts", "one".into()),
        ("attempts", 1.0.into()),
        ("attempts", Bson::Null),
        ("attempts", Bson::Array(vec![1.into()])),
    ];
    assert_refused(&transactions, &transfer, &wrong).await;
    let legs =
        vec![doc! { "account": "a", "amount": -5_i64 }, doc! { "account": "b", "amount": 5_i64 }];
    let mut general = doc! { "_id": "g", "legs": legs };
    general.extend(head);
    transactions.delete_many(doc! {}).await.expect("emptied");
    assert_refused(&transactions, &general, &[("legs", "a".into()), ("value", 5_i64.into())]).await;
    world.finish().await;
}
