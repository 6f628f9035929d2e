//! What others have made of the ledger's collections: kinds of collections that can hold no ledger,
//! indexes that harm it, and validators where Tandem alone writes.
//!
//! Pure: judges what was [`Catalogue`]. `findings` says what it means for a program, `ground` what
//! an index does.

use mongodb::options::CreateCollectionOptions;

use super::catalogue::{Catalogue, CollectionThere};
use super::definitions::is_needed;
use super::findings::{Finding, Lack};
use super::ground::harm;
use super::names::{COLLECTIONS, WORKERS};
use super::unsuitable::Unsuitable;

/// The collections that can hold no ledger as they are. While there is one, nothing else is
/// changed. That of workers may be of any kind: the ledger does without. But nothing may remove
/// documents from it.
pub(super) fn unsuitable(seen: &Catalogue) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (collection, (found, _)) in there(seen).filter(|(name, _)| *name != WORKERS) {
        let all = Unsuitable::all_of(found).map(Lack::Plainness);
        findings.extend(all.map(|lack| seen.finding(collection, lack)));
    }
    findings.extend(harms(seen).filter(Finding::removes));
    findings
}

/// The collections of a ledger that are there.
fn there(seen: &Catalogue) -> impl Iterator<Item = (&'static str, &CollectionThere)> {
    COLLECTIONS.into_iter().filter_map(|name| Some((name, seen.collections.get(name)?)))
}

/// The indexes of the user's own that harm the ledger, accepted or not.
fn harms(seen: &Catalogue) -> impl Iterator<Item = Finding> {
    there(seen).flat_map(move |(collection, (_, indexes))| {
        let harms = indexes.iter().filter_map(move |index| harm(collection, index));
        harms.map(move |harm| seen.finding(collection, Lack::IndexHarms(harm)))
    })
}

/// The indexes that may refuse writes: those that their owner has accepted, and those that nobody
/// has.
pub(super) fn refusing(seen: &Catalogue) -> (Vec<Finding>, Vec<Finding>) {
    let is_accepted = |finding: &Finding| {
        let of_the_ledger = seen.settings.iter().flat_map(|settings| &settings.accepted_indexes);
        let mut accepted = seen.accepted.iter().chain(of_the_ledger);
        matches!(&finding.lack, Lack::IndexHarms(harm) if accepted.any(|name| *name == harm.index))
    };
    harms(seen).filter(|finding| !finding.removes()).partition(is_accepted)
}

/// The validators of collections that Tandem has for itself alone.
pub(super) fn validators_on_own(seen: &Catalogue) -> impl Iterator<Item = Finding> {
    let has_rules = |options: &CreateCollectionOptions| {
        options.validator.as_ref().is_some_and(|rules| !rules.is_empty())
    };
    there(seen)
        .filter(move |(name, (found, _))| !is_needed(name) && has_rules(&found.options))
        .map(|(collection, _)| seen.finding(collection, Lack::ValidatorOnOwn))
}
