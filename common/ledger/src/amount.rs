//! Amounts of money: Int64 minor units or Decimal128.
//!
//! Owns parsing, the limits and the arithmetic. Promises that every sum is exact or refused: an
//! amount is at most [`Amount::MAX`] in magnitude with at most [`Amount::PLACES_MAX`] decimal
//! places, so neither Int64 nor the 34 digits of Decimal128 can overflow or round anywhere between
//! here and the server. Others store whole numbers as Int32 or as doubles, too. A double counts as
//! minor units where it is sure to be what was meant: it is whole and below [`Amount::DOUBLE_MAX`].
//! Fails with an [`AmountError`] that names the remedy.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bson::{Bson, Decimal128, RawBson, RawBsonRef};
use rust_decimal::Decimal;

use crate::limits::echo;

/// How many units of 10^-9 a whole is.
const NANOS: i128 = 1_000_000_000;
/// The largest coefficient of a Decimal128.
const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;

/// A signed amount, or a balance.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// Minor units (cents, points, pieces), stored as Int64.
    Int(i64),
    /// A decimal number, stored as Decimal128.
    Decimal(Decimal),
}

/// Why a value is not an amount. The texts are cut to be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It is not a number at all.
    #[error("{0} is not a number; write minor units like 1250, or a decimal like 12.50")]
    NotANumber(String),
    /// It is outside of ±10^18.
    #[error("{0} is too large; the limit is 10^18")]
    TooLarge(String),
    /// It has more decimal places than can be summed exactly.
    #[error("{0} has more than 9 decimal places; round it before submitting")]
    TooPrecise(String),
    /// It is stored in MongoDB as something that is no amount.
    #[error("{value} is {kind}; write {remedy}")]
    Stored {
        /// The value, or its type.
        value: String,
        /// What is wrong with it.
        kind: &'static str,
        /// What to write instead, as in `mongosh`.
        remedy: String,
    },
}

/// What to write where nobody knows what was meant.
const ANY_AMOUNT: &str = "minor units like NumberLong(\"1250\"), or NumberDecimal(\"12.50\")";

impl AmountError {
    /// The same for a field of an account whose balance says of which kind all its numbers are.
    #[must_use]
    pub fn beside(self, balance: Amount) -> AmountError {
        match self {
            AmountError::Stored { value, kind, remedy }
                if balance.is_int() && remedy.contains("NumberDecimal") =>
            {
                let remedy = "minor units like NumberLong(\"1250\"), as its balance is whole";
                AmountError::Stored { value, kind, remedy: remedy.to_owned() }
            }
            other => other,
        }
    }
}

impl Amount {
    /// The largest magnitude of an amount and of an account's holdings: 10^18.
    ///
    /// Three of them still fit an Int64, so no server-side sum can leave it (the aggregation
    /// language would turn an overflowing Int64 into a double silently).
    pub const MAX: i64 = 1_000_000_000_000_000_000;

    /// The most decimal places of a decimal amount: 19 digits before and 9 after the point stay
    /// below the 28 that `rust_decimal` holds and far below the 34 of Decimal128.
    pub const PLACES_MAX: u32 = 9;

    /// Doubles from 2^53 on are not read: between them units are missing.
    pub const DOUBLE_MAX: i64 = 1 << 53;

    /// Zero minor units.
    pub const ZERO: Amount = Amount::Int(0);

