//! Workers that are seen: each writes one document about itself, and whoever shows an overview
//! reads them.
//!
//! Owns the documents of the collection `tandem.workers`. Nothing of the protocol depends on it: a
//! worker that can't write its document works all the same, and nobody decides anything about money
//! by it. So the write is acknowledged by the primary alone. Promises that all moments are of the
//! server's clock, that the index removes a document a day after it was written last, that neither
//! the index nor a read touches documents that are not of workers, and that a read is bounded and
//! never fails for what a document holds: others may write there, too. Fails with an error of the
//! command.

use ledger::limits::{WORKER_BYTES_MAX, WORKERS_MAX, echo};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, Document, RawArrayBuf, RawBsonRef, RawDocument, doc, rawdoc};

use super::index::Index;
use super::names::{SEEN, WORKERS};
use super::own::WORKER;
use super::{Store, fault};

/// How long a document stays after the last write, in seconds.
const KEPT_S: i32 = 24 * 3_600;

/// The time limit of the write, in milliseconds: the next one comes soon.
const REPORT_LIMIT_MS: i64 = 1_000;

/// A worker that has said nothing for so long is not there, in milliseconds. It says something every
/// few seconds.
pub const SILENT_MS: i64 = 10_000;

/// The most buckets of a histogram, and the most reasons, that are read of one document.
const ENTRIES_MAX: usize = 64;

/// What a worker says of itself. All counters begin at 0 with the worker and never go down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerReport {
    /// Of one life of a worker.
    pub id: String,
    /// Its name, which is `application` in transactions.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// How it settles, as the flag says it.
    pub engine: String,
    /// What it does now, where the engine chooses.
    pub engine_now: String,
    /// The most batches in flight.
    pub lanes: u64,
    /// The most ids of a batch.
    pub batch_size: u64,
    /// `working`, `standby`, `draining` or `stopped`.
    pub activity: String,
    /// Whether it begins nothing because settlement is paused. It still finishes what it `holds`.
    pub paused: bool,
    /// Whether it begins nothing because somebody has drained it. It still finishes what it `holds`.
    pub drained: bool,
    /// Whether it reaches the broker.
    pub broker: bool,
    /// Ids in its batches.
    pub holds: u64,
    /// Messages that were delivered to it and not acknowledged.
    pub messages: u64,
    /// Transactions that it has moved to `done`.
    pub done: u64,
    /// Transactions that it has moved to `canceled`.
    pub canceled: u64,
    /// Transactions that no message stood for and that its sweeper has published.
    pub forgotten: u64,
    /// Transactions that it has refused, by the code of the reason.
    pub refusals: Vec<(String, u64)>,
    /// From submission to the final state: so many transactions took at most so many milliseconds,
    /// those of the buckets before included. The last bucket is without a bound.
    pub latency: Vec<(f64, u64)>,
}

/// A worker as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenWorker {
    /// What it has said.
    pub report: WorkerReport,
    /// When it said so for the first time.
    pub started_at: Option<ServerMs>,
    /// When it said so.
    pub seen_at: ServerMs,
}

impl SeenWorker {
    /// Whether it is at work at this moment of the server's clock.
    #[must_use]
    pub fn is_here(&self, now: ServerMs) -> bool {
        self.report.activity != "stopped" && now - self.seen_at <= SILENT_MS
    }
}

/// By the time of the last write, for the server to remove old ones and for reads to find the
/// newest.
pub(super) fn index() -> Index {
    Index {
        name: SEEN,
        key: doc! { "seenAt": 1 },
        filter: doc! { "kind": WORKER.kind },
        unique: false,
        expire_after_s: Some(KEPT_S),
    }
}

impl WorkerReport {
    fn to_document(&self) -> Document {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let refusals: Document = self
            .refusals
            .iter()
            .map(|(code, count)| (code.clone(), number(*count).into()))
            .collect();
        let (bounds, counts): (Vec<f64>, Vec<i64>) =
            self.latency.iter().map(|(bound, count)| (*bound, number(*count))).unzip();
        doc! {
            "kind": WORKER.kind,
            "name": &self.name,
            "version": &self.version,
            "engine": &self.engine,
            "engineNow": &self.engine_now,
            "lanes": number(self.lanes),
            "batchSize": number(self.batch_size),
            "activity": &self.activity,
            "paused": self.paused,
            "drained": self.drained,
            "broker": self.broker,
            "holds": number(self.holds),
            "messages": number(self.messages),
            "done": number(self.done),
            "canceled": number(self.canceled),
            "forgotten": number(self.forgotten),
            "refusals": refusals,
            "latency": { "ms": bounds, "transactions": counts },
        }
    }

