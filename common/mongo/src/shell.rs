//! BSON as `mongosh` takes it, for commands that a user copies.
//!
//! Promises that what `mongosh` sends is the same BSON: JSON would turn an Int64 into a double.

use mongodb::bson::{Bson, Document};

/// A document as an expression of `mongosh`.
pub(super) fn document(document: &Document) -> String {
    let fields = document.iter().map(|(name, value)| format!("{}: {}", text(name), bson(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn bson(value: &Bson) -> String {
    match value {
        Bson::Document(inner) => document(inner),
        Bson::Array(values) => {
            format!("[{}]", values.iter().map(bson).collect::<Vec<_>>().join(", "))
        }
        Bson::String(content) => text(content),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => format!("NumberLong(\"{number}\")"),
        Bson::Double(number) => format!("Double(\"{number}\")"),
        Bson::Boolean(flag) => flag.to_string(),
        Bson::Null => "null".to_owned(),
        // Serialized as extended JSON, which names the type.
        other => format!("EJSON.deserialize({})", serde_json::json!(other)),
    }
}

/// A text as a literal.
pub(super) fn text(content: &str) -> String {
    serde_json::Value::from(content).to_string()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn types_and_quotes_survive_the_shell() {
        let filter = doc! {
            "a\"b": [1, 5_i64, 0.5, Bson::Null],
            "since": DateTime::from_millis(7),
            "deep": { "x": true, "y": "it's" },
        };
        assert_eq!(
            document(&filter),
            "{\"a\\\"b\": [1, NumberLong(\"5\"), Double(\"0.5\"), null], \
             \"since\": EJSON.deserialize({\"$date\":{\"$numberLong\":\"7\"}}), \
             \"deep\": {\"x\": true, \"y\": \"it's\"}}"
        );
    }
}
