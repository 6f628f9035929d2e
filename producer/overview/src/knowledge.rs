//! What is known of both servers, how old it is, and what is told of it. Pure: time is passed in.
//!
//! Promises that what was known before a server went away is still told, with its age, and that
//! everything that is told is bounded.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bson::DateTime;
use ledger::ServerMs;
use ledger::limits::{WORKERS_MAX, echo};
use ledger::transaction::State;
use mongo::{
    FOREIGN_MAX, Finding, FirstDue, Foreign, Resting, SILENT_MS, SeenWorker, Settlement, Unfinished,
};
use queue::{DEAD, Level};

use super::flow::{Flow, Step};
use super::problems::problems;
use super::types::{
    Activity, Backlog, Connection, Connections, Count, Dead, Due, ForeignDocuments, HarmfulIndex,
    Oldest, Overview, Pause, Point, Queue, States, Worker,
};

/// How often the servers are looked at.
pub const EVERY: Duration = Duration::from_secs(2);

/// For how long a worker that is not there any more is told of.
const TOLD_MS: i64 = 15 * 60_000;

/// So many harmful indexes are told of.
const HARMS_MAX: usize = 20;

/// What the database has said.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Its clock.
    pub now: ServerMs,
    /// The pause, while settlement is paused.
    pub pause: Option<Settlement>,
    /// The names of the workers that somebody has drained, and who has.
    pub drained: Vec<(String, Settlement)>,
    /// Its workers, the newest first, and maybe one more than are told.
    pub workers: Vec<SeenWorker>,
    /// What is not final, and when that was counted.
    pub unfinished: Option<(Unfinished, Instant)>,
    /// What rests, and when that was counted.
    pub resting: Option<(Resting, Instant)>,
    /// What is due for the longest time.
    pub first_due: Option<FirstDue>,
    /// How many transactions are noted as parked beside their documents.
    pub noted: Option<u64>,
    /// How many events are due, and whether there may be more.
    pub events_due: Option<(u64, bool)>,
    /// What others have put into Tandem's own collections.
    pub foreign: Option<Vec<Foreign>>,
    /// The indexes that remove documents, or may refuse writes and are not accepted.
    pub harms: Option<Vec<Finding>>,
    /// What the user may not read.
    pub denied: Option<String>,
}

/// Who has drained which worker, by the name of that.
type Drains<'a> = HashMap<&'a str, &'a Settlement>;

/// What is known of a server.
#[derive(Debug)]
pub struct Known<T> {
    /// Whether it has answered last time; none before it was asked.
    up: Option<bool>,
    since: Option<SystemTime>,
    problem: Option<String>,
    newest: Option<(T, Instant)>,
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known { up: None, since: None, problem: None, newest: None }
    }
}

