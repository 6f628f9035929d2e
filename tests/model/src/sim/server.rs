//! A model of the database server: requests run document by document, become durable later, and a
//! fail-over loses what was not durable.
//!
//! Owns two copies of the documents, the primary's and the majority's, and what majority reads
//! show. Promises that a request uses the clock of its start throughout, that clocks of different
//! members differ by at most the skew, and that a document which the server refuses to write stays
//! unchanged and does not keep other documents of the request from being written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ledger::account::Account;
use ledger::journal::Heading;
use ledger::transaction::{Body, ParkCode, Parked, State, TransactionId};
use ledger::{
    Content, Ending, LeaseMs, Parking, Posting, Removal, RemovalKind, ServerMs, Transacted, Written,
};

use super::keyed::Inserted;
use super::lag::Lag;
use super::model::{self, Books, Transaction};
use super::native::Native;
use super::odd::Oddity;
use super::order::Ends;
use super::planted::Planted;
use super::replication::Write;
use super::request::{Reply, Request};
use super::{accounts, holds, moments};

/// What one step of a request did to its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Nothing: the document did not match, or there is none.
    Nothing,
    /// It was written.
    Wrote,
    /// It would have been written, but the server refuses it.
    Refused,
}

/// The model of MongoDB.
#[derive(Debug)]
pub struct Server {
    /// What the primary has.
    pub primary: Books,
    /// What a majority has.
    pub majority: Books,
    /// Writes on the primary that are not on a majority, oldest first.
    pub(super) log: VecDeque<Write>,
    /// The number of writes so far.
    pub written: u64,
    /// The error of the clock of the accounts' member.
    pub skew: i64,
    /// How long the next claims last; workers may differ in it.
    pub lease: LeaseMs,
    pub(super) planted: Option<Planted>,
    /// What reads show after a fail-over; none where there are no fail-overs.
    pub(super) lag: Option<Lag>,
    /// Native transactions that have begun.
    pub begun: BTreeMap<u64, Native>,
    /// What ends have read that have begun, each a native transaction, too.
    pub ending: BTreeMap<u64, Books>,
    /// What numberers have read that have not inserted: which number is next, and for which lines.
    pub(super) numbering: BTreeMap<u64, (u64, Vec<Ends>)>,
    /// The answer to what was written together last.
    pub(super) together: Option<Reply>,
}

impl Server {
    /// A server with these books, durable.
    #[must_use]
    pub fn new(books: Books, lease: LeaseMs, planted: Option<Planted>) -> Server {
        Server {
            primary: books.clone(),
            majority: books,
            log: VecDeque::new(),
            written: 0,
            skew: 0,
            lease,
            planted,
            lag: None,
            begun: BTreeMap::new(),
            ending: BTreeMap::new(),
            numbering: BTreeMap::new(),
            together: None,
        }
    }

    /// The same, with a majority commit point that lags after a fail-over.
    #[must_use]
    pub fn lagging(self) -> Server {
        let lag = Some(Lag::new(self.majority.clone()));
        Server { lag, ..self }
    }