    /// Reads what somebody has written: what is missing, or of another type, is left empty.
    fn from_raw(document: &RawDocument) -> Option<WorkerReport> {
        let text = |field| echo(document.get_str(field).unwrap_or("unknown")).into_owned();
        let number = |field| count(document.get(field).ok().flatten());
        Some(WorkerReport {
            id: echo(document.get_str("_id").ok()?).into_owned(),
            name: text("name"),
            version: text("version"),
            engine: text("engine"),
            engine_now: text("engineNow"),
            lanes: number("lanes"),
            batch_size: number("batchSize"),
            activity: text("activity"),
            paused: document.get_bool("paused").unwrap_or_default(),
            drained: document.get_bool("drained").unwrap_or_default(),
            broker: document.get_bool("broker").unwrap_or_default(),
            holds: number("holds"),
            messages: number("messages"),
            done: number("done"),
            canceled: number("canceled"),
            forgotten: number("forgotten"),
            refusals: refusals(document),
            latency: latency(document),
        })
    }
}

fn refusals(document: &RawDocument) -> Vec<(String, u64)> {
    let Ok(refusals) = document.get_document("refusals") else { return Vec::new() };
    let entries = refusals.into_iter().flatten().take(ENTRIES_MAX);
    entries.map(|(code, number)| (echo(code.as_str()).into_owned(), count(Some(number)))).collect()
}

