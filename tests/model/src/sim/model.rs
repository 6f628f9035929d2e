//! A model of the ledger: what each statement does to one transaction, and what a read shows.
//!
//! Owns the semantics of `mongo::statements`, in plain code over plain maps; those of
//! accounts are in `super::accounts`. Promises to answer and to change exactly as MongoDB would; a
//! conformance test checks that.

use std::collections::{BTreeMap, BTreeSet};

use ledger::account::Account;
use ledger::event::Ended;
use ledger::transaction::{AccountId, Body, Parked, Reason, ReasonCode, State, TransactionId};
use ledger::{
    AccountRead, Cancelation, Claim, Commit, Content, LeaseMs, Look, Parking, Seen, ServerMs, Size,
};
use mongodb::bson::DateTime;

use super::journal::{self, StoredLine};
use super::keyed::Keyed;
use super::moments::{applied_at, expires_at};
use super::odd::{Odd, Oddity};
use super::order::Order;
use super::planted::Planted;

/// A transaction document.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// Its `_id`.
    pub id: TransactionId,
    /// Its content, or why the content is invalid.
    pub body: Result<Body, String>,
    /// Its state.
    pub state: State,
    /// The owner's token.
    pub claim: Option<String>,
    /// Until when the owner may post.
    pub lease_until: ServerMs,
    /// When other workers may claim it.
    pub takeover_at: ServerMs,
    /// Who claimed it last.
    pub application: Option<String>,
    /// How often it was claimed.
    pub attempts: u32,
    /// How often it was claimed alone, without the first claim.
    pub attempts_alone: u32,
    /// Why it is parked, if it is.
    pub parked: Option<Parked>,
    /// When it was inserted.
    pub created_at: ServerMs,
    /// Why it was canceled.
    pub reason: Option<Reason>,
    /// Its reason says that nobody can have posted it.
    pub never_posted: bool,
    /// When a sweeper has to look at it next.
    pub due_at: Option<ServerMs>,
    /// The line that says how it has ended.
    pub line: Option<String>,
    /// When it was applied; no document has this. For the check that it was in time.
    pub applied_at: Option<ServerMs>,
    /// The call that inserted it with its exclusive key; no document has this. For the check that
    /// it is none that was refused.
    pub inserted_by: Option<String>,
    /// A rule that a change has broken; no document has this.
    pub breach: Option<String>,
}

