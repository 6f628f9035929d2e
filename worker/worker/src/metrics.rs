//! Every metric of the worker: names, help and units in one place.
//!
//! Owns a registry of its own, so that several workers fit in one process. Promises that no label
//! is an id, and that every series that is known beforehand exists from the start with 0. The page
//! of all metrics (`deploy/metrics.md`) is made of what stands here.

mod make;
mod observed;

use std::sync::OnceLock;
use std::time::Duration;

use ledger::ServerMs;
use ledger::transaction::{ParkCode, ReasonCode, State};
use mongo::{Backlog, WorkerReport};
use observe::Tracing;
use prometheus::core::Metric;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Registry, TextEncoder,
};

use self::make::{IDS, Label, Maker, SECONDS};
use crate::decide::{Cause, DeadReason};

/// The operations of the ledger that a batch tries again in place.
const OPERATIONS: [&str; 15] = [
    "claim", "read", "bodies", "accounts", "post", "rest", "settle", "undo", "applied", "done",
    "canceled", "cancel", "park", "noted", "transact",
];

/// The phases of a batch, in their order.
const PHASES: [&str; 11] = [
    "claim",
    "post",
    "held",
    "applied",
    "settle",
    "undo",
    "announce",
    "done",
    "canceled",
    "transaction",
    CONFLICT,
];

/// A native transaction that a conflict has undone.
const CONFLICT: &str = "conflict";

/// A server that a worker needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// RabbitMQ.
    Broker,
    /// MongoDB.
    Database,
}

impl Server {
    fn as_str(self) -> &'static str {
        match self {
            Server::Broker => "broker",
            Server::Database => "database",
        }
    }
}

/// The metrics of one worker, and the registry that they are in.
pub struct Metrics {
    registry: Registry,
    transitions: IntCounterVec,
    refusals: IntCounterVec,
    parked: IntCounterVec,
    events: IntCounterVec,
    phase_seconds: HistogramVec,
    tracing: OnceLock<Tracing>,
    submission_to_final: HistogramVec,
    server_up: IntGaugeVec,
    standing_by: IntGauge,
    paused: IntGauge,
    drained: IntGauge,
    oldest_unfinished: GaugeVec,
    unfinished: IntGaugeVec,
    events_due: IntGauge,
    oldest_due: Gauge,
    /// Operations tried again in place, by operation.
    retries: IntCounterVec,
    /// Ids published again, by cause.
    pub requeues: IntCounterVec,
    /// Messages given to the dead-letter queue, by reason.
    pub dead_letters: IntCounterVec,
    /// Ids published by the sweeper, by kind.
    pub swept: IntCounterVec,
    /// Messages that the broker delivered before, to this worker or another.
    pub redeliveries: IntCounter,
    /// Post commands that are known to be late: not sent, or answered late and not done in full.
    fenced_posts: IntCounter,
    /// Transactions claimed that had been claimed before.
    takeovers: IntCounter,
    /// Settlements that rode on a later post, one for each batch and account.
    rides: IntCounter,
    /// Transactions past their commit point that outlived the limit of attempts: alert on it.
    overdue: IntCounter,
    /// Times that the consuming connection was made anew.
    pub reconnects: IntCounter,
    /// Ids per batch.
    pub batch_size: Histogram,
    settle_lag: Histogram,
    /// Messages delivered and not yet acknowledged.
    pub in_flight: IntGauge,
    /// Ids in batches that have not ended.
    pub ids_in_batches: IntGauge,
    /// Seconds until this worker asks for the backlog again.
    backlog_every: Gauge,
}

impl Metrics {
    /// Metrics in a registry of their own, at zero, with every label that is known beforehand.
    ///
    /// # Panics
    /// When a name is given twice: a mistake in this file.
    #[must_use]
    pub fn new() -> Metrics {
        Metrics::in_registry(Registry::new()).expect("each name is given once")
    }

