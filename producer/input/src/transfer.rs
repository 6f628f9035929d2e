//! A transfer, from named fields.

use std::sync::Arc;

use bson::{Bson, Document, RawDocumentBuf};
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::notation::{Notation, NotationError};
use ledger::transaction::{Body, Leg, Terms, check_metadata, check_name};
use serde_json::Value;

use super::record::{Record, amount};
use super::{Flaw, name};

/// Values for what does not give its own.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// Their currency.
    pub currency: Option<String>,
    /// How the ledger writes amounts.
    pub notation: Arc<Notation>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The id, if it has one of its own.
    pub id: Option<String>,
    /// The content.
    pub body: Body,
}

/// Reads a transfer.
///
/// # Errors
/// Names the field.
pub fn parse(mut record: Record, defaults: &Defaults) -> Result<Transfer, Flaw> {
    let id = record.text("id")?.map(|id| name("id", id)).transpose()?;
    let currency = record.text("currency")?.or_else(|| defaults.currency.clone());
    let currency = currency.map(|currency| name("currency", currency)).transpose()?;
    let metadata = record.take("metadata").map(metadata).transpose()?;
    let terms = parse_terms(&mut record)?;
    let body = match record.take("legs") {
        Some(legs) => {
            for field in ["source", "destination", "value"] {
                if record.take(field).is_some() {
                    let problem = "stands beside legs; give one or the other";
                    return Err(Flaw::of(field, problem));
                }
            }
            let read = |value: &Value| amount(value, &defaults.notation, currency.as_deref());
            Body::new(parse_legs("legs", &legs, read)?)
        }
        None => {
            let (source, destination) =
                (record.required("source")?, record.required("destination")?);
            check_name("source", &source)?;
            check_name("destination", &destination)?;
            let value = record.amount("value", &defaults.notation, currency.as_deref())?;
            Body::transfer(
                &source,
                &destination,
                value.ok_or_else(|| Flaw::of("value", "is missing"))?,
            )
        }
    };
    let mut body = body?.in_currency(currency).with_terms(terms)?;
    body.metadata = metadata;
    Ok(Transfer { id, body })
}

/// What it asks for beside its legs.
fn parse_terms(record: &mut Record) -> Result<Terms, Flaw> {
    Ok(Terms {
        hold: record.flag("hold")?,
        hold_expires_at: record.moment("holdExpiresAt")?,
        not_before: record.moment("notBefore")?,
        expires_at: record.moment("expiresAt")?,
        exclusive_key: record.text("exclusiveKey")?,
        ..Terms::default()
    })
}

/// Reads the list of legs in the field `of`.
pub(super) fn parse_legs(
    of: &str,
    legs: &Value,
    amount: impl Fn(&Value) -> Result<Amount, NotationError>,
) -> Result<Vec<Leg>, Flaw> {
    let not_a_list = || Flaw::of(of, "is not a list of {account, amount}");
    let legs = legs.as_array().ok_or_else(not_a_list)?;
    legs.iter()
        .enumerate()
        .map(|(at, leg)| {
            let flaw = |field: &str, problem: &str| Flaw::of(format!("{of}[{at}]{field}"), problem);
            let leg =
                leg.as_object().ok_or_else(|| flaw("", "is not an object {account, amount}"))?;
            let mut names = leg.keys();
            if let Some(unknown) = names.find(|name| *name != "account" && *name != "amount") {
                return Err(flaw(&format!(".{}", echo(unknown)), "unknown field"));
            }
            let account = leg
                .get("account")
                .and_then(Value::as_str)
                .ok_or_else(|| flaw(".account", "is missing or not a string"))?;
            let value = leg.get("amount").ok_or_else(|| flaw(".amount", "is missing"))?;
            let amount = amount(value).map_err(|error| flaw(".amount", &error.to_string()))?;
            Ok(Leg { account: account.into(), amount })
        })
        .collect()
}

fn metadata(value: Value) -> Result<RawDocumentBuf, Flaw> {
    let flaw = |problem: String| Flaw::of("metadata", problem);
    let metadata = match to_bson(value).map_err(flaw)? {
        Bson::Document(metadata) => metadata,
        other => return Err(flaw(format!("{} is not an object", echo(&other.to_string())))),
    };
    // The limits are those that apply when a transaction is read back.
    let raw = RawDocumentBuf::try_from(&metadata).map_err(|error| flaw(error.to_string()))?;
    check_metadata(&raw)?;
    Ok(raw)
}

/// The parser of JSON has limited the depth to 128.
fn to_bson(value: Value) -> Result<Bson, String> {
    Ok(match value {
        Value::Null => Bson::Null,
        Value::Bool(flag) => Bson::Boolean(flag),
        Value::String(text) => Bson::String(text),
        Value::Number(number) => number_to_bson(&number)?,
        Value::Array(values) => {
            let values = values.into_iter().map(to_bson);
            Bson::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let mut document = Document::new();
            for (name, value) in fields {
                if name.contains('\0') {
                    return Err("a field name has a zero character in it".to_owned());
                }
                document.insert(name, to_bson(value)?);
            }
            Bson::Document(document)
        }
    })
}

