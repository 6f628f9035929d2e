//! How a row of the input is written again, with the id that it has now.
//!
//! Promises that a row is as it was but for its id, so that what was invalid is still invalid until
//! somebody corrects it. Fails, before anything is written, where ids would stand in a column that
//! is not the id's.

use input::files::{Column, Columns, Header, RESULT_COLUMNS, csv_cells};
use input::{csv_row, json_row};
use serde_json::Value;

/// The field of a transfer that is its id.
const ID: &str = "id";

/// The field under which a row stands that can't be read. No transfer has it.
const UNREADABLE: &str = "unreadable";

const JSON_LINES_ONLY: &str =
    "the results of JSON lines are JSON lines, too; let the name end in .jsonl";
const CSV_ONLY: &str =
    "what is said of the columns would not be true of the results; let the name end in .csv";

/// The id that a row gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// This one.
    Is(String),
    /// This one, unless it has one of its own.
    Unless(String),
}

/// How the rows of the input are written again.
#[derive(Debug)]
pub(super) enum Shape {
    /// As cells; `id` is the column of the id, if there is one.
    Csv { header: Header, id: Option<usize> },
    /// As an object of JSON; `id` is what the id is called there.
    Jsonl { id: String },
}

impl Shape {
    /// Of a file with this first line, if it is CSV, written as JSON lines or as CSV.
    pub fn of(header: Option<Header>, columns: &Columns, as_jsonl: bool) -> Result<Shape, String> {
        let shape = match header {
            None if !as_jsonl => return Err(JSON_LINES_ONLY.to_owned()),
            Some(_) if as_jsonl && *columns != Columns::default() => {
                return Err(CSV_ONLY.to_owned());
            }
            Some(header) => {
                let id = header.columns.iter().position(is_id);
                Shape::Csv { header, id }
            }
            None => {
                let id = columns.named.iter().find(|(field, _)| field == ID);
                Shape::Jsonl { id: id.map_or_else(|| ID.to_owned(), |(_, name)| name.clone()) }
            }
        };
        // Who reads the results in the same way must find the ids there.
        let name = match &shape {
            Shape::Csv { id: Some(_), .. } => return Ok(shape),
            Shape::Csv { id: None, .. } => ID,
            Shape::Jsonl { id } => id,
        };
        match columns.role(name) {
            Ok(None) => Ok(shape),
            Ok(Some(column)) if is_id(&column) => Ok(shape),
            Ok(Some(_)) | Err(_) => Err(format!(
                "--results writes ids under the name {name}, which stands for something else here; \
                 rename that in the file"
            )),
        }
    }

