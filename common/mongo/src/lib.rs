#![doc = include_str!("../README.md")]

mod abandoned;
mod acts;
mod address;
mod adjustments;
mod backlog;
mod catalogue;
mod client_requests;
mod compare;
mod currencies;
mod dates;
mod definitions;
mod due;
mod duplicate;
mod ending;
mod fault;
mod files;
mod findings;
mod floors;
mod ground;
mod holds;
mod in_session;
mod index;
mod intrusions;
mod journal;
mod keyed;
mod laid_out;
mod ledger_settings;
mod lines;
mod listing;
mod looking;
mod names;
mod native;
mod not_ready;
mod numbers;
mod open;
mod order;
mod outbox;
mod own;
mod pages;
mod parked;
mod parking;
mod postings;
mod progress;
mod protocol;
mod query;
mod raw;
mod read;
mod refused;
mod requests;
mod resting;
mod rights;
mod roles;
mod schedules;
mod schema;
mod seen;
mod seen_index;
mod settlement;
mod shell;
mod slowing;
mod statements;
mod submissions;
mod sums;
mod suspects;
mod unfinished;
mod unpublished;
mod unsuitable;
mod validators;
mod words;
mod workers;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::{
    Acknowledgment, ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Collection, Database};
use tokio::sync::OnceCell;

pub use acts::{
    ACT_IDS_MAX, ActEnd, ActResult, ActSubject, ActVia, ActWho, ActsAsked, NewAct, SeenAct,
    SeenEnd, SubjectKind,
};
pub use adjustments::{Adjusted, Adjustment};
pub use backlog::{BACKLOG_MAX, Backlog};
pub use compare::Unneeded;
pub use definitions::is_marked as is_tandems_validator;
pub use due::{Due, DueNote, Source};
pub use fault::{code_of, of_error as fault_of, of_query as query_failed};
pub use files::SubmittedFile;
pub use findings::{Finding, Lack};
pub use floors::FloorChange;
pub use ground::{Harm, How, Why};
pub use in_session::InSession;
pub use keyed::{KeyedInsert, NEEDS_REPLICA_SET as KEYS_NEED_REPLICA_SET};
pub use ledger_settings::{Choice, LedgerSettings, Misfit};
pub use lines::{
    BadLine, Booking, LINES_AT_ONCE, Line, Mention, all_lines, lines_of, nanos_of_net,
};
pub use listing::{Listed, Listing};
pub use names::{
    ACCOUNTS, ACTS, BY_ACCOUNT, BY_CREATION, BY_TIME, DUE, EVENTS, FILES, JOURNAL, NOTES, ORDER,
    PROGRESS, REQUESTS, SETTINGS, SETTLEMENT, SUMS, TRANSACTIONS, WORKERS,
};
pub use not_ready::NotReady;
pub use open::{Open, OpenSource, OpenSources, Piece, Place, Takeover, open_sources};
pub use order::{Ahead, Ends, Numbered, Numberer, all_pages};
pub use outbox::{MongoOutbox, Stranded, Swept};
pub use own::{FOREIGN_MAX, Foreign};
pub use parked::{ParkedEntry, ParkedFilter, ParkedTransaction, Volume};
pub use parking::Unparked;
pub use progress::{Below, Progress};
pub use protocol::MongoLedger;
pub use query::Query;
pub use raw::{RawId, raw_id};
pub use read::{ACCOUNT as ACCOUNT_FIELDS, CONTENT as CONTENT_FIELDS, Fields};
pub use requests::{Request, Under};
pub use resting::{FirstDue, Resting};
pub use roles::{ROLES, Role};
pub use schema::Inspection;
pub use settlement::{Said, Settlement, SettlementChange, Whose};
pub use slowing::Slowing;
pub use statements::raw;
pub use submissions::{ENDED_BY_OTHERS, WRITTEN_FIELDS};
pub use sums::{PieceSums, Reach, SETTLED_MS, SummedUp};
pub use unfinished::{OldestOne, Unfinished};
pub use unsuitable::Unsuitable;
pub use words::of_error as error_in_words;
pub use workers::{SILENT_MS, SeenWorker, WorkerReport};
pub use write::Inserted;

use layout::Layout;
use ledger::notation::Notation;
use ledger::{LedgerError, ServerMs};
use settings::MongoSettings;

/// The most connections of a process to each server, unless the connection string says
/// `maxPoolSize`.
pub const POOL_MAX: u32 = 64;

/// A database with Tandem's collections, and the time limit of one operation.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    op_limit: Duration,
    app_name: String,
    /// The newest write that was acknowledged to this process, on the servers' logical clock.
    newest_write: Arc<AtomicU64>,
    /// The layout that its owner gives, to set the ledger up.
    given: Option<Arc<Layout>>,
    /// The layout that the ledger's settings name, once they were read.
    learned: Arc<OnceLock<Option<Layout>>>,
    /// How the ledger's settings said last that amounts are written.
    notation: Arc<Mutex<Arc<Notation>>>,
    /// Whether accounts and transactions have validators, as the ledger's settings said last.
    has_validators: Arc<AtomicBool>,
    /// Whether every statement is to be for one document: asked for, or needed by the server.
    one_document: Arc<OnceCell<bool>>,
    /// Set once the ledger was seen to keep exclusive keys.
    keeps_keys: Arc<OnceCell<()>>,
    /// The indexes that may refuse writes and that this program was told to accept.
    accepted_indexes: Arc<[String]>,
}

