//! A row that describes an account.

use common::account::{Account, Status};
use common::limits::echo;
use common::transaction::check_name;

use super::check::{Identity, Parsed};
use super::record::{Kind, Record};

/// Reads a row: floor 0 unless given, `none` for no floor at all.
///
/// # Errors
/// Names the field.
pub fn parse(mut record: Record, kind: Kind) -> Result<Parsed<Account>, String> {
    let id = record.required("account")?;
    check_name("account", &id).map_err(|error| error.to_string())?;
    let balance = record.amount("balance", kind)?.ok_or("balance: is missing")?;
    let mut account = Account::new(&id, balance);
    match record.take("floor") {
        None => {}
        Some(floor) if floor.as_str() == Some("none") => account.floor = None,
        Some(floor) => {
            let floor =
                super::record::amount(&floor, kind).map_err(|error| format!("floor: {error}"))?;
            // A floor of zero fits both kinds of amounts, so it takes the kind of the balance.
            if !floor.is_zero() {
                account.floor = Some(floor);
            }
        }
    }
    account.currency = record.text("currency")?;
    if let Some(currency) = &account.currency {
        check_name("currency", currency).map_err(|error| error.to_string())?;
    }
    if let Some(status) = record.text("status")? {
        account.status = Status::parse(&status)
            .ok_or_else(|| format!("status: {:?} is not open, frozen or closed", echo(&status)))?;
    }
    require_floor(&account)?;
    Ok(Parsed { identity: Identity::Key(id), value: account })
}

fn require_floor(account: &Account) -> Result<(), String> {
    match account.floor {
        Some(floor) if floor.is_int() != account.balance.is_int() => Err(format!(
            "floor: {floor} and the balance {} are a whole and a decimal amount; write both \
                 with a point or none",
            account.balance
        )),
        Some(floor) if account.balance < floor => {
            Err(format!("balance: {} is below the floor {floor}", account.balance))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use common::amount::Amount;

    use super::super::ACCOUNTS;
    use super::*;

    fn read(line: &str) -> Result<Account, String> {
        Record::from_json(line, ACCOUNTS.fields)
            .and_then(|record| parse(record, Kind::ByPoint))
            .map(|parsed| parsed.value)
    }

    #[test]
    fn a_floor_is_zero_a_number_or_none() {
        let floor = |line| read(line).map(|account| account.floor);
        assert_eq!(floor(r#"{"account":"a","balance":5}"#), Ok(Some(Amount::ZERO)));
        assert_eq!(floor(r#"{"account":"a","balance":-5,"floor":"none"}"#), Ok(None));
        let credit = floor(r#"{"account":"a","balance":-5,"floor":-10}"#);
        assert_eq!(credit, Ok(Some(Amount::Int(-10))));
        let other_kind = floor(r#"{"account":"a","balance":5,"floor":"0.0"}"#);
        assert_eq!(other_kind, Ok(Some(Amount::ZERO)));
    }

    #[test]
    fn every_mistake_is_named_by_its_field() {
        for (line, expected) in [
            (r#"{"balance":1}"#, "account: is missing"),
            (r#"{"account":"a"}"#, "balance: is missing"),
            (r#"{"account":"a","balance":-1}"#, "balance: -1 is below the floor 0"),
            (r#"{"account":"a","balance":1,"floor":"x"}"#, "floor: "),
            (r#"{"account":"a","balance":1,"floor":"-1.5"}"#, "floor: -1.5 and the balance"),
            (r#"{"account":"a","balance":1,"status":"shut"}"#, "status: "),
            (r#"{"account":"a","balance":1,"currency":""}"#, "currency: is empty"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.starts_with(expected), "{error:?} should say {expected:?}");
        }
    }
}
