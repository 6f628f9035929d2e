//! Documents of every oddity: read as they should be, or refused by name, never with a panic.

use bson::{Bson, DateTime, Decimal128, RawBson, doc, rawdoc};

use super::*;
use crate::limits::NAME_BYTES_MAX;

fn read(document: Document) -> Result<Body, BodyError> {
    Body::from_document(&document)
}

fn transfer() -> Document {
    let body = Body::transfer("a", "b", Amount::Int(7)).expect("valid");
    body.to_document("t", DateTime::from_millis(0))
}

fn with(field: &str, value: impl Into<Bson>) -> Document {
    let mut document = transfer();
    document.insert(field, value);
    document
}

fn with_legs(legs: impl Into<Bson>) -> Document {
    doc! { "_id": "t", "legs": legs }
}

fn decimal(text: &str) -> Decimal128 {
    text.parse().expect("a decimal")
}

#[track_caller]
fn refused(read: Result<Body, BodyError>, expected: &str) {
    let error = read.expect_err(expected).to_string();
    assert!(error.contains(expected), "{error} should say {expected}");
    assert!(error.len() < 1_000, "{} bytes: {error}", error.len());
}

#[test]
fn a_field_that_breaks_a_rule_is_named() {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let huge = "9".repeat(9_000_000);
    for (field, value, expected) in [
        ("source", Bson::Null, "source: is missing or not a string"),
        ("source", Bson::from(&long), "source: is longer than 200"),
        ("source", Bson::from("a\n"), "source: has a control"),
        ("destination", Bson::from("a"), "destination: is the source"),
        ("value", Bson::from("5"), "value: \"5\" is a text; write NumberLong(\"5\")"),
        ("value", Bson::from(&huge), "(9000000 bytes)"),
        ("value", Bson::from(vec![huge.clone()]), "value: a value of the type Array is no number"),
        ("value", Bson::Double(f64::NAN), "value: NaN is no number"),
        ("value", Bson::Double(12.5), "value: 12.5 is a double with a fraction"),
        ("value", Bson::Double(1e16), "value: 10000000000000000 is a double of 2^53 or more"),
        ("value", Bson::Double(0.0), "value: is 0"),
        ("value", Bson::Decimal128(decimal("NaN")), "NaN is no number"),
        ("value", Bson::Decimal128(decimal("-Infinity")), "-Infinity is no number"),
        ("value", Bson::Decimal128(decimal("1E+6144")), "too large"),
        ("value", Bson::Decimal128(decimal("1E-10")), "more than 9 decimal places"),
        ("value", Bson::Int64(Amount::MAX + 1), "too large"),
        ("value", Bson::Int64(i64::MIN), "too large"),
        ("value", Bson::Int64(0), "value: is 0"),
        ("currency", Bson::from(huge.as_str()), "currency: is longer than 200"),
        ("currency", Bson::from(""), "currency: is empty"),
        ("currency", Bson::from("EUR\u{85}"), "currency: has a control"),
        ("currency", Bson::from(5), "currency: is missing or not a string"),
        ("reverses", Bson::from(&long), "reverses: is longer"),
        ("reverses", Bson::from(vec!["x"]), "reverses: is missing or not a string"),
        ("metadata", Bson::from("x"), "metadata: is not an object"),
        ("metadata", Bson::from(vec!["x"]), "metadata: is not an object"),
        ("metadata", Bson::from(doc! { "text": &huge }), "metadata: has 9000016 bytes"),
        ("legs", Bson::Array(Vec::new()), "source: stands beside legs"),
    ] {
        refused(read(with(field, value)), expected);
    }
}

#[test]
fn a_whole_number_is_minor_units_however_it_is_stored() {
    let expected = Body::transfer("a", "b", Amount::Int(7)).expect("valid");
    for value in [Bson::Int32(7), Bson::Int64(7), Bson::Double(7.0)] {
        assert_eq!(read(with("value", value.clone())), Ok(expected.clone()), "{value}");
        let leg = |account: &str, amount: Bson| doc! { "account": account, "amount": amount };
        let legs = vec![leg("a", Bson::Int64(-7)), leg("b", value.clone())];
        assert_eq!(read(with_legs(legs)), Ok(expected.clone()), "{value}");
        let captured = vec![leg("a", Bson::Double(-7.0)), leg("b", value)];
        let mut hold = with("hold", true);
        hold.insert("captured", captured);
        assert!(read(hold).is_ok_and(|body| body.terms().captured.is_some()));
    }
}