/// A histogram whose bounds do not rise, or whose counts fall, says nothing.
fn latency(document: &RawDocument) -> Vec<(f64, u64)> {
    let read = || {
        let latency = document.get_document("latency").ok()?;
        let bounds = latency.get_array("ms").ok()?.into_iter().take(ENTRIES_MAX);
        let counts = latency.get_array("transactions").ok()?.into_iter().take(ENTRIES_MAX);
        let bound = |bound: RawBsonRef<'_>| bound.as_f64().filter(|bound| *bound >= 0.0);
        bounds
            .zip(counts)
            .map(|(ms, transactions)| Some((bound(ms.ok()?)?, count(transactions.ok()))))
            .collect::<Option<Vec<_>>>()
    };
    let buckets = read().unwrap_or_default();
    let rises = |pair: &[(f64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
    if buckets.windows(2).all(rises) { buckets } else { Vec::new() }
}

/// A number as a count; what is none, or negative, counts as 0.
fn count(value: Option<RawBsonRef<'_>>) -> u64 {
    let number = match value {
        Some(RawBsonRef::Int64(number)) => number,
        Some(RawBsonRef::Int32(number)) => number.into(),
        Some(_) | None => 0,
    };
    u64::try_from(number).unwrap_or_default()
}

fn seen(document: &RawDocument) -> Option<SeenWorker> {
    let moment = |field| document.get_datetime(field).ok().map(DateTime::timestamp_millis);
    Some(SeenWorker {
        report: WorkerReport::from_raw(document)?,
        started_at: moment("startedAt"),
        seen_at: moment("seenAt")?,
    })
}

impl Store {
    /// Writes what a worker says of itself, in place of what it has said before. It may be lost in
    /// a fail-over; the next one is not.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn report(&self, report: &WorkerReport) -> Result<(), LedgerError> {
        const OPERATION: &str = "report";
        // As a literal, so that no text in it is taken for an expression.
        let said = doc! { "$literal": report.to_document() };
        let clock = doc! {
            "_id": "$_id",
            "startedAt": { "$ifNull": ["$startedAt", "$$NOW"] },
            "seenAt": "$$NOW",
            // What it has noted on transactions (`suspects`) stays.
            "alone": "$alone",
        };
        let statement = doc! {
            "q": WORKER.named(&report.id),
            "u": [{ "$replaceWith": { "$mergeObjects": [said, clock] } }],
            "upsert": true,
        };
        let command = doc! {
            "update": WORKERS,
            "updates": [statement],
            "comment": format!("tandem {OPERATION}"),
            "maxTimeMS": REPORT_LIMIT_MS,
            "writeConcern": { "w": 1 },
        };
        let database = self.database.clone();
        let reply = self.limited(OPERATION, async move { database.run_command(command).await });
        match fault::refusals(OPERATION, &reply.await?)?.pop() {
            Some((_, refused)) => Err(LedgerError::lasting(OPERATION, refused.problem)),
            None => Ok(()),
        }
    }

    /// The workers that have written their documents last, at most [`WORKERS_MAX`] and one more,
    /// which says that there are more. What is too large for a worker's document, or from the
    /// future, is left out.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn workers(&self) -> Result<Vec<SeenWorker>, LedgerError> {
        // A clock may step back by a moment in a fail-over.
        let now_ish = rawdoc! { "$add": ["$$NOW", 60_000_i64] };
        let fits = rawdoc! { "$lte": [{ "$bsonSize": "$$ROOT" }, WORKER_BYTES_MAX as i64] };
        let is_past = rawdoc! { "$lte": ["$seenAt", now_ish] };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": {
                "kind": WORKER.raw_condition(), "seenAt": { "$type": "date" },
            } },
            rawdoc! { "$sort": { "seenAt": -1 } },
            rawdoc! { "$match": { "$expr": { "$and": [is_past, fits] } } },
            rawdoc! { "$limit": WORKERS_MAX as i64 + 1 },
        ]
        .into_iter()
        .collect();
        self.aggregate("workers", WORKERS, pipeline, WORKERS_MAX + 1, seen).await
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, RawDocumentBuf};

    use super::*;

    fn report() -> WorkerReport {
        WorkerReport {
            id: "w".to_owned(),
            name: "$settle".to_owned(),
            version: "1".to_owned(),
            engine: "auto".to_owned(),
            engine_now: "transaction".to_owned(),
            lanes: 2,
            batch_size: 2_000,
            activity: "working".to_owned(),
            paused: true,
            drained: true,
            broker: true,
            holds: 3,
            messages: 4,
            done: 5,
            canceled: 6,
            forgotten: 7,
            refusals: vec![("insufficient_funds".to_owned(), 6)],
            latency: vec![(1.0, 2), (2.5, 9), (f64::INFINITY, 11)],
        }
    }

    fn read(document: &Document) -> Option<WorkerReport> {
        WorkerReport::from_raw(&RawDocumentBuf::try_from(document).expect("a document"))
    }

    #[test]
    fn what_a_worker_writes_is_read_again() {
        let mut written = report().to_document();
        written.insert("_id", "w");
        assert_eq!(read(&written), Some(report()));
    }

    #[test]
    fn whatever_else_stands_there_is_read_without_a_panic_and_cut() {
        let odd = [
            Bson::Null,
            Bson::from(f64::NAN),
            Bson::from(-5_i64),
            Bson::from(i64::MIN),
            Bson::from("\u{0}".repeat(100_000)),
            Bson::from(vec![Bson::from(1); 1_000]),
            Bson::from(doc! { "ms": [3.0, 1.0], "transactions": [1_i64, "x"] }),
            Bson::from(doc! { "ms": [1.0, 2.0], "transactions": [5_i64, 4_i64] }),
            Bson::from(doc! { "ms": [f64::NAN], "transactions": [5_i64] }),
        ];
        let mut whole = report().to_document();
        whole.insert("_id", "w");
        for (field, _) in &whole {
            for value in &odd {
                let mut document = whole.clone();
                document.insert(field.clone(), value.clone());
                let Some(read) = read(&document) else {
                    assert_eq!(field, "_id");
                    continue;
                };
                assert!(read.name.len() < 600 && read.refusals.len() <= ENTRIES_MAX, "{field}");
                if field == "latency" {
                    assert_eq!(read.latency, [], "{value}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_hide_one_field_only() {
        let mut bytes =
            RawDocumentBuf::try_from(&doc! { "_id": "w", "name": "@@@@", "done": 7_i64 })
                .expect("a document")
                .into_bytes();
        let at = bytes.windows(4).position(|four| four == b"@@@@").expect("the name");
        bytes[at..at + 4].fill(0xff);
        let read = WorkerReport::from_raw(&RawDocumentBuf::from_bytes(bytes).expect("its length"));
        let read = read.expect("it has an id");
        assert_eq!((read.name.as_str(), read.done), ("unknown", 7));
    }
}
