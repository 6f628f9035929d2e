//! From what workers have counted to what happens now: rates, latencies, refusals. Pure.
//!
//! Owns the steps of the last 15 minutes, one for each look, and what each worker had counted when
//! it was last seen. Promises that no rate is negative and nothing is counted twice, whatever
//! workers do: a worker that is seen for the first time counts only from then on, unless it was
//! started after the look before, and one that is started again is another one. A look that failed,
//! and the time in which nobody looked, is a gap and not zero. What is kept is bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ledger::ServerMs;
use mongo::{SeenWorker, WorkerReport};

use super::latency::Times;
use super::types::{Latency, Rate};

/// The most steps: 15 minutes, with a look every two seconds.
pub const STEPS_MAX: usize = 450;

/// The last minute, in steps: for the latency that is told.
const MINUTE: usize = 30;

/// Steps that a rate, and a point's latency, are taken of. A worker reports as often as anybody
/// looks, so of a single step it may be missing, or in it twice.
const SMOOTHED: usize = 3;

/// The most different reasons that are kept of one step: Tandem has fewer.
const REASONS_MAX: usize = 100;

/// A look at the workers.
#[derive(Clone, Debug)]
pub struct Step {
    /// When it was, by the server's clock as far as it is known.
    pub at: ServerMs,
    /// Transactions that ended, a second; none is a gap.
    pub rate: Option<Rate>,
    /// From submission to the final state, of those that ended about then.
    pub latency: Option<Latency>,
    /// How many milliseconds it stands for.
    took_ms: u64,
    times: Times,
    refusals: BTreeMap<String, u64>,
    ended: u64,
    canceled: u64,
    forgotten: u64,
}

/// What is known of one worker.
struct Track {
    counted: WorkerReport,
    seen_at: ServerMs,
    rate: Option<Rate>,
}

/// The steps, and what they continue from.
#[derive(Default)]
pub struct Flow {
    workers: HashMap<String, Track>,
    steps: VecDeque<Step>,
    /// How many steps there were before the first that is kept.
    dropped: u64,
    last: Option<ServerMs>,
}

/// Sums over all steps that are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Refusals, by the code of the reason.
    pub refusals: BTreeMap<String, u64>,
    /// The seconds that they were counted in.
    pub over_s: u64,
    /// Transactions that ended.
    pub ended: u64,
    /// Those of them that were canceled.
    pub canceled: u64,
    /// Transactions that no message stood for, until a sweeper published them.
    pub forgotten: u64,
}

impl Flow {
    /// Takes in what was seen at this moment of the server's clock.
    pub fn take(&mut self, now: ServerMs, seen: &[SeenWorker]) {
        let mut step = Step::gap(now);
        let mut rate = Rate::default();
        let mut workers = HashMap::new();
        for worker in seen {
            let before = self.workers.remove(&worker.report.id);
            let track = step.count(before, worker, now, self.last);
            if let Some(own) = track.rate {
                rate.done += own.done;
                rate.canceled += own.canceled;
            }
            workers.insert(worker.report.id.clone(), track);
        }
        if let Some(last) = self.last {
            rate.settled = rate.done + rate.canceled;
            step.rate = Some(rate);
            step.took_ms = u64::try_from(now.saturating_sub(last)).unwrap_or_default();
        }
        self.workers = workers;
        self.last = Some(now);
        self.push(step);
    }

    /// Notes that a look failed at about this moment. What happens meanwhile counts with the next
    /// look.
    pub fn missed(&mut self, now: ServerMs) {
        self.push(Step::gap(now));
    }

    /// Forgets what the next look would continue from: nobody will look for a while. The steps
    /// stay.
    pub fn pause(&mut self) {
        self.workers.clear();
        self.last = None;
    }

    fn push(&mut self, step: Step) {
        self.steps.push_back(step);
        let latency = self.latency_of_last(SMOOTHED);
        if let Some(step) = self.steps.back_mut().filter(|step| step.rate.is_some()) {
            step.latency = latency;
        }
        if self.steps.len() > STEPS_MAX {
            self.steps.pop_front();
            self.dropped += 1;
        }
        // Nobody asks for the times of what is older.
        if let Some(old) = self.steps.len().checked_sub(MINUTE + 1) {
            self.steps[old].times = Times::default();
        }
    }

    /// The number of the step that comes next.
    pub fn next(&self) -> u64 {
        self.dropped + self.steps.len() as u64
    }

    /// The steps from this number on.
    pub fn steps_from(&self, number: u64) -> impl Iterator<Item = &Step> {
        let skipped = number.saturating_sub(self.dropped);
        self.steps.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }

