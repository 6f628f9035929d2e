//! The ledger at one moment: its accounts, and the transactions that move something just then.
//!
//! Owns the reads in one snapshot: all accounts, the transactions in flight, and those that accounts have
//! marks of. What else there is has moved nothing yet, or is decided and does not change any more, so it
//! can be read later. So the server has to keep its history for as long as these reads take, and not
//! for as long as the audit takes.
//!
//! A server without snapshot reads (no replica set) is read without a snapshot, with a warning: on
//! a live database such an audit may report violations that never existed.

use std::collections::HashSet;
use std::time::Duration;

use common::mongo::code_of;
use common::transaction::State;
use mongodb::ClientSession;
use mongodb::action::Find;
use mongodb::bson::{Bson, Document, RawDocument, Timestamp, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Hint, ReadConcern};

use super::Options;
use super::books::Books;
use super::raw::{account_fields, id_of, transaction_fields};
use super::scan::{BATCH, Told};
use crate::client::Client;
use crate::error::{Error, Server};

/// How often to ask again for a snapshot that is not available yet.
const NOT_YET_RETRIES_MAX: u32 = 5;
/// How often to begin anew when the snapshot was gone. On a server that was idle, a snapshot is up to 10 s
/// old when it is taken, and may be too old at once; the next one is not.
const TOO_OLD_RETRIES_MAX: u32 = 2;
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// What was read at the moment.
pub(super) struct Begun {
    pub books: Books,
    /// The transactions that were read, by their `_id` as text.
    pub seen: HashSet<String>,
    /// The moment; none without snapshot reads.
    pub at: Option<Timestamp>,
}

/// What a server's answer says about snapshot reads.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The server has no snapshot reads.
    Unsupported,
    /// Not at this moment: a collection or index was just created.
    NotYet,
    /// The reads took longer than the server keeps the moment.
    TooOld,
    /// The error has nothing to do with snapshots.
    Other,
}

/// Reads it.
pub(super) async fn begin(
    client: &Client,
    options: Options,
    told: &mut Told<'_>,
) -> Result<Begun, Error> {
    let mut retries = 0;
    loop {
        let error = match read(client, options, told, true).await {
            Ok(begun) => return Ok(begun),
            Err(error) => error,
        };
        match refusal(&error) {
            Refusal::Unsupported => {
                client.note(&format!(
                    "warning: no snapshot reads here ({error}); on a live database this audit may \
                     find what was never wrong"
                ));
                return Ok(read(client, options, told, false).await?);
            }
            Refusal::NotYet if retries < NOT_YET_RETRIES_MAX => {}
            Refusal::TooOld if retries < TOO_OLD_RETRIES_MAX => {}
            Refusal::TooOld => {
                let problem = format!(
                    "reading the accounts took longer than the server keeps a snapshot ({error}); \
                     raise its parameter minSnapshotHistoryWindowInSeconds, which needs no restart: \
                     db.adminCommand({{setParameter: 1, minSnapshotHistoryWindowInSeconds: 60}})"
                );
                return Err(Error::Denied { server: Server::MongoDb, problem });
            }
            Refusal::NotYet | Refusal::Other => return Err(error.into()),
        }
        retries += 1;
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

fn refusal(error: &DriverError) -> Refusal {
    match code_of(error) {
        // IllegalOperation, InvalidOptions, NotAReplicaSet, ReadConcernMajorityNotEnabled.
        Some(20 | 72 | 123 | 148) => Refusal::Unsupported,
        Some(239) => Refusal::TooOld,
        Some(246) => Refusal::NotYet,
        Some(_) | None => Refusal::Other,
    }
}

async fn read(
    client: &Client,
    options: Options,
    told: &mut Told<'_>,
    snapshot: bool,
) -> Result<Begun, DriverError> {
    let store = client.store();
    let session = store.database().client().start_session();
    let session = if snapshot { session.snapshot(true).await? } else { session.await? };
    // In a snapshot session the driver drops the read concern that the client is set to, so each
    // read sets it explicitly.
    let mut reading = Reading { session, level: snapshot.then(ReadConcern::snapshot) };
    let mut books = Books::new(options.at_rest, options.violations_max);
    let accounts = store.accounts();
    let take = |account: &RawDocument| {
        told.one("accounts");
        books.account(account);
    };
    reading.each(accounts.find(doc! {}).projection(account_fields()), take).await?;

    let transactions = store.transactions();
    let mut seen = HashSet::new();
    let mut take = |books: &mut Books, transaction: &RawDocument| {
        if seen.insert(id_of(transaction)) {
            told.one("accounts");
            books.transaction(transaction);
        }
    };
    let marked: Vec<Bson> = books.marked().map(Bson::from).collect();
    for some in marked.chunks(BATCH as usize) {
        let filter = doc! { "_id": { "$in": some } };
        let find = transactions.find(filter).projection(transaction_fields());
        reading.each(find, |transaction| take(&mut books, transaction)).await?;
    }
    let states = State::IN_FLIGHT.map(Bson::from).to_vec();
    let find =
        transactions.find(doc! { "state": { "$in": states } }).projection(transaction_fields());
    let find = find.hint(Hint::Name("in_flight".to_owned()));
    reading.each(find, |transaction| take(&mut books, transaction)).await?;
    Ok(Begun { books, seen, at: reading.session.snapshot_time() })
}

struct Reading {
    session: ClientSession,
    level: Option<ReadConcern>,
}

impl Reading {
    /// Raw bytes, one document at a time: a document that can't be read is a finding and does not end the audit.
    async fn each(
        &mut self,
        find: Find<'_, Document>,
        mut take: impl FnMut(&RawDocument),
    ) -> Result<(), DriverError> {
        let find = match &self.level {
            Some(level) => find.read_concern(level.clone()),
            None => find,
        };
        let mut cursor = find.batch_size(BATCH).session(&mut self.session).await?;
        while cursor.advance(&mut self.session).await? {
            take(cursor.current());
        }
        Ok(())
    }
}
