//! The traces of a batch: one span for the batch, and one in the trace of each of its sampled
//! transactions.
//!
//! A batch is of many traces, so it has a trace of its own, which links to theirs; its phases are
//! spans under it. The sampled transactions stand in the [context](Context) of the batch's task:
//! there the phases find their parent, and events and lines of the log their trace. Promises that a
//! batch without a sampled transaction costs nothing but the look that finds this out.

use engine::Outcome;
use ledger::transaction::TransactionId;
use observe::{Context, Span, SpanKind, Traces, Tracing};

use crate::job::Job;

/// A batch that has sampled transactions.
pub(crate) struct TracedBatch {
    batch: Span,
    transactions: Vec<(TransactionId, Span)>,
    context: Context,
}

impl TracedBatch {
    /// Begins the spans of a batch, if one of its transactions is sampled.
    pub fn begin<R>(tracing: &Tracing, jobs: &[Job<R>]) -> Option<TracedBatch> {
        if jobs.iter().all(|job| job.traces.is_empty()) {
            return None;
        }
        let mut traces = Traces::default();
        jobs.iter().for_each(|job| traces.add_all(job.traces.clone()));
        let links = traces.iter().map(|(_, parent)| parent.clone());
        let batch = tracing.begin_linked("process batch", SpanKind::Consumer, links)?;
        let count: usize = jobs.iter().map(|job| job.message.ids.len()).sum();
        batch.set("messaging.system", "rabbitmq");
        batch.set("messaging.operation.type", "process");
        batch.set("tandem.batch.transactions", i64::try_from(count).unwrap_or(i64::MAX));
        let (mut transactions, mut ours) = (Vec::new(), Traces::default());
        for (id, parent) in traces.iter() {
            let span = tracing.begin("settle transaction", SpanKind::Consumer, Some(parent))?;
            span.set("tandem.transaction.id", id.to_string());
            span.link(&batch.parent());
            ours.add(id, span.parent());
            transactions.push((id.clone(), span));
        }
        let context = batch.context().with_value(ours);
        Some(TracedBatch { batch, transactions, context })
    }

    /// Where the batch runs.
    pub fn context(traced: Option<&TracedBatch>) -> Context {
        traced.map(|traced| traced.context.clone()).unwrap_or_default()
    }

    /// Ends the spans.
    pub fn end(self, outcomes: &[(TransactionId, Outcome)]) {
        for (id, span) in &self.transactions {
            let outcome = outcomes.iter().find(|(of, _)| of == id);
            span.set("tandem.outcome", outcome.map_or("none", |(_, outcome)| outcome.as_str()));
        }
        drop(self.batch);
    }
}

/// What happens to a transaction in this task now, in its trace.
pub(crate) fn traces() -> Traces {
    Context::current().get::<Traces>().cloned().unwrap_or_default()
}

/// The trace of a transaction that is processed in this task, for a line in the log.
pub(crate) fn trace_id(id: &TransactionId) -> Option<String> {
    let context = Context::current();
    context.get::<Traces>()?.of(id).map(observe::TraceParent::trace_id)
}
