//! How an account stands to a transaction that an old processor has left in flight.
//!
//! Owns [`Standing`]: whether the account is marked, and the updates that post to it, take that
//! back, or remove the mark. Promises that each is one plain update that compares what was read:
//! numbers with their types, whether the mark is there, and how many such updates came before
//! ([`STEPS`]). The last keeps out what somebody has planned who stood still meanwhile, also where
//! all else is as it was. An account counts on in what it counts: one that has an opening counts
//! minor units, and its opening moves with its balance, because what an old processor has begun is
//! none of Tandem's history. Pure.

use layout::IdKind;
use ledger::account::Status;
use ledger::amount::Amount;
use mongodb::bson::raw::cstr;
use mongodb::bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::account::{PENDING, floor_above, is_adopted};
use super::class::Class;
use super::flight::{Flight, PAYER, Problem};
use super::looked::{Looked, Stored};
use super::number::{Number, classify, shown, value};
use super::plan::{field, its_id, path, unchanged};
use super::shape::{Shape, at, present};

/// The field of accounts that counts the updates by which transactions came forward or back, and of
/// transactions, how often one was asked for.
pub(super) const STEPS: &str = "finishSteps";

/// The marks of an account, by Tandem's name.
const MARKS: &str = "pendingTransactions";

/// How an account stands to a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// It is not marked, and takes this update that marks it.
    Takes {
        /// The update.
        post: RawDocumentBuf,
        /// The update that keeps out what anybody has planned to post.
        fence: RawDocumentBuf,
    },
    /// It is not marked, and refuses: it is not there, not open, or has too little.
    Refuses {
        /// As above; none where there is no account.
        fence: Option<RawDocumentBuf>,
    },
    /// It is marked.
    Marked {
        /// The update that removes the mark.
        unmark: RawDocumentBuf,
        /// The update that takes the posting back.
        undo: Result<RawDocumentBuf, Problem>,
    },
    /// What the account holds is not known.
    Unclear(Problem),
}

/// What an account counts in, and how it is marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// Where accounts have their fields.
    pub(super) shape: Shape<'a>,
    /// What marks are.
    pub(super) marks: IdKind,
    /// How many decimal places numbers have that are no decimals; none means minor units.
    pub(super) places: Option<u32>,
}

/// Why an account does not take a change of its balance.
enum Unfit {
    /// It refuses it.
    Refuses(Problem),
    /// It is not known what the change would be.
    Unclear(Problem),
}

