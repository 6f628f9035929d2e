//! The pattern of the articles as a protocol to search; the search shows what it lacks.
//!
//! Owns a small machine for one transfer `t` of 7 from `a` to `b`: claim by findAndModify, post
//! each account where `pendingTransactions` has no mark (and the money is there), `applied`, pull
//! the marks, `done`. Recovery claims by the age of `lastModified` and goes on, or rolls back what
//! is `pending`. The articles have no lease, no deadline on a post, and credit `balance` at once.

use std::collections::BTreeMap;

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{AccountId, Body, State, TransactionId};

use super::protocol::{Bounds, Heard, Looked, Next, Protocol, StepClock, Tally, What};
use crate::sim::model::{Books, Transaction};
use crate::sim::request::Reply;
use crate::sim::server::Stepped;

/// How old `lastModified` has to be for a recovery; the articles say 30 minutes.
const AGE: i64 = 2;

const VALUE: i64 = 7;

/// The pattern of the articles as a protocol that can be searched.
#[derive(Clone, Copy, Debug)]
pub struct Articles {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// A recovery of a `pending` transaction rolls back.
    pub rolls_back: bool,
    /// A worker reads the transaction before each write to an account, and stops when it is not
    /// its own any more; changes of its state compare the owner, too.
    pub checks_owner: bool,
}

/// The articles' pattern, and changes that seem to repair it.
pub const ARTICLES: [Articles; 4] = [
    Articles {
        name: "articles",
        about: "the articles' pattern, one worker and a recovery that goes on",
        rolls_back: false,
        checks_owner: false,
    },
    Articles {
        name: "articles-roll-back",
        about: "the same, with a recovery that rolls back",
        rolls_back: true,
        checks_owner: false,
    },
    Articles {
        name: "owner-checked",
        about: "the articles' pattern with the owner checked before each write to an account",
        rolls_back: false,
        checks_owner: true,
    },
    Articles {
        name: "owner-checked-roll-back",
        about: "the same, with a recovery that rolls back",
        rolls_back: true,
        checks_owner: true,
    },
];

/// The requests of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// findAndModify: `initial`, or in flight and not modified for long.
    Claim(String),
    /// Reads the transaction to see who owns it.
    Look,
    /// Adds to `balance` and marks, where there is no mark.
    Post(&'static str, i64),
    /// Removes the mark.
    Pull(&'static str),
    /// Takes back what was posted, where there is a mark.
    Undo(&'static str, i64),
    /// Changes the state, if the transaction is in the old state and has this owner.
    Move(State, State, Option<String>),
}

impl Articles {
    /// The pattern of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Articles> {
        ARTICLES.iter().find(|articles| articles.name == name)
    }

    /// The bounds of its search.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds { horizon: 5, losses: 0, op_limit: 0, late_answers: true }
    }

    /// What a worker does with a transaction that it claimed in this state.
    fn plan(&self, mine: &str, state: State, recovers: bool) -> Vec<Request> {
        let owner = self.checks_owner.then(|| mine.to_owned());
        let moves = |from, to| Request::Move(from, to, owner.clone());
        let undo = [Request::Undo("a", -VALUE), Request::Undo("b", VALUE)];
        let canceled = moves(State::Canceling, State::Canceled);
        let settle = [Request::Pull("a"), Request::Pull("b")];
        let done = moves(State::Applied, State::Done);
        let mut plan = Vec::new();
        match state {
            State::Pending if recovers && self.rolls_back => {
                plan.push(moves(State::Pending, State::Canceling));
                plan.extend(undo);
                plan.push(canceled);
            }
            State::Pending => {
                plan.extend([Request::Post("a", -VALUE), Request::Post("b", VALUE)]);
                plan.push(moves(State::Pending, State::Applied));
                plan.extend(settle);
                plan.push(done);
            }
            State::Applied => {
                plan.extend(settle);
                plan.push(done);
            }
            State::Canceling => {
                plan.extend(undo);
                plan.push(canceled);
            }
            State::Scheduled | State::Initial | State::Held | State::Done | State::Canceled => {}
        }
        if self.checks_owner {
            let on_account = |request: &Request| !matches!(request, Request::Move(..));
            plan = plan
                .into_iter()
                .flat_map(|request| {
                    let look = on_account(&request).then_some(Request::Look);
                    look.into_iter().chain([request])
                })
                .collect();
        }
        plan
    }
}

fn application(run: usize) -> String {
    super::trace::worker(run)
}

fn transaction() -> TransactionId {
    "t".into()
}

impl Protocol for Articles {
    type Request = Request;

    fn opening(&self) -> Books {
        let mut books = Books::default();
        for account in [Account::new("a", Amount::Int(10)), Account::new("b", Amount::Int(0))] {
            books.accounts.insert(account.id.clone(), account);
        }
        let body = Body::transfer("a", "b", Amount::Int(VALUE)).expect("two accounts");
        let doc = Transaction::initial(transaction(), body, 0);
        books.transactions.insert(doc.id.clone(), doc);
        books
    }

    fn runs(&self) -> usize {
        2
    }

    fn twin(&self, _: usize) -> usize {
        0
    }