    /// Parses a whole number as Int64 minor units, anything with a point as a decimal.
    ///
    /// # Errors
    /// When the text is not a plain number, too large or too precise.
    pub fn parse(text: &str) -> Result<Amount, AmountError> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let plain = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !plain {
            return Err(not_a_number(text));
        }
        if text.contains('.') {
            return Amount::parse_decimal(text);
        }
        text.parse::<i64>()
            .map_err(|_| AmountError::TooLarge(echo(text).into_owned()))
            .and_then(|units| Amount::Int(units).within_limits())
    }

    /// Parses a number as a decimal, with or without a point.
    ///
    /// # Errors
    /// As [`Amount::parse`].
    pub fn parse_decimal(text: &str) -> Result<Amount, AmountError> {
        let too_precise =
            text.split_once('.').is_some_and(|(_, places)| places.trim_end_matches('0').len() > 9);
        if too_precise {
            return Err(AmountError::TooPrecise(echo(text).into_owned()));
        }
        match Decimal::from_str(text) {
            Ok(decimal) => Amount::Decimal(decimal).within_limits(),
            Err(rust_decimal::Error::ExceedsMaximumPossibleValue) => {
                Err(AmountError::TooLarge(echo(text).into_owned()))
            }
            Err(_) => Err(not_a_number(text)),
        }
    }

    fn within_limits(self) -> Result<Amount, AmountError> {
        let (too_large, too_precise) = match self {
            Amount::Int(units) => (units.unsigned_abs() > Amount::MAX.unsigned_abs(), false),
            Amount::Decimal(decimal) => (
                decimal.abs() > Decimal::from(Amount::MAX),
                decimal.scale() > Amount::PLACES_MAX
                    && decimal.normalize().scale() > Amount::PLACES_MAX,
            ),
        };
        if too_large {
            return Err(AmountError::TooLarge(self.to_string()));
        }
        if too_precise {
            return Err(AmountError::TooPrecise(self.to_string()));
        }
        Ok(self)
    }

    fn decimal(self) -> Decimal {
        match self {
            Amount::Int(units) => Decimal::from(units),
            Amount::Decimal(decimal) => decimal,
        }
    }

    /// The exact sum, or `None` when it leaves the limits.
    #[must_use]
    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        let sum = match (self, other) {
            (Amount::Int(a), Amount::Int(b)) => Amount::Int(a.checked_add(b)?),
            _ => Amount::Decimal(self.decimal().checked_add(other.decimal())?),
        };
        sum.within_limits().ok()
    }

    /// The same magnitude with the other sign.
    #[must_use]
    pub fn negated(self) -> Amount {
        match self {
            Amount::Int(units) => Amount::Int(-units),
            Amount::Decimal(decimal) => Amount::Decimal(-decimal),
        }
    }

    /// Zero of the same kind.
    #[must_use]
    pub fn zero(self) -> Amount {
        match self {
            Amount::Int(_) => Amount::ZERO,
            Amount::Decimal(_) => Amount::Decimal(Decimal::ZERO),
        }
    }

    /// Whether it is exactly zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        match self {
            Amount::Int(units) => units == 0,
            Amount::Decimal(decimal) => decimal.is_zero(),
        }
    }

    /// Whether it is below zero: a debit, when it is a leg's amount.
    #[must_use]
    pub fn is_negative(self) -> bool {
        !self.is_zero() && self.decimal().is_sign_negative()
    }

    /// Whether it is Int64 minor units. Accounts and legs of different kinds never mix.
    #[must_use]
    pub fn is_int(self) -> bool {
        matches!(self, Amount::Int(_))
    }

    /// The amount in units of 10^-9, exact: what the auditor sums, far from any overflow.
    #[must_use]
    pub fn nanos(self) -> i128 {
        match self {
            Amount::Int(units) => i128::from(units) * NANOS,
            Amount::Decimal(decimal) => {
                let mut scaled = decimal.normalize();
                let missing = Amount::PLACES_MAX.saturating_sub(scaled.scale());
                scaled.rescale(Amount::PLACES_MAX - missing);
                scaled.mantissa() * 10_i128.pow(missing)
            }
        }
    }

    /// The amount of so many units of 10^-9, as minor units or as a decimal. It may be beyond
    /// [`Amount::MAX`], because sums of the past may be. `None` if it does not fit the type.
    #[must_use]
    pub fn from_nanos(nanos: i128, is_int: bool) -> Option<Amount> {
        if !is_int {
            let decimal = Decimal::try_from_i128_with_scale(nanos, Amount::PLACES_MAX).ok()?;
            return Some(Amount::Decimal(decimal.normalize()));
        }
        let is_whole = nanos % NANOS == 0;
        is_whole.then(|| i64::try_from(nanos / NANOS).ok().map(Amount::Int)).flatten()
    }

    /// A sum that the server has made, in units of 10^-9. `None` if it has more than 9 decimal
    /// places, is no number, or is too large for the 34 digits of a Decimal128 to be exact.
    #[must_use]
    pub fn nanos_of_sum(sum: Decimal128) -> Option<i128> {
        let Finite { mut coefficient, mut exponent } = finite(sum)?;
        while coefficient != 0 && coefficient % 10 == 0 {
            (coefficient, exponent) = (coefficient / 10, exponent + 1);
        }
        if coefficient == 0 {
            return Some(0);
        }
        let zeros = u32::try_from(exponent + Amount::PLACES_MAX as i32).ok()?;
        let nanos = coefficient.checked_mul(10_i128.checked_pow(zeros)?)?;
        (nanos.unsigned_abs() <= COEFFICIENT_MAX).then_some(nanos)
    }

    /// Reads what MongoDB stores, as bytes.
    ///
    /// # Errors
    /// For doubles that are not whole or too large, NaN, infinities and everything else that is not
    /// a whole or decimal number within the limits.
    pub fn from_raw(value: RawBsonRef<'_>) -> Result<Amount, AmountError> {
        match value {
            RawBsonRef::Int64(units) => Amount::Int(units).within_limits(),
            RawBsonRef::Int32(units) => Ok(Amount::Int(i64::from(units))),
            RawBsonRef::Decimal128(decimal) => Amount::from_decimal128(decimal),
            RawBsonRef::Double(double) => Amount::from_double(double),
            RawBsonRef::String(text) => Err(stored_text(text)),
            // Of anything else only the type is shown: it may be megabytes.
            other => Err(no_number(format!("a value of the type {:?}", other.element_type()))),
        }
    }

    /// Reads an amount in a document that only Tandem writes, which writes no double.
    #[must_use]
    pub fn written(value: RawBsonRef<'_>) -> Option<Amount> {
        match value {
            RawBsonRef::Double(_) => None,
            value => Amount::from_raw(value).ok(),
        }
    }

    /// As [`Amount::from_raw`], for a value that was read into a tree.
    ///
    /// # Errors
    /// As [`Amount::from_raw`].
    pub fn from_bson(value: &Bson) -> Result<Amount, AmountError> {
        match value {
            Bson::Int64(units) => Amount::from_raw(RawBsonRef::Int64(*units)),
            Bson::Int32(units) => Amount::from_raw(RawBsonRef::Int32(*units)),
            Bson::Decimal128(decimal) => Amount::from_raw(RawBsonRef::Decimal128(*decimal)),
            Bson::Double(float) => Amount::from_raw(RawBsonRef::Double(*float)),
            Bson::String(text) => Err(stored_text(text)),
            other => Err(no_number(format!("a value of the type {:?}", other.element_type()))),
        }
    }

    fn from_double(double: f64) -> Result<Amount, AmountError> {
        if !double.is_finite() {
            return Err(no_number(double.to_string()));
        }
        if double.abs() > Amount::MAX as f64 {
            return Err(AmountError::TooLarge(format!("{double:e}")));
        }
        // Below this, a double that is whole is exactly that Int64.
        let units = double as i64;
        let (kind, remedy) = if units.abs() >= Amount::DOUBLE_MAX {
            let kind = "a double of 2^53 or more, which may have lost units";
            (kind, format!("what it should be, like NumberLong(\"{units}\")"))
        } else if double.fract() != 0.0 {
            (
                "a double with a fraction",
                format!(
                    "NumberDecimal(\"{}\"), or minor units like NumberLong(\"1250\")",
                    rounded(double)
                ),
            )
        } else {
            return Ok(Amount::Int(units));
        };
        Err(AmountError::Stored { value: shown(double), kind, remedy })
    }

    fn from_decimal128(decimal: Decimal128) -> Result<Amount, AmountError> {
        const PLACES_MAX: i32 = Amount::PLACES_MAX as i32;
        let too_large = || AmountError::TooLarge(decimal.to_string());
        let Some(Finite { mut coefficient, mut exponent }) = finite(decimal) else {
            return Err(no_number(decimal.to_string()));
        };
        if coefficient == 0 {
            return Ok(Amount::Decimal(Decimal::ZERO));
        }
        while exponent < -PLACES_MAX && coefficient % 10 == 0 {
            (coefficient, exponent) = (coefficient / 10, exponent + 1);
        }
        if exponent < -PLACES_MAX {
            return Err(AmountError::TooPrecise(decimal.to_string()));
        }
        if exponent > 0 {
            let power = 10_i128.checked_pow(exponent.unsigned_abs()).ok_or_else(too_large)?;
            (coefficient, exponent) = (coefficient.checked_mul(power).ok_or_else(too_large)?, 0);
        }
        // What does not fit the 96 bits of a `Decimal` with at most 9 places is far beyond 10^18.
        Decimal::try_from_i128_with_scale(coefficient, exponent.unsigned_abs())
            .map_err(|_| too_large())
            .and_then(|decimal| Amount::Decimal(decimal).within_limits())
    }
}

