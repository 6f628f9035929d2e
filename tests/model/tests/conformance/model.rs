//! The model, used as the simulator uses it: one request, document by document.

use std::collections::{BTreeMap, BTreeSet};

use ledger::amount::Amount;
use ledger::journal::Net;
use ledger::transaction::{
    AccountId, Body, DECIDED_KEY, DUE_AT, Parked, State, TransactionId, legs_to_bson,
};
use ledger::{Claim, Claimed, Refused, ServerMs, Written};
use model::sim::journal::{self, StoredLine};
use model::sim::keyed::Inserted;
use model::sim::model::{Books, Transaction};
use model::sim::odd::Oddity;
use model::sim::request::{Reply, Request};
use model::sim::server::{Server, Stepped};
use model::sim::submit::{self, Habits, Step};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::fields::{self, Answer, Shown};
use crate::operation::{BROKEN, HOUR, KEYS, LINES, Lease, Operation};
use crate::schemas::Names;
use crate::sequence::Sequence;
use crate::terms::{Terms, broken, contents};
use crate::written::{self, Others};

/// A content with more legs is too long to be read together with others.
const LEGS_MAX_OF_SMALL: usize = 3;

/// How a client goes about an insert with an exclusive key.
const HABITS: Habits = Habits { attempts_max: 2, commits_separately: true };

/// The model, as the sequences use it.
pub struct Model {
    server: Server,
    /// How accounts are stored, as far as Tandem has not written them.
    stored: BTreeMap<AccountId, Others>,
    /// The times of each transaction by their fields, which the model itself does not keep.
    times: BTreeMap<TransactionId, BTreeMap<&'static str, ServerMs>>,
    names: &'static Names,
}

impl Model {
    /// A model of the documents that the sequence starts from.
    pub fn new(sequence: &Sequence) -> Model {
        let names = sequence.names;
        let mut books = Books::default();
        for account in &sequence.accounts {
            books.accounts.insert(account.id.clone(), account.clone());
        }
        let problem = Body::from_document(&broken(names)).map_err(|error| error.to_string());
        let template =
            Transaction::initial(names.transactions[BROKEN].into(), sequence.bodies[0].clone(), 0);
        let state = State::Initial;
        let broken = Transaction { body: problem, state, due_at: None, ..template };
        books.transactions.insert(broken.id.clone(), broken);
        let server = Server::new(books, Terms::lease(Lease::Holds), None);
        let ids = sequence.accounts.iter().map(|account| account.id.clone());
        let stored = ids.zip(sequence.stored.iter().cloned()).collect();
        Model { server, stored, times: BTreeMap::new(), names }
    }

    /// Every document, as the ledger would have written it.
    pub fn shown(&self, terms: &Terms<'_>) -> Shown {
        let mut shown = Shown::new();
        for account in self.server.primary.accounts.values() {
            let document = written::document(account, &self.stored[&account.id]);
            shown.insert(account.id.to_string(), fields::of(&document, terms.begun));
        }
        for transaction in self.server.primary.transactions.values() {
            let mut document = written(transaction, self.names);
            for (field, at) in self.times.get(&transaction.id).into_iter().flatten() {
                document.insert(*field, DateTime::from_millis(*at));
            }
            if let Some(why) = &transaction.parked {
                document.insert("parked", note(why, terms.begun));
            }
            shown.insert(transaction.id.to_string(), fields::of(&document, terms.begun));
        }
        for (id, why) in &self.server.primary.aside {
            let mut note = note(why, terms.begun);
            note.insert("_id", id.as_ref());
            note.insert("kind", "tandem-parked-transaction");
            shown.insert(format!("{id}, beside it"), fields::of(&note, terms.begun));
        }
        for (line, due_at) in &self.server.primary.due {
            let note = doc! {
                "_id": line,
                "kind": "tandem-due-events",
                "dueAt": DateTime::from_millis(*due_at),
                "events": journal::events(&self.server.primary, line).len() as i64,
                "refusals": 0,
            };
            shown.insert(format!("the note on {line}"), fields::of(&note, terms.begun));
        }
        for (id, line) in &self.server.primary.journal {
            let line = line_document(id, line, terms.begun);
            shown.insert(format!("the line {id}"), fields::of(&line, terms.begun));
        }
        shown
    }

