//! Reading and inserting a transaction within a session of somebody else's: within the native
//! transaction of a program that writes documents of its own with it.
//!
//! Owns the two commands, and telling what a refused insert means. Promises that the driver's own
//! errors come back as they are, with their labels, so that whoever runs the transaction knows
//! which failures pass. Any failure of a statement ends the caller's transaction on the server.

use ledger::LedgerError;
use mongodb::ClientSession;
use mongodb::bson::{RawDocumentBuf, rawdoc};
use mongodb::error::Error;

use super::keyed::{insert_within, refused_by};
use super::names::TRANSACTIONS;
use super::write::DUPLICATE_KEY;
use super::{KeyedInsert, Store, duplicate, fault, words};

const LOOK: &str = "look in a session";
const INSERT: &str = "insert in a session";

/// Why a statement within a session failed.
#[derive(Debug, thiserror::Error)]
pub enum InSession {
    /// The driver's error: it says by its labels whether the transaction may be run again.
    #[error(transparent)]
    Driver(#[from] Error),
    /// Anything else.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Store {
    /// A transaction by its `_id`, as the session sees it.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn document_in(
        &self,
        session: &mut ClientSession,
        id: &str,
    ) -> Result<Option<RawDocumentBuf>, InSession> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": { "_id": id },
            "limit": 1_i64,
            "singleBatch": true,
            "maxTimeMS": self.op_limit_ms(),
            "comment": format!("tandem {LOOK}"),
        };
        let command = self.sent(LOOK, command).await?;
        let database = self.database();
        let cursor = database.run_raw_cursor_command(command.sent).session(&mut *session);
        let mut cursor = cursor.await?;
        if !cursor.advance(&mut *session).await? {
            return Ok(None);
        }
        let document = command.answer.read(cursor.current());
        let document = document.map_err(|error| LedgerError::lasting(LOOK, error.to_string()))?;
        Ok(Some(document.into_owned()))
    }

    /// Inserts a transaction within a session. After [`KeyedInsert::Duplicate`], looks of this store
    /// show what stood in the way.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn insert_in(
        &self,
        session: &mut ClientSession,
        document: RawDocumentBuf,
    ) -> Result<KeyedInsert, InSession> {
        let inserted = match insert_within(self, session, INSERT, &[document]).await {
            Err(InSession::Driver(error)) if fault::code_of(&error) == Some(DUPLICATE_KEY) => {
                refused_by(duplicate::index_in(&words::of_error(&error)), 0)
            }
            inserted => inserted?,
        };
        if matches!(inserted, KeyedInsert::Duplicate | KeyedInsert::Taken(_)) {
            self.read_after(session);
        }
        Ok(inserted)
    }

    /// All looks that follow wait for what the session has read and written so far, its commit
    /// included.
    pub fn read_after(&self, session: &ClientSession) {
        if let Some(moment) = session.operation_time() {
            self.heard_of(moment);
        }
    }
}
