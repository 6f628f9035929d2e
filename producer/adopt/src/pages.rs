//! Reads a collection in pieces, in the server's order of `_id`s, whatever types these have.
//!
//! Owns the command that reads a piece, and where the next one begins. Promises that each document
//! that is there throughout is read once, that each piece is a majority read of its own which ends
//! within [`PIECE_LIMIT`], and that nothing is written. A condition on `_id` would find ids of one
//! type only, so a piece begins at a place in the index. Fails when the server is away or refuses.

use std::time::Duration;

use client::{Client, Error};
use futures_util::TryStreamExt;
use mongodb::bson::raw::{RawElement, cstr};
use mongodb::bson::{RawDocument, RawDocumentBuf, rawdoc};

/// How long the server may take for a piece.
pub const PIECE_LIMIT: Duration = Duration::from_secs(60);

/// What is read.
pub(super) struct Pages<'a> {
    pub(super) client: &'a Client,
    /// The name of the collection in the database.
    pub(super) collection: &'a str,
    pub(super) projection: RawDocumentBuf,
    /// How many documents a piece has.
    pub(super) most: u32,
}

impl Pages<'_> {
    /// The next documents behind a place, which then is where these end; none if there are no more.
    pub(super) async fn next(
        &self,
        place: &mut Option<RawDocumentBuf>,
    ) -> Result<Option<Vec<RawDocumentBuf>>, Error> {
        let found = self.behind(place.as_deref()).await?;
        let last = found.iter().rev().find_map(|document| place_of(document));
        Ok(last.map(|last| {
            *place = Some(last);
            found
        }))
    }

    /// The documents behind a place; none if there are no more. The place is `{_id: …}`.
    pub(super) async fn behind(
        &self,
        place: Option<&RawDocument>,
    ) -> Result<Vec<RawDocumentBuf>, Error> {
        let mut found = self.read(self.command(place)).await?;
        let Some(place) = place else { return Ok(found) };
        // The place itself comes first, unless it was removed meanwhile.
        if found.first().and_then(|first| place_of(first)).as_deref() != Some(place) {
            return Ok(found);
        }
        found.remove(0);
        if found.is_empty() {
            // The answer may be full with the place alone: an answer has 16 MB at most.
            let mut command = self.command(Some(place));
            command.append(cstr!("skip"), 1);
            found = self.read(command).await?;
        }
        Ok(found)
    }

    /// The first documents of what a command finds, as many as one answer holds: so a piece takes
    /// no more memory than that, however large the documents are.
    async fn read(&self, command: RawDocumentBuf) -> Result<Vec<RawDocumentBuf>, Error> {
        let database = self.client.store().database();
        let read = async || {
            let cursor = database.run_raw_cursor_command(command.clone()).await?;
            cursor.with_type::<RawDocumentBuf>().try_collect::<Vec<_>>().await
        };
        let read = || async { read().await.map_err(|error| mongo::query_failed("look", &error)) };
        self.client.insist(read).await
    }

    /// The documents that a filter names, of which there are no more than a few hundred.
    pub(super) async fn named(&self, filter: RawDocumentBuf) -> Result<Vec<RawDocumentBuf>, Error> {
        self.read(rawdoc! {
            "find": self.collection,
            "filter": filter,
            "projection": self.projection.clone(),
            "readConcern": { "level": "majority" },
        })
        .await
    }

    fn command(&self, place: Option<&RawDocument>) -> RawDocumentBuf {
        // One more, because the place itself is read, too.
        let most = i64::from(self.most) + 1;
        let limit_ms = i64::try_from(PIECE_LIMIT.as_millis()).unwrap_or(i64::MAX);
        let mut command = rawdoc! {
            "find": self.collection,
            "projection": self.projection.clone(),
            "sort": { "_id": 1 },
            "hint": { "_id": 1 },
            "limit": most,
            "batchSize": most,
            "singleBatch": true,
            "maxTimeMS": limit_ms,
            "readConcern": { "level": "majority" },
        };
        if let Some(place) = place {
            command.append(cstr!("min"), place.to_owned());
        }
        command
    }
}

/// How many documents collections have, by the server's own count, which may be off after a crash.
pub(super) async fn estimate<'a>(
    client: &Client,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<u64, Error> {
    let mut all = 0;
    for name in names {
        let collection = client.store().database().collection::<RawDocumentBuf>(name);
        let count = || async {
            let count = collection.estimated_document_count().await;
            count.map_err(|error| mongo::query_failed("count", &error))
        };
        all += client.insist(count).await?;
    }
    Ok(all)
}

/// The place of a document: `{_id: …}` with the bytes of its `_id`, which may be a text that is not
/// valid. None if it has no `_id` that can be taken out.
pub(super) fn place_of(document: &RawDocument) -> Option<RawDocumentBuf> {
    const HEAD: usize = 4;
    let first: RawElement<'_> = document.iter_elements().next()?.ok()?;
    (first.key().as_str() == "_id").then_some(())?;
    // Type, name with its zero byte, value.
    let end = HEAD + 1 + "_id".len() + 1 + first.size();
    let element = document.as_bytes().get(HEAD..end)?;
    let length = i32::try_from(HEAD + element.len() + 1).ok()?;
    let bytes = [&length.to_le_bytes()[..], element, &[0]].concat();
    RawDocumentBuf::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawBson;
    use mongodb::bson::oid::ObjectId;

    use super::*;

    #[test]
    fn a_place_has_the_id_of_its_document_whatever_it_is() {
        let ids: [RawBson; 7] = [
            "a".into(),
            RawBson::Int32(5),
            RawBson::Double(f64::NAN),
            RawBson::Null,
            RawBson::ObjectId(ObjectId::new()),
            RawBson::Boolean(true),
            rawdoc! { "x": 1, "y": "z" }.into(),
        ];
        for id in ids {
            let document = rawdoc! { "_id": id.clone(), "balance": 5 };
            assert_eq!(place_of(&document), Some(rawdoc! { "_id": id }));
        }
        assert_eq!(place_of(&rawdoc! { "balance": 5 }), None);
        assert_eq!(place_of(&rawdoc! {}), None);
    }

    #[test]
    fn an_id_that_is_no_valid_text_keeps_its_bytes() {
        let mut bytes = rawdoc! { "_id": "ab", "x": 1 }.into_bytes();
        let at = bytes.windows(2).position(|two| two == b"ab").expect("it is there");
        bytes[at] = 0xff;
        let place = place_of(&RawDocumentBuf::from_bytes(bytes).expect("BSON")).expect("an id");
        assert!(place.as_bytes().windows(2).any(|two| two == [0xff, b'b']));
    }
}