    /// Runs the `step`-th part of a request that started at `started`.
    pub fn step(&mut self, request: &Request, step: usize, started: ServerMs) -> Stepped {
        match request {
            Request::Read(_) | Request::Bodies(_) | Request::Accounts(..) | Request::Holder(_) => {
                Stepped::Nothing
            }
            Request::Claim(ids, claim, worker_now) => {
                let server = self.planted != Some(Planted::WorkerClockInsteadOfServerClock);
                let now = if server { started } else { *worker_now };
                let (lease, alone) = (self.lease, ids.len() == 1);
                let planted = self.planted;
                self.transaction(&ids[step], |doc| {
                    model::claim(doc, claim, alone, lease, now, planted)
                })
            }
            Request::Post(postings, before) => self.post(&postings[step], *before, started),
            Request::Remove(kind, removals) => self.remove(*kind, &removals[step]),
            Request::Commit(guard, ids, claim) => {
                let planted = self.planted;
                self.transaction(&ids[step], |doc| {
                    model::commit(doc, *guard, claim, started, planted)
                })
            }
            Request::End(number, line, claim) => self.step_of_end(*number, line, claim),
            Request::Rest(ids, claim, not_before) => {
                let planted = self.planted;
                self.transaction(&ids[step], |doc| {
                    holds::rest(doc, claim, *not_before, started, planted)
                })
            }
            Request::Cancel(refused, claim) => {
                let cancelation = &refused[step];
                self.transaction(&cancelation.id, |doc| model::cancel(doc, cancelation, claim))
            }
            Request::Unclaim(ids, claim) => {
                self.transaction(&ids[step], |doc| model::unclaim(doc, claim))
            }
            Request::Release(ids, claim, after, not_before) => self
                .transaction(&ids[step], |doc| {
                    model::release(doc, claim, *after, *not_before, started)
                }),
            Request::Park(parkings) => self.park(&parkings[step]),
            Request::Transact(number, contents, heading) => {
                self.step_of_transaction(*number, contents, heading, started)
            }
            Request::Note(line, due_at) => {
                self.primary.due.insert(line.clone(), *due_at);
                self.wrote(Write::Due(line.clone(), Some(*due_at)));
                Stepped::Wrote
            }
            Request::Forget(lines) => {
                let line = &lines[step];
                if self.primary.due.remove(line).is_none() {
                    return Stepped::Nothing;
                }
                self.wrote(Write::Due(line.clone(), None));
                Stepped::Wrote
            }
            Request::Number(number, lines, looks) => self.step_of_numbering(*number, lines, *looks),
            Request::Announce(events) => {
                self.sent(&events[step]);
                Stepped::Wrote
            }
            Request::Insert(id, body) => self.insert(id, body, started),
            Request::InsertKeyed(attempt, call, id, body) => {
                self.insert_keyed((attempt, call), (id, body.as_ref()), started)
            }
            Request::CommitKeyed(attempt) => self.commit_keyed(attempt),
            Request::MakeDue(id) => {
                let stepped = self.transaction(id, |doc| moments::make_due(doc, started));
                self.set_apart(stepped, id)
            }
            Request::Expire(id) => {
                let planted = self.planted;
                let stepped = self.transaction(id, |doc| moments::expire(doc, started, planted));
                self.set_apart(stepped, id)
            }
            Request::Reschedule(id, not_before) => {
                self.transaction(id, |doc| moments::reschedule(doc, *not_before))
            }
            Request::AskCancel(id) => {
                self.transaction(id, |doc| model::request_cancel(doc, started))
            }
            Request::Confirm(id, captured) => {
                let planted = self.planted;
                self.transaction(id, |doc| holds::confirm(doc, captured, started, planted))
            }
            Request::ExpireHold(id) => {
                let planted = self.planted;
                self.transaction(id, |doc| holds::expire_hold(doc, started, planted))
            }
            Request::SetStatus(id, status) => {
                self.account(id, |account| accounts::set_status(account, *status))
            }
            Request::ParkById(ids, why) => self.park_by_id(&ids[step], why),
            Request::Unpark(id) => self.unpark(id),
            Request::Spoil(id, oddity) => {
                self.spoil(id, *oddity);
                Stepped::Wrote
            }
            Request::Mend(id) => {
                self.mend(id);
                Stepped::Wrote
            }
        }
    }

    /// Whether a transaction waits for a moment or for a client.
    #[must_use]
    pub fn rests(&self, id: &TransactionId) -> bool {
        self.primary.transactions.get(id).is_some_and(|doc| doc.state.is_resting())
    }

    /// Whether reads show a transaction as it is, and not as it was before some write.
    #[must_use]
    pub fn shows_the_newest(&self, id: &TransactionId) -> bool {
        self.shown().transactions.get(id) == self.primary.transactions.get(id)
    }

    /// What majority reads show.
    pub(super) fn shown(&self) -> &Books {
        self.lag.as_ref().and_then(Lag::shown).unwrap_or(&self.majority)
    }

    fn post(&mut self, posting: &Posting, before: ServerMs, started: ServerMs) -> Stepped {
        if self.primary.odd.is_broken(&posting.account) {
            return Stepped::Nothing;
        }
        let (now, planted) = (started + self.skew, self.planted);
        self.account(&posting.account, |account| {
            accounts::post(account, posting, before, now, planted)
        })
    }

