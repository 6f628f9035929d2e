//! Reading all accounts and transactions, in one snapshot.
//!
//! A server without snapshot reads (no replica set) is read without a snapshot, with a warning: on
//! a live database such an audit may report violations that never existed.

use common::transaction::State;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocument, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::ReadConcern;

use super::Options;
use super::books::Books;
use super::raw::EACH_FIELD_ONCE;
use crate::client::Client;
use crate::error::{Error, Server};

/// Every how many documents progress is shown.
const PROGRESS_EVERY: u64 = 1 << 13;
const BATCH: u32 = 5_000;
/// How often to ask again for a snapshot that is not available yet.
const RETRIES_MAX: u32 = 5;

/// What a server's answer says about snapshot reads.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The server has no snapshot reads.
    Unsupported,
    /// Not at this moment: a collection or index was just created.
    NotYet,
    /// The audit took longer than the server keeps the moment.
    TooOld,
    /// The error has nothing to do with snapshots.
    Other,
}

/// Is told how many documents were read, and of which kind.
type Progress<'a> = dyn Fn(u64, &str) + Send + Sync + 'a;

/// Reads everything; says whether it was one moment.
pub(super) async fn scan(
    client: &Client,
    options: Options,
    progress: &Progress<'_>,
) -> Result<(Books, bool), Error> {
    let mut retries = 0;
    loop {
        let error = match read(client, options, progress, true).await {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        match refusal(&error) {
            Refusal::Unsupported => {
                client.note(&format!(
                    "warning: no snapshot reads here ({error}); on a live database this audit may \
                     find what was never wrong"
                ));
                return Ok(read(client, options, progress, false).await?);
            }
            Refusal::NotYet if retries < RETRIES_MAX => {
                retries += 1;
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            Refusal::TooOld => {
                let problem = format!(
                    "the audit took longer than the server keeps a snapshot ({error}); raise its \
                     parameter minSnapshotHistoryWindowInSeconds, which needs no restart: \
                     db.adminCommand({{setParameter: 1, minSnapshotHistoryWindowInSeconds: 3600}})"
                );
                return Err(Error::Denied { server: Server::MongoDb, problem });
            }
            Refusal::NotYet | Refusal::Other => return Err(error.into()),
        }
    }
}

fn refusal(error: &DriverError) -> Refusal {
    let code = match error.kind.as_ref() {
        ErrorKind::Command(command) => command.code,
        _ => return Refusal::Other,
    };
    match code {
        // IllegalOperation, InvalidOptions, NotAReplicaSet, ReadConcernMajorityNotEnabled.
        20 | 72 | 123 | 148 => Refusal::Unsupported,
        239 => Refusal::TooOld,
        246 => Refusal::NotYet,
        _ => Refusal::Other,
    }
}

/// Also says whether the server fixed a moment for all reads.
async fn read(
    client: &Client,
    options: Options,
    progress: &Progress<'_>,
    snapshot: bool,
) -> Result<(Books, bool), DriverError> {
    let store = client.store();
    let mut session = match snapshot {
        true => store.database().client().start_session().snapshot(true).await?,
        false => store.database().client().start_session().await?,
    };
    let mut books = Books::new(options.at_rest, options.violations_max);
    let mut read = 0_u64;
    let mut each = |document: &RawDocument, take: fn(&mut Books, &RawDocument), what: &str| {
        take(&mut books, document);
        read += 1;
        if read.is_multiple_of(PROGRESS_EVERY) {
            progress(read, what);
        }
    };
    // In a snapshot session the driver drops the read concern that the client is set to, so each
    // read sets it explicitly.
    let level = snapshot.then(ReadConcern::snapshot);
    let mut reading = Reading { session: &mut session, level };
    reading
        .go_through(&store.accounts(), account_fields(), |account| {
            each(account, Books::account, "accounts");
        })
        .await?;
    reading
        .go_through(&store.transactions(), transaction_fields(), |transaction| {
            each(transaction, Books::transaction, "accounts and transactions");
        })
        .await?;
    Ok((books, session.snapshot_time().is_some()))
}

/// Only the fields that the rules need: the user's own fields may be large.
fn account_fields() -> Document {
    doc! {
        "status": 1, "currency": 1, "pendingTransactions": 1, "floor": 1, "balance": 1,
        "pendingDebits": 1, "pendingCredits": 1, "openingBalance": 1, "pendingHolds": 1,
        EACH_FIELD_ONCE: each_field_once(),
    }
}

fn transaction_fields() -> Document {
    let ended = [State::Done, State::Canceled].map(State::as_str);
    doc! {
        "source": 1, "destination": 1, "value": 1, "legs": 1, "state": 1, "parked.code": 1,
        "hold": 1, "captured": 1, "exclusiveKey": 1,
        // Final ones, nearly all there are, are not updated any more.
        EACH_FIELD_ONCE: { "$or": [{ "$in": ["$state", &ended[..]] }, each_field_once()] },
    }
}

/// `$mergeObjects` keeps only the first of two fields with the same name.
fn each_field_once() -> Document {
    doc! { "$eq": ["$$ROOT", { "$mergeObjects": ["$$ROOT"] }] }
}

struct Reading<'a> {
    session: &'a mut ClientSession,
    level: Option<ReadConcern>,
}

impl Reading<'_> {
    async fn go_through(
        &mut self,
        collection: &mongodb::Collection<Document>,
        fields: Document,
        mut each: impl FnMut(&RawDocument),
    ) -> Result<(), DriverError> {
        let mut find = collection.find(doc! {}).projection(fields).batch_size(BATCH);
        if let Some(level) = &self.level {
            find = find.read_concern(level.clone());
        }
        let mut cursor = find.session(&mut *self.session).await?;
        // Raw bytes, one document at a time: a document that can't be read is a finding and does
        // not end the audit.
        while cursor.advance(self.session).await? {
            each(cursor.current());
        }
        Ok(())
    }
}
