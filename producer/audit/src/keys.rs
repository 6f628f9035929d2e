//! Which undecided transactions have the same exclusive key: pure.
//!
//! Transactions are read one after the other, so two that are seen with a key may have had it one
//! after the other, too. Whether the first still has it tells: nothing that is decided becomes
//! undecided again.

use std::collections::{HashMap, HashSet};

use ledger::limits::{NAME_BYTES_MAX, echo};
use ledger::transaction::State;
use mongodb::bson::{Bson, RawDocument};

use super::findings::{Findings, Rule};
use super::raw::id_of;

/// The keys that were seen, and who was seen last with each.
#[derive(Default)]
pub(super) struct Keys {
    holders: HashMap<String, Holder>,
    contests: Vec<Contest>,
}

#[derive(Clone)]
struct Holder {
    id: Bson,
    name: String,
}

/// A key with which two transactions were seen.
pub(super) struct Contest {
    key: String,
    first: Holder,
    second: String,
}

impl Contest {
    /// The `_id` of the one that was seen first.
    pub fn first(&self) -> &Bson {
        &self.first.id
    }
}

/// The exclusive key of a transaction that is undecided.
pub(super) fn key_of(document: &RawDocument) -> Option<&str> {
    let state = State::parse(document.get_str("state").ok()?)?;
    State::UNDECIDED.contains(&state).then(|| document.get_str("exclusiveKey").ok())?
}

impl Keys {
    /// Takes the key of a transaction in, if it is undecided.
    pub fn add(&mut self, document: &RawDocument) {
        let Some(key) = key_of(document) else { return };
        let name = id_of(document);
        let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
        // A query for many ids that are too long would be too large, so nobody asks for them.
        let id = id.filter(|_| name.len() <= NAME_BYTES_MAX).unwrap_or(Bson::Null);
        let holder = Holder { id, name };
        let second = holder.name.clone();
        if let Some(first) = self.holders.insert(key.to_owned(), holder) {
            self.contests.push(Contest { key: key.to_owned(), first, second });
        }
    }

    /// The contests so far, to be looked at.
    pub fn take_contests(&mut self) -> Vec<Contest> {
        std::mem::take(&mut self.contests)
    }
}

/// Adds a violation for each of them whose first transaction `still` has the key.
pub(super) fn compare(
    contests: &[Contest],
    still: &HashSet<(String, String)>,
    findings: &mut Findings,
) {
    for Contest { key, first, second } in contests {
        if still.contains(&(first.name.clone(), key.clone())) {
            let (key, first) = (echo(key), echo(&first.name));
            let message = format!("has the exclusive key {key:?}, as transactions/{first}");
            findings.add(Rule::Key, || format!("transactions/{}", echo(second)), message);
        }
    }
}
