//! What became of a file, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::in_order::Stopped;
use super::pipeline::Counts;
use super::rows::Transfers;
use crate::advice::{Todo, typed};
use crate::console::per_second;
use crate::exit::Exit;
use crate::follow::{Ends, Followed};

/// How many rows came to which end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows of the file.
    pub rows: u64,
    /// New transactions.
    pub submitted: u64,
    /// Transactions known with the same content.
    pub unchanged: u64,
    /// Ids taken by transactions with other content; each was named.
    pub conflicts: u64,
    /// Rows whose exclusive key another undecided transaction has; each was named.
    pub keys_in_use: u64,
    /// Rows left out.
    pub invalid: u64,
    /// Rows that the server refused; each was named.
    pub refused: u64,
    /// With `--in-order`: valid rows that were not submitted, because an earlier one was refused or
    /// the time was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_submitted: Option<u64>,
    /// Why they were not.
    #[serde(skip)]
    pub(super) stopped: Option<Stopped>,
    /// The batch from which the ids of rows without an id were made, if there were such rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// With `--wait`: how many of the submitted and the unchanged are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// With `--wait`: how many of them are on hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// With `--wait`: how many of them are canceled, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canceled: Option<BTreeMap<String, u64>>,
    /// With `--wait`: how many were not final when the limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// With `--wait`: how many are gone from the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
    /// From start to end.
    pub seconds: f64,
    /// Rows by seconds.
    pub rows_per_s: f64,
}

impl Summary {
    pub(super) fn new(
        transfers: &Transfers,
        counts: &Counts,
        stopped: Option<Stopped>,
        ends: Option<Ends>,
        elapsed: Duration,
    ) -> Summary {
        let checked = transfers.checked();
        let rounded = |number: f64| (number * 1_000.0).round() / 1_000.0;
        Summary {
            rows: checked.rows,
            submitted: counts.submitted,
            unchanged: counts.unchanged,
            conflicts: counts.conflicts,
            keys_in_use: counts.keys_in_use,
            invalid: checked.invalid,
            refused: counts.refused,
            not_submitted: stopped
                .map(|_| (checked.rows - checked.invalid).saturating_sub(counts.total())),
            stopped,
            batch: transfers.batch().map(ToString::to_string),
            done: ends.as_ref().map(|ends| ends.done),
            held: ends.as_ref().map(|ends| ends.held),
            unfinished: ends.as_ref().map(|ends| ends.unfinished),
            missing: ends.as_ref().map(|ends| ends.missing),
            canceled: ends.map(|ends| ends.canceled),
            seconds: rounded(elapsed.as_secs_f64()),
            rows_per_s: per_second(checked.rows, elapsed).round(),
        }
    }

    /// The exit code. A refused transfer is a result; a row that could not be submitted is a
    /// failure.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let failed = self.conflicts + self.keys_in_use + self.refused;
        match self.stopped {
            Some(Stopped::AtRefusal) => Exit::Failed,
            Some(Stopped::AtDeadline) if failed == 0 => Exit::WaitLimit,
            Some(Stopped::AtDeadline) | None => self.followed().exit(failed),
        }
    }

    fn followed(&self) -> Followed<'_> {
        let Summary { done, held, unfinished, missing, .. } = *self;
        Followed { done, held, canceled: self.canceled.as_ref(), unfinished, missing }
    }

    /// One line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialize")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rows: {} submitted, {} unchanged, {} conflicts, {} invalid",
            self.rows,
            self.submitted,
            self.unchanged,
            self.conflicts,
            self.invalid + self.refused
        )?;
        if self.keys_in_use > 0 {
            write!(f, ", {} keys in use", self.keys_in_use)?;
        }
        if let Some(rows) = self.not_submitted.filter(|rows| *rows > 0) {
            write!(f, ", {rows} not submitted")?;
        }
        write!(f, "{}", self.followed())?;
        write!(f, "\n{:.1} s, {:.0} rows/s", self.seconds, self.rows_per_s)?;
        if let Some(batch) = &self.batch {
            let todo = "rows without ids were submitted as a batch; to submit a corrected or longer \
                        version of this file, where known rows change nothing, repeat with its name:";
            write!(f, "\n{}", Todo::with(todo, typed("--batch", batch)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_transfers_are_results_and_conflicts_are_failures() {
        let all_well = Summary {
            rows: 3,
            submitted: 3,
            unchanged: 0,
            conflicts: 0,
            keys_in_use: 0,
            invalid: 0,
            refused: 0,
            not_submitted: None,
            stopped: None,
            batch: None,
            done: Some(2),
            held: Some(0),
            canceled: Some(BTreeMap::from([("insufficient_funds".to_owned(), 1)])),
            unfinished: Some(0),
            missing: Some(0),
            seconds: 1.0,
            rows_per_s: 3.0,
        };
        assert_eq!(all_well.exit(), Exit::Ok);
        let with = |change: fn(&mut Summary)| {
            let mut summary = all_well.clone();
            change(&mut summary);
            summary.exit()
        };
        assert_eq!(with(|s| s.conflicts = 1), Exit::Failed);
        assert_eq!(with(|s| s.keys_in_use = 1), Exit::Failed);
        assert_eq!(with(|s| s.refused = 1), Exit::Failed);
        assert_eq!(with(|s| s.missing = Some(1)), Exit::Failed);
        assert_eq!(with(|s| s.unfinished = Some(1)), Exit::WaitLimit);
        assert_eq!(with(|s| s.invalid = 1), Exit::Ok);
        assert_eq!(with(|s| s.stopped = Some(Stopped::AtRefusal)), Exit::Failed);
        assert_eq!(with(|s| s.stopped = Some(Stopped::AtDeadline)), Exit::WaitLimit);
    }

    #[test]
    fn the_batch_of_derived_ids_is_named_as_it_has_to_be_repeated() {
        let mut summary = Summary { rows: 1, submitted: 1, ..Summary::default() };
        assert!(!summary.to_string().contains("--batch") && !summary.to_json().contains("batch"));
        summary.batch = Some("may payroll".to_owned());
        assert!(summary.to_string().ends_with("repeat with its name:\n  --batch 'may payroll'"));
        assert!(summary.to_json().contains(r#""batch":"may payroll""#));
    }
}