    /// The same in somebody's registry.
    ///
    /// # Errors
    /// When one of the names is taken there, as by another worker: give that one a registry with
    /// labels of its own.
    pub fn in_registry(registry: Registry) -> prometheus::Result<Metrics> {
        let make = Maker { registry: &registry };
        let label = |name, values| Label { name, values };
        let states = State::ALL.map(State::as_str);
        let reasons = ReasonCode::ALL.map(ReasonCode::as_str);
        let parked = ParkCode::ALL.map(ParkCode::as_str);
        let causes = Cause::ALL.map(Cause::as_str);
        let dead = DeadReason::ALL.map(DeadReason::as_str);
        let servers = [Server::Broker, Server::Database].map(Server::as_str);
        let ends = label("state", &["done", "canceled"]);
        let unfinished = label("state", &["initial", "in_flight"]);
        let build = make.gauges_int("build_info", BUILD_INFO, &label("version", &[VERSION]))?;
        build.with_label_values(&[VERSION]).set(1);
        Ok(Metrics {
            transitions: make.counters(
                "transitions_total",
                TRANSITIONS,
                &label("state", &states),
            )?,
            refusals: make.counters("refusals_total", REFUSALS, &label("reason", &reasons))?,
            parked: make.counters("parked_total", PARKED, &label("reason", &parked))?,
            events: make.counters("events_total", EVENTS, &label("outcome", &OUTCOMES))?,
            tracing: OnceLock::new(),
            phase_seconds: make.histograms("phase_seconds", PHASE, &label("phase", &PHASES))?,
            submission_to_final: make.histograms("submission_to_final_seconds", TO_FINAL, &ends)?,
            server_up: make.gauges_int("server_up", SERVER_UP, &label("server", &servers))?,
            standing_by: make.gauge_int("standing_by", STANDING_BY)?,
            paused: make.gauge_int("paused", PAUSED)?,
            drained: make.gauge_int("drained", DRAINED)?,
            oldest_unfinished: make.gauges("oldest_unfinished_age_seconds", OLDEST, &unfinished)?,
            unfinished: make.gauges_int("unfinished_transactions", UNFINISHED, &unfinished)?,
            events_due: make.gauge_int("events_due", EVENTS_DUE)?,
            oldest_due: make.gauge("oldest_due_age_seconds", OLDEST_DUE)?,
            retries: make.counters("retries_total", RETRIES, &label("operation", &OPERATIONS))?,
            requeues: make.counters("requeues_total", REQUEUES, &label("cause", &causes))?,
            dead_letters: make.counters("dead_letters_total", DEAD, &label("reason", &dead))?,
            swept: make.counters("swept_total", SWEPT, &label("kind", &SWEEPS))?,
            redeliveries: make.counter("redeliveries_total", REDELIVERIES)?,
            fenced_posts: make.counter("fenced_posts_total", FENCED)?,
            takeovers: make.counter("takeovers_total", TAKEOVERS)?,
            rides: make.counter("rides_total", RIDES)?,
            overdue: make.counter("overdue_total", OVERDUE)?,
            reconnects: make.counter("reconnects_total", RECONNECTS)?,
            batch_size: make.histogram("batch_size", BATCH_SIZE, &IDS)?,
            settle_lag: make.histogram("settle_lag_seconds", SETTLE_LAG, &SECONDS)?,
            in_flight: make.gauge_int("messages_in_flight", IN_FLIGHT)?,
            ids_in_batches: make.gauge_int("ids_in_batches", IN_BATCHES)?,
            backlog_every: make.gauge("backlog_interval_seconds", BACKLOG_EVERY)?,
            registry,
        })
    }

    /// Counts events: `confirmed` by the broker, `unrouted` because nobody has bound a queue, `due`
    /// later because no confirm came, or `refused` by a queue.
    pub fn events(&self, outcome: &str, count: usize) {
        self.events.with_label_values(&[outcome]).inc_by(count as u64);
    }

    /// From now on, phases are spans, too.
    pub(crate) fn trace(&self, tracing: Tracing) {
        // It is set once, when the worker starts.
        drop(self.tracing.set(tracing));
    }

    /// What makes spans.
    pub(crate) fn tracing(&self) -> Tracing {
        self.tracing.get().cloned().unwrap_or_default()
    }

    /// Notes whether a server is there.
    pub fn server(&self, server: Server, there: bool) {
        self.server_up.with_label_values(&[server.as_str()]).set(i64::from(there));
    }

    /// Notes whether another worker is at work in place of this one.
    pub fn standing_by(&self, stands_by: bool) {
        self.standing_by.set(stands_by.into());
    }

    /// Notes whether settlement of the ledger is paused.
    pub fn paused(&self, is_paused: bool) {
        self.paused.set(is_paused.into());
    }

    /// Notes whether this worker is drained.
    pub fn drained(&self, is_drained: bool) {
        self.drained.set(is_drained.into());
    }

    /// Notes what waits at this moment of the server's clock, and when this worker asks again.
    pub fn backlog(&self, backlog: &Backlog, now: ServerMs, again_in: Duration) {
        let age = |created: Option<ServerMs>| {
            created.map_or(0.0, |created| seconds(now.saturating_sub(created)))
        };
        for (among, oldest, count) in [
            ("initial", backlog.oldest_initial, backlog.initial),
            ("in_flight", backlog.oldest_in_flight, backlog.in_flight),
        ] {
            self.oldest_unfinished.with_label_values(&[among]).set(age(oldest));
            self.unfinished.with_label_values(&[among]).set(i64::from(count));
        }
        self.events_due.set(i64::from(backlog.events_due));
        self.backlog_every.set(again_in.as_secs_f64());
    }

