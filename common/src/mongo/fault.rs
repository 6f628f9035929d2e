//! What kind of failure an error of the driver or the server is.
//!
//! Owns the one place where errors are told apart: of the connection, of the command, of a
//! document. All other code decides by [`Fault`] only. An error code that is not named here counts
//! as lasting, and as one that a single document may have caused.

use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR};

use crate::ledger::{Fault, LedgerError, Refused};
use crate::limits;

/// Server errors that pass: fail-over, locks, write conflicts, shutdown, network.
/// From the retryable errors of the drivers' specification, plus those a repeat can cure, also where
/// the server names them as errors of single documents: a DDL operation is underway (117), the server
/// is short of something for a moment (365), writes of users are blocked (371), the disk is full
/// (14031), a snapshot is not there any more or not yet (239, 246).
const PASSING_CODES: [i32; 25] = [
    6, 7, 11, 24, 46, 64, 89, 91, 112, 117, 133, 134, 189, 202, 239, 246, 365, 371, 9001, 10107,
    11600, 11602, 13435, 13436, 14031,
];

/// The command took too long (50, 262), is too large (257) or needs too much memory (146, 292).
const TOO_MUCH_CODES: [i32; 5] = [50, 262, 257, 146, 292];

/// Something is too large (10334, 17419, 17420): of a command it is the command, of a statement it
/// is the document, as it is or would be.
const SIZE_CODES: [i32; 3] = [10334, 17419, 17420];

/// The user may not (13, 18, 8000), or the server does not know such a command or option (59, 72,
/// 9, 40415).
const DENIED_CODES: [i32; 7] = [13, 18, 8000, 59, 72, 9, 40415];

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
        ErrorKind::Io(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => Fault::Passing,
        ErrorKind::Authentication { .. } | ErrorKind::InvalidTlsConfig { .. } => Fault::Denied,
        _ if passes => Fault::Passing,
        _ => Fault::Refused,
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

/// The driver's error as the ledger's.
pub(super) fn classify(operation: &'static str, error: &Error) -> LedgerError {
    let fault = of_error(error);
    let message = limits::echo(&error.to_string()).into_owned();
    LedgerError { operation, message, fault }
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
        let message = concern.get_str("errmsg").unwrap_or("write concern failed");
        return Err(LedgerError::passing(operation, message));
    }
    let mut refused = Vec::new();
    for error in reply.get_array("writeErrors").into_iter().flatten() {
        let error = error.as_document();
        let number = |field| error.and_then(|e| e.get_i32(field).ok());
        let code = number("code").unwrap_or_default();
        let message = error.and_then(|e| e.get_str("errmsg").ok()).unwrap_or("unknown");
        let problem = format!("{} (code {code})", limits::echo(message));
        let item = number("index").and_then(|index| usize::try_from(index).ok());
        let fault = if SIZE_CODES.contains(&code) { Fault::Refused } else { of_code(code) };
        match (fault, item) {
            (Fault::Refused, Some(item)) => refused.push((code, Refused { item, problem })),
            (fault, _) => return Err(LedgerError { operation, message: problem, fault }),
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn write_error(code: i32) -> Document {
        doc! { "ok": 1, "n": 0, "nModified": 0,
        "writeErrors": [{ "index": 3, "code": code, "errmsg": "no" }] }
    }

    #[test]
    fn a_reply_that_is_not_durable_is_an_error() {
        let reply = doc! { "ok": 1, "n": 1, "nModified": 1,
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
        assert_eq!(refusals("post", &reply).expect_err("not durable").fault, Fault::Passing);
    }

    #[test]
    fn an_error_of_the_server_fails_the_command_and_one_of_a_document_names_it() {
        for (code, fault) in [(112, Fault::Passing), (50, Fault::TooMuch), (13, Fault::Denied)] {
            assert_eq!(refusals("post", &write_error(code)).expect_err("failed").fault, fault);
        }
        for code in [121, 11000, 17280, 17419] {
            let refused = refusals("post", &write_error(code)).expect("the others ran");
            assert_eq!(refused.len(), 1);
            assert_eq!((refused[0].0, refused[0].1.item), (code, 3));
        }
    }
}
