//! The list of accounts.
//!
//! The number of marks stands beside the document, and not in it: under a schema the place for it in
//! the document may be within something that is no object, and the list would hide that.

use mongo::ACCOUNTS;
use mongodb::bson::{Document, RawArrayBuf, RawDocument, rawdoc};
use serde_json::json;

use super::cursor::{self, Place};
use super::room::{AT_ONCE, Room, Tell, Told};
use super::{Page, and_one, check_limit, id_of};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

impl Client {
    /// Accounts by their names, with `marks`, the number of transactions in flight on each, in
    /// place of the marks themselves, which may be many. A page has 1 to 1,000 accounts, and fewer
    /// where they have more than [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX) together; `cursor` is the
    /// `next` of the page before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and when the server stays away.
    pub async fn accounts(
        &self,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        self.accounts_told(limit, cursor, Told::whole).await
    }

    /// The same, with what `tell` makes of each document.
    ///
    /// # Errors
    /// As [`Client::accounts`].
    pub async fn accounts_told<T: Send + 'static>(
        &self,
        limit: u32,
        cursor: Option<&str>,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let limit = check_limit(limit)?;
        let of = json!(["accounts"]);
        let after: Option<Place> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        let after = after.map_or_else(String::new, |place| place.id);
        self.known_rules().await?;
        let read = || {
            let marks = self.store().stored_path(ACCOUNTS, MARKS);
            let pipeline = pipeline(&after, limit, &marks);
            let more = move |room: &mut Room<Place, T>, found: &RawDocument| {
                let Some(account) = listed(found) else { return true };
                let Some(id) = id_of(&account) else { return true };
                room.take(Place { at: 0, id }, found.as_bytes().len(), tell(account))
            };
            let room = Room::new(limit);
            self.store().aggregate_while("accounts", ACCOUNTS, pipeline, AT_ONCE, room, more)
        };
        let room = self.insist(read).await?;
        Ok(room.page(None, |place| cursor::write(&of, place)))
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
