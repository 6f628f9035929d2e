//! MongoDB: connection, time limits, and the error classes of everything that talks to it.
//!
//! Owns [`Store`], the one way to run a command. Promises majority write concern with journal on
//! every write, majority read concern on every read, and a time limit on both sides of the wire.
//! Fails with a [`LedgerError`]; whether it is transient is decided here, once.

mod abandoned;
mod definitions;
mod findings;
mod ledger;
mod native;
mod outbox;
mod postings;
mod schema;
mod settings;
mod shell;
mod statements;
mod validators;

use std::time::Duration;

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};
use mongodb::error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR};
use mongodb::options::{
    Acknowledgment, ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Collection, Database};

pub use findings::{Finding, Lack};
pub use ledger::MongoLedger;
pub use outbox::{MongoOutbox, Stranded};
pub use schema::{Inspection, NotReady};
pub use settings::Misfit;
pub use statements::LeaseMs;

use crate::config::MongoArgs;
use crate::ledger::{LedgerError, ServerMs};

/// The most statements of one command, or accounts where a statement is for many: many multi-leg
/// transactions in one batch must not run into the server's limits of message size and time, nor
/// fill the worker's memory with bytes to send.
const STATEMENTS_MAX: usize = 512;

/// A database with Tandem's collections, and the time limit of one operation.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    op_limit: Duration,
    app_name: String,
}

impl Store {
    /// Connects lazily: an unreachable server shows at the first operation, not here.
    ///
    /// # Errors
    /// When the URI does not parse. The message never holds the password.
    pub async fn connect(
        args: &MongoArgs,
        name: &str,
        op_limit: Duration,
    ) -> Result<Store, String> {
        let bad = |error: Error| {
            format!("TANDEM_MONGODB_URI ({}): {error}", crate::config::redacted(&args.mongodb_uri))
        };
        let mut options = ClientOptions::parse(&args.mongodb_uri).await.map_err(bad)?;
        let app_name = format!("{}{name}", abandoned::APP_NAME_PREFIX);
        let app_name = options.app_name.get_or_insert(app_name).clone();
        options.max_pool_size.get_or_insert(64);
        options.server_selection_timeout.get_or_insert(Duration::from_secs(5));
        options.connect_timeout.get_or_insert(Duration::from_secs(5));
        // Not negotiable, whatever the URI says: an acknowledgement means durable.
        options.write_concern =
            Some(WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());
        options.read_concern = Some(ReadConcern::majority());
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        let database = args
            .database
            .clone()
            .or_else(|| options.default_database.clone())
            .unwrap_or_else(|| "tandem".to_owned());
        let client = Client::with_options(options).map_err(bad)?;
        Ok(Store { database: client.database(&database), op_limit, app_name })
    }

    /// The accounts.
    #[must_use]
    pub fn accounts(&self) -> Collection<Document> {
        self.database.collection("accounts")
    }

    /// The transactions.
    #[must_use]
    pub fn transactions(&self) -> Collection<Document> {
        self.database.collection("transactions")
    }

    /// The database itself.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The server's time limit of one operation, as sent in `maxTimeMS`.
    #[must_use]
    pub fn op_limit(&self) -> Duration {
        self.op_limit
    }

    /// The server's clock.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn server_now(&self) -> Result<ServerMs, LedgerError> {
        let database = self.database.clone();
        let hello = self
            .limited("hello", async move { database.run_command(doc! { "hello": 1 }).await })
            .await?;
        hello.get_datetime("localTime").map(|now| now.timestamp_millis()).map_err(|error| {
            LedgerError { operation: "hello", message: error.to_string(), transient: false }
        })
    }

    /// Runs driver code to its end or to the client's time limit. The code is spawned: dropping a
    /// driver future midway may corrupt its connection. On a time-out it may still take effect.
    ///
    /// # Errors
    /// What the driver says, classified; a time-out is transient.
    pub async fn limited<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        // Beyond the server's own limit: connecting, selecting a server, two ways of the network.
        let limit = self.op_limit * 2 + Duration::from_secs(2);
        match tokio::time::timeout(limit, tokio::spawn(work)).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(classify(operation, &error)),
            Ok(Err(panicked)) => {
                Err(LedgerError { operation, message: panicked.to_string(), transient: false })
            }
            Err(_) => {
                let message = format!("no answer within {limit:?}");
                Err(LedgerError { operation, message, transient: true })
            }
        }
    }

    /// Sends `update` commands. Returns how many documents matched and how many changed.
    /// A statement that fails alone counts as not matched; the rest still runs.
    ///
    /// # Errors
    /// When a command failed, or is not known to be durable; others of the call may have run.
    pub async fn update(
        &self,
        operation: &'static str,
        collection: &str,
        statements: Vec<Document>,
    ) -> Result<Updated, LedgerError> {
        let raw: Result<Vec<_>, _> = statements.iter().map(RawDocumentBuf::try_from).collect();
        let raw = raw.map_err(|error| LedgerError {
            operation,
            message: error.to_string(),
            transient: false,
        })?;
        let chunks = raw.chunks(STATEMENTS_MAX);
        self.update_each(operation, collection, chunks, RawDocumentBuf::clone).await
    }

    /// As [`Store::update`], with a command for each chunk, and a statement for each of its items,
    /// made when it is due.
    async fn update_each<T>(
        &self,
        operation: &'static str,
        collection: &str,
        chunks: std::slice::Chunks<'_, T>,
        statement: impl Fn(&T) -> RawDocumentBuf,
    ) -> Result<Updated, LedgerError> {
        let mut total = Updated { matched: 0, modified: 0, refused: false };
        for items in chunks {
            let mut updates = RawArrayBuf::new();
            items.iter().for_each(|item| updates.push(statement(item)));
            let updated = self.update_chunk(operation, collection, updates).await?;
            total.matched += updated.matched;
            total.modified += updated.modified;
            total.refused |= updated.refused;
        }
        Ok(total)
    }

    async fn update_chunk(
        &self,
        operation: &'static str,
        collection: &str,
        updates: RawArrayBuf,
    ) -> Result<Updated, LedgerError> {
        let limit = i64::try_from(self.op_limit.as_millis()).unwrap_or(i64::MAX);
        let command = rawdoc! {
            "update": collection,
            "updates": updates,
            "ordered": false,
            "maxTimeMS": limit,
            // Shows in the server's profiler and current operations.
            "comment": format!("tandem {operation}"),
            "writeConcern": { "w": "majority", "j": true, "wtimeout": limit },
        };
        let database = self.database.clone();
        let reply =
            self.limited(operation, async move { database.run_raw_command(command).await }).await?;
        read_reply(operation, &reply)
    }
}