impl Transaction {
    /// A fresh submission.
    #[must_use]
    pub fn initial(id: TransactionId, body: Body, now: ServerMs) -> Transaction {
        let state = body.first_state(DateTime::from_millis(now));
        let terms = body.terms();
        let due = if state == State::Scheduled { terms.not_before } else { terms.expires_at };
        let due_at = due.map(DateTime::timestamp_millis);
        Transaction {
            id,
            body: Ok(body),
            state,
            claim: None,
            lease_until: 0,
            takeover_at: 0,
            application: None,
            attempts: 0,
            attempts_alone: 0,
            parked: None,
            created_at: now,
            reason: None,
            never_posted: false,
            due_at,
            line: None,
            applied_at: None,
            inserted_by: None,
            breach: None,
        }
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> Size {
        let legs = self.body.iter().flat_map(|body| body.legs());
        let bytes = legs.clone().map(|leg| leg.account.len() + BYTES_OF_AN_AMOUNT).sum();
        Size { legs: legs.count(), bytes }
    }

    /// Whether its debits are put on hold first.
    pub(super) fn is_hold(&self) -> bool {
        self.body.as_ref().is_ok_and(|body| body.terms().hold)
    }

    /// Whether somebody has confirmed what was on hold.
    pub(super) fn is_confirmed(&self) -> bool {
        self.body.as_ref().is_ok_and(|body| body.terms().captured.is_some())
    }

    /// The content in the form that the engine reads.
    fn content(&self, odd: &Odd) -> Result<Body, String> {
        if odd.is(&self.id, Oddity::Unreadable) {
            return Err("it makes no sense".to_owned());
        }
        let mut body = self.body.clone()?;
        (body.metadata, body.reverses) = (None, None);
        Ok(body)
    }
}

const BYTES_OF_AN_AMOUNT: usize = 8;

/// Claims a document, alone or with others; true if it matched.
pub fn claim(
    doc: &mut Transaction,
    claim: &Claim,
    alone: bool,
    lease: LeaseMs,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    let free = match doc.state {
        _ if doc.parked.is_some() => false,
        State::Initial => true,
        State::Held if planted == Some(Planted::HeldTakenOverAsStuck) => now > doc.takeover_at,
        State::Pending | State::Applied | State::Canceling => now > doc.takeover_at,
        State::Scheduled | State::Held | State::Done | State::Canceled => false,
    };
    if free {
        if doc.state == State::Initial {
            doc.state = State::Pending;
        } else {
            doc.attempts_alone += u32::from(alone);
        }
        doc.claim = Some(claim.token.clone());
        doc.application = Some(claim.application.clone());
        doc.attempts += 1;
        doc.lease_until = now + lease.lease;
        doc.takeover_at = now + lease.lease + lease.grace;
    }
    free
}

/// Applies a pending transaction, the commit point; true when it matched.
pub fn commit(
    doc: &mut Transaction,
    guard: Commit,
    claim: &Claim,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    let guarded = guard == Commit::InTime && planted != Some(Planted::CommitWithoutTheClock);
    let is_late = expires_at(doc).is_none_or(|expires_at| expires_at <= now);
    if doc.state != State::Pending || !ours || (guarded && is_late) {
        return false;
    }
    doc.state = State::Applied;
    doc.applied_at = applied_at(doc, now);
    true
}

pub(super) fn end_ownership(doc: &mut Transaction) {
    doc.claim = None;
    doc.lease_until = 0;
    doc.takeover_at = 0;
    doc.parked = None;
}

/// Moves a pending transaction to `canceling`; true if it matched.
pub fn cancel(doc: &mut Transaction, cancelation: &Cancelation, claim: &Claim) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    let is_confirmed = cancelation.unconfirmed && doc.is_confirmed();
    if doc.state != State::Pending || !ours || is_confirmed {
        return false;
    }
    doc.state = State::Canceling;
    doc.reason = Some(cancelation.reason.clone());
    doc.never_posted = cancelation.never_posted;
    true
}

/// Releases a claim; true if it matched.
pub fn release(
    doc: &mut Transaction,
    claim: &Claim,
    after_ms: i64,
    not_before: ServerMs,
    now: ServerMs,
) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    if ours {
        doc.claim = None;
        doc.takeover_at = (now + after_ms).max(not_before);
    }
    ours
}

/// Takes a first claim back; true if it matched.
pub fn unclaim(doc: &mut Transaction, claim: &Claim) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    let untouched = ours && doc.state == State::Pending && doc.attempts == 1;
    if untouched {
        doc.state = State::Initial;
        doc.attempts = 0;
        doc.application = None;
        end_ownership(doc);
    }
    untouched
}

/// Parks a transaction: its claim is removed, its state and its takeover time stay. True if it
/// matched.
pub fn park(doc: &mut Transaction, parking: &Parking, planted: Option<Planted>) -> bool {
    let as_given = doc.state == parking.state && doc.claim == parking.claim;
    if !as_given || doc.parked.is_some() {
        return false;
    }
    doc.claim = None;
    doc.parked = Some(parking.why.clone());
    if planted == Some(Planted::ParkingForgetsTheTakeover) {
        doc.takeover_at = 0;
    }
    true
}

/// Parks a transaction that is not final, whoever owns it; true if it matched.
pub fn park_by_id(doc: &mut Transaction, why: &Parked) -> bool {
    let parks = State::UNFINISHED.contains(&doc.state) && doc.parked.is_none();
    if parks {
        doc.parked = Some(why.clone());
    }
    parks
}

/// Brings a transaction back, as the producer's command does it; true when it matched.
pub fn unpark(doc: &mut Transaction, is_noted: bool) -> bool {
    if doc.state.is_final() || !(is_noted || doc.parked.is_some()) {
        return false;
    }
    doc.parked = None;
    doc.attempts_alone = 0;
    true
}

/// A client's request to cancel, as the producer's command does it; true if it matched.
pub fn request_cancel(doc: &mut Transaction, now: ServerMs) -> bool {
    let mut code = ReasonCode::Requested;
    match doc.state {
        State::Scheduled | State::Initial => {
            doc.takeover_at = now;
            doc.never_posted = true;
            doc.due_at = None;
        }
        State::Held => {
            doc.takeover_at = doc.takeover_at.max(now);
            doc.due_at = None;
            code = ReasonCode::Released;
        }
        State::Pending => {}
        State::Applied | State::Done | State::Canceling | State::Canceled => return false,
    }
    doc.state = State::Canceling;
    doc.reason = Some(Reason::new(code, "canceled on request"));
    true
}

