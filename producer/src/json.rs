//! Documents as JSON for scripts: amounts exact, moments as RFC 3339. Whatever is stored can be shown.

use mongodb::bson::raw::RawElement;
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, Utf8Lossy};
use serde_json::{Map, Value};

/// A stored document as far as it can be read: text that is not valid comes with `�`, of a field that
/// stands twice the first counts, and what follows a name that is not valid is left out.
#[must_use]
pub fn readable(stored: &RawDocument) -> Document {
    let mut document = Document::new();
    for element in stored.iter_elements().flatten() {
        let name = element.key().as_str();
        if !document.contains_key(name) {
            let value = readable_value(&element);
            document.insert(name, value.unwrap_or_else(|| "can't be read".into()));
        }
    }
    document
}

fn readable_value(element: &RawElement<'_>) -> Option<Bson> {
    let mut alone = RawDocumentBuf::new();
    alone.append(element.key(), element.value_utf8_lossy().ok()?);
    let Utf8Lossy(mut document) = Utf8Lossy::<Document>::try_from(alone).ok()?;
    document.remove(element.key().as_str())
}

/// A document as a JSON object: Int64 as a number, Decimal128 as a string.
#[must_use]
pub fn from_document(document: &Document) -> Value {
    let fields = document.iter().map(|(name, value)| (name.clone(), from_bson(value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn from_bson(value: &Bson) -> Value {
    match value {
        Bson::Null => Value::Null,
        Bson::Boolean(flag) => Value::Bool(*flag),
        Bson::Int32(number) => Value::from(*number),
        Bson::Int64(number) => Value::from(*number),
        Bson::Double(number) => Value::from(*number),
        Bson::String(text) => Value::String(text.clone()),
        Bson::DateTime(moment) => Value::String(timestamp(*moment)),
        Bson::Array(values) => Value::Array(values.iter().map(from_bson).collect()),
        Bson::Document(document) => from_document(document),
        // Decimal128, and what no program of ours writes.
        other => Value::String(other.to_string()),
    }
}

/// RFC 3339, or milliseconds for a moment beyond the year 9999.
#[must_use]
pub fn timestamp(moment: DateTime) -> String {
    moment.try_to_rfc3339_string().unwrap_or_else(|_| moment.timestamp_millis().to_string())
}

#[cfg(test)]
mod tests {
    use common::amount::Amount;
    use mongodb::bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn what_is_not_valid_text_is_shown_all_the_same() {
        let stored =
            rawdoc! { "_id": "t", "note": "?", "list": ["?", { "a": "?" }], "?": 1, "z": 1 };
        let spoiled =
            stored.as_bytes().iter().map(|byte| if *byte == b'?' { 0xff } else { *byte }).collect();
        let spoiled = RawDocumentBuf::from_bytes(spoiled).expect("the lengths are right");
        let mark = "\u{fffd}";
        let expected = doc! { "_id": "t", "note": mark, "list": [mark, { "a": mark }] };
        assert_eq!(readable(&spoiled), expected);
        assert_eq!(readable(&rawdoc! { "a": 1, "a": 2 }), doc! { "a": 1 });
    }

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
}