    fn remove(&mut self, kind: RemovalKind, removal: &Removal) -> Stepped {
        if self.primary.odd.is_stuck(&removal.account) {
            return Stepped::Nothing;
        }
        let planted = self.planted;
        self.account(&removal.account, |account| accounts::remove(account, kind, removal, planted))
    }

    /// The first step reads at a snapshot and decides. The second commits: it writes everything at
    /// once, or nothing if a document to be written was changed in between or is refused.
    fn step_of_transaction(
        &mut self,
        number: u64,
        contents: &[Content],
        heading: &Heading,
        started: ServerMs,
    ) -> Stepped {
        let Some(native) = self.begun.remove(&number) else {
            self.begun.insert(number, Native::begin(contents, &self.primary, started));
            return Stepped::Nothing;
        };
        let asked = (contents, heading);
        let (documents, transacted) = native.commit(&self.primary, asked, started, self.planted);
        let conflict = Reply::Transacted(Transacted::Conflict);
        self.commit_together(documents, Reply::Transacted(transacted), conflict)
    }

    fn insert(&mut self, id: &TransactionId, body: &Body, started: ServerMs) -> Stepped {
        let known = self.primary.transactions.contains_key(id);
        if known && self.planted != Some(Planted::ResubmissionPostsTwice) {
            return Stepped::Nothing;
        }
        let doc = Transaction::initial(id.clone(), body.clone(), started);
        self.primary.transactions.insert(id.clone(), doc.clone());
        self.wrote(Write::Transaction(Box::new(doc)));
        Stepped::Wrote
    }

    /// In a native transaction, which nobody sees before its commit.
    fn insert_keyed(
        &mut self,
        attempt: (&str, &str),
        content: (&TransactionId, &Body),
        started: ServerMs,
    ) -> Stepped {
        let states = self.states_with_keys();
        match self.primary.insert_keyed(attempt, content, states, started) {
            Inserted::Duplicate => Stepped::Refused,
            Inserted::Conflict => Stepped::Nothing,
            Inserted::Open if self.planted == Some(Planted::PlainInsertOfAKey) => {
                self.commit_keyed(attempt.0)
            }
            Inserted::Open => Stepped::Wrote,
        }
    }

    fn commit_keyed(&mut self, attempt: &str) -> Stepped {
        let Some(doc) = self.primary.commit_keyed(attempt) else { return Stepped::Nothing };
        self.wrote(Write::Transaction(Box::new(doc)));
        Stepped::Wrote
    }

