//! Collections that can hold no ledger, because an option of their creation, which can't be
//! changed, forbids it.
//!
//! Owns these options. Pure; `findings` reports them to the user.

use std::fmt;

use ledger::limits::echo;
use mongodb::results::{CollectionSpecification, CollectionType};

/// The locale of a collation that compares byte by byte, as without one.
const BINARY_LOCALE: &str = "simple";

/// Why a collection can hold no ledger.
#[derive(Clone, Debug, PartialEq)]
pub enum Unsuitable {
    /// It is a view: nobody can write it.
    View,
    /// It is a time series: its documents can't be updated one by one.
    TimeSeries,
    /// It is capped: the server would remove old documents.
    Capped,
    /// The server removes its documents by their `_id`s.
    Expiring,
    /// It compares texts by the rules of a language: different ids could be the same to it.
    Collation(String),
}

impl Unsuitable {
    /// Every such option of an existing collection.
    pub(super) fn all_of(there: &CollectionSpecification) -> impl Iterator<Item = Unsuitable> {
        let kind = match there.collection_type {
            CollectionType::View => Some(Unsuitable::View),
            CollectionType::Timeseries => Some(Unsuitable::TimeSeries),
            // Plain collections, and types that only a newer driver knows.
            _ => None,
        };
        let options = &there.options;
        let capped = (options.capped == Some(true)).then_some(Unsuitable::Capped);
        let is_plain = kind.is_none();
        let expires = options.expire_after_seconds.is_some() && is_plain;
        let expiring = expires.then_some(Unsuitable::Expiring);
        let collation = options.collation.as_ref().filter(|own| own.locale != BINARY_LOCALE);
        let collation = collation.map(|own| Unsuitable::Collation(own.locale.clone()));
        kind.into_iter().chain(capped).chain(expiring).chain(collation)
    }

    /// A short name for scripts.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Unsuitable::View => "view",
            Unsuitable::TimeSeries => "time_series",
            Unsuitable::Capped => "capped",
            Unsuitable::Expiring => "expiring",
            Unsuitable::Collation(_) => "collation",
        }
    }
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsuitable::View => write!(f, "is a view, which nobody can write"),
            Unsuitable::TimeSeries => {
                write!(f, "is a time series, whose documents can't be updated one by one")
            }
            Unsuitable::Capped => {
                write!(f, "is capped, so the server would remove old documents from it")
            }
            Unsuitable::Expiring => {
                write!(
                    f,
                    "has expireAfterSeconds, so the server would remove old documents from it"
                )
            }
            Unsuitable::Collation(locale) => write!(
                f,
                "has a collation (locale `{}`), by which different ids could be the same",
                echo(locale)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::options::Collation;

    use super::*;

    #[test]
    fn only_a_plain_collection_has_nothing_against_it() {
        let kinds = |change: fn(&mut CollectionSpecification)| {
            let mut there = CollectionSpecification::default();
            change(&mut there);
            Unsuitable::all_of(&there).map(|why| why.kind()).collect::<Vec<_>>()
        };
        fn collation(locale: &str) -> Option<Collation> {
            Some(Collation::builder().locale(locale).build())
        }
        assert!(kinds(|_| {}).is_empty());
        assert_eq!(kinds(|there| there.collection_type = CollectionType::View), ["view"]);
        let series = kinds(|there| there.collection_type = CollectionType::Timeseries);
        assert_eq!(series, ["time_series"]);
        assert_eq!(kinds(|there| there.options.capped = Some(true)), ["capped"]);
        let aging = |there: &mut CollectionSpecification| {
            there.options.expire_after_seconds = Some(std::time::Duration::from_secs(60));
        };
        assert_eq!(kinds(aging), ["expiring"]);
        assert!(kinds(|there| there.options.collation = collation("simple")).is_empty());
        let both = kinds(|there| {
            there.options.capped = Some(true);
            there.options.collation = collation("en");
        });
        assert_eq!(both, ["capped", "collation"]);
    }
}
