//! The contenders that this program runs itself, and how it drives them.
//!
//! A transfer is given, as a client has it; it is settled when its record and all balances are
//! durable. Every contender keeps one record per transfer, in the same form.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, Result};

use super::feed::{Feed, Pace};
use super::field::{Field, plain_accounts};
use super::native_batch::Writer;
use super::workload::{Load, Transfer, account_id};
use super::{articles, native};

/// The contenders of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// One operation at a time.
    Articles,
    /// One native transaction per transfer, as the driver's manual writes it.
    Native,
    /// The same with as few commands as can be.
    NativeLean,
    /// One native transaction per batch.
    NativeBatch,
}

impl Baseline {
    /// The concurrencies, or batch sizes, that are tried before a workload is measured.
    #[must_use]
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Baseline::Articles => &[32, 64],
            Baseline::Native | Baseline::NativeLean => &[4, 16, 32],
            Baseline::NativeBatch => &[200, 500, 1_000],
        }
    }

    /// How many tasks, and how many transfers each takes at a time.
    fn shape(self, size: usize) -> (usize, usize) {
        match self {
            Baseline::Articles | Baseline::Native | Baseline::NativeLean => (size, 1),
            Baseline::NativeBatch => (1, size),
        }
    }
}

/// The result of a drive.
#[derive(Clone, Debug)]
pub struct Driven {
    /// How many transfers, from the beginning of the load, came to their end.
    pub executed: usize,
    /// From the start to the end of the last.
    pub elapsed: Duration,
    /// For each transfer, its number and the time from when it was due to its end.
    pub latencies: Vec<(usize, Duration)>,
}

/// Makes the accounts, and the collection of records.
///
/// # Errors
/// What the driver says.
pub async fn prepare(field: &Field, baseline: Baseline, accounts: usize) -> Result<()> {
    let database = field.store.database();
    // Tandem's validators and indexes would only slow the others down.
    database.drop().await?;
    database.create_collection("transactions").await?;
    let documents = plain_accounts(accounts, baseline == Baseline::Articles);
    field.store.accounts().insert_many(documents).await.map(|_| ())
}

/// Runs the load, as much of it as the pace allows.
///
/// # Errors
/// What the driver says.
pub async fn drive(
    field: &Field,
    baseline: Baseline,
    size: usize,
    load: &Arc<Load>,
    pace: Pace,
) -> Result<Driven> {
    drive_feed(field, baseline, size, load, |total| Feed::start(total, pace)).await
}

/// The same with a feed that is started when everything is connected.
///
/// # Errors
/// What the driver says.
pub async fn drive_feed(
    field: &Field,
    baseline: Baseline,
    size: usize,
    load: &Arc<Load>,
    start: impl FnOnce(usize) -> Feed,
) -> Result<Driven> {
    let (tasks, most) = baseline.shape(size);
    let mut clients = Vec::new();
    for _ in 0..tasks {
        clients.push(Client::new(field, baseline).await?);
    }
    let feed = Arc::new(start(load.transfers.len()));
    let running: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(client.run(feed.clone(), load.clone(), most)))
        .collect();
    let mut latencies = Vec::new();
    for task in running {
        latencies.extend(task.await.map_err(|panic| internal(&panic))??);
    }
    Ok(Driven { executed: feed.taken().await, elapsed: feed.begun().elapsed(), latencies })
}

/// Runs one transfer after the other with a pause before each.
///
/// # Errors
/// What the driver says.
pub async fn one_by_one(
    field: &Field,
    baseline: Baseline,
    load: &Load,
    pause: impl AsyncFn(),
) -> Result<Driven> {
    let mut client = Client::new(field, baseline).await?;
    let begun = Instant::now();
    let mut latencies = Vec::new();
    for (number, transfer) in load.transfers.iter().enumerate() {
        pause().await;
        let submitted = Instant::now();
        client.settle(std::slice::from_ref(transfer)).await?;
        latencies.push((number, submitted.elapsed()));
    }
    Ok(Driven { executed: load.transfers.len(), elapsed: begun.elapsed(), latencies })
}

/// An error of our own, as the driver's.
pub(super) fn internal(problem: &dyn std::fmt::Display) -> Error {
    std::io::Error::other(problem.to_string()).into()
}

/// One task with what it needs.
enum Client {
    Articles(mongodb::Database),
    Native(Box<mongodb::ClientSession>, mongodb::Database, native::Form),
    NativeBatch(Box<Writer>),
}

impl Client {
    async fn new(field: &Field, baseline: Baseline) -> Result<Client> {
        let database = field.store.database().clone();
        Ok(match baseline {
            Baseline::Articles => Client::Articles(database),
            Baseline::Native | Baseline::NativeLean => {
                let session = database.client().start_session().await?;
                let lean = baseline == Baseline::NativeLean;
                let form = if lean { native::Form::Lean } else { native::Form::Manual };
                Client::Native(Box::new(session), database, form)
            }
            Baseline::NativeBatch => Client::NativeBatch(Box::new(Writer::new(&database).await?)),
        })
    }

    async fn run(
        mut self,
        feed: Arc<Feed>,
        load: Arc<Load>,
        most: usize,
    ) -> Result<Vec<(usize, Duration)>> {
        let mut latencies = Vec::new();
        while let Some(taken) = feed.take(most).await {
            self.settle(&load.transfers[taken.clone()]).await?;
            let now = Instant::now();
            feed.note_settled(taken.len());
            let latency = |index| (index, now.saturating_duration_since(feed.due(index)));
            latencies.extend(taken.map(latency));
        }
        Ok(latencies)
    }

    async fn settle(&mut self, transfers: &[Transfer]) -> Result<()> {
        match self {
            Client::Articles(database) => {
                let accounts = database.collection("accounts");
                let transactions = database.collection("transactions");
                for transfer in transfers {
                    articles::settle(&accounts, &transactions, transfer).await?;
                }
                Ok(())
            }
            Client::Native(session, database, form) => {
                for transfer in transfers {
                    native::settle(session, database, transfer, *form).await?;
                }
                Ok(())
            }
            Client::NativeBatch(writer) => writer.settle(transfers).await,
        }
    }
}

/// The record of a transfer in the manual's form.
#[must_use]
pub fn transaction_document(transfer: &Transfer, state: &str) -> Document {
    let mut document = doc! { "_id": &transfer.id };
    match transfer.legs.as_slice() {
        [(source, _), (destination, value)] => {
            document.insert("source", account_id(*source));
            document.insert("destination", account_id(*destination));
            document.insert("value", value);
        }
        legs => {
            let leg = |(account, amount): &(usize, i64)| {
                Bson::from(doc! { "account": account_id(*account), "amount": amount })
            };
            document.insert("legs", legs.iter().map(leg).collect::<Vec<_>>());
        }
    }
    document.insert("state", state);
    document
}

/// How many documents an `update` command matched; its reply may hold errors inside.
///
/// # Errors
/// The first of them.
pub fn matched(reply: &Document) -> Result<usize> {
    if let Some(error) = reply.get_array("writeErrors").ok().and_then(|errors| errors.first()) {
        return Err(internal(&format!("update: {error}")));
    }
    Ok(usize::try_from(reply.get_i32("n").unwrap_or_default()).unwrap_or_default())
}
