//! The accounts, and the transactions that they have marks of, each piece at one moment.
//!
//! Owns the reads in snapshots: accounts, and by `_id` the transactions that these have marks of.
//! What has no mark on an account is booked there if it was applied at the moment, and otherwise
//! has moved nothing there. That can be learned later (`bearing`), so a snapshot costs the same
//! however many transactions wait. A piece ends after [`Limits`], and the next one is read in a
//! snapshot of its own. So the server has to keep its history for as long as one piece takes, and
//! not for as long as the audit takes.
//!
//! A server without snapshot reads (no replica set) is read without a snapshot, with a warning: on
//! a live database such an audit may report violations that never existed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use client::{Client, Error, Server};
use mongo::{ACCOUNTS, Query, TRANSACTIONS, code_of, error_in_words};
use mongodb::ClientSession;
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf, Timestamp, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::ReadConcern;

use super::books::Books;
use super::chunks::Over;
use super::progress::{BATCH, ReadCount};
use super::raw::id_of;
use super::shared::Collections;
use super::{Options, failed};

/// How long the accounts of a piece are read at first: their transactions take some time, too, and
/// servers that `deploy/` starts keep 5 s.
const PIECE: Duration = Duration::from_millis(1_500);
/// A piece ends at so many marks, because each of their transactions is read.
const MARKS_MAX: usize = 50_000;
/// How often to ask again for a snapshot that is not available yet.
const NOT_YET_RETRIES_MAX: u32 = 5;
/// How often to begin a piece anew when its snapshot was gone. On a server that was idle, a
/// snapshot is up to 10 s old when it is taken, and may be too old at once; the next one is not.
const TOO_OLD_RETRIES_MAX: u32 = 4;
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// What was read at the moments.
pub(super) struct Begun {
    pub books: Books,
    /// The pieces in which a transaction was read, in order, by its `_id` as text.
    pub seen: HashMap<String, Vec<usize>>,
    /// When each piece was read; empty without snapshot reads.
    pub moments: Vec<Timestamp>,
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

/// How much is read in one piece.
#[derive(Clone, Copy)]
struct Limits {
    time: Duration,
    accounts: u64,
    marks: usize,
}

/// A piece that was read.
struct Piece {
    /// The account at which it ends; none at the end of all.
    end: Option<String>,
    /// Those that its accounts have marks of.
    transactions: Vec<RawDocumentBuf>,
    /// Its moment; none without snapshot reads.
    moment: Option<Timestamp>,
}

/// Reads all pieces.
pub(super) async fn begin(
    client: &Client,
    options: Options,
    told: &mut ReadCount<'_>,
) -> Result<Begun, Error> {
    let books =
        Books::new(Collections::of(client.store()), options.at_rest, options.violations_max);
    let mut limits =
        Some(Limits { time: PIECE, accounts: options.accounts_at_once, marks: MARKS_MAX });
    let mut begun = Begun { books, seen: HashMap::new(), moments: Vec::new() };
    for piece in 0.. {
        let books = &mut begun.books;
        let read = read_piece(client, &mut limits, books, told).await?;
        let Piece { end, transactions, moment } = read;
        limits.iter_mut().for_each(Limits::grow);
        begun.moments.extend(moment);
        let (is_last, of_this) = (end.is_none(), [piece]);
        books.accounts.end(end);
        let over = if piece == 0 && is_last { Over::All } else { Over::Only(&of_this) };
        for transaction in &transactions {
            let seen = begun.seen.entry(id_of(transaction)).or_default();
            books.transaction(transaction, over, seen.is_empty());
            seen.push(piece);
        }
        books.end_piece();
        if is_last {
            break;
        }
    }
    Ok(begun)
}

/// Reads the next piece, and begins it anew when its snapshot is not there, or not any more.
async fn read_piece(
    client: &Client,
    limits: &mut Option<Limits>,
    books: &mut Books,
    told: &mut ReadCount<'_>,
) -> Result<Piece, Error> {
    let mut retries = 0;
    loop {
        let error = match read(client, *limits, books, told).await {
            Ok(piece) => return Ok(piece),
            Err(error) => error,
        };
        books.forget_accounts();
        match (refusal(&error), limits.as_mut()) {
            (Refusal::Unsupported, Some(_)) => {
                client.note(&format!(
                    "warning: no snapshot reads here ({}); on a live database this audit may \
                     find what was never wrong",
                    error_in_words(&error)
                ));
                *limits = None;
                continue;
            }
            (Refusal::NotYet, Some(_)) if retries < NOT_YET_RETRIES_MAX => {}
            (Refusal::TooOld, Some(limits)) if retries < TOO_OLD_RETRIES_MAX => limits.halve(),
            (Refusal::TooOld, _) => {
                let problem = format!(
                    "reading some of the accounts took longer than the server keeps a snapshot \
                     ({}); raise its parameter minSnapshotHistoryWindowInSeconds, which needs no \
                     restart: db.adminCommand({{setParameter: 1, minSnapshotHistoryWindowInSeconds: 60}})",
                    error_in_words(&error)
                );
                return Err(Error::Denied { server: Server::MongoDb, problem });
            }
            (Refusal::Unsupported | Refusal::NotYet | Refusal::Other, _) => {
                return Err(failed(error));
            }
        }
        retries += 1;
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

impl Limits {
    /// For a server that is slow.
    fn halve(&mut self) {
        self.time /= 2;
        self.marks /= 2;
    }

    /// After a piece that was read: what was slow may be so no longer, and to try too much costs
    /// seconds.
    fn grow(&mut self) {
        self.time = (self.time + self.time / 8).min(PIECE);
        self.marks = (self.marks + self.marks / 8).min(MARKS_MAX);
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

/// Reads the accounts behind those that the books have, as many as the limits allow, and the
/// transactions that they have marks of. Without limits it reads all of them, and without a
/// snapshot.
async fn read(
    client: &Client,
    limits: Option<Limits>,
    books: &mut Books,
    told: &mut ReadCount<'_>,
) -> Result<Piece, DriverError> {
    let session = client.store().database().client().start_session();
    let session = if limits.is_some() { session.snapshot(true).await? } else { session.await? };
    // In a snapshot session the driver drops the read concern that the client is set to, so each
    // read sets it explicitly.
    let level = limits.is_some().then(ReadConcern::snapshot);
    let mut reading = Reading { session, level };
    let end = reading.accounts(client, limits, books, told).await?;
    let transactions = reading.transactions(client, books, told).await?;
    let moment = reading.session.snapshot_time().filter(|_| limits.is_some());
    Ok(Piece { end, transactions, moment })
}

struct Reading {
    session: ClientSession,
    level: Option<ReadConcern>,
}

impl Reading {
    /// The next accounts; returns the one at which the piece ends, if there may be more.
    async fn accounts(
        &mut self,
        client: &Client,
        limits: Option<Limits>,
        books: &mut Books,
        told: &mut ReadCount<'_>,
    ) -> Result<Option<String>, DriverError> {
        let begun = Instant::now();
        let collections = Collections::of(client.store());
        let after = books.accounts.last_end().map(str::to_owned);
        let asked = collections.accounts_behind(after.as_deref());
        let query = client.store().query(ACCOUNTS, asked)?;
        let (mut end, mut count) = (None, 0);
        let take = |account: &RawDocument| {
            let id = account.get_str("_id").ok();
            if after.is_some() && id == after.as_deref() {
                return true;
            }
            if collections.has_account(account) {
                told.one("accounts");
                books.account(account);
            }
            count += 1;
            let is_enough = limits.is_some_and(|limits| {
                count >= limits.accounts
                    || books.accounts.mark_count() >= limits.marks
                    || begun.elapsed() >= limits.time
            });
            // Other `_id`s than texts are violations, and have no order that Rust knows.
            end = id.filter(|_| is_enough).map(str::to_owned);
            end.is_none()
        };
        self.each(&query, take).await?;
        Ok(end)
    }

    /// The transactions that the accounts have marks of, as far as they exist.
    async fn transactions(
        &mut self,
        client: &Client,
        books: &Books,
        told: &mut ReadCount<'_>,
    ) -> Result<Vec<RawDocumentBuf>, DriverError> {
        let fields = Collections::of(client.store()).transaction_fields();
        let mut found = Vec::new();
        let marked: Vec<Bson> = books.accounts.marked().map(Bson::from).collect();
        for some in marked.chunks(BATCH as usize) {
            let asked = doc! { "filter": { "_id": { "$in": some } }, "projection": &fields };
            let query = client.store().query(TRANSACTIONS, asked)?;
            let take = |transaction: &RawDocument| {
                told.one("accounts");
                found.push(transaction.to_owned());
                true
            };
            self.each(&query, take).await?;
        }
        Ok(found)
    }

    /// Raw bytes, one document at a time, until `take` has enough: a document that can't be read is
    /// a finding and does not end the audit.
    async fn each(
        &mut self,
        query: &Query,
        mut take: impl FnMut(&RawDocument) -> bool,
    ) -> Result<(), DriverError> {
        let find = match &self.level {
            Some(level) => query.find().read_concern(level.clone()),
            None => query.find(),
        };
        let mut cursor = find.batch_size(BATCH).session(&mut self.session).await?;
        while cursor.advance(&mut self.session).await? && take(&query.read(cursor.current())) {}
        Ok(())
    }
}
