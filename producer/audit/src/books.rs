//! The rules, over documents as they come: an account before the transactions that move something
//! on it.
//!
//! For a leg of `a` on an account, by the transaction's state and whether its mark is there:
//!
//! | state | with the mark | without it |
//! | --- | --- | --- |
//! | `done` | a violation | `balance += e` |
//! | `applied` | posted | settled: `balance += e` |
//! | `pending`, `canceling` | posted | no effect (yet, or any more) |
//! | `held` | of a debit: posted; of a credit: a violation | of a debit: a violation; of a credit: no effect |
//! | `scheduled`, `initial`, `canceled` | a violation | no effect |
//!
//! where `e` is the effect of the leg: of a confirmed hold what is captured of it, otherwise `a`.
//! Posted means: of a debit, `balance += a` and `pendingDebits −= a`; of a credit, `pendingCredits
//! += e`. So the mark of a hold's debit stands for all that is held; what is not captured comes
//! home when it is settled. A credit has no mark while its hold is not confirmed, or if nothing of
//! it is captured. `pendingHolds` is how many of an account's marks are debits of holds.
//!
//! Accounts come in pieces that stand for different moments (`chunks`), each followed by the
//! transactions that move something on them at its moment. A transaction may come several times, in
//! the states that it had.

use std::collections::HashSet;

use ledger::limits::echo;
use ledger::transaction::{Body, BodyError, State};
use mongodb::bson::{RawDocument, Timestamp};

use super::accounts::Accounts;
use super::chunks::Over;
use super::close::Difference;
use super::effects::{Effect, contradiction, parts};
use super::findings::{Findings, Rule};
use super::journal::name_of;
use super::keys::{self, Contest, Keys};
use super::lines::Adjustment;
use super::raw::{REPEATED, id_of, repeats_a_field, state_of};
use super::shared::Collections;

/// The most parked transactions that are named.
const PARKED_SHOWN_MAX: usize = 20;

/// The books while documents are being read.
pub(super) struct Books {
    pub accounts: Accounts,
    /// The exclusive keys of undecided transactions.
    keys: Keys,
    at_rest: bool,
    transactions: u64,
    in_flight: u64,
    resting: u64,
    parked: Parked,
    findings: Findings,
}

/// Transactions that can't go on until somebody looks at them. Their states and marks explain their
/// money, as with any other transaction in flight.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub count: u64,
    /// The first of them.
    pub ids: Vec<String>,
}

/// The result.
pub(super) struct Closed {
    pub accounts: u64,
    pub transactions: u64,
    pub in_flight: u64,
    pub resting: u64,
    pub parked: Parked,
    pub findings: Findings,
    /// What others have moved, where they may.
    pub differences: Vec<Difference>,
}

impl Books {
    pub fn new(collections: Collections, at_rest: bool, findings_max: usize) -> Books {
        Books {
            accounts: Accounts::new(collections),
            keys: Keys::default(),
            at_rest,
            transactions: 0,
            in_flight: 0,
            resting: 0,
            parked: Parked::default(),
            findings: Findings::new(findings_max),
        }
    }

    /// Takes an account in.
    pub fn account(&mut self, document: &RawDocument) {
        self.accounts.take(document, &mut self.findings);
    }

    /// Forgets the accounts since the last piece, so that they can be read anew.
    pub fn forget_accounts(&mut self) {
        self.accounts.forget(&mut self.findings);
    }

    /// Ends a piece: all transactions were taken in that its accounts have marks of, as far as they
    /// exist.
    pub fn end_piece(&mut self) {
        self.accounts.end_piece(&self.findings);
    }

