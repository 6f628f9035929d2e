//! What has become of the documents of a collection, counted.
//!
//! Owns the shape of it in `producer adopt --json`: what a script reads here is not renamed.
//! Promises bounded memory, whatever the number of documents. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::class::{Class, Verdict};
use super::looked::{Looked, Sample};
use super::tally::SAMPLES_MAX;

/// What is said of a document that others have changed each time.
const BUSY: &str = "busy";

/// What is said of a document that the server refuses to write.
const REFUSED: &str = "refused";

/// The documents of a collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// How many were read.
    pub read: u64,
    /// How many were written by this run.
    pub written: u64,
    /// How many of these were repaired, by what was repaired. A document may have two repairs.
    pub repaired: BTreeMap<Class, u64>,
    /// How many needed nothing, most of them because they were written before.
    pub done_before: u64,
    /// How many are left as they were.
    pub left: u64,
    /// Why, with the first of them. A document may be left for several reasons.
    pub reasons: Vec<Reason>,
}

/// Why documents are left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Its name for scripts: that of a class, or `busy` or `refused`.
    pub code: &'static str,
    /// How many documents there are.
    pub count: u64,
    /// The first of them.
    pub samples: Vec<Sample>,
    /// What to do.
    pub remedy: &'static str,
}

impl Counts {
    /// A document that was written.
    pub(super) fn write(&mut self, repaired: &[Class]) {
        self.written += 1;
        let mut classes = repaired.to_vec();
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().for_each(|class| *self.repaired.entry(class).or_default() += 1);
    }

    /// A document that is left for its classes.
    pub(super) fn leave(&mut self, looked: Looked) {
        self.left += 1;
        let mut counted: Vec<Class> = Vec::new();
        for (class, sample) in looked.classes {
            if class.verdict() == Verdict::Fits && class != Class::InFlight {
                continue;
            }
            let is_new = !counted.contains(&class);
            counted.push(class);
            self.reason(class.code(), class.remedy(), is_new, sample);
        }
    }

    /// A document that others have changed each time.
    pub(super) fn busy(&mut self, id: String) {
        self.left += 1;
        let remedy = "Others have changed it each time; run the same command again.";
        self.reason(BUSY, remedy, true, sample(id, "changed by others each time".to_owned()));
    }

    /// A document that the server refuses to write.
    pub(super) fn refuse(&mut self, id: String, problem: String) {
        self.left += 1;
        let remedy = "See what the server says: a validator of yours may have to take it.";
        self.reason(REFUSED, remedy, true, sample(id, problem));
    }

    fn reason(&mut self, code: &'static str, remedy: &'static str, is_new: bool, sample: Sample) {
        let at = self.reasons.iter().position(|reason| reason.code == code);
        let at = at.unwrap_or_else(|| {
            self.reasons.push(Reason { code, count: 0, samples: Vec::new(), remedy });
            self.reasons.len() - 1
        });
        let reason = &mut self.reasons[at];
        reason.count += u64::from(is_new);
        if reason.samples.len() < SAMPLES_MAX {
            reason.samples.push(sample);
        }
    }
}

/// Something that was refused or busy, to be shown.
fn sample(id: String, value: String) -> Sample {
    Sample { id, path: String::new(), value, becomes: None }
}
