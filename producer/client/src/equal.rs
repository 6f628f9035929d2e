//! Whether two values of a document are the same content.
//!
//! Drivers write a number as they like: `1` becomes an Int32, an Int64 or a double, and another
//! driver reads the double back. Promises that numbers are compared by their exact value whatever
//! their BSON type, at any depth: an integer beyond 2^53 never equals the double that it would be
//! rounded to, and the double 0.1 is not the decimal 0.1. `-0.0` equals `0`, and a NaN equals a
//! NaN, so that the same content submitted twice is no conflict. The order of a document's fields
//! does not count; that of an array's elements does. Never fails.

use mongodb::bson::{Bson, Decimal128, Document};

/// Whether two documents are the same content.
pub(crate) fn same_documents(one: &Document, other: &Document) -> bool {
    let same = |(name, value)| other.get(name).is_some_and(|other| same_values(value, other));
    one.len() == other.len() && one.iter().all(same)
}

fn same_values(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Document(one), Bson::Document(other)) => same_documents(one, other),
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_values(a, b))
        }
        _ => match (Number::of(one), Number::of(other)) {
            (Some(one), Some(other)) => one == other,
            (None, None) => one == other,
            (Some(_), None) | (None, Some(_)) => false,
        },
    }
}

/// A number by its exact value, which has one form only.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Nan,
    Infinite { is_negative: bool },
    Finite(Factors),
}

/// `±core · 2^twos · 5^fives`, where neither 2 nor 5 divides `core`. Zero has no sign and no
/// factors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    is_negative: bool,
    core: u128,
    twos: i32,
    fives: i32,
}

impl Number {
    fn of(value: &Bson) -> Option<Number> {
        match value {
            Bson::Int32(number) => Some(Number::of_integer((*number).into())),
            Bson::Int64(number) => Some(Number::of_integer(*number)),
            Bson::Double(number) => Some(Number::of_double(*number)),
            Bson::Decimal128(number) => Some(Number::of_decimal(*number)),
            _ => None,
        }
    }

    fn of_integer(number: i64) -> Number {
        Number::finite(number < 0, number.unsigned_abs().into(), 0, 0)
    }

    /// As IEEE 754 has it: 1 bit for the sign, 11 for the exponent, 52 for the fraction.
    fn of_double(number: f64) -> Number {
        if number.is_nan() {
            return Number::Nan;
        }
        let is_negative = number.is_sign_negative();
        if number.is_infinite() {
            return Number::Infinite { is_negative };
        }
        let bits = number.to_bits();
        let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
        let exponent = i32::try_from(exponent).expect("11 bits");
        match exponent {
            0 => Number::finite(is_negative, fraction.into(), -1_074, 0),
            _ => Number::finite(is_negative, (fraction | (1 << 52)).into(), exponent - 1_075, 0),
        }
    }

    /// As IEEE 754 has it, with the coefficient as a binary integer: 1 bit for the sign, 14 for the
    /// exponent, 113 for the coefficient. A coefficient of more than 34 digits counts as zero.
    fn of_decimal(number: Decimal128) -> Number {
        const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
        let bits = u128::from_le_bytes(number.bytes());
        let is_negative = bits >> 127 == 1;
        match (bits >> 122) & 0x1f {
            0x1f => return Number::Nan,
            0x1e => return Number::Infinite { is_negative },
            // A form whose coefficient always has more than 34 digits.
            0x18.. => return Number::finite(false, 0, 0, 0),
            _ => {}
        }
        let exponent = i32::try_from((bits >> 113) & 0x3fff).expect("14 bits") - 6_176;
        let coefficient = bits & ((1 << 113) - 1);
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        Number::finite(is_negative, coefficient, exponent, exponent)
    }

