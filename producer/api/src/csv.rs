//! Transactions as lines of CSV.
//!
//! Owns the columns and what stands in their cells; the crate `csv` writes them. Promises that a
//! spreadsheet runs nothing of what others have written: a text that it would take for a formula
//! begins with an apostrophe, which spreadsheets take for "this is text". A number stays one.

use serde_json::Value;

/// The columns, by the names that the fields have in JSON.
const COLUMNS: [&str; 25] = [
    "id",
    "state",
    "source",
    "destination",
    "value",
    "currency",
    "legs",
    "captured",
    "hold",
    "reverses",
    "reason.code",
    "reason.message",
    "createdAt",
    "claimedAt",
    "decidedAt",
    "lastModified",
    "notBefore",
    "expiresAt",
    "holdExpiresAt",
    "exclusiveKey",
    "submittedBy",
    "application",
    "attempts",
    "metadata",
    "invalid",
];

/// With these, spreadsheets let a formula begin.
const BEGINS_A_FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The first line.
pub fn heading() -> String {
    written(COLUMNS)
}

/// The line of a transaction, from what is told of it in JSON.
pub fn line(transaction: &Value) -> String {
    let field = |column: &str| column.split('.').fold(transaction, |of, name| &of[name]);
    written(COLUMNS.map(|column| harmless(text(field(column)))))
}

/// Cells as a line.
fn written(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut line = csv::WriterBuilder::new().buffer_capacity(512).from_writer(Vec::new());
    line.write_record(cells).expect("memory takes all");
    let line = line.into_inner().expect("memory takes all");
    String::from_utf8(line).expect("texts were written")
}

/// A value as text; nothing where there is none, and else JSON for what is no text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The text as a cell that no spreadsheet runs.
fn harmless(text: String) -> String {
    match text.starts_with(BEGINS_A_FORMULA) && !is_number(&text) {
        true => format!("'{text}"),
        false => text,
    }
}

/// Whether it is an amount as the API tells it.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, places) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    digits(whole) && digits(places)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spreadsheet_runs_no_cell_and_a_number_stays_a_number() {
        for (text, written) in [
            ("=1+1", "'=1+1"),
            ("+49", "'+49"),
            ("-2+3", "'-2+3"),
            ("-", "'-"),
            ("-1.", "'-1."),
            ("@sum", "'@sum"),
            ("\tx", "'\tx"),
            ("\rx", "\"'\rx\""),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
            ("-5", "-5"),
            ("-12.50", "-12.50"),
            ("a=b", "a=b"),
            ("a,b", "\"a,b\""),
            ("two\nlines", "\"two\nlines\""),
            ("", ""),
        ] {
            let line = super::written(["x".to_owned(), harmless(text.to_owned())]);
            assert_eq!(line, format!("x,{written}\n"), "{text:?}");
        }
    }

    #[test]
    fn a_line_has_a_cell_for_each_column_and_what_is_no_text_is_json() {
        let transaction = json!({
            "id": "t", "state": "canceled", "value": "5", "attempts": 2,
            "reason": { "code": "requested", "message": "a, b" }, "metadata": { "n": 1 },
        });
        let line = line(&transaction);
        assert!(line.starts_with("t,canceled,,,5,,,,,,requested,\"a, b\","), "{line}");
        assert!(line.ends_with(",2,\"{\"\"n\"\":1}\",\n"), "{line}");
        let plain = self::line(&json!({ "id": "t" }));
        assert_eq!(plain.matches(',').count(), heading().matches(',').count());
    }
}
