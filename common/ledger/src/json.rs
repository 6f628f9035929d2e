//! Documents as JSON for scripts and events: amounts exact, moments as RFC 3339.

use bson::{Bson, DateTime, Document, RawDocument};
use serde_json::{Map, Value};

use crate::amount::Amount;

/// A document as a JSON object: Int64 as a number, Decimal128 as a string.
#[must_use]
pub fn from_document(document: &Document) -> Value {
    let fields = document.iter().map(|(name, value)| (name.clone(), from_bson(value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The same of a document as bytes; none if it can't be read.
#[must_use]
pub fn from_raw(document: &RawDocument) -> Option<Value> {
    Document::try_from(document).ok().as_ref().map(from_document)
}

/// A value as JSON; see [`from_document`].
#[must_use]
pub fn from_bson(value: &Bson) -> Value {
    match value {
        Bson::Null => Value::Null,
        Bson::Boolean(flag) => Value::Bool(*flag),
        Bson::Int32(number) => Value::from(*number),
        Bson::Int64(number) => Value::from(*number),
        // What is no number in JSON (NaN, infinity) becomes null.
        Bson::Double(number) => Value::from(*number),
        Bson::String(text) => Value::String(text.clone()),
        Bson::DateTime(moment) => Value::String(timestamp(*moment)),
        Bson::Array(values) => Value::Array(values.iter().map(from_bson).collect()),
        Bson::Document(document) => from_document(document),
        // Decimal128, and types that Tandem never writes.
        other => Value::String(other.to_string()),
    }
}

/// An amount as text, so that no reader rounds it. A decimal amount always has a point, so it reads
/// back as what it is.
#[must_use]
pub fn amount(amount: Amount) -> String {
    let text = amount.to_string();
    match amount {
        Amount::Decimal(_) if !text.contains('.') => text + ".0",
        Amount::Decimal(_) | Amount::Int(_) => text,
    }
}

/// RFC 3339, or milliseconds for a moment beyond the year 9999.
#[must_use]
pub fn timestamp(moment: DateTime) -> String {
    moment.try_to_rfc3339_string().unwrap_or_else(|_| moment.timestamp_millis().to_string())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::amount::Amount;

    #[test]
    fn amounts_and_moments_read_exactly() {
        let document = doc! {
            "_id": "t",
            "value": Amount::MAX,
            "legs": [{ "account": "a", "amount": Amount::parse("-12.50").expect("a decimal") }],
            "createdAt": DateTime::from_millis(0),
            "floor": Bson::Null,
        };
        let expected = serde_json::json!({
            "_id": "t",
            "value": 1_000_000_000_000_000_000_i64,
            "legs": [{ "account": "a", "amount": "-12.50" }],
            "createdAt": "1970-01-01T00:00:00Z",
            "floor": null,
        });
        assert_eq!(from_document(&document), expected);
    }

    #[test]
    fn an_amount_as_text_reads_back_as_what_it_is() {
        for text in ["0", "-1250", "1000000000000000000", "12.50", "-0.000000001"] {
            assert_eq!(amount(Amount::parse(text).expect(text)), text);
        }
        let whole_decimal = Amount::parse_decimal("12").expect("a decimal");
        assert_eq!(amount(whole_decimal), "12.0");
        assert_eq!(Amount::parse("12.0"), Ok(whole_decimal));
    }
}