    /// Takes a transaction in, over these pieces of the accounts. What has to do with the document
    /// alone is noted when it comes `first`.
    pub fn transaction(&mut self, document: &RawDocument, over: Over<'_>, first: bool) {
        let id = id_of(document);
        let Some(state) = self.state(&id, document, first) else { return };
        let body = Body::from_raw(document);
        if first {
            self.keys.add(document);
            self.count(&id, state, document);
            self.content(&id, state, body.as_ref());
        }
        let parts = body.as_ref().map(parts).unwrap_or_default();
        let marked = self.accounts.take_marks(&id);
        self.check_marks(&id, state, &parts, &marked);
        for part in &parts {
            if over.includes(self.accounts.piece_of(&part.account)) {
                self.part(&id, state, part, &marked, over == Over::All);
            }
        }
    }

    fn state(&mut self, id: &str, document: &RawDocument, first: bool) -> Option<State> {
        let name = || format!("transactions/{}", echo(id));
        self.transactions += u64::from(first);
        if first && repeats_a_field(document) {
            self.findings.add(Rule::Effect, name, REPEATED.to_owned());
        }
        let text = document.get_str("state").unwrap_or_default();
        let state = State::parse(text);
        if first && state.is_none() {
            let message = format!("state {:?} is not one of ours", echo(text));
            self.findings.add(Rule::Effect, name, message);
        }
        state
    }

    /// A transaction with an invalid body may wait to be canceled, or be canceled already.
    fn content(&mut self, id: &str, state: State, body: Result<&Body, &BodyError>) {
        let message = match body {
            Ok(body) => {
                contradiction(state, body).map(|problem| format!("is {state} and {problem}"))
            }
            Err(problem) => matches!(state, State::Applied | State::Done)
                .then(|| format!("is {state} and invalid: {problem}")),
        };
        if let Some(message) = message {
            self.findings.add(Rule::Effect, || format!("transactions/{}", echo(id)), message);
        }
    }

    /// Takes a transaction in that stood like this in these of so many pieces, and had no effect in
    /// the others, but for those in which it was taken in already.
    pub fn stood(&mut self, document: &RawDocument, first: bool, stood: &[usize], of: usize) {
        if stood.len() == of {
            self.transaction(document, Over::All, first);
        } else if !stood.is_empty() {
            self.transaction(document, Over::Only(stood), first);
        } else if first {
            self.changed_since(document);
        }
    }

    /// Takes a transaction in that had no effect at the moment of the audit, and has changed since.
    pub fn changed_since(&mut self, document: &RawDocument) {
        self.pass(1);
        self.keys.add(document);
        if let Some(state) = state_of(document) {
            self.count(&id_of(document), state, document);
        }
    }

    /// Counts transactions that say nothing about the moment of the audit.
    pub fn pass(&mut self, transactions: u64) {
        self.transactions += transactions;
    }

    /// Where violations go that do not come from the books.
    pub fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// Takes in what a person has booked, at this line. The accounts were read at these moments.
    pub fn adjust(&mut self, line: &str, adjustment: Adjustment<'_>, moments: &[Timestamp]) {
        let Adjustment { account, nanos, seen_at } = adjustment;
        let moment = moments.get(self.accounts.piece_of(account));
        let is_later = moment.is_some_and(|moment| *moment < seen_at);
        match self.accounts.find(account) {
            Some(Some(at)) => self.accounts.adjust(at, nanos, is_later),
            // The account's document is broken, which was reported already.
            Some(None) => {}
            None if is_later => {}
            None => {
                let message = format!("adjusts accounts/{}, which is not there", echo(account));
                self.findings.add(Rule::Line, || name_of(line), message);
            }
        }
    }

    /// The keys with which two transactions were seen so far.
    pub fn take_contests(&mut self) -> Vec<Contest> {
        self.keys.take_contests()
    }

    /// Takes in which transactions `still` have which key.
    pub fn compare_keys(&mut self, contests: &[Contest], still: &HashSet<(String, String)>) {
        keys::compare(contests, still, &mut self.findings);
    }

