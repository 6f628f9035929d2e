//! How many documents are of which class, with the first ones of each.
//!
//! Promises bounded memory, whatever the number of documents. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::class::{Class, Verdict};
use super::looked::{Looked, Sample, Unit};

/// How many documents of a class are shown.
pub const SAMPLES_MAX: usize = 5;

/// The documents of a collection, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many were read.
    pub read: u64,
    /// How many fit as they are.
    pub fits: u64,
    /// How many fit after repair.
    pub needs_repair: u64,
    /// How many can't fit before somebody says what they should be.
    pub cannot: u64,
    /// How many balances that fit are whole minor units.
    pub whole: u64,
    /// How many balances that fit are decimals.
    pub decimal: u64,
    /// The classes. A document may be of several.
    pub classes: BTreeMap<Class, Counted>,
}

/// The documents of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub samples: Vec<Sample>,
}

impl Tally {
    /// Takes a document in.
    pub fn add(&mut self, looked: Looked) {
        self.read += 1;
        match looked.verdict() {
            Verdict::Fits => self.fits += 1,
            Verdict::NeedsRepair => self.needs_repair += 1,
            Verdict::Cannot => self.cannot += 1,
        }
        match looked.unit {
            Some(Unit::Whole) => self.whole += 1,
            Some(Unit::Decimal) => self.decimal += 1,
            None => {}
        }
        let mut counted: Vec<Class> = Vec::new();
        for (class, sample) in looked.classes {
            let of = self.classes.entry(class).or_default();
            // A document counts once for a class, however many of its fields are of it.
            if !counted.contains(&class) {
                counted.push(class);
                of.count += 1;
            }
            if of.samples.len() < SAMPLES_MAX {
                of.samples.push(sample);
            }
        }
    }

    /// How many documents are of this class.
    #[must_use]
    pub fn count(&self, class: Class) -> u64 {
        self.classes.get(&class).map_or(0, |counted| counted.count)
    }
}