    /// Notes the earliest moment for which something waits, at this moment of the server's clock.
    pub fn oldest_due(&self, earliest: Option<ServerMs>, now: ServerMs) {
        let age = earliest.map_or(0.0, |earliest| seconds(now.saturating_sub(earliest)));
        self.oldest_due.set(age);
    }

    /// What these numbers say of a worker, beside what is known of it already.
    pub(crate) fn report(&self, identity: WorkerReport) -> WorkerReport {
        let count = |gauge: &IntGauge| u64::try_from(gauge.get()).unwrap_or_default();
        let moved = |state: State| self.transitions.with_label_values(&[state.as_str()]).get();
        let refused = |code: ReasonCode| {
            let count = self.refusals.with_label_values(&[code.as_str()]).get();
            (count > 0).then(|| (code.as_str().to_owned(), count))
        };
        let broker = self.server_up.with_label_values(&[Server::Broker.as_str()]);
        WorkerReport {
            broker: broker.get() == 1,
            holds: count(&self.ids_in_batches),
            messages: count(&self.in_flight),
            done: moved(State::Done),
            canceled: moved(State::Canceled),
            forgotten: self.swept.with_label_values(&["unclaimed"]).get(),
            refusals: ReasonCode::ALL.into_iter().filter_map(refused).collect(),
            latency: self.latency(),
            ..identity
        }
    }

    /// From submission to the final state, whichever it is: for each bucket its bound in
    /// milliseconds, and how many took no longer.
    fn latency(&self) -> Vec<(f64, u64)> {
        let of = |state: State| {
            let times = self.submission_to_final.with_label_values(&[state.as_str()]).metric();
            let times = times.get_histogram();
            let bounded = times.get_bucket().iter();
            let bounded = bounded.map(|one| (one.upper_bound() * 1_000.0, one.cumulative_count()));
            bounded.chain([(f64::INFINITY, times.get_sample_count())]).collect::<Vec<_>>()
        };
        let (done, canceled) = (of(State::Done), of(State::Canceled));
        done.into_iter().zip(canceled).map(|((ms, one), (_, other))| (ms, one + other)).collect()
    }

