//! The result of a look, for people and for scripts.
//!
//! Owns the shape of `producer adopt --json`: what a script reads here is not renamed. Pure.

use serde::Serialize;

use super::class::{Class, Verdict};
use super::keys::Keys;
use super::looked::Sample;
use super::tally::{Counted, Tally};
use super::validators::Validator;
use super::watch::Moved;

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Whether all is as Tandem needs it: nothing has to be repaired, and nothing else moves.
    pub ready: bool,
    /// The database.
    pub database: String,
    /// How many decimal places numbers were said to have.
    pub places: Option<u32>,
    /// The accounts.
    pub accounts: Documents,
    /// The transactions.
    pub transactions: Documents,
    /// Where accounts are known by another field than `_id`: whether that is unique.
    pub keys: Option<Keys>,
    /// Indexes, and options of the collections.
    pub indexes: Vec<Noted>,
    /// Validators of the owner's own.
    pub validators: Vec<Validator>,
    /// What moved without a claim while it was watched.
    pub moved: Moved,
    /// What has to be seen of all documents together.
    pub notes: Vec<String>,
    /// How long it took; a look that was resumed counts its last part.
    pub seconds: f64,
}

/// The documents of one collection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Documents {
    /// Its name in the database.
    pub collection: String,
    /// How many were read.
    pub read: u64,
    /// How many fit as they are.
    pub fits: u64,
    /// How many fit after repair.
    pub needs_repair: u64,
    /// How many can't fit before somebody says what they should be.
    pub cannot: u64,
    /// The classes of them that were seen. A document may be of several.
    pub classes: Vec<Seen>,
}

/// A class of documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Its name for scripts.
    pub code: Class,
    /// What it means.
    pub verdict: Verdict,
    /// How many documents there are.
    pub count: u64,
    /// The first of them.
    pub samples: Vec<Sample>,
    /// What to do.
    pub remedy: &'static str,
}

/// An index or an option of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// The collection, by its name in the database.
    pub collection: String,
    /// A short name for scripts.
    pub kind: String,
    /// Whether a ledger can't work with it; otherwise it only costs.
    pub hurts: bool,
    /// What it is, and what to do.
    pub message: String,
    /// What to run in `mongosh`, where the owner has to decide.
    pub command: Option<String>,
}

impl Documents {
    pub(super) fn new(collection: &str, tally: &Tally) -> Documents {
        let seen = |(class, counted): (&Class, &Counted)| Seen {
            code: *class,
            verdict: class.verdict(),
            count: counted.count,
            samples: counted.samples.clone(),
            remedy: class.remedy(),
        };
        Documents {
            collection: collection.to_owned(),
            read: tally.read,
            fits: tally.fits,
            needs_repair: tally.needs_repair,
            cannot: tally.cannot,
            classes: tally.classes.iter().map(seen).collect(),
        }
    }

    fn all_fit(&self) -> bool {
        self.read == self.fits
    }
}

impl Report {
    /// The same, with the answer whether all is ready.
    pub(super) fn judged(self) -> Report {
        let keys_are_unique = self.keys.as_ref().is_none_or(|keys| keys.duplicates == Some(0));
        let refuses = |one: &Validator| !one.refuses.is_empty() && !one.only_warns;
        let ready = self.accounts.all_fit()
            && self.transactions.all_fit()
            && keys_are_unique
            && !self.indexes.iter().any(|noted| noted.hurts)
            && !self.validators.iter().any(refuses)
            && self.moved.accounts + self.moved.transactions == 0
            && self.notes.is_empty();
        Report { ready, ..self }
    }
}

/// What has to be seen of all accounts together.
pub(super) fn notes(accounts: &Tally) -> Vec<String> {
    let mut notes = Vec::new();
    let fractions = accounts.count(Class::Fraction);
    if fractions > 0 && accounts.whole > 0 {
        notes.push(format!(
            "{fractions} accounts have fractions and {} balances are whole: whole ones are read as \
             minor units, so if all count the same unit, look again with --places",
            accounts.whole
        ));
    }
    let whole = accounts.whole + accounts.count(Class::MajorUnits);
    if whole > 0 && accounts.decimal > 0 {
        notes.push(format!(
            "{whole} balances are whole and {} are decimals: no transfer goes from one kind to the \
             other",
            accounts.decimal
        ));
    }
    notes
}
