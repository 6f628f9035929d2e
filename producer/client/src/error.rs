//! Why a call could not do what was asked.
//!
//! Owns the distinctions that a program decides by: what to correct ([`Error::Invalid`]), what is
//! taken ([`Error::Conflict`], [`Error::KeyInUse`]), what can't be done as things stand
//! ([`Error::WrongState`], [`Error::Refused`]), and what to try again later
//! ([`Error::Unavailable`]). A refused transfer is no error: it is an [`Outcome`](crate::Outcome).
//!
//! Promises that every error but one says that the call had no effect. Only [`Error::Unavailable`]
//! with [`Effect::Unknown`] leaves it open: the call may have had its effect, wholly or in part, or
//! may have it later. The remedy is the same call with the same ids.

use std::fmt;
use std::time::Duration;

pub use ledger::Effect;
use ledger::LedgerError;
use ledger::limits::echo;
use ledger::remedy::Remedy;
use ledger::transaction::{BodyError, Leg, State};
use mongo::NotReady;
use queue::QueueError;

/// A server that a client talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The database.
    MongoDb,
    /// The broker.
    RabbitMq,
}

/// The kind of thing that was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An account.
    Account,
    /// A transaction.
    Transaction,
}

/// Why a call of the library failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The argument breaks a rule. Nothing was written; the same call would fail again.
    #[error("{field}: {problem}")]
    Invalid {
        /// What to correct.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The id belongs to something with other content. Nothing was written.
    #[error("{id}: {problem}")]
    Conflict {
        /// The id.
        id: String,
        /// What differs, and what to do.
        problem: String,
        /// The fields that differ, by their names in JSON: of a transaction `source`,
        /// `destination` and `value`, or `legs`, `currency`, `reverses`, `metadata`, `hold`,
        /// `holdExpiresAt`, `notBefore`, `expiresAt`, `exclusiveKey`; of an account
        /// `balance`, `floor`, `currency`. None where what is there can't be read.
        differs: Vec<&'static str>,
    },
    /// Another transaction that is not decided has the exclusive key. Nothing was written; when
    /// that is decided, the same call may succeed.
    #[error("{id}: exclusiveKey {key:?} is in use by transaction {holder}")]
    KeyInUse {
        /// The transaction that was to be submitted.
        id: String,
        /// The key.
        key: String,
        /// The transaction that has it.
        holder: String,
    },
    /// The transaction has an exclusive key, and the ledger keeps none. Nothing was written.
    #[error("{0}")]
    WithoutKeys(&'static str),
    /// The state of the transaction does not allow it. Nothing was written.
    #[error("{id}: is {state} and {problem}")]
    WrongState {
        /// The transaction.
        id: String,
        /// Its state.
        state: State,
        /// What can't be done in this state.
        problem: &'static str,
    },
    /// The hold was confirmed before, with another capture. Nothing was written.
    #[error("{id}: was confirmed before, with another capture: {}", in_words(captured))]
    Captured {
        /// The transaction.
        id: String,
        /// What was captured of each leg.
        captured: Vec<Leg>,
    },
    /// Something in the database prevents it, or the server will never accept it. Nothing was
    /// written.
    #[error("{id}: {problem}")]
    Refused {
        /// The account or transaction that prevents it.
        id: String,
        /// What is in the way.
        problem: String,
    },
    /// Nothing has this name.
    #[error("{id}: no such {kind}")]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// Its name.
        id: String,
    },
    /// No worker of this name was seen lately. Nothing was written.
    #[error("{name}: no such worker; {}", seen_lately(known))]
    NoWorker {
        /// The name.
        name: String,
        /// The names of those that were seen within a day.
        known: Vec<String>,
    },
    /// The ledger does without the indexes that lists and statements are read through. Its owner
    /// may add them at any time.
    #[error("this ledger keeps no indexes for lists and statements; {} adds them", Remedy::History)]
    WithoutHistory,
    /// The workers of this ledger give no numbers to what has ended. Its owner may change that; what
    /// ended before then never gets one.
    #[error(
        "this ledger has no events, so its workers give no numbers to what ends; stop all workers \
         and run {}",
        Remedy::Events(true)
    )]
    WithoutEvents,
    /// A server stayed away, or its answer does not say what became of the request. With
    /// [`Effect::Unknown`], some or all of it may have been done or may be done later: the same
    /// call with the same ids continues where this one stopped.
    #[error("{problem}{}{}", given_up(*after), perhaps(*effect))]
    Unavailable {
        /// Which one.
        server: Server,
        /// The server's message, or what it did not answer.
        problem: String,
        /// How long it was tried again; zero when it was tried only once.
        after: Duration,
        /// What is known of the effect of the call.
        effect: Effect,
    },
    /// A server refuses for good: rights, options, a database that is not set up. A person has to
    /// repair that. Nothing was written.
    #[error("{problem}")]
    Denied {
        /// Which one.
        server: Server,
        /// What it said, and what to do.
        problem: String,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Account => "account",
            Kind::Transaction => "transaction",
        })
    }
}

