//! The overview as it is told: by the HTTP API, by its stream, and by `producer top --json`.
//!
//! Owns the names and meanings of the fields. Moments are texts as in RFC 3339, by the database's
//! clock. What is not known is `null`, never 0. Numbers that would cost the database too much
//! beyond a limit are capped, and say so. All lists are bounded.

use std::collections::BTreeMap;

use ledger::transaction::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

/// What operators look at first: how fast it goes, what waits, who works, and what is wrong.
///
/// Data of a server that is away is the last that was known; `connections` says how old it is.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// When it was put together.
    #[schema(format = DateTime)]
    pub at: String,
    /// The next one comes after so many milliseconds.
    pub every_ms: u64,
    /// Since when settlement is paused, by whom and why. Null while it goes on.
    pub pause: Option<Pause>,
    /// What is wrong, the worst first. Empty when nothing is.
    pub problems: Vec<Problem>,
    /// Transactions that come to their end, a second, at this moment. Null until two looks were
    /// made.
    pub rate: Option<Rate>,
    /// From submission to the final state, over the last minute. Null when nothing ended in it.
    pub latency_ms: Option<Latency>,
    /// Transactions that are not final, by state.
    pub states: Option<States>,
    /// The transaction that has waited longest for workers and is not parked. What rests does not
    /// wait for them.
    pub oldest: Option<Oldest>,
    /// What waits or is in flight, and how long it will take.
    pub backlog: Option<Backlog>,
    /// What is due and was not moved on yet: scheduled transactions whose moment has come, and what
    /// has expired. Null when nothing is.
    pub due: Option<Due>,
    /// The workers that were seen within the last quarter of an hour, those with trouble first.
    pub workers: Vec<Worker>,
    /// How many further workers are left out of the list.
    pub workers_left_out: u64,
    /// The queues with their messages. Null until the broker has answered once.
    pub queues: Option<Vec<Queue>>,
    /// Transactions that were canceled within the last 15 minutes, by the code of the reason.
    pub refusals: BTreeMap<String, u64>,
    /// How many seconds of the last 15 minutes this program has looked. What was refused while it
    /// did not look is not in `refusals`.
    pub refusals_over_s: u64,
    /// Messages in the queue of dead letters. Null until the broker has answered once.
    pub dead: Option<Dead>,
    /// Transactions that are set apart until a person looks.
    pub parked: Option<Count>,
    /// Events that no broker has confirmed and that are due.
    pub events_due: Option<Count>,
    /// Documents in Tandem's own collections that Tandem has not written. They stay as they are.
    /// Null until somebody has looked.
    pub foreign: Option<Vec<ForeignDocuments>>,
    /// Indexes of others that remove documents of the ledger, or that may refuse writes and were
    /// not accepted. Null until somebody has looked.
    pub harmful_indexes: Option<Vec<HarmfulIndex>>,
    /// Whether the servers are there.
    pub connections: Connections,
    /// For charts, the oldest first. `GET /v1/overview`, and the first event of a stream, tell the
    /// last 15 minutes; later events tell only the points that are new.
    pub points: Vec<Point>,
}

/// Somebody has paused settlement, or drained a worker: then nothing, or nothing by this one, is
/// begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OverviewPause)]
pub struct Pause {
    /// Since when.
    #[schema(format = DateTime)]
    pub since: String,
    /// How long ago that is.
    pub since_ms: u64,
    /// Who has said so: the name of a token, or of a user as claimed.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// Something that is wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OverviewProblem)]
pub struct Problem {
    /// Which one it is. At most one of each is in the list, so a page can tell what is new.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a few words.
    pub title: String,
    /// Why, as far as it is known.
    pub cause: String,
    /// What to do.
    pub remedy: String,
    /// Where to read more: a section of the runbook in `deploy/operating.md`.
    pub link: &'static str,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Money does not move, or somebody has to act now.
    Critical,
    /// It gets worse if nobody acts.
    Warning,
    /// Good to know.
    Info,
}

/// Transactions that come to their end, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// All of them.
    pub settled: f64,
    /// Those that moved their money.
    pub done: f64,
    /// Those that did not.
    pub canceled: f64,
}

/// Milliseconds. They are read from a histogram, so each is exact to its bucket only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Half of the transactions took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

/// A number that may have a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// How many.
    pub count: u64,
    /// Whether there may be more: nobody has counted further. Show it as "100,000+".
    pub capped: bool,
}

/// What is due. Workers move it on, those first whose moment was first, in steps: so many due at
/// one moment take a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Due {
    /// Transactions.
    pub count: u64,
    /// Whether there may be more: nobody has counted further.
    pub capped: bool,
    /// How long ago the moment of the first of them was.
    pub late_ms: u64,
    /// For how long this program has seen the same one as the first. It stays small while workers
    /// move them.
    pub still_ms: u64,
}

