//! What becomes of accounts as others store them, and that no number is scaled twice.

use layout::Layout;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::cstr;
use mongodb::bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::*;

const SCHEMA: &str = r#"
[accounts]
ids = "objectId"
fields = { balance = "wallet.sum", floor = "wallet.floor", pendingTransactions = "wallet.open" }
"#;

const PLAIN: Repairs = Repairs { places: None, round: false };
const CENTS: Repairs = Repairs { places: Some(2), round: false };
const ROUND: Repairs = Repairs { places: Some(2), round: true };

fn of(document: &RawDocument, repairs: Repairs) -> (Vec<Class>, Plan) {
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let stored = Stored { document, bytes: 100, repeats: false };
    let (looked, plan) = plan(stored, Shape::new(Some(&layout.accounts)), repairs);
    (looked.classes.iter().map(|(class, _)| *class).collect(), plan)
}

fn account(sum: impl Into<RawBson>) -> RawDocumentBuf {
    let wallet = rawdoc! { "sum": sum.into() };
    rawdoc! { "_id": ObjectId::from_bytes([7; 12]), "wallet": wallet }
}

fn decimal(text: &str) -> RawBson {
    RawBson::Decimal128(text.parse().expect("a decimal"))
}

fn part(change: &Change, name: &str) -> RawDocumentBuf {
    change.statement.get_document(name).expect("it is there").to_owned()
}

/// The balance that is written, and the classes that are repaired.
fn written(document: &RawDocument, repairs: Repairs) -> Option<(RawBson, Vec<Class>)> {
    let Plan::Write(change) = of(document, repairs).1 else { return None };
    let update = part(&change, "u");
    let set = update.get_document("$set").expect("a plain update");
    let value = |path: &str| set.get(path).ok().flatten().map(RawBson::from).expect("a number");
    assert_eq!(value("wallet.sum"), value("tandem.openingBalance"), "{document:?}");
    Some((value("wallet.sum"), change.repaired))
}

#[test]
fn each_kind_of_balance_is_written_as_the_amount_that_it_means() {
    let long = RawBson::Int64;
    for (stored, repairs, balance, repaired) in [
        (RawBson::Int32(5), PLAIN, long(5), vec![]),
        (RawBson::Double(5.0), PLAIN, long(5), vec![]),
        (RawBson::Int64(-0), PLAIN, long(0), vec![]),
        (RawBson::Null, PLAIN, long(0), vec![]),
        (decimal("12.50"), PLAIN, decimal("12.50"), vec![]),
        (decimal("12.50"), CENTS, decimal("12.50"), vec![]),
        ("12".into(), PLAIN, long(12), vec![Class::NumericText]),
        ("12.5".into(), PLAIN, decimal("12.5"), vec![Class::NumericText]),
        ("12.5".into(), CENTS, long(1_250), vec![Class::NumericText]),
        (RawBson::Double(12.5), CENTS, long(1_250), vec![Class::FractionExact]),
        (RawBson::Int32(12), CENTS, long(1_200), vec![Class::MajorUnits]),
        (RawBson::Double(12.345), ROUND, long(1_234), vec![Class::FractionRounds]),
        ("12.345".into(), ROUND, long(1_234), vec![Class::NumericText]),
    ] {
        let told = format!("{stored:?} {repairs:?}");
        assert_eq!(written(&account(stored), repairs), Some((balance, repaired)), "{told}");
    }
    let none = rawdoc! { "_id": ObjectId::from_bytes([7; 12]) };
    assert_eq!(written(&none, CENTS), Some((long(0), vec![])));
}