impl Store {
    /// Connects lazily: an unreachable server shows at the first operation, not here.
    ///
    /// # Errors
    /// When the URI does not parse, or no database can have the name. The message never holds the
    /// password.
    pub async fn connect(
        args: &MongoSettings,
        name: &str,
        op_limit: Duration,
    ) -> Result<Store, String> {
        let bad = |error: Error| {
            let uri = settings::redacted(&args.mongodb_uri);
            format!("TANDEM_MONGODB_URI ({uri}): {}", words::of_error(&error))
        };
        address::check(&args.mongodb_uri).map_err(|problem| {
            format!(
                "TANDEM_MONGODB_URI: {problem}; write it like \
                 mongodb://user:password@host1:27017,host2:27017/tandem?replicaSet=name"
            )
        })?;
        let mut options = ClientOptions::parse(&args.mongodb_uri).await.map_err(bad)?;
        // The name is always ours, whatever the connection string says: by this name Tandem
        // recognizes the connections whose abandoned transactions it may end.
        let app_name = format!("{}{name}", abandoned::APP_NAME_PREFIX);
        options.app_name = Some(app_name.clone());
        options.max_pool_size.get_or_insert(POOL_MAX);
        options.server_selection_timeout.get_or_insert(Duration::from_secs(5));
        options.connect_timeout.get_or_insert(Duration::from_secs(5));
        // Set here and not by the URI: an acknowledgement has to mean that the write is durable.
        options.write_concern =
            Some(WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());
        options.read_concern = Some(ReadConcern::majority());
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        let database = args.database_name(options.default_database.as_deref())?;
        let client = Client::with_options(options).map_err(bad)?;
        let one_document = args.one_document_statements.then_some(true);
        Ok(Store {
            database: client.database(&database),
            op_limit,
            app_name,
            newest_write: Arc::default(),
            given: None,
            learned: Arc::default(),
            notation: Arc::default(),
            has_validators: Arc::new(AtomicBool::new(true)),
            one_document: Arc::new(OnceCell::new_with(one_document)),
            keeps_keys: Arc::default(),
            accepted_indexes: args.accept_index.clone().into(),
        })
    }

    /// The accounts.
    #[must_use]
    pub fn accounts(&self) -> Collection<Document> {
        self.database.collection(self.stored_name(ACCOUNTS))
    }

    /// The transactions.
    #[must_use]
    pub fn transactions(&self) -> Collection<Document> {
        self.database.collection(self.stored_name(TRANSACTIONS))
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

    fn op_limit_ms(&self) -> i64 {
        i64::try_from(self.op_limit.as_millis()).unwrap_or(i64::MAX)
    }

    /// The server's clock.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn server_now(&self) -> Result<ServerMs, LedgerError> {
        let now = self.hello().await?.get_datetime("localTime").copied();
        now.map(|now| now.timestamp_millis())
            .map_err(|error| LedgerError::lasting("hello", error.to_string()))
    }

    /// Whether every statement is for one document: on the router of a sharded cluster, and where
    /// it was asked for. See `write`.
    async fn one_document_a_statement(&self) -> Result<bool, LedgerError> {
        self.one_document.get_or_try_init(|| self.is_router()).await.copied()
    }

    /// Whether this is the router of a sharded cluster.
    async fn is_router(&self) -> Result<bool, LedgerError> {
        let hello = self.hello().await?;
        Ok(hello.get_str("msg").is_ok_and(|message| message == "isdbgrid"))
    }

    /// Whether the server is a member of no replica set, and so has no native transactions. One
    /// that is to be a member and has not been initiated yet is away, and not alone.
    async fn is_alone(&self) -> Result<bool, LedgerError> {
        let hello = self.hello().await?;
        let is_one_of_several = ["setName", "isreplicaset", "msg"];
        Ok(!is_one_of_several.iter().any(|field| hello.contains_key(field)))
    }

    async fn hello(&self) -> Result<Document, LedgerError> {
        let database = self.database.clone();
        let hello = async move { database.run_command(doc! { "hello": 1 }).await };
        self.limited("hello", hello).await.map_err(LedgerError::without_effect)
    }

    /// Runs driver code to its end or to the client's time limit. The code runs in a task of its
    /// own, because dropping a future of the driver midway may corrupt its connection. After a
    /// time-out the operation may still take effect.
    ///
    /// # Errors
    /// What the driver says, classified as of a write; a time-out is transient. Of code that only
    /// reads, the caller says so ([`LedgerError::without_effect`]).
    pub async fn limited<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        // Beyond the server's own limit: connecting, selecting a server, two ways of the network.
        let limit = self.op_limit * 2 + Duration::from_secs(2);
        match tokio::time::timeout(limit, tokio::spawn(work)).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(fault::classify(operation, &error)),
            Ok(Err(panicked)) => {
                Err(LedgerError::lasting(operation, panicked.to_string()).after_a_write())
            }
            // The server would have ended the operation sooner, so the network has stopped
            // answering.
            Err(_) => Err(LedgerError::passing(operation, format!("no answer within {limit:?}"))),
        }
    }
}
