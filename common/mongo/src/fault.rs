//! What kind of failure an error of the driver or the server is, and whether the operation may have
//! had its effect all the same.
//!
//! Owns the one place where errors are told apart. All other code decides by [`Fault`] (what
//! follows: try again, make it smaller, give up) and by [`Effect`] (what may be told) only.
//!
//! **What follows.** An error code that is not named here counts as lasting, and as one that a
//! single document may have caused.
//!
//! **What may be told.** Promises that "without effect" is said only where it is sure, whatever
//! carries the error:
//!
//! - never sent (no server, no login, an argument that the driver refuses): without effect;
//! - an answer of the server with one of the codes that it gives before it writes: without effect.
//!   Any other code leaves it open: an interrupted command, for example, may have written a part;
//! - a write concern error comes *after* the effect, so it leaves open whether the effect lasts;
//! - a broken connection, a time limit, an answer that can't be read: open.
//!
//! A commit is decided by [`commit_failed`] alone. Reads have no effect; who reads says so
//! ([`LedgerError::without_effect`]).

use ledger::{Effect, Fault, LedgerError, Refused, limits};
use mongodb::bson::{Bson, Document};
use mongodb::error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR};

use super::words;

/// Server errors that pass: fail-over, locks, write conflicts, shutdown, network. From the
/// retryable errors of the drivers' specification, plus those a repeat can cure, also where the
/// server names them as errors of single documents: a DDL operation is underway (117), an index or
/// a collection has just been dropped (175), a cursor or a client is gone (43, 237, 279), the
/// server is short of something for a moment (365), writes of users are blocked (371), the
/// operation was killed (11601), the disk is full (14031), a snapshot is not there any more or not
/// yet (239, 246), a native transaction was ended (251, 290).
const PASSING_CODES: [i32; 32] = [
    6, 7, 11, 24, 43, 46, 64, 89, 91, 112, 117, 133, 134, 175, 189, 202, 237, 239, 246, 251, 279,
    290, 365, 371, 9001, 10107, 11600, 11601, 11602, 13435, 13436, 14031,
];

/// The command took too long (50, 262), is too large (257) or needs too much memory (146, 292).
const TOO_MUCH_CODES: [i32; 5] = [50, 262, 257, 146, 292];

/// Something is too large (10334, 17419, 17420): of a command it is the command, of a statement it
/// is the document, as it is or would be.
const SIZE_CODES: [i32; 3] = [10334, 17419, 17420];

/// The user may not (13, 18, 8000), or the server does not know such a command or option (59, 72,
/// 9, 40415).
const DENIED_CODES: [i32; 7] = [13, 18, 8000, 59, 72, 9, 40415];

/// Beside those that are denied or too large: what the server finds out while it reads a command,
/// before it writes. A value is bad (2), of a wrong type (14), no BSON (22), missing (40414) or has
/// a name that is not allowed (52, 56, 57); the name of a collection is bad (73); a view can't be
/// written (166); the document breaks a validator (121) or a unique index (11000); the command is
/// illegal here (20, 115).
const BEFORE_THE_WRITE_CODES: [i32; 13] =
    [2, 14, 20, 22, 52, 56, 57, 73, 115, 121, 166, 11_000, 40_414];

/// The kind of a server's error code.
#[must_use]
pub fn of_code(code: i32) -> Fault {
    if PASSING_CODES.contains(&code) {
        Fault::Passing
    } else if TOO_MUCH_CODES.contains(&code) || SIZE_CODES.contains(&code) {
        Fault::TooMuch
    } else if DENIED_CODES.contains(&code) {
        Fault::Denied
    } else {
        Fault::Refused
    }
}

/// The kind of an error of the driver.
#[must_use]
pub fn of_error(error: &Error) -> Fault {
    let passes = error.contains_label(RETRYABLE_WRITE_ERROR)
        || error.contains_label(TRANSIENT_TRANSACTION_ERROR);
    match error.kind.as_ref() {
        ErrorKind::Command(command) if !passes => of_code(command.code),
        // After the effect: the same again finds it, or does it.
        ErrorKind::Write(mongodb::error::WriteFailure::WriteConcernError(_))
        | ErrorKind::Io(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => Fault::Passing,
        ErrorKind::Authentication { .. } | ErrorKind::InvalidTlsConfig { .. } => Fault::Denied,
        _ if passes => Fault::Passing,
        _ => Fault::Refused,
    }
}

/// What a command's error code says about its effect.
fn effect_of_code(code: i32) -> Effect {
    let is_before =
        [&DENIED_CODES[..], &SIZE_CODES, &BEFORE_THE_WRITE_CODES].iter().any(|c| c.contains(&code));
    if is_before { Effect::None } else { Effect::Unknown }
}

/// Whether a write that failed with this error may have had its effect.
fn effect_of(error: &Error) -> Effect {
    match error.kind.as_ref() {
        ErrorKind::Command(_) if has_write_concern_error(error) => Effect::Unknown,
        ErrorKind::Command(command) => effect_of_code(command.code),
        ErrorKind::ServerSelection { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::SessionsNotSupported
        | ErrorKind::Transaction { .. }
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Shutdown => Effect::None,
        // The kinds of the driver are not a closed list.
        _ => Effect::Unknown,
    }
}

fn has_write_concern_error(error: &Error) -> bool {
    let answer = error.server_response();
    answer.is_some_and(|answer| !matches!(answer.get("writeConcernError"), Ok(None)))
}

/// What an error of `commitTransaction` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitFailed {
    /// The transaction is not committed and never will be.
    Surely,
    /// It may be committed. Asking for the commit once more tells, because the server knows a
    /// transaction by its number.
    Perhaps,
}

/// Whether a commit has surely failed. The server itself says so with a label, which it gives only
/// where nothing can be rolled back any more; an earlier attempt whose answer was lost can't have
/// worked then. No other error says it: not the refusal of a second attempt, which the driver may
/// have sent by itself after the first was lost, and not a write concern error, which comes after
/// the commit.
pub(super) fn commit_failed(error: &Error) -> CommitFailed {
    let is_command = matches!(error.kind.as_ref(), ErrorKind::Command(_));
    match is_command
        && error.contains_label(TRANSIENT_TRANSACTION_ERROR)
        && !has_write_concern_error(error)
    {
        true => CommitFailed::Surely,
        false => CommitFailed::Perhaps,
    }
}

/// The server's code of a failed command.
#[must_use]
pub fn code_of(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        _ => None,
    }
}

