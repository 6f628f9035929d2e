//! What is written to an account for a transaction of an old processor.

use super::*;
use layout::Layout;

const SCHEMA: &str = r#"
[accounts]
status = { open = ["active"], frozen = ["locked"] }
[accounts.fields]
balance = "purse.sum"
pendingTransactions = "purse.open"
status = "is"
floor = "least"
pendingDebits = "tandem.pendingDebits"
pendingCredits = "tandem.pendingCredits"
"#;

fn of(document: &RawDocument, value: RawBsonRef<'_>, end: usize, places: Option<u32>) -> Standing {
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let shape = Shape::new(Some(&layout.accounts));
    let (id, a, b) = (RawBsonRef::String("t"), RawBsonRef::String("a"), RawBsonRef::String("b"));
    let amount = crate::number::value(value).expect("a number");
    let state = ledger::transaction::State::Pending;
    let flight = Flight { id, state, ends: [a, b], value: (amount, value) };
    let stored = Stored { document, bytes: 100, repeats: false };
    Reading { shape, marks: IdKind::default(), places }.standing(stored, &flight, end)
}

fn pays(document: &RawDocument) -> Standing {
    of(document, RawBsonRef::Int32(5), PAYER, None)
}

fn account(sum: impl Into<RawBson>) -> RawDocumentBuf {
    rawdoc! { "_id": "a", "purse": { "sum": sum.into() } }
}

fn with(mut document: RawDocumentBuf, name: &str, value: impl Into<RawBson>) -> RawDocumentBuf {
    document.append(crate::shape::cstr(name), value.into());
    document
}

fn part<'a>(document: &'a RawDocument, name: &str) -> &'a RawDocument {
    document.get_document(name).expect("it is there")
}

fn set(statement: &RawDocument) -> &RawDocument {
    part(part(statement, "u"), "$set")
}

/// What an account has after it was posted to.
fn after(standing: Standing) -> RawBson {
    let Standing::Takes { post, .. } = standing else { panic!("{standing:?} takes nothing") };
    set(&post).get(cstr!("purse.sum")).ok().flatten().map(RawBson::from).expect("a number")
}

fn refuses(document: &RawDocument) -> bool {
    matches!(pays(document), Standing::Refuses { .. })
}

fn class(standing: Standing) -> Class {
    let Standing::Unclear(problem) = standing else { panic!("{standing:?} is clear") };
    problem.class
}

#[test]
fn a_posting_compares_what_was_read_and_marks_the_account_in_the_same_update() {
    let Standing::Takes { post, .. } = pays(&account(12)) else { panic!("it is not taken") };
    let expected = rawdoc! {
        "q": {
            "_id": { "$eq": "a" },
            "purse.sum": { "$eq": 12, "$type": 16 },
            "tandem.openingBalance": { "$exists": false },
            "least": { "$exists": false },
            "is": { "$exists": false },
            "tandem.finishSteps": { "$exists": false },
            "tandem.pendingDebits": { "$exists": false },
            "tandem.pendingCredits": { "$exists": false },
            "purse.open": { "$exists": false },
        },
        "u": { "$set": { "purse.sum": 7_i64, "tandem.finishSteps": 1_i64, "purse.open": ["t"] } },
    };
    assert_eq!(post, expected);
    let marked = rawdoc! { "_id": "a", "purse": { "sum": 12, "open": ["s"] } };
    let Standing::Takes { post, .. } = pays(&marked) else { panic!("it is not taken") };
    assert_eq!(part(part(&post, "q"), "purse.open"), &*rawdoc! { "$ne": "t" });
    assert_eq!(part(part(&post, "u"), "$push"), &*rawdoc! { "purse.open": "t" });
}

#[test]
fn a_marked_account_gives_back_what_it_paid_or_loses_the_mark_alone() {
    let marked = rawdoc! { "_id": "a", "purse": { "sum": 7.0, "open": ["s", "t"] } };
    let Standing::Marked { unmark, undo } = pays(&marked) else { panic!("it is marked") };
    let expected = rawdoc! {
        "q": { "_id": { "$eq": "a" }, "purse.open": { "$eq": "t" } },
        "u": { "$pull": { "purse.open": "t" } },
    };
    assert_eq!(unmark, expected);
    let undo = undo.expect("it can be taken back");
    assert_eq!(set(&undo), &*rawdoc! { "purse.sum": 12.0, "tandem.finishSteps": 1_i64 });
    let filter = part(&undo, "q");
    assert_eq!(part(filter, "purse.open"), &*rawdoc! { "$eq": "t" });
    assert_eq!(part(filter, "purse.sum"), &*rawdoc! { "$eq": 7.0, "$type": 1 });
    assert_eq!(part(part(&undo, "u"), "$pull"), &*rawdoc! { "purse.open": "t" });
}

