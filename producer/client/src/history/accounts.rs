//! The list of accounts.
//!
//! The number of marks stands beside the document, and not in it: under a schema the place for it in
//! the document may be within something that is no object, and the list would hide that.

use mongo::ACCOUNTS;
use mongodb::bson::{Document, RawArrayBuf, RawDocument, rawdoc};
use serde_json::json;

use super::cursor::{self, Place};
use super::{Page, and_one, check_limit, id_of};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

impl Client {
    /// Accounts by their names, with `marks`, the number of transactions in flight on each, in
    /// place of the marks themselves, which may be many. A page has 1 to 1,000 accounts; `cursor`
    /// is the `next` of the page before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and when the server stays away.
    pub async fn accounts(
        &self,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        let limit = check_limit(limit)?;
        let of = json!(["accounts"]);
        let after: Option<Place> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        let after = after.map_or_else(String::new, |place| place.id);
        self.known_rules().await?;
        let read = || {
            let marks = self.store().stored_path(ACCOUNTS, MARKS);
            let pipeline = pipeline(&after, limit, &marks);
            self.store().aggregate("accounts", ACCOUNTS, pipeline, limit + 1, listed)
        };
        let mut items = self.insist(read).await?;
        let goes_on = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| goes_on).and_then(id_of);
        let next = last.map(|id| cursor::write(&of, &Place { at: 0, id }));
        Ok(Page { items, next })
    }
}

/// The field of an account's marks.
const MARKS: &str = "pendingTransactions";

/// A name is a text: a document with another `_id` is no account that a transaction can have.
/// `stored_marks` is where the marks stand in the document.
fn pipeline(after: &str, limit: usize, stored_marks: &str) -> RawArrayBuf {
    let marks = format!("${MARKS}");
    let count = rawdoc! { "$cond": [{ "$isArray": &*marks }, { "$size": &*marks }, 0] };
    [
        rawdoc! { "$match": { "_id": { "$gt": after } } },
        rawdoc! { "$sort": { "_id": 1 } },
        rawdoc! { "$limit": and_one(limit) },
        rawdoc! { "$replaceWith": { "document": "$$ROOT", "marks": count } },
        rawdoc! { "$unset": format!("document.{stored_marks}") },
    ]
    .into_iter()
    .collect()
}

/// The document with the number of its marks.
fn listed(found: &RawDocument) -> Option<Document> {
    let mut account = readable(found.get_document("document").ok()?);
    account.insert("marks", found.get_i32("marks").ok()?);
    Some(account)
}
