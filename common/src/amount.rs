//! Amounts of money: Int64 minor units or Decimal128, never a float.
//!
//! Owns parsing, the limits and the arithmetic. Promises that every sum is exact or refused: an
//! amount is at most [`Amount::MAX`] in magnitude with at most [`Amount::PLACES_MAX`] decimal
//! places, so neither Int64 nor the 34 digits of Decimal128 can overflow or round anywhere between
//! here and the server. Fails with an [`AmountError`] that names the remedy.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use mongodb::bson::{Bson, Decimal128, RawBson};
use rust_decimal::Decimal;

/// A signed amount, or a balance.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// Minor units (cents, points, pieces), stored as Int64.
    Int(i64),
    /// A decimal number, stored as Decimal128.
    Decimal(Decimal),
}

/// Why a value is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It is not a number at all.
    #[error("{0:?} is not a number; write minor units like 1250, or a decimal like 12.50")]
    NotANumber(String),
    /// It is outside of ±10^18.
    #[error("{0} is too large; the limit is 10^18")]
    TooLarge(String),
    /// It has more decimal places than can be summed exactly.
    #[error("{0} has more than 9 decimal places; round it before submitting")]
    TooPrecise(String),
    /// It is a float, which can't hold money exactly.
    #[error("{0} is a floating-point number; write it as a string, like \"12.50\"")]
    Float(String),
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
            return Err(AmountError::NotANumber(text.to_owned()));
        }
        if text.contains('.') {
            return Amount::parse_decimal(text);
        }
        text.parse::<i64>()
            .map_err(|_| AmountError::TooLarge(text.to_owned()))
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
            return Err(AmountError::TooPrecise(text.to_owned()));
        }
        match Decimal::from_str(text) {
            Ok(decimal) => Amount::Decimal(decimal).within_limits(),
            Err(rust_decimal::Error::ExceedsMaximumPossibleValue) => {
                Err(AmountError::TooLarge(text.to_owned()))
            }
            Err(_) => Err(AmountError::NotANumber(text.to_owned())),
        }
    }

    fn within_limits(self) -> Result<Amount, AmountError> {
        if self.decimal().abs() > Decimal::from(Amount::MAX) {
            return Err(AmountError::TooLarge(self.to_string()));
        }
        match self {
            Amount::Decimal(decimal) if decimal.normalize().scale() > Amount::PLACES_MAX => {
                Err(AmountError::TooPrecise(self.to_string()))
            }
            _ => Ok(self),
        }
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

    /// Whether it is exactly zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.decimal().is_zero()
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
        const NANOS: i128 = 1_000_000_000;
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

    /// Reads what MongoDB stores.
    ///
    /// # Errors
    /// For doubles and everything else that is not a whole or decimal number within the limits.
    pub fn from_bson(value: &Bson) -> Result<Amount, AmountError> {
        match value {
            Bson::Int64(units) => Amount::Int(*units).within_limits(),
            Bson::Int32(units) => Ok(Amount::Int(i64::from(*units))),
            Bson::Decimal128(decimal) => Amount::from_decimal128(decimal),
            Bson::Double(float) => Err(AmountError::Float(float.to_string())),
            other => Err(AmountError::NotANumber(other.to_string())),
        }
    }

    fn from_decimal128(decimal: &Decimal128) -> Result<Amount, AmountError> {
        let text = decimal.to_string();
        let parsed = if text.contains(['e', 'E']) {
            Decimal::from_scientific(&text)
        } else {
            Decimal::from_str_exact(&text)
        };
        match parsed {
            Ok(decimal) => Amount::Decimal(decimal).within_limits(),
            Err(_) => Err(AmountError::NotANumber(text)),
        }
    }
}

fn decimal128(decimal: Decimal) -> Decimal128 {
    Decimal128::from_str(&decimal.to_string())
        .expect("a decimal of at most 28 digits is a Decimal128")
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
        assert!(matches!(Amount::from_bson(&Bson::Double(1.5)), Err(AmountError::Float(_))));
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
        let scientific = Bson::Decimal128(Decimal128::from_str("1.5E+3").expect("a decimal"));
        assert_eq!(Amount::from_bson(&scientific), Amount::parse("1500.0"));
    }

    #[test]
    fn nanos_are_exact_at_both_ends() {
        assert_eq!(Amount::Int(Amount::MAX).nanos(), 10_i128.pow(27));
        assert_eq!(Amount::parse("-0.000000001").expect("a decimal").nanos(), -1);
        assert_eq!(Amount::parse("12.50").expect("a decimal").nanos(), 12_500_000_000);
    }
}
