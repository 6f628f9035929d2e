//! Files that were submitted, so that the same rows are noticed when they come as another batch.
//!
//! Owns the collection `tandem.files`: a document for each content, with the batches under which it
//! was submitted. It lives as long as the transactions. Promises that a batch is noted before its
//! first row is inserted, and that of two batches of the same content that come at the same time
//! one finds the other. So when the process
//!
//! - dies after the note: the same batch goes on, and another batch is told of a batch of which
//!   perhaps nothing was inserted, which is then the one to be completed;
//! - stalls for an hour and goes on, or runs twice: the note of its own batch is there already.
//!
//! A file costs one read and one insert, whatever its size. Fails with an `Err` where the outcome is
//! unknown; the same call again goes on.

use ledger::LedgerError;
use mongodb::bson::{DateTime, Document, doc};

use super::Store;
use super::names::FILES;
use super::own::FILE;
use super::write::none_refused;

const OPERATION: &str = "file";

/// A content that was submitted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedFile {
    /// Its batches.
    pub batches: Vec<String>,
    /// When the first of them was begun.
    pub at: DateTime,
}

impl SubmittedFile {
    /// Whether it was submitted as this batch.
    #[must_use]
    pub fn is_of(&self, batch: &str) -> bool {
        self.batches.iter().any(|one| one == batch)
    }

    fn parse(document: &Document) -> Option<SubmittedFile> {
        document.get_str("kind").ok().filter(|kind| *kind == FILE.kind)?;
        let batches = document.get_array("batches").ok()?.iter();
        let batches = batches.map(|batch| batch.as_str().map(str::to_owned));
        let batches = batches.collect::<Option<_>>()?;
        Some(SubmittedFile { batches, at: *document.get_datetime("at").ok()? })
    }
}

impl Store {
    /// What is known of a content, by its digest.
    ///
    /// # Errors
    /// When the server is away, or the document of this `_id` is not one of Tandem's.
    pub async fn submitted_file(
        &self,
        content: &str,
    ) -> Result<Option<SubmittedFile>, LedgerError> {
        self.own_document(OPERATION, FILE, content, SubmittedFile::parse).await
    }

    /// Notes the first batch of a content. Returns whether there was no note.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn note_file(
        &self,
        content: &str,
        batch: &str,
        rows: u64,
    ) -> Result<bool, LedgerError> {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let at = DateTime::from_millis(self.server_now().await?);
        let document = doc! {
            "_id": content, "kind": FILE.kind, "batches": [batch], "rows": rows, "at": at,
        };
        self.insert_own(OPERATION, FILE, document).await
    }

    /// Notes one more batch of a content.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn note_batch(&self, content: &str, batch: &str) -> Result<(), LedgerError> {
        let statement = doc! {
            "q": FILE.named(content),
            "u": { "$addToSet": { "batches": batch } },
        };
        let written = self.change(OPERATION, FILES, vec![statement]).await?;
        none_refused(OPERATION, written.refused).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    #[test]
    fn a_document_that_somebody_else_has_made_is_no_file() {
        let at = DateTime::from_millis(5);
        let ours = doc! { "kind": FILE.kind, "batches": ["may"], "rows": 3_i64, "at": at };
        let expected = SubmittedFile { batches: vec!["may".to_owned()], at };
        assert_eq!(SubmittedFile::parse(&ours), Some(expected));
        for (field, value) in
            [("kind", Bson::from("x")), ("batches", vec![1].into()), ("at", "today".into())]
        {
            let mut other = ours.clone();
            other.insert(field, value);
            assert_eq!(SubmittedFile::parse(&other), None, "{field}");
        }
    }
}
