//! What is counted of requests.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

/// The counters, in a registry of their own.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    /// Connections that are open.
    pub connections: IntGauge,
}

impl Metrics {
    /// All of them at zero.
    pub fn new() -> Metrics {
        Metrics::made().expect("each name is given once")
    }

    fn made() -> prometheus::Result<Metrics> {
        const BUCKETS: [f64; 11] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
        let registry = Registry::new();
        let requests = Opts::new("tandem_http_requests_total", "Requests answered.");
        let seconds = HistogramOpts::new("tandem_http_request_seconds", "From headers to answer.");
        let metrics = Metrics {
            requests: IntCounterVec::new(requests, &["route", "method", "status"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["route", "method"])?,
            connections: IntGauge::new("tandem_http_connections", "Connections that are open.")?,
            registry,
        };
        metrics.registry.register(Box::new(metrics.requests.clone()))?;
        metrics.registry.register(Box::new(metrics.seconds.clone()))?;
        metrics.registry.register(Box::new(metrics.connections.clone()))?;
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
    pub fn page(&self) -> String {
        let mut families = self.registry.gather();
        families.extend(prometheus::gather());
        TextEncoder::new().encode_to_string(&families).unwrap_or_default()
    }
}
