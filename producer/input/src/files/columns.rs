//! What the columns of a file are called by those who made it.
//!
//! Owns which field a column or a name of JSON lines stands for: its own, one that the user has
//! named for it, a part of the metadata, or none. Promises that no column is left out silently: one
//! that nobody has named is an error that says how to go on. Knows the columns that `--results`
//! adds, so that such a file can be corrected and submitted again.

use ledger::limits::echo;

use super::Schema;

/// The columns that come first in a file of results. A file that begins with all of them is one, so
/// they are passed over.
pub const RESULT_COLUMNS: [&str; 5] = ["line", "transaction", "outcome", "reason", "message"];

/// In a file of results that is JSON lines: the row as it was.
pub const RESULT_ROW: &str = "row";

/// What a column is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A field of this name.
    Field(String),
    /// A field of the metadata, under the column's own name.
    Metadata(String),
    /// Nothing.
    Ignored,
    /// Nothing, since it has no name; so its cells have to be empty.
    Nameless,
}

/// What the user says of the columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Fields, and the columns that stand for them.
    pub named: Vec<(String, String)>,
    /// Columns that are passed over.
    pub ignored: Vec<String>,
    /// Columns that are kept as metadata.
    pub metadata: Vec<String>,
}

impl Columns {
    /// Whether the fields that it names are fields of these files.
    ///
    /// # Errors
    /// Names the field.
    pub fn check(&self, schema: Schema) -> Result<(), String> {
        for (at, (field, column)) in self.named.iter().enumerate() {
            if !schema.fields.contains(&field.as_str()) {
                let known = schema.columns.join(", ");
                return Err(format!("{:?} is not a field; fields are {known}", echo(field)));
            }
            if self.named[..at].iter().any(|(earlier, _)| earlier == field) {
                return Err(format!("{field} is named twice"));
            }
            if self.named[..at].iter().any(|(_, earlier)| earlier.eq_ignore_ascii_case(column)) {
                return Err(format!("the column {:?} is named twice", echo(column)));
            }
        }
        Ok(())
    }

    /// What a column is for, where the user has said so, or the field of this name comes from
    /// another column.
    ///
    /// # Errors
    /// When the user has said that the field of this name is in another column.
    pub fn role(&self, column: &str) -> Result<Option<Column>, String> {
        let is = |name: &String| name.eq_ignore_ascii_case(column);
        if self.ignored.iter().any(is) {
            return Ok(Some(Column::Ignored));
        }
        if let Some((field, _)) = self.named.iter().find(|(_, name)| is(name)) {
            return Ok(Some(Column::Field(field.clone())));
        }
        if self.metadata.iter().any(is) {
            return Ok(Some(Column::Metadata(column.to_owned())));
        }
        match self.named.iter().find(|(field, _)| is(field)) {
            None => Ok(None),
            Some((field, other)) => Err(format!(
                "{field} is in the column {:?}, as you say; pass {:?} over with\n  \
                 --ignore-columns NAME",
                echo(other),
                echo(column)
            )),
        }
    }

    /// The roles of the columns of a file, in their order.
    ///
    /// # Errors
    /// Names the column that is unknown, repeated or missing.
    pub(super) fn of_header(
        &self,
        columns: &[String],
        schema: Schema,
    ) -> Result<Vec<Column>, String> {
        let results = match columns.iter().zip(RESULT_COLUMNS).all(|(one, other)| one == other) {
            true if columns.len() > RESULT_COLUMNS.len() => RESULT_COLUMNS.len(),
            _ => 0,
        };
        let mut roles = vec![Column::Ignored; results];
        for column in &columns[results..] {
            if column.is_empty() {
                roles.push(Column::Nameless);
                continue;
            }
            let known = schema.columns.iter().find(|name| name.eq_ignore_ascii_case(column));
            let known = known.map(|name| Column::Field((*name).to_owned()));
            let role = self.role(column)?.or(known).ok_or_else(|| unknown(column, schema))?;
            if role != Column::Ignored && roles.contains(&role) {
                return Err(match role {
                    Column::Field(name) => format!("column {name} is named twice"),
                    Column::Metadata(_) | Column::Ignored | Column::Nameless => {
                        format!("column {:?} is named twice", echo(column))
                    }
                });
            }
            roles.push(role);
        }
        self.all_are_there(columns)?;
        let has = |name: &str| roles.contains(&Column::Field(name.to_owned()));
        match schema.required.iter().find(|name| !has(name)) {
            Some(missing) => Err(format!(
                "column {missing} is missing in the first line; if it has another name there, say \
                 so with --columns {missing}=NAME"
            )),
            None => Ok(roles),
        }
    }

    /// What the user has named is there.
    fn all_are_there(&self, columns: &[String]) -> Result<(), String> {
        let named = self.named.iter().map(|(_, column)| column).chain(&self.metadata);
        let mut missing =
            named.filter(|name| !columns.iter().any(|it| it.eq_ignore_ascii_case(name)));
        match missing.next() {
            None => Ok(()),
            Some(missing) => {
                let there: Vec<_> = columns.iter().map(|name| echo(name).into_owned()).collect();
                let (missing, there) = (echo(missing), there.join(", "));
                Err(format!("there is no column {missing:?}; the columns are {there}"))
            }
        }
    }
}