    /// The columns behind those that say what became of a row.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Shape::Csv { header, id } => {
                let added = id.is_none().then_some(ID);
                added.into_iter().chain(self.own(&header.names).map(String::as_str)).collect()
            }
            Shape::Jsonl { .. } => Vec::new(),
        }
    }

    /// Without those of a file of results: they are written anew.
    fn own<'a>(&self, cells: &'a [String]) -> impl Iterator<Item = &'a String> {
        cells.iter().skip(self.results())
    }

    /// How many columns say what became of a row before.
    fn results(&self) -> usize {
        let Shape::Csv { header, .. } = self else { return 0 };
        let is_result = header.names.len() > RESULT_COLUMNS.len()
            && header.names.iter().zip(RESULT_COLUMNS).all(|(one, other)| one == other);
        if is_result { RESULT_COLUMNS.len() } else { 0 }
    }

    /// A row as cells of CSV.
    pub fn cells(&self, text: &str, with: &Id) -> Vec<String> {
        let Shape::Csv { id, .. } = self else { return Vec::new() };
        let Ok(mut cells) = csv_cells(text) else {
            return self.unreadable(text, with);
        };
        match id {
            Some(at) => {
                if cells.len() <= *at {
                    cells.resize(*at + 1, String::new());
                }
                put(&mut cells[*at], with);
                self.own(&cells).cloned().collect()
            }
            None => {
                let mut own = String::new();
                put(&mut own, with);
                [own].into_iter().chain(self.own(&cells).cloned()).collect()
            }
        }
    }

    /// A row that has no cells, as a text beside its id. It is invalid until it is corrected.
    fn unreadable(&self, text: &str, with: &Id) -> Vec<String> {
        let mut cells = vec![String::new(); self.columns().len()];
        let at = match self {
            Shape::Csv { id: Some(at), .. } => at - self.results(),
            Shape::Csv { id: None, .. } | Shape::Jsonl { .. } => 0,
        };
        put(&mut cells[at], with);
        // There are at least four: an id, and what each transfer has.
        let other = if at + 1 == cells.len() { 0 } else { cells.len() - 1 };
        text.clone_into(&mut cells[other]);
        cells
    }

    /// A row as an object of JSON. One that is none is a text beside its id, which is invalid until
    /// it is corrected.
    pub fn object(&self, text: &str, with: &Id) -> Value {
        let row = match self {
            Shape::Jsonl { .. } => json_row(text),
            Shape::Csv { header, .. } => csv_row(text, &header.columns),
        };
        let mut row =
            row.unwrap_or_else(|| [(UNREADABLE.to_owned(), text.into())].into_iter().collect());
        let name = match self {
            Shape::Jsonl { id } => id,
            Shape::Csv { .. } => ID,
        };
        // A name that the user has given is found in whatever case.
        let there = row.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
        let name = there.unwrap_or_else(|| name.to_owned());
        let mut own = match row.remove(&name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(own)) => own,
            Some(other) => {
                // It is invalid, and stays so.
                row.insert(name, other);
                return row.into();
            }
        };
        put(&mut own, with);
        if !own.is_empty() {
            row.insert(name, own.into());
        }
        row.into()
    }
}

fn is_id(column: &Column) -> bool {
    matches!(column, Column::Field(field) if field == ID)
}

