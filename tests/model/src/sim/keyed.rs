//! Inserts with exclusive keys, as MongoDB carries them out: an insert in an open native
//! transaction reserves its `_id` and its key, and its commit makes it a document.
//!
//! Owns the semantics of `mongo::keyed`, in plain code over plain maps.

use std::collections::{BTreeMap, BTreeSet};

use ledger::ServerMs;
use ledger::transaction::{Body, State, TransactionId};

use super::model::{Books, Transaction};

/// What became of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in an open transaction.
    Open,
    /// The `_id` or the key exists.
    Duplicate,
    /// Another open transaction has the `_id` or the key.
    Conflict,
}

/// Open transactions, and what the callers were told, which is in no document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keyed {
    /// The document of each open transaction, by the attempt that has begun it.
    pub open: BTreeMap<String, Transaction>,
    /// The transactions that were accepted.
    pub accepted: BTreeSet<TransactionId>,
    /// The calls that were refused, because another transaction had the key.
    pub refused: BTreeSet<String>,
}

/// The key of a transaction.
#[must_use]
pub fn key(doc: &Transaction) -> Option<&str> {
    doc.body.as_ref().ok()?.terms().exclusive_key.as_deref()
}

impl Books {
    /// The undecided transactions that have this key; `states` says what counts as undecided.
    pub fn holders(&self, of: &str, states: &[State]) -> Vec<TransactionId> {
        let holds = |doc: &&Transaction| states.contains(&doc.state) && key(doc) == Some(of);
        self.transactions.values().filter(holds).map(|doc| doc.id.clone()).collect()
    }

    /// Inserts in a native transaction, which stays open.
    pub fn insert_keyed(
        &mut self,
        (attempt, call): (&str, &str),
        (id, body): (&TransactionId, &Body),
        states: &[State],
        now: ServerMs,
    ) -> Inserted {
        let mut doc = Transaction::initial(id.clone(), body.clone(), now);
        doc.inserted_by = Some(call.to_owned());
        let wanted = key(&doc).unwrap_or_default();
        let mut open = self.keyed.open.values();
        // The index of the `_id` comes first.
        if open.clone().any(|open| open.id == *id) {
            return Inserted::Conflict;
        }
        if self.transactions.contains_key(id) {
            return Inserted::Duplicate;
        }
        if open.any(|open| key(open) == Some(wanted)) {
            return Inserted::Conflict;
        }
        if !self.holders(wanted, states).is_empty() {
            return Inserted::Duplicate;
        }
        self.keyed.open.insert(attempt.to_owned(), doc);
        Inserted::Open
    }

    /// Commits the transaction of an attempt, if it is open: then this is its document.
    pub fn commit_keyed(&mut self, attempt: &str) -> Option<Transaction> {
        let doc = self.keyed.open.remove(attempt)?;
        self.transactions.insert(doc.id.clone(), doc.clone());
        Some(doc)
    }

    /// Whether another transaction than this one has the key, or reserves it.
    #[must_use]
    pub fn has_rival(&self, of: &str, id: &TransactionId) -> bool {
        let reserves = |open: &Transaction| open.id != *id && key(open) == Some(of);
        self.keyed.open.values().any(reserves)
            || self.holders(of, &State::UNDECIDED).iter().any(|holder| holder != id)
    }
}

/// What no caller may see: two undecided transactions with one key, an insert of a call that was
/// refused, an accepted transaction that is not there.
#[must_use]
pub fn violations(books: &Books) -> Vec<String> {
    let mut wrong = Vec::new();
    for doc in books.transactions.values() {
        let holders = books.holders(key(doc).unwrap_or_default(), &State::UNDECIDED);
        if holders.len() > 1 {
            wrong.push(format!("rule 9: {holders:?} are undecided and have one key"));
        }
        let refused = |call: &String| books.keyed.refused.contains(call);
        if let Some(call) = doc.inserted_by.as_ref().filter(|call| refused(call)) {
            wrong
                .push(format!("rule 9: {call} was refused, and its insert of {} is there", doc.id));
        }
    }
    let lost = books.keyed.accepted.iter().filter(|id| !books.transactions.contains_key(*id));
    wrong.extend(lost.map(|id| format!("rule 7: {id} was accepted and is not there")));
    wrong
}