impl<T> Known<T> {
    /// Notes an answer, or why there is none.
    pub fn heard(&mut self, answer: Result<T, String>, now: Instant, clock: SystemTime) {
        let is_up = answer.is_ok();
        if self.up != Some(is_up) {
            (self.up, self.since) = (Some(is_up), Some(clock));
        }
        match answer {
            Ok(answer) => (self.newest, self.problem) = (Some((answer, now)), None),
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Forgets whether it is there; what it has said stays.
    fn pause(&mut self) {
        (self.up, self.since, self.problem) = (None, None, None);
    }

    /// The newest answer.
    fn newest(&self) -> Option<&T> {
        self.newest.as_ref().map(|(newest, _)| newest)
    }

    fn told(&self, now: Instant) -> Connection {
        Connection {
            up: self.up.unwrap_or_default(),
            since: self.since.map(|since| moment(DateTime::from_system_time(since))),
            data_age_ms: self.newest.as_ref().map(|(_, at)| ms(now.duration_since(*at))),
            problem: self.problem.clone(),
        }
    }
}

/// Everything.
#[derive(Default)]
pub struct Knowledge {
    /// The steps of the last 15 minutes.
    pub flow: Flow,
    /// What the database has said.
    pub mongodb: Known<Ledger>,
    /// What the broker has said.
    pub amqp: Known<Vec<Level>>,
    /// When the transaction that is due first was first seen as such, if the database has answered
    /// since.
    first_since: Option<ServerMs>,
}

impl Knowledge {
    /// Notes what the database has said, or why it has not.
    pub fn of_the_database(
        &mut self,
        looked: Result<Ledger, String>,
        now: Instant,
        clock: SystemTime,
    ) {
        self.first_since = looked.as_ref().ok().and_then(|ledger| self.first_since(ledger));
        match &looked {
            Ok(ledger) => self.flow.take(ledger.now, &ledger.workers),
            Err(_) => self.flow.missed(self.server_now(now, clock)),
        }
        self.mongodb.heard(looked, now, clock);
    }

    /// Since when what is due first has been the first: since before, if it is the same as at the
    /// last look.
    fn first_since(&self, ledger: &Ledger) -> Option<ServerMs> {
        let first = ledger.first_due.as_ref()?;
        let before = self.mongodb.newest().and_then(|ledger| ledger.first_due.as_ref());
        let is_same = before.is_some_and(|before| (&before.id, before.at) == (&first.id, first.at));
        Some(self.first_since.filter(|_| is_same).unwrap_or(first.seen_at))
    }

    /// Whether both servers were asked.
    pub fn is_complete(&self) -> bool {
        self.mongodb.up.is_some() && self.amqp.up.is_some()
    }

    /// Nobody looks for a while: what was seen stays, but says nothing about what is now.
    pub fn pause(&mut self) {
        self.flow.pause();
        self.mongodb.pause();
        self.amqp.pause();
    }

    /// The server's clock at this moment, as far as it is known.
    pub fn server_now(&self, now: Instant, clock: SystemTime) -> ServerMs {
        match &self.mongodb.newest {
            Some((ledger, at)) => {
                let passed = i64::try_from(ms(now.duration_since(*at))).unwrap_or_default();
                ledger.now.saturating_add(passed)
            }
            None => DateTime::from_system_time(clock).timestamp_millis(),
        }
    }

    /// What is told at this moment, with the points from this number on.
    pub fn overview(&self, from: u64, now: Instant, clock: SystemTime) -> Overview {
        let server_now = self.server_now(now, clock);
        let ledger = self.mongodb.newest();
        let unfinished = ledger.and_then(|ledger| ledger.unfinished.as_ref());
        let resting = ledger.and_then(|ledger| ledger.resting.as_ref());
        let totals = self.flow.totals();
        let (workers, left_out) =
            ledger.map_or((vec![], 0), |ledger| self.workers(ledger, server_now));
        let mut overview = Overview {
            at: moment(DateTime::from_millis(server_now)),
            every_ms: ms(EVERY),
            pause: ledger.and_then(|ledger| Some(pause(ledger.pause.as_ref()?, server_now))),
            problems: vec![],
            rate: self.flow.rate(),
            latency_ms: self.flow.latency(),
            states: unfinished.zip(resting).map(|((found, at), (rests, rest_at))| {
                states(found, rests, ms(now.duration_since(*at.min(rest_at))))
            }),
            due: ledger.and_then(|ledger| self.due(ledger, server_now)),
            oldest: unfinished.and_then(|(found, _)| oldest(found, server_now)),
            backlog: unfinished.map(|(found, _)| self.backlog(found, server_now)),
            workers,
            workers_left_out: left_out,
            queues: self.amqp.newest().map(|levels| levels.iter().map(queue).collect()),
            refusals: totals.refusals.clone(),
            refusals_over_s: totals.over_s,
            dead: self.amqp.newest().and_then(|levels| dead(levels)),
            parked: ledger.and_then(parked),
            events_due: ledger
                .and_then(|ledger| ledger.events_due)
                .map(|(count, capped)| Count { count, capped }),
            foreign: ledger.and_then(|ledger| ledger.foreign.as_ref()).map(|all| foreign(all)),
            harmful_indexes: ledger
                .and_then(|ledger| ledger.harms.as_ref())
                .map(|all| harmful(all)),
            connections: Connections { mongodb: self.mongodb.told(now), amqp: self.amqp.told(now) },
            points: self.flow.steps_from(from).map(point).collect(),
        };
        let denied = ledger.and_then(|ledger| ledger.denied.as_deref());
        overview.problems = problems(&overview, &totals, self.flow.quiet_ms(), denied);
        overview
    }

    fn backlog(&self, found: &Unfinished, now: ServerMs) -> Backlog {
        let transactions = found.states.values().sum::<u64>().saturating_sub(found.parked);
        let rate = self.flow.rate().map(|rate| rate.settled).filter(|settled| *settled > 0.0);
        Backlog {
            transactions,
            capped: found.capped,
            oldest_ms: oldest(found, now).map_or(0, |oldest| oldest.age_ms),
            clears_in_s: rate.map(|settled| (transactions as f64 / settled).ceil() as u64),
        }
    }

    fn due(&self, ledger: &Ledger, now: ServerMs) -> Option<Due> {
        let first = ledger.first_due.as_ref()?;
        let counted = ledger.resting.as_ref().map(|(resting, _)| resting);
        let since = self.first_since.unwrap_or(first.seen_at);
        Some(Due {
            // They are counted at another moment.
            count: counted.map_or(0, |resting| resting.due).max(1),
            capped: counted.is_none_or(|resting| resting.due_capped),
            late_ms: u64::try_from(now.saturating_sub(first.at)).unwrap_or_default(),
            still_ms: u64::try_from(first.seen_at.saturating_sub(since)).unwrap_or_default(),
        })
    }

    /// Those with trouble first, and how many are left out.
    fn workers(&self, ledger: &Ledger, now: ServerMs) -> (Vec<Worker>, u64) {
        let is_told = |seen: &&SeenWorker| now - seen.seen_at <= TOLD_MS;
        let drains: Drains<'_> =
            ledger.drained.iter().map(|(name, said)| (name.as_str(), said)).collect();
        let mut all: Vec<Worker> = ledger
            .workers
            .iter()
            .filter(is_told)
            .map(|seen| self.worker(seen, &drains, ledger.now))
            .collect();
        let left_out = all.len().saturating_sub(WORKERS_MAX);
        all.truncate(WORKERS_MAX);
        all.sort_by(|one, other| (one.activity, &one.name).cmp(&(other.activity, &other.name)));
        (all, left_out as u64)
    }

    /// A worker, as it was when the database has answered: while that is away, nobody falls silent.
    fn worker(&self, seen: &SeenWorker, drains: &Drains<'_>, now: ServerMs) -> Worker {
        let report = &seen.report;
        let age = now.saturating_sub(seen.seen_at);
        let activity = match report.activity.as_str() {
            "stopped" => Activity::Stopped,
            _ if age > SILENT_MS => Activity::Silent,
            "draining" => Activity::Draining,
            _ if report.drained => Activity::Drained,
            "standby" => Activity::Standby,
            _ if report.paused => Activity::Paused,
            _ => Activity::Working,
        };
        Worker {
            id: report.id.clone(),
            name: report.name.clone(),
            version: report.version.clone(),
            engine: report.engine.clone(),
            engine_now: report.engine_now.clone(),
            lanes: report.lanes,
            batch_size: report.batch_size,
            started_at: seen.started_at.map(|at| moment(DateTime::from_millis(at))),
            seen_at: moment(DateTime::from_millis(seen.seen_at)),
            seen_ms_ago: u64::try_from(age).unwrap_or_default(),
            activity,
            holds: report.holds,
            messages: report.messages,
            settled: self.flow.rate_of(&report.id),
            done: report.done,
            canceled: report.canceled,
            broker: report.broker,
            drain: drains.get(report.name.as_str()).map(|said| pause(said, now)),
        }
    }
}

fn pause(said: &Settlement, now: ServerMs) -> Pause {
    Pause {
        since: moment(DateTime::from_millis(said.since)),
        since_ms: u64::try_from(now.saturating_sub(said.since)).unwrap_or_default(),
        by: echo(&said.by).into_owned(),
        reason: echo(said.reason.as_deref().unwrap_or_default()).into_owned(),
    }
}

fn states(found: &Unfinished, resting: &Resting, age_ms: u64) -> States {
    let count = |state| Count {
        count: found.states.get(&state).copied().unwrap_or_default(),
        capped: found.capped,
    };
    let rests = |count| Count { count, capped: resting.capped };
    States {
        scheduled: rests(resting.scheduled),
        held: rests(resting.held),
        initial: count(State::Initial),
        pending: count(State::Pending),
        applied: count(State::Applied),
        canceling: count(State::Canceling),
        age_ms,
    }
}

fn oldest(found: &Unfinished, now: ServerMs) -> Option<Oldest> {
    let oldest = found.oldest.as_ref()?;
    Some(Oldest {
        id: oldest.id.clone(),
        state: oldest.state.as_str().to_owned(),
        age_ms: u64::try_from(now.saturating_sub(oldest.since)).unwrap_or_default(),
    })
}

fn parked(ledger: &Ledger) -> Option<Count> {
    let ((found, _), (resting, _)) = (ledger.unfinished.as_ref()?, ledger.resting.as_ref()?);
    let count = found.parked.saturating_add(resting.parked).saturating_add(ledger.noted?);
    let capped = found.capped || resting.capped;
    Some(Count { count, capped })
}

fn foreign(all: &[Foreign]) -> Vec<ForeignDocuments> {
    let told = |one: &Foreign| ForeignDocuments {
        collection: one.collection.to_owned(),
        documents: Count { count: one.count, capped: one.count >= FOREIGN_MAX },
        example: one.example.clone(),
    };
    all.iter().map(told).collect()
}

fn harmful(all: &[Finding]) -> Vec<HarmfulIndex> {
    let told = |one: &Finding| HarmfulIndex {
        collection: one.stored.clone(),
        removes: one.is_unsuitable(),
        problem: one.to_string(),
    };
    all.iter().take(HARMS_MAX).map(told).collect()
}

fn queue(level: &Level) -> Queue {
    Queue {
        key: level.key.clone(),
        name: level.name.clone(),
        messages: level.messages.into(),
        consumers: level.consumers.into(),
    }
}

fn dead(levels: &[Level]) -> Option<Dead> {
    let dead = levels.iter().find(|level| level.key == DEAD)?;
    Some(Dead { messages: dead.messages.into() })
}

fn point(step: &Step) -> Point {
    let tenth = |rate: f64| (rate * 10.0).round() / 10.0;
    Point {
        at: moment(DateTime::from_millis(step.at)),
        settled: step.rate.map(|rate| tenth(rate.settled)),
        p50: step.latency.map(|latency| latency.p50),
        p99: step.latency.map(|latency| latency.p99),
    }
}

fn moment(at: DateTime) -> String {
    ledger::json::timestamp(at)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
