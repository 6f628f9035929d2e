//! The closed sets of words in answers, as schemas: a generated client has an enum of each.
//!
//! Promises that an answer has no other word: what a document says otherwise is told as `unknown`,
//! since a client that knows the words of its enum only would refuse the whole answer.

use client::Fate;
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

/// The state of a transaction.
pub struct State;

impl PartialSchema for State {
    fn schema() -> RefOr<Schema> {
        let about =
            "`done` and `canceled` are final. `unknown`: its document has no state of these";
        one_of(and_unknown(Stored::ALL.map(Stored::as_str)), about)
    }
}

impl ToSchema for State {}

/// Whether an account takes postings.
pub struct AccountStatus;

impl PartialSchema for AccountStatus {
    fn schema() -> RefOr<Schema> {
        let about = "`frozen`: it takes postings when it is unfrozen. `closed`: it takes none for \
                     good. `unknown`: its document has no status of these";
        one_of(and_unknown(Status::ALL.map(Status::as_str)), about)
    }
}

impl ToSchema for AccountStatus {}

/// How an account may begin.
pub struct NewStatus;

impl PartialSchema for NewStatus {
    fn schema() -> RefOr<Schema> {
        let words = Status::ALL.map(|status| status.as_str().to_owned());
        one_of(words, "`frozen` and `closed`: it takes no postings")
    }
}

impl ToSchema for NewStatus {}

/// How a transaction has ended.
pub struct EndState;

impl PartialSchema for EndState {
    fn schema() -> RefOr<Schema> {
        let about = "`done`: it has its effect. `canceled`: it has none";
        one_of(End::ALL.map(|end| end.state().as_str().to_owned()), about)
    }
}

impl ToSchema for EndState {}

/// Why a transaction is canceled.
pub struct CancelCode;

impl PartialSchema for CancelCode {
    fn schema() -> RefOr<Schema> {
        let about = "`unknown`: a program that is not Tandem, or a later version, has canceled it";
        one_of(and_unknown(ReasonCode::ALL.map(ReasonCode::as_str)), about)
    }
}

impl ToSchema for CancelCode {}

/// Why a transaction is set apart.
pub struct ParkedCode;

impl PartialSchema for ParkedCode {
    fn schema() -> RefOr<Schema> {
        let about = "`unknown`: a program that is not Tandem, or a later version, has parked it";
        one_of(and_unknown(ParkCode::ALL.map(ParkCode::as_str)), about)
    }
}

impl ToSchema for ParkedCode {}

/// What kind of problem a request has met.
pub struct ProblemType;

impl PartialSchema for ProblemType {
    fn schema() -> RefOr<Schema> {
        let about = "For programs. Each but the one for `unknown` says that the request has had no \
                     effect";
        one_of(Code::ALL.map(Code::uri), about)
    }
}

impl ToSchema for ProblemType {}

/// How a transaction stands that a letter names.
pub struct LetterFate;

impl PartialSchema for LetterFate {
    fn schema() -> RefOr<Schema> {
        let about = "A replay publishes what waits, and unparks what is parked";
        one_of(Fate::WORDS.map(str::to_owned), about)
    }
}

impl ToSchema for LetterFate {}