/// A Decimal128 that is neither NaN nor infinite: ±`coefficient` × 10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finite {
    coefficient: i128,
    exponent: i32,
}

/// Takes the bits of a Decimal128 apart. As for the server, a coefficient of more than 34 digits,
/// which no arithmetic makes, stands for zero.
fn finite(decimal: Decimal128) -> Option<Finite> {
    const COEFFICIENT_BITS: u32 = 113;
    const EXPONENT_BIAS: i32 = 6_176;
    let bits = u128::from_le_bytes(decimal.bytes());
    let exponent_at = |shift: u32| ((bits >> shift) & 0x3fff) as i32 - EXPONENT_BIAS;
    let special = (bits >> 123) & 0b1111 == 0b1111;
    let large_coefficient = (bits >> 125) & 0b11 == 0b11;
    if special {
        return None;
    }
    if large_coefficient {
        return Some(Finite { coefficient: 0, exponent: exponent_at(111) });
    }
    let magnitude = bits & ((1 << COEFFICIENT_BITS) - 1);
    let magnitude = if magnitude > COEFFICIENT_MAX { 0 } else { magnitude as i128 };
    let coefficient = if bits >> 127 == 1 { -magnitude } else { magnitude };
    Some(Finite { coefficient, exponent: exponent_at(COEFFICIENT_BITS) })
}

