//! How long it took until the transactions that a fault had met were final.
//!
//! For each fault: the transactions that workers had something to do with when it began. What was
//! on hold or scheduled does not count, because it waited for a client or for its moment; what had
//! been confirmed, or was due, does. It is recovered when the last of them is final. The time
//! begins when the fault was over (a server serves again, a process goes on, a link works again);
//! for a killed process it begins with the kill, and for a killed worker only the transactions that
//! it had claimed count. The time is 0 if they were final before the fault was over.

use std::collections::HashMap;

use harness::figures::percentile;

use super::faults::Happened;
use super::schedule::Kind;

/// Seconds at a few ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranks {
    /// How many were measured.
    pub count: usize,
    /// Half were not slower.
    pub p50: f64,
    /// One in a hundred was slower.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Ranks {
    /// The ranks of some values (nearest rank).
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Ranks {
        values.sort_by(f64::total_cmp);
        let rank = |percent| percentile(&values, percent).unwrap_or_default();
        Ranks { count: values.len(), p50: rank(50), p99: rank(99), max: rank(100) }
    }
}

/// Seconds until a fault was recovered from; `None` if no transaction was unfinished, or the
/// database could not be asked.
#[must_use]
pub fn of_fault(happened: &Happened, finals: &HashMap<String, i64>) -> Option<f64> {
    let met = happened.met.as_ref()?;
    let last = met.iter().map(|id| finals.get(id).copied()).max()??;
    Some(seconds(last - happened.over_ms))
}

/// Seconds from the death of a worker to the end of each transaction that it had claimed; either of
/// deaths while nothing else failed, or of the others.
#[must_use]
pub fn of_deaths(happened: &[Happened], alone: bool, finals: &HashMap<String, i64>) -> Vec<f64> {
    let deaths =
        happened.iter().filter(|one| one.fault.kind == Kind::WorkerKilled && one.alone == alone);
    let ends = deaths.flat_map(|death| {
        let met = death.met.iter().flatten();
        met.filter_map(|id| Some(seconds(finals.get(id)? - death.began_ms)))
    });
    ends.collect()
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds.max(0) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::schedule::{Fault, Target};
    use super::*;

    fn happened(kind: Kind, over_ms: i64, met: Option<&[&str]>) -> Happened {
        let target = Target::Worker(0);
        let fault = Fault { at: Duration::ZERO, kind, target, lasts: Duration::ZERO };
        let met = met.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        Happened { fault, began_ms: 1_000, over_ms, met, alone: false }
    }

    #[test]
    fn a_fault_is_recovered_from_when_the_last_transaction_that_it_met_is_final() {
        let finals = HashMap::from([("a".to_owned(), 2_500), ("b".to_owned(), 9_000)]);
        let of = |over_ms, met| of_fault(&happened(Kind::LinkCut, over_ms, met), &finals);
        assert_eq!(of(2_000, Some(&["a", "b"])), Some(7.0));
        assert_eq!(of(3_000, Some(&["a"])), Some(0.0));
        assert_eq!(of(3_000, Some(&[])), None);
        assert_eq!(of(3_000, None), None);
    }

    #[test]
    fn deaths_count_for_each_transaction_of_the_dead() {
        let finals = HashMap::from([("a".to_owned(), 2_500), ("b".to_owned(), 9_000)]);
        let all = [
            happened(Kind::WorkerKilled, 1_000, Some(&["a", "b"])),
            happened(Kind::LinkCut, 1_000, Some(&["a"])),
        ];
        assert_eq!(of_deaths(&all, false, &finals), [1.5, 8.0]);
        assert!(of_deaths(&all, true, &finals).is_empty());
    }

    #[test]
    fn ranks_are_values_that_were_measured() {
        let ranks = Ranks::of((1..=200).map(f64::from).collect());
        assert_eq!((ranks.p50, ranks.p99, ranks.max), (100.0, 198.0, 200.0));
        assert_eq!(Ranks::of(vec![3.0]).p99, 3.0);
        assert_eq!(Ranks::of(vec![]), Ranks::default());
    }
}
