//! The order of an audit: what moves at one moment, then everything else, then what is left open.
//!
//! 1. `moment`: accounts and the transactions that move something on them, in a snapshot; many
//!    accounts in several pieces, each in a snapshot of its own.
//! 2. All transactions, in the order in which they are stored, as they come. Most of them ended
//!    long before these moments, and stand as they stood then (`bearing`).
//! 3. Those that were held or done near the moments: the server's log says when (`changes`). They
//!    are read once more. What is done says the same as before, and a hold may have been decided
//!    meanwhile.
//! 4. Exclusive keys that two transactions seemed to have at once, because they were read one after
//!    the other.
//!
//! Memory grows with accounts, marks and keys, and with what ends while accounts are read and in
//! the minute around.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use client::{Client, Error};
use ledger::limits::NAME_BYTES_MAX;
use ledger::transaction::State;
use mongodb::bson::{Bson, RawDocument, Timestamp, doc};
use mongodb::error::Error as DriverError;

use super::bearing::{Now, Standing};
use super::books::Books;
use super::chunks::Over;
use super::keys::{Contest, key_of};
use super::moment::Begun;
use super::progress::{BATCH, Progress, ReadCount};
use super::raw::{id_of, state_of, transaction_fields};
use super::{Options, changes, failed, moment};

/// Reads everything; says at how many moments, which is none without snapshots.
pub(super) async fn scan(
    client: &Client,
    options: Options,
    progress: &Progress<'_>,
) -> Result<(Books, usize), Error> {
    let mut told = ReadCount::new(progress);
    let begun = Instant::now();
    let Begun { mut books, seen, moments } = moment::begin(client, options, &mut told).await?;
    let first = moments.iter().min().copied();
    let since = Since { seen, moments, first, begun };
    let transactions = client.store().transactions();
    if let Some(first) = first {
        // A right that is missing would else show after hours, and not on a ledger at rest.
        changes::probe(&transactions, first).await?;
    }
    let unclear = go_through(client, &since, &mut books, &mut told).await.map_err(failed)?;
    if let Some(first) = first
        && !unclear.states.is_empty()
    {
        let ids = unclear.states.keys().map(String::as_str).collect();
        let changed = changes::of(&transactions, first, unclear.latest_ms, &ids).await?;
        let read = read_again(client, &since, &unclear.states, &changed, &mut books);
        read.await.map_err(failed)?;
    }
    compare_keys(client, &mut books).await.map_err(failed)?;
    Ok((books, since.moments.len()))
}

/// Transactions of which only the server's log tells at which moments they were done or held.
#[derive(Default)]
struct Unclear {
    /// By their ids, as they were read.
    states: HashMap<String, State>,
    /// The latest of their dates.
    latest_ms: i64,
}