fn put(cell: &mut String, with: &Id) {
    match with {
        Id::Is(id) => cell.clone_from(id),
        Id::Unless(id) if cell.is_empty() => cell.clone_from(id),
        Id::Unless(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn csv(columns: &[(&str, Column)]) -> Shape {
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let columns: Vec<Column> = columns.iter().map(|(_, column)| column.clone()).collect();
        let id = columns.iter().position(is_id);
        Shape::Csv { header: Header { names, columns }, id }
    }

    fn field(name: &str) -> Column {
        Column::Field(name.to_owned())
    }

    fn is(id: &str) -> Id {
        Id::Is(id.to_owned())
    }

    fn unless(id: &str) -> Id {
        Id::Unless(id.to_owned())
    }

    #[test]
    fn a_row_of_csv_is_as_it_was_with_the_id_that_it_has_now() {
        let with_id = csv(&[
            ("Ref", field("id")),
            ("source", field("source")),
            ("note", Column::Metadata("note".into())),
        ]);
        assert_eq!(with_id.columns(), ["Ref", "source", "note"]);
        let row = r#" ,alice,"a, ""b""" "#;
        assert_eq!(with_id.cells(row, &is("t-1")), ["t-1", "alice", r#"a, "b""#]);
        let expected =
            json!({ "id": "t-1", "source": "alice", "metadata": { "note": r#"a, "b""# } });
        assert_eq!(with_id.object(row, &is("t-1")), expected);
        let without = csv(&[("source", field("source")), ("Booked", Column::Ignored)]);
        assert_eq!(without.columns(), ["id", "source", "Booked"]);
        assert_eq!(without.cells("alice,x", &is("t-1")), ["t-1", "alice", "x"]);
    }

    #[test]
    fn an_invalid_row_keeps_its_own_id_and_what_makes_it_invalid() {
        let shape = csv(&[("id", field("id")), ("source", field("source"))]);
        assert_eq!(shape.cells("t-1,a", &unless("line-3")), ["t-1", "a"]);
        assert_eq!(shape.cells(",a", &unless("line-3")), ["line-3", "a"]);
        assert_eq!(shape.cells(",a,b,c", &unless("line-3")), ["line-3", "a", "b", "c"]);
        assert_eq!(shape.cells(r#"t,"open"#, &unless("line-3")), ["line-3", r#"t,"open"#]);
        let expected = json!({ "id": "line-3", "unreadable": r#"t,"open"# });
        assert_eq!(shape.object(r#"t,"open"#, &unless("line-3")), expected);
        let last = csv(&[("source", field("source")), ("id", field("id"))]);
        assert_eq!(last.cells(r#""open"#, &unless("line-3")), [r#""open"#, "line-3"]);
        let lines = Shape::Jsonl { id: "ref".to_owned() };
        for (row, expected) in [
            (r#"{"source":"a"}"#, json!({ "source": "a", "ref": "line-3" })),
            (r#"{"source":"a","ref":null}"#, json!({ "source": "a", "ref": "line-3" })),
            (r#"{"source":"a","ref":"own"}"#, json!({ "source": "a", "ref": "own" })),
            (r#"{"source":"a","ref":7}"#, json!({ "source": "a", "ref": 7 })),
            (r#"{"source":"a","Ref":"own"}"#, json!({ "source": "a", "Ref": "own" })),
            (
                r#"{"source":"a","source":"b"}"#,
                json!({ "unreadable": r#"{"source":"a","source":"b"}"#, "ref": "line-3" }),
            ),
            ("{", json!({ "unreadable": "{", "ref": "line-3" })),
        ] {
            assert_eq!(lines.object(row, &unless("line-3")), expected, "{row}");
        }
    }

    #[test]
    fn results_of_results_have_their_columns_once() {
        let mut columns: Vec<(&str, Column)> =
            RESULT_COLUMNS.iter().map(|name| (*name, Column::Ignored)).collect();
        columns.extend([("id", field("id")), ("source", field("source"))]);
        let shape = csv(&columns);
        assert_eq!(shape.columns(), ["id", "source"]);
        assert_eq!(shape.cells("2,t,canceled,,no,t/again-2,alice", &is("n")), ["n", "alice"]);
        let lines = Shape::Jsonl { id: "id".to_owned() };
        let row = r#"{"line":2,"transaction":"t","outcome":"canceled","reason":"","message":"",
                      "row":{"id":"t/again-2","source":"alice"}}"#;
        assert_eq!(lines.object(row, &is("n")), json!({ "id": "n", "source": "alice" }));
    }

    #[test]
    fn ids_are_only_written_where_the_same_flags_read_them_as_ids() {
        let named = |field: &str, name: &str| Columns {
            named: vec![(field.to_owned(), name.to_owned())],
            ..Columns::default()
        };
        let ignored = |name: &str| Columns { ignored: vec![name.into()], ..Columns::default() };
        let without_id =
            || Some(Header { names: vec!["source".into()], columns: vec![field("source")] });
        let with_id = || Some(Header { names: vec!["Ref".into()], columns: vec![field("id")] });
        let plain = Columns::default();
        for (header, columns, as_jsonl) in [
            (without_id(), &plain, false),
            (without_id(), &plain, true),
            (without_id(), &ignored("Booked"), false),
            (with_id(), &named("id", "Ref"), false),
            (None, &plain, true),
            (None, &named("id", "Ref"), true),
        ] {
            assert!(Shape::of(header, columns, as_jsonl).is_ok(), "{columns:?}");
        }
        for (header, columns, as_jsonl, problem) in [
            (without_id(), &ignored("ID"), false, "something else"),
            (without_id(), &named("exclusiveKey", "id"), false, "something else"),
            (with_id(), &named("id", "Ref"), true, ".csv"),
            (None, &plain, false, ".jsonl"),
            (None, &ignored("Id"), true, "something else"),
            (None, &named("exclusiveKey", "id"), true, "something else"),
        ] {
            let error = Shape::of(header, columns, as_jsonl).expect_err(problem);
            assert!(error.contains(problem), "{error:?} should say {problem:?}");
        }
    }
}
