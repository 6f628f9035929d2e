//! Arrays that came under an idempotency key, and what was accepted of them.
//!
//! Owns the collection `tandem.requests`: a document for each key under which an array has come,
//! with the content that the array has now and the ids that were accepted. It lives as long as
//! those ids: for ever. Promises that it names exactly the transactions that were inserted under
//! its key, because each insert is one native transaction with the note of it, and that nothing of
//! an array is inserted after another content has taken the key over, because the note compares the
//! content. So when the process
//!
//! - dies between the two, or stalls for an hour and goes on: neither of them has an effect, or
//!   both;
//! - runs twice with the same array: one of them inserts an item, the other finds it there;
//! - runs twice with different arrays: the key goes to the second one only if that has all that was
//!   accepted of the first, and then the first one inserts nothing more.
//!
//! Fails with an `Err` where the outcome is unknown; the same call again goes on.
//!
//! An array of a thousand items costs two statements more under a key. Without a key it is inserted
//! as single transactions are.

use ledger::LedgerError;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::names::REQUESTS;
use super::native::Halt;
use super::own::REQUEST;
use super::write::none_refused;
use super::{Store, fault};

const OPERATION: &str = "request";

/// The array under whose key something is inserted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Under {
    /// The `_id` of its document.
    pub request: String,
    /// Its content, as a digest. While the document has another one, nothing is inserted.
    pub content: String,
}

/// A request that came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The content of its array, as a digest.
    pub content: String,
    /// The transactions that were accepted.
    pub accepted: Vec<String>,
    /// It grows with each change of the document.
    version: i64,
}

impl Request {
    fn parse(document: &Document) -> Option<Request> {
        let text = |field| document.get_str(field).ok().map(str::to_owned);
        text("kind").filter(|kind| kind == REQUEST.kind)?;
        let ids = document.get_array("accepted").ok()?.iter();
        Some(Request {
            content: text("content")?,
            accepted: ids.map(|id| id.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            version: document.get_i64("version").ok()?,
        })
    }
}

impl Store {
    /// What came under a key before.
    ///
    /// # Errors
    /// When the server is away, or the document of this `_id` is not one of Tandem's.
    pub async fn request(&self, id: &str) -> Result<Option<Request>, LedgerError> {
        self.own_document(OPERATION, REQUEST, id, Request::parse).await
    }

    /// Gives a key to an array. `seen` is what came under it before; `about` is kept with a new
    /// one, for people. Returns whether nobody was faster.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away.
    pub async fn take_request(
        &self,
        under: &Under,
        seen: Option<&Request>,
        about: Document,
    ) -> Result<bool, LedgerError> {
        let Some(seen) = seen else {
            let mut document = doc! { "_id": &under.request, "kind": REQUEST.kind };
            document.extend(about);
            document.extend(doc! { "content": &under.content, "accepted": [], "version": 1_i64 });
            return self.insert_own(OPERATION, REQUEST, document).await;
        };
        let statement = doc! {
            "q": { "_id": &under.request, "kind": REQUEST.condition(), "version": seen.version },
            "u": { "$set": { "content": &under.content }, "$inc": { "version": 1_i64 } },
        };
        let written = self.change(OPERATION, REQUESTS, vec![statement]).await?;
        none_refused(OPERATION, written.refused)?;
        Ok(written.count == 1)
    }
}

impl Under {
    /// Notes what is inserted by the same native transaction. Returns whether the array still has
    /// the key.
    pub(super) async fn note(
        &self,
        store: &Store,
        session: &mut ClientSession,
        documents: &[RawDocumentBuf],
    ) -> Result<bool, Halt> {
        let ids: RawArrayBuf = documents.iter().filter_map(|it| id(it)).collect();
        let statement = rawdoc! {
            "q": { "_id": &*self.request, "kind": REQUEST.raw_condition(), "content": &*self.content },
            "u": { "$push": { "accepted": { "$each": ids } }, "$inc": { "version": 1_i64 } },
        };
        let command = rawdoc! {
            "update": REQUESTS,
            "updates": [statement],
            "maxTimeMS": store.op_limit_ms(),
            "comment": format!("tandem {OPERATION}"),
        };
        let reply = store.database().run_raw_command(command).session(&mut *session).await?;
        if let Some((_, refused)) = fault::refusals(OPERATION, &reply)?.pop() {
            return Err(Halt::Failed(LedgerError::lasting(OPERATION, refused.problem)));
        }
        Ok(reply.get_i32("n").is_ok_and(|matched| matched == 1))
    }
}

fn id(document: &RawDocument) -> Option<&str> {
    document.get_str("_id").ok()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    #[test]
    fn a_document_that_somebody_else_has_made_is_no_request() {
        let ours =
            doc! { "kind": REQUEST.kind, "content": "c", "accepted": ["t"], "version": 2_i64 };
        let expected =
            Request { content: "c".to_owned(), accepted: vec!["t".to_owned()], version: 2 };
        assert_eq!(Request::parse(&ours), Some(expected));
        for (field, value) in
            [("kind", Bson::from("x")), ("accepted", vec![1].into()), ("version", "1".into())]
        {
            let mut other = ours.clone();
            other.insert(field, value);
            assert_eq!(Request::parse(&other), None, "{field}");
        }
    }
}
