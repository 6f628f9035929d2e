//! The model of the end of transactions in two phases: final states, their line and the note of
//! their events, all of it in one native transaction.
//!
//! Owns the semantics of [`ledger::Ledger::end`], in plain code. As in `super::native`, the first
//! step takes a snapshot, and the second commits or has a conflict: on the server the first writer
//! wins, here the first committer, which allows the same histories.

use ledger::event::End;
use ledger::journal::{Entry, Heading, Line};
use ledger::transaction::State;
use ledger::{Claim, Ending, Fault};

use super::journal::StoredLine;
use super::model::{Books, Transaction, end_ownership};
use super::native::Documents;
use super::odd::Oddity;
use super::planted::Planted;
use super::replication::Write;
use super::request::Reply;
use super::server::{Server, Stepped};

/// The documents that an end reads.
#[must_use]
pub fn snapshot(line: &Line, books: &Books) -> Books {
    let docs = line.entries.iter().filter_map(|entry| books.transactions.get(&entry.id));
    let transactions = docs.map(|doc| (doc.id.clone(), doc.clone())).collect();
    Books { transactions, ..Books::default() }
}

/// What an end writes to these documents; none if it is in conflict with somebody.
#[must_use]
pub fn documents(
    line: &Line,
    claim: &Claim,
    snapshot: &Books,
    books: &Books,
    planted: Option<Planted>,
) -> Option<Documents> {
    let ended = line.entries.iter().map(|entry| {
        let doc = snapshot
            .transactions
            .get(&entry.id)
            .filter(|doc| may_end(doc, entry, claim, planted))?;
        let is_unchanged = books.transactions.get(&entry.id) == Some(doc);
        is_unchanged.then(|| ended(doc, entry, claim, &line.heading))
    });
    let transactions: Vec<Transaction> = match planted {
        // It writes what it may, and its line names all of them.
        Some(Planted::EntryTooMany) => ended.flatten().collect(),
        _ => ended.collect::<Option<_>>()?,
    };
    let is_known = books.journal.contains_key(&line.heading.id);
    let is_taken = is_known && planted != Some(Planted::LineWrittenOver);
    (!is_taken && !transactions.is_empty()).then(|| {
        let documents = Documents { transactions, ..Documents::default() };
        documents.with_line(line, books, planted)
    })
}

fn may_end(doc: &Transaction, entry: &Entry, claim: &Claim, planted: Option<Planted>) -> bool {
    let is_ours = doc.claim.as_deref() == Some(&claim.token);
    let is_left = doc.state == left_by(entry.end);
    match planted {
        Some(Planted::EndWithoutTheClaim) => is_left,
        Some(Planted::EndWithoutTheState) => {
            is_ours || (doc.state.is_final() && doc.claim.is_none())
        }
        _ => is_ours && is_left,
    }
}

/// The state that an end leaves.
fn left_by(end: End) -> State {
    match end {
        End::Done => State::Applied,
        End::Canceled => State::Canceling,
    }
}

fn ended(doc: &Transaction, entry: &Entry, claim: &Claim, heading: &Heading) -> Transaction {
    let mut doc = doc.clone();
    if !doc.state.is_final() && doc.claim.as_deref() != Some(&claim.token) {
        doc.breach = Some(format!("rule 11: {} was ended by somebody who does not own it", doc.id));
    }
    doc.state = entry.end.state();
    doc.due_at = None;
    doc.line = Some(heading.id.clone());
    end_ownership(&mut doc);
    doc
}

impl Documents {
    /// The same with their line, and the note of its events if there are any.
    #[must_use]
    pub fn with_line(mut self, line: &Line, books: &Books, planted: Option<Planted>) -> Documents {
        let Heading { id, events_due_at, .. } = &line.heading;
        self.line = Some((id.clone(), StoredLine::of(line, books, planted)));
        self.due = events_due_at.map(|due_at| (id.clone(), due_at));
        match planted {
            Some(Planted::LineWithoutItsEffect) => {
                (self.accounts, self.transactions) = (Vec::new(), Vec::new());
            }
            Some(Planted::EffectWithoutItsLine) => self.line = None,
            Some(Planted::NoteBesideTheCommit) => self.due = None,
            Some(Planted::LineNameMissing) => {
                self.transactions.iter_mut().for_each(|doc| doc.line = None);
            }
            _ => {}
        }
        self
    }
}

impl Server {
    /// The first step of an end reads at a snapshot. The second writes everything at once, or
    /// nothing.
    pub(super) fn step_of_end(&mut self, number: u64, line: &Line, claim: &Claim) -> Stepped {
        let Some(snapshot) = self.ending.remove(&number) else {
            self.ending.insert(number, snapshot(line, &self.primary));
            return Stepped::Nothing;
        };
        let documents = documents(line, claim, &snapshot, &self.primary, self.planted);
        let answer = |ending| Reply::Ended(ending);
        self.commit_together(documents, answer(Ending::Written), answer(Ending::Conflict))
    }

    /// Writes documents together, and keeps the answer: which it is if they are written, and which
    /// if there is a conflict. One that is refused keeps all of them from being written.
    pub(super) fn commit_together(
        &mut self,
        documents: Option<Documents>,
        written: Reply,
        conflict: Reply,
    ) -> Stepped {
        let odd = &self.primary.odd;
        let (stepped, reply) = match documents {
            None => (Stepped::Nothing, conflict),
            Some(documents) if documents.ids().any(|id| odd.is(id, Oddity::Refuses)) => {
                (Stepped::Refused, Reply::Failed(Fault::Refused))
            }
            Some(documents) => {
                documents.clone().store(&mut self.primary);
                self.wrote(Write::Together(documents));
                (Stepped::Wrote, written)
            }
        };
        self.together = Some(reply);
        stepped
    }
}
