//! How a command ends: its exit code, or an error with one.
//!
//! Business outcomes (a refused transfer, an audit that found something) are [`Exit`]s; an
//! [`Error`] means that the command could not do what was asked. [`Error::told`] is what the user
//! reads: the problem, and the command's advice where a repetition can help. Promises that a script
//! can tell by the code alone what was surely not done from what may have been done: for the latter
//! there is [`Exit::Unknown`], and nothing else ends with it.

use std::io;

use client::{Effect, SETTINGS, State};
use ledger::LedgerError;
use ledger::remedy::Remedy;
use ledger::shell::laid_out;
use ledger::transaction::BodyError;

use crate::advice::{Advice, Todo};

/// The exit code of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Ok,
    /// Something was refused or could not be done, or an audit found something.
    Failed,
    /// The input or the command line is wrong; nothing was written.
    BadInput,
    /// `--wait-limit` was reached before the end.
    WaitLimit,
    /// The awaited transaction was canceled.
    Canceled,
    /// It is not known whether it was done, wholly or in part. The same command tells.
    Unknown,
    /// SIGINT, as Ctrl-C sends it.
    Interrupted,
    /// SIGTERM, as a service manager sends it.
    Terminated,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::BadInput => 2,
            Exit::WaitLimit => 3,
            Exit::Canceled => 4,
            Exit::Unknown => 5,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input or the command line is wrong; nothing was written.
    #[error("{0}")]
    BadInput(String),
    /// The request makes no sense in the present state, so a repetition would be refused as well.
    #[error("{0}")]
    Refused(String),
    /// A server or a file failed, and what was asked for was not done.
    #[error("{0}")]
    Failed(String),
    /// A server or a file failed, and what was asked for may have been done, wholly or in part.
    #[error("{0}")]
    Unknown(String),
    /// The reader of standard output has gone away, as `head` does after ten lines.
    #[error("standard output is closed")]
    OutputClosed,
}

impl Error {
    /// The exit code that goes with it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Error::BadInput(_) => Exit::BadInput,
            Error::Refused(_) | Error::Failed(_) => Exit::Failed,
            Error::Unknown(_) => Exit::Unknown,
            Error::OutputClosed => Exit::Ok,
        }
    }

    /// What the user is told, if anything. A failure ends with the advice of the command.
    #[must_use]
    pub fn told(&self, advice: &Advice) -> Option<String> {
        match self {
            Error::BadInput(problem) | Error::Refused(problem) => Some(problem.clone()),
            Error::Failed(problem) | Error::Unknown(problem) => {
                Some(format!("{problem}; {advice}"))
            }
            Error::OutputClosed => None,
        }
    }

    /// The same after an earlier step has had its effect, or may have had it.
    pub(crate) fn after_a_write(self) -> Error {
        match self {
            Error::Failed(problem) => Error::Unknown(problem),
            Error::BadInput(_) | Error::Refused(_) | Error::Unknown(_) | Error::OutputClosed => {
                self
            }
        }
    }

    /// A failure to write to standard output: what it was about may be done.
    pub(crate) fn output(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::OutputClosed,
            _ => Error::Unknown(format!("standard output: {error}")),
        }
    }

    /// A failure of a file.
    pub(crate) fn file(name: &str, error: &io::Error) -> Error {
        Error::Failed(format!("{name}: {error}"))
    }
}

