//! How metrics are made: full names, registration, buckets, and values that exist from the start.
//!
//! Promises that a metric with a label shows every value that is known beforehand with 0: what
//! appears with its first event is missed by `increase()`, and so by alerts. Fails when a name is
//! given twice in one registry.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, Result,
};

/// Times in seconds from 1 ms to 10 minutes.
pub(super) const SECONDS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0,
];

/// Ids of a batch, up to what one claim may hold.
pub(super) const IDS: [f64; 11] =
    [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2000.0];

/// A label and those of its values that are known beforehand.
pub(super) struct Label<'a> {
    pub(super) name: &'a str,
    pub(super) values: &'a [&'a str],
}

/// Makes metrics in one registry.
pub(super) struct Maker<'a> {
    pub(super) registry: &'a Registry,
}

impl Maker<'_> {
    fn registered<C: Collector + Clone + 'static>(&self, made: Result<C>) -> Result<C> {
        let collector = made?;
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    /// The same with every value that is known beforehand.
    fn shown<B: MetricVecBuilder + 'static>(
        &self,
        made: Result<MetricVec<B>>,
        label: &Label,
    ) -> Result<MetricVec<B>> {
        let made = self.registered(made)?;
        for value in label.values {
            made.with_label_values(&[value]);
        }
        Ok(made)
    }

    pub(super) fn counters(&self, name: &str, help: &str, label: &Label) -> Result<IntCounterVec> {
        self.shown(IntCounterVec::new(options(name, help), &[label.name]), label)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.registered(IntCounter::with_opts(options(name, help)))
    }

    pub(super) fn gauge_int(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.registered(IntGauge::with_opts(options(name, help)))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<Gauge> {
        self.registered(Gauge::with_opts(options(name, help)))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, label: &Label) -> Result<GaugeVec> {
        self.shown(GaugeVec::new(options(name, help), &[label.name]), label)
    }

    pub(super) fn gauges_int(&self, name: &str, help: &str, label: &Label) -> Result<IntGaugeVec> {
        self.shown(IntGaugeVec::new(options(name, help), &[label.name]), label)
    }

    pub(super) fn histograms(&self, name: &str, help: &str, label: &Label) -> Result<HistogramVec> {
        let options = HistogramOpts::new(full(name), help).buckets(SECONDS.to_vec());
        self.shown(HistogramVec::new(options, &[label.name]), label)
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram> {
        let options = HistogramOpts::new(full(name), help).buckets(buckets.to_vec());
        self.registered(Histogram::with_opts(options))
    }
}

fn options(name: &str, help: &str) -> Opts {
    Opts::new(full(name), help)
}

fn full(name: &str) -> String {
    format!("tandem_{name}")
}