/// What an `update` command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// Documents whose filter matched.
    pub matched: usize,
    /// Documents that changed.
    pub modified: usize,
    /// Whether the server refused a statement for good. One for many documents may have changed
    /// some of them.
    pub refused: bool,
}

/// `run_command` answers `Ok` even when statements failed or durability is unknown: look inside.
fn read_reply(operation: &'static str, reply: &Document) -> Result<Updated, LedgerError> {
    if let Ok(concern) = reply.get_document("writeConcernError") {
        let message = concern.get_str("errmsg").unwrap_or("write concern failed").to_owned();
        return Err(LedgerError { operation, message, transient: true });
    }
    let mut refused = false;
    for error in reply.get_array("writeErrors").into_iter().flatten() {
        let error = error.as_document();
        let code = error.and_then(|e| e.get_i32("code").ok()).unwrap_or_default();
        let message = error.and_then(|e| e.get_str("errmsg").ok()).unwrap_or("unknown");
        if TRANSIENT_CODES.contains(&code) {
            return Err(LedgerError { operation, message: message.to_owned(), transient: true });
        }
        // A document that breaks its schema refuses for good; the caller sees it as not matched.
        tracing::debug!(operation, code, message, "a statement was refused by the server");
        refused = true;
    }
    let count = |field: &str| {
        let number = reply.get_i32(field).unwrap_or_default();
        usize::try_from(number).unwrap_or_default()
    };
    Ok(Updated { matched: count("n"), modified: count("nModified"), refused })
}

/// Server errors that pass: fail-over, time limits, write conflicts, shutdown, network.
/// From the retryable errors of the drivers' specification, plus those a repeat can cure.
const TRANSIENT_CODES: [i32; 20] = [
    6, 7, 11, 24, 46, 50, 64, 89, 91, 112, 133, 134, 189, 262, 9001, 10107, 11600, 11602, 13435,
    13436,
];

fn classify(operation: &'static str, error: &Error) -> LedgerError {
    let by_kind = match error.kind.as_ref() {
        ErrorKind::Io(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => true,
        ErrorKind::Command(command) => TRANSIENT_CODES.contains(&command.code),
        _ => false,
    };
    let transient = by_kind
        || error.contains_label(RETRYABLE_WRITE_ERROR)
        || error.contains_label(TRANSIENT_TRANSACTION_ERROR);
    LedgerError { operation, message: error.to_string(), transient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_not_durable_is_an_error() {
        let reply = doc! { "ok": 1, "n": 1, "nModified": 1,
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
        assert!(read_reply("post", &reply).expect_err("not durable").transient);
    }

    #[test]
    fn a_passing_error_of_one_statement_fails_the_command() {
        let reply = doc! { "ok": 1, "n": 0, "nModified": 0,
        "writeErrors": [{ "index": 0, "code": 112, "errmsg": "WriteConflict" }] };
        assert!(read_reply("post", &reply).expect_err("a conflict").transient);
    }

    #[test]
    fn a_lasting_error_of_one_statement_counts_as_not_matched() {
        let reply = doc! { "ok": 1, "n": 1, "nModified": 1,
        "writeErrors": [{ "index": 0, "code": 121, "errmsg": "failed validation" }] };
        let updated = read_reply("post", &reply).expect("the others ran");
        assert_eq!(updated, Updated { matched: 1, modified: 1, refused: true });
    }
}