    /// The states in which a transaction has its exclusive key.
    fn states_with_keys(&self) -> &'static [State] {
        match self.planted {
            Some(Planted::KeyFreedEarly) => &[State::Scheduled, State::Initial],
            _ => &State::UNDECIDED,
        }
    }

    fn park(&mut self, parking: &Parking) -> Stepped {
        let planted = self.planted;
        let stepped = self.transaction(&parking.id, |doc| model::park(doc, parking, planted));
        self.note_where_refused(stepped, &parking.id, &parking.why);
        if planted == Some(Planted::ParkingLosesAMark) && stepped != Stepped::Nothing {
            let names: Vec<_> = self.primary.accounts.keys().cloned().collect();
            for name in names {
                self.account(&name, |account| account.pending_transactions.remove(&parking.id));
            }
        }
        stepped
    }

    fn park_by_id(&mut self, id: &TransactionId, why: &Parked) -> Stepped {
        let stepped = self.transaction(id, |doc| model::park_by_id(doc, why));
        self.note_where_refused(stepped, id, why);
        stepped
    }

    /// A sweeper notes what it can't move on.
    fn set_apart(&mut self, stepped: Stepped, id: &TransactionId) -> Stepped {
        let why = Parked::new(ParkCode::TransactionUnwritable, "the sweeper can't move it on");
        self.note_where_refused(stepped, id, &why);
        stepped
    }

    /// If the document can't be written, a note beside it says that it is parked.
    fn note_where_refused(&mut self, stepped: Stepped, id: &TransactionId, why: &Parked) {
        if stepped == Stepped::Refused {
            self.primary.aside.insert(id.clone(), why.clone());
            self.wrote(Write::Aside(id.clone(), Some(why.clone())));
        }
    }

    /// Those that are noted as parked now, or whose documents say so.
    fn parked(&self, parkings: &[Parking], written: &Written) -> Vec<TransactionId> {
        let says = |id: &&TransactionId| {
            self.primary.transactions.get(*id).is_some_and(|doc| doc.parked.is_some())
        };
        let noted = written.refused.iter().map(|refused| &parkings[refused.item].id);
        let ids = parkings.iter().map(|parking| &parking.id).filter(says);
        noted.chain(ids).cloned().collect()
    }

    fn unpark(&mut self, id: &TransactionId) -> Stepped {
        let is_noted = self.primary.aside.contains_key(id);
        let stepped = self.transaction(id, |doc| model::unpark(doc, is_noted));
        if stepped != Stepped::Refused && self.primary.aside.remove(id).is_some() {
            self.wrote(Write::Aside(id.clone(), None));
            return Stepped::Wrote;
        }
        stepped
    }

    fn account(&mut self, id: &Arc<str>, change: impl FnOnce(&mut Account) -> bool) -> Stepped {
        let Some(account) = self.primary.accounts.get_mut(id) else { return Stepped::Nothing };
        if self.primary.odd.is(id, Oddity::Refuses) {
            let would = change(&mut account.clone());
            return if would { Stepped::Refused } else { Stepped::Nothing };
        }
        if !change(account) {
            return Stepped::Nothing;
        }
        let account = account.clone();
        self.wrote(Write::Account(account));
        Stepped::Wrote
    }

    fn transaction(
        &mut self,
        id: &TransactionId,
        change: impl FnOnce(&mut Transaction) -> bool,
    ) -> Stepped {
        let Some(doc) = self.primary.transactions.get_mut(id) else { return Stepped::Nothing };
        if self.primary.odd.is(id, Oddity::Refuses) {
            let would = change(&mut doc.clone());
            return if would { Stepped::Refused } else { Stepped::Nothing };
        }
        if !change(doc) {
            return Stepped::Nothing;
        }
        let doc = doc.clone();
        self.wrote(Write::Transaction(Box::new(doc)));
        Stepped::Wrote
    }

    pub(super) fn wrote(&mut self, write: Write) {
        self.written += 1;
        self.log.push_back(write);
    }

    /// The answer to a request when all its steps have run.
    #[must_use]
    pub fn reply(&mut self, request: &Request, written: Written, now: ServerMs) -> Reply {
        let books = match self.planted {
            Some(Planted::NotMajority) => &self.primary,
            _ => self.shown(),
        };
        match request {
            Request::Read(ids) => Reply::Seen(books.seen(ids, now)),
            Request::Bodies(ids) => Reply::Bodies(books.bodies(ids)),
            Request::Accounts(looks) => Reply::Accounts(books.accounts(looks)),
            Request::Holder(key) => {
                Reply::Seen(books.seen(&books.holders(key, self.states_with_keys()), now))
            }
            Request::Transact(..) => {
                self.together.take().unwrap_or(Reply::Transacted(Transacted::Conflict))
            }
            Request::Number(..) => self.together.take().unwrap_or(Reply::Numbered(false)),
            Request::End(..) => self.together.take().unwrap_or(Reply::Ended(Ending::Conflict)),
            Request::Park(parkings) => Reply::Parked(self.parked(parkings, &written)),
            Request::Insert(..)
            | Request::InsertKeyed(..)
            | Request::CommitKeyed(_)
            | Request::AskCancel(_)
            | Request::Confirm(..)
            | Request::ExpireHold(_)
            | Request::MakeDue(_)
            | Request::Expire(_)
            | Request::Reschedule(..)
            | Request::SetStatus(..)
            | Request::Spoil(..)
            | Request::Mend(_)
            | Request::Unpark(_)
            | Request::ParkById(..)
            | Request::Claim(..)
            | Request::Rest(..)
            | Request::Post(..)
            | Request::Remove(..)
            | Request::Commit(..)
            | Request::Cancel(..)
            | Request::Release(..)
            | Request::Unclaim(..)
            | Request::Note(..)
            | Request::Forget(_)
            | Request::Announce(_) => Reply::Written(written),
        }
    }
}
