//! A collector of spans, which stands in for a real one: it speaks OTLP over HTTP and keeps what it
//! gets.
//!
//! It reads the protobuf with the types of OpenTelemetry's own description of it, so what it
//! understands others understand, too.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{self as otlp, status::StatusCode as SpanStatus};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::wait::eventually;

/// How it treats who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It takes everything.
    Takes,
    /// It answers that something is wrong with it.
    Refuses,
    /// It never answers.
    Stalls,
}

/// A span as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The program, as `service.name`.
    pub service: String,
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The span above it; empty if there is none.
    pub parent: String,
    /// What it is.
    pub name: String,
    /// What it says of itself, as texts.
    pub attributes: BTreeMap<String, String>,
    /// Traces and spans that belong to it.
    pub links: Vec<(String, String)>,
    /// Whether it says that something failed.
    pub is_failed: bool,
    /// When it began and ended, in nanoseconds since 1970.
    pub time: (u64, u64),
}

/// The collector. It ends when it is dropped.
pub struct Collector {
    /// Its address, as an endpoint of OTLP.
    pub endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
    requests: Arc<Mutex<usize>>,
    serving: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// Starts one.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(mood: Mood) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let (spans, requests) =
            (Arc::<Mutex<Vec<Span>>>::default(), Arc::<Mutex<usize>>::default());
        let (kept, counted) = (spans.clone(), requests.clone());
        let take = async move |headers: HeaderMap, body: Bytes| {
            *counted.lock().expect("no holder panics") += 1;
            match mood {
                Mood::Takes => {}
                Mood::Refuses => return StatusCode::INTERNAL_SERVER_ERROR,
                Mood::Stalls => {
                    tokio::time::sleep(Duration::MAX).await;
                }
            }
            if headers.get("content-type").is_none_or(|kind| kind != "application/x-protobuf") {
                return StatusCode::UNSUPPORTED_MEDIA_TYPE;
            }
            let Ok(request) = ExportTraceServiceRequest::decode(body) else {
                return StatusCode::BAD_REQUEST;
            };
            kept.lock().expect("no holder panics").extend(read(request));
            StatusCode::OK
        };
        let router = Router::new().route("/v1/traces", post(take));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is aborted");
        });
        Collector { endpoint: format!("http://{address}"), spans, requests, serving }
    }

    /// Everything that has come so far.
    ///
    /// # Panics
    /// When its server has panicked.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("no holder panics").clone()
    }

    /// How often somebody has sent something.
    ///
    /// # Panics
    /// When its server has panicked.
    #[must_use]
    pub fn requests(&self) -> usize {
        *self.requests.lock().expect("no holder panics")
    }

    /// Waits until what has come is enough, and returns it.
    ///
    /// # Panics
    /// When it is not in time.
    pub async fn wait(&self, what: &str, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        eventually(what, Duration::from_secs(60), async || {
            let spans = self.spans();
            enough(&spans).then_some(spans)
        })
        .await
    }
}

fn read(request: ExportTraceServiceRequest) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_service in request.resource_spans {
        let about = texts(of_service.resource.unwrap_or_default().attributes);
        let service = about.get("service.name").cloned().unwrap_or_default();
        let all = of_service.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
        spans.extend(all.map(|span| read_span(&service, span)));
    }
    spans
}

fn read_span(service: &str, span: otlp::Span) -> Span {
    let links = span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id)));
    let status = span.status.unwrap_or_default();
    Span {
        service: service.to_owned(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        attributes: texts(span.attributes),
        links: links.collect(),
        is_failed: status.code == SpanStatus::Error as i32,
        time: (span.start_time_unix_nano, span.end_time_unix_nano),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes everything");
        text
    })
}
