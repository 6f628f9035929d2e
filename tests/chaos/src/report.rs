//! The result of a run: for people as text, for scripts as JSON.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::{Value, json};

use super::faults::Happened;
use super::judge::{Judged, Life};
use super::progress::Sample;
use super::recovery::{Ranks, of_deaths, of_fault};
use super::run::{Options, Phases};
use super::schedule::Kind;

/// How many violations are printed; all are in the JSON.
const SHOWN_MAX: usize = 20;

/// What one run of chaos did, and what came of it.
#[derive(Debug)]
pub struct Report {
    /// The seed that repeats the schedule and the rows.
    pub seed: u64,
    /// The times of the parts of the run.
    pub phases: Phases,
    /// Every fault, by its beginning.
    pub faults: Vec<Happened>,
    /// Every transaction.
    pub lives: Vec<Life>,
    /// What breaks a rule.
    pub violations: Vec<String>,
    told: BTreeMap<&'static str, u64>,
    ends: BTreeMap<String, u64>,
    holds: BTreeMap<String, u64>,
    terms: BTreeMap<String, u64>,
    rescheduled: BTreeMap<&'static str, u64>,
    keys: BTreeMap<&'static str, u64>,
    orders: BTreeMap<&'static str, u64>,
    mischief: BTreeMap<String, u64>,
    recovery: Ranks,
    recovery_by_kind: BTreeMap<Kind, Ranks>,
    deaths_alone: Ranks,
    deaths_among_faults: Ranks,
    /// Further observations.
    pub beside: Beside,
}