    /// `±coefficient · 2^twos · 5^fives` in its one form.
    fn finite(is_negative: bool, coefficient: u128, twos: i32, fives: i32) -> Number {
        if coefficient == 0 {
            return Number::Finite(Factors { is_negative: false, core: 0, twos: 0, fives: 0 });
        }
        let (mut core, mut twos, mut fives) = (coefficient, twos, fives);
        while core % 2 == 0 {
            (core, twos) = (core / 2, twos + 1);
        }
        while core % 5 == 0 {
            (core, fives) = (core / 5, fives + 1);
        }
        Number::Finite(Factors { is_negative, core, twos, fives })
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use mongodb::bson::doc;

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(Decimal128::from_str(text).expect(text))
    }

    #[test]
    fn equal_numbers_are_equal_whatever_wrote_them() {
        let (max, double) = (i64::MAX, Bson::Double);
        for group in [
            vec![Bson::Int32(1), Bson::Int64(1), double(1.0), decimal("1"), decimal("1.000")],
            vec![Bson::Int32(-250), double(-250.0), decimal("-2.50E+2"), decimal("-250")],
            vec![Bson::Int32(0), double(-0.0), double(0.0), decimal("-0E+3"), decimal("0.00")],
            vec![double(0.5), decimal("0.5"), decimal("0.500")],
            vec![double(f64::NAN), double(-f64::NAN), decimal("NaN")],
            vec![double(f64::INFINITY), decimal("Infinity")],
            vec![Bson::Int64(1 << 53), double(9_007_199_254_740_992.0)],
            vec![Bson::Int64(i64::MIN), double(-9_223_372_036_854_775_808.0)],
            vec![Bson::Int64(max), decimal(&max.to_string())],
            vec![double(1e22), decimal("1E+22"), decimal("10000000000000000000000")],
            vec![double(f64::from_bits(1)), double(5e-324)],
        ] {
            for one in &group {
                for other in &group {
                    assert!(same_values(one, other), "{one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_that_differ_at_all_are_not_equal() {
        let double = Bson::Double;
        for (one, other) in [
            (Bson::Int32(1), Bson::Int32(-1)),
            (Bson::Int32(1), double(1.000_000_000_000_000_2)),
            (Bson::Int64((1 << 53) + 1), double(9_007_199_254_740_992.0)),
            (Bson::Int64((1 << 53) + 1), double(9_007_199_254_740_994.0)),
            (Bson::Int64(i64::MAX), double(9_223_372_036_854_775_808.0)),
            (double(0.1), decimal("0.1")),
            (double(1e23), decimal("1E+23")),
            (decimal("1E+100"), decimal("1E+101")),
            (double(f64::NAN), Bson::Int32(0)),
            (double(f64::INFINITY), double(f64::NEG_INFINITY)),
            (double(f64::INFINITY), double(f64::MAX)),
            (double(0.0), double(5e-324)),
            (Bson::Int32(1), Bson::String("1".into())),
            (Bson::Int32(1), Bson::Boolean(true)),
            (Bson::Int32(0), Bson::Null),
        ] {
            assert!(!same_values(&one, &other), "{one:?} {other:?}");
            assert!(!same_values(&other, &one), "{other:?} {one:?}");
        }
    }

    #[test]
    fn numbers_count_by_value_at_any_depth_and_all_else_as_it_is() {
        let one = doc! { "n": 1, "list": [1, { "x": 2.0 }], "text": "1", "none": null };
        let same =
            doc! { "text": "1", "none": null, "list": [1.0, { "x": 2_i64 }], "n": decimal("1.0") };
        assert!(same_documents(&one, &same) && same_documents(&same, &one));
        for other in [
            doc! { "n": 1, "list": [{ "x": 2.0 }, 1], "text": "1", "none": null },
            doc! { "n": 1, "list": [1, { "x": 2.5 }], "text": "1", "none": null },
            doc! { "n": 1, "list": [1, { "x": 2.0 }, 3], "text": "1", "none": null },
            doc! { "n": 1, "list": [1, { "x": 2.0 }], "text": 1, "none": null },
            doc! { "n": 1, "list": [1, { "x": 2.0 }], "text": "1", "other": null },
            doc! { "n": 1, "list": [1, { "x": 2.0 }], "text": "1" },
        ] {
            assert!(!same_documents(&one, &other) && !same_documents(&other, &one), "{other}");
        }
    }
}
