//! How a command ends: its exit code, or an error with one.
//!
//! Business outcomes (a refused transfer, an audit that found something) are [`Exit`]s; an
//! [`Error`] means that the command could not do what was asked, and says what to do.

use std::io;

use common::ledger::LedgerError;
use common::transaction::BodyError;

/// The exit code of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Ok,
    /// Something was refused, or an audit found something.
    Failed,
    /// The input or the command line is wrong; nothing was written.
    BadInput,
    /// `--wait-limit` was reached before the end.
    WaitLimit,
    /// The awaited transaction was canceled.
    Canceled,
    /// Ctrl-C.
    Interrupted,
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
            Exit::Interrupted => 130,
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input or the command line is wrong; nothing was written.
    #[error("{0}")]
    BadInput(String),
    /// A server or a file failed, or the request makes no sense in the present state.
    #[error("{0}")]
    Failed(String),
    /// Whoever read standard output has gone away, like `head` after its ten lines.
    #[error("standard output is closed")]
    OutputClosed,
}

impl Error {
    /// The exit code that goes with it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Error::BadInput(_) => Exit::BadInput,
            Error::Failed(_) => Exit::Failed,
            Error::OutputClosed => Exit::Ok,
        }
    }

    /// A failure to write to standard output.
    pub(crate) fn output(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::OutputClosed,
            _ => Error::Failed(format!("standard output: {error}")),
        }
    }

    /// A failure of a file.
    pub(crate) fn file(name: &str, error: &io::Error) -> Error {
        Error::Failed(format!("{name}: {error}"))
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Error {
        Error::Failed(format!("MongoDB: {error}"))
    }
}

impl From<mongodb::error::Error> for Error {
    fn from(error: mongodb::error::Error) -> Error {
        Error::Failed(format!("MongoDB: {error}"))
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Error {
        Error::BadInput(error.to_string())
    }
}