    /// Runs one operation at a moment of the server's clock.
    pub fn run(
        &mut self,
        terms: &Terms<'_>,
        operation: &Operation,
        created_at: ServerMs,
        now: ServerMs,
    ) -> Answer {
        match operation {
            Operation::Insert { transaction, content } => {
                let body = terms.sequence.bodies[*content].clone();
                let id = terms.transaction(*transaction);
                match body.terms().exclusive_key.is_some() {
                    true => self.submit_keyed(&id.into(), &body, created_at),
                    false => self.insert(id, body, created_at),
                }
            }
            Operation::InsertBeside { first, second, commits } => {
                let content =
                    |at: usize| (terms.transaction(at).into(), terms.sequence.bodies[at].clone());
                self.insert_beside(content(*first), content(*second), *commits, created_at)
            }
            Operation::Holder(key) => {
                match self.request(&Request::Holder(KEYS[*key].into()), now) {
                    Reply::Seen(seen) => {
                        Answer::Holder(seen.first().map(|seen| seen.id.to_string()))
                    }
                    other => unreachable!("a read answers documents, not {other:?}"),
                }
            }
            Operation::RequestCancel(at) => {
                let id: TransactionId = terms.transaction(*at).into();
                self.request(&Request::AskCancel(id.clone()), now);
                let found = self.server.primary.transactions.get(&id);
                found.map_or(Answer::Refused, |found| Answer::Is(found.state))
            }
            Operation::Confirm(at) => {
                let confirm = Request::Confirm(terms.transaction(*at).into(), terms.captured(*at));
                self.answer(terms, &confirm, now)
            }
            Operation::Rest(ids, by, not_before) => {
                let not_before = terms.at(*not_before);
                self.answer(terms, &Request::Rest(terms.ids(ids), by.claim(), not_before), now)
            }
            Operation::MakeDue(ids) => self.each(terms.ids(ids), Request::MakeDue, now),
            Operation::Expire(ids) => self.each(terms.ids(ids), Request::Expire, now),
            Operation::Reschedule(at, when) => {
                let request = Request::Reschedule(terms.transaction(*at).into(), terms.at(*when));
                self.answer(terms, &request, now)
            }
            Operation::SetStatus(at, to) => {
                let id: AccountId = terms.account(*at).into();
                self.request(&Request::SetStatus(id.clone(), *to), now);
                let status = self.server.primary.accounts.get(&id).map(|account| account.status);
                if status == Some(*to) { Answer::Has(*to) } else { Answer::Refused }
            }
            Operation::Claim(ids, by, lease) => {
                self.server.lease = Terms::lease(*lease);
                let ids = terms.ids(ids);
                let claimed = self.request(&Request::Claim(ids.clone(), by.claim(), now), now);
                let Reply::Written(Written { refused, .. }) = claimed else {
                    unreachable!("a claim answers what it wrote")
                };
                let seen = self.server.primary.seen(&ids, now);
                Answer::claimed(Claimed { seen, refused }, terms.begun)
            }
            Operation::Unclaim(ids, by) => {
                self.request(&Request::Unclaim(terms.ids(ids), by.claim()), now);
                Answer::Released
            }
            Operation::Read(ids) => self.answer(terms, &Request::Read(terms.ids(ids)), now),
            Operation::Bodies(ids) => self.answer(terms, &Request::Bodies(terms.ids(ids)), now),
            Operation::Accounts(at, marks) => {
                let request = Request::Accounts(terms.looks(at, marks));
                self.answer(terms, &request, now)
            }
            Operation::Post { ids, grouping, before, settled } => {
                let postings = terms.riding(terms.postings(ids, *grouping), settled);
                self.answer(terms, &Request::Post(postings, terms.at(*before)), now)
            }
            Operation::Remove(kind, ids, grouping) => {
                let removals = terms.removals(ids, *grouping);
                self.answer(terms, &Request::Remove(*kind, removals), now)
            }
            Operation::Commit(guard, ids, by) => {
                self.answer(terms, &Request::Commit(*guard, terms.ids(ids), by.claim()), now)
            }
            Operation::End(ends, by, under) => {
                let contents = self.server.primary.bodies(&terms.ids(&operation.transactions()));
                let line = terms.line(terms.heading(*by, *under), ends, &contents);
                self.answer(terms, &Request::End(0, line, by.claim()), now)
            }
            Operation::Cancel(refused, by) => {
                self.answer(terms, &Request::Cancel(terms.cancelations(refused), by.claim()), now)
            }
            Operation::Forget(line) => {
                self.request(&Request::Forget(vec![LINES[*line].to_owned()]), now);
                Answer::Released
            }
            Operation::Transact(ids, by, under) => {
                let contents = contents(self.server.primary.bodies(&terms.ids(ids)));
                let heading = terms.heading(*by, *under);
                self.answer(terms, &Request::Transact(0, contents, heading), now)
            }
            Operation::Park(each, by, code) => {
                self.answer(terms, &Request::Park(terms.parkings(each, *by, *code)), now)
            }
            Operation::ParkById(ids) => {
                let why = Terms::kills_workers();
                self.request(&Request::ParkById(terms.ids(ids), why), now);
                Answer::Released
            }
            Operation::Unpark(at) => {
                let id: TransactionId = terms.transaction(*at).into();
                match self.request(&Request::Unpark(id.clone()), now) {
                    Reply::Written(written) if !written.refused.is_empty() => Answer::Refused,
                    Reply::Written(written) if written.count > 0 => {
                        self.unparked(&id, now);
                        Answer::parked(vec![id])
                    }
                    _ => Answer::parked(Vec::new()),
                }
            }
            Operation::SpoilAccount(at, oddity) => {
                self.server.spoil(&terms.account(*at).into(), *oddity);
                Answer::Edited
            }
            Operation::SpoilTransaction(at, oddity) => {
                let id: TransactionId = terms.transaction(*at).into();
                // An edit by hand does not find a missing document.
                if self.server.primary.transactions.contains_key(&id) {
                    self.server.spoil(&id, *oddity);
                }
                Answer::Edited
            }
            Operation::Mend => {
                let odd: Vec<_> = self.server.primary.odd.mendable().cloned().collect();
                odd.iter().for_each(|id| self.server.mend(id));
                Answer::Edited
            }
            Operation::Release { ids, by, after, not_before } => {
                let (after, not_before) = (Terms::delay(*after), terms.at(*not_before));
                let claim: Claim = by.claim();
                self.request(&Request::Release(terms.ids(ids), claim, after, not_before), now);
                Answer::Released
            }
        }
    }

