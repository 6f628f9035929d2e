//! The order of an audit: what moves at one moment, then everything else, then what is left open.
//!
//! 1. `moment`: accounts and the transactions that they have marks of, in a snapshot; many accounts
//!    in several pieces, each in a snapshot of its own.
//! 2. All transactions, in the order in which they are stored, as they come. Most of them ended
//!    long before these moments, and stand as they stood then (`bearing`).
//! 3. Those that became held, applied or done near the moments: the server's log says when
//!    (`changes`). They are read once more. What is applied or done says the same as before, and a
//!    hold may have been decided meanwhile.
//! 4. Exclusive keys that two transactions seemed to have at once, because they were read one after
//!    the other.
//! 5. The lines of the journal (`journal`), against what the transactions of step 2 say of them, and
//!    what people have booked there without a transaction.
//! 6. The pages of the order (`order`), and the sums for statements (`sums`), against these lines.
//!
//! Memory grows with accounts, marks, keys and lines, and with what ends while the audit runs and
//! in the minute around.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use client::{Client, Error};
use ledger::limits::NAME_BYTES_MAX;
use ledger::transaction::State;
use mongo::TRANSACTIONS;
use mongodb::bson::{Bson, RawDocument, Timestamp, doc};
use mongodb::error::Error as DriverError;

use super::bearing::{Before, Changes, Now, Standing, may_come_after};
use super::books::Books;
use super::chunks::Over;
use super::journal::Journal;
use super::keys::{Contest, key_of};
use super::moment::Begun;
use super::progress::{BATCH, Progress, ReadCount};
use super::raw::{id_of, state_of};
use super::shared::Collections;
use super::{Options, changes, failed, moment};

/// What was read.
pub(super) struct Scanned {
    pub books: Books,
    /// When each piece of the accounts was read; empty without snapshots.
    pub moments: Vec<Timestamp>,
    /// How many lines of the journal.
    pub lines: u64,
}

/// Reads everything.
pub(super) async fn scan(
    client: &Client,
    options: Options,
    progress: &Progress<'_>,
) -> Result<Scanned, Error> {
    let mut told = ReadCount::new(progress);
    let mut journal = Journal::open(client).await?;
    let begun = Instant::now();
    let Begun { mut books, seen, moments } = moment::begin(client, options, &mut told).await?;
    let first = moments.iter().min().copied();
    let since = Since { seen, moments, first, begun };
    let transactions = client.store().transactions();
    let stored = client.store().layout().map(|layout| &layout.transactions);
    if let Some(first) = first {
        // A right that is missing would else show after hours, and not on a ledger at rest.
        changes::probe(&transactions, first).await?;
    }
    let gone_through = go_through(client, &since, &mut books, &mut journal, &mut told).await;
    let unclear = gone_through.map_err(failed)?;
    if let Some(first) = first
        && !unclear.before.is_empty()
    {
        let ids = unclear.before.keys().map(String::as_str).collect();
        let changed = changes::of((&transactions, stored), first, unclear.latest_ms, &ids).await?;
        let read = read_again(client, &since, &unclear.before, &changed, &mut books);
        read.await.map_err(failed)?;
    }
    compare_keys(client, &mut books).await.map_err(failed)?;
    let compared = journal.compare(&mut books, &since.moments, &mut told).await;
    let lines = compared.map_err(failed)?;
    Ok(Scanned { books, moments: since.moments, lines })
}

/// Transactions of which only the server's log tells at which moments they were held or applied.
#[derive(Default)]
struct Unclear {
    /// By their ids, as they were read.
    before: HashMap<String, Before>,
    /// The latest of their dates.
    latest_ms: i64,
}

impl Unclear {
    fn add(&mut self, transaction: &RawDocument) {
        let date = |field| transaction.get_datetime(field).ok();
        if let (Some(state), Some(changed)) = (state_of(transaction), date("lastModified")) {
            let before = Before { state, is_decided: date("decidedAt").is_some() };
            self.before.insert(id_of(transaction), before);
            self.latest_ms = self.latest_ms.max(changed.timestamp_millis());
        }
    }
}

/// What is known when transactions are read after the moments.
struct Since {
    /// In which pieces a transaction was read.
    seen: HashMap<String, Vec<usize>>,
    /// When each piece was read; empty without snapshots.
    moments: Vec<Timestamp>,
    /// The earliest of them: after a fail-over a later piece may stand for an earlier moment.
    first: Option<Timestamp>,
    /// When the audit began: shortly before the first moment, or after it by as much as a majority
    /// was behind.
    begun: Instant,
}

impl Since {
    /// The pieces in which it was read. Nearly all `_id`s are texts, and are not copied for this.
    fn seen(&self, transaction: &RawDocument) -> &[usize] {
        let seen = match transaction.get_str("_id") {
            Ok(id) => self.seen.get(id),
            Err(_) => self.seen.get(&id_of(transaction)),
        };
        seen.map_or(&[], Vec::as_slice)
    }

