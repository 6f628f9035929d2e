//! How a row of the input is written again, with the id that it has now.
//!
//! Promises that a row is as it was but for its id, so that what was invalid is still invalid until
//! somebody corrects it. Fails, before anything is written, where ids would stand in a column that
//! is not the id's.

use input::files::{Column, Columns, Header, RESULT_COLUMNS, csv_cells};
use input::json_row;
use serde_json::{Map, Value};

use super::SubmitArgs;
use crate::exit::Error;

/// The field of a transfer that is its id.
const ID: &str = "id";

/// The field that says what a transfer is for.
const METADATA: &str = "metadata";

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
    /// Of a file with this first line, if it is CSV.
    pub fn of(header: Option<Header>, args: &SubmitArgs) -> Result<Shape, Error> {
        let columns = args.reading.columns();
        let is_another = match &header {
            Some(header) => {
                let has_id = header.columns.iter().any(is_id);
                !has_id && header.names.iter().any(|name| name.eq_ignore_ascii_case(ID))
            }
            None => is_not_the_id(&columns, args),
        };
        if is_another {
            let problem = "--results writes ids under the name id, and the file has something else \
                           under it; rename that";
            return Err(Error::BadInput(problem.to_owned()));
        }
        Ok(match header {
            Some(header) => {
                let id = header.columns.iter().position(is_id);
                Shape::Csv { header, id }
            }
            None => {
                let id = columns.named.into_iter().find(|(field, _)| field == ID);
                Shape::Jsonl { id: id.map_or_else(|| ID.to_owned(), |(_, name)| name) }
            }
        })
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
        let Shape::Csv { header, id } = self else { return Vec::new() };
        let Ok(mut cells) = csv_cells(text) else {
            // As text in the last column, where it is invalid until it is corrected.
            let mut cells = vec![String::new(); header.names.len() + usize::from(id.is_none())];
            cells.drain(..self.results());
            if let Some(last) = cells.last_mut() {
                text.clone_into(last);
            }
            return cells;
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

    /// A row as an object of JSON; as a text where it is none.
    pub fn object(&self, text: &str, with: &Id) -> Value {
        let row = match self {
            Shape::Jsonl { .. } => json_row(text),
            Shape::Csv { header, .. } => by_names(header, text),
        };
        let Some(mut row) = row else { return text.into() };
        let name = match self {
            Shape::Jsonl { id } => id,
            Shape::Csv { .. } => ID,
        };
        let mut own = match row.remove(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(own)) => own,
            Some(other) => {
                // It is invalid, and stays so.
                row.insert(name.to_owned(), other);
                return row.into();
            }
        };
        put(&mut own, with);
        if !own.is_empty() {
            row.insert(name.to_owned(), own.into());
        }
        row.into()
    }
}

fn is_id(column: &Column) -> bool {
    matches!(column, Column::Field(field) if field == ID)
}

/// Whether the user says that `id` in JSON lines is something else.
fn is_not_the_id(columns: &Columns, args: &SubmitArgs) -> bool {
    let metadata = args.metadata_columns.iter().flat_map(|names| &names.0);
    let mut others = columns.ignored.iter().chain(metadata);
    let of_another = |(field, name): &(String, String)| field != ID && name == ID;
    let is_named = columns.named.iter().any(|(field, _)| field == ID);
    !is_named && (others.any(|name| name == ID) || columns.named.iter().any(of_another))
}

fn put(cell: &mut String, with: &Id) {
    match with {
        Id::Is(id) => cell.clone_from(id),
        Id::Unless(id) if cell.is_empty() => cell.clone_from(id),
        Id::Unless(_) => {}
    }
}

/// The cells of a row by the names of their fields; none if they don't fit.
fn by_names(header: &Header, text: &str) -> Option<Map<String, Value>> {
    let cells = csv_cells(text).ok()?;
    let (mut row, mut metadata) = (Map::new(), Map::new());
    if cells.len() != header.columns.len() {
        return None;
    }
    for (column, cell) in header.columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        match column {
            Column::Field(name) => drop(row.insert(name.clone(), cell.into())),
            Column::Metadata(name) => drop(metadata.insert(name.clone(), cell.into())),
            Column::Ignored => {}
            Column::Nameless => return None,
        }
    }
    if !metadata.is_empty() {
        row.insert(METADATA.to_owned(), metadata.into());
    }
    Some(row)
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
        assert_eq!(shape.cells(r#"t,"open"#, &unless("line-3")), ["", r#"t,"open"#]);
        assert_eq!(shape.object(r#"t,"open"#, &unless("line-3")), r#"t,"open"#);
        let lines = Shape::Jsonl { id: "ref".to_owned() };
        for (row, expected) in [
            (r#"{"source":"a"}"#, json!({ "source": "a", "ref": "line-3" })),
            (r#"{"source":"a","ref":null}"#, json!({ "source": "a", "ref": "line-3" })),
            (r#"{"source":"a","ref":"own"}"#, json!({ "source": "a", "ref": "own" })),
            (r#"{"source":"a","ref":7}"#, json!({ "source": "a", "ref": 7 })),
            (r#"{"source":"a","source":"b"}"#, json!(r#"{"source":"a","source":"b"}"#)),
            ("{", json!("{")),
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
}