    /// Whether an operation is left out, because it would edit odd documents in ways that are not
    /// the ledger's: producers and operators, and a claim that expires at once, which could be made
    /// twice. Or because it is about keys, and the contents have none.
    pub fn leaves_out(&self, operation: &Operation, bodies: &[Body]) -> bool {
        let has_no_key = |at: &usize| bodies[*at].terms().exclusive_key.is_none();
        let is_beside = matches!(operation, Operation::InsertBeside { .. });
        if is_beside && operation.transactions().iter().any(has_no_key) {
            return true;
        }
        let odd = &self.server.primary.odd;
        let is_odd = |at: &usize| odd.is_mendable(&self.names.transactions[*at].into());
        match operation {
            Operation::Insert { .. }
            | Operation::InsertBeside { .. }
            | Operation::RequestCancel(_)
            | Operation::Confirm(_)
            | Operation::MakeDue(_)
            | Operation::Expire(_)
            | Operation::Reschedule(..) => operation.transactions().iter().any(is_odd),
            Operation::Claim(ids, _, lease) => *lease == Lease::Over && ids.iter().any(is_odd),
            Operation::SetStatus(at, _) => odd.is_mendable(&self.names.accounts[*at].into()),
            _ => false,
        }
    }

    /// One request for each.
    fn each(
        &mut self,
        ids: Vec<TransactionId>,
        request: fn(TransactionId) -> Request,
        now: ServerMs,
    ) -> Answer {
        let mut count = 0;
        for id in ids {
            if let Reply::Written(written) = self.request(&request(id), now) {
                count += written.count;
            }
        }
        Answer::Written(count, BTreeSet::new())
    }