/// Transactions that are not final, by state, with those that are parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct States {
    /// They wait for their moment.
    pub scheduled: Count,
    /// They wait for a worker.
    pub initial: Count,
    /// They are being posted.
    pub pending: Count,
    /// Their debits are reserved, until they are confirmed or released, or expire.
    pub held: Count,
    /// They are past their commit point.
    pub applied: Count,
    /// They are being undone.
    pub canceling: Count,
    /// How old these numbers are. They are counted less often where counting takes longer.
    pub age_ms: u64,
}

fn state() -> Schema {
    let states = State::ALL.map(State::as_str);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(states)).into()
}

/// The transaction that has waited longest for workers and is not parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Oldest {
    /// Its id.
    pub id: String,
    /// Its state.
    #[schema(schema_with = state)]
    pub state: String,
    /// How long ago it was created, by the database's clock; or was due, confirmed, released or
    /// canceled.
    pub age_ms: u64,
}

/// What is not final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Transactions that wait or are in flight.
    pub transactions: u64,
    /// Whether there may be more.
    pub capped: bool,
    /// For how many milliseconds the oldest of them has waited; 0 if there is none.
    pub oldest_ms: u64,
    /// How many seconds that takes at this rate, if nothing more comes; at least, when it is
    /// capped. Null while nothing is settled.
    pub clears_in_s: Option<u64>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Of one life of a worker: after a restart it has another one.
    pub id: String,
    /// Its name, which is `application` in transactions.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// How it settles: `two-phase`, `transaction` or `auto`.
    pub engine: String,
    /// What `auto` does at this moment: `two-phase` or `transaction`. The same as `engine` for the
    /// others.
    pub engine_now: String,
    /// How many batches it settles at the same time.
    pub lanes: u64,
    /// The most ids of a batch.
    pub batch_size: u64,
    /// When it was started.
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// When it was last seen.
    #[schema(format = DateTime)]
    pub seen_at: String,
    /// How long ago that is.
    pub seen_ms_ago: u64,
    /// What it does.
    pub activity: Activity,
    /// Ids in its batches.
    pub holds: u64,
    /// Messages that the broker has delivered to it and that it has not acknowledged.
    pub messages: u64,
    /// Transactions that it brings to their end, a second. Null until it was seen twice.
    pub settled: Option<f64>,
    /// Transactions done since it was started.
    pub done: u64,
    /// Transactions canceled since it was started.
    pub canceled: u64,
    /// Whether it reaches the broker.
    pub broker: bool,
    /// Since when somebody has drained it, by whom and why. Null while nobody has. It may still
    /// finish what it had begun: `activity` says what it does.
    pub drain: Option<Pause>,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// Nothing was seen of it for too long: it has died, stalls, or does not reach the database.
    Silent,
    /// It was told to stop, and finishes what it has.
    Draining,
    /// It works, or waits for work.
    Working,
    /// It begins nothing, because settlement is paused.
    Paused,
    /// It begins nothing, because somebody has drained it.
    Drained,
    /// It waits for its turn, while another worker is at work.
    Standby,
    /// It has ended as it was told.
    Stopped,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// What it is for: `work`, `solo`, `retry.500` and so on, `dead`.
    pub key: String,
    /// Its name at the broker.
    pub name: String,
    /// Messages that wait in it; those that were delivered are not counted.
    pub messages: u64,
    /// How many consume it.
    pub consumers: u64,
}

/// Dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dead {
    /// Messages.
    pub messages: u64,
}

/// Documents in a collection of Tandem's own that Tandem has not written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignDocuments {
    /// The collection.
    pub collection: String,
    /// How many.
    pub documents: Count,
    /// The `_id` of one of them, as text.
    pub example: String,
}

/// An index of somebody else's that harms the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HarmfulIndex {
    /// The collection that it is on.
    pub collection: String,
    /// Whether the server removes documents by it; if not, it may refuse writes.
    pub removes: bool,
    /// What it does, and what to do about it.
    pub problem: String,
}

/// Whether the servers are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connections {
    /// The database.
    pub mongodb: Connection,
    /// The broker.
    pub amqp: Connection,
}

/// Whether a server is there, as this program sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Whether it has answered the last question.
    pub up: bool,
    /// Since when it is there, or away, by the clock of this program. Null until it was asked.
    #[schema(format = DateTime)]
    pub since: Option<String>,
    /// How old the newest data of it is. Null while there is none.
    pub data_age_ms: Option<u64>,
    /// Why it does not answer.
    pub problem: Option<String>,
}

/// A moment of the charts.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// When it was.
    #[schema(format = DateTime)]
    pub at: String,
    /// Transactions that came to their end, a second. Null is a gap: nobody looked, or the database
    /// was away. Draw no line across it.
    pub settled: Option<f64>,
    /// From submission to the final state, in milliseconds. Null when nothing ended.
    pub p50: Option<f64>,
    /// The same for 99 of 100.
    pub p99: Option<f64>,
}