    /// Counts what is not final.
    fn count(&mut self, id: &str, state: State, document: &RawDocument) {
        if state.is_final() {
            return;
        }
        if state.is_resting() {
            self.resting += 1;
            return;
        }
        self.in_flight += 1;
        let parked = matches!(document.get("parked"), Ok(Some(_)) | Err(_));
        if parked {
            self.parked.count += 1;
            if self.parked.ids.len() < PARKED_SHOWN_MAX {
                self.parked.ids.push(echo(id).into_owned());
            }
        }
        if self.at_rest {
            let parked = if parked { " and parked" } else { "" };
            let name = || format!("transactions/{}", echo(id));
            self.findings.add(Rule::Effect, name, format!("is still {state}{parked}"));
        }
    }

    /// Every mark belongs to a leg of a transaction that may have one.
    fn check_marks(&mut self, id: &str, state: State, parts: &[Effect], marked: &[usize]) {
        for at in marked {
            let (account, id) = (&self.accounts.books[*at].id, echo(id));
            let part = parts.iter().find(|part| part.account == *account);
            let may_have_marks = State::IN_FLIGHT.contains(&state) || state == State::Held;
            let problem = match part {
                _ if !may_have_marks => format!("which is {state}"),
                None => "which has no leg here".to_owned(),
                Some(part) if !part.may_be_marked => {
                    "which is a hold that has captured nothing here".to_owned()
                }
                Some(_) => {
                    // It rests, and its mark with it.
                    self.accounts.books[*at].marks -= usize::from(state == State::Held);
                    continue;
                }
            };
            let message = format!("has the mark of transactions/{id}, {problem}");
            self.findings.add(Rule::Marks, || format!("accounts/{}", echo(account)), message);
        }
    }

    fn part(&mut self, id: &str, state: State, part: &Effect, marked: &[usize], is_whole: bool) {
        let name = || format!("transactions/{}", echo(id));
        let at = match self.accounts.find(&part.account) {
            Some(Some(at)) => at,
            // The account's document is broken, which was reported already.
            Some(None) => return,
            None => {
                if matches!(state, State::Applied | State::Done) {
                    let message = format!("is {state}, and account {:?} is missing", part.account);
                    self.findings.add(Rule::Effect, name, message);
                }
                return;
            }
        };
        let Effect { amount, effect, .. } = *part;
        let book = &mut self.accounts.books[at];
        let before = book.expected.balance;
        // What may still come home.
        let mut held = 0;
        match (state, marked.contains(&at)) {
            (State::Done, _) | (State::Applied, false) => book.expected.balance += effect,
            (State::Pending | State::Held | State::Applied | State::Canceling, true)
                if amount < 0 =>
            {
                book.expected.balance += amount;
                book.expected.debits -= amount;
                book.expected.holds += i64::from(part.is_hold);
                // Of an applied hold, what is not captured.
                held = if state == State::Applied { effect - amount } else { -amount };
            }
            (State::Pending | State::Held | State::Applied | State::Canceling, true) => {
                book.expected.credits += effect;
                if state == State::Applied {
                    held = effect;
                }
            }
            (State::Held, false) if amount < 0 => {
                let message = format!("is held, and account {:?} lacks its mark", part.account);
                self.findings.add(Rule::Marks, name, message);
            }
            (State::Pending | State::Held | State::Canceling, false)
            | (State::Scheduled | State::Initial | State::Canceled, _) => {}
        }
        // Where other legs of it stand at other moments, the sum of all balances lacks what these
        // have moved.
        let moved = book.expected.balance - before;
        self.accounts.ledgers[book.ledger].held += if is_whole { held } else { -moved };
    }

    /// Compares what was found with what it should be.
    pub fn close(mut self) -> Closed {
        self.end_piece();
        let differences = self.accounts.close(self.at_rest, &mut self.findings);
        Closed {
            differences,
            accounts: self.accounts.count(),
            transactions: self.transactions,
            in_flight: self.in_flight,
            resting: self.resting,
            parked: self.parked,
            findings: self.findings,
        }
    }
}

#[cfg(test)]
#[path = "books_tests.rs"]
mod tests;
