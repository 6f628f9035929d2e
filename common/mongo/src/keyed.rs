//! Inserting a transaction with an exclusive key: in a native MongoDB transaction of its own.
//!
//! Owns the index by which at most one undecided transaction has a key, and the insert that
//! respects it. Promises that an attempt that was given up has no effect after somebody else was
//! seen to have the key. A plain insert could not promise that: its statement may reach the server
//! long after its submission was refused, when the key is free again, and what was refused would be
//! paid. Here
//!
//! - a statement that comes late opens a transaction that nobody commits: the commit is sent only
//!   by an attempt that has seen the insert succeed and was not given up;
//! - a commit that comes late is harmless: since its insert, the transaction holds the key, so
//!   nobody else has got it. Once the server has ended the transaction, the commit fails.
//!
//! After a duplicate, a look must show what stood in the way, which may not be on a majority yet:
//! an older look could show the last holder of a key that is this caller's by now, and it would be
//! refused and paid. So the moment of the duplicate is noted, and the looks that follow wait for
//! it.
//!
//! A client that dies between insert and commit keeps the key from others until the server ends its
//! transaction: [`Store::end_abandoned`] does that as soon as it is idle for half of the time limit
//! of an operation, for clients of the same database user; else it takes the server's
//! `transactionLifetimeLimitSeconds` (a minute by default). Fails with an `Err` where the outcome
//! is unknown: look by the `_id` then, and try again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use ledger::remedy::Remedy;
use ledger::{LedgerError, Refused};
use mongodb::ClientSession;
use mongodb::bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};
use mongodb::error::Error;
use mongodb::options::ReadConcern;

use super::index::Index;
use super::names::{EXCLUSIVE_KEY, TRANSACTIONS};
use super::native::{self, Halt};
use super::requests::Under;
use super::write::DUPLICATE_KEY;
use super::{Store, duplicate, fault, words};

/// Why a ledger on a replica set has no exclusive keys.
static OFF: LazyLock<String> = LazyLock::new(|| {
    format!("this ledger keeps no exclusive keys; {} adds their index", Remedy::ExclusiveKeys)
});

/// Why there are no exclusive keys on a sharded cluster.
pub const NEEDS_REPLICA_SET: &str =
    "exclusive keys need a replica set: a sharded cluster can't keep them unique";

const OPERATION: &str = "insert with key";

/// The index that keeps keys unique. A document leaves it with the decision, which moves its key to
/// the field [`DECIDED_KEY`](ledger::transaction::DECIDED_KEY).
pub(super) fn index() -> Index {
    let filter = doc! { "exclusiveKey": { "$type": "string" } };
    Index { unique: true, ..Index::new(EXCLUSIVE_KEY, doc! { "exclusiveKey": 1 }, filter) }
}

/// What became of an attempt to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyedInsert {
    /// It is durable.
    Inserted,
    /// The `_id` or the key exists: a look tells which.
    Duplicate,
    /// A unique index of the user's own takes a value of a document only once, and another document
    /// has that: its place, and which index. Or an earlier attempt has inserted this very document:
    /// a look by the `_id` tells. Nothing was inserted.
    Taken(Refused),
    /// Another open transaction has written the `_id` or the key: it is decided soon.
    Conflict,
    /// The server will never accept a document: its place, and why. Nothing was inserted.
    Refused(Refused),
    /// The key of the request has been taken over by another array: see [`Under`]. Nothing was
    /// inserted.
    Superseded,
}

impl Store {
    /// Why the ledger keeps no exclusive keys, if so. That it keeps them is remembered: only a
    /// person changes it, who stops all producers before.
    ///
    /// # Errors
    /// When the server is away, or the ledger is being set up or its settings can't be read.
    pub async fn without_keys(&self) -> Result<Option<&'static str>, LedgerError> {
        if self.keeps_keys.initialized() {
            return Ok(None);
        }
        let settings = self.complete_settings().await?;
        if self.is_router().await? {
            return Ok(Some(NEEDS_REPLICA_SET));
        }
        if !settings.exclusive_keys {
            return Ok(Some(&OFF));
        }
        // Another call may have been faster; it has seen the same.
        let _ = self.keeps_keys.set(());
        Ok(None)
    }

    /// Inserts transactions, all of them or none; with one exclusive key at most. Where they come
    /// in an array under an idempotency key, that is noted with them: see [`Under`].
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away.
    pub async fn insert_together(
        &self,
        documents: Vec<RawDocumentBuf>,
        under: Option<&Under>,
    ) -> Result<KeyedInsert, LedgerError> {
        // Given up when this call ends, also when it is dropped: the driver's code goes on after
        // it.
        let given_up = GivenUp::default();
        let (store, under, is_alone) = (self.clone(), under.cloned(), documents.len() == 1);
        let attempt = KeyedAttempt { store, documents, under, given_up: given_up.0.clone() };
        match self.limited(OPERATION, async move { Ok(attempt.run().await) }).await? {
            Ok(answer) => Ok(answer),
            Err(Halt::Driver(error)) if fault::code_of(&error) == Some(DUPLICATE_KEY) => {
                let words = words::of_error(&error);
                // Of several documents such an error does not say which one it is about.
                let index = duplicate::index_in(&words).filter(|_| is_alone);
                Ok(refused_by(index, 0))
            }
            Err(halt) => halt.told(OPERATION).map_or(Ok(KeyedInsert::Conflict), Err),
        }
    }

    /// The undecided transaction that has this key.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn holder_of_key(&self, key: &str) -> Result<Option<String>, LedgerError> {
        const OPERATION: &str = "holder of a key";
        let command = doc! {
            "find": TRANSACTIONS,
            // The condition on the type is the index's: otherwise the server would not use it.
            "filter": { "exclusiveKey": { "$eq": key, "$type": "string" } },
            "projection": { "_id": 1 },
            "hint": EXCLUSIVE_KEY,
            "limit": 1,
        };
        let command = RawDocumentBuf::try_from(&command)
            .map_err(|error| LedgerError::lasting(OPERATION, error.to_string()))?;
        let id = |holder: &RawDocument| match holder.get("_id") {
            Ok(Some(RawBsonRef::String(id))) => Some(id.to_owned()),
            Ok(Some(other)) => Some(format!("{other:?}")),
            Ok(None) | Err(_) => Some(String::new()),
        };
        Ok(self.find(OPERATION, command, id).await?.pop())
    }
}

