//! Every metric of the worker: names, help and units in one place.
//!
//! Owns a registry of its own, so that several workers fit in one process.

use std::time::Duration;

use common::transaction::{ParkCode, ReasonCode, State};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramTimer, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, Opts, Registry, TextEncoder,
};

/// The metrics of one worker, and the registry that they are in.
pub struct Metrics {
    registry: Registry,
    transitions: IntCounterVec,
    refusals: IntCounterVec,
    parked: IntCounterVec,
    events: IntCounterVec,
    phase_seconds: HistogramVec,
    /// Operations tried again in place, by operation.
    pub retries: IntCounterVec,
    /// Ids published again, by cause.
    pub requeues: IntCounterVec,
    /// Messages given to the dead-letter queue, by reason.
    pub dead_letters: IntCounterVec,
    /// Ids published by the sweeper, by kind.
    pub swept: IntCounterVec,
    /// Transactions claimed that had been claimed before.
    pub takeovers: IntCounter,
    /// Settlements that rode on a later post, one for each batch and account.
    pub rides: IntCounter,
    /// Transactions past their commit point that outlived the limit of attempts: alert on it.
    pub overdue: IntCounter,
    /// Times that the consuming connection was made anew.
    pub reconnects: IntCounter,
    /// Ids per batch.
    pub batch_size: Histogram,
    /// Messages delivered and not yet acknowledged.
    pub in_flight: IntGauge,
    /// Age in seconds of the oldest transaction that is not final.
    pub oldest_unfinished: Gauge,
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
        let metrics = Metrics {
            transitions: make.counters("transitions_total", "State changes.", "state")?,
            refusals: make.counters("refusals_total", "Transactions canceled.", "reason")?,
            parked: make.counters("parked_total", "Transactions set apart.", "reason")?,
            events: make.counters("events_total", "Outcome events.", "outcome")?,
            phase_seconds: make.phase_seconds()?,
            retries: make.counters("retries_total", "Operations tried again.", "operation")?,
            requeues: make.counters("requeues_total", "Ids published again.", "cause")?,
            dead_letters: make.counters("dead_letters_total", "Dead letters.", "reason")?,
            swept: make.counters("swept_total", "Ids published by the sweeper.", "kind")?,
            takeovers: make.counter("takeovers_total", "Transactions claimed before.")?,
            rides: make.counter("rides_total", "Settlements that rode on a post.")?,
            overdue: make.counter("overdue_total", "Committed, but beyond the attempts.")?,
            reconnects: make.counter("reconnects_total", "Consuming connections made anew.")?,
            batch_size: make.batch_size()?,
            in_flight: make.gauge_int("messages_in_flight", "Messages not yet acknowledged.")?,
            oldest_unfinished: make
                .gauge("oldest_unfinished_age_seconds", "Age of the oldest unfinished.")?,
            registry,
        };
        for state in State::ALL {
            metrics.moved(state, 0);
        }
        for code in ReasonCode::ALL {
            metrics.refusals.with_label_values(&[code.as_str()]).inc_by(0);
        }
        for code in ParkCode::ALL {
            metrics.parked.with_label_values(&[code.as_str()]).inc_by(0);
        }
        for outcome in ["confirmed", "unrouted", "due", "refused"] {
            metrics.events(outcome, 0);
        }
        Ok(metrics)
    }

    /// Counts transactions that entered a state.
    pub fn moved(&self, state: State, count: usize) {
        self.transitions.with_label_values(&[state.as_str()]).inc_by(count as u64);
    }

    /// Counts a transaction that was refused.
    pub fn refused(&self, code: ReasonCode) {
        self.refusals.with_label_values(&[code.as_str()]).inc();
    }

    /// Counts a transaction that was set apart: alert on it.
    pub fn parked(&self, code: ParkCode) {
        self.parked.with_label_values(&[code.as_str()]).inc();
    }

    /// Counts events: `confirmed` by the broker, `unrouted` because nobody has bound a queue, `due`
    /// later because no confirm came, or `refused` by a queue.
    pub fn events(&self, outcome: &str, count: usize) {
        self.events.with_label_values(&[outcome]).inc_by(count as u64);
    }

    /// Times a phase until the answer is dropped.
    pub fn phase(&self, phase: &str) -> HistogramTimer {
        self.phase_seconds.with_label_values(&[phase]).start_timer()
    }

    /// Notes the age of the oldest unfinished transaction.
    pub fn oldest(&self, age: Duration) {
        self.oldest_unfinished.set(age.as_secs_f64());
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

struct Maker<'a> {
    registry: &'a Registry,
}

impl Maker<'_> {
    fn registered<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        made: prometheus::Result<C>,
    ) -> prometheus::Result<C> {
        let collector = made?;
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn counters(&self, name: &str, help: &str, label: &str) -> prometheus::Result<IntCounterVec> {
        self.registered(IntCounterVec::new(Opts::new(full(name), help), &[label]))
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.registered(IntCounter::new(full(name), help))
    }

    fn gauge_int(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.registered(IntGauge::new(full(name), help))
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.registered(Gauge::new(full(name), help))
    }

    fn phase_seconds(&self) -> prometheus::Result<HistogramVec> {
        let buckets = vec![0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
        let options = HistogramOpts::new(full("phase_seconds"), "Seconds of a phase of a batch.");
        self.registered(HistogramVec::new(options.buckets(buckets), &["phase"]))
    }

    fn batch_size(&self) -> prometheus::Result<Histogram> {
        let buckets = vec![1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
        let options = HistogramOpts::new(full("batch_size"), "Ids in a batch.");
        self.registered(Histogram::with_opts(options.buckets(buckets)))
    }
}

fn full(name: &str) -> String {
    format!("tandem_{name}")
}
