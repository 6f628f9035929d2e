//! What is counted of requests: names, help and units in one place.
//!
//! Promises that no label is an id, and that the answers that an alert reads (refusals for load and
//! faults of the server) exist from the start with 0 for each operation. The page of all metrics
//! (`deploy/metrics.md`) is made of what stands here.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::routes;

/// What an alert reads: what appears with its first event is missed by `increase()`.
const WATCHED: [StatusCode; 3] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// Seconds from 2 ms to a minute, for which a request may wait for its outcome.
const BUCKETS: [f64; 12] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0, 60.0];

/// The counters, in a registry of their own.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    /// Submissions that were refused because of their exclusive key.
    pub keys_in_use: IntCounter,
    /// Connections that are open.
    pub connections: IntGauge,
    accepting: IntGauge,
}

impl Metrics {
    /// All of them at zero.
    pub fn new() -> Metrics {
        Metrics::made().expect("each name is given once")
    }

    fn made() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let requests = Opts::new("tandem_http_requests_total", "Requests answered.");
        let seconds = HistogramOpts::new(
            "tandem_http_request_seconds",
            "Seconds from a request's headers to its answer, which may have waited for an outcome.",
        );
        let build =
            Opts::new("tandem_build_info", "Always 1; the label is the version of the program.");
        let build = IntGaugeVec::new(build, &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Metrics {
            requests: IntCounterVec::new(requests, &["route", "method", "status"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["route", "method"])?,
            keys_in_use: IntCounter::new(
                "tandem_http_keys_in_use_total",
                "Submissions refused because another undecided transaction had their exclusive key.",
            )?,
            connections: IntGauge::new("tandem_http_connections", "Connections that are open.")?,
            accepting: IntGauge::new(
                "tandem_http_accepts_submissions",
                "1 while submissions are accepted; 0 while the broker is away or blocked, or the \
                 backlog is at its limit.",
            )?,
            registry,
        };
        metrics.registry.register(Box::new(build))?;
        metrics.registry.register(Box::new(metrics.requests.clone()))?;
        metrics.registry.register(Box::new(metrics.seconds.clone()))?;
        metrics.registry.register(Box::new(metrics.keys_in_use.clone()))?;
        metrics.registry.register(Box::new(metrics.connections.clone()))?;
        metrics.registry.register(Box::new(metrics.accepting.clone()))?;
        for operation in routes::all() {
            for status in WATCHED {
                let labels = [operation.path, operation.method.as_str(), status.as_str()];
                metrics.requests.with_label_values(&labels);
            }
            metrics.seconds.with_label_values(&[operation.path, operation.method.as_str()]);
        }
        Ok(metrics)
    }

    /// Counts an answer. `route` is the address as the list of operations has it, so that there are
    /// few of them.
    pub fn answered(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        // Anybody can invent methods.
        let method = match *method {
            Method::GET | Method::HEAD | Method::POST => method.as_str(),
            _ => "other",
        };
        self.requests.with_label_values(&[route, method, status.as_str()]).inc();
        self.seconds.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }

    /// The page that Prometheus reads, with the process's own figures.
    pub fn page(&self, accepts_submissions: bool) -> String {
        self.accepting.set(i64::from(accepts_submissions));
        let mut families = self.registry.gather();
        families.extend(prometheus::gather());
        TextEncoder::new().encode_to_string(&families).unwrap_or_default()
    }
}
