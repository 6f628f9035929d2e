//! Submitting with an exclusive key as a protocol to search: `producer/client/src/keyed.rs` and
//! `common/mongo/src/keyed.rs`, statement by statement.
//!
//! Owns a small machine for calls that submit `t` or `u` under one key: look by the `_id`, insert
//! in a native transaction, commit, tell the caller; and after a failure look again. Beside them,
//! at any moment, transactions are claimed and decided, and the server ends open native
//! transactions. A request that loses its answer may arrive at any later moment, or never.

use std::sync::Arc;

use ledger::amount::Amount;
use ledger::transaction::{Body, State, Terms, TransactionId};

use super::protocol::{Bounds, Heard, Looked, Next, Protocol, StepClock, Tally, What};
use crate::sim::keyed::{Inserted, violations};
use crate::sim::model::Books;
use crate::sim::request::Reply;
use crate::sim::server::Stepped;
use crate::sim::submit::{self, Habits, Step};

const KEY: &str = "a-for-b";

/// How often a call tries before it says that the outcome is unknown.
const ATTEMPTS_MAX: usize = 2;

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The key is free as soon as a worker has claimed its transaction.
    FreedEarly,
    /// The insert is a plain one, outside of a native transaction.
    LateInsert,
    /// An attempt commits although its caller has given it up before its insert was answered.
    CommitAfterGivingUp,
}

/// What is searched: a protocol, and its fault if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// The transactions that are submitted, one by each call.
    pub calls: &'static [&'static str],
    /// How many requests may lose their answer.
    pub losses: u8,
    /// What is wrong with it.
    pub fault: Option<KeyFault>,
}

const RIVALS: Keys = Keys {
    name: "keys",
    about: "two calls submit two transactions under one key",
    calls: &["t", "u"],
    losses: 2,
    fault: None,
};

/// The protocol, and what it would be with a fault.
pub const KEYS: [Keys; 5] = [
    RIVALS,
    Keys {
        name: "keys-resubmitted",
        about: "the same, and a third call submits the first transaction again at any moment",
        calls: &["t", "u", "t"],
        losses: 1,
        ..RIVALS
    },
    Keys {
        name: "key-freed-early",
        about: "two calls; the key is free as soon as its transaction is claimed",
        fault: Some(KeyFault::FreedEarly),
        ..RIVALS
    },
    Keys {
        name: "late-insert",
        about: "two calls whose inserts are plain ones",
        fault: Some(KeyFault::LateInsert),
        ..RIVALS
    },
    Keys {
        name: "commit-after-giving-up",
        about: "two calls that commit also what was given up",
        fault: Some(KeyFault::CommitAfterGivingUp),
        ..RIVALS
    },
];

/// A request to the store, of a call or of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads a transaction.
    Look(TransactionId),
    /// Inserts in the native transaction of an attempt of a call.
    Insert(Arc<str>, Arc<str>, TransactionId),
    /// Commits it.
    Commit(Arc<str>),
    /// Reads who has the key.
    Holder,
    /// Tells the caller that the transaction is accepted.
    Accept(TransactionId),
    /// Tells the caller that it is refused.
    Refuse(Arc<str>),
    /// A worker claims it.
    Claim(TransactionId),
    /// A worker decides it.
    Decide(TransactionId),
    /// The server ends all open native transactions.
    EndOpen,
}

impl Keys {
    /// The protocol of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Keys> {
        KEYS.iter().find(|keys| keys.name == name)
    }

    /// The bounds of its search. No clock plays a part in it.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds { horizon: 0, losses: self.losses, op_limit: 0, late_answers: false }
    }

    /// The states in which the key is not free.
    fn holding(&self) -> &'static [State] {
        match self.fault {
            Some(KeyFault::FreedEarly) => &[State::Initial],
            Some(KeyFault::LateInsert | KeyFault::CommitAfterGivingUp) | None => &State::UNDECIDED,
        }
    }

    /// What a call does next after these answers.
    fn call(&self, run: usize, heard: &[Heard]) -> Option<Request> {
        let (id, call) = (TransactionId::from(self.calls[run]), name(run));
        let answer = |heard: &'_ Heard| match &heard.what {
            What::Answer(reply) => Some(reply.clone()),
            What::Lost | What::Awake => None,
        };
        let heard: Vec<Option<Reply>> = heard.iter().map(answer).collect();
        let mut answers = heard.iter().map(Option::as_ref);
        let habits =
            Habits { attempts_max: ATTEMPTS_MAX, commits_separately: self.commits_separately() };
        let attempt = |number: usize| Arc::<str>::from(format!("{call}.{number}"));
        let next = match submit::next(&id, habits, &mut answers) {
            Step::Look => Request::Look(id),
            Step::Insert(number) => Request::Insert(attempt(number), call, id),
            Step::Commit(number) => Request::Commit(attempt(number)),
            Step::Holder => Request::Holder,
            Step::Accept => Request::Accept(id),
            Step::Refuse => Request::Refuse(call),
            Step::GiveUp => return None,
        };
        // An answer that is left is the one to what it told its caller: then it is over.
        answers.next().is_none().then_some(next)
    }

    /// Whether the commit is a request of its own, sent when the insert was answered.
    fn commits_separately(&self) -> bool {
        match self.fault {
            Some(KeyFault::LateInsert | KeyFault::CommitAfterGivingUp) => false,
            Some(KeyFault::FreedEarly) | None => true,
        }
    }

    /// What the last run does: it decides all that is left.
    fn last(&self, heard: &[Heard]) -> Option<Request> {
        let decide = ["t", "u"].map(|id| Request::Decide(id.into()));
        [vec![Request::EndOpen], decide.to_vec()].concat().get(heard.len()).cloned()
    }
}

