//! What the engine tells, as numbers and spans.

use engine::{Observer, Phase};
use ledger::ServerMs;
use ledger::transaction::{ParkCode, ReasonCode, State, TransactionId};
use observe::Span;
use prometheus::{HistogramTimer, HistogramVec};

use super::{CONFLICT, Metrics, seconds};

/// A phase that is timed, and is a span where it is traced.
struct Timed {
    timer: HistogramTimer,
    /// Where its time counts if a conflict undoes it.
    phases: HistogramVec,
    _span: Option<Span>,
}

impl Phase for Timed {
    fn lost(self: Box<Self>) {
        let seconds = self.timer.stop_and_discard();
        self.phases.with_label_values(&[CONFLICT]).observe(seconds);
    }
}

impl Observer for Metrics {
    fn phase(&self, name: &'static str) -> Box<dyn Phase> {
        let span = self.tracing.get().and_then(|tracing| tracing.child(name));
        let timer = self.phase_seconds.with_label_values(&[name]).start_timer();
        Box::new(Timed { timer, phases: self.phase_seconds.clone(), _span: span })
    }

    fn moved(&self, state: State, count: usize) {
        self.transitions.with_label_values(&[state.as_str()]).inc_by(count as u64);
    }

    fn refused(&self, code: ReasonCode) {
        self.refusals.with_label_values(&[code.as_str()]).inc();
    }

    fn parked(&self, code: ParkCode) {
        self.parked.with_label_values(&[code.as_str()]).inc();
    }

    /// Those without a date of creation don't count, and one from the future counts as 0.
    fn ended(&self, state: State, created: &mut dyn Iterator<Item = ServerMs>, now: ServerMs) {
        let times = self.submission_to_final.with_label_values(&[state.as_str()]).local();
        for created in created.filter(|created| *created > 0) {
            times.observe(seconds(now.saturating_sub(created)));
        }
        times.flush();
    }

    fn settled_after(&self, ms: i64) {
        self.settle_lag.observe(seconds(ms));
    }

    fn retried(&self, operation: &'static str) {
        self.retries.with_label_values(&[operation]).inc();
    }

    fn took_over(&self) {
        self.takeovers.inc();
    }

    fn fenced_post(&self) {
        self.fenced_posts.inc();
    }

    fn rode(&self, settlements: u64) {
        self.rides.inc_by(settlements);
    }

    fn overdue(&self) {
        self.overdue.inc();
    }

    fn trace_id(&self, id: &TransactionId) -> Option<String> {
        crate::trace::trace_id(id)
    }
}