#[test]
fn what_is_not_known_or_would_lose_something_is_left() {
    for (stored, repairs, class) in [
        (RawBson::Double(12.5), PLAIN, Class::Fraction),
        (RawBson::Double(12.345), CENTS, Class::FractionRounds),
        ("12.345".into(), CENTS, Class::NumericText),
        (decimal("0.1234567895"), CENTS, Class::DecimalPlaces),
        (RawBson::Double(f64::NAN), ROUND, Class::NotFinite),
        (RawBson::Double(1e17), ROUND, Class::DoubleTooLarge),
        (RawBson::Boolean(true), ROUND, Class::NoNumber),
        ("much".into(), ROUND, Class::NoNumber),
        (RawBson::Int32(-5), PLAIN, Class::BelowFloor),
    ] {
        let told = format!("{stored:?} {repairs:?}");
        let (classes, plan) = of(&account(stored), repairs);
        assert_eq!((classes.as_slice(), plan), (&[class][..], Plan::Left), "{told}");
    }
    let mut marked = account(5);
    marked.append(cstr!("pendingDebits"), 5);
    assert_eq!(of(&marked, PLAIN), (vec![Class::PendingUnclaimed], Plan::Left));
    let wallet = rawdoc! { "sum": 5, "open": ["t"] };
    let marked = rawdoc! { "_id": ObjectId::from_bytes([7; 12]), "wallet": wallet };
    assert_eq!(of(&marked, PLAIN), (vec![Class::MarksUnclaimed], Plan::Left));
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let document = account("5");
    let twice = Stored { document: &document, bytes: 100, repeats: true };
    let shape = Shape::new(Some(&layout.accounts));
    assert_eq!(plan(twice, shape, PLAIN).1, Plan::Left);
}

#[test]
fn what_has_an_opening_is_never_scaled_again() {
    let mut adopted = account(RawBson::Int64(1_200));
    adopted.append(cstr!("tandem"), rawdoc! { "openingBalance": 1_200_i64 });
    for repairs in [PLAIN, CENTS, ROUND] {
        assert_eq!(of(&adopted, repairs), (vec![], Plan::Done));
    }
    // An old writer has added to it since, in units that its owner has to know.
    let mut fraction = account(1_200.5);
    fraction.append(cstr!("tandem"), rawdoc! { "openingBalance": 1_200_i64 });
    assert_eq!(of(&fraction, ROUND), (vec![Class::Fraction], Plan::Left));
}

#[test]
fn a_floor_in_the_document_is_scaled_with_the_balance_and_compared() {
    let with = |sum: RawBson, floor: RawBson| {
        rawdoc! { "_id": ObjectId::from_bytes([7; 12]), "wallet": { "sum": sum, "floor": floor } }
    };
    let document = with(12.5.into(), 10.into());
    let Plan::Write(change) = of(&document, CENTS).1 else { panic!("it is repaired") };
    let update = part(&change, "u");
    let set = update.get_document("$set").expect("a plain update");
    assert_eq!(set.get_i64("wallet.floor").ok(), Some(1_000));
    let filter = part(&change, "q");
    let floor = filter.get_document("wallet.floor").expect("it is compared");
    assert_eq!(floor, &*rawdoc! { "$eq": 10, "$type": 16 });
    // Beside a decimal, a whole floor counts what the decimal counts.
    assert_eq!(of(&with(decimal("12.5"), 10.into()), CENTS).1, Plan::Left);
    assert!(matches!(of(&with(decimal("12.5"), 10.into()), PLAIN).1, Plan::Write(_)));
    assert_eq!(of(&with("12.5".into(), 0.5.into()), PLAIN).1, Plan::Left);
}

#[test]
fn the_update_compares_value_and_type_the_opening_the_marks_and_what_is_pending() {
    let filter = |document: &RawDocument| {
        let Plan::Write(change) = of(document, PLAIN).1 else { panic!("{document:?} is written") };
        part(&change, "q")
    };
    let nothing = |what: RawBson| {
        let values: RawArrayBuf = [RawBson::Null, what].into_iter().collect();
        rawdoc! { "$in": values }
    };
    let id = RawBson::ObjectId(ObjectId::from_bytes([7; 12]));
    let expected = rawdoc! {
        "_id": { "$eq": id },
        "tandem.openingBalance": null,
        "wallet.sum": { "$eq": 5.0, "$type": 1 },
        "wallet.open": nothing(RawArrayBuf::new().into()),
        "pendingDebits": nothing(0.into()),
        "pendingCredits": nothing(0.into()),
    };
    assert_eq!(filter(&account(5.0)), expected);
    let missing = rawdoc! { "_id": ObjectId::from_bytes([7; 12]) };
    let sum = filter(&missing).get_document("wallet.sum").expect("it is compared").to_owned();
    assert_eq!(sum, rawdoc! { "$exists": false });
    let null = filter(&account(RawBson::Null));
    let sum = null.get_document("wallet.sum").expect("it is compared");
    assert_eq!(sum, &*rawdoc! { "$eq": null, "$type": 10 });
}
