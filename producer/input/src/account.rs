//! An account, from named fields.

use client::NewFloor;
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::notation::{Notation, NotationError};
use ledger::visible;
use serde_json::Value;

use super::record::{Record, amount, part};
use super::{Flaw, name};

/// Reads an account: floor 0 unless given, `none` for no floor at all.
///
/// # Errors
/// Names the field.
pub fn parse(mut record: Record, notation: &Notation) -> Result<Account, Flaw> {
    let id = name("account", record.required("account")?)?;
    if let Some(problem) = visible::problem(&id) {
        return Err(Flaw::of("account", problem));
    }
    let currency = record.text("currency")?.map(|it| name("currency", it)).transpose()?;
    let balance = record.amount("balance", notation, currency.as_deref())?;
    let balance = balance.ok_or_else(|| Flaw::of("balance", "is missing"))?;
    let mut account = Account::new(&id, balance);
    account.currency = currency;
    if let Some(wanted) = record.take("floor") {
        let wanted = floor(&wanted, |it| amount(it, notation, account.currency.as_deref()))?;
        // A floor of zero fits both forms, and stands there as the default does.
        if wanted.is_none_or(|wanted| !wanted.is_zero()) {
            account.floor = wanted;
        }
    }
    if let Some(status) = record.text("status")? {
        account.status = Status::parse(&status.to_ascii_lowercase()).ok_or_else(|| {
            Flaw::of("status", format!("{:?} is not open, frozen or closed", echo(&status)))
        })?;
    }
    require_floor(&account)?;
    Ok(account)
}

/// Reads an account, and the account that pays its opening balance if one is named.
///
/// # Errors
/// Names the field.
pub fn parse_opening(
    mut record: Record,
    notation: &Notation,
) -> Result<(Account, Option<String>), Flaw> {
    let from = record.text("from")?.map(|it| name("from", it)).transpose()?;
    Ok((parse(record, notation)?, from))
}

/// Reads the floor that an account is to have. In which form it keeps its amounts is not known
/// here, and its currency only if it is named.
///
/// # Errors
/// Names the field.
pub fn parse_floor(mut record: Record, notation: &Notation) -> Result<NewFloor, Flaw> {
    let currency = record.text("currency")?.map(|it| name("currency", it)).transpose()?;
    let wanted = record.take("floor").ok_or_else(|| Flaw::of("floor", "is missing"))?;
    let floor = floor(&wanted, |it| match &currency {
        Some(currency) => amount(it, notation, Some(currency)),
        None => part(it, notation),
    })?;
    Ok(NewFloor { floor, currency, reason: record.text("reason")?, by: None })
}

/// The lowest balance, or none.
fn floor(
    value: &Value,
    read: impl Fn(&Value) -> Result<Amount, NotationError>,
) -> Result<Option<Amount>, Flaw> {
    if value.as_str().is_some_and(|it| it.eq_ignore_ascii_case("none")) {
        return Ok(None);
    }
    read(value).map(Some).map_err(|error| Flaw::of("floor", error.to_string()))
}

fn require_floor(account: &Account) -> Result<(), Flaw> {
    match account.floor {
        Some(floor) if account.balance < floor => {
            Err(Flaw::of("balance", format!("{} is below the floor {floor}", account.balance)))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ACCOUNT, FLOOR};
    use super::*;

    fn read(line: &str) -> Result<Account, Flaw> {
        Record::from_json(line, ACCOUNT).and_then(|record| parse(record, &Notation::default()))
    }

    #[test]
    fn a_floor_is_zero_a_number_or_none() {
        let floor = |line| read(line).map(|account| account.floor);
        assert_eq!(floor(r#"{"account":"a","balance":5}"#), Ok(Some(Amount::ZERO)));
        assert_eq!(floor(r#"{"account":"a","balance":-5,"floor":"none"}"#), Ok(None));
        let credit = floor(r#"{"account":"a","balance":-5,"floor":-10}"#);
        assert_eq!(credit, Ok(Some(Amount::Int(-10))));
    }

    #[test]
    fn a_floor_to_be_set_is_named_and_read_in_the_currency_that_is_named() {
        let read = |line: &str| {
            Record::from_json(line, FLOOR).and_then(|it| parse_floor(it, &Notation::default()))
        };
        let all = read(r#"{"floor":"-50","currency":"EUR","reason":"credit line"}"#);
        let all = all.expect("a floor");
        assert_eq!((all.floor, all.currency.as_deref()), (Some(Amount::Int(-50)), Some("EUR")));
        assert_eq!(all.reason.as_deref(), Some("credit line"));
        assert_eq!(read(r#"{"floor":"None"}"#).map(|it| it.floor), Ok(None));
        for (line, expected) in [
            ("{}", "floor: is missing"),
            (r#"{"floor":null}"#, "floor: is missing"),
            (r#"{"floor":"x"}"#, "floor: \"x\" is not a number"),
            (r#"{"floor":1.5,"currency":"EUR"}"#, "floor: 1.5 has a decimal point"),
            (r#"{"floor":1,"balance":2}"#, "balance: unknown field"),
            (r#"{"floor":1,"reason":2}"#, "reason: 2 is not a string"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(expected), "{error:?} should say {expected:?}");
        }
    }

    #[test]
    fn every_mistake_is_named_by_its_field() {
        for (line, expected) in [
            (r#"{"balance":1}"#, "account: is missing"),
            (r#"{"account":"a"}"#, "balance: is missing"),
            (r#"{"account":"bob ","balance":1}"#, "account: \"bob \" has blanks"),
            (r#"{"account":"a","balance":-1}"#, "balance: -1 is below the floor 0"),
            (r#"{"account":"a","balance":1,"floor":"x"}"#, "floor: "),
            (r#"{"account":"a","balance":1,"floor":"-1.5"}"#, "floor: -1.5 has a decimal point"),
            (r#"{"account":"a","balance":1,"status":"shut"}"#, "status: "),
            (r#"{"account":"a","balance":1,"currency":""}"#, "currency: is empty"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(expected), "{error:?} should say {expected:?}");
        }
    }
}
