//! What becomes of an account when it is adopted.
//!
//! Owns [`plan`]. Promises that an account gets a repaired balance and its opening in one update,
//! or nothing: what has an opening is never scaled again. The update is plain (`$set`), because a
//! pipeline on a document in which a field stands twice would end the server; and its filter says
//! that the document still is what was read: no opening, the same numbers with the same types, no
//! marks and nothing pending. Pure.

use ledger::account::Account;
use ledger::amount::Amount;
use mongodb::bson::raw::CString;
use mongodb::bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::account::{PENDING, account, is_adopted};
use super::class::{Class, Verdict};
use super::looked::{Looked, Stored};
use super::number::{Number, classify};
use super::shape::{Shape, at, cstr};

/// Which numbers are repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// How many decimal places numbers have that are no decimals; none means minor units.
    pub places: Option<u32>,
    /// Whether a number may be rounded that has more places.
    pub round: bool,
}

/// What becomes of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing has to be written, or it was written before.
    Done,
    /// Something has to be seen to first: its classes say what.
    Left,
    /// It is written.
    Write(Change),
}

/// A guarded update of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The statement, as an `update` command takes it.
    pub statement: RawDocumentBuf,
    /// The classes of what it repairs.
    pub repaired: Vec<Class>,
}

/// Says what becomes of an account, and of which classes it is.
#[must_use]
pub fn plan(stored: Stored<'_>, shape: Shape<'_>, repairs: Repairs) -> (Looked, Plan) {
    let mut looked = account(stored, shape, repairs.places);
    let fits = looked.verdict() == Verdict::Fits;
    if is_adopted(stored.document, shape) {
        return (looked, if fits { Plan::Done } else { Plan::Left });
    }
    let written = Written::of(stored.document, shape, repairs);
    let is_seen_to = |(class, path): (Class, &str)| {
        class.verdict() == Verdict::Fits || written.repaired.contains(&(class, path.to_owned()))
    };
    let mut classes = looked.classes.iter().map(|(class, sample)| (*class, sample.path.as_str()));
    if !classes.all(is_seen_to) {
        return (looked, Plan::Left);
    }
    let Some(statement) = written.statement(stored.document, shape) else {
        return (looked, Plan::Left);
    };
    if let Err(problem) = written.can_be_read(stored.document, shape) {
        looked.add(Class::NotReadable, "", shape.told(problem));
        return (looked, Plan::Left);
    }
    let repaired = written.repaired.iter().map(|(class, _)| *class).collect();
    (looked, Plan::Write(Change { statement, repaired }))
}

/// The numbers that are written, by Tandem's names.
#[derive(Default)]
struct Written {
    balance: Option<RawBson>,
    floor: Option<RawBson>,
    /// What is repaired by that: the class, and where.
    repaired: Vec<(Class, String)>,
}

impl Written {
    fn of(document: &RawDocument, shape: Shape<'_>, repairs: Repairs) -> Written {
        let mut written = Written::default();
        let path = shape.path("balance");
        let stored = at(document, &path);
        let is_decimal = matches!(stored, Some(RawBsonRef::Decimal128(_)));
        written.balance = match classify(stored, repairs.places) {
            Number::Missing => Some(Amount::ZERO.into()),
            Number::Whole => stored.and_then(|value| Amount::from_raw(value).ok()).map(Into::into),
            Number::Decimal => stored.map(RawBson::from),
            Number::Odd(..) => written.repair(stored, &path, repairs),
        };
        // Beside a decimal, a whole floor counts what the decimal counts.
        if !is_decimal {
            let path = shape.path("floor");
            written.floor = written.repair(at(document, &path), &path, repairs);
        }
        written
    }