    fn clients(&self) -> Vec<Request> {
        Vec::new()
    }

    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Request>, Looked) {
        let looked = Looked::default();
        let mine = application(run);
        let owned = |what: &What| {
            let What::Answer(Reply::Seen(seen)) = what else { return None };
            seen.first().filter(|seen| seen.claim.as_ref() == Some(&mine)).cloned()
        };
        let moved = |what: &What| matches!(what, What::Answer(Reply::Written(written)) if written.count == 1);
        let Some((claimed, answers)) = heard.split_first() else {
            return (Next::Request(Request::Claim(mine)), looked);
        };
        let Some(seen) = owned(&claimed.what) else { return (Next::Over, looked) };
        let plan = self.plan(&mine, seen.state, seen.attempts > 1);
        let goes_on = plan.iter().zip(answers).all(|(request, answer)| match request {
            Request::Look => owned(&answer.what).is_some(),
            Request::Move(..) => moved(&answer.what),
            Request::Claim(_) | Request::Post(..) | Request::Pull(_) | Request::Undo(..) => true,
        });
        match plan.get(answers.len()).filter(|_| goes_on) {
            Some(request) => (Next::Request(request.clone()), looked),
            None => (Next::Over, looked),
        }
    }

    fn remembered(&self, heard: &Heard, _: Option<&Request>) -> String {
        format!("{heard:?}")
    }

    fn is_dead(&self, _: &Request, _: i64) -> bool {
        false
    }

    fn steps(&self, _: &Request) -> usize {
        1
    }

    fn dwells(&self, _: &Request) -> bool {
        false
    }

    fn is_read(&self, request: &Request) -> bool {
        *request == Request::Look
    }

    fn is_limited(&self, _: &Request) -> bool {
        true
    }

    fn snapshot(&self, _: &Books, _: &Request, _: usize) -> Option<Books> {
        None
    }

    fn step(
        &self,
        books: &mut Books,
        request: &Request,
        _: usize,
        clock: StepClock,
        _: Option<&Books>,
    ) -> Stepped {
        let now = clock.started.into();
        let id = transaction();
        let doc = books.transactions.get_mut(&id).expect("the only transaction");
        let accounts = &mut books.accounts;
        let matched = match request {
            Request::Look => false,
            Request::Claim(application) => claim(doc, application, now),
            Request::Move(from, to, owner) => {
                let matches = doc.state == *from && (owner.is_none() || doc.claim == *owner);
                if matches {
                    doc.state = *to;
                    // `$currentDate: {lastModified: true}`
                    doc.takeover_at = now + AGE;
                }
                matches
            }
            Request::Post(name, amount) => account(accounts, name).is_some_and(|account| {
                let enough = amount.is_positive()
                    || account.balance.nanos() + Amount::Int(*amount).nanos() >= 0;
                enough && account.pending_transactions.insert(id) && add(account, *amount)
            }),
            Request::Pull(name) => account(accounts, name)
                .is_some_and(|account| account.pending_transactions.remove(&id)),
            Request::Undo(name, amount) => account(accounts, name).is_some_and(|account| {
                account.pending_transactions.remove(&id) && add(account, -amount)
            }),
        };
        if matched { Stepped::Wrote } else { Stepped::Nothing }
    }

    fn reply(
        &self,
        books: &Books,
        request: &Request,
        tally: Tally,
        now: i64,
        _: Option<&Books>,
    ) -> Reply {
        let seen = || books.seen(&[transaction()], now);
        match request {
            Request::Claim(_) if tally.matched == 0 => Reply::Seen(Vec::new()),
            Request::Claim(_) | Request::Look => Reply::Seen(seen()),
            Request::Post(..) | Request::Pull(_) | Request::Undo(..) | Request::Move(..) => {
                Reply::Written(tally.written())
            }
        }
    }

    fn wrong_now(&self, _: &Books) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, request: &Request) -> String {
        match request {
            Request::Claim(_) => "claims t".to_owned(),
            Request::Look => "looks whose t is".to_owned(),
            Request::Post(name, amount) => format!("posts {amount:+} to {name}"),
            Request::Pull(name) => format!("pulls the mark from {name}"),
            Request::Undo(name, amount) => format!("undoes {amount:+} on {name}"),
            Request::Move(from, to, _) => format!("moves t from {from} to {to}"),
        }
    }
}

fn account<'a>(
    accounts: &'a mut BTreeMap<AccountId, Account>,
    name: &str,
) -> Option<&'a mut Account> {
    accounts.get_mut(name)
}

fn claim(doc: &mut Transaction, application: &str, now: i64) -> bool {
    let free = match doc.state {
        State::Initial => true,
        State::Pending | State::Applied | State::Canceling => now > doc.takeover_at,
        State::Scheduled | State::Held | State::Done | State::Canceled => false,
    };
    if free {
        if doc.state == State::Initial {
            doc.state = State::Pending;
        }
        doc.claim = Some(application.to_owned());
        doc.attempts += 1;
        doc.takeover_at = now + AGE;
    }
    free
}

fn add(account: &mut Account, amount: i64) -> bool {
    let sum = account.balance.checked_add(Amount::Int(amount));
    account.balance = sum.unwrap_or(account.balance);
    sum.is_some()
}