/// An error of a query that is tried only once. A query has no effect.
#[must_use]
pub fn of_query(operation: &'static str, error: &Error) -> LedgerError {
    classify(operation, error).without_effect()
}

/// The driver's error of a write as the ledger's.
pub(super) fn classify(operation: &'static str, error: &Error) -> LedgerError {
    let message = limits::echo(&words::of_error(error)).into_owned();
    LedgerError { operation, message, fault: of_error(error), effect: effect_of(error) }
}

/// Whether the server has answered with text that is not valid UTF-8: its refusal repeats text of a
/// document. The driver can't read such an answer, so what it says about other documents is lost.
pub(super) fn is_garbled(error: &Error) -> bool {
    matches!(
        error.kind.as_ref(),
        ErrorKind::BsonDeserialization(_) | ErrorKind::Bson(_) | ErrorKind::InvalidResponse { .. }
    )
}

/// The documents that the server has refused to write, with the code; an error
/// when the whole command has failed. `run_command` answers `Ok` even when statements failed or
/// durability is unknown, so this looks inside.
pub(super) fn refusals(
    operation: &'static str,
    reply: &Document,
) -> Result<Vec<(i32, Refused)>, LedgerError> {
    if let Ok(concern) = reply.get_document("writeConcernError") {
        let code = concern.get_i32("code").unwrap_or_default();
        let message = concern.get_str("errmsg").unwrap_or("write concern failed");
        let message = format!("{} (code {code})", limits::echo(message));
        return Err(LedgerError::passing(operation, message));
    }
    let mut refused = Vec::new();
    for error in reply.get_array("writeErrors").into_iter().flatten() {
        let error = error.as_document();
        let number = |field| error.and_then(|e| e.get_i32(field).ok());
        let code = number("code").unwrap_or_default();
        let message = error.and_then(|e| e.get_str("errmsg").ok()).unwrap_or("unknown");
        let rule = error.and_then(broken_rule);
        let problem = layout::refusal_in(message).unwrap_or_else(|| {
            format!("{} (code {code}){}", limits::echo(message), rule.unwrap_or_default())
        });
        let item = number("index").and_then(|index| usize::try_from(index).ok());
        let fault = if SIZE_CODES.contains(&code) { Fault::Refused } else { of_code(code) };
        match (fault, item) {
            (Fault::Refused, Some(item)) => refused.push((code, Refused { item, problem })),
            // The other documents of the command may have been written.
            (fault, _) => {
                let error = LedgerError::passing(operation, problem);
                return Err(LedgerError { fault, ..error });
            }
        }
    }
    Ok(refused)
}

/// The rule of a validator that a document breaks, as far as the server tells it in words: the
/// first comparison that is not met, with the value.
fn broken_rule(error: &Document) -> Option<String> {
    let details = error.get_document("errInfo").ok()?.get("details")?;
    let broken = comparison(details)?;
    let rule = broken.get("specifiedAs")?;
    let value = broken.get("consideredValue").map(|value| format!(", and the value is {value}"));
    let text = format!("{rule}{}", value.unwrap_or_default());
    Some(format!("; a rule of the validator is not met: {}", limits::echo(&text)))
}

/// The first comparison in the details of a refusal. An expression is none: of it the server tells
/// only that it is false.
fn comparison(details: &Bson) -> Option<&Document> {
    match details {
        Bson::Document(details) if details.contains_key("specifiedAs") => {
            let is_expression = details.get_str("operatorName").is_ok_and(|name| name == "$expr");
            (!is_expression).then_some(details)
        }
        Bson::Document(details) => details.values().find_map(comparison),
        Bson::Array(all) => all.iter().find_map(comparison),
        _ => None,
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