/// Observations beside the faults and the ledger.
#[derive(Debug)]
pub struct Beside {
    /// Faults whose target was not there.
    pub skipped: usize,
    /// How much was unfinished when.
    pub samples: Vec<Sample>,
    /// How many messages nobody could make sense of.
    pub dead_letters: Option<u32>,
    /// The slowest recoveries, in detail.
    pub slowest: Vec<Value>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        phases: Phases,
        happened: Vec<Happened>,
        judged: Judged,
        beside: Beside,
    ) -> Report {
        let finals = &judged.finals;
        let recovery = |of: &dyn Fn(&Happened) -> bool| ranks(&happened, finals, of);
        let by_kind = Kind::ALL.map(|kind| (kind, recovery(&|one| one.fault.kind == kind)));
        Report {
            seed: options.seed,
            phases,
            recovery: recovery(&|_| true),
            recovery_by_kind: by_kind.into(),
            deaths_alone: Ranks::of(of_deaths(&happened, true, finals)),
            deaths_among_faults: Ranks::of(of_deaths(&happened, false, finals)),
            faults: happened,
            violations: judged.violations,
            told: judged.told,
            ends: judged.ends,
            holds: judged.holds,
            terms: judged.terms,
            rescheduled: judged.rescheduled,
            keys: judged.keys,
            orders: judged.orders,
            mischief: judged.mischief,
            lives: judged.lives,
            beside,
        }
    }

    fn count(&self, kind: Kind) -> usize {
        self.faults.iter().filter(|one| one.fault.kind == kind).count()
    }

    /// Settled a second, in calm and under faults.
    fn throughput(&self) -> (f64, f64) {
        let Phases { calm_ms, deaths_ms, faults_ms, rest_ms, .. } = self.phases;
        let between = |from: i64, to: i64| {
            let done = |life: &&Life| life.done && (from..to).contains(&life.final_ms);
            self.lives.iter().filter(done).count() as f64 * 1_000.0 / (to - from).max(1) as f64
        };
        (between(calm_ms, deaths_ms), between(faults_ms, rest_ms))
    }

    /// Seconds from submission to the end, of settled transactions that were submitted within a
    /// period; without those of the careless neighbour, and without those that wait for a clerk or
    /// a moment, or expire if they are slow.
    fn settling(&self, from: i64, to: i64) -> Ranks {
        let lives = self.lives.iter();
        let settled =
            lives.filter(|life| life.done && life.plain && (from..to).contains(&life.created_ms));
        Ranks::of(settled.map(|life| (life.final_ms - life.created_ms) as f64 / 1_000.0).collect())
    }

    /// Seconds from the moment at which a scheduled transaction was due, or was submitted if that
    /// was later, to its end, of those that were due within a period.
    fn coming_due(&self, from: i64, to: i64) -> Ranks {
        let due = self.lives.iter().filter(|life| life.done).filter_map(|life| {
            let due_ms = life.due_ms?.max(life.created_ms);
            let is_within = (from..to).contains(&due_ms);
            is_within.then(|| (life.final_ms - due_ms) as f64 / 1_000.0)
        });
        Ranks::of(due.collect())
    }

    /// Seconds from the confirmation of a hold to its end, of those that were confirmed within a
    /// period.
    fn capturing(&self, from: i64, to: i64) -> Ranks {
        let captured = self.lives.iter().filter(|life| life.done).filter_map(|life| {
            let confirmed_ms = life.confirmed_ms.filter(|ms| (from..to).contains(ms))?;
            Some((life.final_ms - confirmed_ms) as f64 / 1_000.0)
        });
        Ranks::of(captured.collect())
    }

    /// From submission to done, in calm and under faults.
    fn settling_in_phases(&self) -> [(&'static str, Ranks); 2] {
        let Phases { calm_ms, deaths_ms, faults_ms, rest_ms, .. } = self.phases;
        [
            ("in calm", self.settling(calm_ms, deaths_ms)),
            ("under faults", self.settling(faults_ms, rest_ms)),
        ]
    }

    /// From the moment at which it was due to done, in calm and under faults.
    fn coming_due_in_phases(&self) -> [(&'static str, Ranks); 2] {
        let Phases { calm_ms, deaths_ms, faults_ms, rest_ms, .. } = self.phases;
        [
            ("in calm", self.coming_due(calm_ms, deaths_ms)),
            ("under faults", self.coming_due(faults_ms, rest_ms)),
        ]
    }

    /// From confirmation to done, in calm and under faults.
    fn capturing_in_phases(&self) -> [(&'static str, Ranks); 2] {
        let Phases { calm_ms, deaths_ms, faults_ms, rest_ms, .. } = self.phases;
        [
            ("in calm", self.capturing(calm_ms, deaths_ms)),
            ("under faults", self.capturing(faults_ms, rest_ms)),
        ]
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let (calm, under_faults) = self.throughput();
        let [(_, calm_settling), (_, faults_settling)] = self.settling_in_phases();
        let [(_, calm_capturing), (_, faults_capturing)] = self.capturing_in_phases();
        let [(_, calm_due), (_, faults_due)] = self.coming_due_in_phases();
        let Phases { calm_ms, deaths_ms, faults_ms, rest_ms, end_ms } = self.phases;
        let seconds = |from: i64, to: i64| (to - from) as f64 / 1_000.0;
        let by_kind: serde_json::Map<String, Value> = Kind::ALL
            .iter()
            .map(|kind| {
                let ranks = self.recovery_by_kind.get(kind).copied().unwrap_or_default();
                let value = json!({ "count": self.count(*kind), "recovery": ranks_json(ranks) });
                (kind.name().to_owned(), value)
            })
            .collect();
        json!({
            "seed": self.seed,
            "violations": self.violations.len(),
            "violation_list": self.violations,
            "faults": self.faults.len(),
            "faults_skipped": self.beside.skipped,
            "faults_by_kind": by_kind,
            "transactions": self.lives.len(),
            "told": self.told,
            "ends": self.ends,
            "holds": self.holds,
            "schedules_and_expiry": self.terms,
            "reschedule_answers": self.rescheduled,
            "keys": self.keys,
            "orders": self.orders,
            "neighbour": self.mischief,
            "submission_to_final_calm": ranks_json(calm_settling),
            "submission_to_final_under_faults": ranks_json(faults_settling),
            "confirmation_to_done_calm": ranks_json(calm_capturing),
            "confirmation_to_done_under_faults": ranks_json(faults_capturing),
            "due_to_done_calm": ranks_json(calm_due),
            "due_to_done_under_faults": ranks_json(faults_due),
            "dead_letters": self.beside.dead_letters,
            "recovery_p50_s": self.recovery.p50,
            "recovery_p99_s": self.recovery.p99,
            "recovery_max_s": self.recovery.max,
            "worker_death_recovery_p99_s": self.deaths_alone.p99,
            "worker_death_alone": ranks_json(self.deaths_alone),
            "worker_death_among_faults": ranks_json(self.deaths_among_faults),
            "slowest": self.beside.slowest,
            "throughput_calm_per_s": calm,
            "throughput_under_faults_per_s": under_faults,
            "throughput_ratio_under_faults": ratio(calm, under_faults),
            "calm_s": seconds(calm_ms, deaths_ms),
            "deaths_s": seconds(deaths_ms, faults_ms),
            "faults_s": seconds(faults_ms, rest_ms),
            "rest_s": seconds(rest_ms, end_ms),
        })
    }
}

fn ranks(
    happened: &[Happened],
    finals: &HashMap<String, i64>,
    of: &dyn Fn(&Happened) -> bool,
) -> Ranks {
    let chosen = happened.iter().filter(|one| of(one));
    Ranks::of(chosen.filter_map(|one| of_fault(one, finals)).collect())
}

fn ratio(calm: f64, under_faults: f64) -> f64 {
    if calm > 0.0 { under_faults / calm } else { 0.0 }
}

fn ranks_json(ranks: Ranks) -> Value {
    json!({ "measured": ranks.count, "p50_s": ranks.p50, "p99_s": ranks.p99, "max_s": ranks.max })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ranks { p50, p99, max, .. } = self.recovery;
        writeln!(f, "{:<20} {:>6} {:>26}", "faults", "count", "recovery p50 / max (s)")?;
        for kind in Kind::ALL {
            let Ranks { p50, max, .. } =
                self.recovery_by_kind.get(&kind).copied().unwrap_or_default();
            writeln!(
                f,
                "{:<20} {:>6} {:>17.1} / {:>6.1}",
                kind.name(),
                self.count(kind),
                p50,
                max
            )?;
        }
        let list = |counts: Vec<String>| counts.join(", ");
        let told = self.told.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let ends = self.ends.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (calm, under_faults) = self.throughput();
        writeln!(
            f,
            "faults: {} ({} found no target), seed {}",
            self.faults.len(),
            self.beside.skipped,
            self.seed
        )?;
        writeln!(f, "transactions: {}", self.lives.len())?;
        writeln!(f, "producers were told: {}", list(told))?;
        writeln!(f, "they ended: {}", list(ends))?;
        let holds = self.holds.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "what clerks did with holds, and how these ended: {}", list(holds))?;
        let terms = self.terms.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "what was scheduled or expires, and how it ended: {}", list(terms))?;
        let told = self.rescheduled.iter().map(|(name, count)| format!("{name} {count}"));
        writeln!(f, "clerks who reschedule were told: {}", list(told.collect()))?;
        let keys = self.keys.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "submissions with an exclusive key: {}", list(keys))?;
        let orders = self.orders.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "orders with their payments, inserted only: {}", list(orders))?;
        if !self.mischief.is_empty() {
            let counts = self.mischief.iter().map(|(name, count)| format!("{name} {count}"));
            writeln!(
                f,
                "the careless neighbour, and how its own ended: {}",
                list(counts.collect())
            )?;
        }
        let settling = self.settling_in_phases().map(|one| ("submission", one));
        let capturing = self.capturing_in_phases().map(|one| ("confirmation", one));
        let due = self.coming_due_in_phases().map(|one| ("due", one));
        for (from, (when, Ranks { count, p50, p99, max })) in
            settling.into_iter().chain(capturing).chain(due)
        {
            writeln!(
                f,
                "from {from} to done {when} ({count}): p50 {p50:.3} s, p99 {p99:.3} s, max \
                 {max:.1} s"
            )?;
        }
        if let Some(count) = self.beside.dead_letters.filter(|count| *count > 0) {
            writeln!(f, "dead letters: {count}")?;
        }
        writeln!(f, "time to recover: p50 {p50:.1} s, p99 {p99:.1} s, max {max:.1} s")?;
        for (ranks, when) in
            [(self.deaths_alone, "alone"), (self.deaths_among_faults, "among other faults")]
        {
            let Ranks { count, p50, p99, max } = ranks;
            writeln!(
                f,
                "what workers held that died {when} ({count} transactions): final after p50 \
                 {p50:.1} s, p99 {p99:.1} s, max {max:.1} s"
            )?;
        }
        writeln!(
            f,
            "settled a second: {calm:.0} in calm, {under_faults:.0} under faults, ratio {:.2}",
            ratio(calm, under_faults)
        )?;
        for violation in self.violations.iter().take(SHOWN_MAX) {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        write!(f, "violations: {}", self.violations.len())
    }
}