impl From<client::Error> for Error {
    fn from(error: client::Error) -> Error {
        use client::Error as E;
        let whole = error.to_string();
        match error {
            // Names the setting as the user wrote it.
            E::Invalid { field, problem } => {
                let setting = SETTINGS.iter().find(|(of, _)| *of == field);
                // Named as the user sets it.
                let told = setting.map(|(_, variable)| format!("{variable}: {problem}"));
                Error::BadInput(told.unwrap_or(whole))
            }
            E::WrongState { id, state, .. } => Error::Refused(match state {
                State::Scheduled | State::Initial | State::Pending | State::Held => {
                    take_back(&whole, Remedy::Cancel(&id))
                }
                State::Applied | State::Done => take_back(&whole, Remedy::Reverse(&id)),
                State::Canceling | State::Canceled => {
                    format!("{whole}; there is nothing to reverse")
                }
            }),
            // Their texts are the ledger's own, and may hold commands.
            E::WithoutKeys(_) | E::WithoutHistory | E::WithoutEvents => {
                Error::Refused(laid_out(&whole))
            }
            E::Denied { .. } => Error::Failed(laid_out(&whole)),
            E::Conflict { .. }
            | E::Captured { .. }
            | E::KeyInUse { .. }
            | E::Refused { .. }
            | E::NotFound { .. }
            | E::NoWorker { .. } => Error::Refused(whole),
            E::Unavailable { effect: Effect::None, .. } => Error::Failed(whole),
            E::Unavailable { effect: Effect::Unknown, .. } => Error::Unknown(whole),
        }
    }
}

/// A problem, and the command that undoes the transaction.
fn take_back(problem: &str, remedy: Remedy<'_>) -> String {
    Todo::with(format!("{problem}; take it back with"), remedy.command()).to_string()
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Error {
        let problem = format!("MongoDB: {error}");
        match error.effect {
            Effect::None => Error::Failed(problem),
            Effect::Unknown => Error::Unknown(problem),
        }
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Error {
        Error::BadInput(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_says_what_the_command_advises() {
        let advice = Advice::default();
        advice.set("repeat with --id t");
        let after = std::time::Duration::from_secs(60);
        let (server, problem) = (client::Server::MongoDb, "MongoDB: away".to_owned());
        let effect = Effect::Unknown;
        let error = Error::from(client::Error::Unavailable { server, problem, after, effect });
        let told = error.told(&advice).unwrap_or_default();
        let perhaps = "perhaps it has taken effect or will: ask again with the same id";
        assert_eq!(
            told,
            format!("MongoDB: away; given up after 60 s; {perhaps}; repeat with --id t")
        );
    }

    #[test]
    fn the_code_tells_what_was_surely_not_done_from_what_may_have_been_done() {
        let failed = |effect| {
            let (server, problem) = (client::Server::MongoDb, "away".to_owned());
            let after = std::time::Duration::ZERO;
            Error::from(client::Error::Unavailable { server, problem, after, effect })
        };
        assert_eq!(failed(Effect::None).exit().code(), 1);
        assert_eq!(failed(Effect::Unknown).exit().code(), 5);
        let (server, problem) = (client::Server::MongoDb, "no right".to_owned());
        let denied = client::Error::Denied { server, problem };
        assert_eq!(Error::from(denied.clone()).exit(), Exit::Failed);
        assert_eq!(Error::from(denied).after_a_write().exit(), Exit::Unknown);
    }

    #[test]
    fn a_command_to_copy_is_a_line_of_its_own_and_one_word_of_the_shell_for_each_name() {
        let wrong = |id: &str, state| {
            let (id, problem) = (id.to_owned(), "can't be reversed");
            Error::from(client::Error::WrongState { id, state, problem }).to_string()
        };
        for (id, state, expected) in [
            ("t", State::Initial, "producer cancel t"),
            ("t u", State::Done, "producer reverse 't u'"),
            ("-t", State::Held, "producer cancel -- -t"),
        ] {
            assert_eq!(wrong(id, state).lines().last(), Some(&*format!("  {expected}")));
        }
        let lacking = Error::from(client::Error::WithoutHistory).to_string();
        assert!(lacking.lines().any(|line| line == "  producer init --apply --history on"));
    }

    #[test]
    fn only_a_failure_ends_with_advice() {
        let advice = Advice::default();
        advice.set("run it again");
        let told = |error: Error| error.told(&advice).unwrap_or_default();
        assert_eq!(told(Error::Failed("away".to_owned())), "away; run it again");
        assert_eq!(told(Error::Refused("the id is taken".to_owned())), "the id is taken");
        assert_eq!(told(Error::BadInput("no file".to_owned())), "no file");
        assert_eq!(Error::OutputClosed.told(&advice), None);
    }
}
