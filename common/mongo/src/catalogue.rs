//! What is there in a database, as it was read: the ground for every judgement on it.
//!
//! Owns nothing beyond the values; `looking` reads them.

use std::collections::BTreeMap;

use layout::{Collection, Layout};
use mongodb::results::CollectionSpecification;

use super::definitions::is_needed;
use super::findings::{Finding, Lack};
use super::ledger_settings::LedgerSettings;
use super::names::{ACCOUNTS, TRANSACTIONS};
use super::seen_index::SeenIndex;

/// A collection that is there: what it is, and its indexes.
pub(super) type CollectionThere = (CollectionSpecification, Vec<SeenIndex>);

/// What is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    pub(super) settings: Option<LedgerSettings>,
    pub(super) collections: BTreeMap<String, CollectionThere>,
    /// The indexes that this program was told to accept. Those that the ledger has accepted are in
    /// its settings.
    pub(super) accepted: Vec<String>,
    /// Where accounts and transactions are, if in collections of the owner's own.
    pub(super) layout: Option<Layout>,
}

impl Catalogue {
    /// How a collection is laid out, if not as Tandem makes it.
    pub(super) fn stored(&self, collection: &str) -> Option<&Collection> {
        self.layout.as_ref().and_then(|layout| layout.of(collection))
    }

    /// The name of a collection in the database.
    pub(super) fn stored_name(&self, collection: &str) -> String {
        self.stored(collection).map_or(collection, Collection::name).to_owned()
    }

    /// What a collection lacks.
    pub(super) fn finding(&self, collection: &'static str, lack: Lack) -> Finding {
        Finding { collection, stored: self.stored_name(collection), lack }
    }

    /// Whether a ledger is to be set up among documents of others: Tandem writes its settings before
    /// it makes a collection.
    pub(super) fn is_of_others(&self) -> bool {
        let is_there = |name: &&str| self.collections.contains_key(*name);
        let is_made = [ACCOUNTS, TRANSACTIONS].iter().any(is_there);
        self.settings.is_none() && (is_made || self.layout.is_some())
    }

    /// Whether the database has any part of a ledger. Notes and settings alone do not count.
    pub(super) fn is_begun(&self) -> bool {
        let is_own = |name: &str| self.layout.is_some() && [ACCOUNTS, TRANSACTIONS].contains(&name);
        self.collections.keys().any(|name| is_needed(name) && !is_own(name))
    }
}