impl Reading<'_> {
    /// How an account stands to a transaction as one of its ends.
    pub(super) fn standing(self, stored: Stored<'_>, flight: &Flight<'_>, end: usize) -> Standing {
        let document = stored.document;
        let Some(its) = its_id(document) else {
            let id = document.get("_id").ok().flatten();
            let told = id.map_or_else(String::new, shown);
            return Standing::Unclear(Problem::new(Class::Corrupt, "_id", told));
        };
        let mut looked = Looked::new(String::new());
        looked.whole(stored, self.shape);
        if let Some((class, sample)) = looked.classes.pop() {
            return Standing::Unclear(Problem::new(class, &sample.path, sample.value));
        }
        let marks_path = self.shape.path(MARKS);
        let marks = match present(document, &marks_path) {
            None => None,
            Some(RawBsonRef::Array(marks)) => Some(marks),
            Some(other) => {
                let told = shown(other);
                return Standing::Unclear(Problem::new(Class::MarksNoList, &marks_path, told));
            }
        };
        let id = self.marks.text(flight.id);
        let mut marks = marks.into_iter().flatten().flatten();
        let gives = if end == PAYER { -flight.value.0 } else { flight.value.0 };
        if marks.any(|mark| self.marks.text(mark) == id) {
            let undo = self.changed(document, flight, -gives).map_err(|unfit| match unfit {
                Unfit::Refuses(problem) | Unfit::Unclear(problem) => problem,
            });
            let undo = undo.map(|set| self.marked(its.clone(), document, flight.id, set, false));
            return Standing::Marked { unmark: self.unmarked(its, flight.id), undo };
        }
        let post = self.is_open(document).and_then(|()| self.changed(document, flight, gives));
        let fence = self.fence(its.clone(), flight.id);
        match post.map(|set| self.marked(its, document, flight.id, set, true)) {
            Ok(post) => Standing::Takes { post, fence },
            Err(Unfit::Refuses(_)) => Standing::Refuses { fence: Some(fence) },
            Err(Unfit::Unclear(problem)) => Standing::Unclear(problem),
        }
    }

    fn is_open(self, document: &RawDocument) -> Result<(), Unfit> {
        let path = self.shape.path("status");
        let told = || present(document, &path).map_or_else(|| "missing".to_owned(), shown);
        let read = self.shape.read(document).ok();
        let word = read.as_ref().and_then(|read| read.get("status").ok().flatten());
        match word.map(|word| word.as_str().and_then(Status::parse)) {
            None | Some(Some(Status::Open)) => Ok(()),
            Some(Some(_)) => Err(Unfit::Refuses(Problem::new(Class::NotReadable, &path, told()))),
            Some(None) => Err(Unfit::Unclear(Problem::new(Class::UnknownStatus, &path, told()))),
        }
    }

    /// What is set when the balance changes by so much, in the units of the old processor.
    fn changed(
        self,
        document: &RawDocument,
        flight: &Flight<'_>,
        by: Decimal,
    ) -> Result<RawDocumentBuf, Unfit> {
        let balance_path = self.shape.path("balance");
        let of_balance = |class, told| Unfit::Unclear(Problem::new(class, &balance_path, told));
        let stored = present(document, &balance_path);
        for number in [stored, Some(flight.value.1)].into_iter().flatten() {
            if let Number::Odd(class, _) = classify(Some(number), None)
                && class != Class::Fraction
            {
                return Err(of_balance(class, shown(number)));
            }
        }
        let is_decimal = matches!(flight.value.1, RawBsonRef::Decimal128(_));
        let before = stored.and_then(value).unwrap_or(Decimal::ZERO);
        if stored.is_some_and(|it| matches!(it, RawBsonRef::Decimal128(_)) != is_decimal) {
            let told = format!("{before}, and the amount {}", shown(flight.value.1));
            return Err(of_balance(Class::NotReadable, told));
        }
        let opening = present(document, &self.shape.path("openingBalance")).and_then(value);
        let scale = self.places.filter(|_| opening.is_some() && !is_decimal).unwrap_or(0);
        let by = by * Decimal::from(10_i64.pow(scale));
        if opening.is_some() && !is_decimal && !by.fract().is_zero() {
            let class = if self.places.is_none() { Class::Fraction } else { Class::FractionRounds };
            return Err(of_balance(class, shown(flight.value.1)));
        }
        self.within_limits(document, before.saturating_add(by), by)?;
        let sample = stored.unwrap_or(flight.value.1);
        let mut set = RawDocumentBuf::new();
        for (name, before) in [("balance", Some(before)), ("openingBalance", opening)] {
            let Some(before) = before else { continue };
            let after = before.saturating_add(by);
            let too_large = || of_balance(Class::TooLarge, after.to_string());
            set.append(path(self.shape, name), typed(after, sample).ok_or_else(too_large)?);
        }
        Ok(set)
    }

    /// Whether an account may have so much after such a change.
    fn within_limits(
        self,
        document: &RawDocument,
        after: Decimal,
        by: Decimal,
    ) -> Result<(), Unfit> {
        let is_tandems = is_adopted(document, self.shape);
        let mut free = after;
        for name in PENDING.into_iter().chain(["floor"]) {
            let path = self.shape.path(name);
            let Some(stored) = present(document, &path) else { continue };
            let unclear = |class| Unfit::Unclear(Problem::new(class, &path, shown(stored)));
            if let Number::Odd(class, _) = classify(Some(stored), None)
                && class != Class::Fraction
            {
                return Err(unclear(class));
            }
            let sum = value(stored).unwrap_or(Decimal::ZERO);
            if name != "floor" && !is_tandems && !sum.is_zero() {
                return Err(unclear(Class::PendingUnclaimed));
            }
            if name == PENDING[0] {
                free = free.saturating_sub(sum);
            }
        }
        let places = self.places.filter(|_| !is_tandems);
        let read = self.shape.read(document).ok();
        let floor = read.and_then(|read| floor_above(free, document, &read, self.shape, places));
        match floor.filter(|_| by < Decimal::ZERO) {
            None => Ok(()),
            Some(floor) => {
                let told = format!("{free}, and its floor is {floor}");
                let path = self.shape.path("balance");
                Err(Unfit::Refuses(Problem::new(Class::BelowFloor, &path, told)))
            }
        }
    }

    /// The update that sets numbers, and sets or removes the mark together with that. `its` is the
    /// filter for the document.
    fn marked(
        self,
        its: RawDocumentBuf,
        document: &RawDocument,
        id: RawBsonRef<'_>,
        set: RawDocumentBuf,
        is_post: bool,
    ) -> RawDocumentBuf {
        const READ: [&str; 5] = ["balance", "openingBalance", "floor", "status", STEPS];
        let (mut filter, mut set, id) = (its, set, RawBson::from(id));
        for name in READ.into_iter().chain(PENDING) {
            filter.append(path(self.shape, name), unchanged(at(document, &self.shape.path(name))));
        }
        set.append(path(self.shape, STEPS), self.steps(document) + 1);
        let marks = path(self.shape, MARKS);
        let stored = at(document, &self.shape.path(MARKS));
        let mut update = RawDocumentBuf::new();
        if !is_post {
            filter.append(&marks, rawdoc! { "$eq": id.clone() });
            update.append(cstr!("$pull"), field(self.shape, MARKS, id));
        } else if matches!(stored, Some(RawBsonRef::Array(_))) {
            filter.append(&marks, rawdoc! { "$ne": id.clone() });
            update.append(cstr!("$push"), field(self.shape, MARKS, id));
        } else {
            // No list can be appended to null.
            filter.append(&marks, unchanged(stored));
            set.append(&marks, RawArrayBuf::from_iter([id]));
        }
        update.append(cstr!("$set"), set);
        rawdoc! { "q": filter, "u": update }
    }

    /// How many updates came before.
    fn steps(self, document: &RawDocument) -> i64 {
        match at(document, &self.shape.path(STEPS)) {
            Some(RawBsonRef::Int64(steps)) => steps,
            _ => 0,
        }
    }

    fn fence(self, its: RawDocumentBuf, id: RawBsonRef<'_>) -> RawDocumentBuf {
        let mut filter = its;
        filter.append(path(self.shape, MARKS), rawdoc! { "$ne": RawBson::from(id) });
        rawdoc! { "q": filter, "u": { "$inc": field(self.shape, STEPS, 1_i64) } }
    }

    fn unmarked(self, its: RawDocumentBuf, id: RawBsonRef<'_>) -> RawDocumentBuf {
        let mut filter = its;
        filter.append(path(self.shape, MARKS), rawdoc! { "$eq": RawBson::from(id) });
        rawdoc! { "q": filter, "u": { "$pull": field(self.shape, MARKS, RawBson::from(id)) } }
    }
}

/// A number in the type of another one: a decimal, a double, or else whole; one with a fraction that
/// is no decimal is a double. None where it is too large.
fn typed(number: Decimal, as_this: RawBsonRef<'_>) -> Option<RawBson> {
    if number.abs() > Decimal::from(Amount::MAX) {
        return None;
    }
    match as_this {
        RawBsonRef::Decimal128(_) => Some(Amount::Decimal(number).into()),
        // The text of a decimal is read as the double that is nearest to it.
        RawBsonRef::Double(_) => number.to_string().parse().ok().map(RawBson::Double),
        _ if !number.fract().is_zero() => number.to_string().parse().ok().map(RawBson::Double),
        _ => number.to_i64().map(RawBson::Int64),
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
