//! Named fields, whatever they were written in: a row of a CSV file, or an object of JSON.

use std::fmt;

use bson::DateTime;
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::notation::{Notation, NotationError};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::Flaw;
use super::crowd::{self, is_crowd};
use super::files::{Column, Columns, RESULT_COLUMNS, RESULT_ROW, csv_cells};
use super::unique::Unique;

/// The field of a transfer that says what it is for.
const METADATA: &str = "metadata";

/// The fields of a row. An empty CSV cell is no field.
#[derive(Debug, Default, PartialEq)]
pub struct Record {
    fields: Vec<(String, Value)>,
}

impl Record {
    /// A row of a CSV file.
    ///
    /// # Errors
    /// When its cells do not match the header's.
    pub fn from_cells(header: &[Column], cells: Vec<String>) -> Result<Record, Flaw> {
        if header.len() != cells.len() {
            let (cells, header) = (cells.len(), header.len());
            return Err(Flaw::whole(format!("has {cells} fields, the header has {header}")));
        }
        let mut record = Record::default();
        for (column, cell) in header.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            record.put(column, Value::String(cell))?;
        }
        Ok(record)
    }

    /// Adds a field, as its column says.
    fn put(&mut self, column: &Column, value: Value) -> Result<(), Flaw> {
        let name = match column {
            Column::Ignored => return Ok(()),
            Column::Nameless => {
                let cell = value.as_str().unwrap_or_default();
                let problem = format!("{:?} stands in a column without a name", echo(cell));
                return Err(Flaw::whole(problem));
            }
            Column::Field(name) => {
                self.fields.push((name.clone(), value));
                return Ok(());
            }
            Column::Metadata(name) => name,
        };
        let at = self.fields.iter().position(|(field, _)| field == METADATA).unwrap_or_else(|| {
            self.fields.push((METADATA.to_owned(), Value::Null));
            self.fields.len() - 1
        });
        if self.fields[at].1.is_null() {
            self.fields[at].1 = Value::Object(Map::new());
        }
        let Value::Object(metadata) = &mut self.fields[at].1 else {
            return Err(Flaw::of(METADATA, "is not an object"));
        };
        match metadata.insert(name.clone(), value) {
            None => Ok(()),
            Some(_) => Err(Flaw::of(format!("{METADATA}.{}", echo(name)), "is given twice")),
        }
    }

    /// A line of a JSON-lines file, whose names the user may have explained.
    ///
    /// # Errors
    /// When it is not an object of these fields.
    pub(crate) fn from_json_line(
        line: &str,
        known: &[&str],
        columns: &Columns,
    ) -> Result<Record, Flaw> {
        let fields = of_results(object(line)?);
        if *columns == Columns::default() {
            return Record::of(fields, known);
        }
        let mut own = Vec::with_capacity(fields.len());
        let mut named = Vec::new();
        for (name, value) in fields {
            match columns.role(&name).map_err(|problem| Flaw::of(echo(&name), problem))? {
                None => own.push((name, value)),
                Some(column) => named.push((column, value)),
            }
        }
        let mut record = Record::of(own, known)?;
        for (column, value) in named {
            if let Column::Field(name) = &column
                && record.names(name)
            {
                return Err(Flaw::of(name.clone(), "is given twice"));
            }
            record.put(&column, value)?;
        }
        Ok(record)
    }

    /// A line of a JSON-lines file, or any other text of one object.
    ///
    /// # Errors
    /// When it is not an object of these fields.
    pub fn from_json(line: &str, known: &[&str]) -> Result<Record, Flaw> {
        Record::of(object(line)?, known)
    }

    /// An object of JSON that was read already.
    ///
    /// # Errors
    /// When it is no object of these fields.
    pub fn from_value(value: Value, known: &[&str]) -> Result<Record, Flaw> {
        match value {
            Value::Object(fields) => Record::of(fields.into_iter().collect(), known),
            other => {
                let other = other.to_string();
                Err(Flaw::whole(format!("{} is not an object", echo(&other))))
            }
        }
    }

    fn of(fields: Vec<(String, Value)>, known: &[&str]) -> Result<Record, Flaw> {
        for (at, (name, _)) in fields.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let problem = format!("unknown field; known are {}", known.join(", "));
                return Err(Flaw::of(echo(name), problem));
            }
            if fields[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Flaw::of(name, "is given twice"));
            }
        }
        Ok(Record { fields })
    }

    /// Whether a field is named, even if it is `null`.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// Takes a field out; `null` is no field.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.swap_remove(at).1).filter(|value| !value.is_null())
    }

    /// Takes a string out.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Flaw> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                let other = other.to_string();
                let problem = format!("{} is not a string; write it in quotes", echo(&other));
                Err(Flaw::of(name, problem))
            }
        }
    }

    /// Takes a string out that must be there.
    ///
    /// # Errors
    /// When it is missing or of another type.
    pub fn required(&mut self, name: &str) -> Result<String, Flaw> {
        self.text(name)?.ok_or_else(|| Flaw::of(name, "is missing"))
    }

    /// Takes yes or no out: of JSON `true` or `false`, of a CSV file the same words.
    ///
    /// # Errors
    /// When it is neither.
    pub fn flag(&mut self, name: &str) -> Result<bool, Flaw> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            // Spreadsheets write both in capitals.
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(other) => {
                let other = other.to_string();
                let problem = format!("{} is not true or false; write one of them", echo(&other));
                Err(Flaw::of(name, problem))
            }
        }
    }

    /// Takes a moment out: a text of RFC 3339.
    ///
    /// # Errors
    /// When it is not one.
    pub fn moment(&mut self, name: &str) -> Result<Option<DateTime>, Flaw> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        DateTime::parse_rfc3339_str(&text).map(Some).map_err(|_| {
            let text = echo(&text);
            Flaw::of(name, format!("{text:?} is not a moment; write one like 2026-11-01T00:00:00Z"))
        })
    }

    /// Takes an amount out.
    ///
    /// # Errors
    /// When it is not one.
    pub fn amount(
        &mut self,
        name: &str,
        notation: &Notation,
        currency: Option<&str>,
    ) -> Result<Option<Amount>, Flaw> {
        self.read(name, |value| amount(value, notation, currency))
    }

    /// Takes a part of a hold out.
    ///
    /// # Errors
    /// When it can't be an amount of any hold.
    pub fn part(&mut self, name: &str, notation: &Notation) -> Result<Option<Amount>, Flaw> {
        self.read(name, |value| part(value, notation))
    }

    fn read(
        &mut self,
        name: &str,
        read: impl Fn(&Value) -> Result<Amount, NotationError>,
    ) -> Result<Option<Amount>, Flaw> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(&value).map(Some).map_err(|error| Flaw::of(name, error.to_string()))
    }
}

