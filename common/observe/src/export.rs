//! Sending spans to a collector: OTLP as protobuf over plain HTTP.
//!
//! A collector stands beside the program (an agent on the host, a sidecar in the pod), which is how
//! OpenTelemetry wants it and why there is no TLS here. Promises that a call ends within its limit.
//! Spans that can't be delivered are lost, and a warning says so from time to time.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use url::Url;

/// How long the collector may take for one request.
const LIMIT: Duration = Duration::from_secs(5);

/// How often a warning is repeated while the collector takes nothing.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The most bytes of an answer that are read; nothing in it is needed.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends spans, one request at a time.
pub(super) struct Exporter {
    /// Host and port.
    address: String,
    path: String,
    resource: ResourceAttributesWithSchema,
    /// The library calls from a thread of its own; requests run here.
    runtime: Handle,
    losses: Mutex<Losses>,
}

/// Spans lost since the last warning.
#[derive(Default)]
struct Losses {
    spans: usize,
    warned: Option<Instant>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Exporter {
    pub fn new(endpoint: &str) -> Result<Exporter, String> {
        let (address, path) = target(endpoint)?;
        let (resource, runtime) = (ResourceAttributesWithSchema::default(), Handle::current());
        Ok(Exporter { address, path, resource, runtime, losses: Mutex::default() })
    }

    fn request(&self, spans: Vec<SpanData>) -> Request<Full<Bytes>> {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(HOST, &self.address)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))
            .expect("the address was checked at start")
    }

    fn lost(&self, spans: usize, why: &str) {
        let mut losses = self.losses.lock().unwrap_or_else(|broken| broken.into_inner());
        losses.spans += spans;
        if losses.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            let lost = std::mem::take(&mut losses.spans);
            losses.warned = Some(Instant::now());
            tracing::warn!(collector = self.address, lost, why, "spans can't be sent and are lost");
        }
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let count = spans.len();
        let sending = send(self.address.clone(), self.request(spans));
        // The time limit needs the runtime, too.
        let limited = async { tokio::time::timeout(LIMIT, sending).await };
        let problem = match self.runtime.spawn(limited).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(problem))) => problem,
            Ok(Err(_)) => format!("no answer within {LIMIT:?}"),
            Err(panic) => panic.to_string(),
        };
        self.lost(count, &problem);
        Err(OTelSdkError::InternalFailure(problem))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

async fn send(address: String, request: Request<Full<Bytes>>) -> Result<(), String> {
    let told = |error: &dyn fmt::Display| error.to_string();
    let stream = TcpStream::connect(&address).await.map_err(|error| told(&error))?;
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| told(&error))?;
    // Ends with the sender.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| told(&error))?;
    let status = answer.status();
    // Read, so that the collector does not see its answer refused.
    let read = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    match (status.is_success(), read) {
        (true, Ok(_)) => Ok(()),
        (true, Err(error)) => Err(error.to_string()),
        (false, _) => Err(format!("it answers {status}")),
    }
}

/// Host with port, and path, of an endpoint.
fn target(endpoint: &str) -> Result<(String, String), String> {
    let wrong = |why: &str| {
        format!(
            "TANDEM_OTLP_ENDPOINT: {why}; give the address of a collector beside this program, as \
             http://127.0.0.1:4318"
        )
    };
    let url = Url::parse(endpoint).map_err(|error| wrong(&error.to_string()))?;
    if url.scheme() != "http" {
        return Err(wrong("only http is spoken"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a user or password is not sent"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or fragment"));
    }
    let host = url.host_str().ok_or_else(|| wrong("it names no host"))?;
    let port = url.port_or_known_default().ok_or_else(|| wrong("it names no port"))?;
    // As the specification of OTLP has it for the endpoint of all signals.
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    Ok((format!("{host}:{port}"), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_without_secrets_or_the_error_says_why_not() {
        let good = |endpoint| target(endpoint).expect("an endpoint");
        let traces = "/v1/traces".to_owned();
        assert_eq!(good("http://127.0.0.1:4318"), ("127.0.0.1:4318".to_owned(), traces.clone()));
        assert_eq!(good("http://[::1]:4318/"), ("[::1]:4318".to_owned(), traces));
        let below = good("http://collector/otlp/");
        assert_eq!(below, ("collector:80".to_owned(), "/otlp/v1/traces".to_owned()));
        for (odd, expected) in [
            ("", "relative URL"),
            ("127.0.0.1:4318", "TANDEM_OTLP_ENDPOINT"),
            ("https://collector:4318", "only http"),
            ("http://me:secret@collector:4318", "user or password"),
            ("http://collector:4318?key=1", "query"),
            ("http://:4318", "host"),
        ] {
            let error = target(odd).expect_err(odd);
            assert!(error.contains(expected) && !error.contains("secret"), "{odd}: {error}");
        }
    }
}