    /// What an odd number becomes, if it may.
    fn repair(
        &mut self,
        stored: Option<RawBsonRef<'_>>,
        path: &str,
        repairs: Repairs,
    ) -> Option<RawBson> {
        let Number::Odd(class, Some(becomes)) = classify(stored, repairs.places) else {
            return None;
        };
        if becomes.rounds && !repairs.round {
            return None;
        }
        self.repaired.push((class, path.to_owned()));
        Some(becomes.amount.into())
    }

    /// The guarded update; none where a number or the `_id` can't be taken out of the document.
    fn statement(&self, document: &RawDocument, shape: Shape<'_>) -> Option<RawDocumentBuf> {
        let balance = self.balance.clone()?;
        let mut filter = its_id(document)?;
        let stored = |name: &str| unchanged(at(document, &shape.path(name)));
        filter.append(path(shape, "openingBalance"), RawBson::Null);
        filter.append(path(shape, "balance"), stored("balance"));
        guard_against_flight(&mut filter, shape);
        let mut set = RawDocumentBuf::new();
        set.append(path(shape, "balance"), balance.clone());
        set.append(path(shape, "openingBalance"), balance);
        if let Some(floor) = &self.floor {
            filter.append(path(shape, "floor"), stored("floor"));
            set.append(path(shape, "floor"), floor.clone());
        }
        Some(rawdoc! { "q": filter, "u": { "$set": set } })
    }

    /// Whether the ledger reads the account as it will be.
    fn can_be_read(&self, document: &RawDocument, shape: Shape<'_>) -> Result<(), String> {
        let read = shape.read(document).map_err(|error| error.to_string())?;
        let new = [("balance", &self.balance), ("floor", &self.floor)];
        let is_new = |name: &str| new.iter().any(|(own, value)| *own == name && value.is_some());
        let mut after = RawDocumentBuf::new();
        for element in read.iter_elements() {
            let element = element.map_err(|error| error.to_string())?;
            if !is_new(element.key().as_str()) {
                let value = element.value().map_err(|error| error.to_string())?;
                after.append(element.key(), value);
            }
        }
        for (name, value) in new {
            if let Some(value) = value {
                after.append(cstr(name), value.clone());
            }
        }
        Account::from_raw(&after).map(drop)
    }
}

/// The filter for the document itself, whatever its `_id` is; none where that can't be taken out.
pub(super) fn its_id(document: &RawDocument) -> Option<RawDocumentBuf> {
    let id = RawBson::from(document.get("_id").ok()??);
    Some(rawdoc! { "_id": { "$eq": id } })
}

/// Adds the conditions that an account has no marks, and that nothing is pending on it.
pub(super) fn guard_against_flight(filter: &mut RawDocumentBuf, shape: Shape<'_>) {
    let nothing = |what: RawBson| {
        let values: RawArrayBuf = [RawBson::Null, what].into_iter().collect();
        rawdoc! { "$in": values }
    };
    filter.append(path(shape, "pendingTransactions"), nothing(RawArrayBuf::new().into()));
    PENDING.iter().for_each(|name| filter.append(path(shape, name), nothing(0.into())));
}

/// The condition that a field is as it was read, in its type, too: to a filter, 5 equals 5.0.
pub(super) fn unchanged(read: Option<RawBsonRef<'_>>) -> RawDocumentBuf {
    match read {
        None => rawdoc! { "$exists": false },
        Some(value) => {
            let kind = i32::from(value.element_type() as u8);
            rawdoc! { "$eq": RawBson::from(value), "$type": kind }
        }
    }
}

/// The path of one of Tandem's fields, as a key.
pub(super) fn path(shape: Shape<'_>, name: &str) -> CString {
    shape.path(name).try_into().expect("a path of a schema has no zero byte")
}

/// A document with one of Tandem's fields alone, at its path: what an operator takes.
pub(super) fn field(shape: Shape<'_>, name: &str, value: impl Into<RawBson>) -> RawDocumentBuf {
    let mut alone = RawDocumentBuf::new();
    alone.append(path(shape, name), value.into());
    alone
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