fn not_a_number(text: &str) -> AmountError {
    AmountError::NotANumber(format!("{:?}", echo(text)))
}

/// A stored value that is no number at all.
fn no_number(value: String) -> AmountError {
    AmountError::Stored { value, kind: "no number", remedy: ANY_AMOUNT.to_owned() }
}

/// A stored text. If it is a number, the remedy is that number.
fn stored_text(text: &str) -> AmountError {
    let remedy = match Amount::parse(text) {
        Ok(amount @ Amount::Int(_)) => format!("NumberLong(\"{amount}\")"),
        Ok(amount @ Amount::Decimal(_)) => format!("NumberDecimal(\"{amount}\")"),
        Err(_) => ANY_AMOUNT.to_owned(),
    };
    AmountError::Stored { value: format!("{:?}", echo(text)), kind: "a text", remedy }
}

/// A double in few characters: plain digits may be hundreds.
fn shown(double: f64) -> String {
    const LENGTH_MAX: usize = 40;
    let plain = double.to_string();
    if plain.len() > LENGTH_MAX { format!("{double:e}") } else { plain }
}

/// A double as the decimal that somebody has meant: rounded to the places of an amount.
fn rounded(double: f64) -> String {
    let text = format!("{double:.places$}", places = Amount::PLACES_MAX as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn decimal128(decimal: Decimal) -> Decimal128 {
    Decimal128::from_str(&decimal.to_string())
        .expect("a decimal of at most 28 digits is a Decimal128")
}

impl From<i64> for Amount {
    /// Minor units. What is beyond [`Amount::MAX`] is refused when it is submitted.
    fn from(units: i64) -> Amount {
        Amount::Int(units)
    }
}

impl From<i32> for Amount {
    /// Minor units; a literal number is an `i32`.
    fn from(units: i32) -> Amount {
        Amount::Int(units.into())
    }
}

impl From<Amount> for Bson {
    fn from(amount: Amount) -> Bson {
        match amount {
            Amount::Int(units) => Bson::Int64(units),
            Amount::Decimal(decimal) => Bson::Decimal128(decimal128(decimal)),
        }
    }
}

impl From<Amount> for RawBson {
    fn from(amount: Amount) -> RawBson {
        match amount {
            Amount::Int(units) => RawBson::Int64(units),
            Amount::Decimal(decimal) => RawBson::Decimal128(decimal128(decimal)),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Int(units) => units.fmt(f),
            Amount::Decimal(decimal) => decimal.fmt(f),
        }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Amount) -> bool {
        self.is_int() == other.is_int() && self.decimal() == other.decimal()
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    /// Compares by value, as the server does, whatever the kinds.
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        Some(self.decimal().cmp(&other.decimal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_minor_units_and_points_are_decimals() {
        assert_eq!(Amount::parse("1250"), Ok(Amount::Int(1250)));
        assert_eq!(Amount::parse("12.50").map(|a| a.to_string()), Ok("12.50".into()));
        assert!(!Amount::parse("12.50").expect("a decimal").is_int());
        assert_ne!(Amount::parse("12"), Amount::parse("12.0"));
    }

    #[test]
    fn what_is_not_an_amount_is_refused_with_its_reason() {
        for text in ["", "-", "abc", "1e5", "1_000", "1,5", ".5", "NaN", "0x10", "1.2.3"] {
            assert!(matches!(Amount::parse(text), Err(AmountError::NotANumber(_))), "{text:?}");
        }
        for text in ["1000000000000000001", "99999999999999999999", "-1000000000000000001.0"] {
            assert!(matches!(Amount::parse(text), Err(AmountError::TooLarge(_))), "{text:?}");
        }
        assert!(matches!(Amount::parse("0.0000000001"), Err(AmountError::TooPrecise(_))));
    }

    #[test]
    fn a_double_that_is_whole_and_exact_is_minor_units() {
        let most = (Amount::DOUBLE_MAX - 1) as f64;
        for (double, units) in [
            (0.0, 0),
            (-0.0, 0),
            (1250.0, 1250),
            (-7.0, -7),
            (most, Amount::DOUBLE_MAX - 1),
            (-most, 1 - Amount::DOUBLE_MAX),
        ] {
            assert_eq!(
                Amount::from_bson(&Bson::Double(double)),
                Ok(Amount::Int(units)),
                "{double}"
            );
        }
        assert_eq!(Amount::from_bson(&Bson::Int32(i32::MIN)), Ok(Amount::from(i32::MIN)));
    }

    #[test]
    fn a_stored_value_that_is_no_amount_says_value_kind_and_remedy() {
        let two_to_53 = Amount::DOUBLE_MAX as f64;
        let any = "write minor units like NumberLong(\"1250\"), or NumberDecimal(\"12.50\")";
        for (value, expected) in [
            (
                Bson::Double(12.5),
                "12.5 is a double with a fraction; write NumberDecimal(\"12.5\"), or minor units \
                 like NumberLong(\"1250\")"
                    .to_owned(),
            ),
            (Bson::Double(0.1 + 0.2), "write NumberDecimal(\"0.3\")".to_owned()),
            (Bson::Double(1e-300), "1e-300 is a double with a fraction".to_owned()),
            (
                Bson::Double(two_to_53),
                "9007199254740992 is a double of 2^53 or more, which may have lost units; write \
                 what it should be, like NumberLong(\"9007199254740992\")"
                    .to_owned(),
            ),
            (Bson::Double(-two_to_53), "like NumberLong(\"-9007199254740992\")".to_owned()),
            (Bson::Double(1e300), "1e300 is too large; the limit is 10^18".to_owned()),
            (Bson::Double(f64::NAN), format!("NaN is no number; {any}")),
            (Bson::Double(f64::NEG_INFINITY), format!("-inf is no number; {any}")),
            (Bson::from("12.50"), "\"12.50\" is a text; write NumberDecimal(\"12.50\")".to_owned()),
            (Bson::from("5"), "\"5\" is a text; write NumberLong(\"5\")".to_owned()),
            (Bson::from("much"), format!("\"much\" is a text; {any}")),
            (Bson::Boolean(true), format!("a value of the type Boolean is no number; {any}")),
        ] {
            let error = Amount::from_bson(&value).expect_err("no amount").to_string();
            assert!(error.contains(&expected), "{error}, and not {expected}");
        }
    }

    #[test]
    fn sums_are_exact_or_refused() {
        let max = Amount::Int(Amount::MAX);
        assert_eq!(max.checked_add(Amount::Int(1)), None);
        assert_eq!(max.checked_add(Amount::Int(-1)), Some(Amount::Int(Amount::MAX - 1)));
        let cent = Amount::parse("0.01").expect("a decimal");
        let ten = (0..1000)
            .try_fold(Amount::parse("0.00").expect("zero"), |sum, _| sum.checked_add(cent));
        assert_eq!(ten.map(|a| a.to_string()), Some("10.00".into()));
    }

    #[test]
    fn decimals_survive_the_way_through_bson() {
        for text in ["0.01", "-12.50", "999999999999999999.999999999", "1000000000000000000.0"] {
            let amount = Amount::parse(text).expect(text);
            assert_eq!(Amount::from_bson(&Bson::from(amount)), Ok(amount), "{text}");
        }
    }

    #[test]
    fn a_decimal_counts_by_its_value_however_it_is_written() {
        let read = |text: &str| {
            let decimal = Decimal128::from_str(text).expect(text);
            Amount::from_bson(&Bson::Decimal128(decimal))
        };
        for (text, value) in [
            ("1.5E+3", "1500.0"),
            ("1E+18", "1000000000000000000.0"),
            ("-1E+18", "-1000000000000000000.0"),
            ("0E+6111", "0.0"),
            ("0E-6176", "0.0"),
            ("-0", "0.0"),
            ("5.0000000000000000000000000000000", "5.0"),
            ("1E-9", "0.000000001"),
            ("-0.0000000010000000000000000000", "-0.000000001"),
            ("999999999999999999.9999999990", "999999999999999999.999999999"),
        ] {
            assert_eq!(read(text), Amount::parse(value), "{text}");
        }
        assert_eq!(read("12.50").map(|amount| amount.to_string()), Ok("12.50".to_owned()));
        for text in ["NaN", "Infinity", "-Infinity"] {
            assert!(matches!(read(text), Err(AmountError::Stored { .. })), "{text}");
        }
        for text in ["1E+6111", "-9E+6144", "1000000000000000000.000000001", "1E+19"] {
            assert!(
                matches!(read(text), Err(AmountError::TooLarge(_))),
                "{text}: {:?}",
                read(text)
            );
        }
        for text in ["1E-10", "1E-6176", "0.12345678901", "-1.00000000000000000000000000001"] {
            assert!(matches!(read(text), Err(AmountError::TooPrecise(_))), "{text}");
        }
        let noncanonical = Decimal128::from_bytes(u128::to_le_bytes(0b011 << 125));
        assert_eq!(Amount::from_bson(&Bson::Decimal128(noncanonical)), Amount::parse("0.0"));
    }

    #[test]
    fn what_is_shown_of_a_foreign_value_is_short() {
        let long = "9".repeat(9_000_000);
        let values =
            [Bson::String(long.clone()), Bson::Array(vec![Bson::String(long.clone())]), Bson::Null];
        let mut errors: Vec<_> = values.iter().map(Amount::from_bson).collect();
        errors.extend([Amount::parse(&long), Amount::parse(&format!("x{long}"))]);
        errors.extend([Amount::parse_decimal(&long), Amount::parse(&format!("0.{long}"))]);
        for error in errors {
            let shown = error.expect_err("no amount").to_string();
            assert!(shown.len() < 700, "{} bytes: {shown}", shown.len());
        }
    }

    #[test]
    fn nanos_are_exact_at_both_ends() {
        assert_eq!(Amount::Int(Amount::MAX).nanos(), 10_i128.pow(27));
        assert_eq!(Amount::parse("-0.000000001").expect("a decimal").nanos(), -1);
        assert_eq!(Amount::parse("12.50").expect("a decimal").nanos(), 12_500_000_000);
    }

    #[test]
    fn nanos_become_amounts_of_their_kind_again() {
        for text in ["0", "-7", "1000000000000000000", "0.0", "-0.000000001", "12.5"] {
            let amount = Amount::parse(text).expect(text);
            assert_eq!(Amount::from_nanos(amount.nanos(), amount.is_int()), Some(amount), "{text}");
        }
        let beyond = Amount::Int(Amount::MAX).nanos() * 3;
        assert_eq!(Amount::from_nanos(beyond, true), Some(Amount::Int(Amount::MAX * 3)));
        assert_eq!(Amount::from_nanos(1, true), None, "it is not whole");
        assert_eq!(Amount::from_nanos(beyond * 9, true), None);
    }

    #[test]
    fn a_sum_of_the_server_is_exact_or_none() {
        let sum = |text: &str| Amount::nanos_of_sum(Decimal128::from_str(text).expect(text));
        assert_eq!(sum("0E+6111"), Some(0));
        assert_eq!(sum("-12.50"), Some(-12_500_000_000));
        assert_eq!(sum("3E+18"), Some(3 * 10_i128.pow(27)));
        assert_eq!(sum("9999999999999999999999999.999999999"), Some(10_i128.pow(34) - 1));
        for text in ["1E-10", "1E+25", "1E+6000", "NaN", "Infinity"] {
            assert_eq!(sum(text), None, "{text}");
        }
    }
}
