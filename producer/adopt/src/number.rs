//! Numbers as others store them: which fit, and what the others would become.
//!
//! Owns the classes of a stored number, and how one with a fraction is read as minor units. Promises
//! that a number which it calls fit is one that the ledger reads as the amount it means. Pure.

use std::fmt;
use std::str::FromStr;

use ledger::amount::{Amount, AmountError};
use ledger::limits::echo;
use mongodb::bson::RawBsonRef;
use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

use super::class::Class;

/// How many places a number may be said to have.
pub const PLACES_MAX: u32 = Amount::PLACES_MAX;

/// What a stored number is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// It is not there, or null.
    Missing,
    /// Whole minor units.
    Whole,
    /// A decimal.
    Decimal,
    /// None of these: its class, and what it would become, if that is known.
    Odd(Class, Option<Becomes>),
}

/// What a number would become. Its text is what `mongosh` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// The amount.
    pub amount: Amount,
    /// Whether the number has more places than the amount.
    pub rounds: bool,
}

impl fmt::Display for Becomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            Amount::Int(units) => write!(f, "NumberLong(\"{units}\")"),
            Amount::Decimal(decimal) => write!(f, "NumberDecimal(\"{decimal}\")"),
        }
    }
}

/// Says what a stored number is. With `places`, numbers that are no decimals count units of which
/// each has 10^`places` minor units.
#[must_use]
pub fn classify(value: Option<RawBsonRef<'_>>, places: Option<u32>) -> Number {
    match value {
        None | Some(RawBsonRef::Null) => Number::Missing,
        Some(RawBsonRef::Int32(units)) => whole(units.into(), places),
        Some(RawBsonRef::Int64(units)) => whole(units, places),
        Some(RawBsonRef::Double(double)) => of_double(double, places),
        Some(value @ RawBsonRef::Decimal128(_)) => of_decimal(value),
        Some(RawBsonRef::String(text)) => of_text(text, places),
        Some(RawBsonRef::Array(_)) => Number::Odd(Class::ListAsNumber, None),
        Some(_) => Number::Odd(Class::NoNumber, None),
    }
}

fn whole(units: i64, places: Option<u32>) -> Number {
    if units.unsigned_abs() > Amount::MAX.unsigned_abs() {
        return Number::Odd(Class::TooLarge, None);
    }
    match places {
        // Zero is zero in every unit.
        Some(places) if places > 0 && units != 0 => {
            minor(Class::MajorUnits, Decimal::from(units), places)
        }
        Some(_) | None => Number::Whole,
    }
}

fn of_double(double: f64, places: Option<u32>) -> Number {
    if !double.is_finite() {
        return Number::Odd(Class::NotFinite, None);
    }
    if double.abs() >= Amount::DOUBLE_MAX as f64 {
        return Number::Odd(Class::DoubleTooLarge, None);
    }
    if double.fract() == 0.0 {
        return whole(double as i64, places);
    }
    let Some(places) = places else {
        return Number::Odd(Class::Fraction, None);
    };
    let text = double.to_string();
    let has = text.split_once('.').map_or(0, |(_, behind)| behind.len());
    let class = if has > places as usize { Class::FractionRounds } else { Class::FractionExact };
    minor(class, meant(double), places)
}

/// The decimal that somebody has meant by a double: its shortest text.
fn meant(double: f64) -> Decimal {
    let text = double.to_string();
    let read = Decimal::from_str(&text).or_else(|_| Decimal::from_str(&format!("{double:.20}")));
    // Only a number that is all but zero has more digits than a decimal.
    read.unwrap_or(Decimal::ZERO)
}

/// The minor units of a number, halves to the even one.
fn minor(class: Class, units: Decimal, places: u32) -> Number {
    let rounded = units.round_dp_with_strategy(places, RoundingStrategy::MidpointNearestEven);
    let scaled = Decimal::from(10_i64.pow(places)).checked_mul(rounded);
    let scaled = scaled.and_then(|scaled| scaled.to_i64());
    match scaled.filter(|scaled| scaled.unsigned_abs() <= Amount::MAX.unsigned_abs()) {
        Some(scaled) => {
            // Only a number that is all but zero is read as zero without being it.
            let rounds = rounded != units || class == Class::FractionRounds;
            Number::Odd(class, Some(Becomes { amount: Amount::Int(scaled), rounds }))
        }
        None => Number::Odd(Class::TooLarge, None),
    }
}

fn of_decimal(value: RawBsonRef<'_>) -> Number {
    match Amount::from_raw(value) {
        Ok(_) => Number::Decimal,
        Err(AmountError::TooPrecise(text)) => {
            let rounded = decimal(&text).map(|exact| exact.round_dp(Amount::PLACES_MAX));
            let becomes = rounded.map(|fits| {
                let amount = Amount::Decimal(fits.normalize());
                Becomes { amount, rounds: true }
            });
            Number::Odd(Class::DecimalPlaces, becomes)
        }
        Err(AmountError::TooLarge(_)) => Number::Odd(Class::TooLarge, None),
        Err(AmountError::NotANumber(_) | AmountError::Stored { .. }) => {
            Number::Odd(Class::NotFinite, None)
        }
    }
}

fn of_text(text: &str, places: Option<u32>) -> Number {
    match (Amount::parse(text), places) {
        (Ok(_), Some(places)) => {
            let units = Decimal::from_str(text).unwrap_or(Decimal::ZERO);
            minor(Class::NumericText, units, places)
        }
        (Ok(amount), None) => {
            Number::Odd(Class::NumericText, Some(Becomes { amount, rounds: false }))
        }
        (Err(AmountError::TooLarge(_)), _) => Number::Odd(Class::TooLarge, None),
        (Err(AmountError::TooPrecise(_)), _) => Number::Odd(Class::NumericText, None),
        (Err(AmountError::NotANumber(_) | AmountError::Stored { .. }), _) => {
            Number::Odd(Class::NoNumber, None)
        }
    }
}

/// The value of a stored decimal, by its text, which may have an exponent.
fn decimal(text: &str) -> Option<Decimal> {
    Decimal::from_str(text).or_else(|_| Decimal::from_scientific(text)).ok()
}

/// The value of a number, to be compared with a floor; none where it has none.
pub(super) fn value(stored: RawBsonRef<'_>) -> Option<Decimal> {
    match stored {
        RawBsonRef::Double(double) if double.is_finite() && double.abs() <= Amount::MAX as f64 => {
            Some(meant(double))
        }
        RawBsonRef::String(text) => Amount::parse(text).ok().and(Decimal::from_str(text).ok()),
        RawBsonRef::Int32(units) => Some(units.into()),
        RawBsonRef::Int64(units) => Some(units.into()),
        RawBsonRef::Decimal128(stored) => decimal(&stored.to_string()),
        _ => None,
    }
}

/// A stored value in few characters.
pub(super) fn shown(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Double(number) => echo(&number.to_string()).into_owned(),
        RawBsonRef::Decimal128(number) => number.to_string(),
        RawBsonRef::String(text) => format!("{:?}", echo(text)),
        RawBsonRef::Boolean(flag) => flag.to_string(),
        RawBsonRef::Null => "null".to_owned(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        // Of anything else only the type is shown: it may be megabytes.
        other => format!("{:?}", other.element_type()),
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
