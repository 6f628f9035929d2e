//! The classes of documents: what a look says of an account or a transaction.
//!
//! Owns the closed list of classes. Each has a verdict, a code for scripts that never changes, and a
//! sentence that says what to do. Pure, and never fails.

use serde::{Deserialize, Serialize};
use strum::{EnumCount, VariantArray};

/// What a class means for the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It stays as it is.
    Fits,
    /// It fits once something was changed, and it is known what.
    NeedsRepair,
    /// Nobody can tell from the document what it should be.
    Cannot,
}

/// What a look says of a document. The order is that of the report.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    EnumCount,
    VariantArray,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An account without a balance.
    BalanceMissing,
    /// A transaction that waits for a worker.
    Waiting,
    /// A transaction that a worker of Tandem has claimed.
    InFlight,
    /// A transaction that is done or canceled.
    Ended,
    /// A document of the transactions without a state.
    NoState,

    /// A double with a fraction, and nobody has said how many places a number has.
    Fraction,
    /// A double with a fraction that has no more places than `--places` says.
    FractionExact,
    /// A double with a fraction that has more places than `--places` says.
    FractionRounds,
    /// A whole number where `--places` says that numbers are no minor units.
    MajorUnits,
    /// A decimal with more places than an amount may have.
    DecimalPlaces,
    /// A text that is a number.
    NumericText,
    /// An account that has less than its floor.
    BelowFloor,
    /// A status for which there is no word.
    UnknownStatus,
    /// A state for which there is no word.
    UnknownState,
    /// Something that is no object stands on the way to a field.
    ScalarOnTheWay,
    /// A list stands on the way to a field.
    ArrayOnTheWay,
    /// A field stands twice.
    FieldTwice,
    /// The field is missing by which accounts are known.
    NoId,
    /// Marks that are no list.
    MarksNoList,
    /// Marks that Tandem has not set.
    MarksUnclaimed,
    /// Pending sums that Tandem has not written.
    PendingUnclaimed,
    /// A transaction in flight that no worker of Tandem has claimed.
    InFlightUnclaimed,
    /// Anything else that Tandem does not read.
    NotReadable,

    /// A list where a number belongs.
    ListAsNumber,
    /// Neither a number nor a text that is one.
    NoNumber,
    /// NaN, or infinite.
    NotFinite,
    /// A double of 2^53 or more.
    DoubleTooLarge,
    /// A number beyond 10^18.
    TooLarge,
    /// An id of another kind than the schema says.
    IdOfAnotherKind,
    /// An id that is empty or too long.
    IdLength,
    /// A document that leaves no room for marks.
    Large,
    /// Bytes that can't be read.
    Corrupt,
}

impl Class {
    /// Every class, in the order of the report.
    pub const ALL: [Class; Class::COUNT] =
        *Class::VARIANTS.first_chunk().expect("as many as are counted");