/// Metadata is no money: a float may stay one.
fn number_to_bson(number: &serde_json::Number) -> Result<Bson, String> {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => Ok(Bson::Int64(whole)),
        (None, Some(float)) if !number.is_u64() => Ok(Bson::Double(float)),
        (None, _) => Err(format!("{number} is too large; write it as a string")),
    }
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, RawBson, rawdoc};

    use super::super::TRANSFER;
    use super::*;

    fn read(line: &str) -> Result<Transfer, Flaw> {
        let defaults = Defaults { currency: Some("EUR".into()), ..Defaults::default() };
        Record::from_json(line, TRANSFER).and_then(|record| parse(record, &defaults))
    }

    #[test]
    fn a_transfer_has_what_its_row_says_and_the_defaults_for_the_rest() {
        let parsed = read(
            r#"{"id":"t","source":"a","destination":"b","value":"1250",
                "currency":"USD","metadata":{"n":1,"f":1.5,"l":[null,true]}}"#,
        )
        .expect("valid");
        assert_eq!(parsed.id.as_deref(), Some("t"));
        assert_eq!(parsed.body.currency.as_deref(), Some("USD"));
        assert_eq!(
            parsed.body.metadata,
            Some(rawdoc! { "f": 1.5, "l": [RawBson::Null, true], "n": 1_i64 })
        );
        let parsed = read(
            r#"{"legs":[{"account":"a","amount":-3},{"account":"b","amount":1},
                {"account":"c","amount":2}]}"#,
        )
        .expect("valid");
        assert_eq!(parsed.id, None);
        assert_eq!(parsed.body.currency.as_deref(), Some("EUR"));
        assert_eq!(parsed.body.legs()[2].amount, Amount::Int(2));
    }

    #[test]
    fn a_row_has_the_terms_that_it_names() {
        let parsed = read(
            r#"{"source":"a","destination":"b","value":1,"hold":true,"exclusiveKey":"a-for-b",
                "notBefore":"1970-01-01T00:00:01Z","holdExpiresAt":"1970-01-01T00:00:02Z",
                "expiresAt":"1970-01-01T01:00:03+01:00"}"#,
        )
        .expect("valid");
        let at = |ms| Some(DateTime::from_millis(ms));
        let expected = Terms {
            hold: true,
            not_before: at(1_000),
            hold_expires_at: at(2_000),
            expires_at: at(3_000),
            exclusive_key: Some("a-for-b".to_owned()),
            ..Terms::default()
        };
        assert_eq!(parsed.body.terms(), &expected);
    }

    #[test]
    fn every_mistake_is_named_by_its_field() {
        let deep = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
        let deep = format!(r#"{{"source":"a","destination":"b","value":1,"metadata":{deep}}}"#);
        let large = "x".repeat(300_000);
        let large =
            format!(r#"{{"source":"a","destination":"b","value":1,"metadata":{{"a":"{large}"}}}}"#);
        for (line, expected) in [
            (r#"{"destination":"b","value":1}"#, "source: is missing"),
            (r#"{"source":7,"destination":"b","value":1}"#, "source: 7 is not a string"),
            (r#"{"source":"a","destination":"b"}"#, "value: is missing"),
            (r#"{"source":"a","destination":"b","value":1.5}"#, "value: 1.5 has a decimal point"),
            (r#"{"source":"a","destination":"b","value":-1}"#, "value: is -1"),
            (r#"{"source":"a","destination":"a","value":1}"#, "destination: is the source"),
            (r#"{"source":"","destination":"a","value":1}"#, "source: is empty"),
            (r#"{"id":"","source":"a","destination":"b","value":1}"#, "id: is empty"),
            (r#"{"legs":[],"value":1}"#, "value: stands beside legs"),
            (r#"{"legs":{}}"#, "legs: is not a list"),
            (
                r#"{"legs":[{"account":"a","amount":1.5}]}"#,
                "legs[0].amount: 1.5 has a decimal point",
            ),
            (r#"{"legs":[{"account":"a","amount":1,"x":1}]}"#, "legs[0].x: unknown"),
            (r#"{"legs":[{"amount":1}]}"#, "legs[0].account: is missing"),
            (r#"{"source":"a","destination":"b","value":1,"metadata":[]}"#, "metadata: "),
            (
                r#"{"source":"a","destination":"b","value":1,"hold":"yes"}"#,
                "hold: \"yes\" is not true or false",
            ),
            (
                r#"{"source":"a","destination":"b","value":1,"holdExpiresAt":"2026-11-01T00:00:00Z"}"#,
                "holdExpiresAt: is given without hold; set hold to true",
            ),
            (
                r#"{"source":"a","destination":"b","value":1,"notBefore":"tomorrow"}"#,
                "notBefore: \"tomorrow\" is not a moment; write one like 2026-",
            ),
            (
                r#"{"source":"a","destination":"b","value":1,"expiresAt":"1969-11-01T00:00:00Z"}"#,
                "expiresAt: is not a moment between the years 1970 and 9999",
            ),
            (
                r#"{"source":"a","destination":"b","value":1,"exclusiveKey":""}"#,
                "exclusiveKey: is empty",
            ),
            (deep.as_str(), "metadata: is nested deeper"),
            (large.as_str(), "metadata: has 300013 bytes"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(expected), "{line}: {error:?} should say {expected:?}");
        }
    }
}