/// What it means that this unique index refuses an insert because of this document; none is that of
/// `_id`.
pub(super) fn refused_by(index: Option<&str>, item: usize) -> KeyedInsert {
    match index {
        None | Some(EXCLUSIVE_KEY) => KeyedInsert::Duplicate,
        Some(other) => {
            let problem = duplicate::taken(other);
            KeyedInsert::Taken(Refused { item, problem })
        }
    }
}

/// Inserts transactions within a session, and tells what a refusal means. A duplicate that comes as
/// an error of the whole command is left to the caller.
pub(super) async fn insert_within<E: From<Error> + From<LedgerError>>(
    store: &Store,
    session: &mut ClientSession,
    operation: &'static str,
    documents: &[RawDocumentBuf],
) -> Result<KeyedInsert, E> {
    let documents: RawArrayBuf = documents.iter().map(RawDocumentBuf::as_ref).collect();
    let command = rawdoc! {
        "insert": TRANSACTIONS,
        "documents": documents,
        "maxTimeMS": store.op_limit_ms(),
        "comment": format!("tandem {operation}"),
    };
    let command = store.sent(operation, command).await?.sent;
    let reply = store.database().run_raw_command(command).session(session).await?;
    Ok(match fault::refusals(operation, &reply)?.pop() {
        None => KeyedInsert::Inserted,
        Some((DUPLICATE_KEY, refused)) => {
            refused_by(duplicate::index_of(&reply, refused.item, "_id"), refused.item)
        }
        Some((_, refused)) => KeyedInsert::Refused(refused),
    })
}

/// Says to an attempt that its caller does not wait for it any more.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

struct KeyedAttempt {
    store: Store,
    documents: Vec<RawDocumentBuf>,
    under: Option<Under>,
    given_up: Arc<AtomicBool>,
}

impl KeyedAttempt {
    async fn run(&self) -> Result<KeyedInsert, Halt> {
        let mut session = native::begin(&self.store, ReadConcern::local()).await?;
        let inserted = self.insert(&mut session).await;
        self.note_what_stood_in_the_way(&session, &inserted);
        // Last before the commit: from here on the transaction holds the key.
        let given_up = self.given_up.load(Ordering::Acquire);
        if given_up || !matches!(inserted, Ok(KeyedInsert::Inserted)) {
            native::abort(&mut session).await;
            return if given_up { Err(self.late()) } else { inserted };
        }
        native::finish(&self.store, session, inserted).await
    }

    async fn insert(&self, session: &mut ClientSession) -> Result<KeyedInsert, Halt> {
        if let Some(under) = &self.under
            && !under.note(&self.store, session, &self.documents).await?
        {
            return Ok(KeyedInsert::Superseded);
        }
        insert_within(&self.store, session, OPERATION, &self.documents).await
    }

    /// The looks that follow a duplicate wait until a majority has what the insert has met.
    fn note_what_stood_in_the_way(
        &self,
        session: &ClientSession,
        inserted: &Result<KeyedInsert, Halt>,
    ) {
        let was_duplicate = match inserted {
            Ok(KeyedInsert::Duplicate | KeyedInsert::Taken(_)) => true,
            Err(Halt::Driver(error)) => fault::code_of(error) == Some(DUPLICATE_KEY),
            Ok(
                KeyedInsert::Inserted
                | KeyedInsert::Conflict
                | KeyedInsert::Refused(_)
                | KeyedInsert::Superseded,
            )
            | Err(Halt::Conflict | Halt::Refused { .. } | Halt::Failed(_) | Halt::Open(_)) => false,
        };
        if was_duplicate {
            self.store.read_after(session);
        }
    }

    fn late(&self) -> Halt {
        Halt::Failed(LedgerError::passing(OPERATION, "it was given up before its commit"))
    }
}
