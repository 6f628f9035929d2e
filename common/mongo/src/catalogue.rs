//! What is there in a database, as it was read: the ground for every judgement on it.
//!
//! Owns nothing beyond the values; `looking` reads them.

use std::collections::BTreeMap;

use mongodb::results::CollectionSpecification;

use super::definitions::is_needed;
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
    /// Whether accounts and transactions are in collections of the owner's own.
    pub(super) is_laid_out: bool,
    /// The path by which accounts are known, where that is not `_id`.
    pub(super) key: Option<String>,
}

impl Catalogue {
    /// Whether the database has any part of a ledger. Notes and settings alone do not count.
    pub(super) fn is_begun(&self) -> bool {
        let is_own = |name: &str| self.is_laid_out && [ACCOUNTS, TRANSACTIONS].contains(&name);
        self.collections.keys().any(|name| is_needed(name) && !is_own(name))
    }
}