/// Reads an amount from JSON: a whole number, or a string.
///
/// # Errors
/// When it is a float, which can't hold money exactly, or no amount at all.
pub(super) fn amount(
    value: &Value,
    notation: &Notation,
    currency: Option<&str>,
) -> Result<Amount, NotationError> {
    match value {
        Value::String(text) => notation.read(text, currency),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            notation.read(&number.to_string(), currency)
        }
        Value::Number(number) => Err(notation.float(&number.to_string(), currency)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(notation.not_a_number(echo(&value.to_string()).into_owned()))
        }
    }
}

/// The same of a part of a hold, whose form and currency are not known yet.
pub(super) fn part(value: &Value, notation: &Notation) -> Result<Amount, NotationError> {
    match value {
        Value::String(text) => notation.read_part(text),
        other => amount(other, notation, None),
    }
}

/// The fields of a text that is one object.
fn object(text: &str) -> Result<Vec<(String, Value)>, Flaw> {
    if is_crowd(text.as_bytes()) {
        return Err(Flaw::whole(crowd::refusal()));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer
        .deserialize_map(Fields)
        .and_then(|fields| deserializer.end().map(|()| fields))
        .map_err(|error| Flaw::whole(format!("is not a JSON object: {}", located(&error))))
}

/// The fields of a line of JSON, or of the row that a line of results is about; none if it is no
/// object, or names a field twice.
#[must_use]
pub fn json_row(line: &str) -> Option<Map<String, Value>> {
    let fields = of_results(object(line).ok()?);
    let mut row = Map::with_capacity(fields.len());
    fields.into_iter().all(|(name, value)| row.insert(name, value).is_none()).then_some(row)
}

/// The fields of a line of CSV by their names; none if it does not fit its header.
#[must_use]
pub fn csv_row(line: &str, header: &[Column]) -> Option<Map<String, Value>> {
    let record = Record::from_cells(header, csv_cells(line).ok()?).ok()?;
    Some(record.fields.into_iter().collect())
}

/// Of a line of results, the row that it is about.
fn of_results(mut fields: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let is_result = fields.len() == RESULT_COLUMNS.len() + 1
        && RESULT_COLUMNS.iter().all(|name| fields.iter().any(|(field, _)| field == name));
    let row = fields.iter().position(|(field, value)| field == RESULT_ROW && value.is_object());
    match row.filter(|_| is_result).map(|at| fields.swap_remove(at).1) {
        Some(Value::Object(row)) => row.into_iter().collect(),
        _ => fields,
    }
}

/// The parser gets one line at a time, so only the column of its position is useful.
fn located(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // The parser's message may repeat text of the line.
    format!("{} (column {})", echo(message), error.column())
}

/// Collects the pairs of an object as they stand, repeated ones too.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one object on a line of its own")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        const FIELDS_MAX: usize = 256;
        let mut fields = Vec::new();
        while let Some((name, Unique(value))) = map.next_entry()? {
            if fields.len() == FIELDS_MAX {
                return Err(M::Error::custom(format!("more than {FIELDS_MAX} fields")));
            }
            fields.push((name, value));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use ledger::notation::Form;

    use super::*;

    #[test]
    fn fields_that_nobody_knows_are_refused_by_name() {
        let error = |line| Record::from_json(line, &["id", "value"]).expect_err(line).to_string();
        assert!(error(r#"{"id":"a","valeu":1}"#).starts_with("valeu: unknown"));
        assert!(error(r#"{"id":"a","id":"b"}"#).starts_with("id: is given twice"));
        let nested = error(r#"{"id":[{"account":"a","account":"b"}]}"#);
        assert!(nested.contains("account: is given twice"), "{nested}");
        let long = format!("\"{}\"", "x".repeat(100_000));
        assert!(error(&long).len() < 1_000, "a text in place of an object is cut");
        for broken in ["[1]", "{", r#"{"id":"a"} x"#, r#"{"id":}"#, "null"] {
            assert!(error(broken).contains("column"), "{broken}: {}", error(broken));
        }
    }

    #[test]
    fn a_json_number_is_an_amount_only_when_whole() {
        let read = |line: &str, form| {
            let notation = Notation { form, ..Notation::default() };
            Record::from_json(line, &["value"]).expect(line).amount("value", &notation, Some("EUR"))
        };
        assert_eq!(read(r#"{"value":1250}"#, Form::MinorUnits), Ok(Some(Amount::Int(1250))));
        let decimal = Amount::parse("12.50").ok();
        assert_eq!(read(r#"{"value":"12.50"}"#, Form::Decimals), Ok(decimal));
        assert_eq!(read(r#"{"value":12}"#, Form::Decimals), Ok(Amount::parse("12.0").ok()));
        for (line, minor, decimals) in [
            (r#"{"value":12.5}"#, "write 1250 for 12.50 EUR", "like \"12.5\""),
            (r#"{"value":1e3}"#, "or 1000 for 10.00 EUR", "like \"1000.0\""),
            (r#"{"value":9223372036854775808}"#, "too large", "too large"),
            (r#"{"value":"1e3"}"#, "not a number", "not a number"),
            (r#"{"value":true}"#, "not a number", "not a number"),
        ] {
            for (form, expected) in [(Form::MinorUnits, minor), (Form::Decimals, decimals)] {
                let error = read(line, form).expect_err(line).to_string();
                assert!(error.starts_with("value: ") && error.contains(expected), "{error}");
            }
        }
    }

    #[test]
    fn a_moment_is_a_text_of_rfc_3339_and_a_flag_is_true_or_false() {
        let record = |line: &str| Record::from_json(line, &["at", "is"]).expect(line);
        let moment = |line: &str| record(line).moment("at");
        let at = DateTime::from_millis(1_793_534_400_500);
        for text in ["2026-11-01T12:00:00.5Z", "2026-11-01T13:00:00.500+01:00"] {
            assert_eq!(moment(&format!(r#"{{"at":"{text}"}}"#)), Ok(Some(at)), "{text}");
        }
        assert_eq!(moment("{}"), Ok(None));
        for line in
            [r#"{"at":"tomorrow"}"#, r#"{"at":"2026-11-01"}"#, r#"{"at":"2026-13-01T00:00:00Z"}"#]
        {
            let error = moment(line).expect_err(line).to_string();
            assert!(error.contains("like 2026-11-01T00:00:00Z"), "{error}");
        }
        let error = moment(r#"{"at":1793534400}"#).expect_err("a number").to_string();
        assert_eq!(error, "at: 1793534400 is not a string; write it in quotes");

        let flag = |line: &str| record(line).flag("is");
        for (line, expected) in [
            ("{}", false),
            (r#"{"is":true}"#, true),
            (r#"{"is":"true"}"#, true),
            (r#"{"is":false}"#, false),
        ] {
            assert_eq!(flag(line), Ok(expected), "{line}");
        }
        for line in [r#"{"is":"TRUE"}"#, r#"{"is":"False"}"#] {
            assert_eq!(flag(line), Ok(line.contains("TRUE")), "{line}");
        }
        for line in [r#"{"is":"yes"}"#, r#"{"is":1}"#] {
            let error = flag(line).expect_err(line).to_string();
            assert!(error.contains("is not true or false"), "{error}");
        }
    }

    #[test]
    fn empty_cells_and_nulls_are_no_fields() {
        let header = ["id", "value"].map(|name| Column::Field(name.to_owned()));
        let mut record =
            Record::from_cells(&header, vec![String::new(), "1".to_owned()]).expect("two cells");
        assert_eq!(record.text("id"), Ok(None));
        assert_eq!(record.text("value"), Ok(Some("1".to_owned())));
        let mut record = Record::from_json(r#"{"id":null}"#, &["id"]).expect("an object");
        assert_eq!(record.text("id"), Ok(None));
        assert!(
            Record::from_cells(&header, vec![])
                .expect_err("no cells")
                .problem
                .contains("header has 2")
        );
    }
}