    /// What ends a second, now. None in a gap.
    pub fn rate(&self) -> Option<Rate> {
        self.steps.back()?.rate?;
        let last = self.steps.iter().rev().take(SMOOTHED).map_while(|step| step.rate);
        let rates: Vec<Rate> = last.collect();
        let mean = |of: fn(&Rate) -> f64| {
            let mean = rates.iter().map(of).sum::<f64>() / rates.len() as f64;
            (mean * 10.0).round() / 10.0
        };
        Some(Rate {
            settled: mean(|rate| rate.settled),
            done: mean(|rate| rate.done),
            canceled: mean(|rate| rate.canceled),
        })
    }

    /// What one worker settles a second, if it was seen twice.
    pub fn rate_of(&self, id: &str) -> Option<f64> {
        let rate = self.workers.get(id)?.rate?;
        Some((rate.settled * 10.0).round() / 10.0)
    }

    /// The latency over the last minute.
    pub fn latency(&self) -> Option<Latency> {
        self.latency_of_last(MINUTE)
    }

    fn latency_of_last(&self, steps: usize) -> Option<Latency> {
        let mut times = Times::default();
        self.steps.iter().rev().take(steps).for_each(|step| times.add(&step.times));
        times.percentiles()
    }

    /// For how long without a break, up to now, nothing has ended, in milliseconds.
    pub fn quiet_ms(&self) -> u64 {
        let quiet = |step: &&Step| step.rate.is_some_and(|rate| rate.settled == 0.0);
        self.steps.iter().rev().take_while(quiet).map(|step| step.took_ms).sum()
    }

    /// Sums over the last 15 minutes, as far as anybody has looked.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut looked_ms = 0;
        for step in &self.steps {
            for (code, count) in &step.refusals {
                *totals.refusals.entry(code.clone()).or_default() += count;
            }
            looked_ms += step.took_ms;
            totals.ended += step.ended;
            totals.canceled += step.canceled;
            totals.forgotten += step.forgotten;
        }
        totals.over_s = looked_ms / 1_000;
        totals
    }
}

impl Step {
    fn gap(at: ServerMs) -> Step {
        Step {
            at,
            rate: None,
            latency: None,
            took_ms: 0,
            times: Times::default(),
            refusals: BTreeMap::new(),
            ended: 0,
            canceled: 0,
            forgotten: 0,
        }
    }

    /// Counts what a worker has done since it was seen before, and says what is known of it now.
    fn count(
        &mut self,
        before: Option<Track>,
        worker: &SeenWorker,
        now: ServerMs,
        last: Option<ServerMs>,
    ) -> Track {
        let SeenWorker { report, seen_at, .. } = worker;
        let track = |rate| Track { counted: report.clone(), seen_at: *seen_at, rate };
        let (before, since) = match before {
            Some(before) if before.seen_at >= *seen_at => {
                let rate = if worker.is_here(now) { before.rate } else { Some(Rate::default()) };
                return Track { rate, ..before };
            }
            Some(before) => (before.counted, before.seen_at),
            // What was started after the last look has done all of it since then.
            None => match (worker.started_at, last) {
                (Some(started), Some(last)) if started >= last => {
                    (WorkerReport::default(), started)
                }
                _ => return track(None),
            },
        };
        let done = report.done.saturating_sub(before.done);
        let canceled = report.canceled.saturating_sub(before.canceled);
        self.ended = self.ended.saturating_add(done).saturating_add(canceled);
        self.canceled = self.canceled.saturating_add(canceled);
        let forgotten = report.forgotten.saturating_sub(before.forgotten);
        self.forgotten = self.forgotten.saturating_add(forgotten);
        self.times.add(&Times::since(&before.latency, &report.latency));
        self.count_refusals(&before, report);
        // A worker that was just started may have written twice within a moment.
        let seconds = (seen_at - since).max(1_000) as f64 / 1_000.0;
        let (done, canceled) = (done as f64 / seconds, canceled as f64 / seconds);
        track(Some(Rate { settled: done + canceled, done, canceled }))
    }