impl Unclear {
    fn add(&mut self, transaction: &RawDocument) {
        let date = transaction.get_datetime("lastModified");
        if let (Some(state), Ok(date)) = (state_of(transaction), date) {
            self.states.insert(id_of(transaction), state);
            self.latest_ms = self.latest_ms.max(date.timestamp_millis());
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

    fn standing(&self, transaction: &RawDocument, seen: &[usize]) -> Standing {
        let Some(first) = self.first else { return Standing::Always };
        let elapsed_ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        let now = Now {
            state: state_of(transaction),
            last_modified: transaction.get_datetime("lastModified").ok(),
            now_ms: i64::from(first.time) * 1_000 + elapsed_ms,
        };
        let is_known = |id: &str| id.len() <= NAME_BYTES_MAX;
        match now.standing(first, &self.moments, seen) {
            // Workers know none with another `_id`, so they have not changed it.
            Standing::Unclear if !transaction.get_str("_id").is_ok_and(is_known) => {
                Standing::Stood(self.unseen(seen, |_| true))
            }
            standing => standing,
        }
    }

    /// The pieces with such a moment in which it was not read.
    fn unseen(&self, seen: &[usize], is_such: impl Fn(Timestamp) -> bool) -> Vec<usize> {
        let pieces = self.moments.iter().enumerate();
        let pieces = pieces.filter(|(piece, at)| !seen.contains(piece) && is_such(**at));
        pieces.map(|(piece, _)| piece).collect()
    }

    /// Takes a transaction in that stood like this at the moments of the pieces `stood`.
    fn take(&self, transaction: &RawDocument, is_first: bool, stood: &[usize], books: &mut Books) {
        if stood.len() == self.moments.len() {
            books.transaction(transaction, Over::All, is_first);
        } else if !stood.is_empty() {
            books.transaction(transaction, Over::Only(stood), is_first);
        } else if is_first {
            books.changed_since(transaction);
        }
    }
}

/// Reads all transactions; returns those that are not clear.
async fn go_through(
    client: &Client,
    since: &Since,
    books: &mut Books,
    told: &mut ReadCount<'_>,
) -> Result<Unclear, DriverError> {
    let transactions = client.store().transactions();
    let find = transactions.find(doc! {}).projection(transaction_fields()).batch_size(BATCH);
    let (mut cursor, mut unclear) = (find.await?, Unclear::default());
    while cursor.advance().await? {
        let transaction = cursor.current();
        let seen = since.seen(transaction);
        // Without snapshots there is one piece, and what was read with it is not read for another.
        let is_over = seen.len() >= since.moments.len().max(1);
        if is_over {
            continue;
        }
        told.one("accounts and transactions");
        match since.standing(transaction, seen) {
            Standing::Always => books.transaction(transaction, Over::All, true),
            Standing::Stood(stood) => since.take(transaction, seen.is_empty(), &stood, books),
            Standing::Unclear => unclear.add(transaction),
        }
    }
    Ok(unclear)
}

/// Reads those again that were not clear, now that it is known when they have `changed`.
async fn read_again(
    client: &Client,
    since: &Since,
    unclear: &HashMap<String, State>,
    changed: &HashMap<String, Timestamp>,
    books: &mut Books,
) -> Result<(), DriverError> {
    let transactions = client.store().transactions();
    let last = since.moments.iter().max();
    let mut ids = Vec::new();
    for (id, state) in unclear {
        // Of what was done after all moments nothing more has to be known.
        if *state == State::Done && changed.get(id) > last {
            books.pass(u64::from(!since.seen.contains_key(id)));
        } else {
            ids.push(Bson::from(id));
        }
    }
    for some in ids.chunks(BATCH as usize) {
        let find = transactions.find(doc! { "_id": { "$in": some } });
        let mut cursor = find.projection(transaction_fields()).batch_size(BATCH).await?;
        while cursor.advance().await? {
            let transaction = cursor.current();
            let (id, seen) = (id_of(transaction), since.seen(transaction));
            let stood = if state_of(transaction) == unclear.get(&id).copied() {
                let had_changed = |at| changed.get(&id).is_none_or(|changed| *changed <= at);
                since.unseen(seen, had_changed)
            } else {
                // It was held when it was read first, and a hold has no effect where it has no
                // mark.
                Vec::new()
            };
            since.take(transaction, seen.is_empty(), &stood, books);
        }
    }
    Ok(())
}

/// Looks whether those that were seen with a key first still have it.
async fn compare_keys(client: &Client, books: &mut Books) -> Result<(), DriverError> {
    let transactions = client.store().transactions();
    let contests = books.take_contests();
    for some in contests.chunks(BATCH as usize) {
        let first: Vec<&Bson> = some.iter().map(Contest::first).collect();
        let find = transactions.find(doc! { "_id": { "$in": first } });
        let mut cursor = find.projection(doc! { "state": 1, "exclusiveKey": 1 }).await?;
        let mut still = HashSet::new();
        while cursor.advance().await? {
            let transaction = cursor.current();
            still.extend(key_of(transaction).map(|key| (id_of(transaction), key.to_owned())));
        }
        books.compare_keys(some, &still);
    }
    Ok(())
}