    fn answer(&mut self, terms: &Terms<'_>, request: &Request, now: ServerMs) -> Answer {
        match self.request(request, now) {
            Reply::Written(written) => Answer::written(written),
            Reply::Seen(seen) => Answer::seen(seen, terms.begun),
            Reply::Bodies(bodies) => Answer::bodies(bodies),
            Reply::Accounts(accounts) => Answer::accounts(accounts),
            Reply::Parked(ids) => Answer::parked(ids),
            Reply::Transacted(transacted) => Answer::transacted(transacted),
            Reply::Ended(ending) => Answer::Ended(ending),
            Reply::Failed(_) | Reply::Numbered(_) => Answer::Refused,
        }
    }

    /// One that was parked is written, also where only a note beside it said so; what is final is
    /// left as it is.
    fn unparked(&mut self, id: &TransactionId, now: ServerMs) {
        let Some(doc) = self.server.primary.transactions.get(id) else { return };
        if doc.state.is_final() {
            return;
        }
        let times = self.times.entry(id.clone()).or_default();
        times.insert("lastModified", now);
        match doc.state.is_resting() {
            true => times.remove("sweepAfter"),
            false => times.insert("sweepAfter", now),
        };
    }

    fn request(&mut self, request: &Request, now: ServerMs) -> Reply {
        let before = self.server.primary.transactions.clone();
        let accounts = self.server.primary.accounts.clone();
        let mut written = Written::default();
        for step in 0..request.steps() {
            match self.server.step(request, step, now) {
                Stepped::Nothing => {}
                Stepped::Wrote => written.count += 1,
                Stepped::Refused => {
                    written.refused.push(Refused { item: step, problem: String::new() });
                }
            }
        }
        for (id, after) in &self.server.primary.transactions {
            if before.get(id) != Some(after) {
                let times = self.times.entry(id.clone()).or_default();
                note_times(times, before.get(id), after, now);
            }
        }
        for (id, after) in &self.server.primary.accounts {
            if accounts.get(id) != Some(after)
                && let Some(stored) = self.stored.get_mut(id)
            {
                stored.retain(|field, _| !written::written_by(request).contains(field));
            }
        }
        self.server.replicate(usize::MAX);
        self.server.reply(request, written, now)
    }

    fn insert(&mut self, id: &str, body: Body, created_at: ServerMs) -> Answer {
        let large = body.legs().len() > LEGS_MAX_OF_SMALL;
        let inserted = self.request(&Request::Insert(id.into(), body.clone()), created_at);
        if matches!(inserted, Reply::Written(written) if written.count == 1) {
            if large {
                self.server.spoil(&id.into(), Oddity::Large);
            }
            return Answer::Submitted;
        }
        self.known(id, &body)
    }

    /// The answer to a submission whose id is known.
    fn known(&self, id: &str, body: &Body) -> Answer {
        let known = &self.server.primary.transactions[id];
        let as_submitted = known.body.clone().and_then(|known| {
            let terms = known.terms().as_submitted();
            known.with_terms(terms).map_err(|error| error.to_string())
        });
        let same = as_submitted.is_ok_and(|known| known == *body);
        if same { Answer::Unchanged(known.state) } else { Answer::Refused }
    }
}

