//! What a caller was told, and whether it is so.
//!
//! Owns the three words: *accepted* means that it is there, *refused* that it never will be, and
//! *unknown* that it may be. Pure.

use std::fmt;

use client::{Effect, Error};

/// What a caller was told of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is there.
    Accepted,
    /// It is not there, and will not be; in these words.
    Refused(String),
    /// It may be there; in these words.
    Unknown(String),
}

/// How an error is understood by a caller.
pub type Reading = fn(&Error) -> Told;

/// What an error says to a caller who goes by its documentation.
#[must_use]
pub fn read(error: &Error) -> Told {
    let words = error.to_string();
    match error {
        Error::Unavailable { effect: Effect::Unknown, .. } => Told::Unknown(words),
        // `Error` may grow; whatever does not say that it is open says that nothing happened.
        _ => Told::Refused(words),
    }
}

/// What a result says.
#[must_use]
pub fn told(result: Result<(), Error>, reading: Reading) -> Told {
    match result {
        Ok(()) => Told::Accepted,
        Err(error) => reading(&error),
    }
}

/// How it is not so, if it is not.
#[must_use]
pub fn untrue(told: &Told, is_there: bool) -> Option<String> {
    match (told, is_there) {
        (Told::Accepted, true) | (Told::Refused(_), false) | (Told::Unknown(_), _) => None,
        (Told::Accepted, false) => Some("told accepted, and is not there".to_owned()),
        (Told::Refused(words), true) => Some(format!("told refused, and is there: {words}")),
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Told::Accepted => "accepted",
            Told::Refused(_) => "refused",
            Told::Unknown(_) => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::Server;

    use super::*;

    #[test]
    fn only_a_wrong_word_is_untrue() {
        let (refused, unknown) = (Told::Refused("no".into()), Told::Unknown("away".into()));
        for (told, is_there, is_untrue) in [
            (&Told::Accepted, true, false),
            (&Told::Accepted, false, true),
            (&refused, true, true),
            (&refused, false, false),
            (&unknown, true, false),
            (&unknown, false, false),
        ] {
            assert_eq!(untrue(told, is_there).is_some(), is_untrue, "{told} {is_there}");
        }
    }

    #[test]
    fn a_server_that_stays_away_leaves_open_what_a_refusal_closes() {
        let server = Server::MongoDb;
        let away = |effect| {
            let (problem, after) = ("away".to_owned(), Duration::ZERO);
            Error::Unavailable { server, problem, after, effect }
        };
        assert!(matches!(read(&away(Effect::Unknown)), Told::Unknown(_)));
        assert!(matches!(read(&away(Effect::None)), Told::Refused(_)));
        let denied = Error::Denied { server, problem: "no".into() };
        assert!(matches!(read(&denied), Told::Refused(_)));
    }
}
