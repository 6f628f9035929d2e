//! The demo's judgement: what was expected, what came out, and the table that says it.
//!
//! Pure. Promises that every deviation from what was expected is named.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::figures::thousands;

use super::data::Expected;
use super::kill::{Kill, Recovery};
use super::producer::Stats;

/// Every way in which the run was not as it must be; empty when all is well.
#[must_use]
pub fn problems(
    expected: &Expected,
    stats: &Stats,
    submit_code: i32,
    audit_code: i32,
) -> Vec<String> {
    let mut found = Vec::new();
    if submit_code != 0 {
        found.push(format!("producer submit exited with {submit_code}"));
    }
    let canceled = expected.canceled.values().sum();
    let wanted = [("done".to_owned(), expected.done), ("canceled".to_owned(), canceled)];
    let (states, wanted) = (present(&stats.states), BTreeMap::from(wanted));
    if states != wanted {
        found.push(format!("states are {states:?}, expected {wanted:?}"));
    }
    let reasons = present(&stats.reasons);
    if reasons != expected.canceled {
        found.push(format!("reasons are {reasons:?}, expected {:?}", expected.canceled));
    }
    if audit_code != 0 {
        found.push(format!("producer audit exited with {audit_code}"));
    }
    found
}

fn present(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    counts.iter().filter(|(_, count)| **count > 0).map(|(name, n)| (name.clone(), *n)).collect()
}

/// How fast it went.
pub struct Pace {
    /// How many transfers there were.
    pub transfers: usize,
    /// From the start of the submission until the last transfer was final.
    pub took: Duration,
    /// From the kill until the last transaction that the killed worker held was final.
    pub recovery: Recovery,
}

/// The result, as aligned text.
#[must_use]
pub fn table(expected: &Expected, stats: &Stats, kill: &Kill, pace: &Pace) -> String {
    let got = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
    let mut rows = vec![("done".to_owned(), count(got(&stats.states, "done"), expected.done))];
    for (reason, wanted) in &expected.canceled {
        let got = got(&stats.reasons, reason);
        rows.push((format!("canceled: {reason}"), count(got, *wanted)));
    }
    let rate = pace.transfers as f64 / pace.took.as_secs_f64();
    rows.push(("transfers/s, submit to last settled".to_owned(), thousands(rate)));
    if let Some(rate) = kill.rate_before {
        rows.push(("transfers/s, submit to the kill".to_owned(), thousands(rate)));
    }
    rows.extend(kill_rows(kill, pace.recovery));
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(label, value)| format!("  {label:<width$}  {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn count(got: u64, wanted: u64) -> String {
    match thousands(got as f64) {
        text if got == wanted => text,
        text => format!("{text}  (expected {})", thousands(wanted as f64)),
    }
}

fn kill_rows(kill: &Kill, recovery: Recovery) -> Vec<(String, String)> {
    let row = |label: &str, value: String| (label.to_owned(), value);
    if kill.killed.is_empty() {
        return vec![row("worker killed", "none: the transfers were settled before".to_owned())];
    }
    let told = match recovery {
        Recovery::NothingInFlight => "not measured: nothing was in flight at the kill".to_owned(),
        Recovery::SentBefore => "0.0 s: what the worker had sent before ended them".to_owned(),
        Recovery::Took(seconds) => format!("{seconds:.1} s from the kill to the end of the last"),
    };
    let recovery = row("time to recover them", told);
    let held = row("in flight at the kill", kill.held.len().to_string());
    vec![row("worker killed", kill.killed.join(", ")), held, recovery]
}

#[cfg(test)]
mod tests {
    use super::super::data::{FROZEN, NOT_FOUND};
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn expected() -> Expected {
        Expected { done: 7, canceled: counts(&[(FROZEN, 2), (NOT_FOUND, 1)]) }
    }

    fn good() -> Stats {
        Stats {
            states: counts(&[("done", 7), ("canceled", 3), ("pending", 0)]),
            reasons: counts(&[(FROZEN, 2), (NOT_FOUND, 1)]),
        }
    }

    #[test]
    fn the_expected_result_has_no_problems() {
        assert_eq!(problems(&expected(), &good(), 0, 0), [""; 0]);
    }

    #[test]
    fn every_deviation_is_a_problem() {
        let states = counts(&[("done", 6), ("canceled", 3), ("applied", 1)]);
        let unfinished = Stats { states, ..good() };
        let other_reason = Stats { reasons: counts(&[(FROZEN, 3)]), ..good() };
        for (stats, submit_code, audit_code) in
            [(unfinished, 0, 0), (other_reason, 0, 0), (good(), 1, 0), (good(), 0, 1)]
        {
            let found = problems(&expected(), &stats, submit_code, audit_code);
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn the_table_shows_counts_rates_and_the_recovery() {
        let mut stats = good();
        stats.states.insert("done".to_owned(), 1_006);
        let kill = Kill {
            killed: vec!["demo-worker-2".to_owned()],
            held: vec!["a".to_owned(), "b".to_owned()],
            rate_before: Some(1234.4),
            ..Kill::default()
        };
        let took = Duration::from_millis(500);
        let pace = Pace { transfers: 1_000, took, recovery: Recovery::Took(2.25) };
        let lines = [
            "  done                                 1,006  (expected 7)",
            "  canceled: account_frozen             2",
            "  canceled: account_not_found          1",
            "  transfers/s, submit to last settled  2,000",
            "  transfers/s, submit to the kill      1,234",
            "  worker killed                        demo-worker-2",
            "  in flight at the kill                2",
            "  time to recover them                 2.2 s from the kill to the end of the last",
        ];
        assert_eq!(table(&expected(), &stats, &kill, &pace), lines.join("\n"));
    }

    #[test]
    fn a_recovery_that_was_not_measured_says_why() {
        let kill = Kill { killed: vec!["demo-worker-2".to_owned()], ..Kill::default() };
        for (recovery, said) in [
            (Recovery::NothingInFlight, "not measured: nothing was in flight at the kill"),
            (Recovery::SentBefore, "0.0 s: what the worker had sent before ended them"),
        ] {
            let pace = Pace { transfers: 10, took: Duration::from_secs(1), recovery };
            let told = table(&expected(), &good(), &kill, &pace);
            assert!(told.ends_with(said), "{told}");
        }
    }

    #[test]
    fn a_run_without_a_kill_says_so() {
        let pace = Pace {
            transfers: 10,
            took: Duration::from_secs(1),
            recovery: Recovery::NothingInFlight,
        };
        let told = table(&expected(), &good(), &Kill::default(), &pace);
        assert!(told.ends_with("  none: the transfers were settled before"), "{told}");
    }
}