impl Model {
    /// Submits a transaction that has an exclusive key, to the end.
    fn submit_keyed(&mut self, id: &TransactionId, body: &Body, created_at: ServerMs) -> Answer {
        let key = body.terms().exclusive_key.clone().unwrap_or_default();
        let mut heard: Vec<Option<Reply>> = Vec::new();
        loop {
            let attempt = |number: usize| format!("attempt {number}");
            let mut answers = heard.iter().map(Option::as_ref);
            let request = match submit::next(id, HABITS, &mut answers) {
                Step::Look => Request::Read(vec![id.clone()]),
                Step::Insert(number) => {
                    let call = String::new();
                    Request::InsertKeyed(attempt(number), call, id.clone(), Box::new(body.clone()))
                }
                Step::Commit(number) => Request::CommitKeyed(attempt(number)),
                Step::Holder => Request::Holder(key.clone()),
                Step::Accept => {
                    let was_there = matches!(heard.last(), Some(Some(Reply::Seen(_))));
                    return if was_there { self.known(id, body) } else { Answer::Submitted };
                }
                Step::Refuse => {
                    let Some(Some(Reply::Seen(holders))) = heard.last() else {
                        unreachable!("a call is refused after it has seen the holder")
                    };
                    return Answer::KeyInUse(holders[0].id.to_string());
                }
                Step::GiveUp => unreachable!("nobody else is there"),
            };
            heard.push(Some(self.request(&request, created_at)));
        }
    }

    fn insert_beside(
        &mut self,
        first: (TransactionId, Body),
        second: (TransactionId, Body),
        commits: bool,
        created_at: ServerMs,
    ) -> Answer {
        let open = |attempt: &str, (id, body)| {
            Request::InsertKeyed(attempt.to_owned(), String::new(), id, Box::new(body))
        };
        let first = inserted(self.request(&open("first", first), created_at));
        let second = inserted(self.request(&open("second", second), created_at));
        self.request(&Request::CommitKeyed("second".to_owned()), created_at);
        if commits {
            self.request(&Request::CommitKeyed("first".to_owned()), created_at);
        }
        self.server.primary.keyed.open.clear();
        Answer::Inserts([first, second])
    }
}

fn inserted(reply: Reply) -> Inserted {
    match reply {
        Reply::Written(written) if written.count > 0 => Inserted::Open,
        Reply::Written(written) if !written.refused.is_empty() => Inserted::Duplicate,
        _ => Inserted::Conflict,
    }
}

/// Notes when a transaction came from a state to another one, or to the same one.
fn note_times(
    times: &mut BTreeMap<&'static str, ServerMs>,
    before: Option<&Transaction>,
    after: &Transaction,
    now: ServerMs,
) {
    times.insert("lastModified", now);
    if after.parked.is_some() {
        times.remove("sweepAfter");
    }
    match (before.map(|before| before.state), after.state) {
        (Some(State::Initial), State::Pending) => {
            times.insert("claimedAt", now);
        }
        (Some(State::Pending), State::Initial) => {
            times.remove("claimedAt");
            times.insert("sweepAfter", now);
        }
        (Some(State::Scheduled), State::Initial) => {
            times.insert("sweepAfter", now + HOUR);
        }
        (Some(State::Pending), State::Held) => {
            times.remove("sweepAfter");
        }
        (Some(State::Held), State::Pending) => {
            times.insert("confirmedAt", now);
            times.insert("sweepAfter", now);
        }
        (Some(State::Scheduled | State::Initial | State::Held), State::Canceling) => {
            times.insert("sweepAfter", now);
            times.insert("decidedAt", now);
        }
        (Some(State::Pending), State::Applied | State::Canceling) => {
            times.insert("decidedAt", now);
        }
        (_, State::Done | State::Canceled) => {
            times.remove("sweepAfter");
        }
        _ => {}
    }
}

