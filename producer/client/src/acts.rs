//! Acts: what a person does is noted before it is done, and what became of it afterwards.
//!
//! Owns the order of the three steps. Promises that nothing is done that is not noted: if the first
//! note can't be written, the act is refused without effect. So when the process
//!
//! - dies after the first note: the act stays begun, and what became of it is told as not known;
//! - can't write the second note: the same, and the caller is told what became of it all the same.
//!
//! An act costs four round trips, two before and two after it. Submissions and the work of workers
//! are no acts. Fails with the error of the act, or of its first note.

use std::time::Duration;

use ledger::limits::REASON_BYTES_MAX;
use mongo::{ActEnd, ActResult, NewAct};

use crate::client::Client;
use crate::error::{Effect, Error, Server};

/// How long the second note is tried at most: somebody waits for the answer, which is known.
const END_WITHIN: Duration = Duration::from_secs(10);

/// An error with which an act may end.
pub trait ActError: Sized {
    /// How the act has ended, as it is noted.
    fn ended(&self) -> ActEnd;

    /// What the caller is told if the act could not be noted, and so was not done.
    fn not_noted(error: Error) -> Self;
}

impl ActError for Error {
    fn ended(&self) -> ActEnd {
        let message = self.to_string();
        let refused = |code| (ActResult::Refused, Some(code));
        let (result, code) = match self {
            Error::Invalid { .. } => refused("invalid"),
            Error::Conflict { .. } => refused("conflict"),
            Error::KeyInUse { .. } => refused("key-in-use"),
            Error::WrongState { .. } => refused("wrong-state"),
            Error::Captured { .. } => refused("already-confirmed"),
            Error::Refused { .. } => refused("refused"),
            Error::NotFound { .. } | Error::NoWorker { .. } => refused("not-found"),
            Error::WithoutKeys(_) | Error::WithoutHistory | Error::WithoutEvents => {
                refused("lacking")
            }
            Error::Unavailable { effect: Effect::None, .. } | Error::Denied { .. } => {
                (ActResult::Failed, None)
            }
            Error::Unavailable { effect: Effect::Unknown, .. } => (ActResult::Unknown, None),
        };
        ActEnd { result, code, message }
    }

    fn not_noted(error: Error) -> Error {
        error
    }
}

impl Client {
    /// Does something that a person has asked for, and notes it before and after. `told` says what
    /// became of it.
    ///
    /// # Errors
    /// The error of `work`; and that of the first note, without an effect.
    pub async fn act<T, E: ActError>(
        &self,
        act: &NewAct,
        work: impl Future<Output = Result<T, E>>,
        told: impl FnOnce(&T) -> ActEnd,
    ) -> Result<T, E> {
        let id = uuid::Uuid::now_v7().to_string();
        let begun = self.insist(|| self.store().begin_act(&id, act)).await;
        begun.map_err(|error| E::not_noted(not_done(error)))?;
        let done = work.await;
        let end = done.as_ref().map_or_else(ActError::ended, told);
        let limit = self.config().give_up_after.min(END_WITHIN);
        let noted = self.servers().insist(limit, || self.store().end_act(&id, &end)).await;
        if let Err(error) = noted {
            let result = end.result.as_str();
            self.note(&format!(
                "{}: what became of it ({result}) could not be noted: {error}",
                act.what
            ));
        }
        done
    }
}

/// The error of the first note, as one of the act: it surely had no effect.
fn not_done(error: Error) -> Error {
    let why = |problem: &str| {
        format!("nothing was done, because it could not be noted first who does it: {problem}")
    };
    match error {
        Error::Denied { server, problem } => Error::Denied { server, problem: why(&problem) },
        Error::Unavailable { server, problem, after, .. } => {
            Error::Unavailable { server, problem: why(&problem), after, effect: Effect::None }
        }
        other => Error::Unavailable {
            server: Server::MongoDb,
            problem: why(&other.to_string()),
            after: Duration::ZERO,
            effect: Effect::None,
        },
    }
}

/// A reason as it is kept, without the blanks around it; none where it says nothing.
///
/// # Errors
/// What is wrong with it: it has more than [`REASON_BYTES_MAX`] bytes, or a control character.
pub fn act_reason(text: &str) -> Result<Option<String>, String> {
    match text.trim() {
        "" => Ok(None),
        text if text.len() > REASON_BYTES_MAX => {
            Err(format!("has {} bytes; the limit is {REASON_BYTES_MAX}", text.len()))
        }
        text if text.contains(char::is_control) => Err("has a control character".to_owned()),
        text => Ok(Some(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use ledger::transaction::State;

    use super::*;

    fn away(effect: Effect) -> Error {
        let (problem, after) = ("away".to_owned(), Duration::ZERO);
        Error::Unavailable { server: Server::MongoDb, problem, after, effect }
    }

    #[test]
    fn an_act_is_noted_as_refused_or_failed_only_where_it_surely_had_no_effect() {
        let id = "t".to_owned();
        let state = Error::WrongState { id, state: State::Done, problem: "can't be canceled" };
        let denied = Error::Denied { server: Server::MongoDb, problem: "no right".to_owned() };
        for (error, result, code) in [
            (state, ActResult::Refused, Some("wrong-state")),
            (Error::no_transaction("t"), ActResult::Refused, Some("not-found")),
            (denied, ActResult::Failed, None),
            (away(Effect::None), ActResult::Failed, None),
            (away(Effect::Unknown), ActResult::Unknown, None),
        ] {
            let end = error.ended();
            assert_eq!((end.result, end.code), (result, code), "{error:?}");
            assert_eq!(end.message, error.to_string());
        }
    }

    #[test]
    fn what_could_not_be_noted_surely_had_no_effect() {
        for error in [away(Effect::Unknown), away(Effect::None), Error::no_transaction("t")] {
            let told = not_done(error);
            assert!(matches!(told, Error::Unavailable { effect: Effect::None, .. }), "{told:?}");
            assert!(told.to_string().starts_with("nothing was done"), "{told}");
        }
    }

    #[test]
    fn a_reason_says_something_is_one_line_and_is_short() {
        assert_eq!(act_reason(" a slip "), Ok(Some("a slip".to_owned())));
        assert_eq!(act_reason("  "), Ok(None));
        assert_eq!(act_reason(&"x".repeat(REASON_BYTES_MAX)).map(|it| it.is_some()), Ok(true));
        for wrong in ["a\nb", "a\u{85}b", &"x".repeat(REASON_BYTES_MAX + 1)] {
            assert!(act_reason(wrong).is_err(), "{wrong:?}");
        }
    }
}
