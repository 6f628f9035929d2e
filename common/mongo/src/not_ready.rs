//! Why a program can't work on a database, in words that tell what to do.
//!
//! Pure. Owns what is known of the effect of such a failure, and whether waiting may help.

use ledger::remedy::Remedy;
use ledger::{Effect, Fault, LedgerError};

use super::findings::Finding;
use super::keyed;
use super::ledger_settings::Misfit;

/// Why a program can't work on this database.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// The server is away or refuses.
    #[error("MongoDB: {0}")]
    Ledger(#[from] LedgerError),
    /// The server does not accept the user.
    #[error(
        "MongoDB does not accept the login ({0}); check user, password and authSource in \
         TANDEM_MONGODB_URI"
    )]
    Login(String),
    /// The user lacks a right.
    #[error(
        "the MongoDB user may not {what} (the server says: {said}); give it the role `readWrite` \
         on this database, and `dbAdmin` for {}",
        Remedy::Apply
    )]
    NotPermitted {
        /// The operation that the user may not do.
        what: String,
        /// The server's message.
        said: String,
    },
    /// The server takes an index of the user's own for one of Tandem's, and refuses a second one.
    #[error(
        "the server takes an index of your own for one of Tandem's ({0}); drop yours, then run \
         {remedy} again",
        remedy = Remedy::Apply
    )]
    IndexTaken(String),
    /// The server has no native transactions.
    #[error(
        "this MongoDB server is a member of no replica set, and each end of transactions is written \
         in a native transaction, which it does not have; start mongod with --replSet NAME, and run \
         rs.initiate() once"
    )]
    Alone,
    /// Exclusive keys are asked for on a sharded cluster.
    #[error("{}; leave out --exclusive-keys on", keyed::NEEDS_REPLICA_SET)]
    KeysOnRouter,
    /// Accounts are known by another field than `_id`, on a sharded cluster.
    #[error(
        "on the router of a sharded cluster, accounts can be known by `_id` only: no index keeps \
         another field unique on all shards; leave `_id` out of accounts.fields in the schema"
    )]
    KeyOnRouter,
    /// Two accounts have the same value in the field by which they are known.
    #[error(
        "two accounts have the same value in the field by which they are known ({0}); give one of \
         them another value, then run the command again"
    )]
    KeyTwice(String),
    /// It is of another version.
    #[error("{0}")]
    Misfit(#[from] Misfit),
    /// It lacks something.
    #[error("{}", unfit(.0))]
    Unfit(Vec<Finding>),
}

impl NotReady {
    /// What is known of the effect of what has failed.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.of_server().map_or(Effect::None, |error| error.effect)
    }

    /// The same of a look, or of a step before what was asked for.
    #[must_use]
    pub fn without_effect(self) -> NotReady {
        match self {
            NotReady::Ledger(error) => NotReady::Ledger(error.without_effect()),
            other => other,
        }
    }

    /// The same as an error of the ledger, of this operation.
    pub(super) fn into_ledger(self, operation: &'static str) -> LedgerError {
        match self {
            NotReady::Ledger(error) => error,
            other => {
                let (message, fault) = (other.to_string(), Fault::Denied);
                LedgerError { operation, message, fault, effect: Effect::None }
            }
        }
    }

    /// Whether waiting may help.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.of_server().is_some_and(LedgerError::passes)
    }

    /// The error of the server itself. All others are judgements, which have no effect and do not
    /// pass.
    fn of_server(&self) -> Option<&LedgerError> {
        match self {
            NotReady::Ledger(error) => Some(error),
            NotReady::Login(_)
            | NotReady::NotPermitted { .. }
            | NotReady::IndexTaken(_)
            | NotReady::Alone
            | NotReady::KeysOnRouter
            | NotReady::KeyOnRouter
            | NotReady::KeyTwice(_)
            | NotReady::Misfit(_)
            | NotReady::Unfit(_) => None,
        }
    }
}

fn unfit(findings: &[Finding]) -> String {
    let Some(first) = findings.first() else { return "the database lacks nothing".to_owned() };
    let more = match findings.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let remedy = match findings.iter().any(Finding::applies) {
        true => format!(", {} applies it", Remedy::Apply),
        false => String::new(),
    };
    format!(
        "the database is not as Tandem needs it: {first}{more}; {} lists what is missing{remedy}",
        Remedy::Init
    )
}
