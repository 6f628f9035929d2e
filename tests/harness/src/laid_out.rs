//! Documents of a ledger whose owner has designed them: what a test writes and reads past Tandem.
//!
//! Owns the translation for those who look at documents themselves. Promises that they see what
//! Tandem would read, and that in a ledger as Tandem makes it documents are as they are stored. The
//! store has to know its layout.

use futures_util::TryStreamExt;
use layout::Collection;
use mongo::{Query, Store};
use mongodb::bson::error::Error as BsonError;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error;

/// Who stores the documents of a collection in another way than Tandem, if anybody.
fn owner<'a>(store: &'a Store, collection: &str) -> Option<&'a Collection> {
    store.layout().and_then(|layout| layout.of(collection))
}

/// A document of Tandem's as the owner stores it.
///
/// # Panics
/// When it is no BSON.
#[must_use]
pub fn stored(store: &Store, collection: &str, own: Document) -> Document {
    match owner(store, collection) {
        Some(owner) => changed(&own, |own| owner.store(own)),
        None => own,
    }
}

fn changed(
    own: &Document,
    change: impl Fn(&RawDocument) -> Result<RawDocumentBuf, BsonError>,
) -> Document {
    const BSON: &str = "what a test says is BSON";
    let stored = change(&RawDocumentBuf::try_from(own).expect(BSON)).expect(BSON);
    Document::try_from(stored).expect(BSON)
}

/// A filter for documents as the owner stores them.
///
/// # Panics
/// When it is no BSON.
#[must_use]
pub fn filter(store: &Store, collection: &str, own: Document) -> Document {
    match owner(store, collection) {
        Some(owner) => changed(&own, |own| owner.filter(own)),
        None => own,
    }
}

/// Where a field stands in the documents of a collection.
#[must_use]
pub fn path(store: &Store, collection: &str, name: &str) -> String {
    owner(store, collection).map_or_else(|| name.to_owned(), |owner| owner.path(name).into_owned())
}

/// What is at a path of a document as it is stored.
#[must_use]
pub fn at<'a>(stored: &'a Document, path: &str) -> Option<&'a Bson> {
    match path.split_once('.') {
        None => stored.get(path),
        Some((name, rest)) => at(stored.get_document(name).ok()?, rest),
    }
}

/// Every document that matches, as Tandem reads it. What is asked is as in [`Store::query`].
///
/// # Errors
/// What the driver says.
pub async fn find(
    store: &Store,
    collection: &str,
    asked: Document,
) -> Result<Vec<Document>, Error> {
    let mut all = Vec::new();
    each(store, collection, asked, |found| all.push(found)).await?;
    Ok(all)
}

/// The same, one document after the other.
///
/// # Errors
/// What the driver says.
pub async fn each(
    store: &Store,
    collection: &str,
    asked: Document,
    mut take: impl FnMut(Document),
) -> Result<(), Error> {
    let query = store.query(collection, asked)?;
    let mut all = query.find().await?;
    while let Some(found) = all.try_next().await? {
        take(read(&query, &found)?);
    }
    Ok(())
}

/// One document, by its id.
///
/// # Errors
/// What the driver says.
pub async fn one(store: &Store, collection: &str, id: &str) -> Result<Option<Document>, Error> {
    let query = store.query(collection, doc! { "filter": { "_id": id } })?;
    query.find_one().await?.map(|found| read(&query, &found)).transpose()
}

fn read(query: &Query, found: &RawDocumentBuf) -> Result<Document, Error> {
    Document::try_from(query.read(found).as_ref()).map_err(Error::custom)
}

/// How many documents match.
///
/// # Errors
/// What the driver says.
pub async fn count(store: &Store, collection: &str, filter: Document) -> Result<u64, Error> {
    let stages = [doc! { "$match": filter }, doc! { "$count": "count" }];
    let counted = compute(store, collection, &stages).await?;
    let count = counted.first().map(|counted| match counted.get_i64("count") {
        Ok(count) => count,
        Err(_) => counted.get_i32("count").unwrap_or_default().into(),
    });
    Ok(u64::try_from(count.unwrap_or_default()).unwrap_or_default())
}

/// What a pipeline computes.
///
/// # Errors
/// What the driver says.
pub async fn compute(
    store: &Store,
    collection: &str,
    stages: &[Document],
) -> Result<Vec<Document>, Error> {
    let raw: Result<Vec<_>, _> = stages.iter().map(RawDocumentBuf::try_from).collect();
    let pipeline: RawArrayBuf = raw?.into_iter().collect();
    let (collection, stages) = store.computing(collection, pipeline)?;
    collection.aggregate(stages).await?.try_collect().await
}