/// A transaction of the model as a document.
fn written(transaction: &Transaction, names: &Names) -> Document {
    let Transaction { id, body, state, claim, application, reason, never_posted, .. } = transaction;
    let created_at = DateTime::from_millis(transaction.created_at);
    let mut document = match body {
        Ok(body) => body.to_document(id, created_at),
        Err(_) => broken(names),
    };
    document.insert("state", *state);
    document.remove(DUE_AT);
    if let Some(due) = transaction.due_at {
        document.insert(DUE_AT, DateTime::from_millis(due));
    }
    let terms = body.as_ref().ok().map(Body::terms);
    if let Some(submitted) = terms.and_then(|terms| terms.submitted_not_before) {
        document.insert("submittedNotBefore", submitted);
    }
    if let Some(captured) = terms.and_then(|terms| terms.captured.as_ref()) {
        document.insert("captured", legs_to_bson(captured));
    }
    if !State::UNDECIDED.contains(state)
        && let Some(key) = document.remove("exclusiveKey")
    {
        document.insert(DECIDED_KEY, key);
    }
    let line = &transaction.line;
    for (field, text) in [("claim", claim), ("application", application), ("line", line)] {
        text.as_ref().map(|text| document.insert(field, text));
    }
    let times = [("leaseUntil", transaction.lease_until), ("takeoverAt", transaction.takeover_at)];
    for (field, time) in times.into_iter().filter(|(_, time)| *time != 0) {
        document.insert(field, DateTime::from_millis(time));
    }
    if transaction.attempts > 0 {
        let attempts = i32::try_from(transaction.attempts).expect("a few attempts");
        document.insert("attempts", attempts);
    }
    if transaction.attempts_alone > 0 {
        let attempts = i32::try_from(transaction.attempts_alone).expect("a few attempts");
        document.insert("attemptsAlone", attempts);
    }
    if let Some(reason) = reason {
        let mut reason = reason.to_document();
        if *never_posted {
            reason.insert("neverPosted", true);
        }
        document.insert("reason", reason);
    }
    document
}

/// A line of the model as a document, written now.
fn line_document(id: &str, line: &StoredLine, begun: ServerMs) -> Document {
    let accounts: Vec<&AccountId> = line.nets.keys().collect();
    let place = |account: &AccountId| {
        let at = accounts.iter().position(|other| *other == account);
        Bson::Int32(at.and_then(|at| i32::try_from(at).ok()).expect("a line names its accounts"))
    };
    let net = |net: &Net| -> Bson {
        let amount = Amount::from_nanos(net.nanos, !net.is_decimal);
        amount.expect("a sum of a few amounts").into()
    };
    let done = line.done.iter().map(|(id, legs)| {
        let booked = legs.iter().flat_map(|leg| [place(&leg.account), leg.amount.into()]);
        Bson::Array([Bson::from(&**id)].into_iter().chain(booked).collect())
    });
    let canceled = line.canceled.iter().map(|(id, named)| {
        Bson::Array([Bson::from(&**id)].into_iter().chain(named.iter().map(place)).collect())
    });
    doc! {
        "_id": id,
        "kind": "tandem-line",
        "at": DateTime::from_millis(begun),
        "application": &line.application,
        "accounts": accounts.iter().map(|account| &***account).collect::<Vec<_>>(),
        "nets": line.nets.values().map(net).collect::<Vec<_>>(),
        "done": done.collect::<Vec<_>>(),
        "canceled": canceled.collect::<Vec<_>>(),
    }
}

/// Why a transaction is set apart, as it is written: now, whenever in the sequence that is.
fn note(why: &Parked, begun: ServerMs) -> Document {
    let (code, message) = (why.code.as_str(), &why.message);
    doc! { "code": code, "message": message, "at": DateTime::from_millis(begun) }
}
