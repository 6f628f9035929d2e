//! How much of a hold to capture, from named fields.

use client::Capture;
use ledger::limits::LEGS_MAX;
use ledger::notation::Notation;
use ledger::transaction::{Leg, TransactionId, check_name};

use super::record::{Record, part};
use super::transfer::parse_legs;
use super::{Flaw, name};

/// Reads a capture; all that is held, if nothing is named. Its currency is that of the hold, which is
/// not known here.
///
/// # Errors
/// Names the field.
pub fn parse(mut record: Record, notation: &Notation) -> Result<Capture, Flaw> {
    let value = record.part("value", notation)?;
    match (value, record.take("captured")) {
        (Some(_), Some(_)) => {
            Err(Flaw::of("value", "stands beside captured; give one or the other"))
        }
        (Some(value), None) => Ok(Capture::Value(value)),
        (None, Some(legs)) => named(parse_legs("captured", &legs, |value| part(value, notation))?),
        (None, None) => Ok(Capture::All),
    }
}

/// Reads which hold to confirm, and its capture. `has_value` says that an amount is expected. An
/// amount that is expected or named, and empty, is refused: it may be missing by mistake, and all
/// would be captured.
///
/// # Errors
/// Names the field.
pub fn parse_hold(
    mut record: Record,
    has_value: bool,
    notation: &Notation,
) -> Result<(TransactionId, Capture), Flaw> {
    let id = name("id", record.required("id")?)?;
    let named = ["value", "captured"].into_iter().find(|field| record.names(field));
    let named = named.or_else(|| has_value.then_some("value"));
    let capture = parse(record, notation)?;
    match named.filter(|_| capture == Capture::All) {
        Some(field) => {
            let problem = "is empty; write how much to capture, or leave it out everywhere to \
                           capture all";
            Err(Flaw::of(field, problem))
        }
        None => Ok((id.into(), capture)),
    }
}

/// Amounts of accounts whose names can be those of a transaction.
fn named(legs: Vec<Leg>) -> Result<Capture, Flaw> {
    if legs.len() > LEGS_MAX {
        let problem = format!("has {} accounts; a transaction has at most {LEGS_MAX}", legs.len());
        return Err(Flaw::of("captured", problem));
    }
    for (at, leg) in legs.iter().enumerate() {
        check_name(&format!("captured[{at}].account"), &leg.account)?;
    }
    Ok(Capture::Legs(legs))
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;

    use super::super::CAPTURE;
    use super::*;

    fn read(line: &str) -> Result<Capture, Flaw> {
        Record::from_json(line, CAPTURE).and_then(|record| parse(record, &Notation::default()))
    }

    #[test]
    fn all_a_value_or_an_amount_of_each_account_is_captured() {
        assert_eq!(read("{}"), Ok(Capture::All));
        assert_eq!(read(r#"{"value":"30"}"#), Ok(Capture::Value(Amount::Int(30))));
        let legs =
            read(r#"{"captured":[{"account":"a","amount":-3},{"account":"b","amount":"3"}]}"#);
        let leg =
            |account: &str, amount| Leg { account: account.into(), amount: Amount::Int(amount) };
        assert_eq!(legs, Ok(Capture::Legs(vec![leg("a", -3), leg("b", 3)])));
    }

    #[test]
    fn a_capture_that_makes_no_sense_is_refused_by_its_field() {
        for (line, expected) in [
            (r#"{"value":1.5}"#, "value: 1.5 has a decimal point"),
            (r#"{"value":"x"}"#, "value: \"x\" is not a number"),
            (r#"{"amount":1}"#, "amount: unknown field"),
            (r#"{"value":1,"captured":[]}"#, "value: stands beside captured"),
            (r#"{"captured":{}}"#, "captured: is not a list"),
            (r#"{"captured":[{"account":7,"amount":1}]}"#, "captured[0].account: is missing"),
            (r#"{"captured":[{"account":"","amount":1}]}"#, "captured[0].account: is empty"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(expected), "{line}: {error:?} should say {expected:?}");
        }
    }
}
