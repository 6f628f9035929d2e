//! Where a trace goes on: W3C's `traceparent`, beside ids in messages.
//!
//! Promises that foreign text is a traceparent as the standard has it or is ignored; it is never a
//! reason to refuse what it stands beside.

use std::collections::HashMap;
use std::fmt;

use ledger::transaction::TransactionId;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The header's name, in HTTP and in messages.
pub const TRACEPARENT: &str = "traceparent";

/// The most traces of one message. Transactions beyond go untraced.
pub const TRACES_MAX: usize = 100;

/// A span of somebody else, under which ours go on.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceParent(SpanContext);

impl TraceParent {
    pub(super) fn new(context: SpanContext) -> TraceParent {
        TraceParent(context)
    }

    pub(super) fn context(&self) -> &SpanContext {
        &self.0
    }

    /// Reads a header of [W3C Trace
    /// Context](https://www.w3.org/TR/trace-context/#traceparent-header); none if it is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<TraceParent> {
        // The library takes parts of other lengths, too.
        let bytes = text.as_bytes();
        let dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        if !dashes || !(bytes.len() == 55 || bytes.get(55) == Some(&b'-')) {
            return None;
        }
        let context =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &Header(text));
        let context = context.span().span_context().clone();
        context.is_valid().then_some(TraceParent(context))
    }

    /// Whether whoever has begun the trace wants to see it.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.0.is_sampled()
    }

    /// Its trace, as 32 hexadecimal digits, for logs.
    #[must_use]
    pub fn trace_id(&self) -> String {
        self.0.trace_id().to_string()
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sampled = u8::from(self.is_sampled());
        write!(f, "00-{}-{}-{sampled:02x}", self.0.trace_id(), self.0.span_id())
    }
}

/// One header, as the library asks for it.
struct Header<'a>(&'a str);

impl Extractor for Header<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACEPARENT).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}

/// The sampled transactions of a message or a batch; nearly always none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces(HashMap<TransactionId, TraceParent>);

impl Traces {
    /// Whether none is sampled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one, if it is sampled and there is room.
    pub fn add(&mut self, id: &TransactionId, parent: TraceParent) {
        if parent.is_sampled() && self.0.len() < TRACES_MAX {
            self.0.insert(id.clone(), parent);
        }
    }

    /// Adds those of others, as far as there is room.
    pub fn add_all(&mut self, others: Traces) {
        others.0.into_iter().for_each(|(id, parent)| self.add(&id, parent));
    }

    /// Where the trace of a transaction goes on.
    #[must_use]
    pub fn of(&self, id: &str) -> Option<&TraceParent> {
        self.0.get(id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&TransactionId, &TraceParent)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_reads_back_as_it_was_written_and_anything_else_is_ignored() {
        let parent = TraceParent::parse(SAMPLED).expect("as in the standard");
        assert_eq!((parent.to_string().as_str(), parent.is_sampled()), (SAMPLED, true));
        assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        let unsampled = SAMPLED.replace("-01", "-00");
        let parent = TraceParent::parse(&unsampled).expect("valid, too");
        assert_eq!((parent.to_string(), parent.is_sampled()), (unsampled, false));
        let long = "0".repeat(100_000);
        for odd in [
            "",
            "00",
            "\u{0}",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-äf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            long.as_str(),
        ] {
            assert_eq!(TraceParent::parse(odd), None, "{odd:.80}");
        }
    }

    #[test]
    fn only_sampled_traces_are_kept_and_a_limited_number_of_them() {
        let mut traces = Traces::default();
        let unsampled = TraceParent::parse(&SAMPLED.replace("-01", "-00")).expect("valid");
        traces.add(&"unsampled".into(), unsampled);
        assert!(traces.is_empty());
        let sampled = TraceParent::parse(SAMPLED).expect("valid");
        (0..2 * TRACES_MAX).for_each(|n| traces.add(&n.to_string().into(), sampled.clone()));
        assert_eq!(traces.iter().count(), TRACES_MAX);
        assert_eq!(traces.of("0"), Some(&sampled));
    }
}
