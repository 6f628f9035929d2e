#![doc = include_str!("../README.md")]

mod export;
pub mod pages;
mod parent;
pub mod secret_file;
pub mod tls;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

pub use opentelemetry::Context;
pub use opentelemetry::trace::{FutureExt, SpanKind};
use opentelemetry::trace::{
    Link, SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};

pub use self::parent::{TRACEPARENT, TRACES_MAX, TraceParent, Traces};
use export::Exporter;

/// The most spans that wait for the collector. More are dropped.
pub const SPANS_WAITING_MAX: usize = 8_192;

/// How often waiting spans are sent.
const SEND_EVERY: Duration = Duration::from_secs(1);

/// How long the last spans may take at the end of a program.
const LAST_LIMIT: Duration = Duration::from_secs(3);

/// Makes spans, or nothing while it is off. Clones share one queue.
#[derive(Clone, Default)]
pub struct Tracing(Option<Arc<On>>);

struct On {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    /// The share of those without a parent that are sampled.
    sample: f64,
}

impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_on() { "Tracing(on)" } else { "Tracing(off)" })
    }
}

impl Tracing {
    /// Sends spans to a collector with OTLP over HTTP (`endpoint` as of
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, without the path), as this service and instance. Without an
    /// endpoint it is off. Of the submissions without a parent this share is sampled.
    ///
    /// # Errors
    /// When the endpoint is no such address, or the share is not between 0 and 1.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        endpoint: Option<&str>,
        sample: f64,
        (service, instance): (&'static str, &str),
    ) -> Result<Tracing, String> {
        if !(0.0..=1.0).contains(&sample) {
            return Err(format!("TANDEM_TRACE_SAMPLE is {sample}; a share is between 0 and 1"));
        }
        let Some(endpoint) = endpoint else { return Ok(Tracing::default()) };
        let resource = Resource::builder_empty()
            .with_service_name(service)
            .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let waiting = BatchConfigBuilder::default()
            .with_max_queue_size(SPANS_WAITING_MAX)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        let exporter = Exporter::new(endpoint)?;
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(waiting).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("tandem");
        Ok(Tracing(Some(Arc::new(On { tracer, provider, sample }))))
    }

    /// Whether spans are made.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span under the parent, or under the span of the [current context](Context::current), or
    /// one without a parent. None if that is not sampled.
    pub fn begin(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        parent: Option<&TraceParent>,
    ) -> Option<Span> {
        let on = self.0.as_ref()?;
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent.context().clone()),
            None => Context::current(),
        };
        let above = context.span().span_context().clone();
        let is_sampled = match above.is_valid() {
            true => above.is_sampled(),
            false => rand::random::<f64>() < on.sample,
        };
        is_sampled.then(|| on.span(name.into(), kind, &context, Vec::new()))
    }

    /// Where what belongs to a span runs. If there is none, because it is not sampled, nothing
    /// there is sampled.
    #[must_use]
    pub fn context(&self, span: Option<&Span>) -> Context {
        match (span, &self.0) {
            (Some(span), _) => span.context(),
            (None, None) => Context::new(),
            (None, Some(_)) => {
                // It is never sent, so any ids will do.
                let (trace, span) = (TraceId::from(1), SpanId::from(1));
                let flags = TraceFlags::NOT_SAMPLED;
                let unsampled = SpanContext::new(trace, span, flags, false, TraceState::NONE);
                Context::new().with_remote_span_context(unsampled)
            }
        }
    }

    /// A span of its own trace that is sampled because those that it links to are.
    pub fn begin_linked(
        &self,
        name: &'static str,
        kind: SpanKind,
        links: impl Iterator<Item = TraceParent>,
    ) -> Option<Span> {
        let on = self.0.as_ref()?;
        let links = links.map(|to| Link::with_context(to.context().clone())).collect();
        Some(on.span(name.into(), kind, &Context::new(), links))
    }

    /// A span under the span of the current context, if there is a sampled one.
    pub fn child(&self, name: &'static str) -> Option<Span> {
        let on = self.0.as_ref()?;
        let context = Context::current();
        let is_sampled = context.span().span_context().is_sampled();
        is_sampled.then(|| on.span(name.into(), SpanKind::Internal, &context, Vec::new()))
    }

    /// Sends what waits and ends. Spans that are begun later are lost.
    pub async fn stop(&self) {
        let Some(on) = self.0.clone() else { return };
        // It blocks its thread.
        let stopping = move || on.provider.shutdown_with_timeout(LAST_LIMIT);
        match tokio::task::spawn_blocking(stopping).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last spans are lost"),
            Err(panic) => tracing::debug!(%panic, "the last spans are lost"),
        }
    }
}

impl On {
    fn span(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        context: &Context,
        links: Vec<Link>,
    ) -> Span {
        let builder = self.tracer.span_builder(name).with_kind(kind).with_links(links);
        Span(Context::new().with_span(builder.start_with_context(&self.tracer, context)))
    }
}

/// A sampled span. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(Context);

impl Span {
    /// What those under it name as their parent.
    #[must_use]
    pub fn parent(&self) -> TraceParent {
        TraceParent::new(self.0.span().span_context().clone())
    }

    /// Says something about it. Names are those of OpenTelemetry's semantic conventions, or begin
    /// with `tandem.`.
    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(name, value));
    }

    /// Names a span of another trace that belongs to it.
    pub fn link(&self, to: &TraceParent) {
        self.0.span().add_link(to.context().clone(), Vec::new());
    }

    /// Marks it as failed.
    pub fn fail(&self, why: impl Into<String>) {
        self.0.span().set_status(Status::error(why.into()));
    }

    /// The context in which this span is the current one.
    #[must_use]
    pub fn context(&self) -> Context {
        self.0.clone()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // Somebody may still hold its context.
        self.0.span().end();
    }
}
