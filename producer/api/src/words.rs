//! The closed sets of words in answers, as schemas: a generated client has an enum of each.
//!
//! Promises that an answer has no other word: what a document says otherwise is told as `unknown`,
//! since a client that knows the words of its enum only would refuse the whole answer.

use client::{ActResult as Result, ActVia as Via, Fate, SubjectKind as Kind};
use ledger::account::Status;
use ledger::event::End;
use ledger::transaction::{ParkCode, ReasonCode, State as Stored, UNKNOWN};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::param::string;
use super::problem::Code;

fn one_of(words: impl IntoIterator<Item = String>, about: &str) -> RefOr<Schema> {
    let schema = string().enum_values(Some(words)).description(Some(about));
    RefOr::T(schema.into())
}

fn and_unknown<'a>(words: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    words.into_iter().chain([UNKNOWN]).map(str::to_owned)
}

/// A schema for each closed set of words.
macro_rules! words {
    ($(#[$about_the_type:meta])* $name:ident, $words:expr, $about:expr) => {
        $(#[$about_the_type])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of($words, $about)
            }
        }

        impl ToSchema for $name {}
    };
}

words! {
    /// The state of a transaction.
    State,
    and_unknown(Stored::ALL.map(Stored::as_str)),
    "`done` and `canceled` are final. `unknown`: its document has no state of these"
}

words! {
    /// Whether an account takes postings.
    AccountStatus,
    and_unknown(Status::ALL.map(Status::as_str)),
    "`frozen`: it takes postings when it is unfrozen. `closed`: it takes none for good. \
     `unknown`: its document has no status of these"
}

words! {
    /// By which way somebody has acted.
    ActVia,
    Via::ALL.map(|via| via.as_str().to_owned()),
    "`console`: the pages for people. `command-line`: the program of the command line"
}

words! {
    /// The kind of what an act was done to.
    SubjectKind,
    Kind::ALL.map(|kind| kind.as_str().to_owned()),
    "`ledger`: the ledger as a whole, or all its workers"
}

words! {
    /// What became of an act.
    ActResult,
    Result::ALL.map(|result| result.as_str().to_owned()),
    "`refused` and `failed`: it surely had no effect. `unknown`: it may have had its effect, wholly \
     or in part, or may have it yet"
}

words! {
    /// How an account may begin.
    NewStatus,
    Status::ALL.map(|status| status.as_str().to_owned()),
    "`frozen` and `closed`: it takes no postings"
}

words! {
    /// How a transaction has ended.
    EndState,
    End::ALL.map(|end| end.state().as_str().to_owned()),
    "`done`: it has its effect. `canceled`: it has none"
}

words! {
    /// Why a transaction is canceled.
    CancelCode,
    and_unknown(ReasonCode::ALL.map(ReasonCode::as_str)),
    "`unknown`: a program that is not Tandem, or a later version, has canceled it"
}

words! {
    /// Why a transaction is set apart.
    ParkedCode,
    and_unknown(ParkCode::ALL.map(ParkCode::as_str)),
    "`unknown`: a program that is not Tandem, or a later version, has parked it"
}

words! {
    /// What kind of problem a request has met.
    ProblemType,
    Code::ALL.map(Code::uri),
    "For programs. Each but the one for `unknown` says that the request has had no effect"
}

words! {
    /// How a transaction stands that a letter names.
    LetterFate,
    Fate::WORDS.map(str::to_owned),
    "A replay publishes what waits, and unparks what is parked"
}
