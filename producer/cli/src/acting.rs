//! Acts on the command line: who types, and why.
//!
//! Owns what is noted of the command line: the user of the operating system, as the environment or
//! the system names it, and the name of the host. Nobody has checked either, and the note says so.
//! Promises that a command that acts does nothing if that can't be noted first (see
//! [`client::Client::act`]), and that a run of several steps which fails is never noted as one
//! without effect. Fails with the error of the act, or of its first note.

use std::os::unix::fs::MetadataExt;

use clap::Args;
use client::{
    ActEnd, ActError, ActResult, ActSubject, ActVia, ActWho, NewAct, SubjectKind, act_reason,
};

use crate::context::Context;
use crate::exit::Error;

/// Why somebody acts.
#[derive(Args, Clone, Debug, Default)]
pub struct WhyArgs {
    /// Why; `producer acts` shows it
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Option<String>,
}

/// A reason.
///
/// # Errors
/// When it says nothing, is too long, or is no line of text.
pub fn why(text: &str) -> Result<String, String> {
    act_reason(text)?.ok_or_else(|| "says nothing".to_owned())
}

/// What is noted of a command before it does something.
pub struct Acting<'a> {
    /// The name of the act.
    pub what: &'static str,
    /// What it is done to.
    pub on: ActSubject,
    /// Why.
    pub reason: Option<&'a str>,
}

impl<'a> Acting<'a> {
    /// An act on one thing.
    pub fn one(
        what: &'static str,
        (kind, id): (SubjectKind, &str),
        why: &'a WhyArgs,
    ) -> Acting<'a> {
        Acting { what, on: ActSubject::of(kind, [id]), reason: why.reason.as_deref() }
    }
}

impl Context {
    /// Does something, and notes it before and after. `told` says what became of it.
    ///
    /// # Errors
    /// The error of `work`; and that of the first note, without an effect.
    pub async fn act<T, E: ActError>(
        &self,
        acting: Acting<'_>,
        work: impl Future<Output = Result<T, E>>,
        told: impl FnOnce(&T) -> ActEnd,
    ) -> Result<T, E> {
        let Acting { what, on, reason } = acting;
        let reason = reason.map(str::to_owned);
        let act = NewAct { what, on, who: who(), reason };
        self.client.act(&act, work, told).await
    }

    /// The same with what has several steps: where it fails, some of them may be done.
    ///
    /// # Errors
    /// As [`Context::act`].
    pub async fn act_in_steps<T>(
        &self,
        acting: Acting<'_>,
        work: impl Future<Output = Result<T, Error>>,
        told: impl FnOnce(&T) -> ActEnd,
    ) -> Result<T, Error> {
        let work = async { work.await.map_err(OfSteps) };
        self.act(acting, work, told).await.map_err(|OfSteps(error)| error)
    }
}

/// What became of several things that were named.
pub fn so_many(done: usize, all: usize, verb: &str) -> ActEnd {
    let told = format!("{done} of {all} {verb}");
    match done == 0 && all > 0 {
        true => ActEnd::refused(told),
        false => ActEnd::ok(told),
    }
}

/// The error of a run that has several steps.
struct OfSteps(Error);

impl ActError for OfSteps {
    fn ended(&self) -> ActEnd {
        let end = self.0.ended();
        match end.result {
            ActResult::Failed => ActEnd { result: ActResult::Unknown, ..end },
            ActResult::Ok | ActResult::Refused | ActResult::Unknown => end,
        }
    }

    fn not_noted(error: client::Error) -> OfSteps {
        OfSteps(error.into())
    }
}

impl ActError for Error {
    fn ended(&self) -> ActEnd {
        let (result, code) = match self {
            Error::BadInput(_) => (ActResult::Refused, Some("invalid")),
            Error::Refused(_) => (ActResult::Refused, Some("refused")),
            Error::Failed(_) => (ActResult::Failed, None),
            // Who reads the output has gone away in the middle.
            Error::Unknown(_) | Error::OutputClosed => (ActResult::Unknown, None),
        };
        ActEnd { result, code, message: self.to_string() }
    }

    fn not_noted(error: client::Error) -> Error {
        error.into()
    }
}

fn who() -> ActWho {
    let uid = std::fs::metadata("/proc/self").ok().map(|process| process.uid());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    ActWho {
        name: user(std::env::var("USER").ok(), uid),
        person: None,
        via: ActVia::CommandLine,
        from: host.map(|host| host.trim().to_owned()),
        claimed: true,
        request: None,
    }
}

/// The user of the operating system, as the environment names it, or else by its number.
fn user(named: Option<String>, uid: Option<u32>) -> String {
    let numbered = || uid.map_or_else(|| "unknown".to_owned(), |uid| format!("uid {uid}"));
    named.filter(|name| !name.trim().is_empty()).unwrap_or_else(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_has_a_number() {
        assert_eq!(user(Some("ada".to_owned()), Some(1_000)), "ada");
        assert_eq!(user(Some(" ".to_owned()), Some(1_000)), "uid 1000");
        assert_eq!(user(None, None), "unknown");
    }

    #[test]
    fn a_run_that_fails_is_never_noted_as_one_without_effect() {
        let failed = || Error::Failed("away".to_owned());
        assert_eq!(failed().ended().result, ActResult::Failed);
        assert_eq!(OfSteps(failed()).ended().result, ActResult::Unknown);
        let refused = OfSteps(Error::Refused("not now".to_owned())).ended();
        assert_eq!((refused.result, refused.code), (ActResult::Refused, Some("refused")));
    }

    #[test]
    fn a_run_of_which_nothing_was_done_is_refused() {
        assert_eq!(so_many(0, 2, "unparked").result, ActResult::Refused);
        assert_eq!(so_many(1, 2, "unparked"), ActEnd::ok("1 of 2 unparked"));
        assert_eq!(so_many(0, 0, "replayed").result, ActResult::Ok);
    }
}