/// Settings by the field that a program sets, and by the variable that a user of the programs sets.
pub const SETTINGS: [(&str, &str); 4] = [
    ("mongodb_uri", "TANDEM_MONGODB_URI"),
    ("database", "TANDEM_DATABASE"),
    ("amqp_url", "TANDEM_AMQP_URL"),
    ("queue_prefix", "TANDEM_QUEUE_PREFIX"),
];

/// So many names of workers stand in a message.
const NAMES_SHOWN: usize = 20;

fn given_up(after: Duration) -> String {
    match after {
        Duration::ZERO => String::new(),
        after => format!("; given up after {} s", after.as_secs()),
    }
}

/// The first names, and how many more there are.
fn seen_lately(known: &[String]) -> String {
    let shown: Vec<_> = known.iter().take(NAMES_SHOWN).map(|name| echo(name)).collect();
    match (shown.is_empty(), known.len().saturating_sub(NAMES_SHOWN)) {
        (true, _) => "none was seen within a day".to_owned(),
        (false, 0) => format!("within a day there were {}", shown.join(", ")),
        (false, more) => format!("within a day there were {} and {more} more", shown.join(", ")),
    }
}

fn perhaps(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "",
        Effect::Unknown => "; perhaps it has taken effect or will: ask again with the same id",
    }
}

impl Error {
    pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Error {
        Error::Invalid { field: field.to_owned(), problem: problem.into() }
    }

    /// A setting is wrong. `problem` begins with the variable of the programs; the error names the
    /// field of [`Config`](crate::Config) instead.
    pub(crate) fn setting(problem: &str) -> Error {
        let of = |(field, variable): &(&str, &str)| {
            let rest = problem.strip_prefix(variable)?;
            Some(Error::invalid(field, rest.trim_start_matches(':').trim_start()))
        };
        SETTINGS.iter().find_map(of).unwrap_or_else(|| Error::invalid("config", problem))
    }

    /// A server's error that ends a call: after it was tried again for so long, or at once when it
    /// does not pass. `effect` is what is known of all attempts.
    pub(crate) fn of_server(error: &impl AttemptError, after: Duration, effect: Effect) -> Error {
        let (server, problem) = (error.server(), error.told());
        match (error.passes(), effect) {
            (true, effect) => Error::Unavailable { server, problem, after, effect },
            (false, Effect::None) => Error::Denied { server, problem },
            (false, Effect::Unknown) => {
                Error::Unavailable { server, problem, after: Duration::ZERO, effect }
            }
        }
    }

    /// What is told of an error after an earlier step of the same call has had its effect, or may
    /// have had it: nothing but that it is open.
    pub fn after_a_write(self) -> Error {
        let effect = Effect::Unknown;
        match self {
            Error::Unavailable { server, problem, after, .. } => {
                Error::Unavailable { server, problem, after, effect }
            }
            Error::Denied { server, problem } => {
                Error::Unavailable { server, problem, after: Duration::ZERO, effect }
            }
            refusal @ (Error::Invalid { .. }
            | Error::Conflict { .. }
            | Error::KeyInUse { .. }
            | Error::WithoutKeys(_)
            | Error::WrongState { .. }
            | Error::Captured { .. }
            | Error::Refused { .. }
            | Error::NotFound { .. }
            | Error::NoWorker { .. }
            | Error::WithoutHistory
            | Error::WithoutEvents) => {
                let (server, problem) = (Server::MongoDb, refusal.to_string());
                Error::Unavailable { server, problem, after: Duration::ZERO, effect }
            }
        }
    }

