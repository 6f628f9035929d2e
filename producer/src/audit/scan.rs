//! The order of an audit: what moves at one moment, then everything else, then what is left open.
//!
//! 1. `moment`: accounts and the transactions that move something, in one snapshot.
//! 2. All transactions, in the order in which they are stored, as they come. Most of them ended long before
//!    the moment, and stand as they stood then (`bearing`).
//! 3. Those that were held or done near the moment: the server's log says which of them only after it
//!    (`changes`). The others are read once more; they are decided, so they say the same as before.
//! 4. Exclusive keys that two transactions seemed to have at once, because they were read one after the other.
//!
//! Memory grows with accounts, marks and keys, and with what ends within a minute.

use std::collections::HashSet;
use std::time::Instant;

use common::limits::NAME_BYTES_MAX;
use common::transaction::State;
use mongodb::bson::{Bson, RawDocument, Timestamp, doc};
use mongodb::error::Error as DriverError;

use super::bearing::{Bearing, Moment, bearing};
use super::books::Books;
use super::keys::{Contest, key_of};
use super::moment::Begun;
use super::raw::{id_of, transaction_fields};
use super::{Options, changes, moment};
use crate::client::Client;
use crate::error::Error;

/// Every how many documents progress is shown.
const PROGRESS_EVERY: u64 = 1 << 13;
pub(super) const BATCH: u32 = 5_000;

/// Is told how many documents were read, and of which kind.
type Progress<'a> = dyn Fn(u64, &str) + Send + Sync + 'a;

/// How much was read.
pub(super) struct Told<'a> {
    progress: &'a Progress<'a>,
    read: u64,
}

impl Told<'_> {
    /// One more document was read.
    pub(super) fn one(&mut self, what: &str) {
        self.read += 1;
        if self.read.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.read, what);
        }
    }
}

/// Reads everything; says whether it stands for one moment.
pub(super) async fn scan(
    client: &Client,
    options: Options,
    progress: &Progress<'_>,
) -> Result<(Books, bool), Error> {
    let mut told = Told { progress, read: 0 };
    let begun = Instant::now();
    let Begun { mut books, seen, at } = moment::begin(client, options, &mut told).await?;
    let since = Since { seen, at, begun };
    let mut unclear = go_through(client, &since, &mut books, &mut told).await?;
    if let Some(at) = at.filter(|_| !unclear.is_empty()) {
        let transactions = client.store().transactions();
        books.pass(changes::leave_out(&transactions, at, &mut unclear).await?);
        read_again(client, unclear, &mut books).await?;
    }
    compare_keys(client, &mut books).await?;
    Ok((books, at.is_some()))
}

/// What is known when transactions are read after the moment.
struct Since {
    /// Those that were read at the moment.
    seen: HashSet<String>,
    at: Option<Timestamp>,
    /// When the audit began, shortly before the moment or up to 10 s after it.
    begun: Instant,
}

impl Since {
    /// Whether it was read at the moment. Nearly all `_id`s are texts, and are not copied for this.
    fn was_read(&self, transaction: &RawDocument) -> bool {
        match transaction.get_str("_id") {
            Ok(id) => self.seen.contains(id),
            Err(_) => self.seen.contains(&id_of(transaction)),
        }
    }

    fn bearing(&self, transaction: &RawDocument) -> Bearing {
        let Some(at) = self.at else { return Bearing::AsItStood };
        let state = transaction.get_str("state").ok().and_then(State::parse);
        let last_modified = transaction.get_datetime("lastModified").ok();
        let elapsed_ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        let is_known = |id: &str| id.len() <= NAME_BYTES_MAX;
        match bearing(state, last_modified, Moment { at, elapsed_ms }) {
            // Workers know none with another `_id`, so they have not changed it.
            Bearing::Unclear if !transaction.get_str("_id").is_ok_and(is_known) => {
                Bearing::AsItStood
            }
            bearing => bearing,
        }
    }
}

/// Reads all transactions; returns the ids of those that are not clear.
async fn go_through(
    client: &Client,
    since: &Since,
    books: &mut Books,
    told: &mut Told<'_>,
) -> Result<HashSet<String>, DriverError> {
    let transactions = client.store().transactions();
    let find = transactions.find(doc! {}).projection(transaction_fields()).batch_size(BATCH);
    let (mut cursor, mut unclear) = (find.await?, HashSet::new());
    while cursor.advance().await? {
        let transaction = cursor.current();
        if since.was_read(transaction) {
            continue;
        }
        told.one("accounts and transactions");
        match since.bearing(transaction) {
            Bearing::AsItStood => books.transaction(transaction),
            Bearing::ChangedSince => books.changed_since(transaction),
            Bearing::Unclear => drop(unclear.insert(id_of(transaction))),
        }
    }
    Ok(unclear)
}

/// Reads those again that stand as they stood at the moment.
async fn read_again(
    client: &Client,
    ids: HashSet<String>,
    books: &mut Books,
) -> Result<(), DriverError> {
    let transactions = client.store().transactions();
    let ids: Vec<Bson> = ids.into_iter().map(Bson::from).collect();
    for some in ids.chunks(BATCH as usize) {
        let find = transactions.find(doc! { "_id": { "$in": some } });
        let mut cursor = find.projection(transaction_fields()).batch_size(BATCH).await?;
        while cursor.advance().await? {
            books.transaction(cursor.current());
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