fn name(run: usize) -> Arc<str> {
    super::trace::worker(run).into()
}

fn body() -> Body {
    let terms = Terms { exclusive_key: Some(KEY.to_owned()), ..Terms::default() };
    let body = Body::transfer("a", "b", Amount::Int(1)).expect("two accounts");
    body.with_terms(terms).expect("valid terms")
}

impl Protocol for Keys {
    type Request = Request;

    fn opening(&self) -> Books {
        Books::default()
    }

    fn runs(&self) -> usize {
        self.calls.len()
    }

    fn twin(&self, run: usize) -> usize {
        run
    }

    fn clients(&self) -> Vec<Request> {
        let of = |id: &str| [Request::Claim(id.into()), Request::Decide(id.into())];
        ["t", "u"].into_iter().flat_map(of).chain([Request::EndOpen]).collect()
    }

    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Request>, Looked) {
        let next = match run < self.calls.len() {
            true => self.call(run, heard),
            false => self.last(heard),
        };
        (next.map_or(Next::Over, Next::Request), Looked::default())
    }

    fn remembered(&self, heard: &Heard, _: Option<&Request>) -> String {
        format!("{:?}", heard.what)
    }

    fn is_dead(&self, _: &Request, _: i64) -> bool {
        false
    }

    fn steps(&self, request: &Request) -> usize {
        match request {
            // Whoever waits for the insert commits it, whether its caller still waits or not.
            Request::Insert(..) if self.fault == Some(KeyFault::CommitAfterGivingUp) => 2,
            Request::Insert(..)
            | Request::Look(_)
            | Request::Commit(_)
            | Request::Holder
            | Request::Accept(_)
            | Request::Refuse(_)
            | Request::Claim(_)
            | Request::Decide(_)
            | Request::EndOpen => 1,
        }
    }

    fn dwells(&self, _: &Request) -> bool {
        false
    }

    fn is_read(&self, request: &Request) -> bool {
        matches!(request, Request::Look(_) | Request::Holder)
    }

    fn is_limited(&self, _: &Request) -> bool {
        false
    }

    fn snapshot(&self, _: &Books, _: &Request, _: usize) -> Option<Books> {
        None
    }

    fn step(
        &self,
        books: &mut Books,
        request: &Request,
        step: usize,
        _: StepClock,
        _: Option<&Books>,
    ) -> Stepped {
        let wrote = match request {
            Request::Look(_) | Request::Holder => false,
            Request::Insert(attempt, ..) if step > 0 => books.commit_keyed(attempt).is_some(),
            Request::Insert(attempt, call, id) => {
                match books.insert_keyed((attempt, call), (id, &body()), self.holding(), 0) {
                    Inserted::Duplicate => return Stepped::Refused,
                    Inserted::Conflict => false,
                    Inserted::Open if self.fault == Some(KeyFault::LateInsert) => {
                        books.commit_keyed(attempt).is_some()
                    }
                    // The answer is that of the commit.
                    Inserted::Open => self.commits_separately(),
                }
            }
            Request::Commit(attempt) => books.commit_keyed(attempt).is_some(),
            Request::Accept(id) => books.keyed.accepted.insert(id.clone()),
            Request::Refuse(call) => books.keyed.refused.insert(call.to_string()),
            Request::Claim(id) => moved(books, id, &[State::Initial], State::Pending),
            Request::Decide(id) => moved(books, id, &State::UNDECIDED, State::Canceled),
            Request::EndOpen => !std::mem::take(&mut books.keyed.open).is_empty(),
        };
        if wrote { Stepped::Wrote } else { Stepped::Nothing }
    }

    fn reply(
        &self,
        books: &Books,
        request: &Request,
        tally: Tally,
        now: i64,
        _: Option<&Books>,
    ) -> Reply {
        match request {
            Request::Look(id) => Reply::Seen(books.seen(std::slice::from_ref(id), now)),
            Request::Holder => Reply::Seen(books.seen(&books.holders(KEY, self.holding()), now)),
            Request::Insert(..)
            | Request::Commit(_)
            | Request::Accept(_)
            | Request::Refuse(_)
            | Request::Claim(_)
            | Request::Decide(_)
            | Request::EndOpen => Reply::Written(tally.written()),
        }
    }

    fn wrong_now(&self, books: &Books) -> Vec<String> {
        violations(books)
    }

    fn describe(&self, request: &Request) -> String {
        match request {
            Request::Look(id) => format!("looks for {id}"),
            Request::Insert(attempt, _, id) => format!("inserts {id} (attempt {attempt})"),
            Request::Commit(attempt) => format!("commits attempt {attempt}"),
            Request::Holder => "looks who has the key".to_owned(),
            Request::Accept(id) => format!("says that {id} is accepted"),
            Request::Refuse(_) => "says that the key is in use".to_owned(),
            Request::Claim(id) => format!("a worker claims {id}"),
            Request::Decide(id) => format!("a worker decides {id}"),
            Request::EndOpen => "the server ends open transactions".to_owned(),
        }
    }
}

fn moved(books: &mut Books, id: &TransactionId, from: &[State], to: State) -> bool {
    let doc = books.transactions.get_mut(id).filter(|doc| from.contains(&doc.state));
    doc.map(|doc| doc.state = to).is_some()
}