fn unknown(column: &str, schema: Schema) -> String {
    let known = schema.columns.join(", ");
    let shown = echo(column);
    if column.contains([';', '\t']) {
        return format!(
            "{shown:?} is not a column; the first line names comma-separated columns among {known}"
        );
    }
    let kept = match schema.fields.contains(&"metadata") {
        true => ", or keep it with\n  --metadata-columns NAME",
        false => "",
    };
    format!(
        "{shown:?} is not a column; columns are {known}. If it is one of these, say so with\n  \
         --columns FIELD=NAME\npass it over with\n  --ignore-columns NAME{kept}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{ACCOUNTS, TRANSFERS};
    use super::*;

    fn header(columns: &Columns, line: &[&str]) -> Result<Vec<Column>, String> {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        columns.of_header(&line, TRANSFERS)
    }

    fn field(name: &str) -> Column {
        Column::Field(name.to_owned())
    }

    #[test]
    fn a_header_names_known_columns_once_however_they_are_written() {
        let plain = Columns::default();
        let expected = ["source", "destination", "value", "notBefore"].map(field).to_vec();
        let read = header(&plain, &["source", "Destination", "VALUE", "notbefore"]);
        assert_eq!(read, Ok(expected));
        for (line, expected) in [
            (vec!["source;destination;value"], "comma-separated"),
            (vec!["source", "destination", "value", "Value"], "column value is named twice"),
            (vec!["source", "destination"], "column value is missing"),
            (vec!["source", "destination", "value", "reference"], "--ignore-columns"),
        ] {
            let error = header(&plain, &line).expect_err(expected);
            assert!(error.contains(expected), "{error:?} should say {expected:?}");
        }
    }

    #[test]
    fn columns_stand_for_fields_for_metadata_or_for_nothing_as_the_user_says() {
        let columns = Columns {
            named: vec![("id".into(), "Ref".into()), ("value".into(), "Amount".into())],
            ignored: vec!["value".into(), "booked".into()],
            metadata: vec!["Note".into()],
        };
        assert_eq!(columns.check(TRANSFERS), Ok(()));
        let line = ["ref", "source", "destination", "amount", "Value", "Booked", "Note"];
        let expected = vec![
            field("id"),
            field("source"),
            field("destination"),
            field("value"),
            Column::Ignored,
            Column::Ignored,
            Column::Metadata("Note".into()),
        ];
        assert_eq!(header(&columns, &line), Ok(expected));
        let line = ["ref", "source", "destination", "amount", "id", "Note"];
        let error = header(&columns, &line).expect_err("two ids");
        assert!(error.contains("id is in the column \"Ref\""), "{error}");
        let error = header(&columns, &["ref", "source", "destination", "amount"]);
        let error = error.expect_err("no note");
        assert_eq!(
            error,
            "there is no column \"Note\"; the columns are ref, source, destination, amount"
        );
    }

    #[test]
    fn a_column_without_a_name_is_passed_over_while_it_is_empty() {
        let line = ["source", "destination", "value", "", ""];
        let roles = header(&Columns::default(), &line).expect("spreadsheets write it");
        assert_eq!(roles[3..], [Column::Nameless, Column::Nameless]);
    }

    #[test]
    fn a_field_that_there_is_not_or_that_is_named_twice_is_an_error() {
        let named = |pairs: &[(&str, &str)]| Columns {
            named: pairs.iter().map(|(one, other)| ((*one).into(), (*other).into())).collect(),
            ..Columns::default()
        };
        for (columns, schema, expected) in [
            (named(&[("amount", "Amount")]), TRANSFERS, "\"amount\" is not a field; fields are id"),
            (named(&[("id", "A"), ("id", "B")]), TRANSFERS, "id is named twice"),
            (named(&[("source", "A"), ("destination", "a")]), TRANSFERS, "column \"a\" is named"),
            (named(&[("value", "Amount")]), ACCOUNTS, "\"value\" is not a field"),
        ] {
            let error = columns.check(schema).expect_err(expected);
            assert!(error.contains(expected), "{error:?} should say {expected:?}");
        }
    }

    #[test]
    fn a_file_of_results_is_read_as_the_file_that_it_was_made_of() {
        let mut line = RESULT_COLUMNS.to_vec();
        line.extend(["id", "source", "destination", "value"]);
        let roles = header(&Columns::default(), &line).expect("a file of results");
        assert_eq!(roles[..5], vec![Column::Ignored; 5]);
        assert_eq!(roles[5..], ["id", "source", "destination", "value"].map(field));
        let lone = header(&Columns::default(), &["line", "source", "destination", "value"]);
        assert!(lone.expect_err("no file of results").contains("\"line\" is not a column"));
    }
}
