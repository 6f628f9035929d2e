//! The classes of an account as others store it.
//!
//! Owns [`account`]. Promises that an account of which nothing is said but what fits is one that
//! the ledger reads: at the end the ledger's own reading is asked. Pure.

use ledger::account::{Account, Status};
use mongo::ACCOUNT_FIELDS;
use mongodb::bson::{RawBsonRef, RawDocument};
use rust_decimal::Decimal;

use super::class::{Class, Verdict};
use super::looked::{Looked, Stored, Unit, id_of};
use super::number::{Number, shown, value};
use super::shape::{Shape, at, present};

/// The fields of an account that are read, by Tandem's names.
pub(super) fn fields() -> impl Iterator<Item = &'static str> {
    ["_id", "pendingTransactions"].into_iter().chain(ACCOUNT_FIELDS)
}

/// The numbers beside the balance.
const OTHERS: [&str; 3] = ["pendingDebits", "pendingCredits", "floor"];

/// The sums of what is in flight.
pub(super) const PENDING: [&str; 2] = ["pendingDebits", "pendingCredits"];

/// Says of which classes an account is. `places` is how many decimal places its numbers have that
/// are no decimals; none means that they are minor units. An account with an opening counts minor
/// units, whatever `places` says: nothing reads its numbers as larger units a second time.
#[must_use]
pub fn account(stored: Stored<'_>, shape: Shape<'_>, places: Option<u32>) -> Looked {
    let document = stored.document;
    let mut looked = Looked::new(id_of(document, shape));
    looked.whole(stored, shape);
    let Ok(read) = shape.read(document) else {
        looked.add(Class::Corrupt, "", "its bytes can't be read".to_owned());
        return looked;
    };
    let is_in_the_way =
        |(class, _): &(Class, _)| matches!(class, Class::ScalarOnTheWay | Class::ArrayOnTheWay);
    if looked.classes.iter().any(is_in_the_way) {
        return looked;
    }
    looked.id(document, shape);
    let places = places.filter(|_| !is_adopted(document, shape));
    numbers(&mut looked, document, &read, shape, places);
    status(&mut looked, document, &read, shape);
    marks(&mut looked, document, shape);
    if looked.verdict() == Verdict::Fits
        && let Err(problem) = Account::from_raw(&read)
    {
        looked.add(Class::NotReadable, "", shape.told(problem));
    }
    // What Tandem leaves alone says nothing about the units of the others.
    if looked.verdict() == Verdict::Cannot {
        looked.unit = None;
    }
    looked
}

/// Whether it has an opening. Tandem writes one with its first update, and `producer adopt` with
/// the balance.
pub(super) fn is_adopted(document: &RawDocument, shape: Shape<'_>) -> bool {
    present(document, &shape.path("openingBalance")).is_some()
}

fn numbers(
    looked: &mut Looked,
    document: &RawDocument,
    read: &RawDocument,
    shape: Shape<'_>,
    places: Option<u32>,
) {
    let path = shape.path("balance");
    match looked.number(document, &path, places) {
        Number::Missing => looked.add(Class::BalanceMissing, &path, "missing".to_owned()),
        Number::Whole => looked.unit = Some(Unit::Whole),
        Number::Decimal => looked.unit = Some(Unit::Decimal),
        Number::Odd(..) => {}
    }
    for name in OTHERS {
        looked.number(document, &shape.path(name), places);
    }
    let (held, told) = match present(document, &path) {
        None => (Some(Decimal::ZERO), "nothing".to_owned()),
        Some(held) => (value(held), shown(held)),
    };
    let floor = held.and_then(|held| floor_above(held, document, read, shape, places));
    if let Some(floor) = floor {
        looked.add(Class::BelowFloor, &path, format!("{told}, and its floor is {floor}"));
    }
}

/// The floor of an account, if a balance is below it. `places` is as for [`account`].
pub(super) fn floor_above(
    balance: Decimal,
    document: &RawDocument,
    read: &RawDocument,
    shape: Shape<'_>,
    places: Option<u32>,
) -> Option<Decimal> {
    // The schema's floor counts minor units, and one in the document what the balance counts.
    let is_decimal =
        matches!(at(document, &shape.path("balance")), Some(RawBsonRef::Decimal128(_)));
    let is_of_schema = at(document, &shape.path("floor")).is_none();
    let scale = places.filter(|_| is_of_schema && !is_decimal).unwrap_or(0);
    let floor = floor_of(read)?;
    let balance = balance.checked_mul(10_i64.pow(scale).into())?;
    (balance < floor).then_some(floor)
}

/// The lowest balance that an account may have; none where there is no limit, or none is known.
fn floor_of(read: &RawDocument) -> Option<Decimal> {
    match read.get("floor") {
        Ok(None) => Some(Decimal::ZERO),
        Ok(Some(RawBsonRef::Null)) | Err(_) => None,
        Ok(Some(floor)) => value(floor),
    }
}

fn status(looked: &mut Looked, document: &RawDocument, read: &RawDocument, shape: Shape<'_>) {
    let path = shape.path("status");
    let Some(stored) = present(document, &path) else { return };
    if read.get_str("status").ok().and_then(Status::parse).is_none() {
        looked.add(Class::UnknownStatus, &path, shown(stored));
    }
}

fn marks(looked: &mut Looked, document: &RawDocument, shape: Shape<'_>) {
    let is_tandems = is_adopted(document, shape);
    for path in PENDING.map(|name| shape.path(name)) {
        let pending = present(document, &path).filter(|_| !is_tandems);
        if let Some(pending) = pending.filter(|sum| value(*sum).is_some_and(|sum| !sum.is_zero())) {
            looked.add(Class::PendingUnclaimed, &path, shown(pending));
        }
    }
    let path = shape.path("pendingTransactions");
    match present(document, &path) {
        None => {}
        Some(RawBsonRef::Array(marks)) => {
            if let (false, Some(Ok(mark))) = (is_tandems, marks.into_iter().next()) {
                looked.add(Class::MarksUnclaimed, &path, shown(mark));
            }
        }
        Some(other) => looked.add(Class::MarksNoList, &path, shown(other)),
    }
}
