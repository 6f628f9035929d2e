//! Numbers as others store them, each with its class and what it becomes.

use mongodb::bson::{RawBson, rawdoc};

use super::*;

/// A number as it is told: its class, and the text of what it would become.
#[derive(Debug, PartialEq)]
enum Told {
    Fits(Number),
    Odd(Class, String),
}

impl From<Number> for Told {
    fn from(number: Number) -> Told {
        match number {
            Number::Odd(class, becomes) => {
                Told::Odd(class, becomes.map(|becomes| becomes.to_string()).unwrap_or_default())
            }
            Number::Missing | Number::Whole | Number::Decimal => Told::Fits(number),
        }
    }
}

fn odd(class: Class, becomes: &str) -> Told {
    Told::Odd(class, becomes.to_owned())
}

fn of(value: impl Into<RawBson>, places: Option<u32>) -> Told {
    classify(Some(value.into().as_raw_bson_ref()), places).into()
}

fn decimal(text: &str) -> RawBson {
    RawBson::Decimal128(text.parse().expect("a decimal"))
}

#[test]
fn each_kind_of_number_has_its_class() {
    let two_53 = Amount::DOUBLE_MAX as f64;
    for (value, expected) in [
        (RawBson::Int32(5), Told::Fits(Number::Whole)),
        (RawBson::Int64(-5), Told::Fits(Number::Whole)),
        (RawBson::Int64(Amount::MAX), Told::Fits(Number::Whole)),
        (RawBson::Int64(Amount::MAX + 1), odd(Class::TooLarge, "")),
        (RawBson::Int64(i64::MIN), odd(Class::TooLarge, "")),
        (RawBson::Double(5.0), Told::Fits(Number::Whole)),
        (RawBson::Double(-0.0), Told::Fits(Number::Whole)),
        (RawBson::Double(12.5), odd(Class::Fraction, "")),
        (RawBson::Double(two_53 - 1.0), Told::Fits(Number::Whole)),
        (RawBson::Double(two_53), odd(Class::DoubleTooLarge, "")),
        (RawBson::Double(-1e300), odd(Class::DoubleTooLarge, "")),
        (RawBson::Double(f64::NAN), odd(Class::NotFinite, "")),
        (RawBson::Double(f64::NEG_INFINITY), odd(Class::NotFinite, "")),
        (decimal("12.50"), Told::Fits(Number::Decimal)),
        (decimal("7"), Told::Fits(Number::Decimal)),
        (decimal("NaN"), odd(Class::NotFinite, "")),
        (decimal("-Infinity"), odd(Class::NotFinite, "")),
        (decimal("1E+19"), odd(Class::TooLarge, "")),
        (decimal("0.1234567895"), odd(Class::DecimalPlaces, "NumberDecimal(\"0.12345679\")")),
        ("1250".into(), odd(Class::NumericText, "NumberLong(\"1250\")")),
        ("12.50".into(), odd(Class::NumericText, "NumberDecimal(\"12.50\")")),
        ("99999999999999999999".into(), odd(Class::TooLarge, "")),
        ("twelve".into(), odd(Class::NoNumber, "")),
        ("".into(), odd(Class::NoNumber, "")),
        (RawBson::Boolean(true), odd(Class::NoNumber, "")),
        (rawdoc! { "x": 1 }.into(), odd(Class::NoNumber, "")),
        (mongodb::bson::rawbson!([1, 2]), odd(Class::ListAsNumber, "")),
        (RawBson::Null, Told::Fits(Number::Missing)),
    ] {
        let told = format!("{value:?}");
        assert_eq!(of(value, None), expected, "{told}");
    }
    assert_eq!(classify(None, None), Number::Missing);
}

#[test]
fn places_say_what_a_number_means_and_halves_go_to_the_even_unit() {
    let long = |units: &str| format!("NumberLong(\"{units}\")");
    for (value, places, class, units) in [
        (RawBson::Double(12.5), 2, Class::FractionExact, "1250"),
        (RawBson::Double(0.1), 2, Class::FractionExact, "10"),
        (RawBson::Double(-0.07), 2, Class::FractionExact, "-7"),
        (RawBson::Double(12.345), 2, Class::FractionRounds, "1234"),
        (RawBson::Double(12.355), 2, Class::FractionRounds, "1236"),
        (RawBson::Double(0.1 + 0.2), 2, Class::FractionRounds, "30"),
        (RawBson::Double(1e-300), 2, Class::FractionRounds, "0"),
        (RawBson::Double(2.5), 0, Class::FractionRounds, "2"),
        (RawBson::Double(100.0), 2, Class::MajorUnits, "10000"),
        (RawBson::Int32(100), 2, Class::MajorUnits, "10000"),
        (RawBson::Int64(-3), 2, Class::MajorUnits, "-300"),
        ("12.5".into(), 2, Class::NumericText, "1250"),
        ("12".into(), 2, Class::NumericText, "1200"),
    ] {
        let told = format!("{value:?} at {places}");
        assert_eq!(of(value, Some(places)), odd(class, &long(units)), "{told}");
    }
    assert_eq!(of(0, Some(2)), Told::Fits(Number::Whole));
    assert_eq!(of(7, Some(0)), Told::Fits(Number::Whole));
    assert_eq!(of(decimal("1.5"), Some(2)), Told::Fits(Number::Decimal));
    assert_eq!(of(Amount::MAX, Some(2)), odd(Class::TooLarge, ""));
    assert_eq!(of(9e15 - 0.5, Some(9)), odd(Class::TooLarge, ""));
}

#[test]
fn what_a_repair_would_lose_is_known() {
    let rounds = |value: RawBson, places| match classify(Some(value.as_raw_bson_ref()), places) {
        Number::Odd(_, Some(becomes)) => becomes.rounds,
        other => panic!("{value:?} is {other:?}"),
    };
    for (value, places, expected) in [
        (RawBson::Double(12.5), Some(2), false),
        (RawBson::Double(12.345), Some(2), true),
        (RawBson::Double(1e-300), Some(2), true),
        (RawBson::Int32(7), Some(2), false),
        ("12.5".into(), Some(2), false),
        ("12.345".into(), Some(2), true),
        ("12.345".into(), None, false),
        (decimal("0.1234567895"), None, true),
    ] {
        assert_eq!(rounds(value.clone(), places), expected, "{value:?}");
    }
}