    fn count_refusals(&mut self, before: &WorkerReport, now: &WorkerReport) {
        for (code, count) in &now.refusals {
            let earlier = before.refusals.iter().find(|(other, _)| other == code);
            let more = count.saturating_sub(earlier.map_or(0, |(_, count)| *count));
            if more > 0 && (self.refusals.len() < REASONS_MAX || self.refusals.contains_key(code)) {
                let entry = self.refusals.entry(code.clone()).or_default();
                *entry = entry.saturating_add(more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(id: &str, seen_at: ServerMs, done: u64) -> SeenWorker {
        let report = WorkerReport {
            id: id.to_owned(),
            done,
            activity: "working".to_owned(),
            latency: vec![(100.0, done), (f64::INFINITY, done)],
            ..WorkerReport::default()
        };
        SeenWorker { report, started_at: Some(0), seen_at }
    }

    fn last(flow: &Flow) -> Option<f64> {
        flow.steps.back()?.rate.map(|rate| rate.settled)
    }

    #[test]
    fn a_rate_is_what_was_counted_over_the_time_between_two_reports() {
        let mut flow = Flow::default();
        flow.take(10_000, &[worker("a", 9_500, 1_000)]);
        assert_eq!(last(&flow), None, "of one look nothing is known");
        flow.take(12_000, &[worker("a", 11_500, 1_400)]);
        assert_eq!(last(&flow), Some(200.0));
        // Nothing new of it: it goes on as it did.
        flow.take(14_000, &[worker("a", 11_500, 1_400)]);
        assert_eq!(last(&flow), Some(200.0));
        flow.take(16_000, &[worker("a", 15_500, 2_200)]);
        assert_eq!(last(&flow), Some(200.0));
        flow.take(30_000, &[worker("a", 15_500, 2_200)]);
        assert_eq!(last(&flow), Some(0.0), "silent");
        assert_eq!(flow.totals().ended, 1_200, "each transaction once");
    }

    #[test]
    fn a_restart_gives_no_negative_rate_and_counts_from_zero() {
        let mut flow = Flow::default();
        flow.take(10_000, &[worker("a", 10_000, 1_000)]);
        let again = SeenWorker { started_at: Some(11_000), ..worker("b", 13_000, 50) };
        flow.take(13_000, &[worker("a", 10_000, 1_000), again]);
        assert_eq!(last(&flow), Some(25.0));
        // The same id with less than before: somebody has edited it.
        flow.take(15_000, &[worker("b", 15_000, 3)]);
        assert_eq!(last(&flow), Some(0.0));
        flow.take(17_000, &[worker("b", 17_000, 5)]);
        assert_eq!(last(&flow), Some(1.0));
    }

    #[test]
    fn a_worker_that_was_there_before_anybody_looked_counts_from_then_on() {
        let mut flow = Flow::default();
        flow.take(10_000, &[]);
        flow.take(12_000, &[worker("old", 12_000, 1_000_000)]);
        assert_eq!(last(&flow), Some(0.0));
        assert_eq!(flow.rate_of("old"), None);
        flow.take(14_000, &[worker("old", 14_000, 1_000_010)]);
        assert_eq!((last(&flow), flow.rate_of("old")), (Some(5.0), Some(5.0)));
    }

    #[test]
    fn what_was_missed_is_a_gap_and_counts_with_the_next_look() {
        let mut flow = Flow::default();
        flow.take(0, &[worker("a", 0, 0)]);
        flow.take(2_000, &[worker("a", 2_000, 20)]);
        flow.missed(4_000);
        assert_eq!((last(&flow), flow.rate()), (None, None));
        flow.take(12_000, &[worker("a", 12_000, 120)]);
        assert_eq!(last(&flow), Some(10.0));
        flow.pause();
        flow.take(90_000, &[worker("a", 90_000, 9_000)]);
        assert_eq!(last(&flow), None, "while nobody looked");
        assert_eq!((flow.totals().ended, flow.totals().over_s), (120, 12));
        let rates: Vec<_> = flow.steps_from(0).map(|step| step.rate.is_some()).collect();
        assert_eq!(rates, [false, true, false, true, false]);
    }

    #[test]
    fn refusals_and_latencies_are_those_of_the_steps() {
        let with = |at, refused| {
            let mut worker = worker("a", at, refused);
            worker.report.refusals = vec![("requested".to_owned(), refused)];
            worker.report.forgotten = refused;
            worker
        };
        let mut flow = Flow::default();
        flow.take(0, &[with(0, 1_000)]);
        assert_eq!((flow.totals(), flow.latency()), (Totals::default(), None));
        flow.take(2_000, &[with(2_000, 1_007)]);
        assert_eq!(flow.totals().refusals, BTreeMap::from([("requested".to_owned(), 7)]));
        assert_eq!(flow.totals().forgotten, 7);
        assert_eq!(flow.latency().map(|latency| latency.p50), Some(50.0));
        (2..100).for_each(|look| flow.take(look * 2_000, &[with(2_000, 1_007)]));
        assert_eq!(flow.latency(), None, "nothing ended in the last minute");
        let told = flow.steps_from(1).next().and_then(|step| step.latency);
        assert_eq!(told.map(|latency| latency.p50), Some(50.0), "an old point keeps its latency");
    }

    #[test]
    fn fifteen_minutes_are_kept_and_numbered() {
        let mut flow = Flow::default();
        for look in 0..STEPS_MAX as i64 + 10 {
            flow.take(look * 2_000, &[]);
        }
        assert_eq!(flow.steps_from(0).count(), STEPS_MAX);
        assert_eq!(flow.next(), STEPS_MAX as u64 + 10);
        assert_eq!(flow.steps_from(flow.next() - 3).count(), 3);
        assert_eq!(flow.steps_from(flow.next() + 5).count(), 0);
        assert_eq!(flow.quiet_ms(), STEPS_MAX as u64 * 2_000);
    }
}
