//! An account, from named fields.

use ledger::account::{Account, Status};
use ledger::limits::echo;
use ledger::notation::Notation;
use ledger::visible;

use super::record::{Record, amount};
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
    match record.take("floor") {
        None => {}
        Some(floor) if floor.as_str().is_some_and(|it| it.eq_ignore_ascii_case("none")) => {
            account.floor = None;
        }
        Some(floor) => {
            let floor = amount(&floor, notation, account.currency.as_deref());
            let floor = floor.map_err(|error| Flaw::of("floor", error.to_string()))?;
            // A floor of zero fits both forms, and stands there as the default does.
            if !floor.is_zero() {
                account.floor = Some(floor);
            }
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
    use ledger::amount::Amount;

    use super::super::ACCOUNT;
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