    /// What it means for the document.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        match self {
            Class::BalanceMissing
            | Class::Waiting
            | Class::InFlight
            | Class::Ended
            | Class::NoState => Verdict::Fits,
            Class::Fraction
            | Class::FractionExact
            | Class::FractionRounds
            | Class::MajorUnits
            | Class::DecimalPlaces
            | Class::NumericText
            | Class::BelowFloor
            | Class::UnknownStatus
            | Class::UnknownState
            | Class::ScalarOnTheWay
            | Class::ArrayOnTheWay
            | Class::FieldTwice
            | Class::NoId
            | Class::MarksNoList
            | Class::MarksUnclaimed
            | Class::PendingUnclaimed
            | Class::InFlightUnclaimed
            | Class::NotReadable => Verdict::NeedsRepair,
            Class::ListAsNumber
            | Class::NoNumber
            | Class::NotFinite
            | Class::DoubleTooLarge
            | Class::TooLarge
            | Class::IdOfAnotherKind
            | Class::IdLength
            | Class::Large
            | Class::Corrupt => Verdict::Cannot,
        }
    }

    /// Its name for scripts.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Class::BalanceMissing => "balance_missing",
            Class::Waiting => "waiting",
            Class::InFlight => "in_flight",
            Class::Ended => "ended",
            Class::NoState => "no_state",
            Class::Fraction => "fraction",
            Class::FractionExact => "fraction_exact",
            Class::FractionRounds => "fraction_rounds",
            Class::MajorUnits => "major_units",
            Class::DecimalPlaces => "decimal_places",
            Class::NumericText => "numeric_text",
            Class::BelowFloor => "below_floor",
            Class::UnknownStatus => "unknown_status",
            Class::UnknownState => "unknown_state",
            Class::ScalarOnTheWay => "scalar_on_the_way",
            Class::ArrayOnTheWay => "array_on_the_way",
            Class::FieldTwice => "field_twice",
            Class::NoId => "no_id",
            Class::MarksNoList => "marks_no_list",
            Class::MarksUnclaimed => "marks_unclaimed",
            Class::PendingUnclaimed => "pending_unclaimed",
            Class::InFlightUnclaimed => "in_flight_unclaimed",
            Class::NotReadable => "not_readable",
            Class::ListAsNumber => "list_as_number",
            Class::NoNumber => "no_number",
            Class::NotFinite => "not_finite",
            Class::DoubleTooLarge => "double_too_large",
            Class::TooLarge => "too_large",
            Class::IdOfAnotherKind => "id_of_another_kind",
            Class::IdLength => "id_length",
            Class::Large => "large",
            Class::Corrupt => "corrupt",
        }
    }

    /// What to do, in one sentence.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Class::BalanceMissing => "It is read as 0; write a balance if it has another one.",
            Class::Waiting => {
                "A worker of Tandem settles it as soon as it runs; cancel before what is not wanted."
            }
            Class::InFlight => "A worker of Tandem has claimed it and brings it to its end.",
            Class::Ended => "It is left alone.",
            Class::NoState => "It is no transaction and is left alone.",
            Class::Fraction => {
                "Say with --places how many places a number has, or store it as NumberDecimal."
            }
            Class::FractionExact => "Store the minor units that are shown as NumberLong.",
            Class::FractionRounds => {
                "Decide whether the rounded minor units that are shown are right, and store them."
            }
            Class::MajorUnits => {
                "Store the minor units that are shown, because --places says that numbers are none."
            }
            Class::DecimalPlaces => "Round it to at most 9 decimal places.",
            Class::NumericText => "Store the number that the text says.",
            Class::BelowFloor => "Lower the floor (null is none), or correct the balance.",
            Class::UnknownStatus => {
                "Name the word in the schema under [accounts.status], or correct the status."
            }
            Class::UnknownState => {
                "Name the word in the schema under [transactions.state], or leave it: nobody settles it."
            }
            Class::ScalarOnTheWay | Class::ArrayOnTheWay => {
                "Make it an object, or remove it: the ledger has its fields in it."
            }
            Class::FieldTwice => {
                "Replace the document by one in which each field stands once; an update of it may end \
                 the server."
            }
            Class::NoId => {
                "It is no account as long as it has no id; write one if it is meant to be an account."
            }
            Class::MarksNoList => "Make it a list, or remove it.",
            Class::MarksUnclaimed => {
                "Let the old processor end these transactions, or say --finish, so that their marks are \
                 gone."
            }
            Class::PendingUnclaimed => {
                "Let the old processor end what is pending, so that the sum is 0 or not there."
            }
            Class::InFlightUnclaimed => {
                "Let the old processor end it before a worker of Tandem runs, or say --finish."
            }
            Class::NotReadable => "Correct what is said of it.",
            Class::ListAsNumber | Class::NoNumber => "Write the number that it should be.",
            Class::NotFinite => "Write the number that it should be; from here nobody knows it.",
            Class::DoubleTooLarge => {
                "Find out the amount: units may be lost in a double of 2^53 or more. Store NumberLong."
            }
            Class::TooLarge => "Amounts end at 10^18; count in larger units.",
            Class::IdOfAnotherKind => {
                "Tandem leaves it alone; insert it anew with an id of the schema's kind."
            }
            Class::IdLength => {
                "Tandem leaves it alone; insert it anew with an id of 1 to 200 bytes."
            }
            Class::Large => {
                "Move other data out of the document: a posting adds to it, and 16 MB are the end."
            }
            Class::Corrupt => "Replace the document: its bytes can't be read.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_one_code_which_is_the_one_that_is_written() {
        let mut codes: Vec<&str> = Class::ALL.map(Class::code).into();
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).expect("a text"), class.code());
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Class::COUNT);
    }
}