#[test]
fn a_number_stays_of_its_kind_and_no_unit_is_lost_in_a_double() {
    let decimal = |text: &str| RawBson::Decimal128(text.parse().expect("a decimal"));
    let five = RawBsonRef::Int32(5);
    let tenth = RawBsonRef::Double(0.1);
    for (held, value, end, becomes) in [
        (RawBson::Int32(12), five, PAYER, RawBson::Int64(7)),
        (RawBson::Int64(12), five, 1, RawBson::Int64(17)),
        (RawBson::Double(12.0), five, PAYER, RawBson::Double(7.0)),
        (RawBson::Double(0.2), tenth, 1, RawBson::Double(0.3)),
        (RawBson::Int32(12), tenth, 1, RawBson::Double(12.1)),
        (RawBson::Null, five, 1, RawBson::Int64(5)),
        (RawBson::Null, tenth, 1, RawBson::Double(0.1)),
    ] {
        assert_eq!(after(of(&account(held.clone()), value, end, Some(2))), becomes, "{held:?}");
    }
    let half: mongodb::bson::Decimal128 = "2.50".parse().expect("a decimal");
    let of_decimal = of(&account(decimal("12.50")), RawBsonRef::Decimal128(half), 0, Some(2));
    assert_eq!(after(of_decimal), decimal("10.00"));
}

#[test]
fn what_is_adopted_counts_minor_units_and_its_opening_moves_along() {
    let adopted = with(account(1_200_i64), "tandem", rawdoc! { "openingBalance": 1_000_i64 });
    let Standing::Takes { post, .. } = of(&adopted, RawBsonRef::Double(2.5), PAYER, Some(2)) else {
        panic!("it is not taken")
    };
    let expected = rawdoc! {
        "purse.sum": 950_i64, "tandem.openingBalance": 750_i64, "tandem.finishSteps": 1_i64,
        "purse.open": ["t"],
    };
    assert_eq!(set(&post), &*expected);
    let fraction = of(&adopted, RawBsonRef::Double(2.5), PAYER, None);
    assert_eq!(class(fraction), Class::Fraction);
    let places = of(&adopted, RawBsonRef::Double(2.555), PAYER, Some(2));
    assert_eq!(class(places), Class::FractionRounds);
    let held = rawdoc! { "openingBalance": 1_000_i64, "pendingDebits": 1_196_i64 };
    assert!(refuses(&with(account(1_200_i64), "tandem", held)));
}

#[test]
fn an_account_that_is_not_open_or_has_too_little_refuses() {
    assert!(refuses(&account(4)));
    assert_eq!(after(of(&account(-9), RawBsonRef::Int32(5), 1, None)), RawBson::Int64(-4));
    assert!(refuses(&with(account(50), "is", "locked")));
    assert_eq!(after(pays(&with(account(50), "is", "active"))), RawBson::Int64(45));
    assert!(refuses(&with(account(50), "least", 46)));
    assert_eq!(after(pays(&with(account(0), "least", RawBson::Null))), RawBson::Int64(-5));
    let spent = rawdoc! { "_id": "b", "purse": { "sum": 3, "open": ["t"] } };
    let Standing::Marked { undo, .. } = of(&spent, RawBsonRef::Int32(5), 1, None) else {
        panic!("it is marked")
    };
    assert_eq!(undo.map_err(|problem| problem.class), Err(Class::BelowFloor));
}

#[test]
fn each_update_keeps_out_those_that_were_planned_before_it() {
    let third = rawdoc! { "finishSteps": 2_i64 };
    let Standing::Takes { post, fence } = pays(&with(account(50), "tandem", third)) else {
        panic!("it is not taken")
    };
    let compared = part(part(&post, "q"), "tandem.finishSteps");
    assert_eq!(compared, &*rawdoc! { "$eq": 2_i64, "$type": 18 });
    assert_eq!(set(&post).get_i64("tandem.finishSteps").ok(), Some(3));
    let expected = rawdoc! {
        "q": { "_id": { "$eq": "a" }, "purse.open": { "$ne": "t" } },
        "u": { "$inc": { "tandem.finishSteps": 1_i64 } },
    };
    assert_eq!(fence, expected);
    let refused = pays(&account(4));
    assert_eq!(refused, Standing::Refuses { fence: Some(expected) });
}

#[test]
fn what_nobody_can_tell_is_left() {
    let pending = rawdoc! { "pendingDebits": 3 };
    for (document, expected) in [
        (account("12"), Class::NumericText),
        (account(RawBson::Double(f64::NAN)), Class::NotFinite),
        (account(1e17), Class::DoubleTooLarge),
        (account(RawBson::Decimal128("12".parse().expect("a decimal"))), Class::NotReadable),
        (with(account(12), "is", "asleep"), Class::UnknownStatus),
        (with(account(12), "tandem", pending), Class::PendingUnclaimed),
        (with(account(12), "tandem", rawdoc! { "pendingDebits": "3" }), Class::NumericText),
        (with(account(12), "least", "much"), Class::NoNumber),
        (rawdoc! { "_id": "a", "purse": { "sum": 12, "open": "t" } }, Class::MarksNoList),
        (rawdoc! { "_id": "a", "purse": 12 }, Class::ScalarOnTheWay),
    ] {
        assert_eq!(class(pays(&document)), expected, "{document:?}");
    }
}