    /// Whether it may have changed since the first moment.
    fn is_recent(&self, transaction: &RawDocument) -> bool {
        let changed = transaction.get_datetime("lastModified");
        changed.is_ok_and(|changed| self.first.is_some_and(|first| may_come_after(changed, first)))
    }

    fn standing(&self, transaction: &RawDocument, seen: &[usize]) -> Standing {
        let Some(first) = self.first else { return Standing::Always };
        let elapsed_ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        let now = Now {
            state: state_of(transaction),
            last_modified: transaction.get_datetime("lastModified").ok(),
            decided_at: transaction.get_datetime("decidedAt").ok(),
            now_ms: i64::from(first.time) * 1_000 + elapsed_ms,
        };
        let is_known = |id: &str| id.len() <= NAME_BYTES_MAX;
        match now.standing(first, &self.moments, seen) {
            // Workers know none with another `_id`, so they have not changed it.
            Standing::Unclear if !transaction.get_str("_id").is_ok_and(is_known) => {
                let pieces = (0..self.moments.len()).filter(|piece| !seen.contains(piece));
                Standing::Stood(pieces.collect())
            }
            standing => standing,
        }
    }
}

/// Reads all transactions; returns those that are not clear.
async fn go_through(
    client: &Client,
    since: &Since,
    books: &mut Books,
    journal: &mut Journal,
    told: &mut ReadCount<'_>,
) -> Result<Unclear, DriverError> {
    let collections = Collections::of(client.store());
    let asked = doc! { "projection": collections.transaction_fields() };
    let query = client.store().query(TRANSACTIONS, asked)?;
    let find = query.find().batch_size(BATCH);
    let mut cursor = find.session(&mut journal.session).await?;
    let mut unclear = Unclear::default();
    while cursor.advance(&mut journal.session).await? {
        let transaction = &*query.read(cursor.current());
        let seen = since.seen(transaction);
        // What an account has a mark of is a transaction, or has been one.
        if seen.is_empty() && !collections.has_transaction(transaction) {
            continue;
        }
        journal.take(transaction, since.is_recent(transaction), books.findings());
        // Without snapshots there is one piece, and what was read with it is not read for another.
        let is_over = seen.len() >= since.moments.len().max(1);
        if is_over {
            continue;
        }
        told.one("accounts and transactions");
        match since.standing(transaction, seen) {
            Standing::Always => books.transaction(transaction, Over::All, true),
            Standing::Stood(stood) => {
                books.stood(transaction, seen.is_empty(), &stood, since.moments.len());
            }
            Standing::Unclear => unclear.add(transaction),
        }
    }
    Ok(unclear)
}

/// Reads those again that were not clear, now that it is known when they have `changed`.
async fn read_again(
    client: &Client,
    since: &Since,
    unclear: &HashMap<String, Before>,
    changed: &HashMap<String, Changes>,
    books: &mut Books,
) -> Result<(), DriverError> {
    let fields = Collections::of(client.store()).transaction_fields();
    let (moments, last) = (&since.moments, since.moments.iter().max());
    let changed = |id: &str| changed.get(id).copied().unwrap_or_default();
    let mut ids = Vec::new();
    for (id, before) in unclear {
        // Of what was applied and done after all moments nothing more has to be known.
        let came_later = before.since(changed(id)).as_ref() > last;
        if before.state == State::Done && came_later {
            books.pass(u64::from(!since.seen.contains_key(id)));
        } else {
            ids.push(Bson::from(id));
        }
    }
    for some in ids.chunks(BATCH as usize) {
        let asked = doc! { "filter": { "_id": { "$in": some } }, "projection": &fields };
        let query = client.store().query(TRANSACTIONS, asked)?;
        let mut cursor = query.find().batch_size(BATCH).await?;
        while cursor.advance().await? {
            let transaction = &*query.read(cursor.current());
            let (id, seen) = (id_of(transaction), since.seen(transaction));
            if let Some(before) = unclear.get(&id) {
                let from = before.since(changed(&id));
                let stood = before.stood(state_of(transaction), from, moments, seen);
                books.stood(transaction, seen.is_empty(), &stood, moments.len());
            }
        }
    }
    Ok(())
}

/// Looks whether those that were seen with a key first still have it.
async fn compare_keys(client: &Client, books: &mut Books) -> Result<(), DriverError> {
    let contests = books.take_contests();
    for some in contests.chunks(BATCH as usize) {
        let first: Vec<&Bson> = some.iter().map(Contest::first).collect();
        let asked = doc! {
            "filter": { "_id": { "$in": first } }, "projection": { "state": 1, "exclusiveKey": 1 },
        };
        let query = client.store().query(TRANSACTIONS, asked)?;
        let mut cursor = query.find().await?;
        let mut still = HashSet::new();
        while cursor.advance().await? {
            let transaction = &*query.read(cursor.current());
            still.extend(key_of(transaction).map(|key| (id_of(transaction), key.to_owned())));
        }
        books.compare_keys(some, &still);
    }
    Ok(())
}