    /// The same of what was not sent, because something before it has failed so.
    pub(crate) fn not_tried(&self) -> Error {
        match self {
            Error::Unavailable { server, problem, after, .. } => Error::Unavailable {
                server: *server,
                problem: format!("not tried: {problem}"),
                after: *after,
                effect: Effect::None,
            },
            Error::Invalid { .. }
            | Error::Conflict { .. }
            | Error::KeyInUse { .. }
            | Error::WithoutKeys(_)
            | Error::WrongState { .. }
            | Error::Captured { .. }
            | Error::Refused { .. }
            | Error::NotFound { .. }
            | Error::NoWorker { .. }
            | Error::WithoutHistory
            | Error::WithoutEvents
            | Error::Denied { .. } => self.clone(),
        }
    }

    /// A refusal by what is there now. It stands only if no earlier attempt of the same call is
    /// open: that one may still arrive.
    pub(crate) fn unless_open(self, open: Effect) -> Error {
        match open {
            Effect::None => self,
            Effect::Unknown => self.after_a_write(),
        }
    }

    pub(crate) fn refused(id: &str, problem: impl Into<String>) -> Error {
        Error::Refused { id: id.to_owned(), problem: problem.into() }
    }

    /// The server does not accept it now, and an earlier attempt may have had its effect or may
    /// have it yet.
    pub(crate) fn open(id: &str, said: &str) -> Error {
        let (server, problem) = (Server::MongoDb, format!("{id}: MongoDB says: {said}"));
        Error::Unavailable { server, problem, after: Duration::ZERO, effect: Effect::Unknown }
    }

    pub(crate) fn no_transaction(id: &str) -> Error {
        Error::NotFound { kind: Kind::Transaction, id: id.to_owned() }
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Error {
        let whole = error.to_string();
        let (field, problem) = whole.split_once(": ").unwrap_or(("legs", &whole));
        Error::Invalid { field: field.to_owned(), problem: problem.to_owned() }
    }
}

impl From<LedgerError> for Error {
    /// Of a look that is not tried again.
    fn from(error: LedgerError) -> Error {
        Error::of_server(&error, Duration::ZERO, Effect::None)
    }
}

impl From<QueueError> for Error {
    /// Of a look that is not tried again.
    fn from(error: QueueError) -> Error {
        Error::of_server(&error, Duration::ZERO, Effect::None)
    }
}

/// An error of one attempt; waiting may help.
pub trait AttemptError {
    /// Whether waiting may help.
    fn passes(&self) -> bool;
    /// The server that it comes from.
    fn server(&self) -> Server;
    /// The error in words that name the server.
    fn told(&self) -> String;
    /// What is known of the effect of the attempt.
    fn effect(&self) -> Effect;
}

impl AttemptError for LedgerError {
    fn passes(&self) -> bool {
        LedgerError::passes(self)
    }

    fn server(&self) -> Server {
        Server::MongoDb
    }

    fn told(&self) -> String {
        format!("MongoDB: {self}")
    }

    fn effect(&self) -> Effect {
        self.effect
    }
}

impl AttemptError for NotReady {
    fn passes(&self) -> bool {
        NotReady::passes(self)
    }

    fn server(&self) -> Server {
        Server::MongoDb
    }

    // Names the server where it is an error of the server.
    fn told(&self) -> String {
        self.to_string()
    }

    fn effect(&self) -> Effect {
        NotReady::effect(self)
    }
}

impl AttemptError for QueueError {
    fn passes(&self) -> bool {
        !self.lasts()
    }

    fn server(&self) -> Server {
        Server::RabbitMq
    }

    // Names the broker itself.
    fn told(&self) -> String {
        self.to_string()
    }

    // A message only says where to look: whether it has come is no effect of a call.
    fn effect(&self) -> Effect {
        Effect::None
    }
}

/// Legs in words, for errors and people: `alice -30, shop 30`.
pub fn in_words(legs: &[Leg]) -> String {
    let legs = legs.iter().map(|leg| format!("{} {}", leg.account, leg.amount));
    legs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::transaction::Body;

    use super::*;

    #[test]
    fn a_broken_rule_names_its_field() {
        for (source, value, field) in
            [("a", -1, "value"), ("b", 1, "destination"), ("", 1, "source")]
        {
            let error = Body::transfer(source, "b", Amount::Int(value)).expect_err("broken");
            let whole = error.to_string();
            let error = Error::from(error);
            assert_eq!(error.to_string(), whole);
            assert!(matches!(&error, Error::Invalid { field: of, .. } if of == field), "{error:?}");
        }
    }
}