/// All documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Books {
    /// The accounts by id.
    pub accounts: BTreeMap<AccountId, Account>,
    /// The transactions by id.
    pub transactions: BTreeMap<TransactionId, Transaction>,
    /// Parked transactions whose documents could not be written.
    pub aside: BTreeMap<TransactionId, Parked>,
    /// The odd documents, and how they are odd.
    pub odd: Odd,
    /// The lines by their names.
    pub journal: BTreeMap<String, StoredLine>,
    /// The lines whose events are noted as due, and from when on.
    pub due: BTreeMap<String, ServerMs>,
    /// The numbers of what has ended.
    pub order: Order,
    /// Events that the broker has taken. They are in no document, and no fail-over loses them.
    pub sent: BTreeSet<Ended>,
    /// Inserts with exclusive keys that are open, and what their callers were told.
    pub keyed: Keyed,
}

impl Books {
    /// Whether an event was sent, or is noted as due.
    #[must_use]
    pub fn is_announced(&self, event: &Ended) -> bool {
        let mut due = self.due.keys();
        self.sent.contains(event) || due.any(|line| journal::events(self, line).contains(event))
    }

    /// Whether this transaction is parked.
    #[must_use]
    pub fn is_parked(&self, id: &TransactionId) -> bool {
        let in_document = |doc: &Transaction| doc.parked.is_some();
        self.aside.contains_key(id) || self.transactions.get(id).is_some_and(in_document)
    }

    /// The transactions as a read shows them.
    #[must_use]
    pub fn seen(&self, ids: &[TransactionId], server_now: ServerMs) -> Vec<Seen> {
        let found = ids.iter().filter_map(|id| self.transactions.get(id));
        found.map(|doc| self.seen_one(doc, server_now)).collect()
    }

    fn seen_one(&self, doc: &Transaction, server_now: ServerMs) -> Seen {
        let large = self.odd.is(&doc.id, Oddity::Large);
        let content = doc.content(&self.odd);
        let legs = match &content {
            Ok(_) => doc.size().legs,
            // Of a large document only the number of legs is read; a field that is no list counts
            // as a transfer.
            Err(_) if large => 2,
            // For its reader, a document that can't be read has no legs.
            Err(_) => 0,
        };
        Seen {
            id: doc.id.clone(),
            state: doc.state,
            claim: doc.claim.clone(),
            lease_until: doc.lease_until,
            takeover_at: doc.takeover_at,
            attempts: doc.attempts,
            created_at: doc.created_at,
            attempts_alone: doc.attempts_alone,
            parked: doc.parked.is_some(),
            never_posted: doc.never_posted,
            server_now,
            size: Size { legs, ..doc.size() },
            body: (!large).then_some(content),
        }
    }

    /// The contents of transactions.
    #[must_use]
    pub fn bodies(&self, ids: &[TransactionId]) -> Vec<Content> {
        let found = ids.iter().filter_map(|id| self.transactions.get(id));
        found.map(|doc| (doc.id.clone(), doc.content(&self.odd))).collect()
    }

    /// The accounts as a read shows them, with those marks that it asks about.
    #[must_use]
    pub fn accounts(&self, looks: &[Look]) -> Vec<AccountRead> {
        let found = |(id, asked): &Look| Some(self.account_read(self.accounts.get(id)?, asked));
        looks.iter().filter_map(found).collect()
    }

    fn account_read(&self, account: &Account, asked: &[TransactionId]) -> AccountRead {
        let there = |id: &&TransactionId| account.pending_transactions.contains(*id);
        let marks: BTreeSet<_> = asked.iter().filter(there).cloned().collect();
        let readable = !self.odd.is(&account.id, Oddity::BrokenMarks);
        let read = if self.odd.is_broken(&account.id) {
            Err("a field of it makes no sense".to_owned())
        } else {
            Ok(Account { pending_transactions: marks.clone(), ..account.clone() })
        };
        AccountRead {
            id: account.id.clone(),
            marks: readable.then_some(marks),
            account: read,
            as_written: true,
        }
    }
}