    /// The page that Prometheus reads, with the process's own figures.
    #[must_use]
    pub fn page(&self) -> String {
        let mut families = self.registry.gather();
        families.extend(prometheus::gather());
        TextEncoder::new().encode_to_string(&families).unwrap_or_default()
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

#[expect(clippy::cast_precision_loss, reason = "so many milliseconds are 285,000 years")]
fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1_000.0
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const OUTCOMES: [&str; 4] = ["confirmed", "unrouted", "due", "refused"];
const SWEEPS: [&str; 4] = ["in_flight", "unclaimed", "due", "unpublished"];

const BUILD_INFO: &str = "Always 1; the label is the version of the program.";
const TRANSITIONS: &str = "Transactions that this worker has moved into a state.";
const REFUSALS: &str = "Transactions canceled, by reason.";
const PARKED: &str = "Transactions set apart until a person looks, by reason.";
const EVENTS: &str = "Outcome events: confirmed by the broker, unrouted because nobody has bound a \
    queue, noted as due because no confirm came, or refused by a subscriber's queue.";
const PHASE: &str = "Seconds that a phase of a batch took. A native transaction is `transaction` if it was \
    committed, and `conflict` if it has to be tried again.";
const TO_FINAL: &str = "Seconds from createdAt to the final state. The first is a moment of the \
    submitter's clock, the second of the database's.";
const STANDING_BY: &str = "1 while another worker is at work and this one stands by, else 0.";
const PAUSED: &str = "1 while somebody has paused settlement of the ledger, else 0.";
const DRAINED: &str =
    "1 while somebody has drained this worker, so that it begins nothing, else 0.";
const SERVER_UP: &str = "1 while the worker is connected to the server, else 0.";
const OLDEST: &str = "Seconds for which the oldest transaction that is not final has waited for \
    workers, by the database's clock: since it was created, or was due, confirmed or canceled; 0 if there is \
    none. Of what was created since the sweepers' mark, the first 40000 and the last are looked at.";
const UNFINISHED: &str = "Transactions that wait (initial) or are in flight; 10000 means so many or \
    more. Parked ones are left out.";
const EVENTS_DUE: &str = "Events that no broker has confirmed and that are due by now, of the first \
    1000 batches that have some.";
const OLDEST_DUE: &str = "Seconds since the earliest moment that has come and not been acted upon: a \
    scheduled transaction is not yet due for the workers, or what has expired is not yet canceled; 0 if \
    there is none.";
const BACKLOG_EVERY: &str = "Seconds between two looks of this worker at what is not final. Workers \
    look in turn, so with more of them each looks less often, and its figures are that old.";
const RETRIES: &str = "Operations on the database tried again in place, by operation.";
const REQUEUES: &str = "Ids published again, by cause.";
const DEAD: &str = "Messages given to the dead-letter queue, by reason.";
const SWEPT: &str = "Ids that the sweeper has found without a message and published, by kind; due are \
    those that were scheduled, and unpublished those that say that they were inserted only.";
const REDELIVERIES: &str = "Messages that the broker had delivered before.";
const FENCED: &str = "Commands with posts that are known to be late: not sent after the lease, \
    answered after their deadline and not done in full, or refused again and again without another reason.";
const TAKEOVERS: &str = "Transactions claimed that had been claimed before.";
const RIDES: &str = "Settlements that rode on a later post, one for each batch and account.";
const OVERDUE: &str = "Attempts at committed transactions beyond the limit of attempts.";
const RECONNECTS: &str = "Times that the consuming connection was made anew.";
const BATCH_SIZE: &str = "Ids in a batch.";
const SETTLE_LAG: &str = "Seconds from a batch's commit point until its transactions are done.";
const IN_FLIGHT: &str = "Messages delivered and not yet acknowledged.";
const IN_BATCHES: &str = "Ids in batches that have not ended.";

#[cfg(test)]
mod tests {
    use engine::Observer;

    use super::*;

    #[test]
    fn times_are_counted_from_the_submission_and_what_has_no_date_is_left_out() {
        let metrics = Metrics::new();
        let now = 1_000_000;
        metrics.ended(State::Done, &mut [now - 40_000, now + 5_000, 0].into_iter(), now);
        let page = metrics.page();
        for line in [
            "tandem_submission_to_final_seconds_count{state=\"done\"} 2",
            "tandem_submission_to_final_seconds_sum{state=\"done\"} 40",
            "tandem_submission_to_final_seconds_bucket{state=\"done\",le=\"30\"} 1",
            "tandem_submission_to_final_seconds_bucket{state=\"done\",le=\"60\"} 2",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn a_report_says_what_the_page_of_metrics_says() {
        let metrics = Metrics::new();
        let now = 1_000_000;
        metrics.moved(State::Done, 3);
        metrics.moved(State::Canceled, 1);
        metrics.refused(ReasonCode::Requested);
        metrics.ended(State::Done, &mut [now - 20, now - 20, now - 700_000].into_iter(), now);
        metrics.ended(State::Canceled, &mut [now - 3].into_iter(), now);
        metrics.server(Server::Broker, true);
        metrics.ids_in_batches.add(7);
        metrics.swept.with_label_values(&["unclaimed"]).inc_by(4);
        let report = metrics.report(WorkerReport::default());
        assert_eq!((report.done, report.canceled, report.holds), (3, 1, 7));
        assert_eq!(report.forgotten, 4);
        assert_eq!(report.refusals, [("requested".to_owned(), 1)]);
        assert!(report.broker);
        let took_at_most = |ms: f64| {
            let bucket = report.latency.iter().find(|(bound, _)| *bound == ms);
            bucket.map(|(_, count)| *count)
        };
        assert_eq!(took_at_most(2.5), Some(0));
        assert_eq!(took_at_most(5.0), Some(1), "that which was canceled counts, too");
        assert_eq!(took_at_most(25.0), Some(3));
        assert_eq!(took_at_most(600_000.0), Some(3));
        assert_eq!(took_at_most(f64::INFINITY), Some(4));
    }

    #[test]
    fn every_series_that_is_known_beforehand_is_there_from_the_start() {
        let page = Metrics::new().page();
        for series in [
            "tandem_dead_letters_total{reason=\"kills_worker\"} 0",
            "tandem_requeues_total{cause=\"not_mine\"} 0",
            "tandem_retries_total{operation=\"post\"} 0",
            "tandem_swept_total{kind=\"unclaimed\"} 0",
            "tandem_refusals_total{reason=\"insufficient_funds\"} 0",
            "tandem_events_total{outcome=\"due\"} 0",
            "tandem_server_up{server=\"broker\"} 0",
            "tandem_fenced_posts_total 0",
        ] {
            assert!(page.lines().any(|found| found == series), "{series} is not in\n{page}");
        }
    }
}