#[test]
fn legs_that_break_a_rule_are_named() {
    let leg = |account: &str, amount: i64| doc! { "account": account, "amount": amount };
    let many: Vec<_> = (0..=LEGS_MAX).map(|n| leg(&format!("a{n}"), 1)).collect();
    let large = doc! { "account": "a", "amount": -1_i64, "note": "x".repeat(LEGS_BYTES_MAX) };
    for (legs, expected) in [
        (Bson::from("legs"), "legs: is not a list"),
        (Bson::from(doc! { "0": leg("a", 1) }), "legs: is not a list"),
        (Bson::Array(Vec::new()), "0 legs"),
        (Bson::from(many), "1001 legs"),
        (Bson::from(vec![large, leg("b", 1)]), "legs: is larger than"),
        (Bson::Array(vec![Bson::from(leg("a", -1)), Bson::from(1)]), "something else"),
        (Bson::from(vec![leg("a", -1), doc! { "amount": 1_i64 }]), "legs[1].account: is missing"),
        (Bson::from(vec![leg("a", -1), doc! { "account": "b" }]), "legs[1].amount: is missing"),
        (
            Bson::from(vec![leg("a", -1), doc! { "account": "b", "amount": 0.5 }]),
            "legs[1].amount: 0.5 is a double with a fraction",
        ),
        (Bson::from(vec![leg("", -1), leg("b", 1)]), "legs[0].account: is empty"),
        (Bson::from(vec![leg("a", -1), leg("a", 1)]), "named twice"),
        (Bson::from(vec![leg("a", -1), leg("b", 1), leg("a", 0)]), "is zero"),
        (Bson::from(vec![leg("a", -2), leg("b", 1), leg("a", 1)]), "named twice"),
        (Bson::from(vec![leg("a", -2), leg("b", 1)]), "sum to -1,"),
        (Bson::from(vec![leg("a", -1), doc! { "account": "b", "amount": decimal("1") }]), "mixed"),
    ] {
        refused(read(with_legs(legs)), expected);
    }
}

#[test]
fn a_field_that_stands_twice_is_refused_and_a_foreign_one_ignored() {
    let raw = RawDocumentBuf::try_from(&transfer()).expect("BSON");
    for (field, refused) in FIELDS.map(|field| (field, true)).into_iter().chain([("note", false)]) {
        let mut twice = raw.clone();
        let name = bson::raw::CString::try_from(field).expect("no zero byte");
        for _ in 0..2 {
            twice.append(name.as_ref(), RawBson::Null);
        }
        let read = Body::from_raw(&twice);
        match refused {
            true => assert!(read.expect_err(field).to_string().contains("twice"), "{field}"),
            false => assert!(read.is_ok(), "{field}"),
        }
    }
    let mut leg = rawdoc! { "account": "a", "amount": -1_i64, "account": "c", "note": 1 };
    leg.append(bson::raw::cstr!("note"), 2);
    let twice = rawdoc! { "legs": [leg, { "account": "b", "amount": 1_i64 }] };
    refused_raw(&twice, "legs[0].account: is there twice");
}

fn refused_raw(document: &RawDocument, expected: &str) {
    refused(Body::from_raw(document), expected);
}

#[test]
fn text_that_is_not_valid_is_named_and_nothing_else_suffers() {
    // 0xff is in no valid text; each case spoils one byte of a document that is valid.
    let document = rawdoc! {
        "source": "SSS", "destination": "DDD", "value": 1_i64, "currency": "CCC", "note": "NNN",
        "metadata": { "text": "MMM" }, "KKK": 1,
    };
    assert!(Body::from_raw(&document).is_ok());
    for (mark, expected) in [
        (b"SSS", Some("source: is not valid text")),
        (b"DDD", Some("destination: is not valid text")),
        (b"CCC", Some("currency: is not valid text")),
        (b"MMM", Some("metadata: has text in it that is not valid")),
        (b"KKK", Some("fields: have a name that is not valid text")),
        (b"NNN", None),
    ] {
        let mut bytes = document.as_bytes().to_vec();
        let at = bytes.windows(3).position(|window| window == mark).expect("it is there");
        bytes[at] = 0xff;
        let spoiled = RawDocument::from_bytes(&bytes).expect("the lengths are right");
        match expected {
            Some(expected) => refused_raw(spoiled, expected),
            None => assert!(Body::from_raw(spoiled).is_ok(), "a foreign field matters"),
        }
    }
}

#[test]
fn metadata_is_read_up_to_its_depth() {
    let nested = |levels: usize| (1..levels).fold(doc! {}, |inner, _| doc! { "a": inner });
    assert!(read(with("metadata", nested(METADATA_DEPTH_MAX))).is_ok());
    refused(read(with("metadata", nested(METADATA_DEPTH_MAX + 1))), "nested deeper");
    let list = (0..METADATA_DEPTH_MAX).fold(Bson::Null, |inner, _| Bson::Array(vec![inner]));
    refused(read(with("metadata", doc! { "a": list })), "nested deeper");
}

#[test]
fn any_bytes_are_read_or_refused() {
    let document = rawdoc! {
        "source": "a", "destination": "b", "value": 1_i64, "currency": "EUR",
        "legs": [{ "account": "a", "amount": 1_i64 }], "metadata": { "a": ["b"] },
    };
    for at in 4..document.as_bytes().len() {
        for value in [0x00, 0x01, 0x05, 0x0c, 0x0f, 0x7f, 0x80, 0xff] {
            let mut bytes = document.as_bytes().to_vec();
            bytes[at] = value;
            if let Ok(spoiled) = RawDocument::from_bytes(&bytes) {
                let _ = Body::from_raw(spoiled);
                let _ = crate::account::Account::from_raw(spoiled);
            }
        }
    }
}
